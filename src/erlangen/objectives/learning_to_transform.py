r"""Learning to Transform: the cross-entropy of transformed inputs, and a price on the entropy of the distribution."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..distributions import EntropyController, FixedEntropyWeight
from ..models import Averaged, Prediction
from .base import AveragedObjective, over_processes

__all__ = ["LearningToTransform"]


class LearningToTransform(AveragedObjective):
    r"""The cross-entropy of samples, minus the entropy of their distribution times its weight (LTT equations 10, 18).

    $$\mathcal{L} = \mathbb{E}_{v \sim q} \bigl[-\log f(C; \mathcal{A}_v I) + \alpha \log q(v \mid I)\bigr]$$

    Both expectations use the same points.

    Args:
        averaged: the model; its conditional has a density.
        alpha: the weight of the entropy: a number, or an object that gives it (`EntropyController`).
        **kwargs: burn_in, original and together, see `AveragedObjective`. With `together` and `space="logit"` the loss
            is that of the published code.
    """

    def __init__(
        self, averaged: Averaged, alpha: float | FixedEntropyWeight | EntropyController = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(averaged, **kwargs)
        self.weight = FixedEntropyWeight(alpha) if isinstance(alpha, int | float) else alpha

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """Minus the weighted entropy."""
        entropy = -(prediction.log_weights.exp() * prediction.log_q).sum(0).mean()
        alpha = self.weight(over_processes(entropy))
        return -alpha * entropy, {"entropy": entropy, "alpha": alpha}
