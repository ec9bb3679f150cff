"""Batches of a data set: one tensor, one permutation for each epoch, and no worker processes."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from ..utils.seeds import generator
from ..utils.shapes import check_count, describe
from .sets import DataSet

__all__ = ["batches", "order"]


def order(n: int, *, seed: int, epoch: int) -> Tensor:
    """The order of `n` signals in an epoch: a permutation that depends on nothing but the arguments.

    Shape:
        result: `(n,)`, int64, on the CPU.
    """
    for name, value in (("seed", seed), ("epoch", epoch)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name}: received {describe(value)}; accepted is an integer >= 0")
    state = np.random.SeedSequence((int(seed), int(epoch))).generate_state(1, np.uint64)[0]
    return torch.randperm(n, generator=generator(int(state >> np.uint64(1))))


def batches(
    data: DataSet,
    batch_size: int,
    *,
    seed: int = 0,
    epoch: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    start: int = 0,
    device: torch.device | str | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of one epoch, the same for the same seed and epoch on every device.

    A set that is already on the device (`data.to(device)`) is indexed there, without waiting for the device; a set that
    stays elsewhere is streamed, a batch at a time.

    Args:
        data: the set.
        batch_size: signals to a batch.
        seed: with `epoch`, of the order.
        epoch: which epoch this is.
        shuffle: whether to shuffle; otherwise the order of the set.
        drop_last: whether to leave out a last batch that is smaller.
        start: the first step to take: a run that stopped after n steps of the epoch goes on with `start=n`.
        device: where the batches go; where the set is, if not given.

    Yields:
        x and y of a batch.

    Example:
        >>> data = DataSet(torch.zeros(5, 1, 4), torch.arange(5), tuple("abcde"), "letters")
        >>> [y.tolist() for _, y in batches(data, 2, shuffle=False)]
        [[0, 1], [2, 3], [4]]
        >>> [y.tolist() for _, y in batches(data, 2, shuffle=False, drop_last=True, start=1)]
        [[2, 3]]
    """
    check_count("batch_size", batch_size)
    n = len(data)
    steps = n // batch_size if drop_last else -(-n // batch_size)
    if steps == 0:
        raise ValueError(f"batch_size: received {batch_size} with drop_last; accepted is at most {n}, the whole set")
    if not isinstance(start, int) or not 0 <= start <= steps:
        raise ValueError(f"start: received {start!r}; accepted is a step of the epoch, 0 to {steps}")
    index = order(n, seed=seed, epoch=epoch) if shuffle else None
    return _walk(data, index, range(start * batch_size, steps * batch_size, batch_size), batch_size, device)


def _walk(
    data: DataSet, index: Tensor | None, starts: range, batch_size: int, device: torch.device | str | None
) -> Iterator[tuple[Tensor, Tensor]]:
    here = data.x.device
    target = here if device is None else torch.device(device)
    index = None if index is None else _send(index, here)  # once for the epoch
    for i in starts:
        window = slice(i, i + batch_size)
        x, y = (t[window] if index is None else t.index_select(0, index[window]) for t in (data.x, data.y))
        yield _send(x, target), _send(y, target)


def _send(t: Tensor, device: torch.device) -> Tensor:
    """Copies to a device without waiting for it, for which memory of the host has to be pinned."""
    pinned = device.type == "cuda" and t.device.type == "cpu"
    return (t.pin_memory() if pinned else t).to(device, non_blocking=True)
