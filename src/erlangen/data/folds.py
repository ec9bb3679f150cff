"""Small training sets from a large one: folds that do not overlap, each with a validation fold of its own."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeds import generator
from ..utils.shapes import check_count
from .sets import DataSet

__all__ = ["Fold", "folds"]


class Fold(NamedTuple):
    """A small training set, and what was set aside to choose settings on; None if nothing was."""

    train: DataSet
    validation: DataSet | None


def folds(data: DataSet, size: int, *, count: int = 5, seed: int = 0, validation: int = 0) -> list[Fold]:
    """Draws training sets, and validation sets, none of which share a signal.

    The classes are even: each has `size / K` signals, rounded up or down. MNIST30 of P-STN, section 5.2.1, is
    `folds(mnist(), 30)`: five times three of each digit. The training folds do not depend on `validation`.

    Args:
        data: the set.
        size: of each training set, at least one signal of each class.
        count: how many folds.
        seed: of the choice, which is the same on every device.
        validation: the size of each validation set, 0 for none.

    Raises:
        ValueError: the set has too few signals of a class.

    Example:
        >>> data = DataSet(torch.zeros(12, 1, 4, 4), torch.arange(12) % 2, ("cat", "dog"), "pets")
        >>> [(fold.train.counts(), fold.validation.counts()) for fold in folds(data, 4, count=2, validation=2)]
        [([2, 2], [1, 1]), ([2, 2], [1, 1])]
    """
    check_count("count", count)
    classes = len(data.classes)
    if check_count("size", size) < classes:
        raise ValueError(f"size: received {size}; accepted is at least {classes}, one signal of each class")
    if not isinstance(validation, Integral) or isinstance(validation, bool) or validation < 0:
        raise ValueError(f"validation: received {validation!r}; accepted is a number of signals >= 0")
    wanted = [size] * count + [validation] * count
    _check_enough(data, wanted)
    index = _deal(data, wanted, seed)
    parts = [data.subset(i, name=f"{data.name}-{len(i)}") if len(i) else None for i in index]
    return [Fold(train, held) for train, held in zip(parts[:count], parts[count:], strict=True) if train is not None]


def _share(size: int, classes: int, c: int) -> int:
    """How many of `size` signals are of class c."""
    return size // classes + (c < size % classes)


def _check_enough(data: DataSet, wanted: list[int]) -> None:
    classes = len(data.classes)
    needed = [sum(_share(size, classes, c) for size in wanted) for c in range(classes)]
    if short := [f"{data.classes[c]!r} has {n}, not {needed[c]}" for c, n in enumerate(data.counts()) if n < needed[c]]:
        got = f"{len(wanted) // 2} folds of {wanted[0]} and {wanted[-1]} for validation"
        raise ValueError(f"size: received {got}, but {', '.join(short[:5])}; accepted is what every class can fill")


def _deal(data: DataSet, wanted: list[int], seed: int) -> list[Tensor]:
    """The signals of each part, in the order of the set."""
    chance, y, classes = generator(seed), data.y.cpu(), len(data.classes)
    parts: list[list[Tensor]] = [[] for _ in wanted]
    for c in range(classes):
        members = (y == c).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=chance)]
        shares = [_share(size, classes, c) for size in wanted]
        for part, some in zip(parts, members.split([*shares, len(members) - sum(shares)]), strict=False):
            part.append(some)
    return [torch.cat(part).sort().values for part in parts]
