"""What resampling loses: where pixels are rounded to, and what leaves the frame."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..transforms.base import Transform
from ..transforms.product import Product
from ..transforms.warp import to_pixels
from .signals import Size, differences

__all__ = ["APART", "interpolations", "remain", "ties", "within"]

# Interpolations that do not reproduce a straight line: how many pixels a reading of it after one warp is from one after
# two, at most. Nearest neighbours: less than 3/2, and a whole number; cubics with a = −0.75: √3/36 for each warp.
APART = {"nearest": 1.0, "bicubic": math.sqrt(3) / 12}


def interpolations(transform: Transform) -> list[str]:
    """How its parts read between pixels."""
    kinds = (getattr(part, "interpolation", None) for part in transform.modules())
    return [kind for kind in kinds if kind is not None]


def ties(transform: Transform, x: Tensor) -> float:
    """How much a signal may change on average by rounding, where this decides which pixel is the nearest."""
    return differences(x, 1) if "nearest" in interpolations(transform) else 0.0


def within(p: Tensor, size: Size) -> Tensor:
    """Whether points lie in the frame, a pixel or more from its outermost pixels' centres.

    Shape:
        p: `(..., d)`; result: `(...)`.
    """
    p, last = to_pixels(p, size), torch.tensor(size[::-1]) - 1
    return ((p >= 1) & (p <= last - 1)).all(-1)


def remain(transform: Transform, g: Tensor, p: Tensor, size: Size) -> Tensor:
    """Whether points stay within the frame on their way, between the factors of a product, which else lose them.

    Shape:
        g: `(B, *element_shape)`; p: `(B, N, d)`; result: `(B, N)`.
    """
    inside = torch.ones(p.shape[:-1], dtype=torch.bool)
    steps = zip(transform.factors, transform.split(g), strict=True) if isinstance(transform, Product) else ()
    for factor, h in list(steps)[:-1]:
        p = factor.act_points(h, p, size)
        inside &= within(p, size)
    return inside
