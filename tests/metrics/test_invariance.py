"""Metrics of invariance on models for which they are known, and the bound of section 3 of LTT, computed exactly."""

import math
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Independent, Normal, Uniform
from torch.distributions import kl_divergence as torch_kl

from erlangen.distributions import Categorical, GlobalUniform
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.metrics import (
    Bootstrap,
    Orbit,
    consistency,
    controlled,
    distribution_invariance,
    ekld,
    expected_divergence,
    invariance_bound,
    jacobian_norm,
    logit_invariance,
    prediction_change,
    saliency_similarity,
    shifted_total_variation,
    there_and_back,
    total_variation,
)
from erlangen.metrics.invariance import distribution_error, logit_error
from erlangen.models import Averaged
from erlangen.objectives.invariance import normalised_logit_error
from erlangen.transforms import Affine, Dihedral, Flips, Rotations, Shifts

from .classifiers import Symmetric, linear, network

METRICS = [logit_invariance, distribution_invariance, consistency]
PERFECT = {logit_invariance: 0.0, distribution_invariance: 0.0, consistency: 1.0}


def turns(width=math.pi):
    return Independent(Uniform(torch.tensor([-width]), torch.tensor([width])), 1)


def test_logits_of_a_linear_map_move_by_the_map_of_the_difference():
    """½ |W (x - Gx)|², as in the proof of proposition 3.1."""
    model, x, y = linear(), torch.rand(5, 1, 6, 6), torch.tensor([0, 0, 1, 3, 3])
    found = logit_invariance(model, x, Rotations(4), y=y)
    gaps = torch.stack([(x - x.rot90(k, (-2, -1))).flatten(1) @ model[1].weight.T for k in (1, 2, 3)])
    each = gaps.square().sum(-1).mean(0).detach() / 2
    torch.testing.assert_close(found.inputs, each)
    torch.testing.assert_close(found.mean, each.mean())
    torch.testing.assert_close(found.classes[[0, 1, 3]], torch.stack((each[:2].mean(), each[2], each[3:].mean())))
    assert found.classes[2].isnan()
    assert found.interval[0] < found.mean < found.interval[1]
    assert not found.inputs.requires_grad


@pytest.mark.parametrize("metric", [logit_invariance, distribution_invariance, consistency, jacobian_norm])
def test_a_class_that_is_ruled_out_changes_nothing(metric):
    model, x, orbit = network(), torch.rand(5, 1, 6, 6), [] if metric is jacobian_norm else [Rotations(4)]

    def masked(x):
        return F.pad(model(x), (0, 1), value=-math.inf)

    for one, other in zip(metric(masked, x, *orbit), metric(model, x, *orbit), strict=True):
        assert (one is None and other is None) or torch.allclose(one, other)


def test_a_class_that_is_ruled_out_for_some_is_infinitely_far():
    found = logit_invariance(lambda x: F.pad(x[:, 0, :, 0].log(), (0, 1)), torch.eye(2)[None, None], Flips())
    assert found.inputs.tolist() == [math.inf]


@pytest.mark.parametrize("error", [logit_error, distribution_error, normalised_logit_error])
def test_errors_of_classes_that_are_ruled_out_have_gradients(error):
    logits, moved = torch.randn(4, 3, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)
    expected = error(logits, moved)
    found = error(F.pad(logits, (0, 1), value=-math.inf), F.pad(moved, (0, 1), value=-math.inf))
    torch.testing.assert_close(found, expected)
    grads = [torch.autograd.grad(e.sum(), (logits, moved)) for e in (found, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other)


def test_the_expected_divergence_of_a_model_is_that_of_its_predictions():
    model, x, y = linear(), torch.rand(5, 1, 6, 6), torch.tensor([0, 0, 1, 3, 3])
    log_probs, moved = (
        model(t).detach().log_softmax(-1) for t in (x, torch.cat([x.rot90(k, (2, 3)) for k in (1, 2, 3)]))
    )
    expected = ekld(log_probs, moved.unflatten(0, (3, 5)), y)
    found = expected_divergence(model, x, Rotations(4), y=y, batch_size=2)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.classes, other, equal_nan=True)
        assert one.interval[0] < one.mean < one.interval[1]
    same = distribution_invariance(model, x, Rotations(4), y=y)
    for one, other in zip(found.forward, same, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)
    assert (found.forward.inputs - found.backward.inputs).abs().min() > 1e-6
    with pytest.raises(ValueError, match=r"^model: received .* of one class"):
        expected_divergence(linear(classes=1), x, Rotations(4))


