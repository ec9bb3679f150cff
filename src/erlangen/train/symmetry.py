"""Both stages of a symmetry model in one run, which starts anew when its prototypes lose their images."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..objectives import KnownPoses, TwoStages
from ..utils.seeds import generator, seeded
from ..utils.shapes import check_count
from .alarm import Collapsed
from .config import Config, Optimiser
from .fit import fit
from .history import History
from .loader import Loader, TensorLoader
from .schedule import Within

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Inferred", "fit_symmetry", "set_aside"]

LOG = logging.getLogger("erlangen.train")
JUDGES = (4, 500)  # inputs that are set aside, at least and at most
HALF = ".collapsed-"  # the name of a folder that is being filled, before its number
UNLEARNED = (
    "on inputs that were set aside the density was never better than before it learned anything, and that one is kept. "
    "Try a smaller learning rate of the density, or more inputs."
)
SLOWER = 0.3  # the factor of the inference network's rate when it starts anew


def fit_symmetry(
    objective: TwoStages,
    loader: Loader,
    config: Config,
    *,
    validation: Loader | None = None,
    restarts: int = 2,
    fabric: Fabric | None = None,
    on_step: Callable[[int, Mapping[str, Tensor]], None] | None = None,
) -> History:
    """Trains prototypes, then their density: one run, one bar, one log, one checkpoint, from which it goes on.

    When the prototypes lose their images (see `Alarm.content`), training starts anew from the weights that it began
    with, other noise, and a remedy: blur in the first steps, a greater price on what is lost, a smaller learning rate.
    What was logged until then moves to `collapsed-1` in the folder. An objective that was trained before begins with
    its first stage again.

    Args:
        objective: both stages.
        loader: the batches; labels, if there are any, are not looked at.
        config: how it is trained. Its steps are those of both stages; schedules of the groups "inference" and "density"
            run over their own stage.
        validation: the batches on which `patience` judges the density, in the second stage: after many steps on few
            images, a density knows the pose of each by heart, and takes it for the only one.
        restarts: how often it may start anew; with 0, the alarm only warns.
        fabric: see `fit`.
        on_step: see `fit`.

    Raises:
        Collapsed: the prototypes are empty, after all restarts.
        FileExistsError: the folder holds a run already, and `resume` is False.
    """
    steps = config.length(len(loader))
    _check(objective, steps, restarts)
    _check_inferred(objective, loader=loader, validation=validation)
    objective.prototypes.restart()
    start = copy.deepcopy(objective.state_dict())
    if config.resume:
        _finish(config.folder)
    tried = _collapsed(config.folder)
    if tried and not config.resume:
        why = "holds a run that started anew; give resume=True to go on with it, or another folder"
        raise FileExistsError(f"folder: {config.folder} {why}")
    for _ in tried:
        objective.prototypes.remedy(objective.burn_in)
    for k in range(len(tried), restarts + 1):
        how = _staged(config, objective.burn_in, steps, k)
        how = replace(how, alarm=replace(config.alarm, stop=restarts > 0))
        for batches in (loader, validation):
            if isinstance(batches, Inferred):
                batches.forget()
        try:
            history = fit(objective, loader, how, validation=validation, fabric=fabric, on_step=on_step)
            if config.patience is not None:
                _warn_of_start(history, objective.burn_in)
            return history
        except Collapsed as collapsed:
            if k >= restarts:
                raise
            LOG.warning("%s Starting anew, with blur, a penalty on lost content, a smaller learning rate.", collapsed)
            _move(config.folder, k + 1)
            objective.load_state_dict(start)
            objective.prototypes.remedy(objective.burn_in)
    accepted = f"at least as many as the times that it has started anew, {len(tried)}"
    raise ValueError(f"restarts: received {restarts} for the run in {config.folder}; accepted is {accepted}")


def _check(objective: TwoStages, steps: int, restarts: int) -> None:
    """Raises a `ValueError` unless there are two stages, and steps left for the second."""
    if not isinstance(objective, TwoStages):
        raise ValueError(f"objective: received a {type(objective).__name__}; accepted is TwoStages")
    if steps <= objective.burn_in:
        accepted = f"more than the {objective.burn_in} of the first stage"
        raise ValueError(f"steps: received {steps}; accepted are {accepted}")
    if not isinstance(restarts, int) or restarts < 0:
        raise ValueError(f"restarts: received {restarts!r}; accepted is an integer >= 0")


def _check_inferred(objective: TwoStages, **loaders: Loader | None) -> None:
    """Raises a `ValueError` for batches without poses: `KnownPoses` gets them from an `Inferred` alone."""
    for name, batches in loaders.items():
        if isinstance(objective.density, KnownPoses) and not (batches is None or isinstance(batches, Inferred)):
            got = f"a {type(batches).__name__} for KnownPoses as the second stage"
            raise ValueError(f"{name}: received {got}; accepted is Inferred, which infers poses after the first stage")


def _warn_of_start(history: History, first: int) -> None:
    """Warns where the density that is kept is the one that training began with."""
    judged = history.column("step", "validation")
    if history.best is not None and len(judged) > 1 and judged[0] == first == history.best["step"]:
        LOG.warning(UNLEARNED)


def _staged(config: Config, first: int, steps: int, restart: int) -> Config:
    """A configuration in which each group's schedule runs over its own stage; a restart is slower, with new noise."""
    slower = SLOWER**restart
    parts = {"inference": (0, first, slower), "density": (first, steps - first, 1.0)}
    groups: dict[str, Optimiser] = {}
    for name, (start, length, factor) in parts.items():
        own = config.groups.get(name, config.optimiser)
        if isinstance(own.schedule, Within):
            raise ValueError(f"groups[{name!r}]: received a schedule Within; accepted is that of its stage alone")
        groups[name] = replace(own, lr=own.lr * factor, schedule=Within(own.schedule, start, length))
    return replace(config, epochs=None, steps=steps, groups=groups, seed=config.seed + restart)


