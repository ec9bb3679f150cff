"""Elementwise functions whose quotients need care near 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

__all__ = ["growth", "horner"]


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
    return _Growth.apply(z)


class _Growth(Function):
    r"""With its derivative, $\varphi' = \varphi + (1 - \varphi) / z$; by a power series near 0, where that cancels."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> Tensor:
        zero = z == 0
        return torch.where(zero, 1, torch.expm1(z) / torch.where(zero, 1, z))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        z, value = ctx.saved_tensors
        near = z.abs() < 1 / 16
        terms = range(5 if z.dtype == torch.float32 else 10)
        series = horner(torch.where(near, z, 0), [(k + 1) / math.factorial(k + 2) for k in terms])
        return grad * torch.where(near, series, value + (1 - value) / torch.where(near, 1, z))
