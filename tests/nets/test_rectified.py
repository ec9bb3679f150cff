"""What lies between convolutions is the same in one kernel as in torch's operations."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import vmap

from erlangen.nets import FixupResNet
from erlangen.nets.rectified import rectified, rectify

from .triton import DEVICE, DTYPE, EPS, close, draw, last, needs_cuda, needs_triton

KINDS = [(scaled, residual, raised) for scaled in (0, 1) for residual in (0, 1) for raised in (0, 1)]
kinds = pytest.mark.parametrize(("scaled", "residual", "raised"), KINDS)


def exact(x, before, scale, rest, after):
    x, before, scale, rest, after = (None if a is None else a.double() for a in (x, before, scale, rest, after))
    y = (x if scale is None else scale * x) + before
    return F.relu(y if rest is None else y + rest) + (0 if after is None else after)


def arguments(scaled, residual, raised, *shape, device=DEVICE, dtype=DTYPE):
    before, scale, after = torch.tensor([[0.3], [-0.7], [0.4]], device=device)  # with which some numbers are positive
    x, rest = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    return x, before, scale if scaled else None, rest if residual else None, after if raised else None


@kinds
def test_it_is_what_its_equation_says(scaled, residual, raised):
    x, before, scale, rest, after = arguments(scaled, residual, raised, 2, 3, 5, 4, device="cpu", dtype=torch.float64)
    found = rectified(x, before, scale=scale, rest=rest, after=after)
    assert torch.allclose(found, exact(x, before, scale, rest, after), rtol=0, atol=1e-14)


@needs_triton
@kinds
@pytest.mark.parametrize("shape", [(61, 16, 16, 16), (3, 5, 7, 9), (1, 2, 5, 5)])
def test_the_kernel_is_the_same(scaled, residual, raised, shape):
    x, *others = arguments(scaled, residual, raised, *shape)
    for maps in (x, x.contiguous(memory_format=torch.channels_last)):
        assert close([rectify(maps, *others)], [exact(x, *others)], EPS)


@needs_triton
def test_what_is_not_a_number_stays_so():
    x = last(2, 3, 4, 5)
    x[1, 2, 3, 4], x[0, 0, 0, 0] = torch.nan, torch.inf
    y = rectify(x, draw(1), None, None, draw(1))
    assert y.isnan().nonzero().tolist() == [[1, 2, 3, 4]]
    assert y.isinf().nonzero().tolist() == [[0, 0, 0, 0]]


@needs_triton
def test_a_compiler_is_told_the_truth_about_it():
    torch.library.opcheck(rectify, (last(2, 3, 4, 5), draw(1), None, last(2, 3, 4, 5), None), test_utils="test_schema")
    torch.library.opcheck(rectify, (draw(2, 3, 4, 5), draw(1), draw(1), None, None), test_utils="test_faketensor")


@needs_triton
def test_it_is_mapped_over():
    x, before, scale, rest, after = draw(2, 4, 3, 5, 6), draw(2, 1), draw(1), draw(4, 2, 3, 5, 6), draw(1, 2)
    found = vmap(rectify, in_dims=(0, 0, None, 1, 1))(x, before, scale, rest, after)
    wanted = torch.stack([exact(x[i], before[i], scale, rest[:, i], after[:, i]) for i in range(2)])
    assert close([found], [wanted], EPS)


@needs_cuda
def test_a_network_uses_it_without_gradients_alone():
    net = FixupResNet().float().cuda().to(memory_format=torch.channels_last)
    for p in net.parameters():  # of which many start at zero
        torch.nn.init.normal_(p, std=0.1)
    x = torch.rand(9, 3, 32, 32, device="cuda", dtype=torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        plain = net(x)
        with torch.no_grad(), torch.profiler.profile() as profile:
            found = net(x)
    assert plain.grad_fn is not None
    assert sum(event.key == "erlangen::rectify" for event in profile.events()) == 7
    assert close([found], [plain], 4 * EPS)
