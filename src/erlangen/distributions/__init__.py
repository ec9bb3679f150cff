"""Which transformations, for this input: every family of distributions that the papers and their baselines use."""

from .base import Bounded, Conditional, check_over
from .categorical import Categorical, crop_table
from .density import Density, Points, mean_of
from .entropy import EntropyController, FixedEntropyWeight
from .gaussian import Dirac, Gaussian
from .joint import Joint
from .mixture import Mixture
from .presets import PRESETS, preset
from .quadrature import enumerates, quadrature
from .realnvp import RealNVP
from .spline import SplineFlow
from .student import StudentT
from .uniform import GlobalUniform, MeanFieldUniform

__all__ = [
    "PRESETS",
    "Bounded",
    "Categorical",
    "Conditional",
    "Density",
    "Dirac",
    "EntropyController",
    "FixedEntropyWeight",
    "Gaussian",
    "GlobalUniform",
    "Joint",
    "MeanFieldUniform",
    "Mixture",
    "Points",
    "RealNVP",
    "SplineFlow",
    "StudentT",
    "check_over",
    "crop_table",
    "enumerates",
    "mean_of",
    "preset",
    "quadrature",
]
