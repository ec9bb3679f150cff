r"""How much a prediction changes when its input is transformed, and a bound on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..distributions import Density
from ..transforms import FiniteGroup
from ..utils.shapes import check_count, check_kind, check_tensor, expands
from .calibration import check_normalised, kl
from .measured import BOOTSTRAP, Bootstrap, Measured, measured
from .orbit import Orbit, as_orbit, there_and_back
from .outputs import (
    Model,
    are_probabilities,
    check_data,
    check_logits,
    check_several,
    classify,
    classify_copies,
    measuring,
)

__all__ = [
    "Controlled",
    "ExpectedDivergence",
    "consistency",
    "controlled",
    "distribution_error",
    "distribution_invariance",
    "expected_divergence",
    "invariance_bound",
    "logit_error",
    "logit_invariance",
    "prediction_change",
    "shifted_total_variation",
    "total_variation",
]

Found = TypeVar("Found")
Comparison = Callable[[Tensor, Tensor], Tensor]


class ExpectedDivergence(NamedTuple):
    r"""Expected divergences of a model over all inputs; `Divergence` has those of each class.

    Attributes:
        forward: $\mathbb{E}\, \mathrm{KL}[p(\cdot \mid x) \,\|\, p(\cdot \mid gx)]$, as `distribution_invariance`.
        backward: $\mathbb{E}\, \mathrm{KL}[p(\cdot \mid gx) \,\|\, p(\cdot \mid x)]$.
    """

    forward: Measured
    backward: Measured


class Controlled(NamedTuple, Generic[Found]):
    """A measurement beside its null control.

    Attributes:
        measured: under the orbit.
        null: under `there_and_back` of it, which is what resampling alone causes.
    """

    measured: Found
    null: Found


def logit_error(logits: Tensor, moved: Tensor) -> Tensor:
    r"""$\frac12 \lVert f(x) - f(gx) \rVert_2^2$ (a term of Moskalev et al., equation 2).

    A class that both rule out, with logits of minus infinity, adds nothing.

    Shape:
        logits: f(x), `(B, K)`; moved: f(gx), `(S, B, K)`; result: `(S, B)`.
    """
    out = (logits == -math.inf) & (moved == -math.inf)
    return (logits - moved).masked_fill(out, 0.0).square().sum(-1) / 2


def distribution_error(logits: Tensor, moved: Tensor) -> Tensor:
    r"""$D_{KL}(u_x \parallel q_{gx})$ of the softmax of logits (a term of Moskalev et al., equation 1).

    Shape:
        logits: f(x), `(B, K)`; moved: f(gx), `(S, B, K)`; result: `(S, B)`.
    """
    return kl(logits.log_softmax(-1), moved.log_softmax(-1))


def logit_invariance(
    model: Model,
    x: Tensor,
    orbit: Orbit | FiniteGroup,
    *,
    y: Tensor | None = None,
    batch_size: int = 256,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> Measured:
    r"""How far logits move, $LI_f = \frac12 \lVert f(x) - f(gx) \rVert_2^2$ (Moskalev et al., equation 2).

    The paper writes sums over inputs and elements of the group; this is the mean over both, without the identity, for
    which the error is zero.

    Args:
        model: any callable from inputs to logits `(B, K)`; a module is in evaluation mode while it is measured.
        x: inputs, before normalisation, which belongs into the model.
        orbit: which copies they are compared with; a finite group for all its elements but the identity.
        y: the classes of the inputs, for the mean of each class.
        batch_size: the greatest number of inputs or copies that the model sees at a time. It changes nothing but
            memory and time, unless the model itself is random.
        bootstrap: how the confidence interval is made.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; y: `(B,)`.

    References:
        | A. Moskalev et al. On genuine invariance learning without weight-tying (2023).
    """
    return _compared(logit_error, model, x, orbit, y, batch_size, bootstrap)


def distribution_invariance(
    model: Model,
    x: Tensor,
    orbit: Orbit | FiniteGroup,
    *,
    y: Tensor | None = None,
    batch_size: int = 256,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> Measured:
    r"""How far predictions move, $DI_f = D_{KL}(u_x \,\|\, q_{gx})$ (Moskalev et al., equation 1).

    $u_x$ and $q_{gx}$ are the softmax of the logits of input and copy, of two classes or more; probabilities are
    refused, as their softmax is nearly even. Means take the place of the paper's sums; arguments and shapes are those
    of `logit_invariance`.
    """
    return expected_divergence(model, x, orbit, y=y, batch_size=batch_size, bootstrap=bootstrap).forward


def consistency(
    model: Model,
    x: Tensor,
    orbit: Orbit | FiniteGroup,
    *,
    y: Tensor | None = None,
    batch_size: int = 256,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> Measured:
    r"""How often the decision stays, $[\arg\max_k f_k(x) = \arg\max_k f_k(gx)]$, right or wrong.

    There are two classes or more. Arguments and shapes are those of `logit_invariance`.
    """

    def compare(logits: Tensor, moved: Tensor) -> Tensor:
        return (check_several(logits).argmax(-1) == moved.argmax(-1)).to(logits.dtype)

    return _compared(compare, model, x, orbit, y, batch_size, bootstrap)


def expected_divergence(
    model: Model,
    x: Tensor,
    orbit: Orbit | FiniteGroup,
    *,
    y: Tensor | None = None,
    batch_size: int = 256,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> ExpectedDivergence:
    r"""How far predictions move on average, in both directions: `ekld` of a model under an orbit, with intervals.

    There are two classes or more. Arguments and shapes are those of `logit_invariance`.

    References:
        | A. Zhou et al. Do deep networks transfer invariances across classes? (2022), equation 1; LTT figure 4.
    """
    probable = True

    def compare(logits: Tensor, moved: Tensor) -> Tensor:
        nonlocal probable
        probable = probable and are_probabilities(check_several(logits)) and are_probabilities(moved)
        log_p, log_q = logits.log_softmax(-1), moved.log_softmax(-1)
        return torch.stack((kl(log_p, log_q), kl(log_q, log_p)), -1)

    found, y, classes = _errors(compare, model, x, orbit, y, batch_size)
    check_logits(probable)
    forward, backward = (measured(each, y, classes=classes, bootstrap=bootstrap) for each in found.unbind(-1))
    return ExpectedDivergence(forward, backward)


def controlled(
    metric: Callable[..., Found], model: Model, x: Tensor, orbit: Orbit | FiniteGroup, **kwargs: Any
) -> Controlled[Found]:
    """A metric, and beside it what resampling alone makes of it.

    Args:
        metric: such as `logit_invariance`, `saliency_similarity` or `scores`.
        model: what is measured.
        x: inputs.
        orbit: of an invertible transform.
        **kwargs: of the metric.
    """
    return Controlled(metric(model, x, orbit, **kwargs), metric(model, x, there_and_back(orbit), **kwargs))


def _compared(
    compare: Comparison,
    model: Model,
    x: Tensor,
    orbit: Orbit | FiniteGroup,
    y: Tensor | None,
    batch_size: int,
    bootstrap: Bootstrap,
) -> Measured:
    """The mean over inputs and copies of `compare`, which makes `(S, B)` of `(B, K)` and `(S, B, K)`."""
    found, y, classes = _errors(compare, model, x, orbit, y, batch_size)
    return measured(found, y, classes=classes, bootstrap=bootstrap)


@torch.no_grad()
def _errors(
    compare: Comparison, model: Model, x: Tensor, orbit: Orbit | FiniteGroup, y: Tensor | None, batch_size: int
) -> tuple[Tensor, Tensor | None, int]:
    """The means of `compare` over the copies of each input, `(B, ...)`, the checked labels, and how many classes."""
    orbit, y = as_orbit(orbit), check_data(x, y)
    found, classes = [], 1
    with measuring(orbit.seed, model, orbit.law):
        for _, inputs, elements in orbit.batches(x, batch_size):
            logits = classify(model, inputs)
            classes = logits.shape[1]
            parts = [compare(logits, classify_copies(model, orbit.act(g, inputs))) for g in elements]
            found.append(torch.cat(parts).mean(0))
    return torch.cat(found), y, classes


def prediction_change(log_probs: Tensor, moved_log_probs: Tensor) -> Tensor:
    r"""$\mathrm{err}(C; I, I') = |p(C \mid I) - p(C \mid I')|$ (LTT section 3).

    Shape:
        log_probs, moved_log_probs: predictions for inputs and for transformed inputs, `(..., K)`; result: `(..., K)`.
    """
    check_tensor("log_probs", log_probs, "log-probabilities (..., K)")
    same = isinstance(moved_log_probs, Tensor) and moved_log_probs.shape == log_probs.shape
    check_tensor("moved_log_probs", moved_log_probs, f"log-probabilities {tuple(log_probs.shape)}", same)
    check_normalised("log_probs", log_probs)
    check_normalised("moved_log_probs", moved_log_probs)
    return (log_probs.exp() - moved_log_probs.exp()).abs()


def total_variation(log_p: Tensor, log_q: Tensor) -> Tensor:
    r"""$\mathrm{TV}[p \| q] = \frac12 \int |p - q|$, estimated from points of which half come from p and half from q.

    With $m = (p + q) / 2$ it is $\mathbb{E}_m \frac{|p - q|}{p + q} = \mathbb{E}_m |\tanh \frac{\log p - \log q}{2}|$,
    whose terms lie between 0 and 1, so the estimate is unbiased with a standard error of at most $1 / (2 \sqrt{S})$.

    Shape:
        log_p, log_q: the log-densities of the points, `(S, ...)`, minus infinity without mass; result: `(...)`.
    """
    check_tensor("log_p", log_p, "log-densities of points (S, ...)")
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
    for name, density in {"q": q, "moved": moved}.items():
        check_kind(name, density, Density)
    accepted = f"a shift of {len(q.periodic)} coordinates, for all inputs or for each, (B, {len(q.periodic)})"
    check_tensor(
        "shift",
        shift,
        accepted,
        isinstance(shift, Tensor) and expands(shift, q.like.new_empty(q.batch_shape + q.event_shape)),
    )
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
    ok = isinstance(views, Tensor) and views.ndim == 3 and len(views) > 0
    check_tensor("views", views, "log-probabilities (S, B, K), at least one view", ok)
    ok = isinstance(variation, Tensor) and variation.shape == views.shape[1:2]
    check_tensor("variation", variation, f"total variations ({views.shape[1]},)", ok)
    check_normalised("views", views)
    probs = views.exp()
    return 2 * (probs.amax(0) - probs.amin(0)) * variation.unsqueeze(-1)
