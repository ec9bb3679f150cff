"""Drawing by signed distances (negative inside): shapes, colours, and layers painted from back to front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Layer", "Points", "circle", "ellipse", "gradient", "paint", "polygon", "rgb", "segment", "union"]

Points = Sequence[tuple[float, float]]


class Layer(NamedTuple):
    """A shape, the colour that it is painted in, how opaquely, and its label if it has one; all broadcast."""

    distance: Tensor
    colour: Tensor
    opacity: Tensor | float = 1.0
    label: str | None = None


def rgb(code: str) -> Tensor:
    """A colour from its six hexadecimal digits.

    Shape:
        result: `(3, 1, 1)`, float64 in [0, 1].
    """
    return torch.tensor([int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)], dtype=torch.float64)[:, None, None]


def gradient(t: Tensor, *stops: tuple[float, str]) -> Tensor:
    """Colours along t, linear between the stops."""
    places = [place for place, _ in stops]
    colours = [rgb(code) for _, code in stops]
    out = colours[0]
    for (a, b), (before, colour) in zip(pairwise(places), pairwise(colours), strict=True):
        share = ((t - a) / (b - a)).clamp(0, 1)
        out = out + share * (colour - before)
    return out


def circle(x: Tensor, y: Tensor, centre: tuple[float, float], radius: float) -> Tensor:
    """Distance to a disc."""
    return torch.hypot(x - centre[0], y - centre[1]) - radius


def segment(x: Tensor, y: Tensor, ends: Points, width: float) -> Tensor:
    """Distance to a segment with round ends."""
    (ax, ay), (bx, by) = ends
    dx, dy = bx - ax, by - ay
    along = (((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)).clamp(0, 1)
    return torch.hypot(x - ax - along * dx, y - ay - along * dy) - width / 2


def polygon(x: Tensor, y: Tensor, corners: Points) -> Tensor:
    """Distance to a convex polygon: the nearest edge, negative where all edges have the point on the same side."""
    edges = list(zip(corners, [*corners[1:], corners[0]], strict=True))
    nearest = torch.stack([segment(x, y, edge, 0.0) for edge in edges]).amin(0)
    sides = torch.stack([(bx - ax) * (y - ay) - (by - ay) * (x - ax) for (ax, ay), (bx, by) in edges])
    inside = (sides >= 0).all(0) | (sides <= 0).all(0)
    return torch.where(inside, -nearest, nearest)


def union(*distances: Tensor) -> Tensor:
    """Distance to the nearest of several shapes."""
    return torch.stack(distances).amin(0)


def ellipse(x: Tensor, y: Tensor, centre: tuple[float, float], radii: tuple[float, float], turn: float = 0.0) -> Tensor:
    """Distance to an ellipse whose first axis is turned counter-clockwise as displayed; exact to first order."""
    dx, dy = x - centre[0], y - centre[1]
    along, across = math.cos(turn) * dx - math.sin(turn) * dy, math.sin(turn) * dx + math.cos(turn) * dy
    k = torch.hypot(along / radii[0], across / radii[1])
    slope = torch.hypot(along / radii[0] ** 2, across / radii[1] ** 2)
    return torch.where(slope > 0, k * (k - 1) / slope.clamp_min(1e-12), -min(radii))


def paint(layers: Iterable[Layer], size: Sequence[int], *, edge: float) -> Tensor:
    """Paints layers on black, each over those before it, with edges as wide as `edge`.

    Shape:
        size: `(H, W)`; result: `(3, H, W)`, float64.
    """
    out = torch.zeros(3, *size, dtype=torch.float64)
    for layer in layers:
        cover = (0.5 - layer.distance / edge).clamp(0, 1) * layer.opacity
        out.add_(cover * (layer.colour - out))
    return out
