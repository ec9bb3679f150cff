"""What a `SymmetryFinder` looks for: coordinates with their ranges, and the group that has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ..transforms import HSV, Affine, Group, Product
from ..transforms.ranges import ROUNDED
from .coordinates import AFFINE, COLOUR, SHORT, Wanted, resolve_ranges, told
from .symmetry_report import LITTLE

__all__ = ["check_colours", "grains", "group_of", "whole_circles"]

GRAIN = 0.25  # noise on poses, as a share of half a pixel or of what else counts as a range
ROOM = 1.5  # how much wider than the random transformations the range of poses is
WHOLE = {"angle": math.pi, "hue": 0.5}  # half of the circle


def check_colours(ranges: Mapping[str, Any], x: Tensor) -> None:
    """Raises a `ValueError` for coordinates of colour where images are not red, green and blue."""
    colours = [name for name in ranges if name in COLOUR]
    if colours and x.shape[1] != 3:
        got = f"{', '.join(colours)} for images of {x.shape[1]} channels"
        raise ValueError(f"transform: received {got}; accepted are colours for images of 3, red, green and blue")


def whole_circles(wanted: Wanted) -> dict[str, tuple[float, float]]:
    """The ranges that are looked for, angles and hues on the whole circle."""
    ranges: Any = resolve_ranges(wanted, known=(*AFFINE, *COLOUR, *SHORT))
    for name in ranges:
        if name not in (*AFFINE, *COLOUR):
            why = {"crop": ", which loses what is outside", "warp": ", which is for series"}.get(name, "")
            accepted = f"coordinates of groups: {', '.join((*AFFINE, *COLOUR))}"
            raise ValueError(f"transform: received {name!r}{why}; accepted are {accepted}")
        low, high = ranges[name]
        if name in WHOLE and not math.isclose(high - low, 2 * WHOLE[name], rel_tol=ROUNDED):
            got = told(name, low, high)
            raise ValueError(f"transform: received {got}; accepted is {name} without a range, on the whole circle")
    return {name: (-WHOLE[name], WHOLE[name]) if name in WHOLE else ends for name, ends in ranges.items()}


def group_of(ranges: Mapping[str, tuple[float, float]]) -> Group:
    """The group, with room for poses beyond the random transformations."""
    wide = {n: ends if n in ("angle", "hue") else (ROOM * ends[0], ROOM * ends[1]) for n, ends in ranges.items()}
    affine, colour = ([name for name in ranges if name in kind] for kind in (AFFINE, COLOUR))
    parts: list[Group] = []
    if affine:
        parts.append(Affine(*affine, factored=True, bounds={name: wide[name] for name in affine}))
    if colour:
        parts.append(HSV(*colour, bounds={name: wide[name] for name in colour}))
    return parts[0] if len(parts) == 1 else Product(*parts)  # pyright: ignore[reportReturnType]


def grains(names: Sequence[str], ranges: Mapping[str, tuple[float, float]], side: int) -> list[float]:
    """Noise on poses, of each coordinate, for images whose longer side has so many pixels."""
    half = {name: (ranges[name][1] - ranges[name][0]) / 2 for name in names}
    return [GRAIN * (1 / side if name in AFFINE else LITTLE * half[name]) for name in names]
