"""Affine maps of the plane and of the time axis: Lie groups of matrices, by the exponential or in factored form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..utils.shapes import check_true, describe, vector
from .base import Bounds, Group, resolve_bounds
from .matrix import affine_exp, affine_inverse, affine_log, compose_matrices, linear_exp, polar_log, with_last_row
from .spatial import Spatial, pixel_centres
from .special import growth

__all__ = ["Affine", "AffineMatrix", "MatrixGroup", "Similarity", "TimeAffine"]

GENERATORS: dict[str, list[list[float]]] = {
    "tx": [[0, 0, 1], [0, 0, 0]],
    "ty": [[0, 0, 0], [0, 0, 1]],
    "angle": [[0, 1, 0], [-1, 0, 0]],
    "scale": [[1, 0, 0], [0, 1, 0]],
    "stretch": [[1, 0, 0], [0, -1, 0]],
    "shear": [[0, 1, 0], [1, 0, 0]],
    "sx": [[1, 0, 0], [0, 0, 0]],
    "sy": [[0, 0, 0], [0, 1, 0]],
}
RANGES = {"tx": 0.25, "ty": 0.25, "angle": math.pi} | dict.fromkeys(("scale", "stretch", "shear", "sx", "sy"), 0.5)


def check_names(names: Sequence[str], known: Sequence[str]) -> None:
    """Raises a `ValueError` for unknown or repeated names of generators, or none at all."""
    if unknown := [n for n in names if n not in known]:
        raise ValueError(f"names: received {unknown}; accepted are {', '.join(known)}")
    if repeated := sorted({n for n in names if list(names).count(n) > 1}):
        raise ValueError(f"names: received {', '.join(repeated)} more than once; accepted is each name once")


class MatrixGroup(Spatial, Group):
    """A group of homogeneous matrices acting on positions: `(3, 3)` on the plane, `(2, 2)` on the time axis."""

    def identity(self) -> Tensor:
        """The unit matrix."""
        return torch.eye(self.dims + 1, dtype=self.bounds.dtype, device=self.bounds.device)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The matrix product."""
        return compose_matrices(*self.pair(g, h))

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """The matrix times the points; the frame does not matter."""
        g = self.elements_like(g)
        return _move(g, self.check_points(g, p, self.dims))

    def source(self, g: Tensor, p: Tensor, size: Sequence[int]) -> Tensor:
        """The inverse matrix times the points."""
        return _move(self.inverse(g), p)

    def check_log(self, g: Tensor, v: Tensor) -> Tensor:
        """Returns `v` if it is the logarithm of `g`; a `ValueError` where g lies outside what the coordinates span."""
        with torch.no_grad():
            error = (self.element(v) - g).abs().amax((-1, -2))
            close = error <= 100 * torch.finfo(g.dtype).eps ** 0.75 * (1 + g.abs().amax((-1, -2)))
        accepted = f"elements that the coordinates {', '.join(self.names)} can express"
        check_true("g", close, f"{describe(g)} with others", accepted)
        return v


def _move(g: Tensor, p: Tensor) -> Tensor:
    """Matrices `(..., n + 1, n + 1)` times points `(..., N, n)`, elementwise."""
    n = p.shape[-1]
    moved = g[..., None, :n, n]
    for k in range(n):
        moved = moved + p[..., k : k + 1] * g[..., None, :n, k]
    return moved


