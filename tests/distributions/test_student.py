"""Student's t against scipy, on the line and around the circle, and its Gamma posterior."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Gamma, Independent, kl_divergence

from erlangen.distributions.base import Bounded
from erlangen.distributions.noise import Noise
from erlangen.distributions.standard_t import StandardT
from erlangen.distributions.student import StudentDensity, StudentT

DOFS = (0.5, 1.0, 2.0, 5.0, 30.0, 200.0)
TAILS = torch.logspace(-12, -4, 200, dtype=torch.float64)
BULK = torch.linspace(1e-4, 0.4999, 500, dtype=torch.float64)


class Given(Noise):
    """Uniform numbers that were given."""

    def __init__(self, u):
        super().__init__(u.shape[:1], u.shape[1:-1], u)
        self.u = u

    def uniform(self, k):
        return self.u


def density(dof=2.0, scale=0.3, *, periodic=(False,), truncation=None, loc=0.0):
    d = len(periodic)
    return StudentDensity(torch.full((1, d), loc), torch.full((1, d), scale), StandardT(dof, truncation), periodic)


def circle(n):
    """n midpoints of the circle and the width of each: for smooth periodic functions the most accurate rule."""
    width = 2 * math.pi / n
    return (torch.arange(n) + 0.5) * width - math.pi, width


@pytest.mark.parametrize("dof", DOFS)
def test_quantiles_are_those_of_scipy(dof):
    u = torch.cat((TAILS, BULK))
    t, expected = StandardT(dof).quantile(u), torch.from_numpy(stats.t.ppf(u.numpy(), dof))
    assert ((t - expected) / expected).abs().max() < 1e-9
    assert torch.equal(StandardT(dof).quantile(1 - BULK), -StandardT(dof).quantile(1 - (1 - BULK)))


def test_quantiles_of_cauchy_and_of_two_degrees_in_closed_form():
    u = torch.cat((TAILS, BULK, 0.5 - torch.logspace(-14, -3, 100), torch.tensor([0.5])))
    cauchy = torch.where(u < 0.25, -1 / torch.tan(math.pi * u), torch.tan(math.pi * (u - 0.5)))
    two = (2 * u - 1) / (2 * u * (1 - u)).sqrt()
    assert torch.allclose(StandardT(1.0).quantile(u), cauchy, rtol=1e-11, atol=0)
    assert torch.allclose(StandardT(2.0).quantile(u), two, rtol=1e-13, atol=0)


@pytest.mark.parametrize("dof", DOFS)
def test_quantiles_in_float32(dof):
    u = torch.cat((torch.logspace(-6.5, -4, 100), BULK)).float()
    t = StandardT(dof).float().quantile(u)
    expected = stats.t.ppf(u.double().numpy(), dof)
    assert t.dtype == torch.float32
    # The logarithm of a quantile comes with the rounding of w, which is up to 24 log(2)/dof.
    assert np.abs(t.numpy() / expected - 1).max() < 2.4e-6 * max(1, 1 / dof)


def test_the_ends_of_the_noise_are_finite():
    for dtype in (torch.float32, torch.float64):
        least = torch.finfo(dtype).eps / 2
        u = torch.tensor([0.0, least, 1 - least, 1.0], dtype=dtype).reshape(-1, 1, 1)
        for dof in (0.5, 2.0):
            q = StudentDensity(torch.zeros(1, 1, dtype=dtype), torch.ones(1, 1, dtype=dtype), StandardT(dof).to(dtype))
            points = q.draw(Given(u))
            assert points.v.isfinite().all()
            assert points.log_q.isfinite().all()


def test_a_table_keeps_its_digits_through_float32():
    torch.set_default_dtype(torch.float32)
    conditional = StudentT(2, 3)
    assert conditional.standard.cells.dtype == torch.float32
    there_and_back = copy.deepcopy(conditional).double().float().double()
    torch.set_default_dtype(torch.float64)
    assert torch.equal(there_and_back.standard.cells, StandardT(2.0).cells)
    assert torch.equal(there_and_back.standard.windings, StandardT(2.0).windings)
    assert not [name for name in conditional.state_dict() if "standard" in name]


@pytest.mark.parametrize("dof", DOFS)
def test_log_prob_and_entropy_are_those_of_scipy(dof):
    v = torch.tensor([-1e6, -3.0, 0.2, 0.5, 11.0, 1e9]).reshape(-1, 1, 1)
    q = density(dof, 0.7, loc=0.2)
    expected = torch.from_numpy(stats.t.logpdf(v.numpy(), dof, 0.2, 0.7)).squeeze(-1)
    assert torch.allclose(q.log_prob(v), expected, rtol=1e-12, atol=1e-12)
    assert torch.allclose(q.entropy(), torch.tensor(stats.t.entropy(dof, 0.2, 0.7)), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dof", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("truncation", [None, 3.0])
def test_a_sample_has_the_log_prob_that_came_with_it(dof, dtype, truncation):
    conditional = StudentT(3, 2, alpha=dof / 2, truncation=truncation, periodic=(False, True, False)).to(dtype)
    with torch.no_grad():
        conditional.loc.last.bias.copy_(torch.tensor([0.0, 3.0, -0.2]))
    q = conditional(torch.zeros(4, 2, dtype=dtype))
    v, log_q = q.rsample_and_log_prob((20_000,))
    # The score is at most (dof + 1)/(2 sqrt(dof)) per scale, and coordinates below 4 are rounded three times.
    bound = 3 * 4 * torch.finfo(dtype).eps * (dof + 1) / (2 * math.sqrt(dof)) / 0.1
    assert v.dtype == log_q.dtype == dtype
    assert (q.log_prob(v) - log_q).abs().max() < 4 * bound
    tail = torch.tensor([1e-7, 1 - 2**-23, 2**-24, 0.0], dtype=dtype).reshape(-1, 1, 1).expand(-1, 4, 3)
    points = q.draw(Given(tail.clone()))
    assert torch.allclose(q.log_prob(points.v), points.log_q, rtol=1e-5, atol=4 * bound)


@pytest.mark.parametrize("dof", DOFS)
def test_samples_have_the_distribution_of_scipy(dof):
    # Dvoretzky, Kiefer, Wolfowitz: the statistic exceeds this with a probability below 2 exp(-2 n eps^2) = 1e-6.
    n = 100_000
    bound = math.sqrt(math.log(2e6) / (2 * n))
    v = density(dof, 0.3, loc=-1.0).rsample((n,)).flatten().numpy()
    assert stats.kstest(v, stats.t(dof, -1.0, 0.3).cdf).statistic < bound
    cut = density(dof, 0.3, truncation=1.5).rsample((n,)).flatten().numpy()
    low, high = stats.t.cdf([-1.5, 1.5], dof)
    assert stats.kstest(cut, lambda x: (stats.t.cdf(x, dof, 0, 0.3) - low) / (high - low)).statistic < bound


@pytest.mark.parametrize("dof", DOFS)
@pytest.mark.parametrize("truncation", [0.1, 2.0, 8.0])
def test_a_truncated_density_integrates_to_one(dof, truncation):
    nodes, weights = np.polynomial.legendre.leggauss(200)
    end = truncation * 0.3
    q = density(dof, truncation=truncation, loc=0.4)
    f = q.log_prob(0.4 + end * torch.from_numpy(nodes).reshape(-1, 1, 1)).exp().squeeze()
    assert abs(float((f * torch.from_numpy(weights)).sum()) * end - 1) < 1e-9
    assert q.log_prob(torch.tensor([[0.4 + 1.0001 * end]])).item() == -math.inf


def test_a_truncation_bounds_the_support_of_linear_coordinates():
    q = density(2.0, 0.3, truncation=3.0, loc=1.0, periodic=(False, True))
    box = q.support.base_constraint  # pyright: ignore[reportAttributeAccessIssue]
    assert torch.allclose(box.lower_bound, torch.tensor([[0.1, -math.pi]]))
    assert torch.allclose(box.upper_bound, torch.tensor([[1.9, math.pi]]))
    assert q.support.check(q.sample((1000,))).all()


def test_samples_at_the_end_of_a_truncation_have_a_density():
    u = torch.tensor([0.0, 1e-16, 0.5, 1.0]).reshape(-1, 1, 1)
    for loc in (0.0, 0.3, -1e3, 1e7):
        q = density(2.0, 0.3, truncation=3.0, loc=loc)
        v = q.draw(Given(u)).v
        assert q.log_prob(v).isfinite().all()
        assert (v - loc).abs().max() <= 0.9 * (1 + 1e-12) + 1e-15 * abs(loc)


@pytest.mark.parametrize("scale", [0.05, 0.5, 3.0, 6.0])
@pytest.mark.parametrize("dof", [0.5, 1.0, 2.0, 5.0, 30.0])
def test_the_density_on_the_circle(dof, scale):
    q = density(dof, scale, periodic=(True,), loc=2.5)
    v, width = circle(4096)
    f = q.log_prob(v.reshape(-1, 1, 1)).exp()
    assert abs(float(f.sum()) * width - 1) < 1e-9
    # A sum over 40 001 turns, and the rest as an integral by the midpoint rule.
    some, turns, far = v[::256].numpy() - 2.5, 2 * np.pi * np.arange(-20_000, 20_001), 2 * np.pi * 20_000.5
    near = stats.t.pdf((some[:, None] + turns) / scale, dof).sum(-1) / scale
    rest = stats.t.sf((far + some) / scale, dof) + stats.t.sf((far - some) / scale, dof)
    assert np.abs(f[::256].squeeze().numpy() / (near + rest / (2 * np.pi)) - 1).max() < 1e-9


def test_the_wrapped_cauchy_in_closed_form():
    v, _ = circle(64)
    for scale in (0.01, 1.0, 2 * math.pi):
        exact = math.sinh(scale) / (math.cosh(scale) - v.cos()) / (2 * math.pi)
        f = density(1.0, scale, periodic=(True,)).log_prob(v.reshape(-1, 1, 1)).exp().squeeze()
        assert torch.allclose(f, exact, rtol=1e-11)


def test_there_is_no_seam():
    q = density(2.0, 0.4, periodic=(True,), loc=3.0)
    turn = 2 * math.pi
    v = torch.tensor([math.pi - 1e-12, -math.pi + 1e-12, 0.3, 0.3 + turn, 0.3 - 3 * turn]).reshape(-1, 1, 1)
    log_q = q.log_prob(v).squeeze()
    assert torch.allclose(log_q[0], log_q[1], atol=1e-11)
    assert torch.allclose(log_q[2:], log_q[2], atol=1e-12)
    samples = q.rsample((10_000,))
    assert (samples >= -math.pi).all()
    assert (samples < math.pi).all()
    assert 0.2 < (samples < 0).double().mean() < 0.5  # some of them are beyond pi, and come back from below
    wide = density(2.0, 0.4, periodic=(True,), loc=3.0 + turn)
    assert torch.allclose(wide.mean, torch.tensor([[3.0]]))
    assert torch.allclose(wide.mode, wide.mean)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("dof", [0.5, 2.0, 30.0])
def test_gradients_of_log_prob(dof, periodic):
    standard = StandardT(dof)
    v = torch.tensor([-3.1, -0.2, 0.5, 3.0]).reshape(-1, 1, 1)

    def log_prob(loc, scale):
        return StudentDensity(loc, scale, standard, (periodic,)).log_prob(v)

    for scale in (0.07, 1.0, 5.0):
        parameters = (torch.full((1, 1), 0.3, requires_grad=True), torch.full((1, 1), scale, requires_grad=True))
        assert torch.autograd.gradcheck(log_prob, parameters, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("truncation", [None, 2.0])
def test_gradients_through_samples_on_the_line(truncation):
    standard, noise = StandardT(2.0, truncation), Given(torch.rand(64, 1, 2))

    def moments(loc, scale):
        points = StudentDensity(loc, scale, standard).draw(noise)
        return points.v.sin().mean(), points.log_q.mean()

    parameters = (torch.randn(1, 2, requires_grad=True), torch.rand(1, 2).add(0.1).requires_grad_())
    assert torch.autograd.gradcheck(moments, parameters, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dof", [0.5, 1.0, 2.0, 30.0])
def test_moving_samples_on_the_circle_moves_the_density(dof):
    # The continuity equation: df/dscale + d(f expected)/ddelta = 0.
    standard = StandardT(dof)
    delta = circle(41)[0].requires_grad_()
    for size in (0.2, 1.0, 6.0):
        scale = torch.full_like(delta, size, requires_grad=True)
        f = standard.log_wrapped(delta, scale).exp()
        (change,) = torch.autograd.grad(f.sum(), scale, retain_graph=True)
        (flow,) = torch.autograd.grad((f * standard.expected(delta, scale)).sum(), delta)
        assert (change + flow).abs().max() < 1e-9


def test_gradients_through_samples_on_the_circle():
    n, standard = 200_000, StandardT(1.0)
    loc, scale = torch.tensor([[2.0]], requires_grad=True), torch.tensor([[0.8]], requires_grad=True)
    v, log_q = StudentDensity(loc, scale, standard, (True,)).rsample_and_log_prob((n,))
    grid, width = circle(4096)
    f = StudentDensity(loc, scale, standard, (True,)).log_prob(grid.reshape(-1, 1, 1))
    sine, exact_sine = v.sin().mean(), (f.exp() * grid.sin().unsqueeze(-1)).sum() * width
    for ours, exact, parameter in (
        (sine, exact_sine, loc),
        (sine, exact_sine, scale),
        (log_q.mean(), (f.exp() * f).sum() * width, scale),
    ):
        (expected,) = torch.autograd.grad(exact, parameter, retain_graph=True)
        (got,) = torch.autograd.grad(ours, parameter, retain_graph=True)
        # The terms have a standard deviation below 1: the probability of 5 standard errors is below 6e-7.
        assert (got - expected).abs() < 5 / math.sqrt(n)


def test_the_kl_of_gamma_to_gamma():
    q = StudentDensity(torch.zeros(2, 3), torch.rand(2, 3) + 0.2, StandardT(3.0))
    assert torch.allclose(q.precision.base_dist.rate, 1.5 * q.scale.square())
    prior = Independent(Gamma(torch.full((2, 3), 0.8), torch.full((2, 3), 2.5)), 1)
    assert torch.allclose(q.precision_kl(0.8, 2.5), kl_divergence(q.precision, prior), rtol=1e-12)
    x = torch.linspace(-60, 12, 200_001)  # the logarithm of the precision
    ours, theirs = (g.base_dist.log_prob(x.exp().reshape(-1, 1, 1)) for g in (q.precision, prior))
    terms = (ours - theirs) * (ours + x.reshape(-1, 1, 1)).exp()
    assert torch.allclose(q.precision_kl(0.8, 2.5), torch.trapezoid(terms, x, dim=0).sum(-1), rtol=1e-7)
    assert torch.allclose(density(2.0, 1.0).precision_kl(), torch.zeros(1))


def test_the_posterior_of_the_precision_mixes_normals_into_the_t():
    q = density(3.0, 0.7)
    x = torch.linspace(-40, 8, 20_001)
    precision, v = x.exp(), torch.tensor([0.0, 0.5, 4.0])
    weight = (q.precision.base_dist.log_prob(precision.reshape(-1, 1, 1)).squeeze() + x).exp()
    normal = torch.exp(-0.5 * precision * v[:, None] ** 2) * (precision / (2 * math.pi)).sqrt()
    mixed = torch.trapezoid(weight * normal, x)
    assert torch.allclose(q.log_prob(v.reshape(-1, 1, 1)).exp().squeeze(), mixed, rtol=1e-9)


def test_mean_and_entropy_where_they_exist():
    assert torch.equal(density(2.0, loc=0.5).mean, torch.tensor([[0.5]]))
    assert torch.equal(density(1.0, loc=0.5, truncation=3.0).mean, torch.tensor([[0.5]]))
    assert torch.equal(density(1.0, loc=0.5, periodic=(True,)).mean, torch.tensor([[0.5]]))
    assert torch.equal(density(1.0, loc=0.5).mode, torch.tensor([[0.5]]))
    with pytest.raises(NotImplementedError, match=r"1\.0 degrees of freedom has no mean"):
        _ = density(1.0, periodic=(True, False)).mean
    for q in (density(truncation=3.0), density(periodic=(True,))):
        with pytest.raises(NotImplementedError, match="entropy_estimate"):
            q.entropy()


@pytest.mark.parametrize("bounds", [None, (-0.5, 0.5)])
@pytest.mark.parametrize("spread", [0.001, 0.1, 1.5])
def test_it_starts_where_it_is_told_to(bounds, spread):
    conditional = StudentT(3, 4, alpha=2.0, spread=spread, periodic=(False, True, True), bounds=bounds)
    q = conditional.density(torch.randn(5, 4))
    unit = torch.tensor([1.0, *[1.0 if bounds is None else math.pi] * 2])
    assert torch.allclose(q.scale, (spread * unit).expand(5, 3))
    assert torch.equal(q.loc, torch.zeros(5, 3))
    assert (StudentT(1, 4, spread=spread).float().density(torch.zeros(1, 4).float()).scale / spread - 1).abs() < 1e-4


def test_the_scale_on_the_circle_ends_at_two_pi():
    conditional = StudentT(2, 1, periodic=(False, True))
    with torch.no_grad():
        conditional.beta.last.bias.fill_(1e4)
    q = conditional(torch.zeros(1, 1))
    assert q.scale[0, 0] > 99
    assert q.scale[0, 1].item() == pytest.approx(2 * math.pi)
    with torch.no_grad():
        conditional.beta.last.bias.fill_(-1e4)
    assert torch.allclose(conditional(torch.zeros(1, 1)).scale, torch.full((1, 2), 1e-6))


def test_within_bounds():
    inner = StudentT(2, 4, truncation=4.0, spread=0.3, periodic=(False, True))
    for conditional in (
        Bounded(inner, (-0.5, 0.0), (1.5, 1.0)),
        StudentT(2, 4, truncation=4.0, spread=0.3, periodic=(False, True), bounds=((-0.5, 0.0), (1.5, 1.0))),
    ):
        q = conditional(torch.randn(3, 4))
        v, log_q = q.rsample_and_log_prob((500,))
        assert q.support.check(v).all()
        assert torch.allclose(q.log_prob(v), log_q, atol=1e-9)
        x, y = (torch.arange(2000) + 0.5) / 2000 * 2 - 0.5, (torch.arange(20) + 0.5) / 20
        grid = torch.stack(torch.meshgrid(x, y, indexing="ij"), -1).reshape(-1, 1, 2)
        mass = q.expand((3,)).log_prob(grid).exp().sum(0) * (2 / 2000) * (1 / 20)
        assert (mass - 1).abs().max() < 1e-2  # the ends of the truncation are jumps
        (v.sum() + log_q.sum()).backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in conditional.parameters())


def test_expand_and_generator():
    q = StudentT(2, 3, periodic=(True, False))(torch.randn(4, 3))
    wide = q.expand((5, 4))
    assert wide.batch_shape == (5, 4)
    v, log_q = wide.rsample_and_log_prob((6,), torch.Generator().manual_seed(3))
    again = wide.rsample((6,), torch.Generator().manual_seed(3))
    assert v.shape == (6, 5, 4, 2)
    assert torch.equal(v, again)
    assert torch.allclose(q.log_prob(v), log_q)
    assert wide.precision_kl().shape == (5, 4)
    value, error = q.entropy_estimate(1000)
    assert value.shape == error.shape == (4,)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_it_compiles_without_a_break_in_the_graph(backend):
    conditional = StudentT(3, 4, truncation=5.0, periodic=(False, True, False), bounds=(-1.0, 1.0))
    x = torch.randn(7, 4)

    def loss(x):
        q = conditional(x)
        v, log_q = q.rsample_and_log_prob((11,))
        kl = q.base.precision_kl(1.0, 1.0)
        return v.square().sum(-1).mean() + log_q.mean() + (q.log_prob(v.detach()) + kl).mean()

    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    losses, grads = [], []
    for f in (loss, compiled):
        torch.manual_seed(1)
        losses.append(f(x))
        grads.append(torch.autograd.grad(losses[-1], list(conditional.parameters())))
    assert all(g.isfinite().all() for g in grads[1])
    if backend == "aot_eager":  # which has the same noise
        assert torch.allclose(*losses)
        assert all(torch.allclose(a, b) for a, b in zip(*grads, strict=True))


def test_the_entropy_compiles():
    conditional, x = StudentT(2, 3), torch.randn(4, 3)
    compiled = torch.compile(lambda x: conditional(x).entropy(), fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(x), conditional(x).entropy())


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("alpha", lambda: StudentT(2, 3, alpha=0.0)),
        ("alpha", lambda: StudentT(2, 3, alpha=-1.0)),
        ("alpha", lambda: StudentT(2, 3, alpha=0.1)),
        ("spread", lambda: StudentT(2, 3, spread=0.0)),
        ("spread", lambda: StudentT(2, 3, spread=7.0, periodic=(True, False))),
        ("truncation", lambda: StudentT(2, 3, truncation=0.0)),
        ("truncation", lambda: StudentT(2, 3, truncation=-2.0)),
        ("dof", lambda: StandardT(0.2)),
        ("scale", lambda: density(scale=0.0)),
        ("scale", lambda: density(scale=-0.1)),
        ("scale", lambda: density(scale=math.nan)),
        ("scale", lambda: density(scale=6.5, periodic=(True,))),
        ("loc", lambda: StudentDensity(torch.zeros(1, 2), torch.ones(1, 2), StandardT(2.0), (True,))),
        ("alpha0", lambda: density().precision_kl(0.0, 1.0)),
        ("beta0", lambda: density().precision_kl(1.0, -1.0)),
    ],
)
def test_bad_input_is_named(name, build):
    with pytest.raises(ValueError, match=rf"^{name}: received .*; accepted is "):
        build()
