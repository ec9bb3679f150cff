"""Crops: a window of the frame, enlarged to the whole of it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints

from .base import Bounds, resolve_bounds
from .spatial import Spatial, inside_frame
from .warp import half_extent

__all__ = ["Crop"]


class Crop(Spatial):
    r"""A window with centre and size (LTT section 4: 4-d crops), always inside the frame.

    Sizes $w, h$ are fractions of the frame's sides. The centre is given relative to the room that the size leaves:
    $c_x = (1 - w)\, v_x$ in units of half the width, so that $v_x = \pm 1$ touches the edge, whatever the size.
    Coordinates beyond their support mean the nearest crop within it. Not invertible: what is cut off is lost.

    Differs from the paper: it leaves the parametrisation open; this one is ours.

    Args:
        square: one coordinate "size" for both sides, so that the aspect is kept.
        smallest: the least size, in (0, 1).
        bounds: ranges that differ from the whole support, by name.
        **kwargs: interpolation, padding and fill, see `Spatial`. Since a crop shows nothing from outside, its padding
            is "border" by default: "zeros" would darken the rim of a crop that touches the edge.

    Shape:
        v: `(*S, B, 4)` as cx, cy, width, height, or `(*S, B, 3)` as cx, cy, size; elements: `(*S, B, 4)`, the centre in
        units of half the sides and the two sizes.
    """

    element_shape = (4,)

    def __init__(
        self,
        *,
        square: bool = False,
        smallest: float = 0.25,
        bounds: Bounds | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(smallest, Real) or not 0 < smallest < 1:
            raise ValueError(f"smallest: received {smallest!r}; accepted is a fraction of the frame between 0 and 1")
        sizes = ("size",) if square else ("width", "height")
        names = ("cx", "cy", *sizes)
        default: Bounds = {"cx": 1.0, "cy": 1.0} | dict.fromkeys(sizes, (smallest, 1.0))
        ranges = resolve_bounds(names, default, bounds)
        supports = [constraints.interval(smallest if n in sizes else -1.0, 1.0) for n in names]
        for name, support, ends in zip(names, supports, ranges.T, strict=True):
            if not bool(support.check(ends).all()):
                raise ValueError(f"bounds[{name!r}]: received {tuple(ends.tolist())}; accepted is a range in {support}")
        origin = (0.0, 0.0, *[1.0] * len(sizes))
        super().__init__(names, ranges, origin=origin, supports=supports, **inside_frame(kwargs))
        self.smallest = smallest

    def element(self, v: Tensor) -> Tensor:
        """Centre and size of the window."""
        v = self.coordinates(v)
        size = v[..., 2:].clamp(self.smallest, 1.0).expand(*v.shape[:-1], 2)
        return torch.cat((v[..., :2].clamp(-1.0, 1.0) * (1 - size), size), -1)

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """Points relative to the window; those outside it land outside the frame."""
        g = self.elements_like(g)
        p = self.check_points(g, p, 2)
        extent = half_extent((1, 1) if size is None else size, p)
        return (p - (g[..., :2] * extent).unsqueeze(-2)) / g[..., None, 2:]

    def source(self, g: Tensor, p: Tensor, size: Sequence[int]) -> Tensor:
        """Points of the window."""
        return p * g[..., None, 2:] + (g[..., :2] * half_extent(size, p)).unsqueeze(-2)
