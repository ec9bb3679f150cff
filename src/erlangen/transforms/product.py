"""Products: several transforms, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..utils.shapes import describe, eager_on_cpu
from .affine import MatrixGroup
from .base import FiniteGroup, Group, Transform
from .colour import check_levels, clip
from .discrete import Permutations
from .matrix import compose_matrices
from .warp import as_signal

__all__ = ["Product"]

Action = Callable[[Transform, Tensor, Tensor], Tensor]


class Product(Transform):
    r"""Acts in turn, the first factor first: coordinates are joined, elements are flattened and joined.

    Consecutive affine factors are composed before the one warp, and so are flips and turns beside them: no image is
    copied, and what moves pixels to pixels does so to rounding. A product is a `Group` when all its factors are groups
    whose actions commute, that is, at most one moves positions and at most one changes colours. Otherwise it is a
    `Transform`, invertible when all its factors are.

    The inverse takes the factors in the opposite order. Where these are not all matrices, which can change places, an
    element therefore carries one more entry at its end: 1 for the given order, −1 for the opposite.

    Where a factor acts on levels in [0, 1], as `HSV` does, what interpolation overshoots is clipped to them, in every
    order: a product of groups acts on its own results.

    Args:
        *factors: transforms; products among them are taken apart.

    Shape:
        v: `(*S, B, d)`, the factors' coordinates joined; elements: `(*S, B, e)`.

    Example:
        >>> from erlangen.transforms import HSV, Affine
        >>> both = Product(Affine("tx", "angle"), HSV("hue"))
        >>> both.names, isinstance(both, Group), both.element(torch.zeros(5, 3)).shape
        (('tx', 'angle', 'hue'), True, torch.Size([5, 12]))
    """

    factors: Sequence[Transform]

    def __new__(cls, *factors: Transform) -> Self:
        """A product of commuting groups is a group."""
        if cls is not Product or not factors:  # copies come without factors and know their class
            return super().__new__(cls)
        parts = _flatten(factors)
        commuting = not _unlike(parts) and all(isinstance(f, Group) for f in parts)
        return super().__new__(_GroupProduct if commuting else cls)  # pyright: ignore[reportArgumentType]

    def __init__(self, *factors: Transform) -> None:
        parts = _flatten(factors)
        bounds = torch.cat([f.bounds for f in parts], 1)
        spans = (bounds[1] - bounds[0]).tolist()
        periodic = [p for f in parts for p in f.periodic]
        super().__init__(
            _unique([f.names for f in parts]),
            bounds,
            origin=[o for f in parts for o in f.origin.tolist()],
            periods=[s if p else 0.0 for s, p in zip(spans, periodic, strict=True)],
            supports=[s for f in parts for s in f.supports],
        )
        self.factors = nn.ModuleList(parts)  # pyright: ignore[reportAttributeAccessIssue]
        self.acts_on = " and ".join(sorted({f.acts_on for f in parts}, reverse=True))
        self.dims = max(f.dims for f in parts)
        self.invertible = all(f.invertible for f in parts)
        # Matrices can change places; anything else that does not commute needs to be told the order.
        self.ordered = self.invertible and not all(isinstance(f, MatrixGroup) for f in _unlike(parts))
        self.sizes = [math.prod(f.element_shape) for f in parts]
        self.element_shape = (sum(self.sizes) + self.ordered,)

    def split(self, g: Tensor) -> list[Tensor]:
        """An element taken apart into the factors' elements."""
        parts = self.elements_like(g).split([*self.sizes, *[1] * self.ordered], -1)[: len(self.sizes)]
        return [
            part[..., 0].round().long() if isinstance(f, FiniteGroup) else part.unflatten(-1, f.element_shape)
            for f, part in zip(self.factors, parts, strict=True)
        ]

    def join(self, parts: Sequence[Tensor], order: Tensor | float = 1.0) -> Tensor:
        """The factors' elements flattened and joined, with the order where it is needed."""
        dtype = next((p.dtype for p in parts if p.is_floating_point()), self.bounds.dtype)
        shapes = [p.shape[: p.ndim - len(f.element_shape)] for f, p in zip(self.factors, parts, strict=True)]
        flat = [p.reshape(*shape, n).to(dtype) for p, shape, n in zip(parts, shapes, self.sizes, strict=True)]
        if self.ordered:
            flat.append(torch.zeros_like(flat[0][..., :1]) + order)
        return torch.cat(flat, -1)

    def element(self, v: Tensor) -> Tensor:
        """Each factor's element, from its own coordinates."""
        return self.join(self._elements(v))

    def forward(self, x: Tensor, v: Tensor) -> Tensor:
        """Acts with coordinates, in the given order."""
        self.check_types(x, v)
        return self._in_turn(self._elements(v), x, _act)

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Acts with each factor in turn."""
        return self._in_order(g, x, _act)

    def act_mask(self, g: Tensor, mask: Tensor) -> Tensor:
        """Acts with each factor in turn."""
        return self._in_order(g, mask, lambda f, h, m: f.act_mask(h, m))

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """Acts with each factor in turn."""
        return self._in_order(g, p, lambda f, h, q: f.act_points(h, q, size))

    def inverse(self, g: Tensor) -> Tensor:
        """The factors' inverses, to be taken in the opposite order."""
        if not self.invertible:
            return super().inverse(g)
        parts = [f.inverse(part) for f, part in zip(self.factors, self.split(g), strict=True)]
        if self.ordered:
            return self.join(parts, -g[..., -1:])
        moving = [k for k, f in enumerate(self.factors) if f.acts_on == "positions"]
        swapped = dict(zip(moving, reversed(moving), strict=True))
        return self.join([parts[swapped.get(k, k)] for k in range(len(parts))])

    def _elements(self, v: Tensor) -> list[Tensor]:
        parts = self.coordinates(v).split([f.features for f in self.factors], -1)
        return [f.element(part) for f, part in zip(self.factors, parts, strict=True)]

    def _in_order(self, g: Tensor, x: Tensor, action: Action) -> Tensor:
        """Acts in the order that each element asks for; computes both where it cannot be seen which is meant."""
        parts = self.split(g)
        if not self.ordered:
            return self._in_turn(parts, x, action)
        given = g[..., -1] > 0
        if eager_on_cpu(given) and bool(given.all()):
            return self._in_turn(parts, x, action)
        opposite = self._in_turn(parts, x, action, backwards=True)
        if eager_on_cpu(given) and not bool(given.any()):
            return opposite
        given = given.reshape(*given.shape, *[1] * (opposite.ndim - given.ndim))
        return torch.where(given, self._in_turn(parts, x, action), opposite)

    def _in_turn(self, parts: Sequence[Tensor], x: Tensor, action: Action, backwards: bool = False) -> Tensor:
        pairs = list(zip(self.factors, parts, strict=True))
        shape = x.shape if isinstance(x, Tensor) else ()
        first, *rest = _merge(pairs[::-1] if backwards else pairs, shape)
        out = action(*first, x)
        samples = out.ndim - x.ndim
        for factor, h in rest:
            # Every sample has its own signal by now: samples join the batch.
            batch = out.shape[: samples + 1]
            h = h.expand(*batch, *factor.element_shape).flatten(0, samples)
            signal = out.flatten(0, samples)
            if action is _act and factor.levels:
                if x.is_floating_point():
                    check_levels(x)
                else:  # nearest neighbours keep bytes, others make levels of them in a type of their own
                    signal = as_signal(signal, "bilinear", h).to(h.dtype)
                signal = clip(signal)  # bicubic interpolation and splines overshoot
            out = action(factor, h, signal).unflatten(0, batch)
        # What comes last may overshoot as well: the product takes what it returns.
        levels = action is _act and not pairs[0 if backwards else -1][0].levels and any(f.levels for f in self.factors)
        return clip(out) if levels else out


