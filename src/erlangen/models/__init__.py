"""Models that use a transform and a conditional."""

from .averaged import Averaged, Prediction, average, logits_of

__all__ = ["Averaged", "Prediction", "average", "logits_of"]
