"""The gradients of a mixture through a whole flow are unbiased, to its weights, means and scales; Gumbel's are not."""

import math

import pytest
import torch
from torch.distributions import Categorical as Choice
from torch.distributions import Independent, MixtureSameFamily, Normal

from erlangen.distributions import Mixture, RealNVP, quadrature
from erlangen.distributions.bounded import BoundedDensity, log_tanh_slope
from erlangen.distributions.coupling import FlowDensity
from erlangen.distributions.density import Points
from erlangen.distributions.mixture import MixtureDensity

FEATURES, CONTEXT = 2, 3
REPLICAS, SAMPLES = 6000, 8
PARAMETERS = {
    "weights": torch.tensor([0.4, -0.4]),
    "means": torch.tensor([[-0.5, 0.2], [0.4, -0.3]]),
    "scales": torch.tensor([[0.25, 0.4], [0.35, 0.2]]),
}


def whole_flow(kind, parameters, replicas=None, mixture=MixtureDensity):
    """A mixture of two, through couplings, into bounds; each replica has parameters of its own."""
    torch.manual_seed(0)
    periodic = (kind == "cylinder", False)
    flow = RealNVP(FEATURES, CONTEXT, layers=3, width=8, periodic=periodic).double()
    for p in flow.parameters():
        p.requires_grad_(False).add_(0.2 * torch.randn_like(p))
    h = torch.randn(1, CONTEXT, dtype=torch.float64)
    parameters = [p.double() for p in parameters]
    if replicas is not None:
        h, parameters = h.expand(replicas, -1), [p.expand(replicas, *p.shape).clone() for p in parameters]
    else:
        parameters = [p[None] for p in parameters]
    leaves = [p.requires_grad_() for p in parameters]
    base = mixture(*leaves, periodic)
    low, high = torch.tensor([[-math.pi, -1.0], [math.pi, 2.0]], dtype=torch.float64)
    return BoundedDensity(FlowDensity(base, flow, h, None), low, high), leaves


def smooth(v, log_q):
    return v[..., 0].sin() + v[..., 1].square() + (v[..., 0] - v[..., 1]).cos()


def entropy(v, log_q):
    return -log_q


def by_integration(kind, h):
    """The gradient of ∫ q h on a grid that resolves it: even on the circle, even in atanh of a bounded coordinate."""
    q, leaves = whole_flow(kind, PARAMETERS.values())
    z = torch.linspace(-7, 7, 701, dtype=torch.float64)
    step = math.log(z[1] - z[0])
    linear = (q.low + q.high) / 2 + (q.high - q.low) / 2 * z.tanh()[:, None]
    log_steps = log_tanh_slope(z)[:, None] + ((q.high - q.low) / 2).log() + step
    first, log_first = linear[:, 0], log_steps[:, 0]
    if kind == "cylinder":
        first = -math.pi + 2 * math.pi * torch.arange(500, dtype=torch.float64) / 500
        log_first = torch.full_like(first, math.log(2 * math.pi / 500))
    v = torch.cartesian_prod(first, linear[:, 1])
    log_step = (log_first[:, None] + log_steps[:, 1]).flatten()
    log_q = q.log_prob(v[:, None])[:, 0]
    weight = (log_q + log_step).exp()
    assert weight.sum().item() == pytest.approx(1, abs=1e-5)  # conditioners have kinks
    return [g[0] for g in torch.autograd.grad((weight * h(v, log_q)).sum(), leaves)]


def by_sampling(kind, h, draw, mixture, replicas):
    """The mean gradient over replicas, and its standard error."""
    q, leaves = whole_flow(kind, PARAMETERS.values(), replicas, mixture)
    v, log_weights, log_q = draw(q)
    gradients = torch.autograd.grad((log_weights.exp() * h(v, log_q)).sum(), leaves)
    return [(g.mean(0), g.std(0) / math.sqrt(replicas)) for g in gradients]


def pathwise(q):
    v, log_q = q.rsample_and_log_prob((SAMPLES,))
    return v, torch.full_like(log_q, -math.log(SAMPLES)), log_q


DRAWS = {
    "rsample": pathwise,
    "quadrature": lambda q: quadrature(q, SAMPLES),
    "antithetic": lambda q: quadrature(q, SAMPLES, points="antithetic"),
    "sobol": lambda q: quadrature(q, SAMPLES, points="sobol"),
    "enumerated": lambda q: quadrature(q, 2 * len(PARAMETERS["weights"]), points="enumerated"),
}


