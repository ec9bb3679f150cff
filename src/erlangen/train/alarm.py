"""When training goes wrong: a sentence, once, that says what happened and what to try."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..utils.shapes import check_count, check_positive
from ..utils.words import percent

__all__ = ["Alarm", "Collapsed", "Diverged", "Watch"]

FALLEN = (
    "the entropy has fallen to {value:.3g} nats by step {step} (it began at {start:.3g}): the distribution has "
    "collapsed to almost one transformation. Try a greater weight of the entropy, where there is one (or a "
    "controller that holds it at a target), a smaller learning rate of the conditional, or a burn-in of the classifier."
)
CROWDED = (
    "the entropy has fallen to {value:.3g} nats by step {step} (it began at {start:.3g}), with {edge} of the "
    "sampled coordinates at their bounds: the distribution is wider than its range, and has collapsed to the edge of "
    "it. Try wider bounds, a smaller weight of the entropy, the width or the divergence, or a truncation."
)
LOST = (
    "{value} of the sampled coordinates lie beyond the range of their transform by step {step}: the distribution "
    "is so wide that views have lost their inputs. Try a smaller weight of the divergence, a truncation, or bounds."
)
PINNED = (
    "{value} of the sampled coordinates lie at their bounds by step {step}: the distribution is pinned to the edge "
    "of its range. Try wider bounds, a smaller weight of the entropy or the width, or a smaller learning rate."
)
EMPTY = (
    "only {value} of the content of inputs is left in their prototypes by step {step}: prototypes are alike "
    "because they are empty. Try a blur in the first steps, a greater weight of the invertibility, narrower bounds, a "
    "smaller learning rate, or another seed."
)
DIVERGED = (
    "the loss is {value} at step {step} (it was last seen finite at step {good}), and training has stopped. "
    "{kept} Try a smaller learning rate, a warm-up, gradient clipping (clip), or precision 32-true."
)


class Diverged(RuntimeError):
    """The loss or a weight is no longer finite. `history` has what was logged."""

    def __init__(self, step: int, value: float, good: int, checkpoint: Path | None, history: Any = None) -> None:
        kept = f"The last good checkpoint is kept: {checkpoint}." if checkpoint else "There is no checkpoint."
        super().__init__(DIVERGED.format(step=step, value=value, good=good, kept=kept))
        self.step, self.checkpoint, self.history = step, checkpoint, history
        self._given = step, value, good, checkpoint, history

    def __reduce__(self) -> tuple[type[Diverged], tuple[Any, ...]]:
        """Its arguments, for one process to raise what another did: from the message alone it cannot be rebuilt."""
        return type(self), self._given


class Collapsed(RuntimeError):
    """Prototypes have lost their images, and the alarm was asked to stop. `history` has what was logged."""

    def __init__(self, message: str, history: Any = None) -> None:
        super().__init__(message)
        self.history = history


@dataclass(frozen=True)
class Alarm:
    """When training counts as collapsed. It is looked at whenever a row is logged.

    Attributes:
        entropy: the name of the entropy among the objective's scalars.
        drop: an entropy that has fallen by so many nats since its first value has collapsed.
        floor: an entropy below which it has collapsed, however it began; none if None.
        edge: the name of the share of sampled coordinates that lie at their bounds.
        pinned: the share that is too great.
        crowded: the share from which a fallen entropy is put down to the bounds.
        beyond: the name of the share of sampled coordinates that lie beyond the range of their transform, which a
            distribution without bounds may.
        lost: the share that is too great.
        content: the name of the share of inputs' content that is left in their prototypes.
        empty: the share that is too small.
        rows: for how many rows in a row it must be so.
        stop: whether training stops when prototypes are empty, with `Collapsed`.
    """

    entropy: str = "entropy"
    drop: float = 5.0
    floor: float | None = None
    edge: str = "edge"
    pinned: float = 0.9
    crowded: float = 0.1
    beyond: str = "beyond"
    lost: float = 0.5
    content: str = "content"
    empty: float = 0.5
    rows: int = 3
    stop: bool = False

    def __post_init__(self) -> None:
        check_positive("drop", self.drop)
        for name in ("pinned", "crowded", "lost", "empty"):
            check_positive(name, getattr(self, name))
        check_count("rows", self.rows)


@dataclass
class Watch:
    """What the alarm has seen so far, and whether it has spoken."""

    alarm: Alarm
    start: float | None = None
    counts: dict[str, int] = field(default_factory=dict)
    content: float = math.nan

    def look(self, step: int, values: Mapping[str, float]) -> list[str]:
        """The sentences that are due, each once in a run."""
        found = []
        names = (self.alarm.entropy, self.alarm.edge, self.alarm.beyond)
        entropy, edge, beyond = (values.get(name, math.nan) for name in names)
        # The last one counts on: a first stage may end before there are enough rows, and its prototypes then stay.
        self.content = values.get(self.alarm.content, self.content)
        if self.start is None and math.isfinite(entropy):
            self.start = entropy
        start = math.nan if self.start is None else self.start
        floor = -math.inf if self.alarm.floor is None else self.alarm.floor
        if self._due("entropy", entropy <= floor or entropy <= start - self.alarm.drop):
            words = CROWDED if edge >= self.alarm.crowded else FALLEN
            found.append(words.format(value=entropy, step=step, start=start, edge=percent(edge)))
        if self._due("edge", edge >= self.alarm.pinned):
            found.append(PINNED.format(value=percent(edge), step=step))
        if self._due("beyond", beyond >= self.alarm.lost):
            found.append(LOST.format(value=percent(beyond), step=step))
        if self._due("content", self.content <= self.alarm.empty):
            found.append(EMPTY.format(value=percent(self.content), step=step))
        return found

    @property
    def empty(self) -> bool:
        """Whether prototypes were found empty."""
        return self.counts.get("content", 0) >= self.alarm.rows

    def _due(self, name: str, bad: bool) -> bool:
        count = self.counts.get(name, 0)
        if count < self.alarm.rows:  # a count stays there, so that each sentence is due once
            self.counts[name] = count + 1 if bad else 0
        return count < self.counts.get(name, 0) == self.alarm.rows

    def state_dict(self) -> dict[str, Any]:
        """What the alarm has seen, to go on from."""
        return {"start": self.start, "counts": dict(self.counts), "content": self.content}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from what was seen."""
        self.start, self.counts = state["start"], dict(state["counts"])
        self.content = state.get("content", math.nan)  # older checkpoints have none