class Affine(MatrixGroup):
    r"""Orientation-preserving affine maps of the plane, $A = \exp(\sum_i v_i G_i)$ (SGM appendix C.5; LTT section 4).

    With `factored=True` instead $A = T(t_x, t_y)\, R(\mathrm{angle})\, \exp(\text{scale, stretch, shear})$: a global
    chart in which the angle is periodic. In the exponential form it is periodic only alone or beside `scale`, with
    which it commutes.

    Args:
        *names: any of "tx", "ty", "angle", "scale", "stretch", "shear", in any order; "sx" and "sy" (log-scales along
            the axes) in place of "scale" and "stretch". The first six if none is given.
        factored: whether to use the factored form.
        bounds: ranges that differ from the defaults, by name: (low, high), or b for (-b, b).
        **kwargs: interpolation, padding and fill, see `Spatial`.

    Shape:
        v: `(*S, B, d)`; elements: `(*S, B, 3, 3)`.

    Example:
        >>> rotate = Affine("angle")
        >>> x = torch.rand(2, 3, 8, 8)
        >>> turned = rotate(x, torch.full((2, 1), torch.pi / 2))
        >>> torch.allclose(turned, torch.rot90(x, 1, (-2, -1)), atol=1e-5)
        True
    """

    element_shape = (3, 3)
    basis: Tensor

    def __init__(self, *names: str, factored: bool = False, bounds: Bounds | None = None, **kwargs: Any) -> None:
        names = names or ("tx", "ty", "angle", "scale", "stretch", "shear")
        check_names(names, tuple(GENERATORS))
        if {"scale", "stretch"} & set(names) and {"sx", "sy"} & set(names):
            raise ValueError(f"names: received {list(names)}; accepted is either scale and stretch, or sx and sy")
        periodic = "angle" in names and (factored or set(names) <= {"angle", "scale"})
        periods = [2 * math.pi if periodic and name == "angle" else 0.0 for name in names]
        super().__init__(names, resolve_bounds(names, RANGES, bounds), periods=periods, **kwargs)
        self.factored = factored
        self._set_basis([GENERATORS[name] for name in names])

    def _set_basis(self, generators: list[list[list[float]]]) -> None:
        basis = torch.tensor(generators, dtype=self.bounds.dtype)
        self.register_buffer("basis", basis, persistent=False)

    def element(self, v: Tensor) -> Tensor:
        """The exponential, or the product of the three factors."""
        v = self.coordinates(v)
        algebra = (v[..., None, None] * self.basis.to(v.dtype)).sum(-3)
        if not self.factored:
            return affine_exp(algebra)
        angle = (algebra[..., 0, 1] - algebra[..., 1, 0]) / 2
        linear = (algebra[..., :2] + algebra[..., :2].mT) / 2
        c, s = angle.cos(), angle.sin()
        rotation = torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))
        return with_last_row(torch.cat((compose_matrices(rotation, linear_exp(linear)), algebra[..., 2:]), -1))

    def inverse(self, g: Tensor) -> Tensor:
        """The inverse matrix."""
        return affine_inverse(self.elements_like(g))

    def element_log(self, g: Tensor) -> Tensor:
        """The principal logarithm, or the three factors (polar decomposition)."""
        return self.check_log(self.elements_like(g), self.project(g))

    def project(self, g: Tensor) -> Tensor:
        """The coordinates of any affine map, without what this group cannot express; of its own elements, all."""
        g = self.elements_like(g)
        # Where the angle is periodic both forms agree, and the factors know half a turn.
        algebra = _factors(g) if self.factored or any(self.periodic) else affine_log(g)
        basis = self.basis.to(g.dtype)
        # The generators are orthogonal to one another, so coordinates are inner products.
        v = (algebra.unsqueeze(-3) * basis).sum((-1, -2)) / (basis * basis).sum((-1, -2))
        if not (self.factored or set(self.names) <= {"angle", "scale"}):
            return v
        # Angles are brought within the bounds by whole turns, wherever the bounds begin.
        turn = vector([2 * math.pi if name == "angle" else 0.0 for name in self.names], v.dtype, v.device)
        return v - turn * ((v.detach() - self.bounds.mean(0).to(v.dtype)) / (2 * math.pi)).round()

    def grid(self, g: Tensor, size: Sequence[int]) -> Tensor:
        """The sources of all pixels: a sum of a row and a column, so that only the result is as large as the image."""
        back = self.inverse(g)[..., None, None, :2, :]
        x, y = pixel_centres(size, g)
        return back[..., 0] * x[:, None] + (back[..., 1] * y[:, None, None] + back[..., 2])


def _factors(g: Tensor) -> Tensor:
    """The algebra element whose factored form is `g`: angle, symmetric part and translation."""
    angle, symmetric = polar_log(g[..., :2, :2])
    zero = torch.zeros_like(angle)
    turn = torch.stack((zero, angle, -angle, zero), -1).unflatten(-1, (2, 2))
    return torch.cat((symmetric + turn, g[..., :2, 2:]), -1)


