"""Densities over the coordinates of transformations: what a conditional returns."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.constraints import Constraint

from ..utils.shapes import check_count, check_same, check_tensor, describe, expands
from .circle import by_kind, circular_mean, reach, wrap
from .noise import Noise

__all__ = ["Density", "Points", "check_density", "columns", "mean_of", "nowhere"]


class Points(NamedTuple):
    """Points with weights, which stand for a distribution: E h(v) ≈ Σ_s exp(log_weights_s) h(v_s).

    Attributes:
        v: the points, `(S, B, d)`.
        log_weights: `(S, B)`; they carry gradient where choosing a point did.
        log_q: the log-density (for finite support the log-probability) of each point, `(S, B)`.
    """

    v: Tensor
    log_weights: Tensor
    log_q: Tensor


class Density(Distribution):
    r"""A distribution over the coordinates of transformations, one for each input of a batch.

    Subclasses implement `draw` and `log_prob`, name in `batched` the tensors and distributions that have the batch
    dimensions, and give `mean`, `mode`, `variance` and `entropy` where these have a closed form.

    Args:
        batch_shape: the shape of the batch.
        periodic: which coordinates live on a circle.
        like: a tensor that gives type and device.
    """

    arg_constraints = {}  # noqa: RUF012 # pyright: ignore[reportAssignmentType]
    has_rsample = True
    degenerate = False  # whether each input has a single point
    batched: tuple[str, ...] = ()
    _ends: tuple[Tensor, Tensor] | None = None  # set where they are not those of standard coordinates

    def __init__(self, batch_shape: torch.Size, periodic: Sequence[bool], like: Tensor) -> None:
        # torch's own validation would look at values, which synchronises a device and breaks a compiled graph.
        super().__init__(batch_shape, torch.Size([len(periodic)]), validate_args=False)
        self.periodic = tuple(periodic)
        self.like = like.detach()

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The least and greatest value of each coordinate; those of a periodic one are the same point, `(d,)` each."""
        if self._ends is not None:
            return self._ends
        high = reach(self.periodic, self.like)
        return -high, high

    @property
    def support(self) -> Constraint:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The box that holds every sample."""
        return constraints.independent(constraints.interval(*self.ends), 1)

    def _box(self, low: Tensor, high: Tensor) -> Constraint:
        """Values between low and high, `(*B, d)`; on circles, where these mean nothing, between the ends."""
        first, last = (
            by_kind(self.periodic, lambda z, _: z, lambda z, end: end.expand_as(z), z, end)
            for z, end in zip((low, high), self.ends, strict=True)
        )
        return constraints.independent(constraints.interval(first, last), 1)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Turns noise into samples.

        Args:
            noise: where the numbers come from.
            pathwise: whether every gradient goes through the samples; otherwise a choice between components puts its
                gradient into the log-weights, which is less noisy.

        Shape:
            result: points `(*S, *B, d)`; their log-weights (of sum 1 over the samples, up to the gradient) and
            log-densities `(*S, *B)`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement draw")

    def rsample_and_log_prob(
        self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Samples and their log-density in one pass.

        Args:
            sample_shape: `S`.
            generator: where the noise comes from (eager mode); the global generator if None.

        Shape:
            result: `(*S, *B, d)` and `(*S, *B)`.
        """
        points = self.draw(self._noise(sample_shape, generator))
        return points.v, points.log_q

    def rsample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Samples through which the gradient flows, `(*S, *B, d)`; that to the weights of a mixture is noisy."""
        return self.rsample_and_log_prob(sample_shape, generator)[0]

    @torch.no_grad()
    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Samples without a gradient, `(*S, *B, d)`."""
        return self.draw(self._noise(sample_shape, generator), pathwise=False).v

    def entropy(self) -> Tensor:
        """The differential entropy in closed form, `(*B,)`, where there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy in closed form: use entropy_estimate(n)")

    @property
    def mean(self) -> Tensor:
        """The mean, circular for periodic coordinates, `(*B, d)`, where it has a closed form."""
        raise NotImplementedError(f"{type(self).__name__} has no mean in closed form: use mean_estimate(n)")

    @property
    def mode(self) -> Tensor:
        """The point of greatest density, `(*B, d)`, where it has a closed form."""
        raise NotImplementedError(f"{type(self).__name__} has no mode in closed form: use mode_estimate(n)")

    @property
    def median(self) -> Tensor:
        """The median of each coordinate (on the circle, the centre of symmetry), `(*B, d)`, if it has a closed form."""
        raise NotImplementedError(f"{type(self).__name__} has no median in closed form: use mean_estimate(n)")

    @property
    def variance(self) -> Tensor:
        """The variance of each coordinate (along the circle for periodic ones), `(*B, d)`, if it has a closed form."""
        raise NotImplementedError(f"{type(self).__name__} has no variance in closed form: use stddev_estimate(n)")

    def entropy_estimate(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        r"""An unbiased estimate of the entropy, $-\frac1n \sum_s \log q(v_s)$, and its standard error.

        The gradient of the value is unbiased too.

        Shape:
            result: `(*B,)` and `(*B,)`.
        """
        points = self._independent(n, generator)
        terms = -n * points.log_weights.exp() * points.log_q
        return terms.mean(0), _standard_error(terms - terms.mean(0))

    def mean_estimate(self, n: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """An estimate of the mean from n samples, circular for periodic coordinates, and its standard error.

        Shape:
            result: `(*B, d)` and `(*B, d)`.
        """
        return mean_of(self._independent(n, generator), self.periodic, self.ends)

    def stddev_estimate(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """The standard deviation of each coordinate from n samples, along the circle for periodic ones, `(*B, d)`."""
        return self.mean_estimate(n, generator)[1] * n**0.5

    def mode_estimate(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """The one of n samples that has the greatest density, `(*B, d)`."""
        points = self._independent(n, generator)
        best = points.log_q.argmax(0)[None, ..., None].expand(1, *points.v.shape[1:])
        return points.v.gather(0, best).squeeze(0)

    def _independent(self, n: int, generator: torch.Generator | None) -> Points:
        return self.draw(self._noise([check_count("n", n)], generator), pathwise=False)

    def _noise(self, sample_shape: Sequence[int], generator: torch.Generator | None) -> Noise:
        sizes = list(sample_shape) if isinstance(sample_shape, Sequence) else [-1]
        if not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise ValueError(f"sample_shape: received {sample_shape!r}; accepted is a sequence of sizes, such as (5,)")
        return Noise(torch.Size(sizes), self.batch_shape, self.like, generator)

    def coordinates(self, value: Tensor) -> Tensor:
        """Checks points at which the density is asked for, `(..., d)`, and returns them in its own type."""
        d = len(self.periodic)
        ok = isinstance(value, Tensor) and value.shape[-1:] == (d,) and not value.is_complex()
        given, batch = (value.shape[:-1], self.batch_shape) if ok else ((), ())
        n = min(len(given), len(batch))
        both = zip(given[len(given) - n :], batch[len(batch) - n :], strict=True)
        fits = ok and all(a == b or 1 in (a, b) for a, b in both)
        check_tensor("value", value, f"coordinates (..., {d}) for a batch {tuple(self.batch_shape)}", fits)
        check_same("value", value.to(self.like.dtype), "the density", self.like)
        return value.to(self.like.dtype)

    def enumerated(self) -> Points:
        """All points of a finite support, with their log-probabilities as log-weights and log-densities."""
        raise NotImplementedError(f"{type(self).__name__} has no finite support")

    def __repr__(self) -> str:
        shapes = f"batch_shape: {tuple(self.batch_shape)}, event_shape: {tuple(self.event_shape)}"
        return f"{type(self).__name__}({shapes})"

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        """The same density for a larger batch, without copying."""
        new, dims = copy.copy(self), len(self.batch_shape)
        shape = torch.Size(batch_shape)
        if not expands(self.like.new_empty(self.batch_shape), self.like.new_empty(shape)):
            raise ValueError(
                f"batch_shape: received {tuple(shape)}; accepted is what {tuple(self.batch_shape)} expands to"
            )
        for name in self.batched:
            part = getattr(self, name)
            larger = part.expand(shape if isinstance(part, Distribution) else (*shape, *part.shape[dims:]))
            setattr(new, name, larger)
        new._batch_shape = shape
        return new


def check_density(q: object) -> Density:
    """Returns what the method `density` of a conditional made when it is a `Density`, else raises a `ValueError`."""
    if not isinstance(q, Density):
        accepted = "a Density, where there are bounds, and in flows, joints and mean-shift"
        raise ValueError(f"density: received {describe(q)}; accepted is {accepted}")
    return q


def mean_of(points: Points, periodic: Sequence[bool], ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The mean of points, circular for periodic coordinates, and its standard error if they are independent.

    Shape:
        result: `(*B, d)` and `(*B, d)`.
    """
    share = points.log_weights.exp().unsqueeze(-1)

    def line(v: Tensor, _low: Tensor, _high: Tensor) -> Tensor:
        mean = (share * v).sum(0)
        return torch.stack((mean, _standard_error(v - mean)))

    def circle(v: Tensor, low: Tensor, high: Tensor) -> Tensor:
        radius = (high - low) / (2 * math.pi)
        angle = (v - low) / radius - math.pi
        mean = circular_mean(angle, share)
        return torch.stack(((mean + math.pi) * radius + low, _standard_error(wrap(angle - mean)) * radius))

    mean, error = by_kind(periodic, line, circle, points.v, *ends)
    return mean, error


def nowhere(value: Tensor) -> Tensor:
    """The log-density of points outside of a support: minus infinity, and NaN where a coordinate is NaN, `(...)`."""
    nothing = torch.full_like(value[..., 0], -math.inf)
    return nothing.masked_fill(value.isnan().any(-1), math.nan)


def columns(v: Tensor, batch: torch.Size) -> tuple[Tensor, ...]:
    """The coordinates of samples `(*S, *B, d)` one by one, each `(n, m)` for n samples of m inputs."""
    shape = torch.broadcast_shapes(v.shape[:-1], batch)
    n, m = math.prod(shape[: len(shape) - len(batch)]), math.prod(batch)
    return v.expand(*shape, v.shape[-1]).reshape(n, m, v.shape[-1]).unbind(-1)


def _standard_error(centred: Tensor) -> Tensor:
    """The standard error of a mean over the first dimension, of which one sample says nothing."""
    n = len(centred)
    return (centred.square().sum(0) / (n * (n - 1))).sqrt() if n > 1 else torch.full_like(centred[0], math.inf)
