"""Batches on the device, in an order that is a function of the seed and the epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from numbers import Integral
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..utils.seeds import generator
from ..utils.shapes import check_count, check_tensor, describe

__all__ = ["Loader", "TensorLoader", "check_loader"]

SHARE = 0.5  # the share of a device's free memory that a data set may take


class Loader(Protocol):
    """What `fit` reads. With several processes each reads the whole global batch, and takes its own rows of it."""

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        ...

    def epoch(self, number: int, device: torch.device, start: int = 0) -> Iterator[Sequence[Tensor]]:
        """The batches of an epoch on the device, from `start` on; the same ones at every call with the same number.

        An order may be drawn from the global generators, before the first batch: `fit` seeds them by the epoch.
        """
        ...


def check_loader(name: str, batches: object) -> Loader:
    """Returns what `fit` can read, else raises a `ValueError`, for a loader of torch for example."""
    if not all(hasattr(batches, own) for own in ("epoch", "__len__")):
        accepted = "a Loader, with epoch(number, device, start) and a length, such as TensorLoader(x, y, batch_size=64)"
        raise ValueError(f"{name}: received {describe(batches)}; accepted is {accepted}")
    return batches  # pyright: ignore[reportReturnType]


class TensorLoader:
    """A data set of tensors: whole on the device when it takes at most half of the free memory, else streamed to it.

    Args:
        *tensors: inputs, labels, whatever a batch has; their first dimensions agree.
        batch_size: the rows of a batch; of all processes together.
        seed: of the order.
        shuffle: whether each epoch has an order of its own.
        drop_last: whether the rows that do not fill a batch are left out.
    """

    def __init__(
        self, *tensors: Tensor, batch_size: int, seed: int = 0, shuffle: bool = True, drop_last: bool = False
    ) -> None:
        if not tensors:
            raise ValueError("tensors: received none; accepted is at least one")
        rows = len(check_tensor("tensors[0]", tensors[0], "a tensor with rows", _has_rows(tensors[0])))
        for i, tensor in enumerate(tensors):
            ok = _has_rows(tensor) and len(tensor) == rows
            check_tensor(f"tensors[{i}]", tensor, f"a tensor with {rows} rows", ok)
        self.tensors, self.seed, self.shuffle = tensors, seed, shuffle
        self.batch_size = check_count("batch_size", batch_size)
        self.rows = rows // batch_size * batch_size if drop_last else rows
        if not self.rows:
            raise ValueError(f"tensors: received {rows} rows; accepted is at least {batch_size if drop_last else 1}")

    def __len__(self) -> int:
        return -(-self.rows // self.batch_size)

    def of(self, *tensors: Tensor) -> TensorLoader:
        """The same batches of other tensors, which have as many rows."""
        made = copy(self)
        made.tensors = tensors
        return made

    def epoch(self, number: int, device: torch.device, start: int = 0) -> Iterator[tuple[Tensor, ...]]:
        """The batches of an epoch, from `start` on."""
        self._settle(device)
        home = self.tensors[0].device
        for rows in self.order(number)[start * self.batch_size :].to(home).split(self.batch_size):
            batch = [tensor.index_select(0, rows) for tensor in self.tensors]
            if home != device and device.type == "cuda":
                batch = [tensor.pin_memory() for tensor in batch]  # only pinned memory is copied without waiting
            yield tuple(tensor.to(device, non_blocking=True) for tensor in batch)

    def order(self, number: int) -> Tensor:
        """The rows of an epoch in their order, on the CPU."""
        n = len(self.tensors[0])
        index = order(n, seed=self.seed, epoch=number) if self.shuffle else torch.arange(n)
        return index[: self.rows]

    def whole(self, device: torch.device) -> bool:
        """Whether all of it lies on the device; it is moved there if there is room."""
        self._settle(device)
        return all(tensor.device == device for tensor in self.tensors)

    def _settle(self, device: torch.device) -> None:
        if device.type == "cuda" and any(tensor.device != device for tensor in self.tensors):
            size = sum(tensor.numel() * tensor.element_size() for tensor in self.tensors)
            if size > SHARE * torch.cuda.mem_get_info(device)[0]:
                return
        self.tensors = tuple(tensor.to(device) for tensor in self.tensors)


def order(n: int, *, seed: int, epoch: int) -> Tensor:
    """The order of n rows in an epoch: a permutation that depends on nothing but the arguments.

    Shape:
        result: `(n,)`, int64, on the CPU.
    """
    for name, value in (("seed", seed), ("epoch", epoch)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name}: received {describe(value)}; accepted is an integer >= 0")
    state = np.random.SeedSequence((int(seed), int(epoch))).generate_state(1, np.uint64)[0]
    return torch.randperm(n, generator=generator(int(state >> np.uint64(1))))


def _has_rows(x: object) -> bool:
    return isinstance(x, Tensor) and x.ndim > 0
