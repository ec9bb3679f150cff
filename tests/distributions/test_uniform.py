"""Boxes: half-widths, ends that stay within the bounds, and gradients that lead back inside."""

import math

import pytest
import torch

from erlangen.distributions import Bounded, GlobalUniform, MeanFieldUniform, heads
from erlangen.distributions.uniform import UniformDensity
from erlangen.transforms import Affine, Crop

BATCH = torch.zeros(2, 3, dtype=torch.float64)


def box(conditional):
    q = conditional(BATCH)
    return q.low[0], q.high[0]


def with_width(width, **kwargs):
    return GlobalUniform(1, width=width, **kwargs)


def test_the_half_width_is_a_softplus():
    net = GlobalUniform(2, width=[0.3, 1.7])
    low, high = box(net)
    assert torch.allclose(high, torch.tensor([0.3, 1.7]))
    assert torch.equal(low, -high)
    with torch.no_grad():
        net.raw.zero_()
    assert torch.allclose(net.half_width, torch.tensor(math.log(2)), atol=2e-6, rtol=0)


def test_samples_fill_the_range_evenly():
    v = with_width(0.5)(BATCH).sample((100_000,))
    assert v.abs().max() <= 0.5
    # Kolmogorov: the probability of a greater distance is 2 exp(-2 n D²) < 1e-8.
    distance = ((v.flatten() + 0.5).sort().values - (torch.arange(200_000) + 0.5) / 200_000).abs().max()
    assert distance < math.sqrt(math.log(2e8) / 400_000)


def test_the_spread_is_a_share_of_half_the_range():
    low, high = box(GlobalUniform(2, spread=0.25, bounds=((-1.0, -math.pi), (1.0, math.pi)), periodic=(False, True)))
    assert torch.allclose(high, torch.tensor([0.25, 0.25 * math.pi]))
    assert torch.allclose(low, -high)


@pytest.mark.parametrize(("width", "low", "high"), [(0.5, 1.5, 2.5), (1.5, 0.5, 3.0), (10.0, -1.0, 3.0)])
def test_no_range_goes_beyond_the_bounds(width, low, high):
    ends = box(with_width(width, bounds=(-1.0, 3.0), origin=[2.0]))
    assert torch.allclose(torch.cat(ends), torch.tensor([low, high]))


def test_an_origin_on_a_bound():
    low, high = box(GlobalUniform.over(Crop(), 3, width=0.1))
    assert torch.allclose(low, torch.tensor([-0.1, -0.1, 0.9, 0.9]))
    assert torch.allclose(high, torch.tensor([0.1, 0.1, 1.0, 1.0]))


@pytest.mark.parametrize(("bounds", "origin"), [((-1.0, 1.0), [0.0]), ((-1.0, 3.0), [2.0]), ((0.0, 1.0), [1.0])])
def test_a_width_at_its_bound_moves_only_inward(bounds, origin):
    net = with_width(10.0, bounds=bounds, origin=origin)
    net(BATCH).entropy().sum().neg().backward()  # descent would widen it
    assert net.raw.grad == 0
    net.zero_grad()
    net(BATCH).entropy().sum().backward()  # descent narrows it
    assert net.raw.grad > 0


def test_a_clamped_width_never_returns(monkeypatch):
    """The twin: with a plain minimum, a width that passed its bound has no gradient in either direction."""
    monkeypatch.setattr(heads._Inward, "apply", torch.minimum)
    net = with_width(10.0, bounds=(-1.0, 3.0), origin=[2.0])
    net(BATCH).entropy().sum().backward()
    assert net.raw.grad == 0


def test_a_width_within_the_bounds_moves_both_ways():
    for sign in (-1, 1):
        net = with_width(0.5, bounds=(-1.0, 1.0))
        (sign * net(BATCH).entropy()).sum().backward()
        assert net.raw.grad * sign > 0


def test_the_entropy_is_the_logarithm_of_the_volume():
    low, high = torch.tensor([[0.0, -1.0], [1.0, 1.0]]), torch.tensor([[2.0, 3.0], [1.5, 2.0]])
    q = UniformDensity(low, high)
    assert torch.allclose(q.entropy(), torch.tensor([math.log(8), math.log(0.5)]))
    inside, outside = torch.tensor([1.2, 1.5]), torch.tensor([1.7, 1.5])
    assert torch.equal(q.log_prob(inside), -q.entropy())
    assert torch.equal(q.log_prob(outside), torch.tensor([-math.log(8), -math.inf]))
    assert torch.equal(q.mean, (low + high) / 2)
    value, error = q.entropy_estimate(3)
    assert torch.allclose(value, q.entropy())
    assert torch.allclose(error, torch.zeros(2))


