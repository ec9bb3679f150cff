"""Training an objective, from the first step or from the last good checkpoint to the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..objectives import Objective
from ..utils.seeds import seeded
from .alarm import Collapsed
from .config import Config
from .engine import Engine, launch
from .history import History
from .loader import Loader
from .meters import Meter
from .progress import tracked
from .run import Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["fit"]

LOG = logging.getLogger("erlangen.train")


def fit(
    objective: Objective,
    loader: Loader,
    config: Config,
    *,
    validation: Loader | None = None,
    fabric: Fabric | None = None,
    on_step: Callable[[int, Mapping[str, Tensor]], None] | None = None,
) -> History:
    """Trains an objective, in place.

    With a folder in the config, `log.jsonl` has a row for every `log_every` steps, and `checkpoint/` what is needed to
    go on after a crash: on the CPU, a run that was killed and resumed ends with the same weights to the last bit.
    Nothing in a step waits for the device; the loss is looked at when a row is logged or a checkpoint is due.

    Several processes take the steps of one: each has its rows of every batch, and of the noise (see `GlobalNoise`).
    What an objective computes from its own rows alone, batch normalisation for example, differs.

    Args:
        objective: what is trained.
        loader: the batches of training.
        config: how it is trained.
        validation: the batches on which `patience` is judged, with the objective in evaluation mode. Never those of
            the test set.
        fabric: one that was set up (and launched) elsewhere; its settings then count, not those of the config.
        on_step: called after every step with its number (from 1) and its losses, which are on the device.

    Returns:
        What happened.

    Raises:
        Collapsed: the alarm found prototypes empty, and was asked to stop.
        Diverged: the loss or a weight is not finite. The last good checkpoint is kept.
        FileExistsError: the folder holds a run already, and `resume` is False.
        OSError: the last checkpoint could not be written; the objective has its weights.
    """
    if config.patience is not None and validation is None:
        raise ValueError("patience: received a number without validation; accepted is one with batches to judge by")
    for name, batches in {"loader": loader, "validation": validation}.items():
        if batches is not None and len(batches) < 1:
            raise ValueError(f"{name}: received no batches; accepted is at least one in an epoch")
    fabric = launch(objective, config) if fabric is None else fabric
    run = Run(Engine(objective, config, fabric), config, len(loader))
    run.begin()
    objective.train()
    with seeded(config.seed), tracked(run.step, run.steps, config.progress if run.first else False) as tell:
        for batch in _batches(run, loader):
            losses = _step(run, batch)
            if on_step is not None:
                on_step(run.step, losses)
            _after(run, validation)
            tell(run.history)
    return run.history


def _batches(run: Run, loader: Loader) -> Iterator[Sequence[Tensor]]:
    """What is still to come."""
    while not run.history.stopped:
        epoch, start = divmod(run.step, len(loader))
        for batch in loader.epoch(epoch, run.engine.fabric.device, start):
            yield batch
            if run.history.stopped:
                return
        if run.step != (epoch + 1) * len(loader):
            got = f"{run.step - epoch * len(loader)} batches in epoch {epoch}"
            raise ValueError(f"loader: received {got}; accepted are as many as its length, {len(loader)}")


def _step(run: Run, batch: Sequence[Tensor]) -> dict[str, Tensor]:
    factors = {
        name: settings.schedule(run.step, run.steps, run.per_epoch) for name, settings in run.engine.settings.items()
    }
    losses = run.engine.step(batch, run.step, factors)
    run.meter.add(losses, run.engine.share(batch).weight)
    run.step, run.inputs = run.step + 1, run.inputs + len(batch[0])
    return losses


def _after(run: Run, validation: Loader | None) -> None:
    """What is due after a step: a row, a validation, a checkpoint, the end."""
    config, last = run.config, run.step >= run.steps
    row, stop = last or run.step % config.log_every == 0, False
    if row:
        _log(run)
    if validation is not None and (last or run.step % (config.validate_every or run.per_epoch) == 0):
        stop = run.judge.look(_validate(run, validation), run.engine.objective)
    elif validation is None and row:
        run.judge.look(run.history.rows[-1], run.engine.objective)
    run.history.best = run.judge.row
    run.history.stopped = "patience" if stop else "finished" if last else None
    every = config.checkpoint_every
    if run.history.stopped or (every is not None and run.step % every == 0) or (row and run.late()):
        run.save()
    if run.history.stopped:
        run.end()


def _log(run: Run) -> None:
    means, now = run.meter.read(run.engine.mean), time.monotonic()
    rates = {f"lr/{name}": float(o.param_groups[0]["lr"]) for name, o in run.engine.optimisers.items()}
    rate = run.inputs / max(now - run.logged, 1e-9)
    run.meter.clear()
    run.logged, run.inputs = now, 0
    for message in run.watch.look(run.step, means):
        run.row("alarm", {"message": message})
        if run.first:
            LOG.warning("%s", message)
    run.row("train", {**means, **rates, "rate": rate})
    run.check(means["loss"])
    if run.watch.lost and run.config.alarm.stop:
        raise Collapsed(run.history.alarms[-1], run.history)


@torch.no_grad()
def _validate(run: Run, validation: Loader) -> dict[str, float]:
    engine, meter = run.engine, Meter()
    engine.objective.eval()
    for number, batch in enumerate(validation.epoch(0, engine.fabric.device)):
        # The same noise at every validation, so that two of them differ by the weights alone.
        meter.add(engine.losses(batch, 1, number), engine.share(batch).weight, len(batch[0]))
    engine.objective.train()
    return run.row("validation", meter.read(engine.mean))
