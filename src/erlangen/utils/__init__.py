"""What every layer needs: shape errors, seeds, and rows on disk with their provenance."""

from . import io, seeds, shapes

__all__ = ["io", "seeds", "shapes"]
