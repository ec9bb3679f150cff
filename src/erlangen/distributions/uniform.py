"""Boxes: one range for all inputs (Augerino, LILA), or a range for each (InstaAug)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import constraints

from ..utils.shapes import check_finite, check_tensor, check_true, expands
from .base import Conditional
from .circle import by_kind, reach
from .density import Density, Points, nowhere
from .heads import FLOOR, Head, at_most, inverse_positive, positive
from .noise import Noise

__all__ = ["GlobalUniform", "MeanFieldUniform", "UniformDensity"]


class UniformDensity(Density):
    r"""The uniform density on a box, $v_i \sim U(a_i, b_i)$. A periodic coordinate has an arc of its circle.

    Args:
        low: the least value of each coordinate, `(*B, d)`.
        high: the greatest.
        periodic: which coordinates live on a circle.
        ends: the ends of each coordinate's whole range, `(d,)` each; see `Density.ends`.
    """

    batched = ("low", "high")

    def __init__(
        self,
        low: Tensor,
        high: Tensor,
        periodic: Sequence[bool] | None = None,
        ends: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        periodic = periodic or (False,) * low.shape[-1]
        check_tensor("low", low, f"a (*B, {len(periodic)}) tensor", low.shape[-1] == len(periodic))
        check_tensor("high", high, f"a tensor that expands to {tuple(low.shape)}", expands(high, low))
        check_true("high", high > low, "ranges whose high is not above their low", "high > low")
        super().__init__(low.shape[:-1], periodic, low)
        self.low, self.high = low, high.expand_as(low)
        self._ends = ends

    @property
    def support(self) -> constraints.Constraint:
        """The box."""
        box = constraints.interval(self.low, self.high)
        return constraints.independent(box, 1)

    @property
    def mean(self) -> Tensor:
        """The centre of the box (of an arc, its middle; the whole circle has none but is given that)."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Tensor:
        """A twelfth of the square of each side."""
        return (self.high - self.low).square() / 12

    def entropy(self) -> Tensor:
        """The logarithm of the volume."""
        return (self.high - self.low).log().sum(-1)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Low plus a uniform share of the range."""
        share = noise.uniform(len(self.periodic))
        log_q = -self.entropy().expand(share.shape[:-1])
        v = torch.lerp(self.low.expand_as(share), self.high.expand_as(share), share)
        return Points(v, noise.equal_weights(), log_q)

    def log_prob(self, value: Tensor) -> Tensor:
        """Minus the entropy inside the box, minus infinity outside."""
        # What a flow or a bound brings back to an end may miss it by rounding.
        slack = 4 * torch.finfo(self.low.dtype).eps * torch.maximum(self.low.abs(), self.high.abs())

        def circle(v: Tensor, low: Tensor, first: Tensor, last: Tensor) -> Tensor:
            return low + torch.remainder(v - low, last - first)

        def line(v: Tensor, low: Tensor, first: Tensor, last: Tensor) -> Tensor:
            return v + torch.zeros_like(low)

        value = by_kind(self.periodic, line, circle, self.coordinates(value), self.low - slack, *self.ends)
        inside = ((value >= self.low - slack) & (value <= self.high + slack)).all(-1)
        return torch.where(inside, -self.entropy(), nowhere(value))


class _Box(Conditional):
    """A conditional that heeds its bounds itself."""

    def bound(self, q: Density) -> Density:
        """The same density."""
        return q


class GlobalUniform(_Box):
    r"""One range for all inputs, $v_i \sim U(o_i - w_i, o_i + w_i)$ around the origin (Augerino, LILA).

    $w = \mathrm{softplus}(\cdot)$ is the *half*-width. A range never goes beyond the bounds: an end that would stays on
    its bound, and a width that reaches the farther bound can only shrink.

    Args:
        features: the number of coordinates.
        context: not used but for the shape of the input, which may be anything `(B, ...)`; kept so that all
            conditionals are built alike.
        spread: the initial half-width, one number or one for each coordinate, as a fraction of half the range
            where there are bounds, in the coordinate's own unit where there are none.
        width: the initial half-width in the coordinates' own units, whatever the bounds; `spread` if None.
        **kwargs: periodic, bounds and origin, see `Conditional`. An encoder would have no effect and is refused.

    Differs from the published code: Augerino's width is the whole width, U(-w/2, w/2), without bounds.

    References:
        | G. Benton et al. Learning invariances in neural networks (2020).
    """

    def __init__(
        self,
        features: int,
        context: int = 1,
        *,
        spread: float | Sequence[float] = 0.1,
        width: float | Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.get("encoder") is not None:
            raise ValueError("encoder: received a module; accepted is None: a GlobalUniform is the same for all inputs")
        super().__init__(features, context, **kwargs)
        half = 1.0 if self.bounds is None else (self.bounds[1] - self.bounds[0]) / 2
        start = half * self.sizes("spread", spread) if width is None else self.sizes("width", width)
        self.raw = nn.Parameter(inverse_positive(start))

    @property
    def half_width(self) -> Tensor:
        """The half-width of each coordinate's range, `(d,)`."""
        width = positive(self.raw)
        low, high = _room(self)
        return at_most(width, torch.maximum(low, high))

    def encode(self, x: Tensor) -> Tensor:
        """Any batch of inputs."""
        check_tensor("x", x, "a batch of inputs (B, ...)", isinstance(x, Tensor) and x.ndim >= 1)
        check_finite("x", x)
        return x

    def density(self, h: Tensor) -> UniformDensity:
        """The same box for each input."""
        low, high = _room(self)
        width = self.half_width
        # Not by a minimum, which halves the gradient of a width that is as wide as there is room.
        below, above = (torch.where(width <= room, width, room) for room in (low, high))
        low, high = self.origin - below, self.origin + above
        return UniformDensity(low.expand(h.shape[0], -1), high.expand(h.shape[0], -1), self.periodic, self._ends)


