"""The couplings in one kernel are the couplings one by one."""

from functools import partial

import pytest
import torch

from erlangen.distributions import RealNVP, quadrature
from erlangen.distributions.fused import couple, couple_back
from erlangen.transforms import Affine
from erlangen.utils.gpu import runs_triton

needs_cuda = pytest.mark.skipif(not runs_triton(), reason="needs CUDA and Triton")
KINDS = [{}, {"limit": None, "squash": 6.0, "width": 32}, {"layers": 3, "width": 16}]


def gradients(conditional, h, seed=0):
    """Points, and the gradients of something of them to everything, `(name, tensor)`."""
    torch.manual_seed(seed)
    conditional.zero_grad()
    h = h.detach().requires_grad_()
    points = quadrature(conditional(h), 5)
    (points.v.sin().sum() + (points.log_weights.exp() * points.log_q).sum()).backward()
    own = {name: p.grad for name, p in conditional.named_parameters()}
    return {"v": points.v, "log_q": points.log_q, "h": h.grad, **own}


@needs_cuda
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("inputs", [3, 100])
@pytest.mark.parametrize("circle", [False, True], ids=["line", "circle"])
def test_samples_densities_and_gradients_are_the_same(kind, inputs, circle):
    torch.set_default_dtype(torch.float32)
    conditional = RealNVP.over(Affine(factored=circle), 8, **kind).cuda()
    assert any(conditional.periodic) == circle
    with torch.no_grad():
        for p in conditional.parameters():
            p += 0.1 * torch.randn_like(p)
    h = torch.randn(inputs, 8, device="cuda")
    assert conditional.fused
    found = gradients(conditional, h)
    conditional.fused = False
    for name, expected in gradients(conditional, h).items():
        assert (found[name] - expected).abs().max() <= 1e-4 * expected.abs().max() + 1e-6, name


@needs_cuda
@pytest.mark.parametrize("circles", [0, 1])
def test_a_compiler_is_told_the_truth_about_them(circles):
    layers, width, n, d, m = 3, 16, 2, 6, 40
    random = partial(torch.randn, dtype=torch.float32, device="cuda")
    seen, first = random(layers, width, m), random(layers, width, d + circles)
    given = [seen, first, random(layers, 2 * d, width), random(layers, 2 * d)]
    z = random(n, d, m)
    torch.library.opcheck(couple, (z, *(x.requires_grad_() for x in given), 2.0, 0.0), rtol=1e-3, atol=1e-3)
    own = [x.detach() for x in given]
    *_, kept = couple(z, *own, 2.0, 0.0)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(couple_back, (z, random(n, m), kept, *own, 2.0, 0.0), test_utils=checks)


@needs_cuda
def test_the_density_of_a_sample_is_what_came_with_it():
    torch.set_default_dtype(torch.float32)
    conditional = RealNVP.over(Affine(), 8).cuda()
    q = conditional(torch.randn(50, 8, device="cuda"))
    points = quadrature(q, 4)
    torch.testing.assert_close(q.log_prob(points.v), points.log_q, rtol=1e-3, atol=1e-3)


def test_without_cuda_nothing_is_fused():
    conditional = RealNVP.over(Affine(), 8)
    assert not conditional._fuses(torch.zeros(2, 6, 3, dtype=torch.float32), 64)