@pytest.mark.parametrize("metric", [distribution_invariance, expected_divergence])
def test_divergences_of_probabilities_are_refused(metric):
    """Their softmax is nearly even; their logarithms are logits."""
    model, x = linear(), torch.rand(6, 1, 6, 6)
    with pytest.raises(ValueError, match=r"^model: received probabilities of all inputs; accepted are logits"):
        metric(lambda x: model(x).softmax(-1), x, Rotations(4), batch_size=2)
    found, logs = (metric(one, x, Rotations(4)) for one in (model, lambda x: model(x).log_softmax(-1)))
    first, second = (each.forward if metric is expected_divergence else each for each in (found, logs))
    torch.testing.assert_close(first.mean, second.mean)


def test_predictions_of_a_linear_map_diverge_as_torch_says():
    model, x = linear(), torch.rand(5, 1, 6, 6)
    p = torch.distributions.Categorical(logits=model(x))
    moved = [torch.distributions.Categorical(logits=model(x.rot90(k, (-2, -1)))) for k in (1, 2, 3)]
    found = distribution_invariance(model, x, Rotations(4)).inputs
    torch.testing.assert_close(found, torch.stack([torch_kl(p, q) for q in moved]).mean(0).detach())
    # The other direction is another number.
    assert not torch.allclose(found, torch.stack([torch_kl(q, p) for q in moved]).mean(0).detach(), rtol=1e-3)


def test_divergences_of_near_predictions_are_no_negative_rounding():
    """In single precision, of logits that differ by less than that has digits, up to as much as they are apart."""
    for scale in (1.0, 5.0, 30.0, 1000.0):
        for apart in (0.0, 1e-7, 1e-4, 0.01, 1.0):
            logits = scale * torch.randn(200, 10)
            pair = [logits.float(), (logits + apart * torch.randn(200, 10)).float()]
            p, q = (z.double().log_softmax(-1) for z in pair)
            found, plain = distribution_error(*pair), (p.exp() * (p - q)).sum(-1)
            assert not found.signbit().any()
            # Log-probabilities are rounded by about an ulp of the logits.
            torch.testing.assert_close(found.double(), plain, rtol=1e-3, atol=1e-7 * max(apart, 1e-6) * scale)


def test_a_divergence_has_the_slope_of_its_plain_form():
    """Also where a class has no probability in single precision: q - p for the logits of q."""
    logits, moved = torch.tensor([0.0, 1.0, -200.0]), torch.tensor([1.0, 1.5, 0.0], requires_grad=True)
    distribution_error(logits.float(), moved.float()).backward()
    torch.testing.assert_close(moved.grad, (moved.softmax(-1) - logits.softmax(-1)).detach(), rtol=1e-6, atol=1e-7)


def test_decisions_are_counted():
    """A model that says where the one bright pixel is, of four: each shift but the identity changes its mind."""
    x = torch.eye(4)[:, None]
    assert consistency(lambda x: x[:, 0], x, Shifts(4)).inputs.tolist() == [0, 0, 0, 0]
    # Whether it is at an even place: one shift of three keeps it.
    parity = consistency(lambda x: x[:, 0].unflatten(1, (2, 2)).sum(1), x, Shifts(4))
    torch.testing.assert_close(parity.inputs, torch.full((4,), 1 / 3))


def test_a_constant_added_to_all_logits_is_seen_by_logits_only():
    def model(x):
        return x[:, 0, :1].expand(-1, 3) + torch.arange(3.0)

    x = torch.rand(4, 1, 6)
    assert logit_invariance(model, x, Shifts(3)).mean > 0.01
    assert distribution_invariance(model, x, Shifts(3)).mean < 1e-15
    assert consistency(model, x, Shifts(3)).mean == 1


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("group", [Rotations(4), Shifts(3), Flips(), Dihedral(4)], ids=lambda g: type(g).__name__)
def test_an_invariant_model_is_perfect_and_its_network_is_not(metric, group):
    model, x = Symmetric(group), 3 * torch.randn(6, 1, 6, 6)
    found = metric(model, x, group)
    torch.testing.assert_close(found.inputs, torch.full((6,), PERFECT[metric]), atol=1e-14, rtol=0)
    assert (metric(model.net, x, group).mean - PERFECT[metric]).abs() > 0.1


