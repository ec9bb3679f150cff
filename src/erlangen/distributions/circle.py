r"""Densities on the circle, and functions that treat columns apart: those on the circle and those on the line.

Angles are in radians, a circle is $[-\pi, \pi)$ with its ends joined, and any representative of an angle is accepted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from torch import Tensor

__all__ = [
    "by_kind",
    "circular_mean",
    "log_normal",
    "log_wrapped_normal",
    "normal_cdf",
    "normal_score",
    "reach",
    "shortest",
    "wrap",
    "wrap_periodic",
    "wrapped_normal_cdf",
    "wrapped_normal_score",
]

LOG_TURN = math.log(2 * math.pi)
# Below this scale the sum over windings converges fast, above it the Fourier series does: five terms of either leave
# less than 1e-16.
SWITCH = 1.5
TERMS = 5


def by_kind(
    periodic: Sequence[bool],
    line: Callable[..., Tensor],
    circle: Callable[..., Tensor],
    *tensors: Tensor,
    dim: int = -1,
) -> Tensor:
    """Applies `line` to the linear columns of tensors and `circle` to the periodic ones; columns lie along `dim`.

    Runs of columns are cut and joined, without an index tensor, which would have to travel to a device.

    Shape:
        tensors: `(..., d)`, broadcastable against each other; result: `(..., d)` (with `dim` 0: `(d, ...)`).
    """
    runs = [(kind, len(list(group))) for kind, group in groupby(periodic)]
    if len(runs) == 1:
        return (circle if runs[0][0] else line)(*tensors)
    pieces = zip(*(t.split([n for _, n in runs], dim) for t in tensors), strict=True)
    return torch.cat([(circle if kind else line)(*p) for (kind, _), p in zip(runs, pieces, strict=True)], dim)


def reach(periodic: Sequence[bool], like: Tensor) -> Tensor:
    """How far standard coordinates reach to either side, `(d,)`: pi on the circle, infinity on the line."""
    # Made where it is used: a copy from the host would synchronise a device.
    return torch.stack([like.new_full((), math.pi if p else math.inf) for p in periodic])


def wrap(angle: Tensor) -> Tensor:
    r"""The representative of an angle in $[-\pi, \pi)$."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def wrap_periodic(periodic: Sequence[bool], z: Tensor, dim: int = -1) -> Tensor:
    r"""Coordinates whose periodic ones are brought into $[-\pi, \pi)$."""
    return by_kind(periodic, lambda z: z, wrap, z, dim=dim)


def shortest(gap: Tensor, periodic: Sequence[bool], ends: tuple[Tensor, Tensor]) -> Tensor:
    """Differences of coordinates, on a circle the shortest way round it.

    Shape:
        gap: `(..., d)`; ends: those of each coordinate's range, `(d,)` each; result: `(..., d)`.
    """

    def circle(gap: Tensor, low: Tensor, high: Tensor) -> Tensor:
        return gap - (high - low) * (gap / (high - low)).round()

    return by_kind(periodic, lambda gap, low, high: gap, circle, gap, *ends)


def circular_mean(angle: Tensor, weights: Tensor) -> Tensor:
    """The direction of the mean of the points on the circle, over the first dimension.

    Shape:
        angle: `(n, ..., d)`; weights: `(n, ..., 1)`; result: `(..., d)`.
    """
    return torch.atan2((weights * angle.sin()).sum(0), (weights * angle.cos()).sum(0))


def log_normal(delta: Tensor, scale: Tensor) -> Tensor:
    """The log-density of a normal at distance `delta` from its mean."""
    return -0.5 * ((delta / scale).square() + LOG_TURN) - scale.log()


def normal_cdf(z: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    """The distribution function of a normal."""
    return torch.special.ndtr((z - loc) / scale)


def normal_score(delta: Tensor, scale: Tensor) -> Tensor:
    """The derivative of `log_normal` in `delta`."""
    return -delta / scale.square()


def log_wrapped_normal(delta: Tensor, scale: Tensor) -> Tensor:
    r"""The log-density of a normal that is wrapped around the circle.

    $$f(\delta) = \sum_k \mathcal{N}(\delta + 2\pi k; 0, \sigma^2)
        = \frac{1}{2\pi} \Bigl(1 + 2 \sum_{n \geq 1} e^{-n^2 \sigma^2/2} \cos n\delta\Bigr).$$

    References:
        | K. V. Mardia, P. E. Jupp. Directional Statistics (2000), section 3.5.7.
    """
    few, many, narrow = _scales(scale)
    windings = log_normal(wrap(delta).unsqueeze(-1) + _turns(delta), few.unsqueeze(-1)).logsumexp(-1)
    n = _orders(delta)
    series = (torch.exp(-0.5 * (n * many.unsqueeze(-1)).square()) * torch.cos(n * delta.unsqueeze(-1))).sum(-1)
    return torch.where(narrow, windings, torch.log1p(2 * series) - LOG_TURN)


def wrapped_normal_score(delta: Tensor, scale: Tensor) -> Tensor:
    """The derivative of `log_wrapped_normal` in `delta`."""
    few, many, narrow = _scales(scale)
    around, spread = wrap(delta).unsqueeze(-1) + _turns(delta), few.unsqueeze(-1)
    share = log_normal(around, spread).softmax(-1)
    windings = (share * normal_score(around, spread)).sum(-1)
    n = _orders(delta)
    damped = torch.exp(-0.5 * (n * many.unsqueeze(-1)).square())
    angle = n * delta.unsqueeze(-1)
    series = -2 * (n * damped * angle.sin()).sum(-1) / (1 + 2 * (damped * angle.cos()).sum(-1))
    return torch.where(narrow, windings, series)


def wrapped_normal_cdf(z: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
    r"""The mass of a wrapped normal between $-\pi$ and z, for z in $[-\pi, \pi]$."""
    few, many, narrow = _scales(scale)
    end = torch.full_like(z, -math.pi)
    centre = wrap(loc).unsqueeze(-1) - _turns(loc)
    windings = normal_cdf(z.unsqueeze(-1), centre, few.unsqueeze(-1)) - normal_cdf(
        end.unsqueeze(-1), centre, few.unsqueeze(-1)
    )
    n = _orders(z)
    damped = torch.exp(-0.5 * (n * many.unsqueeze(-1)).square()) / n
    waves = torch.sin(n * (z - loc).unsqueeze(-1)) - torch.sin(n * (end - loc).unsqueeze(-1))
    series = (z - end) / (2 * math.pi) + (damped * waves).sum(-1) / math.pi
    return torch.where(narrow, windings.sum(-1), series)


def _scales(scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The scale for the sum over windings, that for the Fourier series, and which of them holds."""
    narrow = scale < SWITCH
    # Both branches are computed, so each gets a harmless scale where the other holds: no NaN in the gradient.
    return torch.where(narrow, scale, 1.0), torch.where(narrow, 2.0, scale), narrow


def _turns(like: Tensor) -> Tensor:
    return 2 * math.pi * torch.arange(-(TERMS // 2), TERMS // 2 + 1, dtype=like.dtype, device=like.device)


def _orders(like: Tensor) -> Tensor:
    return torch.arange(1, TERMS + 1, dtype=like.dtype, device=like.device)
