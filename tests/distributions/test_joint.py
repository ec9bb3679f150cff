"""Independent blocks: densities add, weights multiply, gradients have no bias, choices come in all combinations."""

import math

import pytest
import torch
from torch import nn

from erlangen.distributions import Categorical, Dirac, Gaussian, Joint, Mixture, RealNVP, StudentT, quadrature
from erlangen.distributions.categorical import CategoricalDensity
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.distributions.joint import JointDensity
from erlangen.distributions.mixture import MixtureDensity
from erlangen.distributions.noise import SOURCES, Stratified
from erlangen.testing import check_conditional
from erlangen.transforms import Affine, Flips, Product, Rotations

CONTEXT, ROWS = 4, 4000
INDICES = torch.arange(3, dtype=torch.float64)[:, None]


def flips_and_affine(**kwargs):
    flow = RealNVP.over(Affine("angle", "tx"), CONTEXT, layers=2, width=8, components=3)
    return Joint(Categorical.over(Flips(), CONTEXT), flow, **kwargs)


def moved(conditional):
    with torch.no_grad():
        for p in conditional.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return conditional


def test_the_density_is_the_product():
    joint = moved(flips_and_affine())
    h = torch.randn(5, CONTEXT)
    q, parts = joint(h), [part(h) for part in joint.parts]
    v = q.sample((7,))
    torch.testing.assert_close(q.log_prob(v), parts[0].log_prob(v[..., :1]) + parts[1].log_prob(v[..., 1:]))
    assert q.support.check(v).all()
    assert not q.support.check(v + torch.tensor([0.5, 0.0, 0.0])).any()
    assert not q.support.check(v + torch.tensor([0.0, 0.0, 1.0])).any()
    assert (q.log_prob(v + torch.tensor([0.5, 0.0, 0.0])) == -math.inf).all()
    assert joint.periodic == q.periodic == (False, False, False)
    for ends, *each in zip(q.ends, *(part.ends for part in parts), strict=True):
        assert torch.equal(ends, torch.cat(each))


def test_a_choice_beside_a_density_has_mass_one():
    q = moved(Joint(Categorical(INDICES, CONTEXT), Gaussian(1, CONTEXT)))(torch.randn(5, CONTEXT))
    z = torch.linspace(-20, 20, 4001)
    v = torch.cat(torch.broadcast_tensors(INDICES[:, None, None], z[:, None, None]), -1)
    mass = q.log_prob(v.flatten(0, 1)).exp().sum(0) * (z[1] - z[0])
    torch.testing.assert_close(mass, torch.ones(5), rtol=1e-10, atol=0)


def test_one_encoder_reads_the_input_once():
    calls = []
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, CONTEXT))
    encoder.register_forward_hook(lambda *_: calls.append(1))
    joint = moved(flips_and_affine(encoder=encoder))
    x = torch.rand(2, 3, 8, 8)
    v, log_weights, log_q = quadrature(joint(x), 6)
    assert len(calls) == 1
    y = Product(Flips(), Affine("angle", "tx"))(x, v)
    assert y.shape == (6, 2, 3, 8, 8)
    (log_weights.exp() * (y.square().mean((-1, -2, -3)) + log_q)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in joint.parameters())


def test_bounds_and_closed_forms_are_joined():
    first, second = Gaussian(1, CONTEXT, bounds=(-1, 1), origin=[0.5]), StudentT(1, CONTEXT, bounds=(-2, 5))
    joint = Joint(first, second)
    assert torch.equal(joint.bounds, torch.tensor([[-1.0, -2.0], [1.0, 5.0]]))
    assert torch.equal(joint.origin, torch.tensor([0.5, 0.0]))
    assert Joint(first, Gaussian(1, CONTEXT)).bounds is None
    h = torch.randn(3, CONTEXT)
    parts = moved(Categorical(INDICES, CONTEXT)), moved(Gaussian(2, CONTEXT))
    q, choice, normal = Joint(*parts)(h), parts[0](h), parts[1](h)
    torch.testing.assert_close(q.entropy(), choice.entropy() + normal.entropy())
    assert torch.equal(q.mean, torch.cat((choice.mean, normal.mean), -1))
    assert torch.equal(q.mode, torch.cat((choice.mode, normal.mode), -1))
    with pytest.raises(NotImplementedError, match="entropy_estimate"):
        Joint(parts[0], Mixture(2, CONTEXT))(h).entropy()
    with pytest.raises(NotImplementedError, match="no rsample"):
        q.rsample()
    assert not q.has_rsample
    assert joint(h).has_rsample


