"""Convolutions: torch's, and where few channels make these slow on a GPU, kernels of our own behind them."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ..utils.gpu import runs_triton

__all__ = ["Convolution", "each"]

FEW = 16  # channels of the input up to which our kernels are faster than cuDNN's
WIDE = 32  # channels of the output
SEEN = 256  # numbers that a pixel of the output sees, which lie in registers
Gradients: TypeAlias = tuple[Tensor | None, ...]


class Convolution(nn.Conv2d):
    """A convolution with a square kernel.

    In bfloat16 on CUDA, channels last and with few channels, it runs in kernels of its own (`kernels`), with gradients
    of every order; everywhere else, without Triton, or with the attribute `fused` set to False, it is torch's.

    Args:
        channels: of the input.
        filters: of the output.
        side: of the kernel, F.
        stride: s, 1 or 2 to halve the map.
        padding: P, zeros around the input: none, or F // 2 to keep its size.
        bias: whether one is added.

    Shape:
        input: `(B, channels, H, W)`; result: `(B, filters, ⌊(H + 2P - F)/s⌋ + 1, ⌊(W + 2P - F)/s⌋ + 1)`.
    """

    fused: bool = True

    def __init__(
        self, channels: int, filters: int, side: int, *, stride: int = 1, padding: int = 0, bias: bool = True
    ) -> None:
        super().__init__(channels, filters, side, stride, padding, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """The maps of the filters."""
        if self.fused and input.is_cuda and self._fits(input) and runs_triton():
            half = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
            x, w = (input.bfloat16(), self.weight.bfloat16()) if half else (input, self.weight)
            if x.dtype == w.dtype == torch.bfloat16:
                y = correlate(x, w, self.stride[0], int(self.padding[0]))
                return y if self.bias is None else y + self.bias.to(y.dtype)[:, None, None]
        return super().forward(input)

    def _fits(self, x: Tensor) -> bool:
        """Few channels, and no more numbers than the kernels can count."""
        side, padding = self.kernel_size[0], int(self.padding[0])
        few = self.in_channels <= FEW and self.out_channels <= WIDE
        known = side in (3, 5) and padding in (0, side // 2) and self.in_channels * side**2 <= SEEN
        if not (few and known and x.dim() == 4 and min(x.shape[2:]) + 2 * padding >= side):
            return False
        return 0 < x.numel() // self.in_channels * max(FEW, self.out_channels) < 2**31


# The convolution and its two derivatives. Each is linear in both arguments, so that the derivatives of one are the
# other two.


@torch.library.custom_op("erlangen::correlate", mutates_args=())
def correlate(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution of x `(N, C, H, W)` with w `(K, C, F, F)`."""
    from . import kernels

    return kernels.correlate(x, w, stride, padding)


@torch.library.custom_op("erlangen::pull_input", mutates_args=())
def pull_input(g: Tensor, w: Tensor, height: int, width: int, stride: int, padding: int) -> Tensor:
    """The gradient of its input, from g, that of its output."""
    from . import kernels

    return kernels.pull_input(g, w, (height, width), stride, padding)


@torch.library.custom_op("erlangen::pull_weight", mutates_args=())
def pull_weight(x: Tensor, g: Tensor, side: int, stride: int, padding: int) -> Tensor:
    """The gradient of its weights."""
    from . import kernels

    return kernels.pull_weight(x, g, side, stride, padding)


@correlate.register_fake
def _(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    sides = ((size + 2 * padding - w.shape[-1]) // stride + 1 for size in x.shape[2:])
    return _like(x, (len(x), len(w), *sides))


@pull_input.register_fake
def _(g: Tensor, w: Tensor, height: int, width: int, stride: int, padding: int) -> Tensor:
    return _like(g, (len(g), w.shape[1], height, width))


@pull_weight.register_fake
def _(x: Tensor, g: Tensor, side: int, stride: int, padding: int) -> Tensor:
    return _like(x, (g.shape[1], x.shape[1], side, side))


def _like(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.how = inputs[-2:]  # stride and padding


def _pull_correlate(ctx: Any, g: Tensor) -> Gradients:
    x, w = ctx.saved_tensors
    dx = pull_input(g, w, *x.shape[2:], *ctx.how) if ctx.needs_input_grad[0] else None
    dw = pull_weight(x, g, w.shape[-1], *ctx.how) if ctx.needs_input_grad[1] else None
    return dx, dw, None, None


def _pull_pull_input(ctx: Any, d: Tensor) -> Gradients:
    g, w = ctx.saved_tensors
    dg = correlate(d, w, *ctx.how) if ctx.needs_input_grad[0] else None
    dw = pull_weight(d, g, w.shape[-1], *ctx.how) if ctx.needs_input_grad[1] else None
    return dg, dw, None, None, None, None


def _pull_pull_weight(ctx: Any, d: Tensor) -> Gradients:
    x, g = ctx.saved_tensors
    dx = pull_input(g, d, *x.shape[2:], *ctx.how) if ctx.needs_input_grad[0] else None
    dg = correlate(x, d, *ctx.how) if ctx.needs_input_grad[1] else None
    return dx, dg, None, None, None


def each(op: Any) -> Any:
    """The rule of an operator for `vmap`: it runs for one member after the other."""

    def rule(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        pairs = list(zip(args, dims, strict=True))
        members = ([a if d is None else a.select(d, i) for a, d in pairs] for i in range(info.batch_size))
        return torch.stack([op(*member) for member in members]), 0

    return rule


for _op, _pull in ((correlate, _pull_correlate), (pull_input, _pull_pull_input), (pull_weight, _pull_pull_weight)):
    _op.register_autograd(_pull, setup_context=_keep)
    _op.register_vmap(each(_op))
