r"""Which transformations, for this input: conditionals, and the densities that they return.

A `Conditional` is a module. Called with an input it returns a `Density`, an ordinary `torch.distributions.Distribution`
with `batch_shape` `(B,)` and `event_shape` `(d,)` over the coordinates of a transform. It never sees an image, only the
features that an encoder makes of it, and it never sees a transform, only how many coordinates there are, which of them
live on a circle and in which bounds.

Convention:
    * Families are defined in *standard coordinates*: the line for a linear coordinate, angles in $[-\pi, \pi)$ for a
      periodic one. Bounds map them to $(low, high)$, the line by tanh and the circle by scaling.
    * A conditional starts at `origin`, the coordinates of the identity, with the initial `spread`: a fraction of half
      the range where there are bounds (near a bound, less), the coordinate's own unit where there are none.
    * `mean` and `mode` are exact or raise `NotImplementedError`; what is estimated from samples says so in its name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn
from torch.distributions.constraints import Constraint

from ..utils.shapes import check_count, check_finite, check_numbers, check_same, check_tensor, check_true, describe
from .bounded import BoundedDensity, Once
from .density import Density

__all__ = ["Bounded", "Conditional", "Coordinates", "check_over", "has_bounds"]

# How close to a bound a distribution may start, as a fraction of half the range: an identity that lies on the bound
# (the whole frame, for a crop) is at infinity in standard coordinates.
NEAREST = 0.96
# How much wider a distribution may start in standard coordinates to be as wide as it should between bounds; more would
# crowd it at a bound that is near.
WIDER = 4.0


class Coordinates(Protocol):
    """What a conditional needs to know of a transform."""

    periodic: tuple[bool, ...]
    bounds: Tensor
    origin: Tensor

    @property
    def support(self) -> Constraint:
        """Which coordinates there are."""
        ...

    @property
    def features(self) -> int:
        """The number of coordinates."""
        ...


def check_over(conditional: object, transform: Coordinates) -> None:
    """Raises a `ValueError` unless a conditional has as many coordinates as a transform."""
    many = getattr(conditional, "features", None)
    if many != transform.features:
        got = f"{type(conditional).__name__} over {many or 'no'} coordinates for a transform with {transform.features}"
        raise ValueError(f"conditional: received {got}; accepted is a Conditional over as many")


class Conditional(nn.Module):
    r"""A distribution over transformations given an input: $x \mapsto q(v \mid x)$.

    Subclasses implement `density`, in standard coordinates.

    Args:
        features: the number of coordinates, d.
        context: the number of features that describe an input.
        encoder: any module from an input to features `(B, context)`; None if the input is these features.
        periodic: which coordinates live on a circle; none if None.
        bounds: the range of each coordinate, `(2, d)` or a pair of numbers for all; no bounds if None. The range of a
            periodic coordinate is its period; without bounds it is $[-\pi, \pi)$.
        origin: the coordinates of the identity, where the distribution starts, `(d,)`; zero if None.

    Shape:
        input: whatever the encoder takes, or `(B, context)`; result: batch_shape `(B,)`, event_shape `(d,)`.
    """

    bounds: Tensor | None
    origin: Tensor
    within: type[BoundedDensity] = BoundedDensity  # what maps its density into bounds
    discrete = False  # whether there are several points, each with a probability instead of a density

    def __init__(
        self,
        features: int,
        context: int,
        *,
        encoder: nn.Module | None = None,
        periodic: Sequence[bool] | None = None,
        bounds: Tensor | Sequence[Any] | None = None,
        origin: Tensor | Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.features = check_count("features", features)
        self.context = check_count("context", context)
        if encoder is not None and not isinstance(encoder, nn.Module):
            raise ValueError(f"encoder: received {describe(encoder)}; accepted is a module, or None")
        self.encoder = encoder
        self.periodic = (False,) * features if periodic is None else _kinds(periodic, features)
        self.register_buffer("bounds", None if bounds is None else _bounds(bounds, features))
        self.register_buffer("origin", _origin(origin, features, self.bounds))
        self._once = Once()

    @classmethod
    def over(cls, transform: Coordinates, context: int, **kwargs: Any) -> Self:
        """A conditional over the coordinates of a transform, within its bounds and starting at its identity."""
        if not isinstance(getattr(transform, "support", None), Constraint):
            raise ValueError(f"transform: received {describe(transform)}; accepted is a transform")
        if transform.support.is_discrete:
            raise ValueError(
                f"transform: received {transform!r}; accepted is one without discrete coordinates "
                "(Categorical takes a finite group, Joint a conditional for each factor of a product)"
            )
        given = {"periodic": transform.periodic, "bounds": transform.bounds, "origin": transform.origin}
        return cls(transform.features, context, **given | kwargs)

    def extra_repr(self) -> str:
        """What it is over."""
        words = [f"features={self.features}", f"context={self.context}"]
        words += [f"periodic={self.periodic}"] if any(self.periodic) else []
        words += [] if self.bounds is None else [f"low={self.bounds[0].tolist()}", f"high={self.bounds[1].tolist()}"]
        return ", ".join(words)

    def density(self, h: Tensor) -> Density:
        """The distribution in standard coordinates, given the features of inputs, `(B, context)`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement density")

    def encode(self, x: Tensor) -> Tensor:
        """The features of inputs, checked, `(B, context)`."""
        check_tensor("x", x, "a tensor of inputs")
        if self.encoder is not None:
            check_finite("x", x)
        h = x if self.encoder is None else self.encoder(x)
        name = "x" if self.encoder is None else "encoder(x)"
        ok = isinstance(h, Tensor) and h.ndim == 2 and h.shape[-1] == self.context and h.is_floating_point()
        check_tensor(name, h, f"floating-point features (B, {self.context})", ok)
        check_finite(name, h)
        if torch.is_autocast_enabled(h.device.type):  # the encoder may compute in half precision; densities don't
            return h.to(self.origin.dtype)
        check_same(name, h, "the conditional", self.origin)
        exactly = f"features in {self.origin.dtype}, as the conditional's parameters, or half precision under autocast"
        return check_tensor(name, h, exactly, h.dtype == self.origin.dtype)

    def forward(self, x: Tensor) -> Density:
        """The distribution for each input of a batch."""
        h = self.encode(x)
        with torch.autocast(h.device.type, enabled=False):
            q = self.density(h)
            shapes = (getattr(q, "batch_shape", None), getattr(q, "event_shape", None))
            if shapes != ((h.shape[0],), (self.features,)):
                accepted = f"a Density with batch_shape ({h.shape[0]},) and event_shape ({self.features},)"
                raise ValueError(f"density: received {describe(q)}; accepted is {accepted}")
            return self.bound(q)

    def bound(self, q: Density) -> Density:
        """Maps a density in standard coordinates into the bounds, if there are any."""
        return q if self.bounds is None else self.within(q, *self.bounds.unbind(), once=self._once)

    @property
    def _ends(self) -> tuple[Tensor, Tensor] | None:
        """The bounds, `(d,)` each, if there are any."""
        return None if self.bounds is None else (self.bounds[0], self.bounds[1])

    @property
    def start(self) -> Tensor:
        """The origin in standard coordinates, `(d,)`."""
        if self.bounds is None:
            return self.origin
        low, high = self.bounds
        place = (2 * self.origin - low - high) / (high - low)
        circle = torch.tensor(self.periodic, device=place.device)
        return torch.where(circle, math.pi * place, place.clamp(-NEAREST, NEAREST).atanh())

    def spreads(self, name: str, spread: float | Sequence[float] | Tensor, *, zero: bool = False) -> Tensor:
        """An initial spread in standard coordinates, `(d,)`, from a fraction of half the range; see `sizes`."""
        sizes = self.sizes(name, spread, zero=zero)
        if self.bounds is None:
            return sizes
        # A step of z moves tanh(z) by its slope, which is less than 1 away from the middle.
        steps = self.start.cosh().square().clamp(max=WIDER)
        return torch.where(torch.tensor(self.periodic), math.pi, steps) * sizes

    def sizes(self, name: str, size: float | Sequence[float] | Tensor, *, zero: bool = False) -> Tensor:
        """Checks one number for all coordinates, or one for each, `(d,)`.

        Args:
            name: the argument, for errors.
            size: what was received.
            zero: whether zero is accepted.
        """
        try:
            sizes = torch.as_tensor(size, dtype=self.origin.dtype, device=self.origin.device).expand(self.features)
        except (RuntimeError, TypeError, ValueError):
            sizes = torch.tensor([math.nan])
        if not bool((sizes.isfinite() & ((sizes > 0) | zero & (sizes == 0))).all()):
            accepted = f"finite and {'>=' if zero else '>'} 0, one number or one for each of {self.features} features"
            raise ValueError(f"{name}: received {size!r}; accepted is {accepted}")
        return sizes