def test_finite_parts_are_enumerated_together():
    first, second = CategoricalDensity(torch.randn(4, 2), INDICES[:2]), CategoricalDensity(torch.randn(4, 3), INDICES)
    q = JointDensity([first, second])
    v, log_weights, log_q = quadrature(q, 1)
    assert torch.equal(v[:, 0], torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0)))
    assert torch.equal(q.enumerate_support(expand=False).expand(-1, 4, -1), v)
    torch.testing.assert_close(log_weights.logsumexp(0), torch.zeros(4))
    torch.testing.assert_close(log_q, q.log_prob(v))
    torch.testing.assert_close(-(log_q.exp() * log_q).sum(0), q.entropy())


def test_a_dirac_is_beside_finite_supports_only():
    h = torch.randn(3, CONTEXT)
    q = Joint(Categorical(INDICES, CONTEXT), Dirac(2, CONTEXT, bounds=(-1, 1)))(h)
    assert quadrature(q, 1).v.shape == (3, 3, 3)
    assert q.sample((5,)).shape == (5, 3, 3)
    with pytest.raises(ValueError, match=r"^parts: received a Dirac among Atom, GaussianDensity; accepted is"):
        Joint(Dirac(2, CONTEXT), Gaussian(2, CONTEXT))(h)


class Forgetful(JointDensity):
    """A broken twin: the gradient of the first part's choice is lost."""

    def draw(self, noise, *, pathwise=True):
        points = super().draw(noise, pathwise=pathwise)
        chosen = self.parts[0].log_prob(points.v[..., :1])
        return points._replace(log_weights=points.log_weights - chosen + chosen.detach())


class InStep(Stratified):
    """A broken twin: every choice in the same order."""

    def _spaced(self, n):
        self._again = False
        return super()._spaced(n)


LOGITS, WEIGHTS, CENTRES = (torch.tensor(t).double() for t in ([0.3, -0.5, 0.1], [0.2, -0.4], [[-1.0], [0.7]]))


def value(v):
    """Of index and position together: no sum of a function of each."""
    return torch.sin(v[..., 1] + 2 * v[..., 0]) + v[..., 0] * v[..., 1].square()


def exactly():
    """The gradients of the expectation, by enumeration of indices and components and integration on a fine grid."""
    logits, weights, centres = (t.clone().requires_grad_() for t in (LOGITS, WEIGHTS, CENTRES))
    z = torch.linspace(-8, 8, 2001)
    density = (weights.softmax(-1) * torch.exp(-0.5 * ((z[:, None] - centres[:, 0]) / 0.5) ** 2)).sum(-1)
    density = density / (0.5 * math.sqrt(2 * math.pi)) * (z[1] - z[0])
    v = torch.cartesian_prod(INDICES[:, 0], z).unflatten(0, (3, -1))
    expectation = (logits.softmax(-1)[:, None] * density * value(v)).sum()
    return torch.autograd.grad(expectation, (logits, weights, centres))


def deviations(family, points, n):
    """How many standard errors the mean of many estimated gradients is off, at most."""
    parameters = [t.expand(ROWS, *t.shape).clone().requires_grad_() for t in (LOGITS, WEIGHTS, CENTRES)]
    logits, weights, centres = parameters
    mixture = MixtureDensity(weights, centres, torch.full_like(centres, 0.5))
    v, log_weights, _ = quadrature(family([CategoricalDensity(logits, INDICES), mixture]), n, points=points)
    torch.testing.assert_close(log_weights.detach().exp().sum(0), torch.ones(ROWS))
    estimates = torch.autograd.grad((log_weights.exp() * value(v)).sum(), parameters)
    off = [
        (e.mean(0) - exact).abs() / (e.std(0) / math.sqrt(ROWS)) for e, exact in zip(estimates, exactly(), strict=True)
    ]
    return max(o.max().item() for o in off)


