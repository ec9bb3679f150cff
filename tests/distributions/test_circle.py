"""Densities on the circle against sums that are long enough, and the map into bounds."""

import math

import pytest
import torch
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import AffineTransform, TanhTransform

from erlangen.distributions import Bounded, Gaussian
from erlangen.distributions.bounded import BoundedDensity, log_tanh_slope
from erlangen.distributions.circle import (
    by_kind,
    circular_mean,
    log_wrapped_normal,
    wrap,
    wrapped_normal_cdf,
    wrapped_normal_score,
)
from erlangen.distributions.gaussian import GaussianDensity

SCALES = torch.tensor([0.01, 0.1, 0.5, 1.0, 1.49, 1.51, 2.0, 4.0, 10.0], dtype=torch.float64)
ANGLES = torch.linspace(-math.pi, math.pi, 101, dtype=torch.float64)


def brute_force(angle, scale):
    turns = 2 * math.pi * torch.arange(-60, 61)
    return Normal(torch.zeros(()), scale[..., None]).log_prob(angle[..., None] + turns).logsumexp(-1)


def test_the_wrapped_normal_is_the_sum_over_all_windings():
    angle, scale = ANGLES[:, None].expand(-1, len(SCALES)), SCALES.expand(len(ANGLES), -1)
    torch.testing.assert_close(log_wrapped_normal(angle, scale), brute_force(angle, scale), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        log_wrapped_normal(angle + 2 * math.pi, scale), log_wrapped_normal(angle, scale), rtol=1e-9, atol=1e-9
    )


def test_its_score_and_distribution_function_are_its_derivative_and_integral():
    angle = ANGLES[:, None].expand(-1, len(SCALES)).clone().requires_grad_()
    scale, loc = SCALES.expand(len(ANGLES), -1), torch.tensor(0.7)
    (slope,) = torch.autograd.grad(log_wrapped_normal(angle, scale).sum(), angle)
    torch.testing.assert_close(wrapped_normal_score(angle, scale), slope, rtol=1e-9, atol=1e-9)
    cdf = wrapped_normal_cdf(angle, loc.expand_as(angle), scale)
    (density,) = torch.autograd.grad(cdf.sum(), angle)
    torch.testing.assert_close(density, log_wrapped_normal(angle - loc, scale).exp(), rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(cdf[0], torch.zeros_like(SCALES), rtol=0, atol=1e-12)
    torch.testing.assert_close(cdf[-1], torch.ones_like(SCALES), rtol=0, atol=1e-12)


def test_gradients_to_the_scale_are_right_on_both_sides_of_the_switch():
    scale = SCALES.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: log_wrapped_normal(torch.tensor(0.4), s), scale[1:])


def test_wrap_and_the_circular_mean():
    assert wrap(torch.tensor([3 * math.pi, -math.pi, 0.5 - 4 * math.pi])).tolist() == pytest.approx(
        [-math.pi, -math.pi, 0.5]
    )
    angles = torch.tensor([[math.pi - 0.2], [-math.pi + 0.4]])
    mean = circular_mean(angles, torch.full((2, 1), 0.5))
    assert mean.item() == pytest.approx(-math.pi + 0.1)


def test_columns_of_both_kinds_keep_their_places():
    x = torch.arange(5.0)
    result = by_kind((True, False, False, True, False), lambda t: t + 10, lambda t: -t, x)
    assert result.tolist() == [0, 11, 12, -3, 14]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_slope_of_tanh_keeps_its_digits(dtype):
    z = torch.tensor([0.0, 1e-4, 1.0, 9.0, 20.0, 80.0], dtype=dtype, requires_grad=True)
    exact = -2 * (z.detach().double().abs() + torch.log1p(torch.exp(-2 * z.detach().double().abs())) - math.log(2))
    torch.testing.assert_close(log_tanh_slope(z).double(), exact, rtol=1e-6, atol=1e-6)
    (slope,) = torch.autograd.grad(log_tanh_slope(z).sum(), z)
    torch.testing.assert_close(slope, -2 * z.detach().tanh())


def test_bounds_are_tanh_and_an_affine_map():
    loc, scale = torch.randn(3, 2), torch.rand(3, 2) + 0.1
    low, high = torch.tensor([-1.0, 0.0]), torch.tensor([2.0, 0.5])
    q = BoundedDensity(GaussianDensity(loc, scale), low, high)
    middle, half = (low + high) / 2, (high - low) / 2
    oracle = TransformedDistribution(Normal(loc, scale), [TanhTransform(), AffineTransform(middle, half)])
    v = low + (high - low) * torch.rand(50, 3, 2)
    torch.testing.assert_close(q.log_prob(v), oracle.log_prob(v).sum(-1))
    assert (q.log_prob(high.expand(3, 2) + 1e-9) == -math.inf).all()
    assert q.support.check(q.sample((1000,))).all()


def test_bounded_is_a_conditional_around_a_conditional():
    inside = Gaussian(2, 4, periodic=(False, True))
    outside = Bounded(inside, [-1.0, 0.0], [1.0, 2.0])
    x = torch.randn(3, 4)
    v, log_q = outside(x).rsample_and_log_prob((9,), torch.Generator().manual_seed(0))
    z, log_z = inside(x).rsample_and_log_prob((9,), torch.Generator().manual_seed(0))
    torch.testing.assert_close(v[..., 0], z[..., 0].tanh())
    torch.testing.assert_close(v[..., 1], 1 + z[..., 1] / math.pi)
    torch.testing.assert_close(log_q, log_z - log_tanh_slope(z[..., 0]) + math.log(math.pi))
    assert {name for name, _ in outside.named_parameters()} == {
        f"conditional.{n}" for n, _ in inside.named_parameters()
    }


def test_samples_on_a_bound_have_a_finite_density_and_gradient():
    loc = torch.full((1, 1), 30.0, requires_grad=True)
    q = BoundedDensity(GaussianDensity(loc, torch.ones(1, 1)), torch.tensor([-1.0]), torch.tensor([1.0]))
    with pytest.warns(RuntimeWarning, match="of a bound"):
        v, log_q = q.rsample_and_log_prob((5,))
    assert (v <= 1).all()
    (log_q.sum() + v.sum()).backward()
    assert log_q.isfinite().all()
    assert loc.grad.isfinite().all()