@pytest.mark.parametrize("metric", METRICS)
def test_batch_size_changes_nothing_and_the_seed_decides(metric):
    model, x = linear(), torch.randn(7, 1, 6, 6)
    for law in (turns(), GlobalUniform.over(Affine("angle"), 1, spread=0.5)):
        orbit = Orbit(Affine("angle"), law, samples=5)
        first = metric(model, x, orbit, batch_size=100)
        for size in (1, 3, 8):
            torch.testing.assert_close(metric(model, x, orbit, batch_size=size), first)
        assert torch.equal(metric(model, x, orbit, batch_size=100).inputs, first.inputs)
        other = Orbit(Affine("angle"), law, samples=5, seed=1)
        assert not torch.equal(metric(model, x, other).inputs, first.inputs)


def test_measuring_moves_no_global_generator_and_a_random_model_is_seeded():
    conditional = GlobalUniform.over(Affine("angle"), 1)
    model = Averaged(nn.Sequential(linear(), nn.Dropout(0.5)), Affine("angle"), conditional, samples=3)
    x, before = torch.rand(3, 1, 6, 6), torch.get_rng_state()
    first, second = (logit_invariance(model, x, Orbit(Affine("angle"), turns())) for _ in range(2))
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert model.model.training


def test_many_draws_come_near_the_law():
    """A model that reads the angle off: its logit is (cos, sin) of it, so ½ |f(x) - f(gx)|² = 1 - cos(angle)."""
    x = torch.zeros(1, 1, 41, 41)
    x[..., 20, 28:32] = 1.0
    places = torch.arange(41.0) - 20

    def model(x):
        mass = x.sum((1, 2, 3))
        centre = torch.stack(((x * places).sum((1, 2, 3)), (x * -places[:, None]).sum((1, 2, 3))), 1) / mass[:, None]
        return centre / 9.5

    found = logit_invariance(model, x, Orbit(Affine("angle"), turns(), samples=2000))
    # 1 - cos has the mean 1 and the standard deviation 0.71: five standard errors, and 0.01 for interpolation.
    assert found.mean.item() == pytest.approx(1.0, abs=5 * 0.71 / 2000**0.5 + 0.01)