@pytest.mark.parametrize(("points", "n"), [("random", 1), ("random", 8), ("antithetic", 7), ("sobol", 8)])
def test_gradients_are_unbiased(points, n):
    # Five standard errors for seven numbers: what is right fails once in 2e5.
    assert deviations(JointDensity, points, n) < 5
    assert deviations(Forgetful, points, n) > 10


@pytest.mark.parametrize("n", [6, 12])
def test_enumerated_choices_come_in_every_combination(n):
    assert deviations(JointDensity, "enumerated", n) < 5
    logits = [torch.randn(2, k, requires_grad=True) for k in (2, 3)]
    q = JointDensity([CategoricalDensity(t, INDICES[: t.shape[-1]]) for t in logits])
    both = [quadrature(q, n, points="enumerated", exact=exact) for exact in (False, True)]
    sums = [(points.log_weights.exp() * value(points.v)).sum() for points in both]
    torch.testing.assert_close(*sums)
    torch.testing.assert_close(*(torch.autograd.grad(s, logits) for s in sums))
    with pytest.raises(ValueError, match="received 4 points, enumerated, for 6 components; accepted is a multiple"):
        quadrature(q, 4, points="enumerated", exact=False)


def shares(noise, n=64, rows=500):
    """Of how many samples both of two fair coins show heads, `(rows,)`; each shows them for half of the samples."""
    coin = CategoricalDensity(torch.zeros(rows, 2), INDICES[:2])
    q = JointDensity([coin, coin])
    v = q.draw(noise(torch.Size([n]), q.batch_shape, q.like), pathwise=False).v
    assert torch.equal(v.mean(0), torch.full((rows, 2), 0.5))
    return v.prod(-1).mean(0)


def test_choices_do_not_go_hand_in_hand():
    # Hypergeometric: a deviation of 0.031; in step it would be that of a uniform number, 0.144.
    assert shares(SOURCES["random"]).std() < 0.04
    assert shares(SOURCES["sobol"]).std() < 0.01
    assert shares(InStep).std() > 0.1


@pytest.mark.parametrize("points", ["random", "antithetic", "sobol"])
def test_every_source(points):
    q = moved(flips_and_affine())(torch.randn(5, CONTEXT))
    found, again = (
        quadrature(q, 6, points=points, generator=torch.Generator().manual_seed(1), exact=False) for _ in range(2)
    )
    torch.testing.assert_close(q.log_prob(found.v), found.log_q)
    torch.testing.assert_close(found.log_weights, torch.full((6, 5), -math.log(6)))
    assert torch.equal(found.v, again.v)


def test_parts_of_different_batches_are_refused():
    parts = [GaussianDensity(torch.zeros(n, 1), torch.ones(n, 1)) for n in (2, 3)]
    with pytest.raises(ValueError, match=r"^parts: received .*; accepted are parts for the same batch"):
        JointDensity(parts)


def test_a_choice_beside_a_density_passes_the_checks():
    """Two coordinates of which one is discrete have nothing that could be integrated over the plane."""
    check_conditional(Joint(Categorical.over(Flips(), 4), Gaussian.over(Affine("tx"), 4)))


def test_a_point_beside_a_finite_support_that_is_sampled():
    parts = Dirac(1, 3, bounds=(-1.0, 1.0)), Categorical.over(Rotations(4), 3)
    q = Joint(*parts)(torch.randn(2, 3))
    v, log_weights, log_q = quadrature(q, 64, exact=False)
    assert v.shape == (64, 2, 2)
    torch.testing.assert_close(v[..., 0], q.parts[0].mean[:, 0].expand(64, 2))
    assert len(v[..., 1].unique()) == 4
    torch.testing.assert_close(log_weights.exp().sum(0), torch.ones(2))
    torch.testing.assert_close(log_q, q.parts[1].log_prob(v[..., 1:]))


@pytest.mark.parametrize("family", [Joint, RealNVP])
def test_over_a_product_with_a_choice_says_what_takes_it(family):
    with pytest.raises(ValueError, match="Joint a conditional for each factor"):
        family.over(Product(Flips(), Affine("angle")), 4)
