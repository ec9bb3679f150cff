"""How much mass a density holds: on a grid for one or two coordinates, by importance sampling for more."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import StudentT

from ..distributions import Density
from ..distributions.bounded import log_tanh_slope
from ..distributions.circle import circular_mean, wrap

__all__ = ["weigh"]

SAMPLES = 500  # samples that say where the mass is
KERNELS, TRIES = 150, 30  # samples around which points are drawn, and how many around each


class Weighed(NamedTuple):
    """Points with weights, whose sum is the mass of a density.

    Attributes:
        v: the points, `(N, B, d)`.
        log_weights: `(N, B)`.
        tolerance: how far a sum over a grid may be off; None for points that are drawn, whose weights tell.
    """

    v: Tensor
    log_weights: Tensor
    tolerance: float | None


def weigh(q: Density) -> Weighed:
    """Points that lie where a density has its mass, with weights in proportion to it."""
    v = q.sample((SAMPLES,))
    charts = [_chart(q, v[..., i], i) for i in range(len(q.periodic))]
    # In two dimensions the grid is coarse for a density with kinks.
    return _drawn(q, charts, v) if len(charts) > 2 else _grid(q, charts, v, 1e-5 if len(charts) == 1 else 1e-3)


class _Circle:
    """A coordinate that lives on a circle, as an angle y."""

    def __init__(self, low: Tensor, high: Tensor, v: Tensor) -> None:
        self.low, self.radius = low, (high - low) / (2 * math.pi)
        y = self.inward(v)
        self.width = wrap(y - circular_mean(y, torch.full_like(y, 1 / len(y)))).abs().median(0).values / 2

    def inward(self, v: Tensor) -> Tensor:
        """From the coordinate."""
        return (v - self.low) / self.radius

    def outward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """To the coordinate, and the logarithm of the slope."""
        return self.low + self.radius * y, self.radius.log().expand_as(y)

    def grid(self, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The circle, cut evenly, and the logarithms of the steps."""
        step = torch.full_like(y[0], 2 * math.pi / n)
        return step * torch.arange(n, dtype=y.dtype)[:, None], step.log()

    def noise(self, shape: torch.Size) -> Tensor:
        """A Cauchy, which counts modulo whole turns."""
        return self.width * (math.pi * (torch.rand(shape, dtype=self.width.dtype) - 0.5)).tan()

    def log_noise(self, gap: Tensor) -> Tensor:
        """The log-density of the noise around the circle."""
        around = 2 * ((self.width / 2).sinh().square() + (gap / 2).sin().square())
        return self.width.sinh().log() - around.log() - math.log(2 * math.pi)


class _Line:
    """A coordinate of the line, or of a range after atanh, as asinh of its units: no ends, and no long tails."""

    def __init__(self, low: Tensor, high: Tensor, v: Tensor) -> None:
        self.finite = bool(low.isfinite().all())
        self.middle = (low + high) / 2 if self.finite else torch.zeros_like(low)
        self.half = (high - low) / 2 if self.finite else torch.ones_like(low)
        z = self._free(v)
        self.centre = z.median(0).values
        self.unit = (z - self.centre).abs().median(0).values
        self.kernel = StudentT(torch.tensor(4.0, dtype=z.dtype), scale=0.4)

    def _free(self, v: Tensor) -> Tensor:
        z = (v - self.middle) / self.half
        return z.clamp(-1 + 1e-12, 1 - 1e-12).atanh() if self.finite else z

    def inward(self, v: Tensor) -> Tensor:
        """From the coordinate."""
        return ((self._free(v) - self.centre) / self.unit).asinh()

    def outward(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """To the coordinate, and the logarithm of the slope."""
        z = self.centre + self.unit * y.sinh()
        log_slope = (self.half * self.unit).log() + y.cosh().log()
        return (self.middle + self.half * z.tanh(), log_slope + log_tanh_slope(z)) if self.finite else (z, log_slope)

    def grid(self, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Three times the range of samples, cut evenly, and the logarithms of the steps."""
        low, high = y.min(0).values, y.max(0).values
        step = 3 * (high - low) / (n - 1)
        return 2 * low - high + step * torch.arange(n, dtype=y.dtype)[:, None], step.log()

    def noise(self, shape: torch.Size) -> Tensor:
        """A Student's t, with tails longer than any that asinh leaves."""
        return self.kernel.sample(shape)

    def log_noise(self, gap: Tensor) -> Tensor:
        """The log-density of the noise."""
        return self.kernel.log_prob(gap)


def _chart(q: Density, v: Tensor, i: int) -> _Circle | _Line:
    interval = q.support.base_constraint  # pyright: ignore[reportAttributeAccessIssue]
    shape = (*q.batch_shape, len(q.periodic))
    low, high = (end.expand(shape)[..., i] for end in (interval.lower_bound, interval.upper_bound))
    whole = q.periodic[i] and torch.allclose(high - low, q.ends[1][i] - q.ends[0][i])
    return (_Circle if whole else _Line)(low, high, v)


def _grid(q: Density, charts: list[_Circle | _Line], v: Tensor, tolerance: float) -> Weighed:
    """A grid, each of whose points stands for its cell."""
    n, points, log_steps = (8001 if len(charts) == 1 else 241), [], []
    for i, chart in enumerate(charts):
        y, log_step = chart.grid(chart.inward(v[..., i]), n)
        place, log_slope = chart.outward(y)
        points.append(place)
        log_steps.append(log_slope + log_step)
    if len(charts) == 2:
        points = [points[0].repeat_interleave(n, 0), points[1].repeat(n, 1)]
        log_steps = [log_steps[0].repeat_interleave(n, 0), log_steps[1].repeat(n, 1)]
    places = torch.stack(points, -1)
    return Weighed(places, q.log_prob(places) + sum(log_steps), tolerance)


def _drawn(q: Density, charts: list[_Circle | _Line], v: Tensor) -> Weighed:
    """Points drawn around samples, whether or not these are of the density: its ratio to that of the points."""
    around, points = v[:KERNELS], []
    log_q = log_p = v.new_zeros(())
    for i, chart in enumerate(charts):
        centres = chart.inward(around[..., i])
        y = centres.repeat(TRIES, 1)
        y = y + chart.noise(y.shape)
        place, log_slope = chart.outward(y)
        points.append(place)
        log_q, log_p = log_q + log_slope, log_p + chart.log_noise(y.unsqueeze(1) - centres)
    log_p = log_p.logsumexp(1) - math.log(len(around))
    places = torch.stack(points, -1)
    return Weighed(places, q.log_prob(places) + log_q - log_p - math.log(len(places)), None)
