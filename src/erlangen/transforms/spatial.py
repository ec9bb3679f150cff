"""Transforms that move positions: where each pixel's content comes from, and how it is resampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..utils.shapes import describe
from .base import Transform
from .warp import Fill, Interpolation, Padding, as_signal, check_resampling, fill_values, warp

__all__ = ["Spatial", "inside_frame", "pixel_centres"]


def pixel_centres(size: Sequence[int], like: Tensor) -> list[Tensor]:
    """The coordinates of the pixel centres along each side, x first, in the type and on the device of `like`.

    Shape:
        size: `(H, W)` or `(L,)`; result: `[(W,), (H,)]` or `[(L,)]`.
    """
    index = torch.arange(max(size), dtype=like.dtype, device=like.device)
    return [(index[:n] - (n - 1) / 2) * (2 / max(size)) for n in reversed(size)]


def _alike(fill: Fill) -> tuple[float, ...]:
    """A form in which equal fills are equal: one number if all channels have the same."""
    values = fill_values(fill)
    return (values[0],) if len(set(values)) == 1 else tuple(values)


def inside_frame(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Options of `Spatial` for transforms that read nothing from outside the frame: padding is "border" unless said."""
    filled = "padding" not in kwargs and any(fill_values(kwargs.get("fill", 0.0)))
    return {"padding": "zeros" if filled else "border"} | kwargs


class Spatial(Transform):
    """A transform that moves positions. Subclasses say where content goes (`act_points`) and comes from (`source`).

    Args:
        names: one per coordinate.
        bounds: default ranges, `(2, d)`.
        interpolation: "nearest", "bilinear", "bicubic" or "spline" (cubic B-spline with prefilter).
        padding: outside the frame: "zeros" (the constant `fill`), "border" or "reflection".
        fill: the constant, one number or one per channel, in the unit of what is resampled: bytes become [0, 1] before
            it, unless nearest neighbours keep them.
        **kwargs: see `Transform`.
    """

    dims: int = 2

    def __init__(
        self,
        names: Sequence[str],
        bounds: Tensor | Sequence[Sequence[float]],
        *,
        interpolation: Interpolation = "bilinear",
        padding: Padding = "zeros",
        fill: Fill = 0.0,
        **kwargs: Any,
    ) -> None:
        check_resampling(interpolation, padding, fill)
        super().__init__(names, bounds, **kwargs)
        self.interpolation: Interpolation = interpolation
        self.padding: Padding = padding
        self.fill = fill

    def resamples_like(self, other: Spatial) -> bool:
        """Whether two transforms resample the same kind of signal in the same way."""
        mine, theirs = ((s.dims, s.interpolation, s.padding, _alike(s.fill)) for s in (self, other))
        return mine == theirs

    def source(self, g: Tensor, p: Tensor, size: Sequence[int]) -> Tensor:
        """Where the content at `p` comes from, g⁻¹ p.

        Shape:
            g: `(*N, *element_shape)`; p: `(P, dims)` or `(*N, P, dims)`; result: `(*N, P, dims)`.
        """
        raise NotImplementedError

    def grid(self, g: Tensor, size: Sequence[int]) -> Tensor:
        """The sources of all pixels.

        Shape:
            g: `(*N, *element_shape)`; result: `(*N, H, W, 2)` or `(*N, L, 1)`.
        """
        centres = pixel_centres(size, g)
        points = torch.stack(torch.meshgrid(*centres, indexing="xy"), -1).reshape(-1, self.dims)
        return self.source(g, points, size).unflatten(-2, tuple(size))

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Resamples the original once, at the sources of its pixels."""
        return self._resample(g, x, self.interpolation, self.fill)

    def act_mask(self, g: Tensor, mask: Tensor) -> Tensor:
        """Nearest neighbours: type and values are kept; outside the frame is 0 (unless padding says otherwise)."""
        return self._resample(g, mask, "nearest", 0.0)

    def _resample(self, g: Tensor, x: Tensor, interpolation: Interpolation, fill: Fill) -> Tensor:
        g = self.elements_like(g)
        x = as_signal(x, interpolation, g)
        if x.ndim != self.dims + 2:
            accepted = "images (B, C, H, W)" if self.dims == 2 else "series (B, C, L)"
            raise ValueError(f"x: received {describe(x)}; accepted by {type(self).__name__} are {accepted}")
        self.check_batch(g, x, "x")
        # The batch goes before the samples while the grid is made, as `warp` reads it: no copy of the grid is needed.
        batch = g.ndim - len(self.element_shape) - 1
        with torch.autocast(x.device.type, enabled=False):
            grid = self.grid(g.movedim(batch, 0), tuple(x.shape[2:])).movedim(0, batch)
        return warp(x, grid, interpolation=interpolation, padding=self.padding, fill=fill)
