"""Training several objectives of one architecture in one program: folds, seeds, weights of a loss, learning rates."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..objectives import Objective
from ..utils.seeds import seeded
from ..utils.shapes import check_kind, describe
from .config import Config, Optimiser
from .engine import Engine, check_objective, launch
from .fit import check_batches, train
from .history import History
from .joined import Joined
from .loader import Loader
from .noise import MemberNoise, Share, seed_noise
from .run import Run
from .stack import Stack, constants

__all__ = ["fit_many"]


@torch.inference_mode(False)
def fit_many(
    objectives: Sequence[Objective],
    loaders: Sequence[Loader],
    config: Config | Sequence[Config],
    *,
    validation: Sequence[Loader] | None = None,
    on_step: Callable[[int, Sequence[Mapping[str, Tensor]]], None] | None = None,
) -> list[History]:
    """Trains objectives of one architecture together, in place: each as `fit` would, to rounding, in less time.

    Small networks leave a processor waiting for instructions. Here their tensors are stacked, so that an operation of
    all of them is one. Each has its own batches, and draws the noise that it would draw alone (in a graph, other noise
    of the same kind). That is noise of torch: numbers of `random` and `numpy.random` are drawn once for all of them,
    which is refused on the CPU where seeds differ.

    An objective that runs out of patience, or whose loss is no longer finite, stops there (see `History.stopped`), and
    the others go on.

    Args:
        objectives: they differ in the values of their tensors alone, of weights or of numbers in buffers, such as
            `PSTN.weight`.
        loaders: the batches of each, of equal shapes.
        config: how they are trained; or one for each, which may differ in `seed` and in the learning rates. There is
            one folder, with `log.jsonl` of each in `00/`, `01/`, and checkpoints of all. One device.
        validation: the batches on which each is judged.
        on_step: called after every step with its number (from 1) and the losses of each, which are on the device.

    Returns:
        What happened to each.

    Raises:
        Diverged: no loss is finite any more.
    """
    objectives, loaders = _several("objectives", objectives), _several("loaders", loaders)
    validation = None if validation is None else _several("validation", validation)
    configs = [config] * len(objectives) if isinstance(config, Config) else _several("config", config)
    _check(objectives, loaders, configs, validation)
    first, stack = configs[0], Stack(objectives)
    joined = Joined("loaders", loaders)
    held = None if validation is None else Joined("validation", validation)
    check_batches(first, {"loaders": joined, "validation": held})
    engine = StackEngine(stack, configs, launch(stack, first))
    if engine.fabric.device.type == "cpu":
        _try(objectives, loaders, engine, torch.float64 if first.precision == "64-true" else None)
    run = Run(engine, first, len(joined), [f"{place:02d}/log.jsonl" for place in range(len(objectives))])
    try:
        train(run, joined, held, lambda step, losses: on_step(step, engine.split(losses)) if on_step else None)
    finally:
        for place, objective in enumerate(objectives):
            _hand_back(stack, place, objective)
    return run.histories


@torch.no_grad()
def _try(
    objectives: Sequence[Objective], loaders: Sequence[Loader], engine: StackEngine, dtype: torch.dtype | None
) -> None:
    """Raises the error of an objective about its first batch: when it is mapped over, it cannot look at values."""
    device = engine.fabric.device
    with seeded(0):
        for place, (objective, loader) in enumerate(zip(objectives, loaders, strict=True)):
            try:
                batch, before = next(iter(loader.epoch(0, device))), _host_noise()
                if dtype is not None:  # the type of the whole run, which Fabric will use
                    batch = tuple(x.to(dtype) if x.is_floating_point() else x for x in batch)
                copy.deepcopy(objective).to(device=device, dtype=dtype)(batch)
            except ValueError as error:
                raise ValueError(f"loaders[{place}]: {error}") from error
            if len(set(engine.seeds)) > 1 and _host_noise() != before:
                got = f"one that draws from random or numpy.random, with the seeds {engine.seeds}"
                raise ValueError(f"objectives[{place}]: received {got}; accepted is noise of torch, or one seed")


def _host_noise() -> Any:
    """The states of the generators of `random` and numpy, which draw once for all objectives that are mapped over."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), bytes(state[1]), state[2:]