class MeanFieldUniform(_Box):
    r"""A range for each coordinate and input, which contains the origin (InstaAug).

    $v_i \sim U(o_i - a_i(x), o_i + b_i(x))$ with $a$ and $b$ the sigmoid's share of the room up to the bounds; without
    bounds, its softplus.

    Args:
        features: the number of coordinates.
        context: the number of features of an input.
        spread: the initial share of the room on each side of the origin; where there is no end to it, the distance.
        hidden: the widths of hidden layers in the head.
        **kwargs: encoder, periodic, bounds and origin, see `Conditional`.

    References:
        | N. Miao et al. Learning instance-specific augmentations by capturing local invariances (2023).
    """

    def __init__(
        self,
        features: int,
        context: int,
        *,
        spread: float | Sequence[float] = 0.1,
        hidden: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(features, context, **kwargs)
        share = self.sizes("spread", spread).repeat(2)
        bounded = torch.cat(_room(self)).isfinite()
        check_true("spread", (share < 1) | ~bounded, str(spread), "a share of the room between 0 and 1")
        raw = ((share - FLOOR).clamp(min=FLOOR) / (1 - FLOOR)).logit()
        self.ends = Head(context, torch.where(bounded, raw, inverse_positive(share)), hidden)

    def density(self, h: Tensor) -> UniformDensity:
        """A box for each input."""
        below, above = self.ends(h).chunk(2, -1)
        low, high = (_part(raw, room, self.origin) for raw, room in zip((below, above), _room(self), strict=True))
        return UniformDensity(self.origin - low, self.origin + high, self.periodic, self._ends)


def _part(raw: Tensor, room: Tensor, origin: Tensor) -> Tensor:
    """A share of the room, or any positive number where it is endless; enough not to be rounded away at the origin."""
    bounded = room.isfinite()
    share = torch.lerp(torch.full_like(raw, FLOOR), torch.ones_like(raw), raw.sigmoid())
    part = torch.where(bounded, share * torch.where(bounded, room, 1.0), positive(raw))
    return torch.minimum(part + 4 * torch.finfo(raw.dtype).eps * origin.abs(), room)


def _room(conditional: Conditional) -> tuple[Tensor, Tensor]:
    """How far each coordinate can go below and above the origin; on a circle half of it, wherever the origin lies."""
    origin = conditional.origin
    if conditional.bounds is not None:
        half = (conditional.bounds[1] - conditional.bounds[0]) / 2
        rooms = (origin - conditional.bounds[0], conditional.bounds[1] - origin)
        below, above = (by_kind(conditional.periodic, lambda room, _: room, lambda _, h: h, r, half) for r in rooms)
        return below, above
    end = reach(conditional.periodic, origin)
    return end, end
