"""What an exhibit is, and what the exhibits share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ...data import picture
from ...transforms import FiniteGroup, Transform
from ..panels import Row, act_row, number

__all__ = ["STEPS", "Exhibit", "along", "batch", "coordinates", "finite", "one_by_one"]

STEPS = (-1.0, -0.5, 0.0, 0.5, 1.0)


@dataclass(frozen=True)
class Exhibit:
    """One card: a transform, what it does, the code that does it and the rows that show it."""

    title: str
    text: str
    transform: Transform
    code: str
    rows: tuple[Row, ...]
    signal: Tensor


def coordinates(transform: Transform) -> str:
    """The coordinates of a transform with their ranges, as text."""
    low, high = transform.bounds.tolist()
    names = transform.names
    ranges = [f"[{_short(a)}, {_short(b)}]" for a, b in zip(low, high, strict=True)]
    if len(names) > 6 and len(set(ranges)) == 1:
        return f"{names[0]} … {names[-1]} ∈ {ranges[0]}"
    if isinstance(transform, FiniteGroup):
        return f"index ∈ {{0, …, {len(transform) - 1}}}"
    groups: dict[str, list[str]] = {}
    for name, text in zip(names, ranges, strict=True):
        groups.setdefault(text, []).append(name)
    return "; ".join(f"{', '.join(members)} ∈ {text}" for text, members in groups.items())


def _short(value: float) -> str:
    known = {math.pi: "π", 2 * math.pi: "2π"}
    text = next((t for k, t in known.items() if math.isclose(abs(value), k, rel_tol=1e-6)), f"{abs(value):.3g}")
    return f"−{text}" if value < 0 else text


def along(direction: Sequence[float]) -> Tensor:
    """Five steps through the origin along a direction, `(5, 1, d)`."""
    return torch.tensor(STEPS)[:, None, None] * torch.tensor(direction)


def batch(size: int) -> Tensor:
    """The square picture as a batch of one."""
    return _picture(size, torch.get_default_dtype()).unsqueeze(0)


@lru_cache(4)
def _picture(size: int, dtype: torch.dtype) -> Tensor:
    return picture((size, size)).to(dtype)


def one_by_one(transform: Transform, x: Tensor, reach: dict[str, float]) -> tuple[Row, ...]:
    """A row for each coordinate, the others at zero."""
    rows = []
    for name, most in reach.items():
        v = along([most * (other == name) for other in transform.names])
        rows.append(act_row(name, transform, x, v, [number(s * most) for s in STEPS]))
    return tuple(rows)


def finite(call: str, text: str, transform: FiniteGroup, x: Tensor, captions: Sequence[str]) -> Exhibit:
    """All elements of a finite group."""
    row = act_row("elements", transform, x, transform.elements()[:, None, None].to(x.dtype), captions)
    code = f"""\
from erlangen.transforms import {call.partition("(")[0]}

group = {call}
g = group.elements().unsqueeze(1)
y = group.act(g, x)"""
    title = call.removesuffix("()") + (" of time" if x.ndim == 3 else "")
    return Exhibit(title, text, transform, code, (row,), x)
