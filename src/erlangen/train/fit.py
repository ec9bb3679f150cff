"""Training an objective, from the first step or from the last good checkpoint to the end."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..objectives import Objective
from ..utils.seeds import seeded
from ..utils.shapes import NotFinite
from .alarm import Collapsed
from .config import Config
from .engine import Engine, check_objective, launch
from .history import History
from .interrupt import held
from .loader import Loader, check_loader
from .meters import Meter
from .noise import seed_noise
from .progress import tracked
from .run import Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["check_batches", "fit", "train"]

LOG = logging.getLogger("erlangen.train")


@torch.inference_mode(False)  # in a caller's inference mode nothing could be trained, or read back
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
    go on after a crash: on the CPU, a run that was killed and resumed ends with the same weights to the last bit. An
    interrupt (Ctrl-C, or SIGTERM) waits for the end of the step and its checkpoint; a second one does not.
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
        Diverged: the loss, a weight, or what is made of inputs is not finite. The last good checkpoint is kept.
        FileExistsError: the folder holds a run already, and `resume` is False.
        KeyboardInterrupt: the run was interrupted.
        OSError: the last checkpoint could not be written; the objective has its weights.
    """
    check_objective("objective", objective)
    check_batches(config, {"loader": loader, "validation": validation})
    fabric = launch(objective, config) if fabric is None else fabric
    run = Run(Engine(objective, config, fabric), config, len(loader))
    train(run, loader, validation, on_step or (lambda step, losses: None))
    return run.histories[0]


def check_batches(config: Config, given: Mapping[str, Loader | None]) -> None:
    """Raises a `ValueError` where there is nothing to train on, or nothing to judge by."""
    if config.patience is not None and given["validation"] is None:
        raise ValueError("patience: received a number without validation; accepted is one with batches to judge by")
    for name, batches in given.items():
        if batches is None and name == "validation":
            continue
        if len(check_loader(name, batches)) < 1:
            raise ValueError(f"{name}: received no batches; accepted is at least one in an epoch")


def train(
    run: Run, loader: Loader, validation: Loader | None, on_step: Callable[[int, Mapping[str, Tensor]], None]
) -> None:
    """From the first step, or the last good checkpoint, to the end."""
    run.begin()
    run.engine.objective.train()
    show = run.config.progress if run.first else False
    # Several processes would be interrupted at different steps.
    whole = run.checkpoints is not None and run.engine.fabric.world_size == 1
    bar = tracked(run.step, run.steps, show)
    with torch.enable_grad(), seeded(run.config.seed), held(whole) as interrupted, bar as tell:
        for batch in _batches(run, loader):
            stage = run.engine.objective.judged()
            losses = _step(run, batch)
            on_step(run.step, losses)
            _after(run, validation, turned=run.engine.objective.judged() != stage)
            tell(run.histories)
            if interrupted() and not run.over:
                if not run.kept:  # writing it again would first remove it, and it may be the only one
                    run.save()
                break


def _batches(run: Run, loader: Loader) -> Iterator[Sequence[Tensor]]:
    """The batches that are still to come."""
    while not run.over:
        epoch, start = divmod(run.step, len(loader))
        for batch in _loaded(run, loader, epoch, start):
            yield batch
            if run.over:
                return
        if run.step != (epoch + 1) * len(loader):
            got = f"{run.step - epoch * len(loader)} batches in epoch {epoch}"
            raise ValueError(f"loader: received {got}; accepted are as many as its length, {len(loader)}")


def _loaded(run: Run, loader: Loader, epoch: int, start: int = 0) -> Iterator[Sequence[Tensor]]:
    """Batches of a loader, which may draw their order from the global generators, and compute something of inputs."""
    device = run.engine.fabric.device
    seed_noise(run.config.seed, 2, epoch, device=device)  # or the order would be another in a run that is resumed
    with _finite(run, ()):
        yield from loader.epoch(epoch, device, start)


@contextmanager
def _finite(run: Run, batch: Sequence[Tensor]) -> Iterator[None]:
    """Turns an error about values that are not finite into `Diverged`, unless inputs have them or no step was taken."""
    try:
        yield
    except NotFinite:
        if run.step > 0 and all(bool(part.isfinite().all()) for part in batch):
            run.check([math.nan] * len(run.members))
        raise


def _step(run: Run, batch: Sequence[Tensor]) -> dict[str, Tensor]:
    factors = {
        name: settings.schedule(run.step, run.steps, run.per_epoch) for name, settings in run.engine.settings.items()
    }
    with _finite(run, batch):
        losses = run.engine.step(batch, run.step, factors)
    run.meter.add(losses, run.engine.share(batch).weight)
    run.step, run.inputs = run.step + 1, run.inputs + run.engine.rows(batch)
    return losses


def _after(run: Run, validation: Loader | None, *, turned: bool) -> None:
    """Does what is due after a step: rows, a validation, a checkpoint, the end.

    When a stage ends (`turned`) a row is written, so that no row averages over the losses of two stages.
    """
    config, last = run.config, run.step >= run.steps
    row = last or turned or run.step % config.log_every == 0
    if row:
        _log(run)
    if validation is not None:
        due = last or run.step % (config.validate_every or run.per_epoch) == 0
        if due and run.engine.objective.judged():
            _judge(run, _validate(run, validation))
    elif row:
        _judge(run, [member.history.rows[-1] if member.goes_on else {} for member in run.members])
    if last:
        run.check_weights()  # those of the last step, which no loss has seen
        run.stop("finished")
    every = config.checkpoint_every
    if run.over or (every is not None and run.step % every == 0) or (row and run.late()):
        run.save()
    if run.over:
        run.end()


def _judge(run: Run, rows: Sequence[dict[str, Any]]) -> None:
    """Looks at a row of each objective, and stops those whose patience is at its end."""
    for place, (member, row) in enumerate(zip(run.members, rows, strict=True)):
        if member.goes_on:
            if member.judge.look(row, lambda place=place: run.engine.weights(place)):
                member.history.stopped = "patience"
            member.history.best = member.judge.row


def _log(run: Run) -> None:
    each, now = run.engine.split(run.meter.read(run.engine.mean)), time.monotonic()
    rate = run.inputs / max(now - run.logged, 1e-9)
    run.meter.clear()
    run.logged, run.inputs = now, 0
    for place, (means, rates) in enumerate(zip(each, run.engine.rates_now(), strict=True)):
        member = run.members[place]
        if not member.goes_on:
            continue
        for message in member.watch.look(run.step, means):
            run.row(place, "alarm", {"message": message})
            if run.first:
                LOG.warning("%s%s", f"objective {place}: " if len(run.members) > 1 else "", message)
        run.row(place, "train", {**means, **rates, "rate": rate})
    run.check([means["loss"] for means in each])
    for member in run.members:
        if member.watch.empty and run.config.alarm.stop:
            raise Collapsed(member.history.alarms[-1], member.history)


@torch.no_grad()
def _validate(run: Run, validation: Loader) -> list[dict[str, Any]]:
    engine, meter = run.engine, Meter(run.engine.shape)
    engine.objective.eval()
    for number, batch in enumerate(_loaded(run, validation, 0)):
        # The same noise at every validation, so that two of them differ by the weights alone.
        with _finite(run, batch):
            losses = engine.losses(batch, 1, number)
        meter.add(losses, engine.share(batch).weight, engine.rows(batch))
    engine.objective.train()
    each = engine.split(meter.read(engine.mean))
    rows = []
    for place, (member, means) in enumerate(zip(run.members, each, strict=True)):
        rows.append(run.row(place, "validation", means) if member.goes_on else {})
    return rows
