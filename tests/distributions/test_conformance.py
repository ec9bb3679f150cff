"""Every family passes the check that ships with the package, starts gently, and compiles."""

import math

import pytest
import torch
from torch import nn

from erlangen.distributions import Dirac, Gaussian, Mixture, RealNVP, SplineFlow, quadrature
from erlangen.testing import check_conditional
from erlangen.transforms import CPAB, HSV, Affine, Crop, Product, Similarity

from .families import CONDITIONALS, CONTEXT


@pytest.mark.parametrize("name", CONDITIONALS)
def test_conforms(name):
    check_conditional(CONDITIONALS[name](), build=CONDITIONALS[name])


def test_conforms_with_an_encoder():
    def build():
        encoder = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, CONTEXT))
        return RealNVP(2, CONTEXT, encoder=encoder, layers=2, width=8, components=2)

    check_conditional(build(), lambda n: torch.randn(n, 1, 8, 8), build=build)


@pytest.mark.parametrize(
    "transform", [Affine(), Similarity(), Crop(), HSV(), CPAB((4,)), Product(Affine("angle"), HSV())]
)
@pytest.mark.parametrize("family", [Dirac, Gaussian, Mixture, RealNVP, SplineFlow])
def test_starts_gently_at_the_identity(family, transform):
    """Around the coordinates of the identity, with about a tenth of half the range, and the same for all inputs."""
    q = family.over(transform, CONTEXT)(torch.randn(3, CONTEXT))
    v = quadrature(q, 2000).v
    half = (transform.bounds[1] - transform.bounds[0]) / 2
    typical = ((v - transform.origin) / half).abs().median(0).values
    assert (typical <= 0.25).all()
    if family is Gaussian:
        inside = (transform.origin > transform.bounds[0]) & (transform.origin < transform.bounds[1])
        # The median distance of a normal is 0.674 of its scale; tanh shortens it by less than 2 %.
        torch.testing.assert_close(typical[:, inside], torch.full_like(typical[:, inside], 0.0674), rtol=0.1, atol=0)
    if family is Dirac:
        torch.testing.assert_close(v[0], v[0, :1].expand_as(v[0]))
    else:
        log_q = q.log_prob(v[:50, :1].expand(-1, 3, -1))
        torch.testing.assert_close(log_q, log_q[:, :1].expand_as(log_q))


def test_a_flow_starts_as_its_base():
    flow = RealNVP(3, CONTEXT, periodic=(True, False, False))
    q = flow(torch.randn(4, CONTEXT))
    v, log_q = q.rsample_and_log_prob((7,), torch.Generator().manual_seed(0))
    z, log_base = q.base.rsample_and_log_prob((7,), torch.Generator().manual_seed(0))
    torch.testing.assert_close(v, z)
    torch.testing.assert_close(log_q, log_base)


def test_the_initial_spread_is_what_is_said():
    wide = Gaussian(2, CONTEXT, spread=[0.3, 0.01], periodic=(False, True), bounds=((-1, -math.pi), (1, math.pi)))
    scale = wide(torch.zeros(1, CONTEXT)).base.scale[0]
    torch.testing.assert_close(scale, torch.tensor([0.3, 0.01 * math.pi]))


@pytest.mark.parametrize(
    "name", [n for n in CONDITIONALS if n.endswith(", 5") or n.startswith(("joint", "categorical"))]
)
def test_compiles_without_a_break(name):
    """Forward and backward, with values that eager mode gives too."""
    if name.startswith(("dirac", "joint, points")):
        pytest.skip("a Dirac has no density to sample")
    torch._dynamo.reset()
    conditional = CONDITIONALS[name]()
    with torch.no_grad():
        for p in conditional.parameters():
            p.add_(0.05 * torch.randn_like(p))

    def loss(h):
        v, log_weights, log_q = quadrature(conditional(h), 6, exact=False)
        return (log_weights.exp() * (v.square().sum(-1) + log_q)).sum()

    h = torch.randn(3, CONTEXT, requires_grad=True)
    results = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(0)
        h.grad = None
        value = function(h)
        value.backward()
        results.append((value.detach(), None if h.grad is None else h.grad.clone()))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("name", [n for n in CONDITIONALS if n.endswith(", 2") or n.startswith("joint")])
def test_a_compiled_conditional_returns_the_density(name):
    torch._dynamo.reset()
    conditional, h = CONDITIONALS[name](), torch.randn(3, CONTEXT)
    found = torch.compile(conditional, fullgraph=True, backend="aot_eager")(h)
    torch.manual_seed(0)
    v, log_weights, log_q = quadrature(conditional(h), 4)
    torch.manual_seed(0)
    torch.testing.assert_close(quadrature(found, 4), (v, log_weights, log_q))
