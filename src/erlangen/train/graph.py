"""A training step as one CUDA graph: its hundreds of launches are recorded once, and then cost the host one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

__all__ = ["Graphs"]

Take: TypeAlias = Callable[[Sequence[Tensor]], dict[str, Tensor]]
WARM = 3  # steps of a kind that are taken as they are: optimisers make their state, compilers compile


class Recorded(NamedTuple):
    """A step: the graph, the batch that it reads, and the losses that it writes, by their names."""

    graph: torch.cuda.CUDAGraph
    batch: tuple[Tensor, ...]
    names: tuple[str, ...]
    losses: Tensor


class Graphs:
    """Takes steps, and replays those of which it has seen a few of the same kind.

    Nothing in a step may wait for the device, and what the step decides on the host belongs to its kind. Noise comes
    from the global generator of the device, whose seed is looked at in every replay.
    """

    def __init__(self) -> None:
        self.taken: dict[Hashable, int] = {}
        self.recorded: dict[Hashable, Recorded] = {}
        self.stream = torch.cuda.Stream()

    def __call__(self, take: Take, branch: Hashable, batch: Sequence[Tensor]) -> tuple[dict[str, Tensor], bool]:
        """The losses of a step, and whether nothing of it ran on the host.

        Args:
            take: takes a step with a batch, and returns its losses.
            branch: what the step decides on the host.
            batch: the tensors of the batch.
        """
        batch = tuple(batch)  # compiled code looks at the type: another one in the recording would compile there
        kind = (branch, *((x.shape, x.dtype) for x in batch))
        if not self.taken:
            # Models, graphs and compiled code of an earlier run leave before this one, not in the midst of it. Once: it
            # takes as long as many steps, and some kinds have one step alone.
            gc.collect()
        if self.taken.setdefault(kind, 0) < WARM:
            self.taken[kind] += 1
            return self._aside(take, batch), False
        known = kind in self.recorded
        if not known:
            self.recorded[kind] = self._record(take, batch)
        graph, inputs, names, losses = self.recorded[kind]
        for own, new in zip(inputs, batch, strict=True):
            own.copy_(new)
        graph.replay()
        # A copy: the next replay writes to the same place.
        return dict(zip(names, losses.clone().unbind(), strict=True)), known

    def _aside(self, take: Take, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """A step on the stream of the recording, as the memory of a graph wants it."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            losses = take(batch)
        torch.cuda.current_stream().wait_stream(self.stream)
        return losses

    def _record(self, take: Take, batch: Sequence[Tensor]) -> Recorded:
        """Records a step, which takes none."""
        graph, inputs = torch.cuda.CUDAGraph(), tuple(x.clone() for x in batch)
        pool = next((recorded.graph.pool() for recorded in self.recorded.values()), None)
        with _uncollected(), torch.cuda.graph(graph, pool=pool, stream=self.stream):
            losses = take(inputs)
            shape = losses["loss"].shape
            values = torch.stack([value.detach().reshape(shape).to(losses["loss"]) for value in losses.values()])
        return Recorded(graph, inputs, tuple(losses), values)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection, which could destroy another graph: that is not allowed during a recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
