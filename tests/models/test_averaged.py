"""Averaging predictions over transformations."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from erlangen.distributions import Categorical, Dirac, Gaussian, GlobalUniform, MeanFieldUniform, Mixture, RealNVP
from erlangen.models import Averaged, SymmetryModel, average, logits_of
from erlangen.models.averaged import _preferred
from erlangen.transforms import Affine, Crop, Dihedral, Rotations

CLASSES = 4


def classifier(size=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, CLASSES))


def encoder(context=5, size=8):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, context))


def averaged(**kwargs):
    transform = Affine("angle", "tx")
    return Averaged(classifier(), transform, RealNVP.over(transform, 5, encoder=encoder(), layers=2, width=8), **kwargs)


@pytest.mark.parametrize("group", [Rotations(4), Dihedral(4)])
@pytest.mark.parametrize("space", ["prob", "logit", "log_prob"])
def test_the_average_over_a_whole_group_is_invariant(group, space):
    conditional = Categorical.over(group, 1, encoder=nn.Sequential(nn.Flatten(), nn.Linear(192, 1)))
    with torch.no_grad():
        conditional.head.last.bias.zero_()  # all elements alike
    model = Averaged(classifier(), group, conditional, space=space)
    x = torch.rand(3, 3, 8, 8)
    reference = model(x).log_probs
    for g in group.elements():
        torch.testing.assert_close(model(group.act(g.expand(3, *g.shape), x)).log_probs, reference)


def test_equation_8():
    model = averaged(samples=6).eval()
    x = torch.rand(2, 3, 8, 8)
    prediction = model(x)
    assert prediction.views.shape == (6, 2, CLASSES)
    assert prediction.v.shape == (6, 2, 2)
    views = model.transform(x, prediction.v)
    expected = torch.stack([model.model(view).softmax(-1) for view in views]).mean(0)
    torch.testing.assert_close(prediction.log_probs.exp(), expected)
    torch.testing.assert_close(prediction.log_probs.exp().sum(-1), torch.ones(2))


def test_spaces_differ_as_they_should():
    logits = torch.tensor([[[2.0, 0.0]], [[0.0, 0.0]]])
    weights = torch.tensor([[0.25], [0.75]]).log()
    p, q = math.exp(2) / (math.exp(2) + 1), 0.5
    assert average(logits, weights, "prob").exp()[0, 0].item() == pytest.approx(0.25 * p + 0.75 * q)
    assert average(logits, weights, "logit")[0].exp()[0].item() == pytest.approx(1 / (1 + math.exp(-0.5)))
    ratio = 0.25 * math.log(p / (1 - p))
    assert average(logits, weights, "log_prob").exp()[0, 0].item() == pytest.approx(1 / (1 + math.exp(-ratio)))


@pytest.mark.parametrize("largest", [1, 2, 3, 7, 100])
def test_chunks_change_nothing(largest):
    torch.manual_seed(0)
    model = averaged(samples=5).eval()
    x, v = torch.rand(3, 3, 8, 8), 0.1 * torch.randn(5, 3, 2)
    whole = model.views(x, v)
    model.largest = largest
    seen = []
    model.model.register_forward_hook(lambda module, args, out: seen.append(len(args[0])))
    torch.testing.assert_close(model.views(x, v), whole)
    assert max(seen) <= largest
    assert sum(seen) == 15
    model.identity = True
    model(x)
    assert max(seen) <= largest
    assert sum(seen) == 15 + 18


def test_the_identity_is_a_view_in_evaluation_only():
    model = averaged(samples=4, identity="eval")
    x = torch.rand(2, 3, 8, 8)
    assert [len(model.train(mode)(x).views) for mode in (True, False)] == [4, 5]
    with pytest.raises(ValueError, match="identity: received 'always'; accepted is False, True or 'eval'"):
        averaged(identity="always")


def test_the_identity_is_one_more_view():
    model = averaged(samples=4, identity=True).eval()
    x = torch.rand(2, 3, 8, 8)
    prediction = model(x)
    assert prediction.views.shape == (5, 2, CLASSES)
    assert prediction.v.shape == (4, 2, 2)
    torch.testing.assert_close(prediction.views[-1], model.model(x))
    torch.testing.assert_close(prediction.log_probs.exp(), prediction.views.softmax(-1).mean(0))


def test_samples_differ_between_training_and_evaluation():
    model = averaged(samples=3, eval_samples=7)
    x = torch.rand(2, 3, 8, 8)
    assert len(model(x).views) == 3
    assert len(model.eval()(x).views) == 7


def test_normalisation_comes_after_the_transformation():
    """Outside the frame is black, which normalisation turns into minus the mean."""
    transform = Affine("tx", bounds={"tx": 3.0})
    seen = []

    class Sees(nn.Module):
        def forward(self, x):
            seen.append(x)
            return torch.zeros(len(x), 2)

    model = Averaged(
        Sees(), transform, GlobalUniform.over(transform, 1), samples=1, normalise=lambda x: (x - 0.5) / 0.25
    )
    model.views(torch.rand(1, 3, 8, 8), torch.full((1, 1, 1), 2.9))
    torch.testing.assert_close(seen[0], torch.full((1, 3, 8, 8), -2.0))


def test_bytes_are_taken_as_levels():
    model = averaged(samples=2).eval()
    x = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    torch.manual_seed(1)
    first = model(x).log_probs
    torch.manual_seed(1)
    torch.testing.assert_close(model(x.double() / 255).log_probs, first)


@pytest.mark.parametrize(
    "wrap", [lambda t: t, lambda t: {"logits": t}, lambda t: SimpleNamespace(logits=t), lambda t: (t, "aux")]
)
def test_logits_in_any_wrapping(wrap):
    logits = torch.randn(2, 3)
    assert logits_of(wrap(logits)) is logits


def test_any_output_through_a_function():
    class Odd(nn.Module):
        def forward(self, x):
            return {"scores": x.flatten(1)[:, :CLASSES]}

    transform = Affine("angle")
    conditional = Gaussian.over(transform, 5, encoder=encoder())
    x = torch.rand(2, 3, 8, 8)
    with pytest.raises(ValueError, match="output_fn"):
        Averaged(Odd(), transform, conditional, samples=2)(x)
    assert Averaged(Odd(), transform, conditional, samples=2, output_fn=lambda o: o["scores"])(x).log_probs.shape == (
        2,
        4,
    )


@pytest.mark.parametrize("frozen", ["model", "conditional"])
def test_what_is_frozen_stays_as_it_is(frozen):
    transform = Affine("angle")
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
    conditional = Gaussian.over(transform, 5, encoder=nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.Dropout(0.5)))
    model = Averaged(net, transform, conditional, samples=2, frozen=[frozen]).train()
    other = {"model": "conditional", "conditional": "model"}[frozen]
    assert not any(m.training for m in getattr(model, frozen).modules())
    assert all(m.training for m in getattr(model, other).modules())
    model(torch.rand(3, 3, 8, 8)).log_probs[:, 0].sum().backward()
    assert all(p.grad is None for p in getattr(model, frozen).parameters())
    assert all(p.grad is not None for p in getattr(model, other).parameters())


def test_rejection_prefers_what_is_near():
    transform = Affine("angle", "tx")
    model = Averaged(classifier(), transform, GlobalUniform.over(transform, 1, spread=1.0), samples=20, rejection=0.5)
    x = torch.rand(3, 3, 8, 8)
    half = (transform.bounds[1] - transform.bounds[0]) / 2

    def radius(v):
        return (v / half).norm(dim=-1)

    assert (radius(model.eval()(x).v) < 0.5).all()
    assert (radius(model.train()(x).v) > 0.5).any()


def two_places(log_odds=0.0):
    """A mixture of two places, at tx = ±0.3, whatever the input."""
    transform = Affine("tx", bounds={"tx": 1.0})
    conditional = Mixture.over(transform, 5, encoder=encoder(), components=2, spread=0.01)
    with torch.no_grad():
        rows = conditional.head.last.bias.view(2, 3)  # logit, centre and scale of each
        rows[:, 0], rows[:, 1] = torch.tensor([0.0, log_odds]), torch.tensor([-0.3, 0.3]).atanh()
    return transform, conditional


@pytest.mark.parametrize("points", ["random", "antithetic", "sobol"])
def test_rejection_that_rejects_nothing_changes_no_shares(points):
    """Points come component by component, and the first ones would all be of the same."""
    transform, conditional = two_places()
    model = Averaged(classifier(), transform, conditional, samples=20, rejection=10.0, points=points).eval()
    left = (model(torch.rand(8, 3, 8, 8)).v[..., 0] < 0).double().mean(0)
    assert left.tolist() == pytest.approx([0.5] * 8, abs=0.051)


def test_rejection_keeps_the_weights_of_components():
    transform, conditional = two_places(log_odds=4.0)
    model = Averaged(classifier(), transform, conditional, samples=20, rejection=10.0, points="enumerated").eval()
    found = model(torch.rand(4, 3, 8, 8))
    share = (found.log_weights.exp() * (found.v[..., 0] > 0)).sum(0)
    assert share.tolist() == pytest.approx([torch.tensor(4.0).sigmoid().item()] * 4)


def test_few_points_that_are_near_come_first_and_others_fill_up():
    near = torch.zeros(30, 2, dtype=torch.bool)
    near[[4, 11], 0] = True  # too few of the first input, none of the second
    chosen = _preferred(near, 5)
    assert chosen[:2, 0].tolist() == [4, 11]
    assert len(set(chosen[:, 0].tolist())) == len(set(chosen[:, 1].tolist())) == 5
    assert chosen[:, 1].tolist() == [3, 9, 15, 21, 27]
    near[:] = True
    assert _preferred(near, 5)[:, 0].tolist() == [3, 9, 15, 21, 27]


@pytest.mark.parametrize("near", [0.1, 1.0])
def test_rejection_among_finitely_many_keeps_their_probabilities(near):
    group = Rotations(4)
    conditional = Categorical.over(group, 5, encoder=encoder(), logits=[3.0, 1.0, 0.0, 2.0])
    x = torch.rand(3, 3, 8, 8)
    every = Averaged(classifier(), group, conditional, samples=8).eval()(x)
    some = Averaged(classifier(), group, conditional, samples=8, rejection=near).eval()(x)
    gap = (every.v[..., 0] - group.origin).abs() / 2
    gap = torch.minimum(gap, 2 - gap) if group.periodic[0] else gap
    kept = gap < near
    expected = every.log_weights.exp() * kept
    torch.testing.assert_close(some.log_weights.exp(), expected / expected.sum(0))
    torch.testing.assert_close(some.log_probs.exp().sum(-1), torch.ones(3))


def test_rejection_of_a_single_point_is_none():
    transform = Affine("tx")
    x, net, single = torch.rand(3, 3, 8, 8), classifier(), Dirac.over(transform, 5, encoder=encoder())
    plain = Averaged(net, transform, single, samples=20).eval()(x)
    near = Averaged(net, transform, single, samples=20, rejection=1.0).eval()(x)
    torch.testing.assert_close(near.log_probs, plain.log_probs)


def test_near_is_near_on_both_sides_of_a_seam():
    transform = Affine("angle", bounds={"angle": (0.0, 2 * math.pi)})
    conditional = Gaussian.over(transform, 5, encoder=encoder(), spread=0.5)
    model = Averaged(classifier(), transform, conditional, samples=50, rejection=0.3).eval()
    found = model(torch.rand(2, 3, 8, 8)).v
    assert found.max() > math.pi  # samples are told within the range, from 0 on
    angle = torch.remainder(found + math.pi, 2 * math.pi) - math.pi
    assert angle.abs().max() < 0.3 * math.pi
    assert angle.min() < -0.1 * math.pi
    assert angle.max() > 0.1 * math.pi


def test_logits_without_classes_are_refused():
    class Flat(nn.Module):
        def forward(self, x):
            return x.mean((1, 2, 3))

    transform = Affine("tx")
    for samples in (1, 3):
        with pytest.raises(ValueError, match=r"^model: received .* of shape .*; accepted is a classifier with logits"):
            Averaged(Flat(), transform, GlobalUniform.over(transform, 1), samples=samples)(torch.rand(3, 3, 8, 8))


def test_logits_in_half_precision_are_averaged_in_single():
    logits = torch.randn(4, 3, 1000, dtype=torch.bfloat16)
    for space in ("prob", "logit", "log_prob"):
        found = average(logits, torch.full((4, 3), -math.log(4), dtype=torch.float32), space)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.exp().sum(-1), torch.ones(3, dtype=torch.float32))


def test_series_too():
    from erlangen.transforms import TimeAffine

    transform = TimeAffine()
    net = nn.Sequential(nn.Flatten(), nn.Linear(2 * 16, 3))
    conditional = Gaussian.over(transform, 32, encoder=nn.Flatten())
    assert Averaged(net, transform, conditional, samples=4)(torch.rand(5, 2, 16)).log_probs.shape == (5, 3)


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"samples": 0}, "samples"),
        ({"eval_samples": -1}, "eval_samples"),
        ({"space": "odds"}, "space"),
        ({"largest": 0}, "largest"),
        ({"frozen": ["encoder"]}, "frozen"),
        ({"rejection": -1.0}, "rejection"),
        ({"normalise": "x"}, "normalise: received str 'x'; accepted is a function of images, or None"),
    ],
)
def test_bad_arguments(kwargs, match):
    with pytest.raises(ValueError, match=match):
        averaged(**kwargs)


def test_what_is_no_transform_or_conditional_is_refused():
    turn = Affine("angle")
    symmetry = SymmetryModel.over(turn, (1, 8, 8), inference=(4,), generative=(4,), layers=1, width=4)
    with pytest.raises(ValueError, match=r"transform: received SymmetryModel; .* averages its method averaged"):
        Averaged(nn.Identity(), symmetry, symmetry)
    with pytest.raises(ValueError, match=r"conditional: received Affine; accepted is a Conditional$"):
        Averaged(nn.Identity(), turn, turn)


def test_a_conditional_over_other_coordinates_is_refused():
    with pytest.raises(ValueError, match="conditional: received"):
        Averaged(classifier(), Crop(), Gaussian.over(Affine("angle"), 5))


def test_a_finite_support_is_enumerated_or_sampled():
    group = Rotations(4)
    conditional = Categorical.over(group, 1, encoder=nn.Sequential(nn.Flatten(), nn.Linear(192, 1)))
    x = torch.rand(2, 3, 8, 8)
    exact = Averaged(classifier(), group, conditional, samples=3)
    sampled = Averaged(exact.model, group, conditional, samples=4000, exact=False)
    assert exact(x).views.shape == (4, 2, CLASSES)
    prediction = sampled(x)
    assert prediction.views.shape == (4000, 2, CLASSES)
    torch.testing.assert_close(prediction.log_weights, torch.full((4000, 2), -math.log(4000)))
    # Systematic sampling: each element's share is off by less than one sample.
    torch.testing.assert_close(prediction.log_probs.exp(), exact(x).log_probs.exp(), atol=4 / 4000, rtol=0)


def test_what_is_sampled_has_the_gradient_of_its_choice():
    group = Rotations(4)
    conditional = Categorical.over(group, 1, encoder=nn.Sequential(nn.Flatten(), nn.Linear(192, 1)))
    exact = Averaged(classifier(), group, conditional)
    sampled = Averaged(exact.model, group, conditional, samples=4000, exact=False)
    x, bias = torch.rand(1, 3, 8, 8), conditional.head.last.bias
    expected, found = (torch.autograd.grad(m(x).log_probs[0, 0].exp(), bias)[0] for m in (exact, sampled))
    # Each of four shares is off by less than one sample of 4000, whose score is less than 1.
    torch.testing.assert_close(found, expected, atol=4 / 4000, rtol=0)
    assert expected.abs().max() > 0.01


@pytest.mark.parametrize("family", [Categorical, MeanFieldUniform, RealNVP])
def test_is_exported_with_a_free_batch_size(family):
    transform = Rotations(4) if family is Categorical else Affine("angle", "tx")
    conditional = family.over(transform, 5, encoder=encoder())
    model = Averaged(classifier(), transform, conditional, samples=3, identity="eval", largest=1000).eval()

    class LogProbs(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x).log_probs

    free = ({0: torch.export.Dim("batch", max=240)},)
    program = torch.export.export(LogProbs(), (torch.rand(3, 3, 8, 8),), dynamic_shapes=free).module()
    for n in (1, 7, 33):
        x = torch.rand(n, 3, 8, 8)
        found = []
        for call in (program, LogProbs()):
            torch.manual_seed(n)
            found.append(call(x))
        torch.testing.assert_close(*found)


def test_half_precision_is_widened_and_other_types_are_refused():
    turn = Affine("angle")
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    averaged = Averaged(net, turn, Gaussian.over(turn, 4, encoder=encoder), samples=2)
    x = torch.rand(2, 1, 8, 8)
    assert averaged(x.half()).log_probs.dtype == torch.float64
    with pytest.raises(ValueError, match=r"x: received a float32 tensor .*, but the model is torch.float64"):
        averaged(x.float())
    with pytest.raises(ValueError, match="model: received str; accepted is a classifier"):
        Averaged("net", turn, Gaussian.over(turn, 4))
    with pytest.raises(ValueError, match="frozen: received 'model'"):
        Averaged(net, turn, Gaussian.over(turn, 4), frozen="model")
    bare = Averaged(nn.Flatten(), turn, Gaussian.over(turn, 4, encoder=encoder), samples=2)
    assert bare((255 * x).to(torch.uint8)).views.dtype == torch.float64
