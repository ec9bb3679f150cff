"""From data to a trained model in one call, and back from the folder that it leaves; estimators of series."""

from typing import TYPE_CHECKING, Any

from .config import RunConfig
from .coordinates import build_transform, resolve_ranges
from .runs import Run, load_run
from .setting import Setting, prepare
from .symmetry_report import Symmetries
from .training import fit_run, train_run

if TYPE_CHECKING:
    from .series_aligner import SeriesAligner
    from .symmetry import SymmetryFinder
    from .time_warp import TimeWarpClassifier

__all__ = [
    "Run",
    "RunConfig",
    "SeriesAligner",
    "Setting",
    "Symmetries",
    "SymmetryFinder",
    "TimeWarpClassifier",
    "build_transform",
    "fit_run",
    "load_run",
    "prepare",
    "resolve_ranges",
    "train_run",
]

# Imported when they are first used, for scikit-learn takes as long to import as all the rest.
LATER = {"SeriesAligner": "series_aligner", "SymmetryFinder": "symmetry", "TimeWarpClassifier": "time_warp"}


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{LATER[name]}", __name__), name)
