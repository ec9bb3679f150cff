"""Models that use a transform and a conditional."""

from .averaged import Averaged, Prediction, average, logits_of
from .group_tied import GroupTied
from .normalise import Normalise

__all__ = ["Averaged", "GroupTied", "Normalise", "Prediction", "average", "logits_of"]