class Bounded(Conditional):
    """A conditional around a conditional: its coordinates, mapped into bounds by tanh (a periodic one by scaling).

    Args:
        conditional: one without bounds of its own.
        low: the least value of each coordinate, a number or `(d,)`.
        high: the greatest.
    """

    def __init__(self, conditional: Conditional, low: Tensor | Sequence[float] | float, high: Any) -> None:
        known = isinstance(conditional, Conditional)
        if not known or has_bounds(conditional) or conditional.discrete:
            got = "one that has bounds" if known and not conditional.discrete else describe(conditional)
            raise ValueError(f"conditional: received {got}; accepted is a Conditional with a density, without bounds")
        super().__init__(
            conditional.features, conditional.context, periodic=conditional.periodic, bounds=(low, high), origin=None
        )
        self.conditional, self.within = conditional, conditional.within

    def encode(self, x: Tensor) -> Tensor:
        """The features of inputs, as the conditional inside makes them."""
        return self.conditional.encode(x)

    def density(self, h: Tensor) -> Density:
        """The distribution of the conditional inside."""
        return self.conditional.density(h)


def has_bounds(conditional: Conditional) -> bool:
    """Whether it maps any of its coordinates into bounds, itself or in a part of it."""
    return any(part.bounds is not None for part in conditional.modules() if isinstance(part, Conditional))


