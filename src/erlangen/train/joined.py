"""The batches of several loaders side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..utils.shapes import describe
from .loader import Loader, TensorLoader, check_loader

__all__ = ["Joined"]


class Joined:
    """Batches of several loaders as tensors `(M, B, ...)`.

    Tensors that lie on the device are read in one piece, those that several loaders share once.

    Args:
        name: of the argument, for errors.
        loaders: of equal length, with batches of equal shapes.
    """

    def __init__(self, name: str, loaders: Sequence[Loader]) -> None:
        lengths = [len(check_loader(f"{name}[{place}]", loader)) for place, loader in enumerate(loaders)]
        if len(set(lengths)) != 1:
            raise ValueError(f"{name}: received loaders of {lengths} batches; accepted are as many batches in each")
        self.name, self.loaders = name, loaders
        self._pools: list[tuple[Tensor, Tensor]] | None = None

    def __len__(self) -> int:
        return len(self.loaders[0])

    def epoch(self, number: int, device: torch.device, start: int = 0) -> Iterator[tuple[Tensor, ...]]:
        """The batches of an epoch, from `start` on."""
        plain = [loader for loader in self.loaders if isinstance(loader, TensorLoader)]
        if len(plain) == len(self.loaders) and all(loader.whole(device) for loader in plain) and _alike(plain):
            return self._pooled(plain, number, start)
        return self._stacked(number, device, start)

    def _stacked(self, number: int, device: torch.device, start: int) -> Iterator[tuple[Tensor, ...]]:
        """Batch by batch, of any loaders."""
        for batches in zip(*(loader.epoch(number, device, start) for loader in self.loaders), strict=True):
            for batch in batches:
                if [t.shape for t in batch] != [t.shape for t in batches[0]]:
                    got = " and ".join(describe(t) for t in (batches[0][0], batch[0]))
                    raise ValueError(f"{self.name}: received batches with {got}; accepted are batches of equal shapes")
            yield tuple(torch.stack(parts) for parts in zip(*batches, strict=True))

    def _pooled(self, loaders: Sequence[TensorLoader], number: int, start: int) -> Iterator[tuple[Tensor, ...]]:
        """One look-up for all, in tensors on the device."""
        if self._pools is None:
            self._pools = [_pool(parts) for parts in zip(*(loader.tensors for loader in loaders), strict=True)]
        rows = torch.stack([loader.order(number)[start * loader.batch_size :] for loader in loaders])
        rows = rows.to(self._pools[0][0].device)
        for part in rows.split(loaders[0].batch_size, 1):
            yield tuple(
                pool.index_select(0, (part + first).flatten()).unflatten(0, part.shape) for pool, first in self._pools
            )


def _alike(loaders: Sequence[TensorLoader]) -> bool:
    """Whether batches of all have the same shapes and types."""

    def kind(loader: TensorLoader) -> Any:
        return loader.batch_size, loader.rows, [(t.shape[1:], t.dtype) for t in loader.tensors]

    return all(kind(loader) == kind(loaders[0]) for loader in loaders)


def _pool(tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """All rows, those of the same tensor once, and where those of each begin, `(M, 1)`."""
    starts: dict[int, int] = {}
    distinct: list[Tensor] = []
    for tensor in tensors:
        if id(tensor) not in starts:
            starts[id(tensor)] = sum(map(len, distinct))
            distinct.append(tensor)
    whole = distinct[0] if len(distinct) == 1 else torch.cat(distinct)
    return whole, torch.tensor([[starts[id(tensor)]] for tensor in tensors], device=whole.device)
