r"""What can be done to a signal: transformations, groups of them, and the conventions they share.

A `Transform` turns coordinates $v$ into an element $g$ (a tensor) and lets it act on a signal $x$, on points and on
masks. It has no learned parameters and knows nothing of distributions.

Shapes:
    signals `x`: `(B, C, H, W)` images or `(B, C, L)` series; coordinates `v`: `(*S, B, d)`; elements `g`: `(*S, B,
    ...)`; results: `(*S, B, C, H, W)`. Sample dimensions come first, as in `torch.distributions`, and a batch
    dimension of 1 in `v` or `g` is shared by the whole batch.

Convention:
    * Coordinates: x to the right, y down, origin at the centre. One unit is half the *longer* side in both directions,
      measured to the pixel edges (so $[-1, 1]^2$ on a square image; `align_corners=False`). A rotation therefore stays
      a rotation on any aspect. Series: the same in one dimension, $[-1, 1]$ from edge to edge.
    * $g$ moves the content: `act(g, x)(p) = x(g⁻¹ p)`.
    * `angle > 0` is counter-clockwise as displayed: `act(exp(π/2), x)` equals `torch.rot90(x, 1, (-2, -1))`. Since y
      points down its generator is `[[0, 1], [-1, 0]]`.
    * `tx = 2 / max(H, W)` moves the content one pixel to the right, `ty` likewise down.
    * log-scales > 0 enlarge the content. Generators: scale `diag(1, 1)`, stretch `diag(1, -1)`, shear
      `[[0, 1], [1, 0]]`, sx `diag(1, 0)`, sy `diag(0, 1)`.
    * Series: `shift > 0` is later, `stretch > 0` slower.
    * Points are in the same coordinates; `to_pixels` and `from_pixels` convert to and from pixel indices.
    * Geometry runs in float32 or float64, also under autocast. Warp before normalising: outside the frame is black.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import constraints
from torch.distributions.constraints import Constraint

from ..utils.shapes import check_finite, check_same, check_tensor, check_true, compute_dtype, describe
from .ranges import Bounds, resolve_bounds

__all__ = ["Bounds", "FiniteGroup", "Group", "Transform", "resolve_bounds"]


def _checked_names(names: object) -> tuple[str, ...]:
    """The names of coordinates: strings, all different."""
    ok = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(name, str) for name in names)
    if not ok or not names or len(set(names)) < len(names):  # pyright: ignore[reportArgumentType]
        raise ValueError(f"names: received {describe(names)}; accepted are different names, such as ('tx', 'ty')")
    return tuple(names)  # pyright: ignore[reportArgumentType]


def _checked_bounds(bounds: object, d: int) -> Tensor:
    """The range of each coordinate, `(2, d)`, in double precision or as it came."""
    try:
        rows = torch.as_tensor(bounds if isinstance(bounds, Tensor) else np.asarray(bounds, dtype=float))
    except (TypeError, ValueError):
        rows = torch.empty(0)
    if rows.shape != (2, d) or not bool((rows[0] <= rows[1]).all() & rows.isfinite().all()):
        got = rows.tolist() if rows.numel() else describe(bounds)
        raise ValueError(
            f"bounds: received {got}; accepted is a finite low <= high for each of {d} coordinates, (2, {d})"
        )
    return rows


class Transform(nn.Module):
    r"""Something that can be done to a signal: $x, v \mapsto x'$.

    Subclasses give `element_shape` and implement `element`, `act`, `act_points` and `act_mask`, and `inverse` where
    there is one. Those that move positions by resampling derive from `Spatial`, which needs `element`, `act_points`
    and `source` and does the rest.

    Args:
        names: one per coordinate.
        bounds: default range of each coordinate, `(2, d)`.
        origin: coordinates of the identity, `(d,)`; zero if None.
        periods: the period of each coordinate that lives on a circle, 0 for the others; none if None.
        supports: the constraint on each coordinate; real if None.

    A coordinate counts as `periodic` when its bounds span exactly one period: a narrower range is an interval, and an
    interval has ends.
    """

    invertible: bool = False
    element_shape: tuple[int, ...]
    # What the action changes. Actions on positions and on colours commute; any other two need not.
    acts_on: str = "positions"
    # The sides of the signals that it acts on: 2 for images, 1 for series, 0 for both.
    dims: int = 0
    # Whether it acts on levels in [0, 1] alone, to which a product therefore clips what interpolation overshoots.
    levels: bool = False
    # Buffers that keep float64 in a module of any type, where a device has it: geometry is computed in the type of what
    # is moved.
    precise: tuple[str, ...] = ()

    bounds: Tensor
    origin: Tensor

    def __init__(
        self,
        names: Sequence[str],
        bounds: Tensor | Sequence[Sequence[float]],
        *,
        origin: Sequence[float] | None = None,
        periods: Sequence[float] | None = None,
        supports: Sequence[Constraint] | None = None,
    ) -> None:
        super().__init__()
        self.names = _checked_names(names)
        bounds = _checked_bounds(bounds, len(names))
        given = {"origin": origin, "periods": periods, "supports": supports}
        if wrong := [name for name, row in given.items() if row is not None and len(row) != len(names)]:
            got, accepted = describe(given[wrong[0]]), f"one for each of {', '.join(names)}, or None"
            raise ValueError(f"{wrong[0]}: received {got}; accepted is {accepted}")
        start = torch.zeros(len(names)) if origin is None else torch.as_tensor(origin).clone()
        dtype = torch.get_default_dtype()
        self.register_buffer("bounds", bounds.to(dtype), persistent=False)
        self.register_buffer("origin", start.to(dtype), persistent=False)
        spans = (bounds[1] - bounds[0]).tolist()
        periods = [0.0] * len(names) if periods is None else periods
        self.periodic = tuple(p > 0 and math.isclose(s, p, rel_tol=1e-6) for s, p in zip(spans, periods, strict=True))
        self.supports = tuple(supports) if supports is not None else (constraints.real,) * len(names)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        kept = {name: getattr(self, name) for name in self.precise}
        for name, constant in kept.items():  # in single precision for now, for devices without float64
            setattr(self, name, constant.float())
        try:
            return super()._apply(fn, recurse)
        finally:
            for name, constant in kept.items():
                if (device := getattr(self, name).device).type != "mps":
                    setattr(self, name, constant.to(device))

    @property
    def features(self) -> int:
        """The number of coordinates, d."""
        return len(self.names)

    @property
    def support(self) -> Constraint:
        """The constraint on a whole vector of coordinates."""
        return constraints.independent(constraints.stack(list(self.supports), -1), 1)

    def extra_repr(self) -> str:
        """Coordinates with their ranges, the first few of many."""
        ranges = [f"{n}∈[{a:.3g}, {b:.3g}]" for n, a, b in zip(self.names, *self.bounds.tolist(), strict=True)]
        return ", ".join(ranges if len(ranges) <= 8 else [*ranges[:2], "…", ranges[-1]])

    def element(self, v: Tensor) -> Tensor:
        """Coordinates to element (the exponential, for a Lie group).

        Shape:
            v: `(*S, B, d)`; result: `(*S, B, *element_shape)`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement element")

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Moves the content of `x` by `g`; never copies `x` per sample.

        Shape:
            g: `(*S, B, *element_shape)` or `(*S, 1, *element_shape)`; x: `(B, C, H, W)` or `(B, C, L)`;
            result: `(*S, B, C, H, W)` or `(*S, B, C, L)`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement act")

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """The same action on coordinates: key points, box corners.

        Args:
            g: elements.
            p: points, in the coordinates of the module docstring.
            size: `(H, W)` of the image, or `(L,)`; needed only where the action depends on the frame (crops, cyclic
                shifts, CPAB) and the image is not square.

        Shape:
            g: `(*S, B, *element_shape)`; p: `(B, N, 2)`, or `(B, N, 1)` for series; result: `(*S, B, N, 2)`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement act_points")

    def act_mask(self, g: Tensor, mask: Tensor) -> Tensor:
        """The same action on a mask of labels: nearest neighbour, so type and values are kept.

        Shape:
            mask: `(B, C, H, W)` or `(B, C, L)`; result: `(*S, B, C, H, W)` or `(*S, B, C, L)`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement act_mask")

    def inverse(self, g: Tensor) -> Tensor:
        """The element that undoes `g`; a `ValueError` unless the transform is `invertible`."""
        raise ValueError(f"inverse: {type(self).__name__} is not invertible: what it removes is lost")

    def forward(self, x: Tensor, v: Tensor) -> Tensor:
        """Acts on `x` with coordinates `v`: `act(element(v), x)`."""
        self.check_types(x, v)
        return self.act(self.element(v), x)

    @staticmethod
    def check_types(x: Tensor, v: Tensor) -> None:
        """Raises a `ValueError` when signal and coordinates are of different floating-point types.

        Under autocast a network hands over coordinates in half precision: they are promoted.
        """
        floats = isinstance(x, Tensor) and isinstance(v, Tensor) and x.is_floating_point() and v.is_floating_point()
        if floats and x.dtype != v.dtype and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(f"v: received {describe(v)}, but x is {x.dtype}; accepted is the same type")

    def coordinates(self, v: Tensor) -> Tensor:
        """Checks coordinates and returns them in the type in which geometry is computed."""
        d = self.features
        accepted = f"floating-point coordinates (*S, B, {d}), one each for {', '.join(self.names)}"
        v = check_tensor("v", v, accepted, isinstance(v, Tensor) and v.ndim >= 2 and v.shape[-1] == d)
        check_tensor("v", v, accepted, v.is_floating_point())
        self._check_device("v", v)
        check_finite("v", v)
        return v.to(compute_dtype(v))

    def elements_like(self, g: Tensor, name: str = "g") -> Tensor:
        """Checks elements and returns them in the type in which geometry is computed."""
        k = len(self.element_shape)
        ok = isinstance(g, Tensor) and g.ndim >= k and tuple(g.shape[g.ndim - k :]) == self.element_shape
        shape = ", ".join(["*S", "B", *map(str, self.element_shape)])
        ok = ok and g.is_floating_point()
        g = check_tensor(name, g, f"floating-point elements of {type(self).__name__} ({shape})", ok)
        self._check_device(name, g)
        check_finite(name, g)
        return g.to(compute_dtype(g))

    def _check_device(self, name: str, x: Tensor) -> None:
        if x.device != self.bounds.device:
            here = self.bounds.device
            raise ValueError(
                f"{name}: received {describe(x)}, but the transform is on {here}; accepted is the same device (use .to)"
            )

    def check_batch(self, g: Tensor, x: Tensor, name: str) -> None:
        """Raises a `ValueError` unless the elements fit a batch: the same device, type and number, or one for all."""
        check_same(name, x, "g", g)
        batch = g.shape[: g.ndim - len(self.element_shape)]
        if len(batch) == 0 or batch[-1] not in (1, x.shape[0]):
            here = f"(*S, {x.shape[0]}) or (*S, 1)" if x.shape[0] != 1 else f"(*S, 1), or {name}.expand(B, ...)"
            raise ValueError(
                f"g: received elements with batch shape {tuple(batch)} for {name} with a batch of {x.shape[0]}; "
                f"accepted is {here}"
            )

    def check_points(self, g: Tensor, p: Tensor, dims: int = 0) -> Tensor:
        """Checks points against the elements that will move them; of any number of dimensions if that is 0."""
        accepted = f"points (B, N, {dims})" if dims else "points (B, N, 2), or (B, N, 1) for series"
        ok = isinstance(p, Tensor) and p.ndim == 3 and p.shape[-1] in ((dims,) if dims else (1, 2))
        p = check_tensor("p", p, accepted, ok and p.is_floating_point())
        check_finite("p", p)
        self.check_batch(g, p, "p")
        return p.to(compute_dtype(p))