def test_the_null_control_sees_resampling_and_nothing_else():
    """A model of the mass of fine detail is invariant to rotation but for the blur of interpolation."""

    def model(x):
        detail = x.diff(dim=-1).square().sum((1, 2, 3)) + x.diff(dim=-2).square().sum((1, 2, 3))
        return torch.stack((detail, -detail), 1) / 100

    x = torch.rand(4, 1, 16, 16)
    orbit = Orbit(Affine("angle"), turns(), samples=8, disc=True)
    measured, null = controlled(logit_invariance, model, x, orbit, y=torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(measured, logit_invariance(model, x, orbit, y=torch.tensor([0, 0, 1, 1])))
    torch.testing.assert_close(null, logit_invariance(model, x, there_and_back(orbit), y=torch.tensor([0, 0, 1, 1])))
    # All of it is resampling: two warps change it more than one.
    assert 0.01 < measured.mean < null.mean
    # Of a model that reads corners, little is; and exact groups have none at all.
    measured, null = controlled(logit_invariance, linear(size=256), x, orbit)
    assert null.mean < 0.5 * measured.mean
    measured, null = controlled(logit_invariance, linear(size=256), x, Rotations(4))
    assert measured.mean > 0.01
    assert null.mean == 0


def test_only_the_disc_counts():
    """A model that reads the corners sees none of them, and so does not change."""

    def corners(x):
        return torch.stack((x[:, 0, 0, 0], x[:, 0, -1, -1]), 1)

    x = torch.rand(4, 1, 8, 8)
    for orbit in (Orbit(Rotations(4), disc=True), Orbit(Affine("angle"), turns(), disc=True)):
        assert logit_invariance(corners, x, orbit).mean == 0
    assert logit_invariance(corners, x, Rotations(4)).mean > 0.01


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision(dtype):
    """Differences of logits are not rounded once more, and what is measured has an interval."""
    model, x = network(), torch.rand(5, 1, 6, 6)
    half, small = deepcopy(model).to(dtype), x.to(dtype)
    for metric in (logit_invariance, distribution_invariance, consistency, saliency_similarity):
        found, exact = metric(half, small, Rotations(4)), metric(model, x, Rotations(4))
        assert found.inputs.dtype == found.interval.dtype == torch.float32
        if metric in (logit_invariance, distribution_invariance):
            torch.testing.assert_close(found.mean.double(), exact.mean, rtol=0.1, atol=0)
    for method in ("exact", "power"):
        found, exact = jacobian_norm(half, small, method=method), jacobian_norm(model, x, method=method)
        torch.testing.assert_close(found.inputs.double(), exact.inputs, rtol=0.1, atol=0)


@pytest.mark.parametrize("metric", [*METRICS, saliency_similarity, jacobian_norm])
def test_what_is_no_number_is_not_invariant(metric):
    x = torch.rand(3, 1, 6, 6)
    x[1, 0, 2, 2] = math.nan
    args = () if metric is jacobian_norm else (Rotations(4),)
    with pytest.raises(ValueError, match=r"^model: received NaN or infinite logits for 1 of 3 inputs"):
        metric(network(), x, *args)


@pytest.mark.parametrize("metric", [*METRICS, saliency_similarity, jacobian_norm])
def test_a_model_that_changes_its_inputs_changes_no_data(metric):
    model, x = network(), torch.rand(3, 1, 6, 6)
    args = () if metric is jacobian_norm else (Rotations(4),)

    def centred(x):
        x -= 0.5
        return model(x)

    given = x.clone()
    found = metric(centred, given, *args)
    assert torch.equal(given, x)
    assert torch.equal(found.inputs, metric(lambda x: model(x - 0.5), x, *args).inputs)


def test_one_logit_decides_nothing():
    """Its softmax is 1 whatever the input, and so would be invariant; with a zero beside it, it is not."""
    x, single = torch.rand(5, 1, 6, 6), linear(classes=1)
    for metric in (distribution_invariance, consistency):
        with pytest.raises(ValueError, match=r"^model: received .* one class"):
            metric(single, x, Rotations(4))
    double = distribution_invariance(lambda z: F.pad(single(z), (1, 0)), x, Rotations(4))
    assert double.mean > 0
    assert logit_invariance(single, x, Rotations(4)).mean > 0


def test_single_precision_and_bytes():
    model, x = linear(), torch.randint(256, (3, 1, 6, 6), dtype=torch.uint8)
    exact = logit_invariance(model, x, Rotations(4))
    torch.testing.assert_close(exact, logit_invariance(model, x.double() / 255, Rotations(4)))
    single = logit_invariance(model.float(), x.float() / 255, Orbit(Rotations(4)))
    assert single.inputs.dtype == single.interval.dtype == torch.float32
    torch.testing.assert_close(single.inputs.double(), exact.inputs, rtol=1e-5, atol=0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model", {"model": 3}),
        ("model", {"model": lambda x: x}),
        ("x", {"x": torch.rand(6, 6)}),
        ("orbit", {"orbit": Affine("angle")}),
        ("y", {"y": torch.tensor([0])}),
        ("y", {"y": torch.tensor([0, 1, 4])}),
        ("batch_size", {"batch_size": 0}),
        ("bootstrap", {"bootstrap": Bootstrap(level=95.0)}),
    ],
)
def test_bad_input_is_named(metric, name, change):
    good = {"model": linear(), "x": torch.rand(3, 1, 6, 6), "orbit": Rotations(4)}
    with pytest.raises(ValueError, match=f"^{name}: received"):
        metric(**good | change)


