"""A picture and a series drawn in code: a sailing boat off a lighthouse at sunset, and a pulse with a chirp.

Shapes are signed distances (negative inside) in the coordinates of the scene: x to the right, y down, one unit half
the *shorter* side, so that the scene between −1 and 1 is always in view and a longer frame shows more sea and sky.
Edges are one sample wide and every pixel averages a block of samples: pictures of two sizes agree. No two parts are
alike, so that every rotation, flip, shear and change of colour shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .drawing import Layer, Points, circle, gradient, paint, polygon, rgb, segment, union

__all__ = ["LABELS", "landmarks", "picture", "picture_mask", "series"]

LABELS = ("sky", "sun", "land", "sea", "tower", "hull", "sail", "jib")
FINEST = 256  # samples along the shorter side that resolve every detail

MAST = ((0.40, -0.62), (0.40, 0.36))
SAIL = ((0.44, -0.56), (0.44, 0.27), (0.84, 0.21))
JIB = ((0.36, -0.42), (0.36, 0.26), (0.02, 0.27))
PENNANT = ((0.40, -0.62), (0.56, -0.565), (0.40, -0.51))
HULL = ((0.02, 0.35), (0.90, 0.31), (0.76, 0.53), (0.16, 0.53))
STRIPE = ((0.02, 0.35), (0.90, 0.31), (0.875, 0.355), (0.055, 0.395))
SUN, SUN_RADIUS = (-0.12, -0.06), 0.19
TOWER = ((-0.70, -0.40), (-0.52, -0.40), (-0.47, 0.16), (-0.75, 0.16))
ROOF = ((-0.725, -0.53), (-0.61, -0.68), (-0.495, -0.53))
HORIZON = 0.20


def _hull(x: Tensor, y: Tensor) -> Tensor:
    """The hull, its lower edge rounded."""
    return torch.maximum(polygon(x, y, HULL), circle(x, y, (0.46, -0.72), 1.25))


def _sky(x: Tensor, y: Tensor) -> Iterator[Layer]:
    everywhere = torch.full((1, 1), -1.0)
    sky = ((-1.0, "2f6f9f"), (-0.55, "6fb3c9"), (-0.15, "f3d9a4"), (0.05, "f9b98a"), (HORIZON, "ef8f7c"))
    yield Layer(everywhere, gradient(y, *sky), label="sky")
    glow = torch.exp(-(circle(x, y, SUN, 0.0) / 0.42).square()) * 0.75
    yield Layer(everywhere, rgb("fff3c4"), opacity=glow)
    yield Layer(circle(x, y, SUN, SUN_RADIUS), gradient(y, (-0.3, "fff0a8"), (0.15, "ffc14d")), label="sun")
    puffs = [((-0.18, -0.74), 0.09), ((-0.06, -0.78), 0.12), ((0.08, -0.75), 0.10), ((0.18, -0.73), 0.06)]
    cloud = union(*[circle(x, y, centre, radius) for centre, radius in puffs])
    yield Layer(torch.maximum(cloud, y + 0.70), rgb("fdf6ea"), opacity=0.95)
    puffs = [((0.74, -0.66), 0.06), ((0.83, -0.68), 0.08), ((0.93, -0.65), 0.05)]
    cloud = union(*[circle(x, y, centre, radius) for centre, radius in puffs])
    yield Layer(torch.maximum(cloud, y + 0.64), rgb("fdf6ea"), opacity=0.8)
    for bx, by, span in ((-0.36, -0.50, 0.07), (-0.24, -0.42, 0.05), (-0.33, -0.36, 0.04)):
        wings = ((bx - span, by - span / 3), (bx, by)), ((bx, by), (bx + span, by - span / 2))
        yield Layer(union(*[segment(x, y, wing, 0.014) for wing in wings]), rgb("35506b"))


def _shore(x: Tensor, y: Tensor) -> Iterator[Layer]:
    ridge = 0.03 + 0.06 * torch.cos(2.3 * x + 0.4) + 0.025 * torch.sin(7.0 * x)
    yield Layer((ridge - y) * 0.95, gradient(y, (-0.1, "9d7ba8"), (HORIZON, "c98aa0")), label="land")
    sea = ((HORIZON, "f2b38f"), (0.27, "5fb0ac"), (0.5, "2a8c9c"), (1.0, "164d78"))
    yield Layer(HORIZON - y, gradient(y, *sea), label="sea")
    for k in range(7):
        spot, width = HORIZON + 0.045 + 0.055 * k, 0.17 - 0.018 * k
        middle = SUN[0] + 0.03 * math.sin(5.0 * k)
        yield Layer(segment(x, y, ((middle - width, spot), (middle + width, spot)), 0.02), rgb("ffe9a8"), opacity=0.85)
    coast = 0.16 + 0.9 * (x + 0.42).clamp(min=0) + 0.02 * torch.sin(11.0 * x)
    slope = torch.maximum((coast - y) * 0.75, y - 0.36 + 0.05 * torch.cos(3.0 * x + 2.0))
    yield Layer(slope, gradient(y, (0.1, "4f8a4c"), (0.38, "2e5f45")), label="land")


def _tower(x: Tensor, y: Tensor) -> Iterator[Layer]:
    body = polygon(x, y, TOWER)
    yield Layer(body, gradient(x, (-0.75, "fffaf0"), (-0.47, "d9d3cf")), label="tower")
    for top in (-0.26, 0.00):
        band = torch.maximum(body, torch.maximum(top - y, y - top - 0.13))
        yield Layer(band, gradient(x, (-0.75, "e0504b"), (-0.47, "ad2f3c")), label="tower")
    lamp = polygon(x, y, ((-0.67, -0.53), (-0.55, -0.53), (-0.55, -0.42), (-0.67, -0.42)))
    yield Layer(lamp, rgb("ffe27a"), label="tower")
    yield Layer(segment(x, y, ((-0.72, -0.41), (-0.50, -0.41)), 0.045), rgb("27405c"), label="tower")
    yield Layer(polygon(x, y, ROOF), rgb("27405c"), label="tower")
    yield Layer(polygon(x, y, ((-0.64, -0.14), (-0.58, -0.14), (-0.58, -0.06), (-0.64, -0.06))), rgb("27405c"))


def _boat(x: Tensor, y: Tensor) -> Iterator[Layer]:
    yield Layer(segment(x, y, MAST, 0.035), rgb("6b4a36"))
    yield Layer(polygon(x, y, PENNANT), rgb("f2c14e"))
    yield Layer(polygon(x, y, SAIL), gradient(x, (0.44, "fffdf5"), (0.84, "e9dcc4")), label="sail")
    mark = torch.maximum(polygon(x, y, SAIL), (circle(x, y, (0.56, 0.10), 0.075)).abs() - 0.018)
    yield Layer(mark, rgb("3a6ea5"), label="sail")
    yield Layer(polygon(x, y, JIB), gradient(y, (-0.4, "f7a440"), (0.26, "e8743b")), label="jib")
    hull = _hull(x, y)
    yield Layer(hull, gradient(y, (0.32, "b3303f"), (0.52, "7d1f3a")), label="hull")
    yield Layer(torch.maximum(polygon(x, y, STRIPE), hull), rgb("fff6e6"), label="hull")
    crests = ((-0.04, 0.55, 0.24), (0.70, 0.53, 0.20), (0.36, 0.60, 0.30), (-0.55, 0.68, 0.16), (0.62, 0.78, 0.12))
    for cx, cy, span in crests:
        swell = y - cy - 0.014 * torch.cos(22.0 * (x - cx))
        crest = torch.maximum(swell.abs() - 0.014, (x - cx).abs() - span / 2)
        yield Layer(crest, rgb("d8f3ee"), opacity=0.85)


def _layers(x: Tensor, y: Tensor) -> Iterator[Layer]:
    """The scene from back to front."""
    for part in (_sky, _shore, _tower, _boat):
        yield from part(x, y)


def _positions(size: Sequence[int], samples: int) -> tuple[Tensor, Tensor]:
    """Scene coordinates of the samples, `samples` to a pixel along each side: a row and a column, which broadcast."""
    height, width = (n * samples for n in size)
    unit = 2 / min(height, width)
    x = (torch.arange(width, dtype=torch.float64) - (width - 1) / 2) * unit
    y = (torch.arange(height, dtype=torch.float64) - (height - 1) / 2) * unit
    return x, y[:, None]


def _check(size: Sequence[int]) -> None:
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"size: received {size!r}; accepted is (H, W) with at least one pixel each")


def picture(size: Sequence[int] = (128, 128)) -> Tensor:
    """The picture: RGB in [0, 1], antialiased, the same on every machine.

    Args:
        size: height and width in pixels.

    Shape:
        result: `(3, H, W)`, in torch's default type.

    Example:
        >>> picture((48, 64)).shape
        torch.Size([3, 48, 64])
    """
    _check(size)
    samples = math.ceil(FINEST / min(size))
    x, y = _positions(size, samples)
    out = paint(_layers(x, y), (len(y), len(x)), edge=2 / (min(size) * samples))
    mean = torch.nn.functional.avg_pool2d(out[None], samples)[0]
    return mean.clamp(0, 1).to(torch.get_default_dtype())


def picture_mask(size: Sequence[int] = (128, 128)) -> Tensor:
    """What each pixel of the picture shows, at its centre: an index into `LABELS`.

    Args:
        size: height and width in pixels.

    Shape:
        result: `(1, H, W)`, int64.
    """
    _check(size)
    x, y = _positions(size, 1)
    labels = torch.zeros(1, *size, dtype=torch.long)
    for layer in _layers(x, y):
        if layer.label is not None:
            labels = torch.where(layer.distance <= 0, LABELS.index(layer.label), labels)
    return labels


def landmarks(size: Sequence[int] = (128, 128)) -> dict[str, Tensor]:
    """Named points of the picture in the coordinates of `erlangen.transforms`, whose unit is half the longer side.

    Args:
        size: height and width of the picture, in pixels.

    Returns:
        "sail" and "jib": three corners, the top first; "hull": the corners of its deck; "sun": its centre; "boat": the
        corners of a box around the boat, clockwise from the upper left.

    Shape:
        results: `(N, 2)`, in torch's default type.
    """
    _check(size)
    deck = HULL[:2]
    box = ((0.0, -0.64), (0.92, -0.64), (0.92, 0.55), (0.0, 0.55))
    named: dict[str, Points] = {"sail": SAIL, "jib": JIB, "hull": deck, "sun": (SUN,), "boat": box}
    scale = min(size) / max(size)
    return {name: torch.tensor(points) * scale for name, points in named.items()}


def series(length: int = 256) -> Tensor:
    """The series: a heart-like pulse, and a chirp that swells and fades. No symmetry in time.

    Args:
        length: the number of samples.

    Shape:
        result: `(2, L)`, in torch's default type, within [-1, 1].
    """
    if length < 1:
        raise ValueError(f"length: received {length!r}; accepted is at least one sample")
    t = (torch.arange(length, dtype=torch.float64) - (length - 1) / 2) * (2 / length)
    waves = (
        (-0.62, 0.055, 0.18),
        (-0.40, 0.020, -0.16),
        (-0.355, 0.022, 0.95),
        (-0.30, 0.024, -0.28),
        (-0.02, 0.09, 0.34),
    )
    pulse = torch.stack([height * torch.exp(-((t - at) / width).square() / 2) for at, width, height in waves]).sum(0)
    envelope = torch.exp(-((t - 0.28) / 0.34).square()) * 0.6
    chirp = envelope * torch.sin(2 * math.pi * (2.2 * t + 1.9 * t * t))
    return torch.stack((pulse, chirp)).to(torch.get_default_dtype())
