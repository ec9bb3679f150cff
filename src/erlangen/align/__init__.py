"""Moving inputs to where they belong."""

from .mean_shift import Alignment, mean_shift

__all__ = ["Alignment", "mean_shift"]