def _collapsed(folder: Path | None) -> list[Path]:
    return [] if folder is None else sorted(folder.glob("collapsed-*"))


def _move(folder: Path | None, number: int) -> None:
    """Moves what a collapsed run left into a folder, which gets its final name when all is in it."""
    if folder is None or not folder.is_dir():
        return
    half = folder / f"{HALF}{number}"
    half.mkdir(exist_ok=True)
    for name in ("log.jsonl", "checkpoint"):
        if (folder / name).exists():
            (folder / name).rename(half / name)
    half.rename(folder / f"collapsed-{number}")


def _finish(folder: Path | None) -> None:
    """Finishes the moves that were under way when the run was killed."""
    for half in [] if folder is None else list(folder.glob(f"{HALF}*")):
        _move(folder, int(half.name.removeprefix(HALF)))


class Inferred:
    """Batches of inputs; in the second stage with their poses and prototypes, which no longer change, see `KnownPoses`.

    Args:
        loader: of inputs alone.
        objective: both stages, the second a `KnownPoses`.
        draws: how many random transformations of each input are inferred.
    """

    def __init__(self, loader: TensorLoader, objective: TwoStages, *, draws: int) -> None:
        if not isinstance(objective.density, KnownPoses):
            got = f"a {type(objective.density).__name__} for its second stage"
            raise ValueError(f"objective: received {got}; accepted is KnownPoses, which takes what is known")
        self.loader, self.objective, self.density = loader, objective, objective.density
        self.draws = check_count("draws", draws)
        self._known: TensorLoader | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def epoch(self, number: int, device: torch.device, start: int = 0) -> Iterator[Sequence[Tensor]]:
        """The batches of an epoch, from `start` on."""
        for place, batch in enumerate(self.loader.epoch(number, device, start), start):
            if self.objective.second:
                yield from self._with_poses().epoch(number, device, place)
                return
            yield batch

    def forget(self) -> None:
        """Infers poses anew when they are needed, since the inference network is trained again."""
        self._known = None

    def _with_poses(self) -> TensorLoader:
        if self._known is None:
            training = self.objective.training
            self.objective.eval()
            with seeded(self.loader.seed):  # so that a resumed run infers the same
                tensors = self.density.known(self.loader.tensors[0], self.draws)
            self.objective.train(training)
            self._known = self.loader.of(*tensors)
        return self._known


def set_aside(x: Tensor, held: float, *, seed: int = 0, batch_size: int = 256) -> tuple[Tensor, TensorLoader | None]:
    """Inputs to learn from, and batches of others to judge a density by, see `validation` of `fit_symmetry`.

    Args:
        x: all of them.
        held: the share that is set aside, 0 <= held < 1: at most 500 inputs, and none if it is fewer than 4. Each of
            few is judged with several transformations.
        seed: of the choice.
        batch_size: of what was set aside.
    """
    if not isinstance(held, Real) or not 0 <= held < 1:
        raise ValueError(f"held: received {held!r}; accepted is a share, 0 <= held < 1")
    n = min(int(held * len(x)), JUDGES[1])
    if n < JUDGES[0]:
        return x, None
    order = torch.randperm(len(x), generator=generator(seed)).to(x.device)
    aside = x[order[:n]].repeat(-(-JUDGES[1] // n), *[1] * (x.ndim - 1))
    return x[order[n:]], TensorLoader(aside, batch_size=batch_size, shuffle=False)
