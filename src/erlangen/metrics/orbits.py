r"""How far apart things are that should be one: prototypes of an orbit, and distributions of a factor."""

from __future__ import annotations

import torch
from torch import Tensor

from ..utils.shapes import check_positive, check_tensor

__all__ = ["orbit_spread", "wasserstein"]


def orbit_spread(views: Tensor) -> Tensor:
    r"""The mean squared distance between two of K views of an input.

    $$\frac{1}{K (K - 1)} \sum_{i \neq j} \|v_i - v_j\|^2$$

    Of prototypes as a share of that of the inputs, it says how far a model is from equation 4 of SGM.

    Shape:
        views: `(K, N, ...)`, K > 1; result: `(N,)`.
    """
    ok = isinstance(views, Tensor) and views.ndim > 2 and len(views) > 1 and views.is_floating_point()
    views = check_tensor("views", views, "floating-point views (K, N, ...) of inputs, at least two of each", ok)
    return 2 * views.flatten(2).var(0, correction=1).sum(-1)


def wasserstein(a: Tensor, b: Tensor, period: float | None = None) -> Tensor:
    r"""The 1-Wasserstein distance of two samples, $\int |F_a - F_b|$, or on a circle $\min_c \int |F_a - F_b - c|$.

    Exact for the empirical distributions: on the circle the best c is a median of $F_a - F_b$.

    Args:
        a: numbers.
        b: others, of any number.
        period: the circumference; a line if None.

    Shape:
        a: `(N,)`; b: `(M,)`; result: `()`, in the unit of the numbers.

    References:
        | J. Rabin, J. Delon, Y. Gousseau. Transportation distances on the circle (2011).
    """
    for name, x in {"a": a, "b": b}.items():
        check_tensor(name, x, "numbers (N,)", isinstance(x, Tensor) and x.ndim == 1 and x.numel() > 0)
    a, b = a.double(), b.double()
    if period is not None:
        a, b = (torch.remainder(x, check_positive("period", period)) for x in (a, b))
    places, order = torch.cat((a, b)).sort()
    jumps = torch.cat((torch.full_like(a, 1 / len(a)), torch.full_like(b, -1 / len(b))))[order]
    gap = jumps.cumsum(0)
    if period is None:
        return (gap[:-1].abs() * places.diff()).sum()
    lengths = torch.cat((places.diff(), places[:1] + period - places[-1:]))
    height, rank = gap.sort()
    half = lengths[rank].cumsum(0)
    middle = height[torch.searchsorted(half, half[-1:] / 2).clamp(max=len(half) - 1)]
    return ((gap - middle).abs() * lengths).sum()