@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 4.0])
def test_total_variation_of_two_normals(distance):
    n = 40_000
    p, q = Normal(0.0, 1.0), Normal(distance, 1.0)
    v = torch.cat((p.sample((n,)), q.sample((n,)))).double()
    exact = math.erf(distance / 2 / math.sqrt(2))
    # Terms lie within [0, 1]: six standard errors of at most 1 / (2 √2n).
    assert total_variation(p.log_prob(v), q.log_prob(v)).item() == pytest.approx(exact, abs=3 / math.sqrt(2 * n))


def test_total_variation_without_overlap():
    inf = math.inf
    assert total_variation(torch.tensor([0.0, -inf]), torch.tensor([-inf, 0.0])).item() == 1
    assert total_variation(torch.tensor([0.0, -inf]), torch.tensor([0.0, -inf])).item() == 0


def test_an_equivariant_distribution_has_no_variation():
    loc, scale, shift = torch.randn(3, 2), torch.rand(3, 2) + 0.1, torch.randn(3, 2)
    q, moved = GaussianDensity(loc, scale), GaussianDensity(loc - shift, scale)
    torch.testing.assert_close(shifted_total_variation(q, moved, shift, 100), torch.zeros(3))
    assert (shifted_total_variation(q, moved, -shift, 100) > 0.01).all()


Q = GaussianDensity(torch.zeros(3, 2), torch.ones(3, 2))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("log_probs", lambda: prediction_change([0.0], torch.zeros(1))),
        ("log_p", lambda: total_variation([0.0], torch.zeros(1))),
        ("q", lambda: shifted_total_variation(Normal(0.0, 1.0), Q, torch.zeros(2), 5)),
        ("moved", lambda: shifted_total_variation(Q, None, torch.zeros(2), 5)),
        ("shift", lambda: shifted_total_variation(Q, Q, 0.5, 5)),
        ("shift", lambda: shifted_total_variation(Q, Q, torch.zeros(5, 3, 2), 5)),
        ("views", lambda: invariance_bound(torch.zeros(3, 4), torch.zeros(3))),
        ("variation", lambda: invariance_bound(torch.zeros(3, 4, 5), torch.zeros(3))),
        ("variation", lambda: invariance_bound(torch.zeros(3, 4, 5), 0.5)),
    ],
)
def test_arguments_of_the_bound_are_named(name, make):
    with pytest.raises(ValueError, match=f"^{name}: received"):
        make()


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds_exactly_on_a_finite_group(seed):
    """Turned by a quarter, everything is a sum of four terms: change, variation, and the range of the classifier."""
    torch.manual_seed(seed)
    group = Rotations(4)
    conditional = Categorical.over(group, 4, encoder=nn.Sequential(nn.Flatten(), nn.Linear(36, 4)))
    with torch.no_grad():
        conditional.head.last.weight.normal_()
    model = Averaged(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), group, conditional)
    x = torch.rand(5, 1, 6, 6)
    for k in range(1, 4):
        turned = group.act(torch.full((5,), k), x)
        change = prediction_change(model(x).log_probs, model(turned).log_probs)
        p, moved = conditional(x).log_probs.exp(), conditional(turned).log_probs.exp()
        # The image turned by k and then by j is the image turned by j + k.
        variation = (p - moved.roll(k, -1)).abs().sum(-1) / 2
        bound = invariance_bound(model(x).views.log_softmax(-1), variation)
        assert (change <= bound + 1e-12).all()
        assert (bound <= 2).all()


def test_logits_are_not_taken_for_log_probabilities():
    """As the views of a prediction are: they would give some number as well."""
    logits = torch.randn(3, 4, 5)
    good, variation, words = logits.log_softmax(-1), torch.rand(4), "received what does not sum to one, such as logits"
    with pytest.raises(ValueError, match=f"^views: {words}"):
        invariance_bound(logits, variation)
    for name, pair in {"log_probs": (logits, good), "moved_log_probs": (good, logits)}.items():
        with pytest.raises(ValueError, match=f"^{name}: {words}"):
            prediction_change(*pair)


def test_shapes_that_do_not_match():
    with pytest.raises(ValueError, match="moved_log_probs"):
        prediction_change(torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="log_q"):
        total_variation(torch.zeros(3), torch.zeros(4))
