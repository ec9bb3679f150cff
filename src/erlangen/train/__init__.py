"""Training any objective: schedules, several processes, checkpoints that survive a crash, and a collapse alarm."""

from .alarm import Alarm, Diverged
from .checkpoint import Checkpoints, Unreadable
from .config import Config, Optimiser
from .fit import fit
from .history import History
from .loader import Loader, TensorLoader
from .many import fit_many
from .noise import GlobalNoise
from .schedule import Constant, Cosine, Schedule, StepDecay, WarmupCosine

__all__ = [
    "Alarm",
    "Checkpoints",
    "Config",
    "Constant",
    "Cosine",
    "Diverged",
    "GlobalNoise",
    "History",
    "Loader",
    "Optimiser",
    "Schedule",
    "StepDecay",
    "TensorLoader",
    "Unreadable",
    "WarmupCosine",
    "fit",
    "fit_many",
]
