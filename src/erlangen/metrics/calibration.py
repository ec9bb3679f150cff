r"""How good predicted probabilities are, and how far they move when the input is transformed."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..utils.shapes import check_count, check_same, check_tensor, check_true, compute_dtype
from .measured import class_means
from .outputs import check_labels

__all__ = [
    "Divergence",
    "Reliability",
    "bin_of",
    "brier",
    "check_normalised",
    "ece",
    "ekld",
    "kl",
    "nll",
    "reliability",
    "squared_error",
]

LOOSE = 0.1  # how far the logarithm of a sum of probabilities may be from 0, in half precision and over many classes


class Divergence(NamedTuple):
    r"""Expected divergences of each class, `(K,)` each; NaN for a class without inputs.

    Attributes:
        forward: $\mathbb{E}\, \mathrm{KL}[p(\cdot \mid x) \,\|\, p(\cdot \mid Tx)]$.
        backward: $\mathbb{E}\, \mathrm{KL}[p(\cdot \mid Tx) \,\|\, p(\cdot \mid x)]$.
    """

    forward: Tensor
    backward: Tensor


class Reliability(NamedTuple):
    """A reliability curve, `(bins,)` each; NaN where a bin has no inputs.

    Attributes:
        confidence: the mean of the greatest probability that inputs are given.
        accuracy: how many of them are right, as a share.
        share: how many there are, as a share of all.
    """

    confidence: Tensor
    accuracy: Tensor
    share: Tensor


def nll(log_probs: Tensor, y: Tensor) -> Tensor:
    r"""The mean of $-\log p(y \mid x)$.

    Shape:
        log_probs: `(B, K)`; y: `(B,)`; result: `()`.
    """
    return F.nll_loss(*_predictions(log_probs, y))


def brier(log_probs: Tensor, y: Tensor) -> Tensor:
    r"""The mean of $\sum_k (p(k \mid x) - [k = y])^2$: 0 for a sure and right prediction, 2 for a sure and wrong one.

    This is Brier's own score, over all classes; some libraries halve it, or divide it by the number of classes.

    Shape:
        log_probs: `(B, K)`; y: `(B,)`; result: `()`.

    References:
        | G. Brier. Verification of forecasts expressed in terms of probability (1950).
    """
    return squared_error(*_predictions(log_probs, y)).mean()


def squared_error(log_probs: Tensor, y: Tensor) -> Tensor:
    """The Brier score of each prediction.

    Shape:
        log_probs: `(..., B, K)`; y: `(B,)`; result: `(..., B)`.
    """
    truth = F.one_hot(y, log_probs.shape[-1]).to(log_probs.dtype)
    return (log_probs.exp() - truth).square().sum(-1)


def ece(log_probs: Tensor, y: Tensor, bins: int = 15) -> Tensor:
    r"""The expected calibration error, $\sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{confidence}_b|$.

    Inputs are sorted into bins as by `reliability`.

    Shape:
        log_probs: `(B, K)`; y: `(B,)`; result: `()`.

    References:
        | C. Guo, G. Pleiss, Y. Sun, K. Weinberger. On calibration of modern neural networks (2017), equation 3.
    """
    confidence, right, _ = _binned(log_probs, y, bins)
    return (right - confidence).abs().sum() / len(y)


def reliability(log_probs: Tensor, y: Tensor, bins: int = 15) -> Reliability:
    r"""How often predictions are right, against how sure they are: on the diagonal if they are calibrated.

    Inputs are sorted into bins $(\frac{b - 1}{m}, \frac bm]$ by the greatest probability that they are given.

    Shape:
        log_probs: `(B, K)`; y: `(B,)`; result: `(bins,)` each.
    """
    confidence, right, count = _binned(log_probs, y, bins)
    check_true("log_probs", ~confidence.isnan(), "NaN, which is in no bin,", "a probability of every class")
    return Reliability(confidence / count, right / count, count / len(y))


def _binned(log_probs: Tensor, y: Tensor, bins: int) -> Tensor:
    """The sum of confidences, the number of right predictions and that of all, in each bin, `(3, bins)`."""
    log_probs, y = _predictions(log_probs, y)
    confidence, label = log_probs.exp().max(-1)
    place = bin_of(confidence, bins)
    each = torch.stack((confidence, (label == y).to(confidence.dtype), torch.ones_like(confidence)))
    # Bin by bin: one after another, single precision rounds each number of a long sum the same way.
    return torch.stack([torch.where(place == b, each, 0.0).sum(1) for b in range(bins)], 1)


def bin_of(confidence: Tensor, bins: int) -> Tensor:
    r"""Which of the bins $(\frac{b - 1}{m}, \frac bm]$ a probability is in, as `confidence`, from 0 on."""
    return ((confidence * check_count("bins", bins)).ceil().long() - 1).clamp(0, bins - 1)


def ekld(log_probs: Tensor, moved_log_probs: Tensor, y: Tensor) -> Divergence:
    r"""The expected KL divergence of each class between predictions for inputs and for transformed copies of them.

    Differs from the published code of Zhou et al., which pairs an input with the copies of another one of its class.

    Args:
        log_probs: predictions for inputs.
        moved_log_probs: predictions for transformed copies; those at `[:, i]` are of input i.
        y: the classes of the inputs.

    Shape:
        log_probs: `(B, K)`; moved_log_probs: `(S, B, K)`; y: `(B,)`; result: `(K,)` each.

    References:
        | A. Zhou et al. Do deep networks transfer invariances across classes? (2022), equation 1; LTT figure 4.
    """
    log_probs, y = _predictions(log_probs, y)
    same = isinstance(moved_log_probs, Tensor) and moved_log_probs.ndim == 3
    same = same and moved_log_probs.shape[1:] == log_probs.shape and len(moved_log_probs) > 0
    check_tensor("moved_log_probs", moved_log_probs, f"log-probabilities (S, {len(y)}, {log_probs.shape[1]})", same)
    check_normalised("moved_log_probs", moved_log_probs)
    check_same("moved_log_probs", moved_log_probs, "log_probs", log_probs)
    moved_log_probs = moved_log_probs.to(log_probs.dtype)
    pairs = ((log_probs, moved_log_probs), (moved_log_probs, log_probs))
    return Divergence(*(class_means(kl(*pair).mean(0), y, log_probs.shape[1]) for pair in pairs))


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    r"""$\mathrm{KL}[p \,\|\, q] = \sum p \log \frac pq$ over the last dimension.

    It is computed as $\sum p \, (e^d - 1 - d)$ with $d = \log \frac qp$. No term of this is negative, so that terms do
    not cancel where distributions are nearly alike.

    Shape:
        log_p, log_q: normalised log-probabilities, `(..., K)`; result: `(...)`.
    """
    p, q = log_p.exp(), log_q.exp()
    gap = (log_q - log_p).masked_fill(p == 0, 0.0)  # before it is used: its gradient would be NaN, too
    close = gap.abs() < 1
    near = torch.where(close, gap, 0.0)
    each = torch.where(close, p * (near.expm1() - near), q - p - p * gap)  # p e^d may overflow before p is multiplied
    return torch.where(p == 0, q, each).sum(-1)


def check_normalised(name: str, log_probs: Tensor) -> None:
    """Raises a `ValueError` where probabilities do not sum to one: logits would give some number as well."""
    one = ~(log_probs.detach().logsumexp(-1).abs() > LOOSE)
    check_true(name, one, "what does not sum to one, such as logits,", "log-probabilities (see log_softmax)")


def _predictions(log_probs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities, in single precision at least, and labels, checked: half precision cannot count far."""
    ok = isinstance(log_probs, Tensor) and log_probs.ndim == 2 and len(log_probs) > 0
    check_tensor("log_probs", log_probs, "log-probabilities (B, K) of at least one input", ok)
    check_normalised("log_probs", log_probs)
    return log_probs.to(compute_dtype(log_probs)), check_labels("y", y, *log_probs.shape)
