r"""What the learning rate is multiplied with, step by step.

A schedule is a function of the step alone, so a resumed run needs nothing of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from ..utils.shapes import check_count, check_positive

__all__ = ["Constant", "Cosine", "Schedule", "StepDecay", "WarmupCosine", "Within"]


@dataclass(frozen=True)
class Constant:
    """The same rate always."""

    def __call__(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor of a step, counted from 0, in a run of `steps` steps with `per_epoch` of them to an epoch."""
        return 1.0


@dataclass(frozen=True)
class StepDecay:
    """Multiplied by a factor every so many epochs.

    Examples:
        >>> [StepDecay(every=2, factor=0.1)(step, 60, 10) for step in (0, 19, 20)]
        [1.0, 1.0, 0.1]
    """

    every: int = 10
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_count("every", self.every)
        check_positive("factor", self.factor)

    def __call__(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor of a step."""
        return self.factor ** (step // (self.every * per_epoch))


@dataclass(frozen=True)
class Cosine:
    r"""Half a cosine, $r + (1 - r)(1 + \cos \pi t) / 2$ with t the share of the run that is done.

    Attributes:
        final: r, the factor at the end.
    """

    final: float = 0.0

    def __post_init__(self) -> None:
        _check_share("final", self.final)

    def __call__(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor of a step."""
        return self.final + (1 - self.final) * (1 + math.cos(math.pi * step / max(steps, 1))) / 2


@dataclass(frozen=True)
class WarmupCosine:
    """A straight line up, then half a cosine down.

    Attributes:
        warmup: the number of steps of the line, the last of which has the full rate.
        final: the factor at the end.
    """

    warmup: int = 100
    final: float = 0.0

    def __post_init__(self) -> None:
        check_count("warmup", self.warmup)
        _check_share("final", self.final)

    def __call__(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor of a step."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return Cosine(self.final)(step - self.warmup, steps - self.warmup, per_epoch)


@dataclass(frozen=True)
class Within:
    """A schedule of a part of a run, as if that part were the run; no steps are taken before and after it.

    Attributes:
        schedule: of the part.
        start: its first step.
        length: how many steps it has.
    """

    schedule: Constant | StepDecay | Cosine | WarmupCosine
    start: int
    length: int

    def __post_init__(self) -> None:
        check_count("length", self.length)
        if self.start < 0:
            raise ValueError(f"start: received {self.start}; accepted is a step >= 0")

    def __call__(self, step: int, steps: int, per_epoch: int) -> float:
        """The factor of a step."""
        inside = 0 <= step - self.start < self.length
        return self.schedule(step - self.start, self.length, per_epoch) if inside else 0.0


Schedule: TypeAlias = Constant | StepDecay | Cosine | WarmupCosine | Within


def _check_share(name: str, x: float) -> None:
    if not 0 <= x <= 1:
        raise ValueError(f"{name}: received {x!r}; accepted is a share, 0 <= {name} <= 1")
