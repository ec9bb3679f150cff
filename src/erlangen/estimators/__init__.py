"""From data to a trained model in one call, and back from the folder that it leaves."""

from .config import RunConfig
from .coordinates import build_transform, resolve_ranges
from .runs import Run, load_run
from .setting import Setting, prepare
from .symmetry import Symmetries, SymmetryFinder
from .training import fit_run, train_run

__all__ = [
    "Run",
    "RunConfig",
    "Setting",
    "Symmetries",
    "SymmetryFinder",
    "build_transform",
    "fit_run",
    "load_run",
    "prepare",
    "resolve_ranges",
    "train_run",
]
