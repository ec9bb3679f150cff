"""What a run knows of an objective that it trains: its rows, its alarm and its best weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .alarm import Watch
from .config import Config
from .history import History, Log
from .judge import Judge

__all__ = ["Member"]


class Member:
    """The record of an objective. A run of `fit` has one, a run of `fit_many` several.

    Args:
        config: how it is trained.
        log: where its rows go; nowhere if None.
    """

    def __init__(self, config: Config, log: Path | None) -> None:
        self.history, self.log = History(), Log(log)
        self.watch, self.judge = Watch(config.alarm), Judge(config)
        self.good = 0  # the last step at which a finite loss was seen

    @property
    def goes_on(self) -> bool:
        """Whether there is more to come."""
        return self.history.stopped is None

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """Adds a row to the history and the log."""
        self.history.rows.append(row)
        self.log.add(self.history.rows)
        return row

    def fine(self, step: int, loss: float) -> bool:
        """Whether a loss is finite, which is remembered."""
        if fine := math.isfinite(loss):
            self.good = step
        return fine

    def state_dict(self) -> dict[str, Any]:
        """What the alarm and the judge have seen, to go on from; the best weights are kept apart."""
        return {"stopped": self.history.stopped, "watch": self.watch.state_dict(), "judge": self.judge.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any], best: Mapping[str, Tensor], device: torch.device) -> None:
        """Goes on from what was seen."""
        self.watch.load_state_dict(state["watch"])
        self.judge.load_state_dict(state["judge"], best, device)
        self.history.best = self.judge.row
        # A run that finished may be made longer; one that ran out of patience stays stopped.
        self.history.stopped = None if state["stopped"] == "finished" else state["stopped"]
