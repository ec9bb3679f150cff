"""Averages of named scalars that stay on the device until they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["Meter"]


class Meter:
    """Weighted means of what an objective returns.

    Adding waits for nothing: two small kernels, however many names there are. Reading waits for the device. Names may
    come and go (a burn-in has fewer), so each set of names has a sum of its own.

    Args:
        shape: of each: `()`, or `(M,)` where M objectives are trained together.
    """

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        self.shape = shape
        self._sums: dict[str, tuple[Tensor, float]] = {}

    def add(self, values: Mapping[str, Tensor], weight: float = 1.0, count: float = 1.0) -> None:
        """Adds scalars; `weight` multiplies them here, `count` is what they weigh in the mean."""
        stacked = torch.stack([value.detach().reshape(self.shape).to(values["loss"]) for value in values.values()])
        key = "\n".join(values)
        total, n = self._sums.get(key, (torch.zeros_like(stacked), 0.0))
        self._sums[key] = torch.add(total, stacked, alpha=weight * count), n + count

    def read(self, reduce: Callable[[Tensor], Tensor] = lambda x: x) -> dict[str, Any]:
        """The means, each a number or as many as there are objectives; `reduce` averages sums over processes."""
        sums: dict[str, Tensor] = {}
        counts: dict[str, float] = {}
        for key, (total, n) in self._sums.items():
            for name, value in zip(key.split("\n"), reduce(total.clone()).cpu().double(), strict=True):
                sums[name] = sums[name] + value if name in sums else value
                counts[name] = counts.get(name, 0.0) + n
        return {name: (sums[name] / counts[name]).tolist() for name in sums}

    def clear(self) -> None:
        """Starts anew."""
        self._sums = {}

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return {key: [total.cpu(), n] for key, (total, n) in self._sums.items()}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Goes on from sums."""
        self._sums = {key: (total.to(device), n) for key, (total, n) in state.items()}
