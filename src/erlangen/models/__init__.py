"""Models that use a transform and a conditional."""

from .anchored import Anchored
from .averaged import Averaged, Prediction, average, logits_of
from .group_tied import GroupTied
from .localisation import Localisation, localisation
from .natural import FromPrototype, Natural
from .normalise import Disc, Mirror, Normalise
from .symmetry import Marginals, SymmetryModel
from .vae import VAE, AugVAE, InvVAE
from .voted import Voted

__all__ = [
    "VAE",
    "Anchored",
    "AugVAE",
    "Averaged",
    "Disc",
    "FromPrototype",
    "GroupTied",
    "InvVAE",
    "Localisation",
    "Marginals",
    "Mirror",
    "Natural",
    "Normalise",
    "Prediction",
    "SymmetryModel",
    "Voted",
    "average",
    "localisation",
    "logits_of",
]
