"""On a GPU: nothing synchronises, and a whole step of every family goes into a CUDA graph."""

import pytest
import torch

from erlangen.distributions import (
    Categorical,
    EntropyController,
    Gaussian,
    GlobalUniform,
    RealNVP,
    SplineFlow,
    quadrature,
)
from erlangen.transforms import Affine, Rotations

from .families import CONDITIONALS, CONTEXT

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("name", CONDITIONALS)
def test_is_captured_in_a_cuda_graph(name):
    conditional = CONDITIONALS[name]().float().cuda()
    with torch.no_grad():
        for p in conditional.parameters():
            p.add_(0.05 * torch.randn_like(p))
            p.grad = torch.zeros_like(p)
    control = EntropyController(1.0).float().cuda()
    h = torch.randn(3, CONTEXT, device="cuda", dtype=torch.float32)

    def step():
        v, log_weights, log_q = quadrature(conditional(h), 6, exact=False)
        loss = (log_weights.exp() * (v.square().sum(-1) + control(-log_q) * log_q)).sum()
        loss.backward()
        return v, loss

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.set_sync_debug_mode("error")
    step()
    torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        v, loss = step()
    values = []
    for _ in range(2):
        graph.replay()
        values.append(v.clone())
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in conditional.parameters())
    assert name.startswith(("dirac", "joint, points")) or not torch.equal(*values)  # each replay draws new noise


@pytest.mark.parametrize("family", [Categorical, Gaussian, GlobalUniform, RealNVP, SplineFlow])
def test_over_a_transform_that_is_on_the_gpu(family):
    transform = (Rotations(4) if family is Categorical else Affine()).cuda()
    conditional = family.over(transform, CONTEXT).cuda()
    assert conditional(torch.zeros(2, CONTEXT, device="cuda")).sample((3,)).device.type == "cuda"


@pytest.mark.parametrize("name", [n for n in CONDITIONALS if n.endswith(", 5")])
def test_a_gpu_gives_what_the_cpu_gives(name):
    conditional = CONDITIONALS[name]().double()
    h = torch.randn(3, CONTEXT)
    if name.startswith("dirac"):
        torch.testing.assert_close(conditional.cuda()(h.cuda()).mean.cpu(), conditional.cpu()(h).mean)
        return
    v = conditional(h).sample((7,))
    there = conditional.cuda()(h.cuda()).log_prob(v.cuda()).cpu()
    torch.testing.assert_close(there, conditional.cpu()(h).log_prob(v))
