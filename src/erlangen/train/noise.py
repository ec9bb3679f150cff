"""The noise of a step: a function of the seed and the step, whatever the number of processes.

Each step begins by seeding the global generators, so a run that is resumed, validated more often or logged more often
takes the same steps. With several processes all of them seed alike, and inside `GlobalNoise` every draw for a share of
the batch is made for the whole batch and cut: the processes see together what one process would have seen.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["GlobalNoise", "MemberNoise", "Share", "seed_noise"]

NEW = {"rand", "randn", "randint"}
DRAWS = {
    *NEW,
    *("rand_like", "randn_like", "randint_like"),
    *("normal", "bernoulli", "poisson", "binomial", "multinomial", "native_dropout"),
    *("_standard_gamma", "_sample_dirichlet"),
    *("uniform_", "normal_", "bernoulli_", "exponential_", "cauchy_", "geometric_", "log_normal_", "random_"),
}


def seed_noise(seed: int, *place: int, device: torch.device) -> None:
    """Seeds the global generators of torch (on the CPU and the device), numpy and `random` for a place in a run."""
    mixed = _mixed(seed, *place)
    random.seed(mixed)
    np.random.seed(mixed >> 31 & 2**32 - 1)  # noqa: NPY002
    # Not torch.manual_seed: it records a stack trace at every call where CUDA is there but not in use.
    torch.default_generator.manual_seed(mixed)
    if device.type == "cuda":
        torch.cuda.manual_seed(mixed)
    elif device.type != "cpu":
        torch.manual_seed(mixed)


def _mixed(seed: int, *place: int) -> int:
    """One seed for a place in a run."""
    state = np.random.SeedSequence((seed, *place)).generate_state(2)
    return int(state[0]) << 31 ^ int(state[1])


class Share(NamedTuple):
    """The rows of a global batch that are a process's own.

    Attributes:
        start: the first of them.
        size: how many they are.
        total: how many the global batch has.
        weight: what a mean over the own rows is multiplied with, so that the mean over processes is the mean over the
            global batch.
    """

    start: int
    size: int
    total: int
    weight: float

    @classmethod
    def of(cls, total: int, rank: int, world: int) -> Share:
        """The share of a process. A batch with fewer rows than processes is everybody's."""
        if total < world:
            return cls(0, total, total, 1.0)
        start, stop = (total * i // world for i in (rank, rank + 1))
        return cls(start, stop - start, total, (stop - start) * world / total)

    def cut(self, batch: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The own rows of a global batch."""
        return tuple(tensor.narrow(0, self.start, self.size) for tensor in batch)


class GlobalNoise(TorchDispatchMode):
    """Inside, random numbers for a share of the batch are a share of the random numbers for the batch.

    Every random draw of torch passes here, below autograd. A dimension whose size is n times that of the share, n >= 1,
    is taken for n copies of the batch, samples first: `(S, B, d)`, `(B, d)` and `(S * B, C)` are all understood. The
    draw is made with n times the global batch there, and the own rows are cut out. A draw without such a dimension is
    the same in every process.

    Where several dimensions qualify, the second of a new tensor `(S, B, ...)` counts if it is the share exactly, else
    the first. Should that be wrong, the numbers are as random as before, but not those of one process. The same holds
    for draws that use up a varying amount of the generator (gamma, multinomial), and for compiled code, which draws in
    its own way and never comes here.

    Args:
        share: whose noise is drawn.

    Examples:
        >>> _ = torch.manual_seed(0)
        >>> whole = torch.rand(3, 4, 2)
        >>> _ = torch.manual_seed(0)
        >>> with GlobalNoise(Share.of(total=4, rank=1, world=2)):
        ...     half = torch.rand(3, 2, 2)
        >>> torch.equal(half, whole[:, 2:])
        True
    """

    def __init__(self, share: Share) -> None:
        super().__init__()
        self.share = share

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Runs an operation of torch: a random one for the global batch, any other as it is."""
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name not in DRAWS or self.share.size == self.share.total:
            return func(*args, **kwargs)
        shape = next((tuple(a.shape if isinstance(a, Tensor) else a) for a in args if isinstance(a, Tensor | list)), ())
        dim = self._dim(shape, new=name in NEW)
        if dim is None:
            return func(*args, **kwargs)
        drawn = func(*(self._widen(a, shape, dim) for a in args), **kwargs)
        if name.endswith("_"):
            return args[0].copy_(self._cut(drawn, dim))
        return tuple(self._cut(d, dim) for d in drawn) if isinstance(drawn, tuple) else self._cut(drawn, dim)

    def _dim(self, shape: tuple[int, ...], new: bool) -> int | None:
        if new and len(shape) > 2 and shape[1] == self.share.size:
            return 1
        return next((i for i, size in enumerate(shape) if size and size % self.share.size == 0), None)

    def _widen(self, a: Any, shape: tuple[int, ...], dim: int) -> Any:
        start, size, total, _ = self.share
        if isinstance(a, Tensor) and tuple(a.shape) == shape:
            # The other processes' rows are not here, and do not matter: own rows stand in for them.
            rows = (torch.arange(total, device=a.device) - start).clamp(0, size - 1)
            return a.unflatten(dim, (-1, size)).index_select(dim + 1, rows).flatten(dim, dim + 1)
        if isinstance(a, list) and tuple(a) == shape:
            return [*shape[:dim], shape[dim] // size * total, *shape[dim + 1 :]]
        return a

    def _cut(self, drawn: Tensor, dim: int) -> Tensor:
        start, size, total, _ = self.share
        return drawn.unflatten(dim, (-1, total)).narrow(dim + 1, start, size).flatten(dim, dim + 1).contiguous()


class MemberNoise(TorchDispatchMode):
    """Inside, objectives that are mapped over (`torch.func.vmap`) draw what each would draw alone.

    Mapped code draws for all at once, `(M, ...)`. Here each row is drawn with the state in which the generator of the
    device would be in a run of that objective alone; permutations as well, which are drawn for one after another.

    Args:
        seeds: of each objective.
        place: in the run.
        device: where noise is drawn.
    """

    def __init__(self, seeds: Sequence[int], place: Sequence[int], device: torch.device) -> None:
        super().__init__()
        if device.type == "cuda":
            self.generator = torch.cuda.default_generators[device.index or 0]
        else:
            self.generator = torch.default_generator
        self.states, self.turn = [], 0
        for seed in seeds:
            self.generator.manual_seed(_mixed(seed, *place))
            self.states.append(self.generator.get_state())

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Runs an operation of torch: a random one for each objective, any other as it is."""
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name == "randperm":
            self.turn += 1
            return self._draw(func, (self.turn - 1) % len(self.states), args, kwargs)
        if name not in DRAWS:
            return func(*args, **kwargs)
        drawn = [self._draw(func, m, _own(m, args), kwargs) for m in range(len(self.states))]
        if func._schema.name.endswith("_"):  # in place
            return args[0]
        return tuple(map(torch.stack, zip(*drawn, strict=True))) if isinstance(drawn[0], tuple) else torch.stack(drawn)

    def _draw(self, func: Any, m: int, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self.generator.set_state(self.states[m])
        drawn = func(*args, **kwargs)
        self.states[m] = self.generator.get_state()
        return drawn


def _own(m: int, args: tuple[Any, ...]) -> list[Any]:
    """Arguments of one objective. A tensor that all share, such as a mean, has a dimension less than the mapped."""
    rank = max((a.ndim for a in args if isinstance(a, Tensor)), default=0)
    own = [a[m] if isinstance(a, Tensor) and a.ndim == rank else a for a in args]
    return [a[1:] if isinstance(a, list) else a for a in own]
