"""The ranges of coordinates: those that users give, and defaults for the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ..utils.shapes import describe

__all__ = ["ROUNDED", "TURNS", "Bounds", "resolve_bounds"]

Bounds: TypeAlias = Mapping[str, "float | tuple[float, float]"]
TURNS = {"angle": 2 * math.pi, "hue": 1.0}  # more than a whole turn can only be degrees
ROUNDED = 1e-5  # how far from a turn a range may be that is taken for one: π is often written as 3.1416


def resolve_bounds(
    names: Sequence[str], default: Bounds, bounds: Bounds | None = None, *, called: str = "bounds"
) -> Tensor:
    """The range of each coordinate, from defaults and what the user gives; a number b stands for (-b, b).

    Args:
        names: of the coordinates.
        default: the ranges of coordinates that the user does not name.
        bounds: the ranges that the user gives.
        called: the name of `bounds` in errors.

    Shape:
        result: `(2, d)`.
    """
    bounds = {} if bounds is None else bounds
    if not isinstance(bounds, Mapping):
        raise ValueError(f"{called}: received {describe(bounds)}; accepted are ranges by the name of a coordinate")
    if unknown := [name for name in bounds if name not in names]:
        raise ValueError(f"{called}: received a range for {unknown}; accepted are the coordinates {list(names)}")
    rows = []
    for name in names:
        given, usual = bounds.get(name, default[name]), _ends(default[name])
        low, high = _ends(given)
        turn = TURNS.get(name, math.inf)
        if usual[1] - usual[0] > turn * (1 + ROUNDED):  # a transform from elsewhere may have other units
            turn = math.inf
        if math.isclose(high - low, turn, rel_tol=ROUNDED):
            low, high = (end * (turn / (high - low)) for end in (low, high))  # zero stays zero
        if not (math.isfinite(low) and math.isfinite(high) and low < high and high - low <= turn * (1 + ROUNDED)):
            most = {"angle": ", at most a turn: math.pi (radians)", "hue": ", at most a turn: 0.5"}.get(name, "")
            accepted = f"a finite low < high, or one number > 0{most}"
            raise ValueError(f"{called}[{name!r}]: received {given!r}; accepted is {accepted}")
        rows.append((low, high))
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, 2).T.contiguous()


def _ends(given: Any) -> tuple[float, float]:
    """Both ends of a range; NaN if it is none."""
    try:
        low, high = (float(end) for end in (given if np.ndim(given) else (-given, given)))
    except (TypeError, ValueError):
        return math.nan, math.nan
    return low, high
