"""Whether samples come from the density, and gradients of expectations are those of the samples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ..distributions import Conditional, Density, quadrature
from ..distributions.circle import circular_mean, wrap
from ..utils.seeds import generator
from .integrals import weigh
from .requirements import require

__all__ = ["check_gradients", "check_moments", "check_samples", "known"]

SAMPLES = 10_000
SURE = 6  # standard errors: what is right fails once in 5e8, or of few rounds once in 5e5
HEAVY = 20  # kurtosis beyond which samples do not tell the variance
ROUNDS, POINTS = 24, 200  # rounds of quadrature whose gradients are averaged, and points of each
STEP = 0.1  # how far parameters are moved
NODES = (torch.arange(ROUNDS, dtype=torch.float64) + 0.5) / ROUNDS * 2 - 1


class Statistics:
    """Bounded functions of a point: the cosine and the sine of each coordinate, and of their sums, in their own units.

    Args:
        q: a density, whose samples give these units.
    """

    def __init__(self, q: Density) -> None:
        v = q.sample((500,)).detach().contiguous()  # the median of an expanded tensor may be NaN
        self.low, high = (end.nan_to_num(0.0, 0.0, 0.0) for end in q.ends)
        self.around = torch.tensor(q.periodic)
        self.turn = torch.where(self.around, high - self.low, 1.0) / (2 * math.pi)
        angle = (v - self.low) / self.turn
        even = torch.full_like(angle, 1 / len(v))
        centre = torch.where(self.around, circular_mean(angle, even), v.median(0).values)
        gap = torch.where(self.around, wrap(angle - centre), v - centre).abs().median(0).values
        width = torch.where(gap > 0, gap, 1.0)
        self.centre, self.unit = centre, torch.where(self.around, 1 / (0.7 / width).round().clamp(min=1), width)

    def __call__(self, v: Tensor) -> Tensor:
        """The values, `(N, B, J)`, at points `(N, B, d)`."""
        place = torch.where(self.around, (v - self.low) / self.turn, v)
        phase = (place - self.centre) / self.unit
        signs = 1 - 2 * (torch.arange(phase.shape[-1]) % 2).to(phase)
        sums = torch.stack((phase.sum(-1), (phase * signs).sum(-1)), -1)
        phase = torch.cat((phase, sums), -1)
        return torch.cat((phase.cos(), phase.sin()), -1)


def _mean(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean over the first dimension, and its standard error."""
    return x.mean(0), x.std(0) / len(x) ** 0.5


def check_samples(q: Density) -> None:
    """The density integrates to 1, and statistics of samples are what it says that they are."""
    v, log_weights, tolerance = weigh(q)
    ratio, n = log_weights.exp(), len(log_weights)
    whole = ratio.sum(0)
    error = SURE * n**0.5 * ratio.std(0) if tolerance is None else torch.full_like(whole, tolerance)
    require(((whole - 1).abs() <= error).all(), f"the density integrates to {whole.tolist()}")
    statistics = Statistics(q)
    drawn, drawn_error = _mean(statistics(q.sample((SAMPLES,))))
    values = statistics(v)
    meant = (ratio.unsqueeze(-1) * values).sum(0) / whole.unsqueeze(-1)
    spread = n**0.5 * (ratio.unsqueeze(-1) * (values - meant)).std(0) if tolerance is None else 10 * tolerance
    off = (drawn - meant).abs() - SURE * drawn_error.hypot(torch.as_tensor(spread, dtype=whole.dtype))
    require((off <= 0).all(), "samples are not distributed as the density says")


def check_gradients(net: Conditional, x: Tensor) -> None:
    """The gradient of an expectation is, along a random direction, how samples change.

    With parameters θ + s u, the mean of the derivative over s between -1 and 1 is half of the difference between the
    ends, whatever lies between.
    """
    statistics, parameters = Statistics(net(x)), [p for p in net.parameters() if p.requires_grad]
    if not parameters:
        return
    weights = torch.randn_like(statistics(net(x).sample((1,)))[0])
    direction = [STEP * torch.randn_like(p) for p in parameters]

    slopes, ends = [], []
    for s in NODES.tolist():
        with _moved(parameters, direction, s):
            v, log_weights, _ = quadrature(net(x), POINTS)
            per_input = (log_weights.exp() * (statistics(v) * weights).sum(-1)).sum()
            slopes.append(_along(per_input, parameters, direction))
    for s in (-1.0, 1.0):  # with the same noise, so that little of their difference is noise
        with _moved(parameters, direction, s), torch.no_grad():
            ends.append((statistics(net(x).sample((SAMPLES,), generator(7))) * weights).sum((-2, -1)))
    slope, error = _mean(torch.stack(slopes))
    change, noise = _mean((ends[1] - ends[0]) / 2)
    allowed = SURE * error.hypot(noise) + 1e-6
    says = f"{slope.item():.3g} per step, where samples change by {change.item():.3g}"
    require((slope - change).abs() <= allowed, f"the gradient of an expectation is biased: it is {says}")


def _along(value: Tensor, parameters: list[torch.nn.Parameter], direction: list[Tensor]) -> Tensor:
    """The derivative of a value along a direction."""
    slope = torch.zeros_like(value).detach()
    if not value.requires_grad:
        return slope
    gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    return slope + sum((g * u).sum() for g, u in zip(gradients, direction, strict=True) if g is not None)


@contextmanager
def _moved(parameters: list[torch.nn.Parameter], direction: list[Tensor], s: float) -> Iterator[None]:
    """Moves parameters along a direction inside the block; warnings about the density there are left out."""
    before = [p.detach().clone() for p in parameters]
    with torch.no_grad():
        for p, u in zip(parameters, direction, strict=True):
            p.add_(u, alpha=s)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        with torch.no_grad():
            for p, old in zip(parameters, before, strict=True):
                p.copy_(old)


def check_moments(q: Density) -> None:
    """The variance and the median, where they are known, are those of samples."""
    v, periodic = q.sample((SAMPLES,)), torch.tensor(q.periodic)
    turn = torch.where(periodic, (q.ends[1] - q.ends[0]).nan_to_num(1.0, 1.0, 1.0), 1.0) / (2 * math.pi)

    def gap(centre: Tensor) -> Tensor:
        return torch.where(periodic, wrap((v - centre) / turn) * turn, v - centre)

    if (median := known(q, "median")) is not None:
        gaps = gap(median)
        side, error = _mean(torch.where(periodic, (gaps / turn).sin(), gaps.sign()))
        require((side.abs() <= SURE * error + 1e-9).all(), "the median is not in the middle of samples")
    if (variance := known(q, "variance")) is not None:
        squares = gap(q.mean_estimate(SAMPLES)[0]).square()
        found, error = _mean(squares)
        told = squares.square().mean(0) < HEAVY * found.square()
        off = (variance - found).abs() > SURE * error + 1e-9
        require(~(off & told & variance.isfinite()).any(), "the variance is not that of samples")


def known(q: Density, name: str) -> Tensor | None:
    """The mean, mode, median, variance or entropy; None where it has no closed form."""
    try:
        return q.entropy() if name == "entropy" else getattr(q, name)
    except NotImplementedError:
        return None