def test_an_arc_may_cross_the_seam():
    net = GlobalUniform(1, width=0.5, periodic=(True,), origin=[3.0])
    q = net(BATCH)
    v = torch.tensor([2.6, 3.4, 3.4 - 2 * math.pi, 2.4, 3.6, 0.0]).reshape(-1, 1, 1)
    assert torch.equal(q.log_prob(v)[:, 0].isfinite(), torch.tensor([True] * 3 + [False] * 3))
    whole = GlobalUniform(1, width=100.0, periodic=(True,), origin=[3.0])(BATCH)
    assert torch.allclose(whole.entropy(), torch.tensor(math.log(2 * math.pi)))


def test_bounds_around_an_arc_that_crosses_the_seam_do_not_cut_it():
    q = Bounded(GlobalUniform(1, width=0.5, periodic=(True,), origin=[3.0]), -1.0, 1.0)(BATCH)
    v, log_q = q.rsample_and_log_prob((1000,))
    assert torch.allclose(q.log_prob(v), log_q)
    assert v.abs().max() < 1
    # Half a turn is 1: the arc is 2.5 / pi to 3.5 / pi, and what is beyond 1 comes back from below.
    across = (v < 0).double().mean().item()
    assert across == pytest.approx(3.5 - math.pi, abs=5 * math.sqrt(0.25 / 2000))


def test_it_is_the_same_for_all_inputs():
    net = GlobalUniform.over(Affine(), 3)
    q = net(torch.randn(5, 1, 8, 8))
    assert q.batch_shape == (5,)
    assert torch.equal(q.low, q.low[:1].expand(5, -1))


@pytest.mark.parametrize("bounds", [None, (-1.0, 3.0)])
def test_a_mean_field_contains_the_origin(bounds):
    net = MeanFieldUniform(2, 3, bounds=bounds, origin=[0.0, 2.0])
    with torch.no_grad():
        for p in net.parameters():
            p.add_(torch.randn_like(p))
    q = net(10 * torch.randn(500, 3))
    assert (q.low < net.origin).all()
    assert (q.high > net.origin).all()
    if bounds:
        assert (q.low >= -1).all()
        assert (q.high <= 3).all()
    assert q.low.std(0).min() > 0


def test_a_mean_field_has_the_sigmoids_share_of_the_room():
    net = MeanFieldUniform(1, 3, spread=0.25, bounds=(-1.0, 3.0))
    assert torch.allclose(torch.cat(box(net)), torch.tensor([-0.25, 0.75]))
    with torch.no_grad():
        net.ends.last.bias.copy_(torch.tensor([0.0, math.log(3)]))
    assert torch.allclose(torch.cat(box(net)), torch.tensor([-0.5, 2.25]), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [-200.0, 200.0])
def test_a_mean_field_at_its_limits(bias, dtype):
    """All the room and no more; or almost none, and still a range, even on a bound."""
    net = MeanFieldUniform.over(Crop(), 3).to(dtype)
    with torch.no_grad():
        net.ends.last.bias.fill_(bias)
    q = net(BATCH.to(dtype))
    v, log_q = q.rsample_and_log_prob((100,))
    assert log_q.isfinite().all()
    assert q.support.check(v).all()
    assert ((v >= net.bounds[0]) & (v <= net.bounds[1])).all()
    if bias > 0:
        assert torch.equal(q.low[0], net.bounds[0])
    else:
        assert (q.high - q.low).max() < 1e-5


def test_on_a_circle_there_is_room_on_both_sides_of_any_origin():
    turn = Affine("angle", bounds={"angle": (0.0, 2 * math.pi)})
    for family in (GlobalUniform, MeanFieldUniform):
        q = family.over(turn, 3, spread=0.1)(BATCH)
        torch.testing.assert_close(q.low, -q.high)
        assert q.log_prob(torch.full((2, 1), 2 * math.pi - 0.01)).isfinite().all()


def test_the_gradient_of_a_width_that_fills_its_room_is_whole():
    for width in (0.99, 1.0, 1.5):
        net = with_width(width, bounds=(-1.0, 1.0))
        q = net(BATCH[:1])
        (q.high - q.low).sum().backward()
        slope = torch.sigmoid(net.raw.detach())  # of the softplus
        assert (net.raw.grad / slope).item() == pytest.approx(2.0, rel=1e-3)


def test_both_ends_of_an_arc_are_in_it_to_rounding():
    q = UniformDensity(torch.tensor([[0.5]]).float(), torch.tensor([[1.0]]).float(), (True,))
    for place in (0.49999994, 1.0000001):
        assert q.log_prob(torch.tensor([[place]]).float()).isfinite().all()
    assert q.log_prob(torch.tensor([[0.49]]).float()).isinf().all()
