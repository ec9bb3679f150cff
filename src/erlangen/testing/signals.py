"""Signals that are smooth and fade out before the edge of the frame, where their content is and how steep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ..transforms.base import Transform
from ..transforms.warp import from_pixels

__all__ = ["Size", "blob", "differences", "middle", "positions", "sized", "texture"]

Size: TypeAlias = Sequence[int]


def sized(size: Size | None, transform: Transform, least: int = 1) -> list[int]:
    """The size of signals that a transform is tried on: a multiple of the given one, with a side of at least `least`.

    If none is given, it is that of an image, or of a series if the transform acts on these.
    """
    size = (24,) * (transform.dims or 2) if size is None else size
    return [max(1, -(-least // max(size))) * n for n in size]


def positions(size: Size) -> Tensor:
    """The pixel centres, `(H, W, 2)` or `(L, 1)`."""
    axes = [torch.arange(n, dtype=torch.float64) for n in reversed(size)]
    return from_pixels(torch.stack(torch.meshgrid(*axes, indexing="xy"), -1), size)


def blob(size: Size, centre: Tensor, width: float) -> Tensor:
    """A Gaussian spot of one colour per input.

    Shape:
        centre: `(B, 2)` or `(B, 1)`; result: `(B, 3, H, W)` or `(B, 3, L)`.
    """
    axes = len(size)
    away = positions(size) - centre.reshape(len(centre), *[1] * axes, axes)
    spot = torch.exp(-away.square().sum(-1) / (2 * width**2))
    colours = torch.tensor([[0.5, 0.4, 0.3], [0.35, 0.5, 0.4], [0.3, 0.35, 0.5]], dtype=torch.float64)
    return spot.unsqueeze(1) * colours[torch.arange(len(centre)) % 3].reshape(-1, 3, *[1] * axes)


def texture(size: Size, batch: int) -> Tensor:
    """A smooth pattern without symmetry that fades out before the edge: three spots, one colour per input."""
    places = torch.tensor([[0.06, -0.12], [-0.15, 0.03], [0.12, 0.15]], dtype=torch.float64)[:, : len(size)]
    spots = [blob(size, place.expand(batch, -1), width) for place, width in zip(places, (0.1, 0.12, 0.08), strict=True)]
    return (spots[0] + 0.7 * spots[1] + 0.4 * spots[2]).clamp(max=0.9)


def middle(spots: Tensor) -> tuple[Tensor, Tensor]:
    """Where a spot is, to a fraction of a pixel if all of it can be seen, else its brightest pixel; and whether it can.

    Shape:
        spots: `(B, H, W)` or `(B, L)`; result: `(B, 2)` or `(B, 1)`, and `(B,)`.
    """
    size, flat = spots.shape[1:], spots.flatten(1)
    places, rim = positions(size).reshape(-1, len(size)), torch.ones(size, dtype=torch.bool)
    rim[tuple(slice(1, -1) for _ in size)] = False
    upper = (flat - flat.amax(1, keepdim=True) / 2).clamp(min=0)
    whole = (upper[:, rim.flatten()] == 0).all(1)
    mean = upper @ places / upper.sum(1, keepdim=True)
    return torch.where(whole[:, None], mean, places[flat.argmax(1)]), whole


def differences(x: Tensor, n: int) -> float:
    """The means of the magnitudes of the n-th differences along each side, summed.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`.
    """
    return sum(x.diff(n=n, dim=-1 - k).abs().mean().item() for k in range(x.ndim - 2))