class _GroupProduct(Product, Group):
    """A product of groups whose actions commute."""

    def identity(self) -> Tensor:
        """The factors' identities."""
        return self.join([f.identity() for f in self._groups])

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """Factor by factor, since the actions commute."""
        pairs = zip(self._groups, self.split(g), self.split(h), strict=True)
        return self.join([f.compose(a, b) for f, a, b in pairs])

    def element_log(self, g: Tensor) -> Tensor:
        """The factors' coordinates, joined."""
        logs = [f.element_log(part) for f, part in zip(self._groups, self.split(g), strict=True)]
        return torch.cat([log.to(g.dtype) for log in logs], -1)

    @property
    def _groups(self) -> list[Group]:
        return [f for f in self.factors if isinstance(f, Group)]


def _act(f: Transform, g: Tensor, x: Tensor) -> Tensor:
    return f.act(g, x)


def _flatten(factors: Sequence[Any]) -> list[Transform]:
    if not factors:
        raise ValueError("factors: received none; accepted are one or more transforms")
    if wrong := [f for f in factors if not isinstance(f, Transform)]:
        raise ValueError(f"factors: received {describe(wrong[0])}; accepted are transforms")
    parts = [part for f in factors for part in (f.factors if isinstance(f, Product) else [f])]
    kinds = {f.dims: type(f).__name__ for f in parts if f.dims}
    if len(kinds) > 1:
        got = f"{kinds[2]}, which acts on images, and {kinds[1]}, which acts on series"
        raise ValueError(f"factors: received {got}; accepted are transforms of the same kind of signal")
    return parts


def _unlike(factors: Sequence[Transform]) -> list[Transform]:
    """The factors whose action need not commute with that of another."""
    pairs = combinations(factors, 2)
    return [f for pair in pairs if {f.acts_on for f in pair} != {"positions", "colours"} for f in pair]


def _unique(names: Sequence[Sequence[str]]) -> list[str]:
    """All names, those that occur more than once with the number of their factor."""
    every = [name for part in names for name in part]
    return [n if every.count(n) == 1 else f"{n}.{k}" for k, part in enumerate(names) for n in part]


def _merge(pairs: Sequence[tuple[Transform, Tensor]], shape: Sequence[int]) -> list[tuple[Transform, Tensor]]:
    """Replaces consecutive matrices that resample alike by their product."""
    merged: list[tuple[Transform, Tensor]] = []
    for pair in pairs:
        merged.append(pair)
        while len(merged) > 1 and (both := _composed(merged[-2], merged[-1], shape)):
            merged[-2:] = [both]
    return merged


def _composed(
    first: tuple[Transform, Tensor], second: tuple[Transform, Tensor], shape: Sequence[int]
) -> tuple[Transform, Tensor] | None:
    """Two factors as one, where one is a group of matrices and the other can act by matrices with it."""
    for group, like in (second, first):
        if isinstance(group, MatrixGroup):
            g, h = (_matrix(*pair, group, like, shape) for pair in (second, first))
            return None if g is None or h is None else (group, compose_matrices(g, h))
    return None


def _matrix(f: Transform, g: Tensor, group: MatrixGroup, like: Tensor, shape: Sequence[int]) -> Tensor | None:
    """An element as a matrix of the group; None where it is none, or resamples otherwise."""
    if isinstance(f, MatrixGroup) and f.resamples_like(group):
        return g
    return f.matrix(g, like) if isinstance(f, Permutations) and f.joins(group, shape) else None
