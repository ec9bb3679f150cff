r"""Sprites in the manner of dSprites: squares, ellipses and hearts, drawn in code, with known laws of their factors.

The laws are those of SGM appendix C.3.1, which differ from shape to shape, so that what a model of symmetries should
find is known exactly. It is not dSprites: shapes are antialiased and factors continuous, where dSprites has a grid of
binary images.

Convention:
    * x and y from 0 to 1 place the sprite's centre of mass from the first to the last quarter of the frame: x = 0.5 is
      the middle, a step of 1 is half the side. y points down.
    * A sprite of scale 1 has the area of a square whose side is a third of the frame's.
    * Orientation is counter-clockwise as displayed, in radians, 0 for the sprite as drawn (the heart's tip down).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..distributions.circle import wrap
from ..utils.seeds import generator
from ..utils.shapes import check_count, check_tensor, check_unit, describe
from .drawing import circle, ellipse, polygon, union
from .sets import FactoredSet

__all__ = ["FACTORS", "LAWS", "PERIODS", "SHAPES", "Law", "read_sprites", "sprites"]

SHAPES = ("square", "ellipse", "heart")
FACTORS = ("scale", "orientation", "x", "y")
PERIODS = {"square": math.pi / 2, "ellipse": math.pi, "heart": 2 * math.pi}  # turns that leave a shape as it is
# The strongest moments of each shape that tell its orientation. The heart's first order is far weaker than its third,
# which is blind to turns by 120°; the second order tells those apart.
ORDERS = {"square": (4,), "ellipse": (2,), "heart": (3, 2)}
SIDE = 2 / 3  # the side of the square of scale 1, in half sides of the image
CHUNK = 512  # sprites drawn at once, to bound memory


class Law(NamedTuple):
    r"""A distribution of one factor: a mixture, in equal parts, of uniform or truncated normal laws.

    Attributes:
        ranges: where each part lives.
        centre: $(\mu, \sigma^2)$ of the normal that is truncated to the range; None for uniform.
    """

    ranges: tuple[tuple[float, float], ...]
    centre: tuple[float, float] | None = None

    def quantile(self, u: Tensor) -> Tensor:
        """The value below which a share u lies, within [0, 1]."""
        place = (u * len(self.ranges)).clamp(max=len(self.ranges) * (1 - 1e-12))
        part = place.floor()
        low, high = (torch.tensor(ends, dtype=u.dtype)[part.long()] for ends in zip(*self.ranges, strict=True))
        share = place - part
        if self.centre is None:
            return low + (high - low) * share
        mean, spread = self.centre[0], math.sqrt(self.centre[1])
        a, b = (torch.special.ndtr((end - mean) / spread) for end in (low, high))
        return mean + spread * torch.special.ndtri(a + (b - a) * share)


def _uniform(low: float, high: float) -> Law:
    return Law(((low, high),))


def _normal(mean: float, variance: float, low: float, high: float) -> Law:
    return Law(((low, high),), (mean, variance))


LAWS: dict[str, dict[str, Law]] = {
    "square": {
        "scale": _normal(0.75, 0.2, 0.55, 1.0),
        "orientation": _uniform(0.0, 2 * math.pi),
        "x": _uniform(0.5, 0.95),
        "y": _uniform(0.5, 0.95),
    },
    "ellipse": {
        "scale": _normal(0.65, 0.15, 0.5, 0.85),
        "orientation": _uniform(0.0, math.pi / 2),
        "x": _normal(0.5, 0.25, 0.1, 0.9),
        "y": _normal(0.5, 0.15, 0.35, 0.65),
    },
    "heart": {
        "scale": _uniform(0.9, 1.0),
        "orientation": _uniform(0.0, 0.0),
        "x": _uniform(0.1, 0.5),
        "y": Law(((0.1, 0.3), (0.7, 0.9))),
    },
}


def _square(x: Tensor, y: Tensor) -> Tensor:
    h = SIDE / 2
    return polygon(x, y, ((-h, -h), (h, -h), (h, h), (-h, h)))


def _ellipse(x: Tensor, y: Tensor) -> Tensor:
    short = SIDE / math.sqrt(2 * math.pi)  # twice as long as wide, with the square's area
    return ellipse(x, y, (0.0, 0.0), (2 * short, short))


def _heart(x: Tensor, y: Tensor) -> Tensor:
    """A square on its tip, with a half disc on each upper side; around its centre of mass."""
    a = SIDE / math.sqrt(4 + math.pi)  # half the side of the inner square, for the same area
    half = a * math.sqrt(2)
    # The half discs' centroids lie 4a/3π from the sides, whose middles are half/2 from the centre, up and aside.
    area, up = math.pi * a * a / 2, half / 2 + 4 * a / (3 * math.pi) / math.sqrt(2)
    y = y - 2 * area * up / SIDE**2
    tip = polygon(x, y, ((0.0, -half), (half, 0.0), (0.0, half), (-half, 0.0)))
    lobes = (circle(x, y, (side * half / 2, -half / 2), a) for side in (-1, 1))
    return union(tip, *lobes)


DRAW: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"square": _square, "ellipse": _ellipse, "heart": _heart}


def _draw(shape: str, factors: Tensor, size: int) -> Tensor:
    """Sprites with given factors, `(N, 1, size, size)`, uint8."""
    place = (torch.arange(size, dtype=torch.float64) - (size - 1) / 2) * (2 / size)
    out = torch.empty(len(factors), 1, size, size, dtype=torch.uint8)
    for part, rows in zip(out.split(CHUNK), factors.split(CHUNK), strict=True):
        scale, angle, x, y = (column[:, None, None] for column in rows.unbind(-1))
        dx, dy = place - (x - 0.5), place[:, None] - (y - 0.5)
        c, s = angle.cos() / scale, angle.sin() / scale
        distance = DRAW[shape](c * dx - s * dy, s * dx + c * dy) * scale
        cover = (0.5 - distance * (size / 2)).clamp(0, 1)
        part.copy_((cover * 255).round().unsqueeze(1))
    return out


def sprites(n: int = 20_000, *, seed: int = 0, size: int = 64) -> FactoredSet:
    """Sprites whose factors follow the laws of their shapes (SGM appendix C.3.1), shapes in equal parts.

    Args:
        n: how many.
        seed: of shapes and factors.
        size: pixels along each side.

    Shape:
        x: `(n, 1, size, size)`, uint8; factors: `(n, 4)`, scale, orientation, x and y.

    Example:
        >>> data = sprites(6)
        >>> data, data.names
        (FactoredSet 'sprites': 6 of (1, 64, 64), uint8, 3 classes, ('scale', 'orientation', 'x', 'y'))
    """
    for name, count in (("n", n), ("size", size)):
        check_count(name, count)
    chance = generator(seed)
    y = torch.randperm(n, generator=chance) % len(SHAPES)
    u = torch.rand(n, len(FACTORS), generator=chance, dtype=torch.float64)
    factors, x = torch.empty_like(u), torch.empty(n, 1, size, size, dtype=torch.uint8)
    for k, shape in enumerate(SHAPES):
        rows = (y == k).nonzero().flatten()
        values = torch.stack([LAWS[shape][name].quantile(u[rows, i]) for i, name in enumerate(FACTORS)], -1)
        factors[rows], x[rows] = values, _draw(shape, values, size)
    return FactoredSet(x, y, SHAPES, "sprites", factors.to(torch.get_default_dtype()), FACTORS)


def _moments(z: Tensor, mass: Tensor, shape: str) -> Tensor:
    r"""The moments $\sum m z^n$ of the orders of a shape, which turn n times as fast as it does, `(N, orders)`."""
    return torch.stack([(mass * z**n).sum((-1, -2)) for n in ORDERS[shape]], -1)


def _turn(moments: Tensor, shape: str) -> Tensor:
    """By how much moments have turned, those of the shape as drawn divided out, `(N,)`, up to its period."""
    first, n = moments[:, 0].angle(), ORDERS[shape][0]
    if len(ORDERS[shape]) == 1:
        return first / n
    # One order less turns once less, so that both together say which of the n turns is meant, and the first where.
    once = (moments[:, 0] * moments[:, 1].conj()).angle()
    return once + wrap(first - n * once) / n


@cache
def _references() -> dict[str, tuple[float, Tensor]]:
    """Of each shape as drawn, upright and of scale 1: its area in half sides, and its moments."""
    found = {}
    for shape in SHAPES:
        image = _draw(shape, torch.tensor([[1.0, 0.0, 0.5, 0.5]], dtype=torch.float64), 256)
        area, _, z, mass = _measured(image.double() / 255)
        found[shape] = area.item(), _moments(z, mass, shape)
    return found


def _measured(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Area, centre `(N, 2)`, and of each pixel its place as seen from there (up is imaginary) and its mass."""
    mass, size = x.sum(1), x.shape[-1]
    place = (torch.arange(size, dtype=x.dtype, device=x.device) - (size - 1) / 2) * (2 / size)
    total = mass.sum((-1, -2)).clamp(min=1e-12)
    cx, cy = (mass * place).sum((-1, -2)) / total, (mass * place[:, None]).sum((-1, -2)) / total
    dx, dy = place - cx[:, None, None], place[:, None] - cy[:, None, None]
    z = torch.complex(dx + torch.zeros_like(dy), -dy + torch.zeros_like(dx))
    return total * (2 / size) ** 2, torch.stack((cx, cy), -1), z, mass


