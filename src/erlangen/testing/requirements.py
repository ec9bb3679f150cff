"""What the checks are made of."""

from __future__ import annotations

import math

from torch import Tensor

__all__ = ["gap", "require"]


def require(ok: bool | Tensor, message: str) -> None:
    """Raises an `AssertionError` with this message unless `ok`."""
    if not bool(ok):
        raise AssertionError(message)


def gap(a: Tensor, b: Tensor) -> float:
    """The largest difference; infinite where one is not finite or the shapes differ."""
    if a.shape != b.shape:
        return math.inf
    difference = (a - b).abs().amax().item() if a.numel() else 0.0
    return difference if math.isfinite(difference) else math.inf
