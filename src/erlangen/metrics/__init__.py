"""Pure functions that measure."""

from .calibration import Divergence, Reliability, brier, ece, ekld, nll, reliability
from .invariance import (
    Controlled,
    ExpectedDivergence,
    consistency,
    controlled,
    distribution_invariance,
    expected_divergence,
    invariance_bound,
    logit_invariance,
    prediction_change,
    shifted_total_variation,
    total_variation,
)
from .likelihood import iwlb
from .localisation import AngleError, angle_error, box_overlap
from .measured import Bootstrap, Measured, measured
from .orbit import Orbit, there_and_back
from .orbits import orbit_spread, wasserstein
from .orientation import (
    arc_masses,
    binned_total_variation,
    central_span,
    circle_histogram,
    distance_to_rotation,
    half_range,
    occupied_arcs,
    occupied_mass,
    pairwise_gap,
    rotation_angle,
    share_within,
)
from .saliency import Saliency, integrated_gradients, saliency_map, saliency_similarity
from .scores import Scores, scores
from .sharpness import detail, sharpness
from .significance import two_sample_t
from .spectral import jacobian_norm

__all__ = [
    "AngleError",
    "Bootstrap",
    "Controlled",
    "Divergence",
    "ExpectedDivergence",
    "Measured",
    "Orbit",
    "Reliability",
    "Saliency",
    "Scores",
    "angle_error",
    "arc_masses",
    "binned_total_variation",
    "box_overlap",
    "brier",
    "central_span",
    "circle_histogram",
    "consistency",
    "controlled",
    "detail",
    "distance_to_rotation",
    "distribution_invariance",
    "ece",
    "ekld",
    "expected_divergence",
    "half_range",
    "integrated_gradients",
    "invariance_bound",
    "iwlb",
    "jacobian_norm",
    "logit_invariance",
    "measured",
    "nll",
    "occupied_arcs",
    "occupied_mass",
    "orbit_spread",
    "pairwise_gap",
    "prediction_change",
    "reliability",
    "rotation_angle",
    "saliency_map",
    "saliency_similarity",
    "scores",
    "share_within",
    "sharpness",
    "shifted_total_variation",
    "there_and_back",
    "total_variation",
    "two_sample_t",
    "wasserstein",
]