def read_sprites(x: Tensor, y: Tensor) -> Tensor:
    """The factors of sprites, read off their images by moments: exact but for the raster, if nothing is cut off.

    At 64×64 pixels the error of orientations, the root mean square over the laws, is 0.06° for squares and ellipses
    and 0.12° for hearts.

    Args:
        x: images, square, uint8 or within [0, 1].
        y: their shapes, indices into `SHAPES`.

    Shape:
        x: `(N, 1, H, H)`; y: `(N,)`; result: `(N, 4)` as `FACTORS`, the orientation within one period of the shape.
    """
    ok = isinstance(x, Tensor) and x.ndim == 4 and x.shape[1] == 1 and x.shape[2] == x.shape[3]
    x = check_tensor("x", x, "square images (N, 1, H, H)", ok)
    check_tensor("y", y, f"one shape for each of {len(x)} images", isinstance(y, Tensor) and y.shape == x.shape[:1])
    if not torch.isin(y, torch.arange(len(SHAPES), device=y.device)).all():
        got, last = f"{describe(y)} with others", len(SHAPES) - 1
        raise ValueError(f"y: received {got}; accepted are 0 to {last}, for {', '.join(SHAPES)}")
    x = x.double() / 255 if x.dtype == torch.uint8 else x.double()
    check_unit("x", x)
    out = torch.empty(len(x), len(FACTORS), dtype=x.dtype, device=x.device)
    for k, shape in enumerate(SHAPES):
        rows = (y == k).nonzero().flatten()
        for some in rows.split(CHUNK):
            area, centre, z, mass = _measured(x[some])
            whole, upright = _references()[shape]
            turns = _moments(z, mass, shape) * upright.conj().to(x.device)
            turn = torch.remainder(_turn(turns, shape), PERIODS[shape])
            out[some] = torch.stack(((area / whole).sqrt(), turn, *(centre + 0.5).unbind(-1)), -1)
    return out.to(torch.get_default_dtype())
