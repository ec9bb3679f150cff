"""One step, on one process or several: what needs Lightning Fabric."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ..objectives import Objective
from ..utils.shapes import check_kind, describe
from .config import Config, Optimiser, rate_on
from .graph import Graphs
from .noise import GlobalNoise, Share, seed_noise
from .stack import described, words

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Engine", "check_objective", "launch"]

WHOLE = {"SingleDeviceStrategy", "DDPStrategy"}  # each process has all weights, as checkpoints need


def check_objective(name: str, objective: object) -> None:
    """Raises a `ValueError` unless it is an objective whose weights can be trained."""
    objective = check_kind(name, objective, Objective)
    tensors = (*objective.parameters(), *objective.buffers())
    if any(map(is_lazy, tensors)):
        got = "weights that have no shape yet, of a lazy module"
        raise ValueError(f"{name}: received {got}; accepted is one that has seen a batch, objective(batch)")
    if any(tensor.is_inference() for tensor in tensors):
        got = "weights that were made under torch.inference_mode"
        raise ValueError(f"{name}: received {got}; accepted is one that was made outside of it, or under no_grad")
    _check_groups(name, objective)


def _check_groups(name: str, objective: Objective) -> None:
    groups = objective.parameter_groups()
    if not isinstance(groups, dict):
        accepted = "a dict of parameters by the name of their group"
        raise ValueError(f"{name}: received {describe(groups)} from parameter_groups; accepted is {accepted}")
    if not groups:
        raise ValueError(f"{name}: received one without parameter groups; accepted is one with something to train")
    own, seen = set(objective.parameters()), set[nn.Parameter]()
    for group, parameters in groups.items():
        parameters = set(parameters)
        if not own.issuperset(parameters):  # no checkpoint would keep the others
            got = f"parameters in the group {group!r} that are those of no module of it"
            raise ValueError(f"{name}: received {got}; accepted are some of objective.parameters()")
        if not parameters or seen & parameters:
            why = "no parameters" if not parameters else "a parameter that is in another group as well"
            raise ValueError(f"{name}: received {why} in the group {group!r}; accepted are groups of their own")
        seen |= parameters


def launch(objective: Objective, config: Config) -> Fabric:
    """Starts the processes. In each of them the script runs up to here, and joins the others."""
    from lightning_fabric import Fabric

    strategy = config.strategy
    if strategy == "auto" and config.devices * config.num_nodes > 1:
        # A burn-in leaves parameters idle, which DDP has to be told.
        strategy = "ddp_find_unused_parameters_true" if getattr(objective, "burn_in", 0) else "ddp"
    places: Any = {"accelerator": config.accelerator, "devices": config.devices, "num_nodes": config.num_nodes}
    with _silent("lightning_fabric"):  # Fabric announces itself on standard error
        precision = "32-true" if config.precision == "tf32-mixed" else config.precision
        fabric = Fabric(strategy=strategy, precision=precision, **places)
        fabric.launch()
    return fabric


class Engine:
    """An objective, its optimisers, and the processes that train it.

    Args:
        objective: what is trained.
        config: how.
        fabric: where.
    """

    shape: tuple[int, ...] = ()  # the shape of each loss

    def __init__(self, objective: Objective, config: Config, fabric: Fabric) -> None:
        if type(fabric.strategy).__name__ not in WHOLE:
            got = type(fabric.strategy).__name__
            raise ValueError(f"strategy: received {got}; accepted is one device, or DDP")
        self.fabric, self.objective, self.seed = fabric, objective, config.seed
        self.settings = _settings(objective, config)
        objective.to(fabric.device)
        if config.channels_last:
            objective.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue, reportArgumentType]
        groups = objective.parameter_groups()
        if config.graph and (fabric.device.type != "cuda" or fabric.world_size > 1):
            got = f"True for {fabric.world_size} processes on {fabric.device.type}"
            raise ValueError(f"graph: received {got}; accepted is True for one process on cuda")
        make = (s.build(list(groups[name]), fabric.device, config.graph) for name, s in self.settings.items())
        optimisers = list(make)
        forward: Any = torch.compile(objective) if config.compile else objective
        self.compiled, self.rounded = config.compile, config.precision == "tf32-mixed"
        self.module, *wrapped = fabric.setup(forward, *optimisers)
        self.optimisers: dict[str, Any] = dict(zip(self.settings, wrapped, strict=True))
        self.graphs = Graphs() if config.graph else None
        self.rates = {name: rate_on(fabric.device, 0.0) for name in self.settings}

    def identity(self) -> dict[str, Any]:
        """The settings that must be the same when a run goes on: the seed of the noise, and all that is not trained."""
        settings = {f"groups[{name!r}]": words(s) for name, s in self.settings.items()}
        return {"seed": self.seed, **settings, **described(self.computed)}

    @property
    def computed(self) -> Objective:
        """The module that computes the losses."""
        return self.objective

    def share(self, batch: Sequence[Tensor]) -> Share:
        """This process's part of a global batch."""
        return Share.of(len(batch[0]), self.fabric.global_rank, self.fabric.world_size)

    def losses(self, batch: Sequence[Tensor], *place: int) -> dict[str, Tensor]:
        """The objective on this process's rows, with the noise of a place in the run."""
        self._seed(*place)
        return self._losses(batch)

    def _seed(self, *place: int) -> None:
        # `GlobalNoise` does not see the draws of compiled code, so each process then has noise of its own.
        rank = (self.fabric.global_rank,) if self.compiled and self.fabric.world_size > 1 else ()
        seed_noise(self.seed, *place, *rank, device=self.fabric.device)

    def _losses(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        share = self.share(batch)
        with self._noise(share):
            return self.module(batch if self.fabric.world_size == 1 else share.cut(batch))

    def _noise(self, share: Share) -> Any:
        """The context in which the losses are computed."""
        if self.compiled:
            return _eagerly()
        return nullcontext() if self.fabric.world_size == 1 else GlobalNoise(share)

    def step(self, batch: Sequence[Tensor], step: int, factors: dict[str, float]) -> dict[str, Tensor]:
        """Takes a step and returns its losses, on the device."""
        for name, optimiser in self.optimisers.items():
            rate: Any = float(self.settings[name].lr * factors[name])  # a schedule of one's own may return any number
            if self.graphs is not None:  # a graph reads the rate from the tensor that it was recorded with
                rate = self.rates[name].fill_(rate)
            for group in optimiser.param_groups:
                group["lr"] = rate
        self._seed(0, step)
        with _rounded_products() if self.rounded else nullcontext():
            if self.graphs is None:
                return self._take(batch)
            with _searched_convolutions():
                losses, replayed = self.graphs(self._take, self.objective.branch(), batch)
        if replayed:
            self.objective.counted()
        return losses

    def _take(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        losses, weight = self._losses(batch), self.share(batch).weight
        total = losses["loss"].sum()
        if not total.requires_grad:
            raise ValueError("objective: received a loss without a gradient; accepted is one of what it trains")
        self.fabric.backward(total if weight == 1 else total * weight)
        for name, optimiser in self.optimisers.items():
            self._update(name, optimiser)
        self.objective.zero_grad(set_to_none=True)
        return losses

    def _update(self, name: str, optimiser: Any) -> None:
        settings = self.settings[name]
        if settings.clip is not None:
            self.fabric.clip_gradients(self.module, optimiser, max_norm=settings.clip, error_if_nonfinite=False)
        optimiser.step()

    def rows(self, batch: Sequence[Tensor]) -> int:
        """The number of inputs of an objective in a batch."""
        return len(batch[0])

    def rates_now(self) -> list[dict[str, float]]:
        """The learning rates of each objective, by group."""
        return [{f"lr/{name}": float(o.param_groups[0]["lr"]) for name, o in self.optimisers.items()}]

    def split(self, values: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Values of each objective."""
        return [values]

    def weights(self, place: int) -> dict[str, Tensor]:
        """The weights of an objective."""
        return self.objective.state_dict()

    def put(self, place: int, weights: Mapping[str, Tensor]) -> None:
        """Puts weights back into an objective."""
        self.objective.load_state_dict(weights)

    def mean(self, x: Tensor) -> Tensor:
        """The mean over processes."""
        return x if self.fabric.world_size == 1 else self.fabric.all_reduce(x, reduce_op="mean")  # pyright: ignore[reportReturnType]

    def finite(self) -> list[bool]:
        """Whether all weights of each objective are; waits for the device."""
        return [all(bool(p.isfinite().all()) for p in self.objective.parameters())]


def _settings(objective: Objective, config: Config) -> dict[str, Optimiser]:
    groups = objective.parameter_groups()
    if unknown := sorted(set(config.groups) - set(groups)):
        raise ValueError(f"groups: received optimisers for {unknown}; accepted are the names {sorted(groups)}")
    return {name: config.groups.get(name, config.optimiser) for name in groups}


def _eagerly() -> Any:
    """Compiled code differentiates in the types of the forward pass, as eager mode does.

    Otherwise autocast reaches into the backward pass of what runs in float32 on purpose: flows and warps.
    """
    from torch._functorch import config

    known = hasattr(config, "backward_pass_autocast")  # it is no public setting
    return config.patch(backward_pass_autocast="off") if known else nullcontext()


@contextmanager
def _rounded_products() -> Iterator[None]:
    """Matrix products in TF32, which is a setting of the whole process."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _searched_convolutions() -> Iterator[None]:
    """Convolutions in the fastest way that cuDNN finds by trying: worth it where shapes stay, as in a graph."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def _silent(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
