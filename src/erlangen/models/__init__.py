"""Models that use a transform and a conditional."""

from .averaged import Averaged, Prediction, average, logits_of
from .normalise import Normalise

__all__ = ["Averaged", "Normalise", "Prediction", "average", "logits_of"]
