"""Random elements of a group, with which inputs are moved."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..transforms import Group, Transform
from ..transforms.base import Bounds, resolve_bounds
from ..utils.shapes import check_kind, describe

__all__ = ["Moves", "moves_along", "moves_within"]


class Moves(nn.Module):
    """Elements of a group, uniform within ranges of its coordinates.

    Args:
        group: the transformations.
        ranges: of all coordinates, `(2, d)`; see `moves_along` and `moves_within`.
    """

    ranges: Tensor

    def __init__(self, group: Group, ranges: Tensor) -> None:
        super().__init__()
        self.group = group
        self.register_buffer("ranges", ranges.to(group.bounds), persistent=False)

    def forward(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Random elements, `(*shape, *element_shape)`; of the group's dtype if None is given."""
        low, high = self.ranges.to(dtype=dtype)
        return self.group.element(low + (high - low) * torch.rand(*shape, len(low), dtype=low.dtype, device=low.device))


def moves_within(group: Group, ranges: Bounds | None = None) -> Moves:
    """Moves in all coordinates, within ranges or within bounds.

    Args:
        group: the transformations.
        ranges: by coordinate: (low, high), or b for (-b, b); those not named have the bounds of the group.
    """
    return Moves(group, resolve_bounds(group.names, _bounds(group), ranges, called="ranges"))


def moves_along(transform: Transform, turns: Bounds | None = None) -> Moves:
    """Moves along some coordinates; those that are not named stay at the identity.

    Args:
        transform: a group with continuous coordinates; an angle among `turns` must be periodic, as that of a factored
            `Affine`.
        turns: the range of each coordinate in which inputs are moved, by name: (low, high), or b for (-b, b). The whole
            circle of angles if None.
    """
    if not isinstance(transform, Group) or transform.support.is_discrete:
        accepted = "a Group with continuous coordinates"
        raise ValueError(f"transform: received {describe(transform)}; accepted is {accepted}")
    if turns is None and "angle" not in transform.names:
        got = f"None for {', '.join(transform.names)}"
        raise ValueError(f"turns: received {got}; accepted are ranges of coordinates, or None where one is an angle")
    named = {"angle": math.pi} if turns is None else check_kind("turns", turns, Mapping)
    return Moves(transform, _turned(transform, named))


def _turned(group: Group, turns: Bounds) -> Tensor:
    """The ranges of all coordinates, `(2, d)`; those that are not named stay at the identity."""
    if unknown := [name for name in turns if name not in group.names]:
        raise ValueError(f"turns: received a range for {unknown}; accepted are the coordinates {list(group.names)}")
    places = [group.names.index(name) for name in turns]
    if [i for i in places if group.names[i] == "angle" and not group.periodic[i]]:
        # The exponential of a great angle has no logarithm, or one on another branch.
        accepted = "one whose angle is periodic (Affine with factored=True, within a whole turn)"
        raise ValueError(f"transform: received {group!r}; accepted is {accepted}")
    ranges = group.origin.expand(2, -1).clone()
    try:
        ranges[:, places] = resolve_bounds(tuple(turns), _bounds(group), turns).to(ranges)
    except ValueError as error:
        raise ValueError(f"turns, as {error}") from None
    return ranges


def _bounds(group: Group) -> dict[str, tuple[float, float]]:
    """The bounds of each coordinate by its name."""
    low, high = group.bounds.tolist()
    return {name: (a, b) for name, a, b in zip(group.names, low, high, strict=True)}
