"""Pure functions that measure."""

from .calibration import Divergence, ece, ekld, nll
from .invariance import invariance_bound, prediction_change, shifted_total_variation, total_variation
from .orientation import (
    arc_masses,
    binned_total_variation,
    central_span,
    circle_histogram,
    distance_to_rotation,
    half_range,
    pairwise_gap,
    share_within,
)
from .sharpness import detail, sharpness

__all__ = [
    "Divergence",
    "arc_masses",
    "binned_total_variation",
    "central_span",
    "circle_histogram",
    "detail",
    "distance_to_rotation",
    "ece",
    "ekld",
    "half_range",
    "invariance_bound",
    "nll",
    "pairwise_gap",
    "prediction_change",
    "share_within",
    "sharpness",
    "shifted_total_variation",
    "total_variation",
]
