"""Elementwise functions whose quotients need care near 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

__all__ = ["growth", "growth_slope", "horner"]

# The derivative of log φ(z) is 1/2 + z/12 - z³/720 + z⁵/30240 - ...
_LOG_SLOPE = [1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600]


def horner(x: Tensor, coefficients: Sequence[Any]) -> Tensor:
    """The polynomial with these coefficients (numbers or tensors, two or more), lowest first."""
    value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = value * x + c
    return value


def growth(z: Tensor) -> Tensor:
    r"""$\varphi(z) = (e^z - 1) / z$, the mean of $e^{tz}$ over $0 \le t \le 1$, with exact derivatives of every order.

    Example:
        >>> growth(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 1.7183])
    """
    return _Growth.apply(z) if torch.is_grad_enabled() else _Growth.forward(z)


def growth_slope(z: Tensor, value: Tensor) -> Tensor:
    r"""The derivative of `growth`, from z and its value: $\varphi' = \varphi + (1 - \varphi) / z$, near 0 a series."""
    square = z * z
    near = (1 / 16 - square.detach()).relu_().sign_()
    series = horner(square.clamp(max=1 / 16), _LOG_SLOPE[: 2 if z.dtype == torch.float32 else None])
    return torch.lerp(value + (1 - value) / (z + near), value * (0.5 + z * series), near)


class _Growth(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> Tensor:
        # Nothing in place: the compiler of torch 2.11 saves what was there before.
        zero = 1 - z.sign().abs()
        return (torch.expm1(z) + zero) / (z + zero)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * growth_slope(*ctx.saved_tensors)
