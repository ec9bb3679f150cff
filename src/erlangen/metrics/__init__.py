"""Pure functions that measure."""

from .invariance import invariance_bound, prediction_change, shifted_total_variation, total_variation

__all__ = ["invariance_bound", "prediction_change", "shifted_total_variation", "total_variation"]
