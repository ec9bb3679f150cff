"""What trains a model, one small file per paper."""

from .augerino import Augerino
from .base import AveragedObjective, Objective
from .elbo import Elbo
from .equivariance import Equivariance
from .fixed import HandMade, Plain
from .instaaug import EntropyBand, InstaAug
from .invariance import REGULARISERS, InvarianceController, InvarianceRegularised
from .learning_to_transform import LearningToTransform
from .marginal_likelihood import MarginalLikelihood
from .methods import METHODS, Method, Terms
from .pose import PoseLikelihood
from .prototypes import Blur, PrototypeInference
from .pstn import PSTN
from .series_alignment import SeriesAlignment, variance_about_mean
from .similarity import SimilarityController, watch_similarity
from .symmetry import KnownPoses, TransformLikelihood, TwoStages

__all__ = [
    "METHODS",
    "PSTN",
    "REGULARISERS",
    "Augerino",
    "AveragedObjective",
    "Blur",
    "Elbo",
    "EntropyBand",
    "Equivariance",
    "HandMade",
    "InstaAug",
    "InvarianceController",
    "InvarianceRegularised",
    "KnownPoses",
    "LearningToTransform",
    "MarginalLikelihood",
    "Method",
    "Objective",
    "Plain",
    "PoseLikelihood",
    "PrototypeInference",
    "SeriesAlignment",
    "SimilarityController",
    "Terms",
    "TransformLikelihood",
    "TwoStages",
    "variance_about_mean",
    "watch_similarity",
]
