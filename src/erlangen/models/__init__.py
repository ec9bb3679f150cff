"""Models that use a transform and a conditional."""

from .averaged import Averaged, Prediction, average, logits_of
from .group_tied import GroupTied
from .normalise import Mirror, Normalise

__all__ = ["Averaged", "GroupTied", "Mirror", "Normalise", "Prediction", "average", "logits_of"]
