"""Models that use a transform and a conditional."""

from .anchored import Anchored
from .averaged import Averaged, Prediction, average, logits_of
from .group_tied import GroupTied
from .normalise import Mirror, Normalise
from .symmetry import Marginals, SymmetryModel
from .voted import Voted

__all__ = [
    "Anchored",
    "Averaged",
    "GroupTied",
    "Marginals",
    "Mirror",
    "Normalise",
    "Prediction",
    "SymmetryModel",
    "Voted",
    "average",
    "logits_of",
]
