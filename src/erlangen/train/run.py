"""The state of a run between two steps: what a checkpoint holds."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .alarm import Diverged
from .checkpoint import Checkpoints, Snapshot, load
from .config import Config
from .engine import Engine
from .history import History, trouble
from .member import Member
from .meters import Meter

__all__ = ["Run"]

LOG = logging.getLogger("erlangen.train")


class Run:
    """A run, before or after any of its steps.

    The noise of a step and the order of an epoch are functions of the seed, the step and the epoch, so that no state of
    a generator has to be kept.

    Args:
        engine: what takes the steps.
        config: how.
        per_epoch: the number of steps in an epoch.
        logs: where the rows of each objective go, in the folder of the run.
    """

    def __init__(self, engine: Engine, config: Config, per_epoch: int, logs: Sequence[str] = ("log.jsonl",)) -> None:
        self.engine, self.config, self.per_epoch = engine, config, per_epoch
        self.step, self.steps = 0, config.length(per_epoch)
        self.meter = Meter(engine.shape)
        self.inputs = 0  # inputs of each objective since the last row of the log
        self.began = self.logged = self.saved = time.monotonic()
        folder, self.first = config.folder, engine.fabric.is_global_zero
        self.logs = [folder / name for name in logs] if folder else []
        paths = self.logs if self.first and self.logs else [None] * len(logs)
        self.members = [Member(config, path) for path in paths]
        self.checkpoints = Checkpoints(folder / "checkpoint", config.keep) if folder else None
        # As it was built: some settings change on the way.
        common = {"objectives": len(logs), "precision": config.precision, "len(loader)": per_epoch}
        self.identity = {**common, **engine.identity()}

    @property
    def histories(self) -> list[History]:
        """What happened to each objective."""
        return [member.history for member in self.members]

    @property
    def over(self) -> bool:
        """Whether nothing is left to be trained."""
        return not any(member.goes_on for member in self.members)

    @property
    def kept(self) -> bool:
        """Whether there is a checkpoint of this very step."""
        path = self.histories[0].checkpoint
        return path is not None and int(path.name) == self.step

    def begin(self) -> None:
        """Goes on from the last good checkpoint, or starts."""
        fabric, folder = self.engine.fabric, self.config.folder
        if folder and self.checkpoints and not self.config.resume:
            if self.checkpoints.paths() or any(path.exists() for path in self.logs):
                why = "holds a run already; give resume=True to go on with it, or another folder"
                raise FileExistsError(f"folder: {folder} {why}")
            fabric.barrier()  # before the first process writes anything
        if self.checkpoints and self.config.resume:
            found = self.checkpoints.read() if self.first else None
            path: Path | None = fabric.broadcast(found[0] if found else None)
            if path is not None:
                self._restore(path, found[1] if found else load(path))
        for member in self.members:
            member.history.rows = member.log.restart(self.step)
        if self.step >= self.steps:
            self.stop("finished")
        if self.over:
            self.end()

    def stop(self, why: str) -> None:
        """Ends all that still go on."""
        for member in self.members:
            member.history.stopped = member.history.stopped or why

    def row(self, place: int, kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a row to the history and the log of an objective."""
        epoch, seconds = (self.step - 1) // self.per_epoch, time.monotonic() - self.began
        return self.members[place].add({"kind": kind, "step": self.step, "epoch": epoch, "seconds": seconds, **values})

    def check(self, losses: Sequence[float]) -> None:
        """Stops objectives whose loss is not finite; when none is left, the run."""
        for place, (member, loss) in enumerate(zip(self.members, losses, strict=True)):
            if not member.goes_on or member.fine(self.step, loss):
                continue
            kept = self.checkpoints.last() if self.checkpoints else None
            error = Diverged(self.step, loss, member.good, kept, member.history)
            if sum(other.goes_on for other in self.members) == 1:
                raise error
            member.history.stopped = "diverged"
            LOG.warning("objective %d: %s The others go on.", place, error)

    def check_weights(self) -> None:
        """Stops objectives that have a weight that is not finite; waits for the device."""
        self.check([0.0 if fine else math.nan for fine in self.engine.finite()])

    def late(self) -> bool:
        """Whether the time for a checkpoint has come, by the clock of the first process."""
        late = time.monotonic() - self.saved >= self.config.checkpoint_seconds
        return late if self.engine.fabric.world_size == 1 else self.engine.fabric.broadcast(late)

    def save(self) -> None:
        """Writes a checkpoint, if everything is finite."""
        if self.checkpoints is None:
            return
        means = self.engine.split(self.meter.read(self.engine.mean))
        self.check([values.get("loss", 0.0) for values in means])
        self.check_weights()
        if self.first:
            self._write(self.checkpoints)
        self.saved = time.monotonic()
        self.engine.fabric.barrier()

    def end(self) -> None:
        """Leaves the best weights in the objectives where an early stop was asked for."""
        for place, member in enumerate(self.members):
            if member.judge.weights is not None:
                self.engine.put(place, member.judge.weights)

    def _write(self, checkpoints: Checkpoints) -> None:
        try:
            path = checkpoints.write(self.step, self._snapshot())
        except OSError as error:
            message = trouble(f"the checkpoint of step {self.step} in {checkpoints.folder}", error)
            message = f"{message} The last good one is {checkpoints.last() or 'none'}."
            if self.over and self.config.insist:
                raise OSError(error.errno, message) from error
            LOG.warning("%s Training %s", message, "is over." if self.over else "goes on, and tries again later.")
        else:
            for history in self.histories:
                history.checkpoint = path

    def _snapshot(self) -> Snapshot:
        weights = {"weights": self.engine.objective.state_dict()}
        for place, member in enumerate(self.members):
            if member.judge.weights is not None:
                weights[f"best-{place}"] = member.judge.weights
        state = {
            "step": self.step,
            "run": self.identity,
            "seconds": time.monotonic() - self.began,
            "inputs": self.inputs,
            "optimisers": {name: o.state_dict() for name, o in self.engine.optimisers.items()},
            "meter": self.meter.state_dict(),
            "members": [member.state_dict() for member in self.members],
        }
        return Snapshot(weights, state)

    def _restore(self, path: Path, snapshot: Snapshot) -> None:
        (weights, state), device = snapshot, self.engine.fabric.device
        for name, value in self.identity.items():
            if _digits(was := state["run"].get(name, value)) != _digits(value):
                raise ValueError(f"{name}: received {value}; the run in {path} was started with {was}")
        if (groups := sorted(self.engine.optimisers)) != (had := sorted(state["optimisers"])):
            raise ValueError(f"objective: received the groups {groups}; the run in {path} was started with {had}")
        try:
            self.engine.objective.load_state_dict(weights["weights"])
        except RuntimeError as error:
            why = " ".join(str(error).split())
            raise ValueError(f"objective: received another than that of the run in {path}: {why}") from error
        for name, optimiser in self.engine.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        self.meter.load_state_dict(state["meter"], device)
        self.step = state["step"]
        self.inputs, self.began = state["inputs"], time.monotonic() - state["seconds"]
        for place, (member, seen) in enumerate(zip(self.members, state["members"], strict=True)):
            member.load_state_dict(seen, weights.get(f"best-{place}", {}), device)
            member.good, member.history.checkpoint = self.step, path


def _digits(setting: object) -> str:
    """A setting in words, with 1 for 1.0, which is the same number however a user writes it."""
    return re.sub(r"(?<![\w.])(\d+)\.0(?![\w.])", r"\1", str(setting))
