r"""What trains a classifier whose distribution of transformations is not learned: the baselines of the tables."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..models import Prediction
from .base import AveragedObjective, labelled

__all__ = ["HandMade", "Plain"]


class HandMade(AveragedObjective):
    r"""Augmentation with a distribution that somebody chose: $\mathbb{E}_v[-\log f(C; \mathcal{A}_v I)]$.

    In evaluation mode it is the cross-entropy of the unmodified inputs. The conditional should be frozen.
    """

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss of views in training, of inputs as they are in evaluation."""
        return super().forward(batch) if self.training else self.plain(*labelled(batch))

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """Nothing is added."""
        return prediction.log_probs.new_zeros(()), {}


class Plain(AveragedObjective):
    """The cross-entropy of inputs as they are: a classifier alone, or one that is averaged only when it is used."""

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss of inputs as they are."""
        return self.plain(*labelled(batch))
