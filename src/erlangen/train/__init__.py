"""Training any objective: schedules, several processes, checkpoints that survive a crash, and a collapse alarm."""

from .alarm import Alarm, Collapsed, Diverged
from .checkpoint import Checkpoints, Unreadable
from .config import Config, Optimiser
from .fit import fit
from .history import History, read_log
from .loader import Loader, TensorLoader
from .many import fit_many
from .noise import GlobalNoise
from .schedule import Constant, Cosine, Schedule, StepDecay, WarmupCosine, Within
from .symmetry import Inferred, fit_symmetry, set_aside

__all__ = [
    "Alarm",
    "Checkpoints",
    "Collapsed",
    "Config",
    "Constant",
    "Cosine",
    "Diverged",
    "GlobalNoise",
    "History",
    "Inferred",
    "Loader",
    "Optimiser",
    "Schedule",
    "StepDecay",
    "TensorLoader",
    "Unreadable",
    "WarmupCosine",
    "Within",
    "fit",
    "fit_many",
    "fit_symmetry",
    "read_log",
    "set_aside",
]
