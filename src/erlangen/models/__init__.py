"""Models that use a transform and a conditional."""

from .averaged import Averaged, Prediction, average, logits_of
from .group_tied import GroupTied
from .localisation import Localisation, localisation
from .normalise import Mirror, Normalise

__all__ = [
    "Averaged",
    "GroupTied",
    "Localisation",
    "Mirror",
    "Normalise",
    "Prediction",
    "average",
    "localisation",
    "logits_of",
]
