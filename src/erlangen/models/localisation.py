r"""Where a prediction looked, and how sure it was of that."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from ..distributions import Density, mean_of, quadrature
from ..distributions.circle import shortest
from ..distributions.student import StudentDensity
from ..utils.seeds import generator
from ..utils.shapes import check_count, describe

__all__ = ["Localisation", "localisation"]

SHARE = 0.6827  # the mass of a normal density within one standard deviation


class Localisation(NamedTuple):
    """The transformation of each input, and its uncertainty.

    Attributes:
        centre: the mean of each coordinate, circular for a periodic one, `(B, d)`; the median of a Student's t without
            bounds that has no mean.
        deviation: the distance from the centre within which a coordinate lies with probability 0.683: the standard
            deviation of a normal, and finite for Student's t, which may have none, `(B, d)`.
    """

    centre: Tensor
    deviation: Tensor


@torch.no_grad()
def localisation(q: Distribution, points: int = 512) -> Localisation:
    """The centre and the deviation of each coordinate of a distribution, without a gradient.

    A centre in closed form is exact; what has none is estimated, from as many Sobol points for each input.

    Args:
        q: what a conditional returns.
        points: how many.
    """
    if not isinstance(q, Density):
        raise ValueError(f"q: received {describe(q)}; accepted is a Density, as conditionals return")
    many = quadrature(q, check_count("points", points), points="sobol", generator=generator(0, q.like.device))
    try:
        centre = q.mean
    except NotImplementedError:
        # A t may have no mean, and then that of samples is anywhere.
        centre = q.median if isinstance(q, StudentDensity) else mean_of(many, q.periodic, q.ends)[0]
    gap = shortest(many.v - centre, q.periodic, q.ends).abs()
    weight = many.log_weights.exp().unsqueeze(-1).expand_as(gap)
    order = gap.argsort(0)
    below = weight.gather(0, order).cumsum(0) < SHARE
    place = below.sum(0, keepdim=True).clamp(max=len(gap) - 1)
    return Localisation(centre, gap.gather(0, order).gather(0, place).squeeze(0))
