r"""Predictions averaged over transformations of the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple, Self, get_args

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.func import functional_call

from ..distributions import Conditional, Points, check_over, enumerates, quadrature
from ..distributions.circle import shortest
from ..transforms import Transform
from ..transforms.warp import signal_for
from ..utils.shapes import check_count, check_positive, check_tensor, compute_dtype, describe
from .localisation import Localisation, localisation

__all__ = ["Averaged", "Prediction", "Space", "average", "logits_of"]

Space = Literal["prob", "logit", "log_prob"]


class Prediction(NamedTuple):
    """What an `Averaged` model returns.

    Attributes:
        log_probs: the averaged prediction, normalised, `(B, K)`.
        views: the logits of each view, `(S, B, K)`, with the untransformed input last if it is one of them.
        v: the coordinates of the transformations, `(S, B, d)`.
        log_q: their log-density, `(S, B)`.
        log_weights: their log-weights, `(S, B)`.
        q: the distribution that they come from; `localisation` says where it lies and how wide it is.
    """

    log_probs: Tensor
    views: Tensor
    v: Tensor
    log_q: Tensor
    log_weights: Tensor
    q: Distribution

    def localisation(self, points: int = 512) -> Localisation:
        """The transformation of each input and its uncertainty, without a gradient; see `models.localisation`."""
        return localisation(self.q, points)


def logits_of(output: Any) -> Tensor:
    """The logits in what a classifier returns: a tensor, an object or dict with `logits`, or the first of a tuple."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, dict) and "logits" in output:
        return logits_of(output["logits"])
    if (logits := getattr(output, "logits", None)) is not None:
        return logits_of(logits)
    if isinstance(output, tuple | list) and output:
        return logits_of(output[0])
    accepted = "a tensor, an object or dict with logits, or a tuple; otherwise give output_fn"
    raise ValueError(f"model: received the output {describe(output)}; accepted is {accepted}")


def average(logits: Tensor, log_weights: Tensor, space: Space = "prob") -> Tensor:
    r"""The weighted average of predictions, as normalised log-probabilities.

    In the space of probabilities it is LTT equation 8, $\log \sum_s w_s f(C; \mathcal{A}_{T_s} I)$. In that of logits
    or log-probabilities the average is normalised again.

    Shape:
        logits: `(S, B, K)`; log_weights: `(S, B)`; result: `(B, K)`.
    """
    logits, weights = logits.to(compute_dtype(logits)), log_weights.unsqueeze(-1)
    if space == "prob":
        return (weights + logits.log_softmax(-1)).logsumexp(0)
    scores = logits if space == "logit" else logits.log_softmax(-1)
    return (weights.exp() * scores).sum(0).log_softmax(-1)


