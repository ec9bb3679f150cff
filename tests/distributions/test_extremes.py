"""Far from the middle: extremes of parameters, other ways to call, and what a function transform sees."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

from erlangen.distributions import (
    Bounded,
    Categorical,
    Dirac,
    Gaussian,
    GlobalUniform,
    MeanFieldUniform,
    Mixture,
    RealNVP,
    SplineFlow,
    StudentT,
    preset,
    quadrature,
)
from erlangen.distributions.bounded import log_tanh_slope
from erlangen.distributions.categorical import CategoricalDensity
from erlangen.distributions.mixture import MixtureDensity
from erlangen.distributions.realnvp import _moebius, _moebius_slope
from erlangen.distributions.spline import _inverse, _univariate
from erlangen.transforms import Affine, Crop

from .families import CONTEXT, COORDINATES, FAMILIES


@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "dirac"])
def test_gradients_for_each_input_by_vmap(name):
    conditional = FAMILIES[name](2, CONTEXT, bounds=(-1.0, 1.0))
    parameters = dict(conditional.named_parameters())

    def loss(parameters, h):
        return functional_call(conditional, parameters, (h[None],)).rsample((3,)).square().mean()

    gradients = vmap(grad(loss), (None, 0), randomness="different")(parameters, torch.randn(4, CONTEXT))
    assert all(g.shape == (4, *p.shape) for g, p in zip(gradients.values(), parameters.values(), strict=True))


@pytest.mark.parametrize("name", [n for n in FAMILIES if n != "dirac"])
def test_an_ensemble_by_vmap(name):
    nets = [FAMILIES[name](2, CONTEXT, bounds=(-1.0, 1.0)) for _ in range(3)]
    parameters, buffers = stack_module_state(nets)
    h, v = torch.randn(4, CONTEXT), 0.01 * torch.randn(4, 2)
    together = vmap(lambda p, b: functional_call(nets[0], (p, b), (h,)).log_prob(v))(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([net(h).log_prob(v) for net in nets]))


def test_the_precision_is_reached_through_bounds():
    q = StudentT(2, CONTEXT, bounds=(-1, 1))(torch.randn(3, CONTEXT))
    torch.testing.assert_close(q.precision_kl(), q.base.precision_kl())
    assert q.precision.batch_shape == (3,)
    around = Bounded(StudentT(2, CONTEXT), -1.0, 1.0)(torch.randn(3, CONTEXT))
    torch.testing.assert_close(around.precision_kl(), around.base.precision_kl())
    assert preset("pstn-code", Affine("angle", "scale"), CONTEXT)(torch.randn(3, CONTEXT)).precision_kl().shape == (3,)


@pytest.mark.parametrize("place", [0.0, 0.5, -0.7])
def test_the_initial_spread_holds_away_from_the_middle(place):
    q = Gaussian(1, CONTEXT, bounds=(-1, 1), origin=[place], spread=0.05)(torch.zeros(1, CONTEXT))
    assert q.sample((20_000,)).std().item() == pytest.approx(0.05, rel=0.05)


def test_a_crop_starts_near_the_whole_frame_but_not_on_it():
    v = RealNVP.over(Crop(), CONTEXT)(torch.zeros(1, CONTEXT)).sample((4000,))
    sizes = v[:, 0, 2:]
    assert sizes.mean() > 0.9
    assert sizes.std() > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steep_maps_of_the_circle_keep_their_slopes(dtype):
    z = torch.tensor([1e-4, 0.3, 3.0, -3.1415], dtype=torch.float64)
    for s in (-8.0, -1.0, 0.0, 7.0, 8.0):
        point = z.clone().requires_grad_()
        s64 = torch.full_like(z, s)
        (exact,) = torch.autograd.grad(_moebius(point, s64).sum(), point)
        ours = _moebius_slope(z.to(dtype), s64.to(dtype))
        torch.testing.assert_close(ours.double(), exact.log(), rtol=1e-5, atol=2e-3 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("back", [math.inf, 0.0, -math.inf])
def test_steep_splines_have_an_inverse_at_their_knots(back):
    parts = [(10 * torch.randn(500, k)).float().requires_grad_() for k in (6, 6, 5)]
    spline = _univariate()(*parts, bound=3.0)
    for k in range(1, 7):
        y = spline.vertical[:, k].detach()
        y = y if back > 0 else torch.nextafter(y, torch.full_like(y, back))
        x = _inverse(spline, y)
        torch.testing.assert_close(x, spline.horizontal[:, k], rtol=0, atol=3e-4)
        assert all(g.isfinite().all() for g in torch.autograd.grad(x.sum(), parts, retain_graph=True))


def test_densities_of_steep_splines_are_numbers():
    flow = SplineFlow(2, 4).float()
    with torch.no_grad():
        for p in flow.parameters():
            p.copy_(5 * torch.randn_like(p) / (p.shape[-1] ** 0.5 if p.ndim > 1 else 1))
        q = flow(torch.randn(64, 4).float())
        assert not q.log_prob(q.sample((500,))).isnan().any()


def test_the_inverse_of_a_spline_undoes_it():
    spline = _univariate()(*(10 * torch.randn(500, k) for k in (6, 6, 5)), bound=3.0)
    x = 3.5 * (2 * torch.rand(500) - 1)
    torch.testing.assert_close(_inverse(spline, spline(x)), x, rtol=0, atol=1e-9)


def test_the_slope_of_tanh_is_exact_on_both_sides():
    z = torch.tensor([10.5, 15.0, 20.0])
    torch.testing.assert_close(log_tanh_slope(-z), log_tanh_slope(z), rtol=1e-14, atol=0)


def test_a_flow_with_a_circle_and_no_limit_survives_large_steps():
    flow = RealNVP(2, CONTEXT, periodic=(True, False), squash=6.0, limit=None, layers=4, width=16).float()
    optimiser = torch.optim.Adam(flow.parameters(), 0.1)
    for _ in range(60):
        v, log_weights, log_q = quadrature(flow(torch.ones(1, CONTEXT, dtype=torch.float32)), 32)
        optimiser.zero_grad()
        (log_weights.exp() * (log_q - v[..., 0].cos() + v[..., 1].square())).sum().backward()
        assert all(p.grad.isfinite().all() for p in flow.parameters())
        optimiser.step()


def test_means_that_went_round_the_circle_keep_their_digits():
    loc = torch.tensor([[[400 * math.pi + 1.0]]], dtype=torch.float32)
    near, far = (
        MixtureDensity(torch.zeros(1, 1), place, torch.full((1, 1, 1), 0.01), (True,)) for place in (wrapped(loc), loc)
    )
    v = near.sample((10,), torch.Generator().manual_seed(0))
    torch.testing.assert_close(near.log_prob(v), far.log_prob(v), rtol=1e-3, atol=1e-2)


def wrapped(angle):
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def test_narrow_boxes_hold_their_own_samples():
    for spread in (1e-4, 1e-6):
        base = MeanFieldUniform(2, CONTEXT, origin=[0.5, -0.5], spread=spread).float()
        q = RealNVP(2, CONTEXT, base=base, layers=2, width=8).float()(torch.zeros(1, CONTEXT, dtype=torch.float32))
        assert q.log_prob(q.sample((2000,))).isfinite().all()
    far = MeanFieldUniform(1, CONTEXT, bounds=(1000.0, 1001.0), spread=1e-6).float()
    assert far(torch.zeros(1, CONTEXT, dtype=torch.float32)).sample((10,)).isfinite().all()


def test_tables_of_elements():
    single = Categorical([[0.1], [0.2]], CONTEXT).float().double()
    assert single(torch.zeros(1, CONTEXT)).log_prob(torch.tensor([[0.1]])).isfinite().all()
    circle = CategoricalDensity(torch.zeros(1, 2), torch.tensor([[0.0], [1.0]]), (True,))
    turned = circle.log_prob(torch.tensor([[1.0 - 2 * math.pi]]))
    assert turned.item() == pytest.approx(-math.log(2))
    with pytest.raises(ValueError, match="alike"):
        Categorical([[0.0], [2 * math.pi]], CONTEXT, periodic=[True])
    masked = CategoricalDensity(torch.tensor([[0.0, -math.inf, 0.0]]), torch.arange(3.0)[:, None])
    assert masked.entropy().item() == pytest.approx(math.log(2))
    assert masked.support.check(masked.sample((100,))).all()
    with pytest.raises(ValueError, match=r"0\.375"):
        preset("instaaug-crops", Crop(smallest=0.5), CONTEXT)


def test_a_state_holds_its_bounds():
    first, second = (Gaussian(1, CONTEXT, bounds=(-b, b)) for b in (1.0, 2.0))
    second.load_state_dict(first.state_dict())
    v = torch.full((1, 1), 0.3)
    assert torch.equal(first(torch.zeros(1, CONTEXT)).log_prob(v), second(torch.zeros(1, CONTEXT)).log_prob(v))
    with pytest.raises(RuntimeError, match="bounds"):
        Gaussian(1, CONTEXT).load_state_dict(first.state_dict())


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda q: q.rsample(5), "sample_shape"),
        (lambda q: q.rsample((-1,)), "sample_shape"),
        (lambda q: q.log_prob([0.0, 0.0]), "value"),
        (lambda q: q.log_prob(torch.zeros(4, 2)), "value"),
        (lambda q: q.expand((2,)), "batch_shape"),
    ],
)
@pytest.mark.parametrize("family", [Gaussian, Mixture, RealNVP])
def test_bad_calls_are_named(family, call, match):
    with pytest.raises(ValueError, match=match):
        call(family(2, CONTEXT)(torch.zeros(3, CONTEXT)))


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: RealNVP(2, 4, base=Dirac(2, 4)), "base"),
        (lambda: Gaussian(2, 4)(torch.zeros(3, 4).half()), "half|float16"),
        (lambda: Gaussian(2, 4, encoder="net"), "encoder"),
        (lambda: Gaussian(2, 4, periodic="ab"), "periodic"),
        (lambda: Gaussian.over(None, 4), "transform"),
    ],
)
def test_bad_arguments_are_named(build, match):
    with pytest.raises(ValueError, match=match):
        build()


def test_numbers_of_numpy_are_numbers():
    conditional = Gaussian(np.int64(2), np.int64(4), periodic=np.array([True, False]))
    assert conditional.periodic == (True, False)
    assert conditional(torch.zeros(1, 4)).event_shape == (2,)


def test_what_is_printed_says_something():
    conditional = GlobalUniform(2, 4, bounds=(-1, 1), periodic=(True, False))
    assert "features=2" in repr(conditional)
    assert "(3,)" in repr(conditional(torch.zeros(3, 4)))


def test_a_saturated_point_warns_through_quadrature():
    conditional = Dirac(1, CONTEXT, bounds=(-1, 1))
    nn.init.constant_(conditional.loc.last.bias, 50.0)
    with pytest.warns(RuntimeWarning, match="bound"):
        quadrature(conditional(torch.zeros(8, CONTEXT)), 1)


@pytest.mark.parametrize("coordinates", ["1", "2", "box", "cylinder"])
@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"dirac"}))
def test_nothing_is_dense_at_infinity_and_nan_stays_nan(family, coordinates):
    d, kwargs = COORDINATES[coordinates]
    q = FAMILIES[family](d, CONTEXT, **kwargs)(torch.randn(3, CONTEXT))
    v = q.sample()
    v[:, -1] = torch.tensor([math.inf, -math.inf, math.nan])
    assert q.log_prob(v)[:2].eq(-math.inf).all()
    assert q.log_prob(v)[2].isnan()


def test_what_is_no_number_has_no_probability():
    q = Categorical([[0.0], [1.0]], CONTEXT)(torch.randn(3, CONTEXT))
    assert q.log_prob(torch.tensor([[math.inf], [0.5], [math.nan]]))[:2].eq(-math.inf).all()
    assert q.log_prob(torch.full((3, 1), math.nan)).isnan().all()
