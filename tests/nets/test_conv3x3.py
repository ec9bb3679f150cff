"""Our convolutions are torch's: in the interpreter of Triton where there is one, and on a GPU."""

import pytest
import torch
import torch.nn.functional as F

from erlangen.nets.conv3x3 import Conv3x3, correlate, pull_input, pull_weight
from erlangen.utils.gpu import runs_triton

needs_cuda = pytest.mark.skipif(not runs_triton(), reason="needs CUDA and Triton")
SHAPES = [(16, 16, 1, 32, 32), (3, 16, 1, 32, 32), (16, 32, 2, 32, 32), (16, 16, 2, 7, 5), (3, 16, 2, 7, 5)]


def last(*shape):
    return torch.randn(shape, device="cuda").bfloat16().contiguous(memory_format=torch.channels_last)


def test_on_the_cpu_it_is_the_convolution_of_torch():
    conv, x = Conv3x3(3, 16, 2), torch.randn(2, 3, 7, 5)
    assert torch.equal(conv(x), F.conv2d(x, conv.weight, stride=2, padding=1))


@needs_cuda
@pytest.mark.parametrize(("c", "k", "stride", "height", "width"), SHAPES)
def test_it_is_the_convolution_with_its_gradients(c, k, stride, height, width):
    x, w = last(37, c, height, width).requires_grad_(), last(k, c, 3, 3).requires_grad_()
    exact = [a.detach().double().requires_grad_() for a in (x, w)]
    y, expected = correlate(x, w, stride), F.conv2d(exact[0], exact[1], stride=stride, padding=1)
    g = last(*y.shape)
    found = y, *torch.autograd.grad(y, (x, w), g)
    wanted = expected, *torch.autograd.grad(expected, exact, g.double())
    for a, b in zip(found, wanted, strict=True):
        assert (a.double() - b).abs().max() < 2**-8 * b.abs().max()
        assert a.is_contiguous(memory_format=torch.channels_last)


@needs_cuda
@pytest.mark.parametrize(("c", "k", "stride", "height", "width"), SHAPES)
def test_a_compiler_is_told_the_truth_about_them(c, k, stride, height, width):
    x, w = last(3, c, height, width), last(k, c, 3, 3)
    g, checks = correlate(x, w, stride), ("test_schema", "test_faketensor")
    torch.library.opcheck(correlate, (x, w, stride), test_utils=checks)
    torch.library.opcheck(pull_input, (g, w, height, width, stride), test_utils=checks)
    torch.library.opcheck(pull_weight, (x, g, stride), test_utils=checks)


@needs_cuda
def test_second_derivatives_are_those_of_torch():
    x, w, g, d = last(5, 16, 8, 8), last(16, 16, 3, 3), last(5, 16, 8, 8), last(5, 16, 8, 8)

    def second(x, w, g, convolve):
        x, w, g = (a.detach().requires_grad_() for a in (x, w, g))
        dx, dw = torch.autograd.grad(convolve(x, w), (x, w), g, create_graph=True)
        return torch.autograd.grad((dx * d.to(dx)).sum() + dw.square().sum(), (x, w, g))

    ours = second(x, w, g, lambda x, w: correlate(x, w, 1))
    exact = second(x.double(), w.double(), g.double(), lambda x, w: F.conv2d(x, w, padding=1))
    for a, b in zip(ours, exact, strict=True):
        assert (a.double() - b).abs().max() < 2**-6 * b.abs().max()


@needs_cuda
def test_a_network_uses_it_under_autocast_and_only_there():
    conv, x = Conv3x3(16, 16).cuda(), torch.randn(2, 16, 8, 8, device="cuda")
    assert conv(x).dtype == torch.get_default_dtype()
    with torch.autocast("cuda", torch.bfloat16):
        y = conv(x)
    assert y.dtype == torch.bfloat16
    assert y.grad_fn.name().startswith("GeneratedBackwardFor_erlangen_correlate")
