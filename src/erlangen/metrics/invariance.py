r"""How much a prediction changes when its input is transformed, and a bound on it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..distributions import Density
from ..utils.shapes import check_count, check_tensor

__all__ = ["invariance_bound", "prediction_change", "shifted_total_variation", "total_variation"]


def prediction_change(log_probs: Tensor, moved_log_probs: Tensor) -> Tensor:
    r"""$\mathrm{err}(C; I, I') = |p(C \mid I) - p(C \mid I')|$ (LTT section 3).

    Shape:
        log_probs, moved_log_probs: predictions for inputs and for transformed inputs, `(..., K)`; result: `(..., K)`.
    """
    same = isinstance(moved_log_probs, Tensor) and moved_log_probs.shape == log_probs.shape
    check_tensor("moved_log_probs", moved_log_probs, f"log-probabilities {tuple(log_probs.shape)}", same)
    return (log_probs.exp() - moved_log_probs.exp()).abs()


def total_variation(log_p: Tensor, log_q: Tensor) -> Tensor:
    r"""$\mathrm{TV}[p \| q] = \frac12 \int |p - q|$, estimated from points of which half come from p and half from q.

    With $m = (p + q) / 2$ it is $\mathbb{E}_m \frac{|p - q|}{p + q} = \mathbb{E}_m |\tanh \frac{\log p - \log q}{2}|$,
    whose terms lie between 0 and 1, so the estimate is unbiased with a standard error of at most $1 / (2 \sqrt{S})$.

    Shape:
        log_p, log_q: the log-densities of the points, `(S, ...)`, minus infinity without mass; result: `(...)`.
    """
    same = isinstance(log_q, Tensor) and log_q.shape == log_p.shape and log_p.ndim >= 1 and len(log_p) > 0
    check_tensor("log_q", log_q, f"log-densities of the same points, {tuple(log_p.shape)}, at least one", same)
    gap = log_p - log_q
    nowhere = (log_p == -math.inf) & (log_q == -math.inf)
    return torch.where(nowhere, 0.0, (gap.abs() / 2).tanh()).mean(0)


def shifted_total_variation(
    q: Density, moved: Density, shift: Tensor, n: int, generator: torch.Generator | None = None
) -> Tensor:
    r"""$\mathrm{TV}[g(T - \Delta T; I') \| g(T; I)]$: how far a conditional is from equivariant (LTT section 3).

    The coordinates must add up when transformations are composed, as those of translations, and of rotations about the
    centre, do.

    Args:
        q: the distributions for inputs I.
        moved: those for the inputs moved, I′.
        shift: by how much, $\Delta T$.
        n: the number of points from each of the two.
        generator: where the noise comes from; the global generator if None.

    Shape:
        shift: `(B, d)` or `(d,)`; result: `(B,)`.
    """
    check_count("n", n)
    v = torch.cat((q.sample((n,), generator), moved.sample((n,), generator) + shift))
    return total_variation(q.log_prob(v), moved.log_prob(v - shift))


def invariance_bound(views: Tensor, variation: Tensor) -> Tensor:
    r"""$2 (M - m) \, \mathrm{TV}$, above which no prediction changes (LTT section 3).

    M and m are the greatest and the least prediction of the classifier over the supports of both distributions; here,
    over the views that are given, so the bound is as good as they cover these.

    Shape:
        views: log-probabilities of the classifier for views of one input, `(S, B, K)`; variation: `(B,)`; result:
        `(B, K)`.
    """
    probs = views.exp()
    return 2 * (probs.amax(0) - probs.amin(0)) * variation.unsqueeze(-1)
