"""Points that stand for a distribution: exact where they can be, unbiased always, better than chance where asked."""

import math

import pytest
import torch
import zuko
from torch.distributions import Independent, Normal

from erlangen.distributions import Dirac, Gaussian, MeanFieldUniform, Mixture, RealNVP, StudentT, mean_of, quadrature
from erlangen.distributions.bounded import BoundedDensity
from erlangen.distributions.categorical import CategoricalDensity
from erlangen.distributions.circle import shortest
from erlangen.distributions.gaussian import Atom, GaussianDensity
from erlangen.distributions.joint import JointDensity
from erlangen.distributions.mixture import MixtureDensity
from erlangen.distributions.standard_t import StandardT
from erlangen.distributions.student import StudentDensity
from erlangen.distributions.uniform import UniformDensity
from erlangen.utils.seeds import generator

SOURCES = ("random", "antithetic", "sobol")
ROWS = 400


def gaussian(loc=0.0, scale=0.5):
    return GaussianDensity(torch.full((ROWS, 2), loc), torch.full((ROWS, 2), scale))


def estimates(q, n, points, h):
    v, log_weights, _ = quadrature(q, n, points=points)
    return (log_weights.exp() * h(v)).sum(0)


@pytest.mark.parametrize("n", [2, 10])
def test_antithetic_points_cancel_what_is_odd(n):
    v = quadrature(gaussian(), n, points="antithetic").v
    assert torch.equal(v[n // 2 :], -v[: n // 2])
    low, high = torch.tensor([[-1.0, 0.0]]), torch.tensor([[3.0, 0.5]])
    v = quadrature(UniformDensity(low, high), n, points="antithetic").v
    assert torch.allclose(v.mean(0), (low + high) / 2, rtol=1e-15)
    v = quadrature(StudentT(2, 3)(torch.zeros(1, 3)), n, points="antithetic").v
    assert v.mean(0).abs().max() < 1e-12


def test_antithetic_points_cancel_around_each_component():
    loc = torch.tensor([[[-5.0], [5.0]]])
    q = MixtureDensity(torch.zeros(1, 2), loc, torch.full((1, 2, 1), 0.1))
    v = quadrature(q, 8, points="antithetic").v[:, 0, 0]
    assert torch.allclose(v[:4] + v[4:], 10 * v[:4].sign())
    assert (v > 0).sum() == 4


def test_an_odd_number_of_antithetic_points():
    q = gaussian()
    points = quadrature(q, 5, points="antithetic")
    assert points.v.shape == (5, ROWS, 2)
    assert torch.equal(points.v[3:], -points.v[:2])
    assert torch.allclose(points.log_weights.exp().sum(0), torch.ones(ROWS))


@pytest.mark.parametrize("n", [1, 7, 100])
def test_components_get_the_floor_or_the_ceiling_of_their_share(n):
    logits = torch.randn(ROWS, 5)
    q = CategoricalDensity(logits, torch.arange(5.0)[:, None])
    chosen = quadrature(q, n, exact=False).v[..., 0].long()
    counts = torch.nn.functional.one_hot(chosen, 5).sum(0)
    share = n * logits.softmax(-1)
    assert (counts >= (share - 1e-9).floor()).all()
    assert (counts <= (share + 1e-9).ceil()).all()


def test_enumerated_components_have_points_in_turn_and_their_probability_as_weight():
    logits = torch.randn(ROWS, 3, requires_grad=True)
    loc = torch.tensor([-20.0, 0.0, 20.0]).reshape(1, 3, 1).expand(ROWS, 3, 1)
    q = MixtureDensity(logits, loc, torch.full((ROWS, 3, 1), 0.1))
    v, log_weights, log_q = quadrature(q, 6, points="enumerated")
    assert torch.equal((v[..., 0] / 20).round(), torch.tensor([-1.0, 0.0, 1.0]).repeat(2)[:, None].expand(6, ROWS))
    assert torch.allclose(log_weights.exp()[:3] + log_weights.exp()[3:], logits.softmax(-1).T)
    assert torch.allclose(log_q, q.log_prob(v))
    # Whatever does not vary within a component is summed without any noise, and so is its gradient.
    value = (log_weights.exp() * (v[..., 0] / 20).round()).sum()
    exact = (logits.softmax(-1) * torch.tensor([-1.0, 0.0, 1.0])).sum()
    both = [torch.autograd.grad(x, logits, retain_graph=True)[0] for x in (value, exact)]
    assert torch.allclose(*both, atol=1e-14)
    with pytest.raises(ValueError, match="received 4 points, enumerated, for 3 components; accepted is a multiple"):
        quadrature(q, 4, points="enumerated")


def test_an_impossible_component_has_no_weight_and_no_gradient():
    logits = torch.tensor([[0.0, -math.inf, 1.0]], requires_grad=True)
    q = CategoricalDensity(logits, torch.arange(3.0)[:, None])
    for points, weights in (("enumerated", logits.softmax(-1)[0]), ("random", torch.full((3,), 1 / 3))):
        found = quadrature(q, 3, exact=False, points=points).log_weights.exp()[:, 0]
        assert torch.allclose(found, weights)
        assert torch.autograd.grad(found[0], logits, retain_graph=True)[0].isfinite().all()


def smooth(v):
    return (v.sum(-1) + 0.3).cos()


# E cos(a + b + 0.3) for two normals with scale 0.5.
EXACT = math.cos(0.3) * math.exp(-0.25)


@pytest.mark.parametrize("points", SOURCES)
@pytest.mark.parametrize("n", [1, 3, 16])
def test_every_source_is_unbiased(points, n):
    value = estimates(gaussian(), n, points, smooth)
    # Five standard errors: what is right fails once in 2e6.
    assert (value.mean() - EXACT).abs() < 5 * value.std() / math.sqrt(ROWS)


def test_sobol_points_are_better_than_chance_and_better_with_more():
    def error(points, n):
        return (estimates(gaussian(), n, points, smooth) - EXACT).square().mean().sqrt()

    assert error("sobol", 256) < error("random", 256) / 10
    assert error("sobol", 64) / error("sobol", 1024) > 16**0.8  # independent samples: 16**0.5
    assert 2.5 < error("random", 64) / error("random", 1024) < 6


def test_sobol_points_choose_components_too():
    loc = torch.tensor([-1.0, 2.0]).reshape(1, 2, 1).expand(ROWS, 2, 1)
    q = MixtureDensity(torch.tensor([0.4, -0.3]).expand(ROWS, 2), loc, torch.full((ROWS, 2, 1), 0.3))
    exact = (q.logits.softmax(-1) * loc.squeeze(-1)).sum(-1)
    for points, bound in (("random", 0.05), ("sobol", 0.02)):
        value = estimates(q, 256, points, lambda v: v[..., 0])
        assert (value - exact).square().mean().sqrt() < bound
        assert (value - exact).mean().abs() < 5 * value.std() / math.sqrt(ROWS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sobol_points_in_half_precision(dtype):
    def found(dtype):
        q = GaussianDensity(torch.zeros(3, 2, dtype=dtype), torch.ones(3, 2, dtype=dtype))
        return quadrature(q, 64, points="sobol", generator=torch.Generator().manual_seed(1)).v

    assert found(dtype).dtype == dtype
    torch.testing.assert_close(found(dtype), found(torch.float32), atol=0.02, rtol=0, check_dtype=False)


@pytest.mark.parametrize("points", SOURCES)
def test_inputs_have_noise_of_their_own(points):
    v = quadrature(gaussian(), 4, points=points).v
    assert v.std(1).min() > 0.1


@pytest.mark.parametrize("points", SOURCES)
@pytest.mark.parametrize("family", [Gaussian, StudentT, MeanFieldUniform, Mixture, RealNVP])
def test_every_family_takes_every_source(family, points):
    q = family(3, 4, periodic=(False, True, False), bounds=(-1.0, 1.0))(torch.randn(5, 4))
    found = quadrature(q, 6, points=points, generator=torch.Generator().manual_seed(1))
    assert found.v.shape == (6, 5, 3)
    assert torch.allclose(q.log_prob(found.v), found.log_q)
    assert torch.allclose(found.log_weights, torch.tensor(-math.log(6)))
    assert torch.equal(found.v, quadrature(q, 6, points=points, generator=torch.Generator().manual_seed(1)).v)


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
@pytest.mark.parametrize("points", SOURCES)
def test_a_dirac_is_one_point(points, bounds):
    net = Dirac(2, 3, bounds=bounds)
    with torch.no_grad():
        net.loc.last.weight.normal_()
    q = net(torch.randn(4, 3))
    for exact in (True, False):
        v, log_weights, _ = quadrature(q, 7, points=points, exact=exact)
        assert torch.equal(v, q.rsample((1,)))
        assert torch.equal(log_weights, torch.zeros(1, 4))
        assert v.requires_grad
        assert torch.equal(q.mean, v[0])


def test_distributions_of_torch():
    loc = torch.zeros(ROWS, 2, requires_grad=True)
    q = Independent(Normal(loc, 0.5), 1)
    v, log_weights, log_q = quadrature(q, 8)
    assert v.shape == (8, ROWS, 2)
    assert torch.equal(log_q, q.log_prob(v))
    assert torch.allclose(log_weights.exp().sum(0), torch.ones(ROWS))
    value = (log_weights.exp() * smooth(v)).sum(0)
    assert (value.mean() - EXACT).abs() < 5 * value.std() / math.sqrt(ROWS)
    value.sum().backward()
    assert loc.grad.abs().min() > 0


def test_flows_of_zuko():
    flow = zuko.flows.NSF(2, context=3, transforms=2, hidden_features=(8,))
    q = flow(torch.randn(5, 3))
    v, log_weights, log_q = quadrature(q, 6)
    assert v.shape == (6, 5, 2)
    assert torch.allclose(q.log_prob(v), log_q)
    (log_weights.exp() * (v.square().sum(-1) + log_q)).sum().backward()
    assert all(p.grad is not None for p in flow.parameters())


def test_the_estimates_say_how_good_they_are():
    q = gaussian(loc=0.3)
    entropy, error = q.entropy_estimate(1000)
    mean, mean_error = q.mean_estimate(1000)
    # Of so many standardised errors, the mean square has a standard deviation of sqrt(2 / ROWS) = 0.07.
    for value, exact, sigma in ((entropy, q.entropy(), error), (mean[:, 0], q.mean[:, 0], mean_error[:, 0])):
        assert 0.65 < ((value - exact) / sigma).square().mean() < 1.35
    assert q.entropy_estimate(1)[1].isinf().all()
    assert (q.log_prob(q.mode_estimate(1000)) > q.log_prob(q.mode) - 0.1).all()


def test_the_mean_of_angles_has_no_seam():
    q = GaussianDensity(torch.full((1, 1), 3.1), torch.full((1, 1), 0.3), (True,))
    value, error = q.mean_estimate(1000)
    assert (value - 3.1).abs() < 5 * error
    assert error < 0.02
    assert q.sample((1000,)).mean().abs() < 2  # the arithmetic mean lies elsewhere
    # A standard deviation has a relative error of 1 / sqrt(2 n), here 0.7 %; five of them are accepted.
    assert q.stddev_estimate(10_000).item() == pytest.approx(0.3, rel=0.035)
    with pytest.raises(NotImplementedError, match=r"use stddev_estimate\(n\)"):
        _ = q.stddev


def test_common_points_are_the_same_for_every_input():
    q = StudentT(2, 3)(torch.zeros(5, 3))
    v = quadrature(q, 8, points="common", generator=generator(3)).v
    assert torch.equal(v, v[:, :1].expand_as(v))
    alone = quadrature(StudentT(2, 3)(torch.zeros(1, 3)), 8, points="common", generator=generator(3)).v
    assert torch.equal(alone, v[:, :1])
    assert not torch.equal(quadrature(q, 8, points="sobol", generator=generator(3)).v, v)


def rows(*shape):
    return torch.rand(3, *shape) + 0.1


@pytest.mark.parametrize(
    "build",
    [
        lambda: GaussianDensity(rows(2), rows(2)),
        lambda: UniformDensity(-rows(2), rows(2)),
        lambda: UniformDensity(2 + rows(1), 4 + rows(1), (True,)),
        lambda: StudentDensity(rows(2), rows(2), StandardT(7.0)),
        lambda: MixtureDensity(rows(4), rows(4, 2), rows(4, 2)),
        lambda: CategoricalDensity(rows(3), torch.tensor([[0.0, 3.0], [1.0, -3.0], [3.0, 2.5]]), (False, True)),
        lambda: Atom(rows(2), (False, False)),
        lambda: BoundedDensity(UniformDensity(-rows(1), rows(1), (True,)), torch.tensor([1.0]), torch.tensor([2.0])),
        lambda: JointDensity([GaussianDensity(rows(2), rows(2)), UniformDensity(-rows(1), rows(1))]),
    ],
)
def test_a_variance_in_closed_form_is_that_of_points(build):
    q = build()
    found = q.variance
    assert found.shape == q.expand((5, 3)).variance.shape[1:] == (3, *q.event_shape)
    if q.has_enumerate_support:
        points = q.enumerated()
    else:  # Sobol points of which the mean square is off by a few thousandths
        points = quadrature(q, 2**14, points="sobol", generator=generator(1))
    gap = shortest(points.v - mean_of(points, q.periodic, q.ends)[0], q.periodic, q.ends)
    expected = (points.log_weights.exp().unsqueeze(-1) * gap.square()).sum(0)
    torch.testing.assert_close(found, expected, rtol=0.01, atol=1e-12)
    torch.testing.assert_close(q.stddev, found.sqrt())


def test_what_has_no_variance_in_closed_form_says_what_is_true():
    turned, truncated = (
        GaussianDensity(rows(1), rows(1), (True,)),
        StudentDensity(rows(1), rows(1), StandardT(3.0, 4.0)),
    )
    mixed = MixtureDensity(rows(2), rows(2, 1), rows(2, 1), (True,))
    for q in (turned, truncated, mixed, RealNVP(2, 3)(torch.zeros(1, 3))):
        with pytest.raises(NotImplementedError, match=r"no variance in closed form: use stddev_estimate\(n\)"):
            _ = q.variance
    with pytest.raises(NotImplementedError, match=r"2\.0 degrees of freedom has no variance: it needs more than two"):
        _ = StudentDensity(rows(1), rows(1), StandardT(2.0)).variance
