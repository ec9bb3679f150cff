"""From names and ranges of coordinates to the transform that has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import TypeAlias

from ..transforms import CPAB, HSV, Affine, Crop, Product, Transform
from ..transforms.ranges import ROUNDED, TURNS
from ..utils.shapes import describe

__all__ = ["KNOWN", "Ranges", "Wanted", "build_transform", "resolve_ranges", "told"]

AFFINE = ("tx", "ty", "angle", "scale", "stretch", "shear", "sx", "sy")
COLOUR = ("hue", "saturation", "value")
SHORT = {"affine": AFFINE[:6], "hsv": COLOUR}
CELLS, SPEED = 10, 0.3  # defaults of warps of time: cells, and the greatest velocity
FASTEST = 2.0  # the whole series in a unit of time
SMALLEST = 0.25  # the default size of the smallest crop
# How far a range may reach. Moved by 2, nothing is left in the frame; a factor of e³ leaves one pixel of twenty, and of
# more, stretched and sheared at once, single precision has no inverse; a level of a byte is black or white by e⁶.
REACH: dict[str, float] = {
    **dict.fromkeys(("tx", "ty"), 2.0),
    **dict.fromkeys(AFFINE[3:], 3.0),
    **dict.fromkeys(COLOUR[1:], 6.0),
}
KNOWN = (*AFFINE, *COLOUR, "crop", "warp", *SHORT)

Wanted: TypeAlias = "str | Sequence[str] | Mapping[str, float | Sequence[float] | None]"
Ranges: TypeAlias = "dict[str, float | tuple[float, float]]"


def resolve_ranges(wanted: Wanted, *, known: Sequence[str] = KNOWN) -> Ranges:
    """Every coordinate with its range, the defaults of the transforms filled in.

    Args:
        wanted: names, which may be one string with commas; or names with what they may be, (low, high), b for (-b, b),
            or None for the default. Angles are in radians, hues in turns. "crop" has the smallest size of a crop;
            "affine" and "hsv" stand for all of theirs. "warp", for series and alone, has the greatest velocity of a
            warp of time.
        known: the names that errors list as accepted.

    Returns:
        (low, high) by name, the smallest size for "crop", and the greatest velocity for "warp".

    Raises:
        ValueError: a name is unknown or comes twice; a range is none, does not hold the identity, or reaches too far.

    Example:
        >>> resolve_ranges(("tx", "crop"))
        {'tx': (-0.25, 0.25), 'crop': 0.25}
    """
    given = _expand(wanted, known)
    if "warp" in given:
        return {"warp": _speed(given)}
    for name, value in given.items():
        if name != "crop" and value is not None:
            _check_range(name, value)
    if {"scale", "stretch"} & set(given) and {"sx", "sy"} & set(given):
        raise ValueError(f"transform: received {', '.join(given)}; accepted is either scale and stretch, or sx and sy")
    transform = _build(given, full_turn=False)
    found: Ranges = {}
    for name in given:
        if name == "crop":
            found[name] = _smallest(given)
            continue
        low, high = transform.bounds[:, transform.names.index(name)].double().tolist()
        # What the user wrote, not what is left of it in single precision: 2π must stay the whole circle.
        value = given[name]
        if value is not None:
            low, high = _pair(value)
        elif name == "angle":
            low, high = -math.pi, math.pi
        found[name] = (low, high)
    return found


def build_transform(wanted: Wanted) -> Transform:
    """The transform with these coordinates: affine ones act first, then the crop, then colours.

    An angle whose range is the whole circle lives on the circle, in the factored form of `Affine` where it needs to.

    Example:
        >>> build_transform({"tx": 0.1, "angle": None, "hue": None}).periodic
        (False, True, True)
    """
    ranges = resolve_ranges(wanted)
    if "warp" in ranges:
        speed = _speed(ranges)
        return CPAB((CELLS,), bounds={f"theta{k}": speed for k in range(CELLS - 1)})
    low, high = _pair(ranges.get("angle", 0.0))
    return _build(ranges, full_turn=math.isclose(high - low, 2 * math.pi, rel_tol=ROUNDED))


def _build(ranges: Mapping[str, float | tuple[float, float] | None], full_turn: bool) -> Transform:
    parts: list[Transform] = []
    affine, colour = ([name for name in ranges if name in kind] for kind in (AFFINE, COLOUR))
    if affine:
        factored = full_turn and not set(affine) <= {"angle", "scale"}
        parts.append(Affine(*affine, factored=factored, bounds=_given(ranges, affine)))
    if "crop" in ranges:
        parts.append(Crop(smallest=_smallest(ranges)))
    if colour:
        parts.append(HSV(*colour, bounds=_given(ranges, colour)))
    return parts[0] if len(parts) == 1 else Product(*parts)


def _given(
    ranges: Mapping[str, float | tuple[float, float] | None], names: Sequence[str]
) -> dict[str, float | tuple[float, float]]:
    return {name: value for name in names if (value := ranges[name]) is not None}


def _expand(wanted: Wanted, known: Sequence[str]) -> dict[str, float | tuple[float, float] | None]:
    """One entry for each coordinate (and "crop"), checked."""
    if isinstance(wanted, str):
        wanted = [name.strip() for name in wanted.split(",")]
    if not isinstance(wanted, Iterable):
        accepted = "names of coordinates, or a dict of names with their ranges"
        raise ValueError(f"transform: received {describe(wanted)}; accepted are {accepted}")
    pairs = list(wanted.items()) if isinstance(wanted, Mapping) else [(name, None) for name in wanted]
    found: dict[str, float | tuple[float, float] | None] = {}
    for name, value in pairs:
        if name not in KNOWN:
            raise ValueError(f"transform: received {name!r}; accepted are {', '.join(known)}")
        if name in SHORT and value is not None:
            raise ValueError(f"transform: received a range for {name!r}; accepted is one for each of {SHORT[name]}")
        for part in SHORT.get(name, (name,)):
            if part in found:
                raise ValueError(f"transform: received {part!r} more than once; accepted is each name once")
            found[part] = tuple(value) if isinstance(value, list | tuple) else value  # pyright: ignore[reportArgumentType]
    if not found:
        raise ValueError(f"transform: received no names; accepted are {', '.join(known)}")
    return found


def _pair(value: float | tuple[float, float]) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (-value, value)


def _speed(ranges: Mapping[str, float | tuple[float, float] | None]) -> float:
    """The greatest velocity of a warp of time, which comes with no other coordinate."""
    value = SPEED if ranges["warp"] is None else ranges["warp"]
    if len(ranges) > 1:
        raise ValueError(f"transform: received {', '.join(ranges)}; accepted is warp alone, for series")
    if isinstance(value, tuple | bool) or not 0 < value <= FASTEST:
        accepted = f"its greatest velocity, a number > 0, at most {FASTEST:g}"
        raise ValueError(f"transform: received warp with {value!r}; accepted is {accepted}")
    return float(value)


def _smallest(ranges: Mapping[str, float | tuple[float, float] | None]) -> float:
    """The smallest size of a crop."""
    value = SMALLEST if ranges["crop"] is None else ranges["crop"]
    if isinstance(value, tuple) or not 0 < value < 1:
        raise ValueError(f"transform: received crop with {value!r}; accepted is its smallest size, between 0 and 1")
    return value


def told(name: str, low: float, high: float) -> str:
    """A range in words, angles in degrees as well, as they are typed."""
    degrees = f" ({math.degrees(low):.4g}° to {math.degrees(high):.4g}°)" if name == "angle" else ""
    return f"{name} from {low:.4g} to {high:.4g}{degrees}"


def _number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _check_range(name: str, value: float | tuple[float, ...]) -> None:
    ends = value if isinstance(value, tuple) else (value, value)
    if len(ends) != 2 or not all(map(_number, ends)):
        raise ValueError(f"transform: received {name} with {value!r}; accepted is a number > 0, or low and high")
    low, high = _pair(value)  # pyright: ignore[reportArgumentType]
    got = f"transform: received {told(name, low, high)}"
    if not low < high or not low <= 0 <= high:
        raise ValueError(f"{got}; accepted is a range that holds 0, low < high")
    if max(-low, high) > (reach := REACH.get(name, math.inf)):
        raise ValueError(f"{got}; accepted is a range within ±{reach:g}")
    turn = TURNS.get(name, math.inf)
    if high - low > turn * (1 + ROUNDED):
        raise ValueError(f"{got}; accepted is at most one turn, such as {told(name, -turn / 2, turn / 2)}")
