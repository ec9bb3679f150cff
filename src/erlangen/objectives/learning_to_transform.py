r"""Learning to Transform: the cross-entropy of transformed inputs, and a price on the entropy of the distribution."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ..distributions import Density, EntropyController, FixedEntropyWeight, Points
from ..models import Averaged, Prediction
from .base import AveragedObjective, check_spread, over_processes

__all__ = ["EntropyWeight", "LearningToTransform", "entropy_of", "entropy_price", "entropy_weight"]

EntropyWeight: TypeAlias = FixedEntropyWeight | EntropyController


def entropy_of(points: Points | Prediction) -> Tensor:
    """The mean entropy of a batch from the points that stand for its distribution, `()`.

    If the distribution of a prediction is over finitely many points, all of these are taken instead.
    """
    if isinstance(points, Prediction) and isinstance(points.q, Density) and points.q.has_enumerate_support:
        points = points.q.enumerated()  # a finite sum need not be sampled
    log_q = torch.where(points.log_q == -math.inf, 0.0, points.log_q)  # p log p is 0 where p is
    return -(points.log_weights.exp() * log_q).sum(0).mean()


def entropy_price(points: Points | Prediction, weight: EntropyWeight) -> tuple[Tensor, dict[str, Tensor]]:
    r"""$\alpha \, \mathbb{E}_{v \sim q} \log q(v \mid I)$, minus the weighted entropy (LTT equation 18).

    Args:
        points: what stands for the distribution, with log-weights and log-densities `(S, B)`, see `entropy_of`.
        weight: gives $\alpha$.

    Returns:
        What is added to the loss, and what of it is logged.
    """
    entropy = entropy_of(points)
    alpha = weight(over_processes(entropy))
    return -alpha * entropy, {"entropy": entropy, "alpha": alpha}


def entropy_weight(alpha: object) -> EntropyWeight:
    """What gives the weight of an entropy: always the same one, if it is a number."""
    if isinstance(alpha, nn.Module):
        return alpha  # pyright: ignore[reportReturnType]
    number = alpha.item() if isinstance(alpha, Tensor) and alpha.ndim == 0 else alpha
    return FixedEntropyWeight(number)  # pyright: ignore[reportArgumentType]


class LearningToTransform(AveragedObjective):
    r"""The cross-entropy of samples, minus the entropy of their distribution times its weight (LTT equations 10, 18).

    $$\mathcal{L} = \mathbb{E}_{v \sim q} \bigl[-\log f(C; \mathcal{A}_v I) + \alpha \log q(v \mid I)\bigr]$$

    Both expectations use the same points.

    Args:
        averaged: the model; its conditional has a density.
        alpha: the weight of the entropy: a number, or an object that gives it (`EntropyController`).
        **kwargs: burn_in, original, together and equivariance, see `AveragedObjective`. With `together` and
            `space="logit"` the loss is that of the published code.
    """

    def __init__(self, averaged: Averaged, alpha: float | EntropyWeight = 0.1, **kwargs: Any) -> None:
        super().__init__(averaged, **kwargs)
        self.weight = entropy_weight(alpha)

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """Minus the weighted entropy."""
        check_spread(prediction.q)
        return entropy_price(prediction, self.weight)
