"""Our convolutions are torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import vmap

from erlangen.nets.convolution import Convolution, correlate, pull_input, pull_weight

from .triton import EPS, INTERPRETED, close, draw, last, needs_cuda, needs_triton

IMAGES = 3 if INTERPRETED else 61  # on a GPU enough for sums in several rounds
SHAPES = [  # channels, filters, side, padding, stride, height, width
    *((16, 16, 3, 1, 1, 16, 16), (3, 16, 3, 1, 1, 16, 16), (1, 16, 3, 1, 1, 9, 8), (16, 32, 3, 1, 2, 16, 16)),
    *((16, 16, 3, 1, 2, 7, 5), (3, 16, 3, 1, 2, 7, 5), (8, 12, 3, 1, 1, 4, 17)),
    *((1, 6, 5, 0, 1, 28, 28), (6, 16, 3, 0, 1, 12, 12), (6, 16, 5, 0, 1, 14, 14), (3, 6, 5, 0, 1, 9, 13)),
    *((3, 6, 5, 2, 1, 6, 9), (6, 5, 5, 0, 2, 9, 8), (5, 24, 5, 2, 2, 8, 7), (10, 20, 5, 0, 1, 5, 6)),
]
shapes = pytest.mark.parametrize(("c", "k", "side", "padding", "stride", "height", "width"), SHAPES)


@pytest.mark.parametrize("bias", [False, True])
def test_on_the_cpu_it_is_the_convolution_of_torch(bias):
    conv, x = Convolution(3, 16, 3, stride=2, padding=1, bias=bias), torch.randn(2, 3, 7, 5)
    assert torch.equal(conv(x), F.conv2d(x, conv.weight, conv.bias, stride=2, padding=1))


@pytest.mark.parametrize(
    ("conv", "shape", "fits"),
    [
        (lambda: Convolution(1, 6, 5), (2, 1, 28, 28), True),
        (lambda: Convolution(16, 32, 3, stride=2, padding=1), (2, 16, 3, 3), True),
        (lambda: Convolution(1, 6, 5), (2, 1, 4, 28), False),  # for torch's own message
        (lambda: Convolution(1, 6, 5), (1, 28, 28), False),
        (lambda: Convolution(1, 6, 5), (0, 1, 28, 28), False),
        (lambda: Convolution(1, 6, 5), (1 << 18, 1, 32, 32), False),
        (lambda: Convolution(1, 6, 4), (2, 1, 28, 28), False),
        (lambda: Convolution(1, 6, 7), (2, 1, 28, 28), False),
        (lambda: Convolution(1, 6, 5, padding=4), (2, 1, 28, 28), False),
        (lambda: Convolution(16, 16, 5), (2, 16, 28, 28), False),
        (lambda: Convolution(32, 32, 3), (2, 32, 28, 28), False),
        (lambda: Convolution(16, 64, 3), (2, 16, 28, 28), False),
    ],
)
def test_what_the_kernels_take(conv, shape, fits):
    assert conv()._fits(torch.empty(shape, device="meta")) is fits


@needs_triton
@shapes
def test_it_is_the_convolution_with_its_gradients(c, k, side, padding, stride, height, width):
    x, w = last(IMAGES, c, height, width).requires_grad_(), last(k, c, side, side).requires_grad_()
    exact = [a.detach().double().requires_grad_() for a in (x, w)]
    y, expected = correlate(x, w, stride, padding), F.conv2d(*exact, stride=stride, padding=padding)
    g = draw(*y.shape)  # channels first, as a gradient may come
    found = y, *torch.autograd.grad(y, (x, w), g)
    assert close(found, (expected, *torch.autograd.grad(expected, exact, g.double())), EPS)
    assert all(a.is_contiguous(memory_format=torch.channels_last) for a in found)


@needs_triton
def test_sums_over_pixels_in_several_rounds(monkeypatch):
    from erlangen.nets import kernels

    monkeypatch.setattr(kernels, "PARTS", 3)
    x, g = last(3, 6, 12, 11), last(3, 16, 10, 9)
    expected = torch.nn.grad.conv2d_weight(x.double(), (16, 6, 3, 3), g.double())
    assert close([pull_weight(x, g, 3, 1, 0)], [expected], EPS)


@needs_triton
@shapes
def test_a_compiler_is_told_the_truth_about_them(c, k, side, padding, stride, height, width):
    x, w = last(2, c, height, width), last(k, c, side, side)
    g, checks = correlate(x, w, stride, padding), ("test_schema", "test_faketensor")
    torch.library.opcheck(correlate, (x, w, stride, padding), test_utils=checks)
    torch.library.opcheck(pull_input, (g, w, height, width, stride, padding), test_utils=checks)
    torch.library.opcheck(pull_weight, (x, g, side, stride, padding), test_utils=checks)


@needs_triton
@pytest.mark.parametrize(
    ("c", "k", "side", "padding", "stride"), [(16, 16, 3, 1, 1), (1, 6, 5, 0, 1), (6, 16, 3, 0, 1), (3, 6, 5, 2, 2)]
)
def test_second_derivatives_are_those_of_torch(c, k, side, padding, stride):
    x, w, d = last(5, c, 8, 8), last(k, c, side, side), last(5, c, 8, 8)
    g = torch.randn_like(correlate(x, w, stride, padding))

    def second(x, w, g, convolve):
        x, w, g = (a.detach().requires_grad_() for a in (x, w, g))
        dx, dw = torch.autograd.grad(convolve(x, w), (x, w), g, create_graph=True)
        return torch.autograd.grad((dx * d.to(dx)).sum() + dw.square().sum(), (x, w, g))

    ours = second(x, w, g, lambda x, w: correlate(x, w, stride, padding))
    exact = second(x.double(), w.double(), g.double(), lambda x, w: F.conv2d(x, w, stride=stride, padding=padding))
    assert close(ours, exact, 4 * EPS)


@needs_triton
def test_they_are_mapped_over():
    x, w = draw(2, 3, 1, 9, 8).requires_grad_(), draw(6, 2, 1, 5, 5).requires_grad_()
    y = vmap(lambda x, w: correlate(x, w, 1, 0), in_dims=(0, 1))(x, w)
    g = torch.randn_like(y)
    exact = [a.detach().double().requires_grad_() for a in (x, w)]
    expected = torch.stack([F.conv2d(exact[0][i], exact[1][:, i]) for i in range(2)])
    found = y, *torch.autograd.grad(y, (x, w), g)
    assert close(found, (expected, *torch.autograd.grad(expected, exact, g.double())), EPS)


@needs_cuda
def test_a_network_uses_it_under_autocast_and_only_there():
    conv, x = Convolution(1, 6, 5).cuda(), torch.randn(2, 1, 8, 8, device="cuda")
    assert conv(x).dtype == torch.get_default_dtype()
    with torch.autocast("cuda", torch.bfloat16):
        y = conv(x)
    assert y.dtype == torch.bfloat16
    assert y.grad_fn.next_functions[0][0].name().startswith("GeneratedBackwardFor_erlangen_correlate")
    expected = F.conv2d(x.bfloat16().double(), conv.weight.bfloat16().double(), conv.bias.double())
    assert close([y], [expected], 2 * EPS)
