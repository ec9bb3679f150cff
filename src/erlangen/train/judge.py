"""The best row so far, and when to stop waiting for a better one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from .config import Config

__all__ = ["Judge"]


class Judge:
    """Keeps the best row and, where an early stop is asked for, the weights of that time.

    Args:
        config: what is watched, and for how long.
    """

    def __init__(self, config: Config) -> None:
        self.name, self.patience = config.monitor, config.patience
        self.sign = -1 if config.greater_is_better else 1
        self.row: dict[str, Any] | None = None
        self.waited = 0
        self.weights: dict[str, Tensor] | None = None

    def look(self, row: dict[str, Any], weights: Callable[[], Mapping[str, Tensor]]) -> bool:
        """Whether it is time to stop; the weights are asked for when they are the best so far."""
        if self.name not in row:
            raise ValueError(f"monitor: received {self.name!r}; accepted is one of {sorted(row)}")
        better = self._better(row[self.name])
        self.row = row if better else self.row
        if self.patience is None:
            return False
        self.waited = 0 if better else self.waited + 1
        if better:
            self.weights = {name: value.detach().clone() for name, value in weights().items()}
        return self.waited >= self.patience

    def _better(self, value: float) -> bool:
        """Whether a value is better than the best so far; NaN never is, and anything else is better than NaN."""
        if math.isnan(value):
            return False
        best = math.nan if self.row is None else self.row[self.name]
        return math.isnan(best) or self.sign * value < self.sign * best

    def state_dict(self) -> dict[str, Any]:
        """What the judge has seen, to go on from; the weights are kept apart."""
        return {"row": self.row, "waited": self.waited, "by": [self.name, self.sign]}

    def load_state_dict(self, state: Mapping[str, Any], weights: Mapping[str, Tensor], device: torch.device) -> None:
        """Goes on from what was seen, unless that was judged by another number, or its weights were not kept."""
        own = [self.name, self.sign]
        if state.get("by", own) != own or (self.patience is not None and not weights):
            return
        self.row, self.waited = state["row"], state["waited"]
        self.weights = {name: value.to(device) for name, value in weights.items()} or None
