"""Diffeomorphisms from continuous piecewise-affine velocity fields (CPAB), for series and for images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .base import Bounds, resolve_bounds
from .spatial import Spatial, inside_frame
from .velocity import Field1d, Field2d
from .warp import half_extent

__all__ = ["CPAB"]


class CPAB(Spatial):
    r"""The flow of a velocity field that is affine in each cell and continuous: P-STN section 3, Freifeld et al. 2017.

    $$ \phi^\theta(x; 1) = x + \int_0^1 v^\theta(\phi(x; \tau))\, d\tau $$

    The content at x moves to $\phi^\theta(x; 1)$. Coordinates θ are velocities at the nodes of the cells, as
    fractions of half the frame per unit of time along each side: a portable, sparse basis (published code takes a
    null space from an SVD, which differs from machine to machine). Not a group, for two such flows do not compose to
    a third; but the inverse is the flow of −θ. Series are integrated in closed form.

    Args:
        cells: `(n,)` for series, `(n, m)` cells along x and y for images, each cut into four triangles.
        zero_boundary: whether the border stays in place (of images: content slides along it).
        volume_preserving: whether areas are kept, images only. θ then spans the fields without divergence, scaled so
            that no velocity varies more than θ does.
        orthonormal: series only: whether θ are coordinates in an orthonormal basis of the slopes and offsets of all
            cells (of time from 0 to 1), as in published code, and not the velocities themselves. Independent θ then
            are smooth flows, whatever the number of cells. Of all such bases it is the one nearest to the velocities;
            elements are velocities in both.
        bounds: ranges that differ from ±0.5 (±2 if orthonormal), by name ("theta0", "theta1", ...).
        **kwargs: interpolation, padding and fill, see `Spatial`. With a zero boundary nothing comes from outside, so
            that padding is "border" by default.

    Shape:
        v and elements: `(*S, B, d)` with d = n - 1 for series, 34 for 3 × 3 cells.

    References:
        Freifeld, Hauberg, Batmanghelich, Fisher: Transformations based on continuous piecewise-affine velocity fields.
        IEEE TPAMI 39(12), 2017.
    """

    invertible = True
    basis: Tensor | None

    def __init__(
        self,
        cells: Sequence[int],
        *,
        zero_boundary: bool = True,
        volume_preserving: bool = False,
        orthonormal: bool = False,
        bounds: Bounds | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(cells, Sequence) or len(cells) not in (1, 2):
            raise ValueError(f"cells: received {cells!r}; accepted is (n,) for series or (n, m) for images")
        if len(cells) == 1 and volume_preserving:
            raise ValueError("volume_preserving: received True for series; accepted for images only")
        if len(cells) == 2 and orthonormal:
            raise ValueError("orthonormal: received True for images; accepted for series only")
        if len(cells) == 1:
            field = Field1d(cells[0], zero_boundary=zero_boundary)
        else:
            field = Field2d((cells[0], cells[1]), zero_boundary=zero_boundary, volume_preserving=volume_preserving)
        names = tuple(f"theta{k}" for k in range(field.features))
        kwargs = inside_frame(kwargs) if zero_boundary else kwargs
        widest = 2.0 if orthonormal else 0.5
        super().__init__(names, resolve_bounds(names, dict.fromkeys(names, widest), bounds), **kwargs)
        self.dims = len(cells)
        self.element_shape = (field.features,)
        self.field = field
        self.precise = ("basis",) if orthonormal else ()
        self.register_buffer("basis", _orthonormal(cells[0], zero_boundary) if orthonormal else None, persistent=False)

    def element(self, v: Tensor) -> Tensor:
        """The velocities: the coordinates themselves, unless they are `orthonormal`."""
        v = self.coordinates(v)
        # Not as a matrix product, which autocast and coarse products would round.
        return v if self.basis is None else (v.unsqueeze(-1) * self.basis.to(v.dtype)).sum(-2)

    def inverse(self, g: Tensor) -> Tensor:
        """The flow backwards in time: −θ."""
        return -self.elements_like(g)

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """The flow of the points."""
        g = self.elements_like(g)
        p = self.check_points(g, p, self.dims)
        with torch.autocast(p.device.type, enabled=False):
            square = (1,) * self.dims
            return self.flow(g, p.expand(*g.shape[:-2], *p.shape), square if size is None else size)

    def source(self, g: Tensor, p: Tensor, size: Sequence[int]) -> Tensor:
        """The flow backwards."""
        return self.flow(-g, p, size)

    def flow(self, g: Tensor, p: Tensor, size: Sequence[int]) -> Tensor:
        """The flow in our coordinates, whose unit is the longer side for both axes."""
        extent = half_extent(size, p)
        return self.field.flow(g, p / extent) * extent


def _orthonormal(cells: int, zero_boundary: bool) -> Tensor:
    r"""From coordinates to velocities, in halves of the time: $2 (M^\top M)^{-1/2}$, which is symmetric.

    M maps velocities at the ends of cells of [0, 1] to the slope and the offset in each cell, the affine parameters of
    the field, of which $M (M^\top M)^{-1/2}$ is an orthonormal basis.

    Shape:
        result: `(d, d)`, float64.
    """
    ends = torch.eye(cells + 1, dtype=torch.float64)
    ends = ends[:, 1:-1] if zero_boundary else ends
    slope = ends.diff(dim=0) * cells
    offset = ends[:-1] - slope * (torch.arange(cells, dtype=torch.float64) / cells)[:, None]
    matrix = torch.cat((slope, offset))
    values, vectors = torch.linalg.eigh(matrix.T @ matrix)
    return 2 * (vectors * values.rsqrt()) @ vectors.T