class Group(Transform):
    """Transformations that compose and invert; densities live on coordinates, composition on elements."""

    invertible = True

    def identity(self) -> Tensor:
        """The element that changes nothing.

        Shape:
            result: `(*element_shape,)`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement identity")

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The element that acts as `h` first and then `g`: `act(compose(g, h), x) = act(g, act(h, x))`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement compose")

    def element_log(self, g: Tensor) -> Tensor:
        """The coordinates v with `element(v) = g`, where they exist; a `ValueError` where they don't."""
        raise NotImplementedError(f"{type(self).__name__} does not implement element_log")

    def pair(self, g: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Checks elements that are composed: as many of one as of the other, or one for all."""
        g, h = self.elements_like(g), self.elements_like(h, "h")
        sizes = zip(reversed(g.shape), reversed(h.shape), strict=False)
        if not all(a == b or 1 in (a, b) for a, b in sizes):
            accepted = f"as many elements as g, {tuple(g.shape)}, or one"
            raise ValueError(f"h: received {describe(h)}; accepted is {accepted}")
        return g, h


def _checked_table(table: Any) -> Tensor:
    """The table of a group: whole numbers, each once in every row and column, the identity first."""
    accepted = "whole numbers (n, n), each of 0, …, n - 1 once in every row and column, those of index 0 in order"
    ok = isinstance(table, Tensor) and table.ndim == 2 and table.dtype == torch.long
    table = check_tensor("table", table, accepted, ok and table.shape[0] == table.shape[1] > 0)
    order = torch.arange(len(table), device=table.device).expand_as(table)
    latin = table.sort(0).values.equal(order.T) and table.sort(1).values.equal(order)
    return check_tensor("table", table, accepted, latin and table[0].equal(order[0]) and table[:, 0].equal(order[0]))


class FiniteGroup(Group):
    """A group with finitely many elements. Elements are indices, and so is the one coordinate.

    Shape:
        elements `g`: integers `(*S, B)`; coordinates `v`: `(*S, B, 1)` with values 0, ..., n - 1.

    Args:
        table: `(n, n)`, `table[g, h]` is the index of g∘h. Index 0 is the identity.
    """

    element_shape = ()
    table: Tensor
    inverses: Tensor

    def __init__(self, table: Tensor) -> None:
        n = len(_checked_table(table))
        bounds = torch.tensor([[0.0], [n - 1.0]], dtype=torch.float64)
        super().__init__(("index",), bounds, supports=(constraints.integer_interval(0, n - 1),))
        self.register_buffer("table", table, persistent=False)
        # g∘h is the identity (0) in exactly one column h of row g.
        self.register_buffer("inverses", table.argmin(1), persistent=False)

    def __len__(self) -> int:
        """The order of the group."""
        return len(self.table)

    def elements(self) -> Tensor:
        """All elements.

        Shape:
            result: `(n,)`.
        """
        return torch.arange(len(self), device=self.table.device)

    def element(self, v: Tensor) -> Tensor:
        """The index, as an integer; whole numbers 0, ..., n - 1 are accepted, of any type."""
        v = self.coordinates(v if not isinstance(v, Tensor) or v.is_floating_point() else v.to(torch.float64))
        index = v[..., 0].round().long()
        self.check_index(v[..., 0], "v", whole=(v[..., 0] == index))
        return index

    def check_index(self, index: Tensor, name: str, whole: Tensor | None = None) -> None:
        """Raises a `ValueError` for an index outside 0, ..., n - 1, where it can be seen without a synchronisation."""
        inside = (index >= 0) & (index < len(self))
        inside = inside if whole is None else inside & whole
        check_true(name, inside, f"{describe(index)} with other values", f"the whole numbers 0 to {len(self) - 1}")

    def elements_like(self, g: Tensor, name: str = "g") -> Tensor:
        """Checks elements: integer indices `(*S, B)`."""
        ok = isinstance(g, Tensor) and not (g.is_floating_point() or g.is_complex())
        g = check_tensor(name, g, f"integer elements of {type(self).__name__} (*S, B)", ok)
        self._check_device(name, g)
        self.check_index(g, name)
        return g.long()

    def identity(self) -> Tensor:
        """Index 0."""
        return torch.zeros((), dtype=torch.long, device=self.table.device)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The group table."""
        return self.table[self.pair(g, h)]

    def inverse(self, g: Tensor) -> Tensor:
        """The index of the inverse."""
        return self.inverses[self.elements_like(g)]

    def element_log(self, g: Tensor) -> Tensor:
        """The index as a coordinate."""
        return self.elements_like(g)[..., None].to(self.bounds.dtype)
