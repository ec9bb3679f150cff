"""Finite groups: rotations, flips, their dihedral products, and cyclic shifts. Exact where pixels go to pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..utils.shapes import check_count, compute_dtype, describe
from .affine import Affine, MatrixGroup
from .base import FiniteGroup
from .matrix import compose_matrices, with_last_row
from .warp import as_signal, half_extent, look_up

__all__ = ["Dihedral", "Flips", "Rotations", "Shifts"]


class Permutations(FiniteGroup):
    """A finite group whose elements move pixels to pixels: nothing is interpolated, no value is changed."""

    interpolation: str = "bilinear"
    sides = 1  # of the frame along which pixels move: the last alone, each row alike, or both

    def joins(self, group: MatrixGroup, shape: Sequence[int]) -> bool:
        """Whether it can act on signals of a shape by its matrices, together with a group that resamples them."""
        return False

    def matrix(self, g: Tensor, like: Tensor) -> Tensor:
        """Elements as homogeneous matrices, of the type of `like` and, where it can be either, of its size.

        Shape:
            g: `(*S, B)`; like: `(..., 3, 3)`, or `(..., 2, 2)` for series; result: `(*S, B, 3, 3)` or `(*S, B, 2, 2)`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no matrices")

    def _same_levels(self, group: MatrixGroup) -> bool:
        """Whether both keep bytes, or both make them [0, 1]; how else pixels are resampled does not matter here."""
        return (self.interpolation == "nearest") == (group.interpolation == "nearest")

    def pixels(self, size: Sequence[int], device: torch.device) -> Tensor:
        """For each element, the index of the pixel that each pixel's content comes from, among the last `sides` sides.

        Shape:
            size: `(H, W)` or `(L,)`; result: `(n, W)` or `(n, L)`, with two sides `(n, H W)`.
        """
        raise NotImplementedError

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Looks pixels up; `x` is read in place for every sample. Bytes become [0, 1] unless nearest."""
        levels = isinstance(x, Tensor) and x.dtype == torch.uint8 and self.interpolation != "nearest"
        return self._permute(g, as_signal(x, "bilinear" if levels else "nearest", self.bounds))

    def act_mask(self, g: Tensor, mask: Tensor) -> Tensor:
        """The same: nothing is interpolated."""
        return self._permute(g, as_signal(mask, "nearest"))

    def _permute(self, g: Tensor, x: Tensor) -> Tensor:
        g = self.elements_like(g)
        self.check_batch(g, x, "x")
        size = x.shape[2:]
        rows = x.flatten(-self.sides)
        index = self.pixels(size, x.device)[g].reshape(*g.shape, *[1] * (rows.ndim - 2), rows.shape[-1])
        shape = (*g.shape[:-1], *rows.shape)
        return look_up(rows.expand(shape), index.expand(shape)).unflatten(-1, size[-self.sides :])


class Flips(Permutations):
    """The identity and the left–right flip (of a series: time reversed). Exact."""

    def __init__(self) -> None:
        super().__init__(torch.tensor([[0, 1], [1, 0]]))

    def pixels(self, size: Sequence[int], device: torch.device) -> Tensor:
        """Forwards, and backwards."""
        forwards = torch.arange(size[-1], device=device)
        return torch.stack((forwards, forwards.flip(0)))

    def joins(self, group: MatrixGroup, shape: Sequence[int]) -> bool:
        """Beside any matrices."""
        return len(shape) == group.dims + 2 and self._same_levels(group)

    def matrix(self, g: Tensor, like: Tensor) -> Tensor:
        """The first coordinate changes its sign."""
        sign = (1 - 2 * self.elements_like(g)).to(like.dtype)
        return torch.stack((sign, *[torch.ones_like(sign)] * (like.shape[-1] - 1)), -1).diag_embed()

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """The first coordinate changes its sign."""
        g = self.elements_like(g)
        p = self.check_points(g, p)
        first = p[..., :1] * (1 - 2 * g)[..., None, None].to(p.dtype)
        return torch.cat((first, p[..., 1:].expand(*first.shape[:-1], p.shape[-1] - 1)), -1)


class Shifts(Permutations):
    """n cyclic shifts along x (or time): element k moves the content k/n of the width to the right. Exact.

    Args:
        n: the number of shifts; widths must be divisible by it.
    """

    def __init__(self, n: int) -> None:
        index = torch.arange(check_count("n", n))
        super().__init__((index[:, None] + index) % n)

    def pixels(self, size: Sequence[int], device: torch.device) -> Tensor:
        """Columns rolled by multiples of width / n."""
        n, width = len(self), size[-1]
        if width % n:
            raise ValueError(f"x: received a width of {width}; accepted by Shifts({n}) are widths divisible by {n}")
        return (torch.arange(width, device=device) - torch.arange(n, device=device)[:, None] * (width // n)) % width

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """The first coordinate moves on and wraps around at the edge of the frame."""
        g = self.elements_like(g)
        p = self.check_points(g, p)
        extent = half_extent((1,) * p.shape[-1] if size is None else size, p)[:1]
        moved = p[..., :1] + (2 / len(self)) * extent * g[..., None, None].to(p.dtype)
        wrapped = torch.remainder(moved + extent, 2 * extent) - extent
        return torch.cat((wrapped, p[..., 1:].expand(*wrapped.shape[:-1], p.shape[-1] - 1)), -1)


class PointGroup(Permutations):
    """A finite group of orthogonal matrices, which fix the centre of the frame.

    Where all of them move pixels to pixels the action is exact, otherwise it resamples.

    Args:
        matrices: `(n, 2, 2)`, the identity first.
        **kwargs: interpolation, padding and fill, see `Spatial`.
    """

    dims = 2
    sides = 2
    precise = ("matrices",)
    matrices: Tensor

    def __init__(self, matrices: Tensor, **kwargs: Any) -> None:
        # The nearest of unit vectors is the one along which a product is longest. Row by row: n³ numbers may not fit.
        rows = (compose_matrices(g, matrices).flatten(1) @ matrices.flatten(1).T for g in matrices)
        super().__init__(torch.stack([row.argmax(1) for row in rows]))
        self.register_buffer("matrices", matrices, persistent=False)
        self.affine = Affine(**kwargs)
        self.interpolation = self.affine.interpolation
        self.exact = bool((matrices - matrices.round()).abs().max() < 1e-9)
        # Elements that exchange the axes, as those by 90° do, have zeros on the diagonal.
        self.exchanges = bool((matrices.diagonal(dim1=-2, dim2=-1).abs().amax(-1) < 1e-9).any())

    def pixels(self, size: Sequence[int], device: torch.device) -> Tensor:
        """Positions doubled, so that all of them are whole numbers, times the inverse matrices."""
        height, width = size
        y = 2 * torch.arange(height, device=device)[:, None] - (height - 1)
        x = 2 * torch.arange(width, device=device) - (width - 1)
        inverse = self.matrices.mT.round().long()[..., None, None]
        columns = (inverse[:, 0, 0] * x + inverse[:, 0, 1] * y + (width - 1)) // 2
        rows = (inverse[:, 1, 0] * x + inverse[:, 1, 1] * y + (height - 1)) // 2
        return (rows * width + columns).flatten(1)

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Looks pixels up, or resamples."""
        self._check_images(x)
        return super().act(g, x) if self.exact else self.affine.act(self.matrix(g, x), x)

    def act_mask(self, g: Tensor, mask: Tensor) -> Tensor:
        """Looks pixels up, or takes the nearest."""
        self._check_images(mask)
        return super().act_mask(g, mask) if self.exact else self.affine.act_mask(self.matrix(g, mask), mask)

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """The matrix times the points."""
        p = self.check_points(self.elements_like(g), p, 2)
        return self.affine.act_points(self.matrix(g, p), p)

    def joins(self, group: MatrixGroup, shape: Sequence[int]) -> bool:
        """Beside matrices of the plane, on images that it accepts; where it resamples too, in the same way."""
        alike = self._same_levels(group) if self.exact else self.affine.resamples_like(group)
        return len(shape) == 4 and group.dims == 2 and alike and not (self.exchanges and shape[-2] != shape[-1])

    def matrix(self, g: Tensor, like: Tensor) -> Tensor:
        """Elements as affine matrices."""
        dtype = compute_dtype(like) if like.is_floating_point() else self.bounds.dtype
        linear = self.matrices.to(dtype)[self.elements_like(g)]
        return with_last_row(torch.cat((linear, torch.zeros_like(linear[..., :1])), -1))

    def _check_images(self, x: Tensor) -> None:
        if not isinstance(x, Tensor) or x.ndim != 4:
            raise ValueError(f"x: received {describe(x)}; accepted by {type(self).__name__} are images (B, C, H, W)")
        if self.exchanges and x.shape[-2] != x.shape[-1]:
            size = f"{x.shape[-2]} × {x.shape[-1]}"
            raise ValueError(f"x: received images of {size}; accepted by rotations of 90° are square ones")


