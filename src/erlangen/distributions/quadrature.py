r"""Points that stand for a distribution: $\mathbb{E}_{q(v)} h(v) \approx \sum_s w_s h(v_s)$."""

from __future__ import annotations

import math

import torch
from torch.distributions import Distribution

from ..utils.shapes import check_count, describe
from .density import Density, Points
from .noise import SOURCES

__all__ = ["enumerates", "quadrature"]


def enumerates(q: Distribution, exact: bool = True) -> bool:
    """Whether the points of a distribution are all that it has, each with its probability, and not samples."""
    return isinstance(q, Density) and q.has_enumerate_support and (exact or q.degenerate)


def quadrature(
    q: Distribution,
    n: int,
    *,
    points: str = "random",
    exact: bool = True,
    generator: torch.Generator | None = None,
) -> Points:
    r"""Points with log-weights and log-densities: exact for finite support, Monte Carlo otherwise.

    Every sum $\sum_s w_s h(v_s)$ is unbiased, and so is its gradient, to all parameters: what choosing a point
    contributes is in the log-weights, so use them even where their values are all $-\log n$.

    Args:
        q: what a conditional returns, or any `Distribution` with event_shape `(d,)` that has `rsample`.
        n: the number of points; a finite support that is enumerated has as many as it has.
        points: "random" samples; "antithetic" pairs, which cancel what is odd; "sobol" points, whose error falls
            nearly as 1/n (not in compiled code); "common" ones, which are the same for every input, so that what comes
            of it depends on no other (not for training); or "enumerated", where every component of a mixture (of a
            joint, every combination) has equally many points, weighted by its probability: use it to train mixtures
            that must find separate modes.
        exact: whether a finite support is enumerated. Otherwise it is sampled.
        generator: where the noise comes from (eager mode); the global generator if None.

    Shape:
        result: v `(S, *B, d)`, log_weights `(S, *B)`, log_q `(S, *B)`.

    Example:
        >>> from erlangen.distributions import Gaussian
        >>> q = Gaussian(2, context=8)(torch.randn(3, 8))
        >>> v, log_weights, log_q = quadrature(q, 100)
        >>> second_moment = (log_weights.exp()[..., None] * v**2).sum(0)
        >>> second_moment.shape
        torch.Size([3, 2])
    """
    check_count("n", n)
    if points not in SOURCES:
        raise ValueError(f"points: received {points!r}; accepted is one of {', '.join(map(repr, SOURCES))}")
    if isinstance(q, Density):
        if enumerates(q, exact):
            return q.enumerated()
        return q.draw(SOURCES[points](torch.Size([n]), q.batch_shape, q.like, generator), pathwise=False)
    if not isinstance(q, Distribution) or not q.has_rsample or len(q.event_shape) != 1:
        raise ValueError(f"q: received {describe(q)}; accepted is a Distribution with rsample and event_shape (d,)")
    if points != "random" or generator is not None:
        raise ValueError(f"points, generator: received {points!r}, {generator}; {type(q).__name__} draws its own noise")
    v = q.rsample(torch.Size([n]))
    log_q = q.log_prob(v)
    return Points(v, torch.full_like(log_q, -math.log(n)), log_q)