def errors(kind, h, draw, mixture=MixtureDensity, replicas=REPLICAS):
    """The largest error of each parameter's gradient, in standard errors."""
    exact, sampled = by_integration(kind, h), by_sampling(kind, h, draw, mixture, replicas)
    pairs = zip(PARAMETERS, exact, sampled, strict=True)
    return {name: ((mean - g).abs() / error).max().item() for name, g, (mean, error) in pairs}


@pytest.mark.parametrize("kind", ["box", "cylinder"])
@pytest.mark.parametrize("h", [smooth, entropy])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_gradients_are_those_of_numerical_integration(kind, h, draw):
    # 200 numbers are compared in all: one of them passes 5 standard errors by chance with probability 1e-4.
    assert max(errors(kind, h, draw).values()) < 5


class Gumbel(MixtureDensity):
    """The broken twin: a hard straight-through sample of the choice, as the published code draws it."""

    temperature = 0.1

    def draw(self, noise, *, pathwise=True):
        gumbel = -(-noise.uniform(self.logits.shape[-1]).log()).log()
        soft = ((self.logits + gumbel) / self.temperature).softmax(-1)
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
        chosen = (hard + soft - soft.detach()).unsqueeze(-1)
        z = (chosen * self.loc).sum(-2) + (chosen * self.scale).sum(-2) * noise.normal(len(self.periodic))
        return Points(z, noise.equal_weights(), self.log_prob(z))


@pytest.mark.parametrize("h", [smooth, entropy])
def test_the_gumbel_twin_is_caught(h):
    assert errors("box", h, pathwise, Gumbel, replicas=40_000)["weights"] > 8


def test_density_is_that_of_torch():
    parameters = [p.double() for p in PARAMETERS.values()]
    q = MixtureDensity(*(p[None] for p in parameters))
    logits, loc, scale = parameters
    oracle = MixtureSameFamily(Choice(logits=logits), Independent(Normal(loc, scale), 1))
    v = torch.randn(100, 1, 2)
    torch.testing.assert_close(q.log_prob(v), oracle.log_prob(v))
    torch.testing.assert_close(q.mean[0], oracle.mean)


def test_second_derivatives_of_samples_are_unbiased():
    logits, loc, scale = (p.double() for p in PARAMETERS.values())

    def slopes(value, leaf):
        """The second derivative of the sum of values in the first weight, for each replica."""
        (first,) = torch.autograd.grad(value, leaf, create_graph=True)
        return torch.autograd.grad(first[:, 0].sum(), leaf)[0][:, 0]

    grid = torch.linspace(-4, 4, 401)
    v, leaf = torch.cartesian_prod(grid, grid)[:, None], logits[None].clone().requires_grad_()
    weight = MixtureDensity(leaf, loc[None], scale[None]).log_prob(v).exp() * (grid[1] - grid[0]) ** 2
    exact = slopes((weight * smooth(v, None)).sum(), leaf)
    leaf = logits.expand(REPLICAS, -1).clone().requires_grad_()
    q = MixtureDensity(leaf, loc.expand(REPLICAS, -1, -1), scale.expand(REPLICAS, -1, -1))
    sampled = slopes(smooth(q.rsample((SAMPLES,)), None).mean(0).sum(), leaf)
    error = (sampled.mean() - exact).abs() / (sampled.std() / math.sqrt(REPLICAS))
    assert error < 5


def test_choices_follow_the_weights():
    q = Mixture(1, CONTEXT, components=4, scatter=0.0)
    with torch.no_grad():
        q.head.last.bias.view(4, 3)[:, 0] = torch.tensor([0.5, 0.25, 0.125, 0.125]).log()
        q.head.last.bias.view(4, 3)[:, 1] = torch.tensor([0.0, 10.0, 20.0, 30.0])
    v = quadrature(q(torch.zeros(1, CONTEXT)), 64).v
    counts = [int(((v - 10 * k).abs() < 5).sum()) for k in range(4)]
    assert counts == [32, 16, 8, 8]  # exactly: choices are spaced evenly


def test_a_component_without_weight_is_never_chosen_and_breaks_nothing():
    logits = torch.tensor([[0.0, -math.inf]], requires_grad=True)
    q = MixtureDensity(logits, torch.zeros(1, 2, 2), torch.ones(1, 2, 2))
    v, log_q = q.rsample_and_log_prob((20,))
    (v.sum() + log_q.sum()).backward()
    assert log_q.isfinite().all()
    torch.testing.assert_close(log_q, Independent(Normal(torch.zeros(2), torch.ones(2)), 1).log_prob(v))
