r"""Invariance regularisation: the cross-entropy, and a price on how much logits change under transformations.

Differs from the paper: it writes its errors as sums over inputs and elements, and calls them averages; here they are
means, so that their weight does not depend on the size of the batch or of the group. The identity is an element as the
others are: over a group of n elements an error is (n - 1) / n of its mean over the others. There is no published code.

References:
    | A. Moskalev et al. On genuine invariance learning without weight-tying (2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Distribution

from ..distributions import Conditional, Dirac, EntropyController, FixedEntropyWeight, Points, quadrature
from ..distributions.categorical import CategoricalDensity
from ..metrics.invariance import distribution_error, logit_error
from ..models import logits_of
from ..transforms import FiniteGroup, Transform
from ..transforms.warp import signal_for
from ..utils.shapes import check_count, check_kind, check_positive, check_tensor, compute_dtype, describe
from .base import Objective, accuracy, check_within, groups_of, labelled, over_processes
from .learning_to_transform import EntropyWeight, entropy_price, entropy_weight

__all__ = ["REGULARISERS", "InvarianceController", "InvarianceRegularised"]


def normalised_logit_error(logits: Tensor, moved: Tensor) -> Tensor:
    r"""$\lVert f(x) - f(gx) \rVert_2^2 / \lVert f(x) \rVert_2^2$ (section 4.4), without the half of equation 2.

    Shape:
        logits: f(x), `(B, K)`; moved: f(gx), `(S, B, K)`; result: `(S, B)`.
    """
    tiny = torch.finfo(logits.dtype).tiny
    norm = logits.masked_fill(logits == -math.inf, 0.0).square().sum(-1)  # a class that is ruled out has no size
    return 2 * logit_error(logits, moved) / norm.clamp_min(tiny)


REGULARISERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "logit": logit_error,
    "distribution": distribution_error,
    "normalised": normalised_logit_error,
}


class InvarianceController(nn.Module):
    r"""A weight $\nu$ that brings the logit invariance error of batches to a target.

    It is an `EntropyController` of $-\log LI$: errors are in nats, for the error of a network that is trained falls by
    orders of magnitude. The paper tunes $\nu$ by hand until saliency maps are similar (section 4.1; see
    `SimilarityController`); the logit invariance error is what a step of training measures anyway. Where a network
    stays below the target by itself, the weight falls to its least.

    Args:
        target: the logit invariance error (equation 2, a mean) to reach.
        nu: the weight at the start.
        low: the least weight.
        high: the greatest.
        proportional: by how much $\log \nu$ follows a change of $\log LI$.
        integral: by how much $\log \nu$ grows in a step, per nat that LI is above the target.
        smoothing: the share of the moving average that a step keeps.
    """

    def __init__(
        self,
        target: float,
        *,
        nu: float = 1.0,
        low: float = 1e-4,
        high: float = 1e4,
        proportional: float = 0.1,
        integral: float = 0.01,
        smoothing: float = 0.9,
    ) -> None:
        super().__init__()
        least, start, most = (check_positive(n, v) for n, v in (("low", low), ("nu", nu), ("high", high)))
        if not least <= start <= most:
            raise ValueError(f"nu: received low {low}, nu {nu}, high {high}; accepted is low <= nu <= high")
        gains = {"proportional": proportional, "integral": integral, "smoothing": smoothing}
        goal = -math.log(check_positive("target", target))
        self.control = EntropyController(goal, alpha=start, low=least, high=most, **gains)
        self.target = float(target)

    def extra_repr(self) -> str:
        """The target."""
        return f"target={self.target}"

    def forward(self, error: Tensor) -> Tensor:
        """The weight, after a step of the controller in training mode.

        Shape:
            error: the logit invariance error of a batch, `()`; result: `()`, without gradient.
        """
        check_tensor("error", error, "a tensor, the logit invariance error")
        return self.control(-error.clamp_min(torch.finfo(error.dtype).tiny).log())


class InvarianceRegularised(Objective):
    r"""The cross-entropy of a classifier plus $\nu$ times its invariance error (equation 4).

    $$\min_\theta \; \mathcal{L}_f(\mathcal{D}) + \nu I_f(\mathcal{D}, \mathcal{G})$$

    With augmentation the classifier is trained on $x' = h x$, one random h for each input and step, and the error
    compares $f(x')$ with $f(g x)$: for a group, $g$ runs through it as $g h$ does, and no input is warped twice. The
    gradient goes through both logits. In evaluation mode inputs are not augmented.

    A learned conditional says which transformations f should be invariant to. It is trained with the classifier, with
    optimiser group "conditional", and would learn to do nothing: $\alpha$ times its entropy is subtracted from the
    loss, as in `LearningToTransform`.

    Args:
        model: a classifier, from images or series to logits `(N, K)` (see `logits_of`).
        transform: what is done to inputs.
        distribution: which of it: None for all elements of a `FiniteGroup` alike, a `Distribution` over coordinates
            with event_shape `(d,)` and no batch_shape (its tensors must be on the device of the inputs, and
            `validate_args=False` spares a wait for it), or a `Conditional`.
        nu: the weight of the invariance error, or an `InvarianceController` or `SimilarityController` that finds it.
        regulariser: "logit" (equation 2), "distribution" (equation 1) or "normalised" (section 4.4).
        samples: the number of transformations for each input and step; None for all, where they are finitely many.
        augment: whether training inputs are transformed themselves.
        alpha: the weight of the entropy of a `Conditional`: a number, or an object that gives it (`EntropyController`).
        normalise: applied to inputs after the transformation.
    """

    def __init__(
        self,
        model: nn.Module,
        transform: Transform,
        distribution: Conditional | Distribution | None = None,
        *,
        nu: float | InvarianceController = 1.0,
        regulariser: str = "logit",
        samples: int | None = None,
        augment: bool = True,
        alpha: float | EntropyWeight = 0.1,
        normalise: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        for name, part, kind in (("model", model, nn.Module), ("transform", transform, Transform)):
            check_kind(name, part, kind)
        if regulariser not in REGULARISERS:
            accepted = ", ".join(map(repr, REGULARISERS))
            raise ValueError(f"regulariser: received {regulariser!r}; accepted is one of {accepted}")
        _check_distribution(transform, distribution)
        finite = distribution is None or getattr(distribution, "discrete", False)
        if samples is None and not finite:
            raise ValueError(f"samples: received None for {describe(distribution)}; accepted is an integer > 0")
        self.samples = None if samples is None else check_count("samples", samples)
        self.model, self.transform, self.distribution = model, transform, distribution
        self.regulariser, self.augment, self.normalise = regulariser, augment, normalise
        self.nu = _weight(nu)
        self.weight = entropy_weight(alpha)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The classifier's parameters, and those of a learned conditional."""
        return groups_of(self.model, self.distribution if isinstance(self.distribution, Conditional) else None)

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss and its parts."""
        x, y = labelled(batch)
        x = signal_for(x, self.model, self.transform.bounds)
        q = self.q(x)
        points = self._points(x, q, self.samples)
        first, chosen = self._first(x, q)
        # One pass for all of them, so that batch normalisation treats them alike.
        inputs = torch.cat((first.unsqueeze(0), self.transform(x, points.v)))
        logits = self.classify(inputs.flatten(0, 1)).unflatten(0, inputs.shape[:2])
        logits = logits.to(compute_dtype(logits))  # small differences, which half precision would round once more
        own, moved = logits[0], logits[1:]
        check_within(y, own)
        weights = (points.log_weights + chosen).exp()
        cross_entropy = (chosen.exp() * F.cross_entropy(own, y, reduction="none")).mean()
        error = (weights * REGULARISERS[self.regulariser](own, moved)).sum(0).mean()
        watched = over_processes((weights * logit_error(own, moved)).sum(0).mean())
        nu = self.nu(watched)
        parts = {"cross_entropy": cross_entropy, "accuracy": accuracy(own, y), "invariance": error}
        parts |= {"logit_invariance": watched, "nu": nu}
        loss = cross_entropy + nu * error
        if isinstance(self.distribution, Conditional):
            price, priced = entropy_price(points, self.weight)
            return {"loss": loss + price, **parts, **priced}
        return {"loss": loss, **parts}

    def q(self, x: Tensor) -> Distribution:
        """The distribution of coordinates for each input, with batch_shape `(B,)` and event_shape `(d,)`."""
        if isinstance(self.distribution, Conditional):
            return self.distribution(x)
        if self.distribution is not None:
            return self.distribution.expand(torch.Size([len(x)]))
        group: FiniteGroup = self.transform  # pyright: ignore[reportAssignmentType]
        return CategoricalDensity(x.new_zeros(len(x), len(group)), group.elements().to(x.dtype).unsqueeze(1))

    def classify(self, x: Tensor) -> Tensor:
        """The logits of inputs as they are, `(B, K)`."""
        logits = logits_of(self.model(x if self.normalise is None else self.normalise(x)))
        ok = logits.ndim == 2 and len(logits) == len(x)
        return check_tensor("model", logits, f"a classifier with logits ({len(x)}, K)", ok)

    def _first(self, x: Tensor, q: Distribution) -> tuple[Tensor, Tensor]:
        """The classifier's inputs, moved once in training, and the log-weight of the choice: 0, with a gradient."""
        if not (self.augment and self.training):
            return x, x.new_zeros(len(x))
        one = self._points(x, q, 1)
        return self.transform(x, one.v).squeeze(0), one.log_weights.squeeze(0)

    def _points(self, x: Tensor, q: Distribution, samples: int | None) -> Points:
        """Draws, or all of a finite support if `samples` is None."""
        if isinstance(self.distribution, Distribution) and samples is not None:  # given: no gradient goes to it
            v = q.sample(torch.Size([samples])).to(compute_dtype(x))
            none = v.new_zeros(v.shape[:-1])
            return Points(v, none - math.log(samples), none)
        return quadrature(q, samples or 1, exact=samples is None)


def _check_distribution(transform: Transform, distribution: object) -> None:
    """Raises a `ValueError` unless the distribution is one of coordinates of the transform."""
    d, got = transform.features, describe(distribution)
    accepted = f"a Conditional over {d} coordinates, or a Distribution with event_shape ({d},) and no batch_shape"
    if distribution is None:
        ok, got = isinstance(transform, FiniteGroup), f"None for {type(transform).__name__}"
    elif isinstance(distribution, Conditional):
        ok, got = distribution.features == d, f"a conditional over {distribution.features} coordinates"
    elif isinstance(distribution, Distribution):
        shapes = tuple(distribution.batch_shape), tuple(distribution.event_shape)
        ok = shapes == ((), (d,))
    else:
        ok = False
    if not ok:
        raise ValueError(f"distribution: received {got}; accepted is {accepted} (for a FiniteGroup, also None)")
    if isinstance(distribution, Dirac) and any(p.requires_grad for p in distribution.parameters()):
        got = "a Dirac, which has no entropy to keep it from learning to do nothing"
        raise ValueError(f"distribution: received {got}; accepted is one with a density, or a Dirac that is frozen")


def _weight(nu: object) -> InvarianceController | FixedEntropyWeight:
    """What gives the weight of the invariance error."""
    if isinstance(nu, InvarianceController):
        return nu
    if not isinstance(nu, int | float) or isinstance(nu, bool) or not 0 <= nu < math.inf:
        accepted = "a finite number >= 0, or an InvarianceController"
        raise ValueError(f"nu: received {describe(nu)}; accepted is {accepted}")
    return FixedEntropyWeight(nu)
