"""The papers' tables and figures, one file each, and the rows that they compute."""

from .base import Claim, Experiment, experiment, experiments, find

__all__ = ["Claim", "Experiment", "experiment", "experiments", "find"]
