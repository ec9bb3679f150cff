"""How a run is trained, and with what."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ..utils.seeds import check_seed
from ..utils.shapes import check_count, check_kind, check_positive, describe
from .alarm import Alarm
from .schedule import Constant, Schedule

__all__ = ["Config", "Optimiser", "Precision"]

Precision = Literal["32-true", "tf32-mixed", "bf16-mixed", "64-true"]


@dataclass(frozen=True)
class Optimiser:
    """An optimiser of one group of parameters, with its schedule.

    Attributes:
        name: "adam", "adamw" or "sgd".
        lr: the learning rate, which the schedule multiplies.
        weight_decay: as the optimiser understands it: decoupled for "adamw", an L2 penalty for the others.
        momentum: of "sgd".
        nesterov: whether that momentum is Nesterov's.
        betas: of "adam" and "adamw".
        clip: the greatest norm of the group's gradient; no limit if None.
        schedule: what multiplies the learning rate, step by step. It may be a function of one's own; a run that is
            resumed compares it by its name.
    """

    name: Literal["adam", "adamw", "sgd"] = "adam"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float | None = None
    schedule: Schedule = field(default_factory=Constant)

    def __post_init__(self) -> None:
        _check_choice("name", self.name, ("adam", "adamw", "sgd"))
        numbers: dict[str, Any] = {
            "lr": check_positive("lr", self.lr),
            "weight_decay": _check_range("weight_decay", self.weight_decay, math.inf),
            "momentum": _check_range("momentum", self.momentum, 1),
            "betas": _check_betas(self.betas),
            "clip": None if self.clip is None else check_positive("clip", self.clip),
        }
        for name, value in numbers.items():  # as plain numbers, also those of numpy: checkpoints hold no others
            object.__setattr__(self, name, value)
        if self.momentum and self.name != "sgd":
            raise ValueError(f"momentum: received {self.momentum} for {self.name}, which has betas; accepted is 0")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov: received True without momentum; accepted is True with a momentum > 0")
        if not callable(self.schedule):
            raise ValueError(f"schedule: received {describe(self.schedule)}; accepted is a Schedule, such as Cosine()")

    def build(self, parameters: list[nn.Parameter], device: torch.device, graph: bool = False) -> torch.optim.Optimizer:
        """The optimiser of torch; on CUDA in one kernel, and for a graph with a learning rate on the device."""
        lr = rate_on(device, self.lr) if graph else self.lr
        kind: Any = {"lr": lr, "weight_decay": self.weight_decay, "fused": True if device.type == "cuda" else None}
        if self.name == "sgd":
            return torch.optim.SGD(parameters, momentum=self.momentum, nesterov=self.nesterov, **kind)
        return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[self.name](
            parameters, betas=self.betas, capturable=graph, **kind
        )


@dataclass(frozen=True, kw_only=True)
class Config:
    """How a run is trained.

    Attributes:
        epochs: how long; either this or `steps`.
        steps: how long, in optimiser steps.
        optimiser: that of every group of parameters without one in `groups`.
        groups: optimisers by the names in `Objective.parameter_groups`.
        seed: of the noise. The noise of a step is a function of the seed and the step.
        precision: "32-true" leaves parameters as they are, "bf16-mixed" computes in bfloat16 where that is safe,
            "64-true" converts everything to float64. "tf32-mixed" is "32-true" but for matrix products on GPUs, which
            tensor cores then compute from factors of ten bits; geometry has no matrix products.
        compile: whether the objective's forward is compiled.
        graph: whether steps on CUDA are recorded as graphs and replayed: the launches of a small model take longer than
            its arithmetic. Nothing in a step may wait for the device.
        channels_last: whether weights of convolutions are laid out with channels last, which carries over to what
            passes through them: with bfloat16 on a GPU most of the gain, and a gain on CPUs.
        accelerator: "auto", "cpu", "cuda", or what else Fabric accepts.
        devices: how many, on each machine; each has a process of its own.
        num_nodes: how many machines.
        strategy: Fabric's; "auto" is DDP when there are several processes. An objective without a `burn_in` of which
            some parameters are idle in some steps needs "ddp_find_unused_parameters_true".
        folder: where `log.jsonl` and `checkpoint/` go; nothing is written if None.
        resume: whether to go on from the last good checkpoint in the folder, if there is one. Otherwise a folder that
            holds a run is refused.
        checkpoint_every: how many steps lie between checkpoints; only seconds count if None.
        checkpoint_seconds: a checkpoint is written when so many seconds have passed, as seen when a row is logged.
        keep: how many checkpoints are kept.
        insist: whether it is an error when training is over and its last checkpoint cannot be written.
        log_every: how many steps a row of the log averages.
        validate_every: how many steps lie between validations; an epoch if None.
        patience: stop after so many validations without improvement, and return to the best weights; never if None.
        monitor: the number that `patience` and `History.best` watch.
        greater_is_better: whether more of it is better, as for an accuracy.
        alarm: when training says that the distribution has collapsed.
        progress: whether a bar is shown; if None, when standard error is a terminal.
    """

    epochs: int | None = None
    steps: int | None = None
    optimiser: Optimiser = field(default_factory=Optimiser)
    groups: Mapping[str, Optimiser] = field(default_factory=dict)
    seed: int = 0
    precision: Precision = "32-true"
    compile: bool = False
    graph: bool = False
    channels_last: bool = False
    accelerator: str = "auto"
    devices: int = 1
    num_nodes: int = 1
    strategy: str = "auto"
    folder: Path | None = None
    resume: bool = False
    checkpoint_every: int | None = None
    checkpoint_seconds: float = 300.0
    keep: int = 2
    insist: bool = True
    log_every: int = 50
    validate_every: int | None = None
    patience: int | None = None
    monitor: str = "loss"
    greater_is_better: bool = False
    alarm: Alarm = field(default_factory=Alarm)
    progress: bool | None = None

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(f"epochs, steps: received {self.epochs} and {self.steps}; accepted is one of them")
        for name in ("devices", "num_nodes", "keep", "log_every"):
            check_count(name, getattr(self, name))
        for name in ("epochs", "steps", "checkpoint_every", "validate_every", "patience"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_positive("checkpoint_seconds", self.checkpoint_seconds)
        _check_choice("precision", self.precision, get_args(Precision))
        object.__setattr__(self, "seed", check_seed(self.seed))  # as a plain number: it is written to files
        check_kind("optimiser", self.optimiser, Optimiser)
        for name, value in check_kind("groups", self.groups, Mapping).items():
            check_kind(f"groups[{name!r}]", value, Optimiser)
        if self.folder is not None:
            if not isinstance(self.folder, str | os.PathLike):
                raise ValueError(f"folder: received {describe(self.folder)}; accepted is a path, or None")
            object.__setattr__(self, "folder", Path(os.path.expanduser(self.folder)))
        if self.resume and self.folder is None:
            raise ValueError("resume: received True without a folder; accepted is True with the folder of a run")

    def length(self, per_epoch: int) -> int:
        """The number of steps of the run."""
        return self.steps if self.steps is not None else (self.epochs or 0) * per_epoch


def rate_on(device: torch.device, lr: float) -> Tensor:
    """A learning rate on a device: the kernels of optimisers read it in single precision, whatever they train."""
    return torch.tensor(lr, dtype=torch.float32, device=device)


def _check_choice(name: str, x: object, accepted: tuple[str, ...]) -> None:
    if x not in accepted:
        raise ValueError(f"{name}: received {x!r}; accepted is one of {', '.join(accepted)}")


def _check_betas(betas: object) -> tuple[float, ...]:
    values = tuple(betas) if isinstance(betas, Iterable) else ()
    if len(values) != 2:
        raise ValueError(f"betas: received {betas!r}; accepted are two numbers, such as (0.9, 0.999)")
    return _check_range("betas", values[0], 1), _check_range("betas", values[1], 1)


def _check_range(name: str, x: object, end: float) -> float:
    if not isinstance(x, Real) or not 0 <= float(x) < end:
        raise ValueError(f"{name}: received {x!r}; accepted is a number, 0 <= {name} < {end}")
    return float(x)
