"""3×3 convolutions: torch's, and where few channels make these slow on a GPU, kernels of our own behind them."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ..utils.gpu import runs_triton

__all__ = ["Conv3x3"]

FEW = 16  # channels of the input up to which our kernels are faster than cuDNN's
WIDE = 32  # channels of the output
Gradients: TypeAlias = tuple[Tensor | None, ...]


class Conv3x3(nn.Conv2d):
    """A 3×3 convolution with padding 1 and no bias.

    In bfloat16 on CUDA, channels last and with few channels, it runs in kernels of its own (`kernels`), with gradients
    of every order; everywhere else, without Triton, or with the attribute `fused` set to False, it is torch's.

    Args:
        channels: of the input.
        filters: of the output.
        stride: 1, or 2 to halve the map.

    Shape:
        input: `(B, channels, H, W)`; result: `(B, filters, ⌈H/stride⌉, ⌈W/stride⌉)`.
    """

    fused: bool = True

    def __init__(self, channels: int, filters: int, stride: int = 1) -> None:
        super().__init__(channels, filters, 3, stride, padding=1, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """The maps of the filters."""
        if self.fused and input.is_cuda and self._fits(input) and runs_triton():
            half = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
            x, w = (input.bfloat16(), self.weight.bfloat16()) if half else (input, self.weight)
            if x.dtype == w.dtype == torch.bfloat16:
                return correlate(x, w, self.stride[0])
        return super().forward(input)

    def _fits(self, x: Tensor) -> bool:
        """Few channels, and no more numbers than the kernels can count."""
        few = self.in_channels <= FEW and self.out_channels in (FEW, WIDE)
        return few and x.numel() // self.in_channels * max(self.in_channels, self.out_channels) < 2**31


# The convolution and its two derivatives. Each is linear in both arguments, so that the derivatives of one are the
# other two.


@torch.library.custom_op("erlangen::correlate", mutates_args=())
def correlate(x: Tensor, w: Tensor, stride: int) -> Tensor:
    """The convolution of x `(N, C, H, W)` with w `(K, C, 3, 3)`."""
    from . import kernels

    return kernels.correlate(x, w, stride)


@torch.library.custom_op("erlangen::pull_input", mutates_args=())
def pull_input(g: Tensor, w: Tensor, height: int, width: int, stride: int) -> Tensor:
    """The gradient of its input, from g, that of its output."""
    from . import kernels

    return kernels.pull_input(g, w, (height, width), stride)


@torch.library.custom_op("erlangen::pull_weight", mutates_args=())
def pull_weight(x: Tensor, g: Tensor, stride: int) -> Tensor:
    """The gradient of its weights."""
    from . import kernels

    return kernels.pull_weight(x, g, stride)


@correlate.register_fake
def _(x: Tensor, w: Tensor, stride: int) -> Tensor:
    n, _, height, width = x.shape
    return _like(x, (n, len(w), -(-height // stride), -(-width // stride)))


@pull_input.register_fake
def _(g: Tensor, w: Tensor, height: int, width: int, stride: int) -> Tensor:
    return _like(g, (len(g), w.shape[1], height, width))


@pull_weight.register_fake
def _(x: Tensor, g: Tensor, stride: int) -> Tensor:
    return _like(x, (g.shape[1], x.shape[1], 3, 3))


def _like(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.stride = inputs[-1]


def _pull_correlate(ctx: Any, g: Tensor) -> Gradients:
    x, w = ctx.saved_tensors
    dx = pull_input(g, w, *x.shape[2:], ctx.stride) if ctx.needs_input_grad[0] else None
    return dx, pull_weight(x, g, ctx.stride) if ctx.needs_input_grad[1] else None, None


def _pull_pull_input(ctx: Any, d: Tensor) -> Gradients:
    g, w = ctx.saved_tensors
    dg = correlate(d, w, ctx.stride) if ctx.needs_input_grad[0] else None
    return dg, pull_weight(d, g, ctx.stride) if ctx.needs_input_grad[1] else None, None, None, None


def _pull_pull_weight(ctx: Any, d: Tensor) -> Gradients:
    x, g = ctx.saved_tensors
    dx = pull_input(g, d, *x.shape[2:], ctx.stride) if ctx.needs_input_grad[0] else None
    return dx, correlate(x, d, ctx.stride) if ctx.needs_input_grad[1] else None, None


correlate.register_autograd(_pull_correlate, setup_context=_keep)
pull_input.register_autograd(_pull_pull_input, setup_context=_keep)
pull_weight.register_autograd(_pull_pull_weight, setup_context=_keep)
