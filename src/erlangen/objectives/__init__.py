"""What trains a model, one small file per paper."""

from .augerino import Augerino
from .base import AveragedObjective, Objective
from .equivariance import Equivariance
from .fixed import HandMade, Plain
from .instaaug import EntropyBand, InstaAug
from .invariance import REGULARISERS, InvarianceController, InvarianceRegularised
from .learning_to_transform import LearningToTransform
from .methods import METHODS, Method, Terms
from .pstn import PSTN
from .series_alignment import SeriesAlignment, variance_about_mean

__all__ = [
    "METHODS",
    "PSTN",
    "REGULARISERS",
    "Augerino",
    "AveragedObjective",
    "EntropyBand",
    "Equivariance",
    "HandMade",
    "InstaAug",
    "InvarianceController",
    "InvarianceRegularised",
    "LearningToTransform",
    "Method",
    "Objective",
    "Plain",
    "SeriesAlignment",
    "Terms",
    "variance_about_mean",
]
