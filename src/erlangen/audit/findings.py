r"""What stands out in an audit: classes that turn into each other, inputs that move most, and a model that is blind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .ladder import Step
from .measuring import Outcome

__all__ = ["Blindness", "Pair", "Worst", "are_log_probabilities", "are_sigmoids", "blindness", "pairs", "worst"]

BLIND = 0.1  # the share of the labels' information below which predictions say next to nothing of the input
SHARE = 0.1  # the share of both classes that has to turn into the other
LEAST = 2  # images of either class that have to, at least
MOST = 10  # pairs of classes, and inputs, that are listed
VARIES = 0.1  # outputs that differ by more between inputs say something, unlike the logits of a blind model


@dataclass(frozen=True)
class Pair:
    """Two classes that turn into each other: under what, and which share of the copies of either becomes the other."""

    first: int
    second: int
    transform: str
    label: str
    there: float
    back: float


@dataclass(frozen=True)
class Worst:
    """An input whose prediction moves far: which, under what copy of which step, from what to what, and its place."""

    index: int
    step: int
    copy: int
    moved: float
    before: int
    after: int
    place: str = ""


@dataclass(frozen=True)
class Blindness:
    r"""Whether a model is invariant because it hardly looks.

    Attributes:
        information: $H(\frac1B \sum_x p(\cdot \mid x)) - \frac1B \sum_x H(p(\cdot \mid x))$, what predictions say of
            the input, in nats.
        labels: $H(y)$, what there is to say.
        spread: $\frac12 \mathbb{E} \lVert f(x) - f(x') \rVert_2^2$ over pairs of different inputs: the logit invariance
            error of something that replaces an image by another.
        sensitivity: the mean of $\sigma_{\max}(\partial f / \partial x)$ (Moskalev et al., section 4.4); None without
            gradients.
        blind: whether the information is less than a tenth of that of the labels; None with one class, and of outputs
            that are no logits.
    """

    information: float
    labels: float
    spread: float
    sensitivity: float | None
    blind: bool | None


def blindness(logits: Tensor, y: Tensor, sensitivity: float | None) -> Blindness:
    """How blind a model is, from its predictions for inputs as they are.

    A model can lower its invariance error by lowering its sensitivity to everything: by answering the same to all
    inputs, or by logits so small that no prediction says much. Neither is an invariance worth having.

    Shape:
        logits: `(B, K)`; y: `(B,)`.
    """
    p = logits.double().softmax(-1)
    counts = torch.bincount(y, minlength=p.shape[1]).double()
    information = float(_entropy(p.mean(0)) - _entropy(p).mean())
    labels = float(_entropy(counts / counts.sum()))
    spread = float(logits.double().var(0).sum()) if len(logits) > 1 else 0.0
    blind = information < BLIND * labels if labels > 0 and not are_sigmoids(logits) else None
    return Blindness(max(information, 0.0), labels, spread, sensitivity, blind)


def are_sigmoids(logits: Tensor) -> bool:
    """Whether what should be logits, `(B, K)`, looks like sigmoids, whose softmax is nearly even whatever they say."""
    within = bool(((logits >= 0) & (logits <= 1)).all())
    return within and bool((logits.amax(0) - logits.amin(0)).max() > VARIES)


def are_log_probabilities(logits: Tensor) -> bool:
    """Whether logits, `(B, K)`, are normalised, as those of a log-softmax."""
    total = logits.logsumexp(-1)
    return torch.allclose(total, torch.zeros_like(total), atol=1e-2)  # loose, for those in half precision


def _entropy(p: Tensor) -> Tensor:
    return torch.special.entr(p).sum(-1)


def pairs(steps: Sequence[Step], outcomes: Sequence[Outcome], y: Tensor, logits: Tensor) -> list[Pair]:
    """Pairs of classes that turn into each other, each under the step where the smaller of both shares is greatest.

    Only inputs that are classified correctly as they are count: the others are confused without any transformation.

    Shape:
        y: `(B,)`; logits: `(B, K)`.
    """
    classes, right = logits.shape[1], logits.argmax(-1) == y
    count = torch.bincount(y[right], minlength=classes).double().to(y.device)
    best: dict[tuple[int, int], Pair] = {}
    for step, found in zip(steps, outcomes, strict=True):
        place = (y[right] * classes + found.predicted[:, right]).flatten()
        table = torch.bincount(place, minlength=classes**2).double().view(classes, classes) / len(found.predicted)
        share = table / count.clamp_min(1).unsqueeze(1)
        both = torch.minimum(share, share.T) * (torch.minimum(table, table.T) >= LEAST)
        for a, b in (both.triu(1) >= SHARE).nonzero().tolist():
            pair = Pair(a, b, step.transform, step.label, float(share[a, b]), float(share[b, a]))
            old = best.get((a, b))
            if old is None or min(pair.there, pair.back) > min(old.there, old.back):
                best[a, b] = pair
    return sorted(best.values(), key=lambda pair: -min(pair.there, pair.back))[:MOST]


def worst(steps: Sequence[Step], outcomes: Sequence[Outcome], y: Tensor, logits: Tensor) -> list[Worst]:
    """The inputs whose prediction moves most under the mildest step of each transformation, these in turn.

    Mild, because there nobody doubts that the picture shows the same; in turn, because otherwise one transformation
    would be all of them. Inputs that go from right to wrong come first.

    Shape:
        y: `(B,)`; logits: `(B, K)`.
    """
    mild = [k for k, step in enumerate(steps) if step.transform not in {s.transform for s in steps[:k]}]
    before = logits.argmax(-1)
    turned = {k: (before == y) & (outcomes[k].predicted != y) for k in mild}
    # A prediction that turns wrong is worse than any that only wavers.
    scores = {k: (outcomes[k].moved.double() + 1e6 * turned[k]).cpu().max(0) for k in mild}
    queues = {k: scores[k].values.argsort(descending=True).tolist() for k in mild}
    found: dict[int, int] = {}
    count = min(MOST, len(y))
    while len(found) < count:
        for k in mild[: count - len(found)]:
            found[next(i for i in queues[k] if i not in found)] = k
    listed = []
    for i in sorted(found, key=lambda i: -float(scores[found[i]].values[i])):
        step, result = found[i], outcomes[found[i]]
        copy = int(scores[step].indices[i])
        moved, after = float(result.moved[copy, i]), int(result.predicted[copy, i])
        listed.append(Worst(i, step, copy, moved, int(before[i]), after))
    return listed
