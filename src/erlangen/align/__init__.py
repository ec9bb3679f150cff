"""Moving inputs to where they belong."""

from .congeal import Congealed, congeal
from .mean_shift import Alignment, mean_shift

__all__ = ["Alignment", "Congealed", "congeal", "mean_shift"]
