r"""How good the predictions of a model are for inputs, or for transformed copies of them, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..transforms import FiniteGroup
from ..transforms.warp import as_signal
from ..utils.shapes import check_count
from .calibration import bin_of, squared_error
from .measured import BOOTSTRAP, Bootstrap, Measured, measured, resampled
from .orbit import Orbit, as_orbit
from .outputs import (
    Model,
    are_probabilities,
    check_data,
    check_labels,
    check_logits,
    check_several,
    classify_copies,
    measuring,
)

__all__ = ["Scores", "bin_gaps", "calibration_error", "scores"]

BINS = 15


class Scores(NamedTuple):
    r"""How good predictions are.

    Attributes:
        accuracy: how many are right, as a share.
        nll: $-\log p(y \mid x)$, see `nll`.
        brier: $\sum_k (p(k \mid x) - [k = y])^2$, see `brier`.
        ece: the expected calibration error, see `ece` and `calibration_error`.
    """

    accuracy: Measured
    nll: Measured
    brier: Measured
    ece: Measured


@torch.no_grad()
def scores(
    model: Model,
    x: Tensor,
    orbit: Orbit | FiniteGroup | None = None,
    *,
    y: Tensor,
    bins: int = BINS,
    batch_size: int = 256,
    bootstrap: Bootstrap = BOOTSTRAP,
    seed: int = 0,
) -> Scores:
    """Accuracy, likelihood, Brier score and calibration of a model, for inputs or for transformed copies of them.

    The value of an input is the mean over its copies, and the bootstrap draws inputs, with all their copies.

    Args:
        model: any callable from inputs to logits `(B, K)` of two classes or more; a module is in evaluation mode while
            it is measured.
        x: inputs, before normalisation, which belongs into the model.
        orbit: which copies are asked about; a finite group for all its elements but the identity; None for the inputs
            as they are.
        y: the classes of the inputs.
        bins: of the calibration error.
        batch_size: the greatest number of inputs or copies that the model sees at a time.
        bootstrap: how the confidence intervals are made.
        seed: of whatever is random in the model, if there is no orbit; an orbit has its own seed.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; y: `(B,)`.

    Example:
        >>> x, y = torch.tensor([0.2, 0.6]).view(2, 1, 1, 1), torch.tensor([0, 0])
        >>> found = scores(lambda x: torch.cat((1 - x, x), 1).flatten(1).log(), x, y=y)
        >>> found.accuracy.mean, found.ece.classes
        (tensor(0.5000), tensor([0.4000,    nan]))
    """
    check_data(x, None)
    y = check_labels("y", y, len(x)).to(x.device)
    orbit = None if orbit is None else as_orbit(orbit)
    found, classes, probable = [], 1, True
    with measuring(seed if orbit is None else orbit.seed, model, None if orbit is None else orbit.law):
        for rows, parts in _copies(x, orbit, batch_size):
            logits = torch.cat([check_several(classify_copies(model, part)) for part in parts])
            classes, probable = logits.shape[-1], probable and are_probabilities(logits)
            labels = check_labels("y", y[rows], rows.stop - rows.start, classes)
            found.append(_each(logits.log_softmax(-1), labels.to(logits.device), bins))
    check_logits(probable)
    *each, gaps = (torch.cat(parts) for parts in zip(*found, strict=True))
    accuracy, nll, brier = (measured(part, y, classes=classes, bootstrap=bootstrap) for part in each)
    return Scores(accuracy, nll, brier, calibration_error(gaps, y, classes=classes, bootstrap=bootstrap))


def _copies(x: Tensor, orbit: Orbit | None, batch_size: int) -> Iterator[tuple[slice, Iterator[Tensor]]]:
    """Which inputs, and parts of their copies, `(S', b, ...)` each; without an orbit the inputs themselves."""
    if orbit is not None:
        for rows, inputs, elements in orbit.batches(x, batch_size):
            yield rows, (orbit.act(g, inputs) for g in elements)
        return
    for start in range(0, len(x), check_count("batch_size", batch_size)):
        rows = slice(start, min(start + batch_size, len(x)))
        yield rows, iter([as_signal(x[rows], "bilinear").unsqueeze(0)])


def _each(log_probs: Tensor, y: Tensor, bins: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The accuracy, the negative log-likelihood and the Brier score of inputs, `(b,)` each, and their `bin_gaps`."""
    own = y.expand(len(log_probs), -1).unsqueeze(-1)
    right = (log_probs.argmax(-1) == y).to(log_probs.dtype)
    values = (right, -log_probs.gather(-1, own).squeeze(-1), squared_error(log_probs, y))
    right, nll, brier = (value.mean(0) for value in values)
    return right, nll, brier, bin_gaps(log_probs, y, bins)


def bin_gaps(log_probs: Tensor, y: Tensor, bins: int = BINS) -> Tensor:
    """Whether a prediction is right, less its confidence, in its bin of `reliability`, as a mean over copies.

    Shape:
        log_probs: of copies of inputs, `(S, B, K)`; y: `(B,)`; result: `(B, bins)`.
    """
    confidence, label = log_probs.exp().max(-1)
    gap = (label == y).to(confidence.dtype) - confidence
    place = bin_of(confidence, bins)
    return gap.new_zeros(*gap.shape, bins).scatter(-1, place.unsqueeze(-1), gap.unsqueeze(-1)).mean(0)


def calibration_error(gaps: Tensor, y: Tensor, *, classes: int, bootstrap: Bootstrap = BOOTSTRAP) -> Measured:
    r"""The expected calibration error of all inputs, and of those of each class, with an interval by bootstrap.

    The error of a resample is too large (its bins are noisier), so the interval is the reflected one,
    $2 \hat e - e^*$, and within 0 and 1. The value of an input is what it adds to the error, for which the gap of its
    bin decides the sign; the error of a class is that of its inputs alone, not the mean of these values.

    Shape:
        gaps: see `bin_gaps`, `(B, bins)`; y: `(B,)`.
    """
    device, gaps, y = gaps.device, gaps.cpu(), y.cpu()
    whole, n, errors = gaps.mean(0), len(gaps), []
    for index in resampled(n, bootstrap):
        counts = gaps.new_zeros(index.shape).scatter_add(1, index, gaps.new_ones(index.shape))
        errors.append((counts @ gaps / n).abs().sum(-1))
    ends = torch.tensor([(1 + bootstrap.level) / 2, (1 - bootstrap.level) / 2], dtype=gaps.dtype)
    error = whole.abs().sum()
    interval = (2 * error - torch.cat(errors).quantile(ends)).clamp(0, 1)
    sums = gaps.new_zeros(classes, gaps.shape[1]).index_add(0, y, gaps)
    of_classes = sums.abs().sum(1) / torch.bincount(y, minlength=classes)
    return Measured(*(found.to(device) for found in (error, interval, of_classes, gaps @ whole.sign())))
