"""From the features of an input to the parameters of a distribution, starting where it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import NotFinite, check_count, check_true, describe

__all__ = ["Head", "at_least", "at_most", "check_scale", "inverse_positive", "positive"]

FLOOR = 1e-6  # no scale below this: its logarithm stays finite in float32


def positive(raw: Tensor) -> Tensor:
    """A positive number from any number."""
    return F.softplus(raw) + FLOOR


def inverse_positive(y: Tensor) -> Tensor:
    """The number that `positive` maps to y."""
    y = (y - FLOOR).clamp(min=FLOOR)
    return y + torch.log(-torch.expm1(-y))


def check_scale(scale: Tensor, ok: Tensor, wrong: str = "zero, negative or NaN", accepted: str = "scales > 0") -> None:
    """Raises a `ValueError` for wrong scales; for NaN a `NotFinite`, by which training knows a network that diverged.

    Args:
        scale: the scales.
        ok: which of them are as they should be, of the same shape.
        wrong: what the others may be.
        accepted: what they should be.
    """
    try:
        check_true("scale", ok, f"scales that are {wrong}", accepted)
    except ValueError as error:
        raise NotFinite(str(error)) if scale.isnan().any() else error from None


class _Inward(torch.autograd.Function):
    """The lesser of two; where the first is beyond the second, only a gradient that leads back passes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, greatest: Tensor) -> Tensor:
        """The lesser."""
        return torch.minimum(x, greatest)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Remembers where it is too great."""
        ctx.save_for_backward(inputs[0] > inputs[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Descent lowers what has a positive gradient."""
        (grad,), (beyond,) = grads, ctx.saved_tensors
        return torch.where(beyond & (grad < 0), 0.0, grad), None


def at_most(x: Tensor, greatest: Tensor) -> Tensor:
    """The lesser of two. A clamp would keep what is beyond for ever; here a gradient that leads back passes."""
    return _Inward.apply(x, greatest)  # pyright: ignore[reportReturnType]


def at_least(x: Tensor, least: Tensor) -> Tensor:
    """The greater of two, likewise."""
    return -at_most(-x, -least)


class Head(nn.Module):
    """A linear layer, or a small network, whose output starts at a given vector, whatever the input.

    The last layer's weight starts at zero, so a distribution starts the same for all inputs.

    Args:
        context: the number of features of an input.
        start: the output at the start, `(k,)`.
        hidden: the widths of hidden layers, each followed by gelu and layer normalisation (SGM appendix C).

    Shape:
        input: `(B, context)`; result: `(B, k)`.
    """

    def __init__(self, context: int, start: Tensor, hidden: Sequence[int] = ()) -> None:
        super().__init__()
        if not isinstance(hidden, Sequence):
            raise ValueError(f"hidden: received {describe(hidden)}; accepted is a sequence of widths, such as (32, 32)")
        widths = (context, *(check_count("hidden", width) for width in hidden))
        layers = [nn.Sequential(nn.Linear(a, b), nn.GELU(), nn.LayerNorm(b)) for a, b in pairwise(widths)]
        self.body = nn.Sequential(*layers)
        self.last = nn.Linear(widths[-1], len(start))
        with torch.no_grad():
            self.last.weight.zero_()
            self.last.bias.copy_(start)

    def forward(self, h: Tensor) -> Tensor:
        """The parameters."""
        return self.last(self.body(h))
