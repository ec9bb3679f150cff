"""All couplings of a stack at once, as operators of torch: see `kernels`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["couple"]


@torch.library.custom_op("erlangen::couple", mutates_args=())
def couple(
    z: Tensor, seen: Tensor, first: Tensor, last: Tensor, bias: Tensor, limit: float, squash: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Moves samples through a stack; also the logarithm of the volume, and what went into each layer."""
    from . import kernels

    return kernels.couple(z, seen, first, last, bias, limit, squash)


@couple.register_fake
def _(z: Tensor, seen: Tensor, first: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    n, d, m = z.shape
    return z.new_empty(n, d, m), z.new_empty(n, m), z.new_empty(len(first), n, d, m)


@torch.library.custom_op("erlangen::couple_back", mutates_args=())
def couple_back(
    grad: Tensor,
    grad_slope: Tensor,
    kept: Tensor,
    seen: Tensor,
    first: Tensor,
    last: Tensor,
    bias: Tensor,
    limit: float,
    squash: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of what `couple` was given."""
    from . import kernels

    return kernels.couple_back(grad, grad_slope, kept, seen, first, last, bias, limit, squash)


@couple_back.register_fake
def _(
    grad: Tensor, grad_slope: Tensor, kept: Tensor, seen: Tensor, first: Tensor, last: Tensor, bias: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in (grad, seen, first, last, bias))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(output[2], *inputs[1:5])
    ctx.numbers = inputs[5:]
    ctx.set_materialize_grads(False)


def _pull(ctx: Any, grad: Tensor | None, grad_slope: Tensor | None, _: Tensor | None) -> tuple[Tensor | None, ...]:
    kept = ctx.saved_tensors[0]
    grad = torch.zeros_like(kept[0]) if grad is None else grad
    grad_slope = torch.zeros_like(kept[0, :, 0]) if grad_slope is None else grad_slope
    return *couple_back(grad, grad_slope, *ctx.saved_tensors, *ctx.numbers), None, None


couple.register_autograd(_pull, setup_context=_keep)