def _rotation_matrices(n: int) -> Tensor:
    """Counter-clockwise rotations by multiples of 360°/n, quarter turns without rounding errors."""
    angle = 2 * math.pi * torch.arange(check_count("n", n), dtype=torch.float64) / n
    c, s = angle.cos(), angle.sin()
    matrices = torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))
    whole = matrices.round()
    return torch.where((matrices - whole).abs() < 1e-12, whole, matrices)


class Rotations(PointGroup):
    """n rotations: element k turns the content counter-clockwise by 360° k/n. Exact by `rot90` for n = 1, 2, 4.

    Args:
        n: the number of rotations; with a multiple of 4 images must be square.
        **kwargs: interpolation, padding and fill (for other n), see `Spatial`.
    """

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(_rotation_matrices(n), **kwargs)


class Dihedral(PointGroup):
    """n rotations and n reflections: element k turns by 360° k/n, element n + k flips left–right first.

    Exact for n = 1, 2, 4.

    Args:
        n: the number of rotations; with a multiple of 4 images must be square.
        **kwargs: interpolation, padding and fill (for n other than 1, 2, 4), see `Spatial`.
    """

    def __init__(self, n: int = 4, **kwargs: Any) -> None:
        turns = _rotation_matrices(n)
        flip = torch.tensor([[-1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
        super().__init__(torch.cat((turns, compose_matrices(turns, flip))), **kwargs)