class Averaged(nn.Module):
    r"""$p(C \mid I) = \mathbb{E}_{v \sim q(v \mid I)} f(C; \mathcal{A}_v I)$ (LTT equation 8).

    Any classifier, any transform, any conditional. The transformation is applied to the input as it is, and
    normalisation after it, so that outside the frame is black (or the fill), not the mean colour.

    Args:
        model: a classifier, from images or series to logits `(N, K)` (see `logits_of` and `output_fn`).
        transform: what is done to an input.
        conditional: which of it, for this input. It sees the input before normalisation, in [0, 1] if it was uint8.
        samples: the number of transformations per input in training, and in evaluation if `eval_samples` is None.
        eval_samples: their number in evaluation.
        space: where predictions are averaged, see `average`.
        normalise: applied to views, after the transformation.
        identity: whether the untransformed input is one more view, with the weight of the others; "eval": in evaluation
            only, as in the published code of LTT.
        rejection: in evaluation, draw 15 times as many transformations, and prefer those within this distance of the
            identity, as a fraction of the half ranges (1 in the published code of LTT). Biased, so not by default.
        output_fn: from what the classifier returns to logits.
        largest: the greatest number of views that are in memory at a time; no limit if None.
        points: how points are drawn, see `quadrature`.
        exact: whether all of finitely many transformations become views, each weighted by its probability. False, for
            where they are too many, samples them.
        frozen: which of "model" and "conditional" are neither trained nor switched to training mode.

    Shape:
        input: `(B, C, H, W)` or `(B, C, L)`.
    """

    def __init__(
        self,
        model: nn.Module,
        transform: Transform,
        conditional: Conditional,
        *,
        samples: int = 20,
        eval_samples: int | None = None,
        space: Space = "prob",
        normalise: Callable[[Tensor], Tensor] | None = None,
        identity: bool | Literal["eval"] = False,
        rejection: float | None = None,
        output_fn: Callable[[Any], Tensor] = logits_of,
        largest: int | None = None,
        points: str = "random",
        exact: bool = True,
        frozen: Collection[str] = (),
    ) -> None:
        super().__init__()
        if space not in get_args(Space):
            raise ValueError(f"space: received {space!r}; accepted is one of {', '.join(get_args(Space))}")
        if not callable(model):
            raise ValueError(f"model: received {type(model).__name__}; accepted is a classifier, such as an nn.Module")
        for name, part, kind in (("transform", transform, Transform), ("conditional", conditional, Conditional)):
            if not isinstance(part, kind):
                natural = f"; over natural variations of {type(part).__name__} averages its method averaged"
                more = natural if hasattr(part, "averaged") else ""
                raise ValueError(f"{name}: received {type(part).__name__}; accepted is a {kind.__name__}{more}")
        check_over(conditional, transform)
        if not (normalise is None or callable(normalise)):
            raise ValueError(f"normalise: received {describe(normalise)}; accepted is a function of images, or None")
        if identity not in (False, True, "eval"):
            raise ValueError(f"identity: received {identity!r}; accepted is False, True or 'eval'")
        if isinstance(frozen, str) or (set(frozen) - {"model", "conditional"}):
            raise ValueError(f"frozen: received {frozen!r}; accepted are some of ['model', 'conditional']")
        self.model, self.transform, self.conditional = model, transform, conditional
        self.samples = check_count("samples", samples)
        self.eval_samples = samples if eval_samples is None else check_count("eval_samples", eval_samples)
        self.largest = None if largest is None else check_count("largest", largest)
        self.rejection = None if rejection is None else check_positive("rejection", rejection)
        self.space: Space = space
        self.normalise, self.identity = normalise, identity
        self.points, self.exact = points, exact
        self.output_fn, self.frozen = output_fn, frozenset(frozen)
        for name in self.frozen:
            getattr(self, name).requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Switches to training mode, but for what is frozen."""
        super().train(mode)
        for name in self.frozen:
            getattr(self, name).eval()
        return self

    def forward(self, x: Tensor) -> Prediction:
        """The averaged prediction and what it is made of."""
        x = self.signal(x)
        q = self.conditional(x)
        near = None if self.training else self.rejection
        points = self._points(q, self._count) if near is None else self._near(q, near)
        views, log_weights = self.views(x, points.v), points.log_weights
        if self.identity is True or (self.identity and not self.training):
            s = len(views)
            views = torch.cat((views, self._unmoved(x).unsqueeze(0)))
            alone = log_weights.new_full((1, *log_weights.shape[1:]), -math.log(s + 1))
            log_weights = torch.cat((log_weights + math.log(s / (s + 1)), alone))
        log_probs = average(views, log_weights, self.space)
        return Prediction(log_probs, views, points.v, points.log_q, points.log_weights, q)

    def signal(self, x: Tensor) -> Tensor:
        """Inputs in the type of the classifier, see `signal_like`."""
        return signal_for(x, self.model, self.transform.bounds)

    def classify(self, x: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """The logits of inputs as they are, `(B, K)`; with other weights, by name, in place of the classifier's own."""
        x = x if self.normalise is None else self.normalise(x)
        logits = self.output_fn(self.model(x) if weights is None else functional_call(self.model, dict(weights), (x,)))
        ok = logits.ndim == 2 and logits.shape[0] == x.shape[0]
        return check_tensor("model", logits, f"a classifier with logits ({x.shape[0]}, K)", ok)

    def views(self, x: Tensor, v: Tensor) -> Tensor:
        """The logits of transformed inputs, `(S, B, K)`, at most `largest` of them at a time."""
        if self.largest is None or x.shape[0] * len(v) <= self.largest:
            return self._some(x, v)
        rows = min(x.shape[0], self.largest)
        count = max(1, self.largest // rows)
        done = []
        for part, points in zip(x.split(rows), v.split(rows, 1), strict=True):
            done.append(torch.cat([self._some(part, some) for some in points.split(count)]))
        return torch.cat(done, 1)

    def _unmoved(self, x: Tensor) -> Tensor:
        if self.largest is None or x.shape[0] <= self.largest:
            return self.classify(x)
        return torch.cat([self.classify(part) for part in x.split(self.largest)])

    def _some(self, x: Tensor, v: Tensor) -> Tensor:
        moved = self.transform(x, v)
        return self.classify(moved.flatten(0, 1)).unflatten(0, moved.shape[:2])

    @property
    def _count(self) -> int:
        return self.samples if self.training else self.eval_samples

    def _points(self, q: Distribution, n: int) -> Points:
        return quadrature(q, n, points=self.points, exact=self.exact)

    def _near(self, q: Distribution, distance: float) -> Points:
        """Draws many points, and takes those within the distance; others only where these are too few."""
        many, (low, high) = self._points(q, 15 * self._count), self.transform.bounds
        gap = shortest(many.v - self.transform.origin, self.transform.periodic, (low, high))
        near = (gap / ((high - low) / 2)).norm(dim=-1) < distance
        if enumerates(q, self.exact):
            some = near | ~near.any(0)
            log_weights = many.log_weights.masked_fill(~some, -math.inf)
            return many._replace(log_weights=log_weights - log_weights.logsumexp(0))
        chosen = _preferred(near, self._count)
        log_weights = many.log_weights.gather(0, chosen)
        v = many.v.gather(0, chosen.unsqueeze(-1).expand(-1, -1, many.v.shape[-1]))
        return Points(v, log_weights - log_weights.logsumexp(0), many.log_q.gather(0, chosen))


def _preferred(near: Tensor, n: int) -> Tensor:
    """The n points to take: near ones, evenly from the first to the last, and others likewise if these are too few.

    Points come in order, component after component of a mixture: the first ones would be those of a few components.

    Shape:
        near: `(N, B)` with N > n; result: indices `(n, B)`.
    """
    order, k = (~near).to(torch.uint8).sort(dim=0, stable=True).indices, near.sum(0)
    j = torch.arange(n, device=near.device).unsqueeze(-1)
    enough, rest = (2 * j + 1) * k // (2 * n), (2 * (j - k) + 1) * (len(near) - k) // (2 * (n - k).clamp(min=1))
    return order.gather(0, torch.where(k >= n, enough, torch.where(j < k, j, k + rest)))
