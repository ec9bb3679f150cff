"""The state of a run between two steps: what a checkpoint holds."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .alarm import Diverged, Watch
from .checkpoint import Checkpoints, Snapshot, load
from .config import Config
from .engine import Engine
from .history import History, Log, trouble
from .judge import Judge
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
    """

    def __init__(self, engine: Engine, config: Config, per_epoch: int) -> None:
        self.engine, self.config, self.per_epoch = engine, config, per_epoch
        self.step, self.steps = 0, config.length(per_epoch)
        self.history, self.meter = History(), Meter()
        self.watch, self.judge = Watch(config.alarm), Judge(config)
        self.good = 0  # the last step at which a finite loss was seen
        self.inputs = 0  # since the last row of the log
        self.began = self.logged = self.saved = time.monotonic()
        folder, self.first = config.folder, engine.fabric.is_global_zero
        self.log = Log(folder / "log.jsonl" if folder and self.first else None)
        self.checkpoints = Checkpoints(folder / "checkpoint", config.keep) if folder else None

    def begin(self) -> None:
        """Goes on from the last good checkpoint, or starts."""
        fabric, folder = self.engine.fabric, self.config.folder
        if folder and self.checkpoints and not self.config.resume:
            if self.checkpoints.paths() or (folder / "log.jsonl").exists():
                why = "holds a run already; give resume=True to go on with it, or another folder"
                raise FileExistsError(f"folder: {folder} {why}")
            fabric.barrier()  # before the first process writes anything
        if self.checkpoints and self.config.resume:
            found = self.checkpoints.read() if self.first else None
            path: Path | None = fabric.broadcast(found[0] if found else None)
            if path is not None:
                self._restore(path, found[1] if found else load(path))
        self.history.rows = self.log.restart(self.step)
        if self.step >= self.steps and not self.history.stopped:
            self.history.stopped = "finished"
        if self.history.stopped:
            self.end()

    def row(self, kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Adds a row to the history and the log."""
        epoch, seconds = (self.step - 1) // self.per_epoch, time.monotonic() - self.began
        row = {"kind": kind, "step": self.step, "epoch": epoch, "seconds": seconds, **values}
        self.history.rows.append(row)
        self.log.add(self.history.rows)
        return row

    def check(self, loss: float) -> None:
        """Stops a run whose loss is not finite."""
        if not math.isfinite(loss):
            kept = self.checkpoints.last() if self.checkpoints else None
            raise Diverged(self.step, loss, self.good, kept, self.history)
        self.good = self.step

    def late(self) -> bool:
        """Whether the time for a checkpoint has come, by the clock of the first process."""
        late = time.monotonic() - self.saved >= self.config.checkpoint_seconds
        return late if self.engine.fabric.world_size == 1 else self.engine.fabric.broadcast(late)

    def save(self) -> None:
        """Writes a checkpoint, if everything is finite."""
        if self.checkpoints is None:
            return
        self.check(self.meter.read(self.engine.mean).get("loss", 0.0))
        self.check(0.0 if self.engine.finite() else math.nan)
        if self.first:
            self._write(self.checkpoints)
        self.saved = time.monotonic()
        self.engine.fabric.barrier()

    def end(self) -> None:
        """Leaves the best weights in the objective where an early stop was asked for."""
        if self.judge.weights is not None:
            self.engine.objective.load_state_dict(self.judge.weights)

    def _write(self, checkpoints: Checkpoints) -> None:
        try:
            self.history.checkpoint = checkpoints.write(self.step, self._snapshot())
        except OSError as error:
            message = trouble(f"the checkpoint of step {self.step} in {checkpoints.folder}", error)
            message = f"{message} The last good one is {checkpoints.last() or 'none'}."
            if self.history.stopped:
                raise OSError(error.errno, message) from error
            LOG.warning("%s Training goes on, and tries again later.", message)

    def _snapshot(self) -> Snapshot:
        best = {} if self.judge.weights is None else {"best": self.judge.weights}
        state = {
            "step": self.step,
            "run": self._identity(),
            "stopped": self.history.stopped,
            "seconds": time.monotonic() - self.began,
            "inputs": self.inputs,
            "optimisers": {name: o.state_dict() for name, o in self.engine.optimisers.items()},
            "meter": self.meter.state_dict(),
            "watch": self.watch.state_dict(),
            "judge": self.judge.state_dict(),
        }
        return Snapshot({"weights": self.engine.objective.state_dict(), **best}, state)

    def _restore(self, path: Path, snapshot: Snapshot) -> None:
        (weights, state), device = snapshot, self.engine.fabric.device
        for name, value in self._identity().items():
            if (was := state["run"].get(name)) != value:
                raise ValueError(f"{name}: received {value}; the run in {path} was started with {was}")
        self.engine.objective.load_state_dict(weights["weights"])
        for name, optimiser in self.engine.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        self.meter.load_state_dict(state["meter"], device)
        self.watch.load_state_dict(state["watch"])
        self.judge.load_state_dict(state["judge"], weights.get("best", {}), device)
        self.step = self.good = state["step"]
        self.inputs, self.began = state["inputs"], time.monotonic() - state["seconds"]
        self.history.best, self.history.checkpoint = self.judge.row, path
        # One that finished may be made longer; one that lost its patience stays where it is.
        self.history.stopped = "patience" if state["stopped"] == "patience" else None

    def _identity(self) -> dict[str, Any]:
        """What must not change between a run and its continuation."""
        settings = {f"groups[{name!r}]": repr(s) for name, s in self.engine.settings.items()}
        return {"seed": self.config.seed, "precision": self.config.precision, "len(loader)": self.per_epoch, **settings}
