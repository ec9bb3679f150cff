"""Moving inputs to where they belong."""

from .congeal import Congealed, congeal
from .mean_shift import Alignment, calibrate_gate, mean_shift

__all__ = ["Alignment", "Congealed", "calibrate_gate", "congeal", "mean_shift"]