class Similarity(Affine):
    r"""Rotation, isotropic scale and translation (P-STN Eq. 1): $A = T(t_x, t_y)\, R(\text{angle})\, e^{\text{scale}}$.

    Differs from the paper: the content moves, as everywhere here, and `scale` is the log-scale; Eq. 1 moves the
    sampling grid, which is the inverse.

    Args:
        bounds: see `Affine`.
        **kwargs: interpolation, padding and fill, see `Spatial`.

    Shape:
        v: `(*S, B, 4)` as angle, scale, tx, ty; elements: `(*S, B, 3, 3)`.
    """

    def __init__(self, *, bounds: Bounds | None = None, **kwargs: Any) -> None:
        super().__init__("angle", "scale", "tx", "ty", factored=True, bounds=bounds, **kwargs)


class AffineMatrix(Affine):
    r"""The free entries of LTT Eq. 20, all six or some of them.

    $$ A = \exp \begin{bmatrix} a & b & c \\ d & e & f \\ 0 & 0 & 0 \end{bmatrix} $$

    Differs from the paper: 0 in the corner, where Eq. 20 prints a 1, so that the exponential is affine.

    Args:
        *names: any of "a", "b", "c", "d", "e", "f"; all of them if none is given. The others are zero.
        bounds: see `Affine`; ±1 by default.
        **kwargs: interpolation, padding and fill, see `Spatial`.

    Shape:
        v: `(*S, B, d)` in the order of the names; elements: `(*S, B, 3, 3)`.
    """

    def __init__(self, *names: str, bounds: Bounds | None = None, **kwargs: Any) -> None:
        names = names or tuple("abcdef")
        check_names(names, tuple("abcdef"))
        Spatial.__init__(self, names, resolve_bounds(names, dict.fromkeys(names, 1.0), bounds), **kwargs)
        self.factored = False
        self._set_basis([torch.eye(6)["abcdef".index(name)].reshape(2, 3).tolist() for name in names])


class TimeAffine(MatrixGroup):
    r"""Shift and stretch of time, $\exp \begin{bmatrix} \mathrm{stretch} & \mathrm{shift} \\ 0 & 0 \end{bmatrix}$.

    `shift > 0` is later (2/L is one sample), `stretch > 0` slower: the log of the factor. With `factored=True` the
    stretch comes first and the shift after it, $t \mapsto e^{\mathrm{stretch}}\, t + \mathrm{shift}$, so that the shift
    is what is seen; the exponential moves the middle by $\mathrm{shift}\, (e^{\mathrm{stretch}} - 1) /
    \mathrm{stretch}$.

    Args:
        *names: "shift", "stretch" or both (the default).
        factored: whether to use the factored form.
        bounds: ranges that differ from ±0.25 and ±0.5, by name.
        **kwargs: interpolation, padding and fill, see `Spatial`.

    Shape:
        v: `(*S, B, d)`; elements: `(*S, B, 2, 2)`.
    """

    element_shape = (2, 2)
    dims = 1

    def __init__(self, *names: str, factored: bool = False, bounds: Bounds | None = None, **kwargs: Any) -> None:
        names = names or ("shift", "stretch")
        check_names(names, ("shift", "stretch"))
        super().__init__(names, resolve_bounds(names, {"shift": 0.25, "stretch": 0.5}, bounds), **kwargs)
        self.factored = factored

    def element(self, v: Tensor) -> Tensor:
        """The exponential, or the product of the two factors."""
        v = self.coordinates(v)
        zero = torch.zeros_like(v[..., 0])
        shift = v[..., self.names.index("shift")] if "shift" in self.names else zero
        stretch = v[..., self.names.index("stretch")] if "stretch" in self.names else zero
        moved = shift if self.factored else shift * growth(stretch)
        return with_last_row(torch.stack((stretch.exp(), moved), -1).unsqueeze(-2))

    def inverse(self, g: Tensor) -> Tensor:
        """The inverse matrix."""
        g = self.elements_like(g)
        rate, shift = g[..., 0, :].unbind(-1)
        return torch.cat((torch.stack((1 / rate, -shift / rate), -1).unsqueeze(-2), g[..., 1:, :]), -2)

    def element_log(self, g: Tensor) -> Tensor:
        """Logarithm of the rate, and the shift that goes with it."""
        g = self.elements_like(g)
        rate, moved = g[..., 0, :].unbind(-1)
        check_true("g", rate > 0, f"{describe(g)} with other rates", "matrices with a positive rate of time")
        stretch = rate.log()
        values = {"stretch": stretch, "shift": moved if self.factored else moved / growth(stretch)}
        return self.check_log(g, torch.stack([values[name] for name in self.names], -1))