def _kinds(periodic: Sequence[bool] | Tensor, features: int) -> tuple[bool, ...]:
    """Checked, one for each coordinate."""
    try:
        kinds = torch.as_tensor(periodic)
        ok = kinds.shape == (features,) and bool(((kinds == 0) | (kinds == 1)).all())
    except (RuntimeError, TypeError, ValueError):
        ok = False
    if not ok:
        raise ValueError(f"periodic: received {periodic!r}; accepted is true or false for each of {features} features")
    return tuple(bool(k) for k in kinds.tolist())


def _bounds(bounds: Tensor | Sequence[Any], features: int) -> Tensor:
    """Checked bounds, `(2, d)`."""
    accepted = f"low < high, finite, for each of {features} features: (2, {features}), or a pair of numbers"
    try:
        # Where parameters are made: the transform that has these bounds may be on a device already.
        place = torch.get_default_device()
        low, high = (torch.as_tensor(end, dtype=torch.float64, device=place).detach() for end in bounds)
        rows = torch.stack((low.expand(features), high.expand(features)))
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"bounds: received {describe(bounds)}; accepted is {accepted}") from None
    if not bool(rows.isfinite().all() & (rows[0] < rows[1]).all()):
        raise ValueError(f"bounds: received low {low.tolist()}, high {high.tolist()}; accepted is {accepted}")
    return rows.to(torch.get_default_dtype())


def _origin(origin: Tensor | Sequence[float] | None, features: int, bounds: Tensor | None) -> Tensor:
    """The checked origin, `(d,)`: inside the bounds, and in their middle unless it is given or zero is inside."""
    if origin is None:
        zero = torch.zeros(features)
        if bounds is None:
            return zero
        low, high = bounds
        return torch.where((low <= 0) & (high >= 0), zero, (low + high) / 2)
    accepted = f"finite numbers ({features},)"
    point = check_numbers("origin", origin, accepted)
    check_tensor("origin", point, accepted, tuple(point.shape) == (features,))
    check_finite("origin", point)
    if bounds is not None:
        low, high = bounds
        check_true("origin", (point >= low) & (point <= high), str(point.tolist()), "a point within the bounds")
    return point