class StackEngine(Engine):
    """Takes the steps of a stack: each objective with noise, a learning rate and a limit of the gradient of its own.

    Args:
        stack: the objectives.
        configs: how each is trained.
        fabric: where.
    """

    objective: Stack

    def __init__(self, stack: Stack, configs: Sequence[Config], fabric: Any) -> None:
        super().__init__(stack, configs[0], fabric)
        self.shape = (stack.count,)
        self.seeds = [config.seed for config in configs]
        self.own_noise = not configs[0].graph
        self.groups = stack.parameter_groups()
        self.own_rates = {name: [c.groups.get(name, c.optimiser).lr for c in configs] for name in self.settings}
        # A step is proportional to its rate, so each objective takes the step of the first one's rate, rescaled.
        self.ratios = {
            name: torch.tensor([rate / rates[0] for rate in rates], device=fabric.device)
            for name, rates in self.own_rates.items()
            if len(set(rates)) > 1
        }

    def identity(self) -> dict[str, Any]:
        """The identity of the first objective, with the seeds, the rates and the constants of all."""
        names = self.objective.names
        rates = {f"groups[{name!r}].lr": rates for name, rates in self.own_rates.items()}
        own = {
            f"objective.{name}": repr(getattr(self.objective, names[name]).tolist())
            for name in constants(self.computed)
        }
        return {**super().identity(), "seed": self.seeds, **rates, **own}

    @property
    def computed(self) -> Objective:
        """The objective that stands for all."""
        return self.objective.model

    def _seed(self, *place: int) -> None:
        seeds = self.seeds[:1] if self.own_noise else self.seeds
        seed_noise(seeds[0], *seeds[1:], *place, device=self.fabric.device)
        self.noise = MemberNoise(self.seeds, place, self.fabric.device) if self.own_noise else None

    def _noise(self, share: Share) -> Any:
        return super()._noise(share) if self.noise is None else self.noise

    def share(self, batch: Sequence[Tensor]) -> Share:
        """All of it: there is one process."""
        return Share.of(self.rows(batch), 0, 1)

    def rows(self, batch: Sequence[Tensor]) -> int:
        """The number of inputs of one objective in a batch."""
        return batch[0].shape[1]

    @torch.no_grad()
    def _update(self, name: str, optimiser: Any) -> None:
        parameters, clip = self.groups[name], self.settings[name].clip
        if clip is not None:
            _clip(parameters, clip)
        before = [p.clone() for p in parameters] if name in self.ratios else []
        optimiser.step()
        for p, old in zip(parameters, before, strict=False):
            ratio = _beside(self.ratios[name].to(p.dtype), p)
            p.copy_(torch.lerp(old, p, ratio))

    def rates_now(self) -> list[dict[str, float]]:
        """The learning rates of each objective, by group."""
        (now,) = super().rates_now()
        first = {name: rates[0] for name, rates in self.own_rates.items()}
        return [
            {f"lr/{name}": now[f"lr/{name}"] * rates[place] / first[name] for name, rates in self.own_rates.items()}
            for place in range(self.objective.count)
        ]

    def split(self, values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Values of each objective, from values of all."""
        return [{name: value[place] for name, value in values.items()} for place in range(self.objective.count)]

    def weights(self, place: int) -> dict[str, Tensor]:
        """The tensors of an objective."""
        return self.objective.member(place)

    def put(self, place: int, weights: Mapping[str, Tensor]) -> None:
        """Puts tensors back into the stack."""
        self.objective.put(place, weights)

    def finite(self) -> list[bool]:
        """Whether all weights of each objective are; waits for the device."""
        each = [p.isfinite().reshape(len(p), -1).all(1) for p in self.objective.parameters()]
        return torch.stack(each).all(0).tolist()


def _clip(parameters: Sequence[Tensor], clip: float) -> None:
    """As `torch.nn.utils.clip_grad_norm_` does, for each objective."""
    slopes = [p.grad for p in parameters if p.grad is not None]
    if not slopes:  # it is a group that a burn-in leaves alone
        return
    norms = torch.stack([slope.reshape(len(slope), -1).norm(dim=1) for slope in slopes]).norm(dim=0)
    factor = (clip / (norms + 1e-6)).clamp(max=1.0)
    for slope in slopes:
        slope.mul_(_beside(factor, slope))


def _beside(numbers: Tensor, p: Tensor) -> Tensor:
    """One number for each objective, `(M, 1, ...)`."""
    return numbers.view(-1, *[1] * (p.ndim - 1))


def _several(name: str, given: Any) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"{name}: received {describe(given)}; accepted is a sequence, with one for each model")
    return list(given)


def _check(
    objectives: Sequence[Objective],
    loaders: Sequence[Loader],
    configs: Sequence[Config],
    validation: Sequence[Loader] | None,
) -> None:
    """Raises a `ValueError` unless there is one of each for every objective, and configurations differ as they may."""
    if not objectives:
        raise ValueError("objectives: received none; accepted is at least one")
    for place, objective in enumerate(objectives):
        check_objective(f"objectives[{place}]", objective)
        if (twin := next(k for k, other in enumerate(objectives) if other is objective)) != place:
            got = f"the same object as objectives[{twin}], which can only become one of the two"
            raise ValueError(f"objectives[{place}]: received {got}; accepted is one of its own")
    _check_apart(objectives)
    for name, given in {"loaders": loaders, "config": configs, "validation": validation}.items():
        if given is not None and len(given) != len(objectives):
            raise ValueError(
                f"{name}: received {len(given)} for {len(objectives)} objectives; accepted is one for each"
            )
    for place, config in enumerate(configs):
        check_kind(f"config[{place}]", config, Config)
    if configs[0].compile:
        raise ValueError("compile: received True; accepted is False (on CUDA graph=True takes the host out of a step)")
    if configs[0].devices * configs[0].num_nodes > 1:
        got = f"{configs[0].devices} on {configs[0].num_nodes} machines"
        raise ValueError(f"devices: received {got}; accepted is one on one machine")
    for place, config in enumerate(configs):
        for field in fields(Config):
            one, other = (_shared(getattr(c, field.name), field.name) for c in (configs[0], config))
            if one != other:
                why = f"received {other}, the first has {one}; accepted are a seed and learning rates of one's own"
                raise ValueError(f"config[{place}].{field.name}: {why}")


def _check_apart(objectives: Sequence[Objective]) -> None:
    """Raises a `ValueError` for a parameter that two objectives train, since it cannot become both."""
    owner: dict[int, int] = {}
    for place, objective in enumerate(objectives):
        for name, p in objective.named_parameters():
            if p.requires_grad and owner.setdefault(id(p), place) != place:
                got = f"{name}, which is also trained in objectives[{owner[id(p)]}]"
                raise ValueError(f"objectives[{place}]: received {got}; accepted is one of its own, such as a deepcopy")


def _shared(value: Any, name: str) -> Any:
    """A setting, less what may differ."""
    if isinstance(value, Optimiser):
        return replace(value, lr=1.0)
    if isinstance(value, Mapping):
        return {key: _shared(own, name) for key, own in value.items()}
    return None if name == "seed" else value


def _hand_back(stack: Stack, place: int, objective: Objective) -> None:
    """Leaves what was trained in the objective, where and in the type in which it was trained."""
    # A weight that is tied to another has two names in the objective, and one in the stack.
    tensors, own = stack.member(place), objective.state_dict()
    trained = {name: tensors[name] for name in own if name in tensors}
    if any(part.dtype != own[name].dtype for name, part in trained.items()):
        objective.double()  # as the whole run was
    objective.to(next(iter(tensors.values())).device)
    objective.load_state_dict(trained, strict=False)
