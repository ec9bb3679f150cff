r"""A density that is mapped into bounds: tanh for the line, scaling for the circle."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions.constraints import Constraint

from ..utils.shapes import eager_on_cpu
from ..utils.words import percent
from .circle import by_kind, wrap
from .density import Density, Points, check_density
from .noise import Noise

__all__ = ["BoundedDensity", "Once", "log_tanh_slope"]

SATURATED = 0.9999  # a share of half the range, at which the slope of tanh has fallen to 2e-4
TOLERATED = 0.05  # the share of samples that may lie beyond it


class Once:
    """A warning that is given once."""

    def __init__(self) -> None:
        self.given = False

    def warn(self, message: str) -> None:
        """Warns, the first time."""
        if not self.given:
            self.given = True
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def log_tanh_slope(z: Tensor) -> Tensor:
    r"""$\log(1 - \tanh^2 z) = 2 (\log 2 - z - \mathrm{softplus}(-2z))$, which doesn't lose its digits far out."""
    return 2 * (math.log(2) - z - F.softplus(-2 * z, threshold=50))


class BoundedDensity(Density):
    r"""The density of $v = m + h \tanh z$ for linear coordinates and $v = m + h z / \pi$ for periodic ones.

    With $m$ the middle and $h$ half of the range, $\log q(v) = \log q(z) - \sum_i \log |\partial v_i / \partial z_i|$.

    Args:
        base: the density of z.
        low: the least value of each coordinate, `(d,)`.
        high: the greatest.
        once: gives the warning that most samples crowd at the bounds; a new one if None.
    """

    batched = ("base",)

    def __init__(self, base: Density, low: Tensor, high: Tensor, *, once: Once | None = None) -> None:
        super().__init__(check_density(base).batch_shape, base.periodic, base.like)
        self.base, self.low, self.high = base, low, high
        self.has_rsample, self.degenerate = base.has_rsample, base.degenerate
        self.has_enumerate_support = base.has_enumerate_support
        self._once = once or Once()

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The bounds."""
        return self.low, self.high

    @property
    def support(self) -> Constraint:
        """The box that holds every sample: the bounds, or on the line less if the base has bounds too."""
        within = self.base.support.base_constraint  # pyright: ignore[reportAttributeAccessIssue]
        shape = self.base.batch_shape + self.event_shape
        return self._box(*(self._bound(z.expand(shape)) for z in (within.lower_bound, within.upper_bound)))

    @property
    def mean(self) -> Tensor:
        """The mean, where the map is linear or there is but one point."""
        return self._bound(self.base.mean) if self._keeps_centres else super().mean

    @property
    def mode(self) -> Tensor:
        """The mode, where the map is linear or there is but one point."""
        return self._bound(self.base.mode) if self._keeps_centres else super().mode

    @property
    def median(self) -> Tensor:
        """The median of the base, mapped into the bounds: the map of each coordinate increases."""
        return self._bound(self.base.median)

    @property
    def variance(self) -> Tensor:
        """The variance, where the map is linear or there is but one point."""
        slope = (self.high - self.low) / (2 * math.pi)
        return self.base.variance * slope.square() if self._keeps_centres else super().variance

    @property
    def _keeps_centres(self) -> bool:
        return all(self.periodic) or self.base.degenerate

    def entropy(self) -> Tensor:
        """The entropy, where the map is linear."""
        if self.base.degenerate or all(self.periodic):
            return self.base.entropy() + ((self.high - self.low) / (2 * math.pi)).log().sum()
        return super().entropy()

    def rsample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Samples of the base, mapped into the bounds."""
        z = self.base.rsample(sample_shape, generator)
        self._look(z)
        return self._bound(z)

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Samples of the base, mapped into the bounds, without a gradient."""
        z = self.base.sample(sample_shape, generator)
        self._look(z)
        return self._bound(z)

    def _bound(self, z: Tensor) -> Tensor:
        def line(z: Tensor, low: Tensor, high: Tensor) -> Tensor:
            # Only rounding takes the sum beyond an end.
            return ((low + high) / 2 + (high - low) / 2 * z.tanh()).clamp(low, high)

        def circle(z: Tensor, low: Tensor, high: Tensor) -> Tensor:
            return ((low + high) / 2 + (high - low) / 2 * (wrap(z) / math.pi)).clamp(low, high)

        return by_kind(self.periodic, line, circle, z, self.low, self.high)

    def _free(self, v: Tensor) -> Tensor:
        def line(v: Tensor, low: Tensor, high: Tensor) -> Tensor:
            # A sample that rounding put on an end gets the last number before it: its density is finite.
            edge = (high - low) * torch.finfo(v.dtype).eps / 4
            return 0.5 * ((v - low).clamp(min=edge) / (high - v).clamp(min=edge)).log()

        def circle(v: Tensor, low: Tensor, high: Tensor) -> Tensor:
            return wrap(math.pi * (2 * v - low - high) / (high - low))

        return by_kind(self.periodic, line, circle, v, self.low, self.high)

    def _log_slope(self, z: Tensor) -> Tensor:
        half = (self.high - self.low) / 2
        slope = by_kind(self.periodic, log_tanh_slope, lambda z: torch.full_like(z, -math.log(math.pi)), z)
        return (slope + half.log()).sum(-1)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Samples of the base, mapped into the bounds."""
        z, log_weights, log_q = self.base.draw(noise, pathwise=pathwise)
        self._look(z)
        return Points(self._bound(z), log_weights, log_q - self._log_slope(z))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density; minus infinity beyond the bounds of a linear coordinate."""
        value = self.coordinates(value)
        outside = by_kind(
            self.periodic,
            lambda v, low, high: (v < low) | (v > high),
            lambda v, low, high: torch.zeros_like(v, dtype=torch.bool),
            value,
            self.low,
            self.high,
        ).any(-1)
        z = self._free(value)
        return torch.where(outside, -math.inf, self.base.log_prob(z) - self._log_slope(z))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The points of a finite support, mapped into the bounds."""
        return self._bound(self.base.enumerate_support(expand))

    def enumerated(self) -> Points:
        """All points of a finite support, mapped into the bounds."""
        points = self.base.enumerated()
        self._look(points.v)
        return points._replace(v=self._bound(points.v))

    def _look(self, z: Tensor) -> None:
        """Warns, once, when many samples of a coordinate lie where tanh is flat."""
        if eager_on_cpu(z) and z.numel():
            crowded = by_kind(self.periodic, lambda z: z.abs() > math.atanh(SATURATED), torch.isnan, z)
            most = crowded.flatten(0, -2).sum(0).max()
            if int(most) > TOLERATED * (z.numel() // z.shape[-1]) + 2:  # two of a few samples may lie there by chance
                self._once.warn(
                    f"more than {percent(TOLERATED)} of the samples of a coordinate lie within {1 - SATURATED:.0e} "
                    "of a bound, where gradients vanish: widen the bounds, lower the weight of the entropy or "
                    "the learning rate, or clip gradients"
                )
