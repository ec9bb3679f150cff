"""Running experiments: one run for each seed, several at a time where a device would otherwise wait for the host."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from pathlib import Path
from typing import Any, TypeVar

import torch

from ..utils.processes import processes
from .base import Experiment, NoRows, experiments
from .store import Results, path_of, read, record, write

__all__ = ["pick_device", "reproduce"]

LOG = logging.getLogger("erlangen.papers")
MOST = 6  # processes that share a device
T = TypeVar("T")


def pick_device(name: str) -> str:
    """The device by its name; "auto" is CUDA where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise ValueError(f"device: received {name!r}; accepted is one of auto, cpu, cuda")
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise ValueError("device: received 'cuda', but torch sees no such device here; accepted is cpu")
    return "cuda" if there and name != "cpu" else "cpu"


def reproduce(
    chosen: Sequence[Experiment],
    folder: Path,
    *,
    smoke: bool = False,
    device: str = "cpu",
    seeds: Sequence[int] = (0,),
    jobs: int | None = None,
    changes: Mapping[str, Any] | None = None,
    tell: Callable[[float, str], None] = lambda share, what: None,
) -> Iterator[tuple[Experiment, Results, Path]]:
    """Runs experiments and stores their rows, after each seed and each of the parts that are computed apart.

    Where one fails in running, as a training that diverges or has no memory left does, the others go on.

    Args:
        chosen: which.
        folder: where result files are.
        smoke: whether to run the configuration of seconds.
        device: "cpu" or "cuda".
        seeds: which.
        jobs: how many seeds at a time, each in a process of its own; if None, one on the CPU, and on CUDA, where small
            models leave the device idle most of the time, as many as there are, up to six.
        changes: other settings of the experiments, such as `pair`.
        tell: called with the share done and what was done.

    Yields:
        The experiment, what was computed, and the file.

    Raises:
        RuntimeError: what the first that failed said, when the others are done.
        OSError, ValueError: rows have no place, or what is stored there cannot be read; nothing was run.
    """
    if jobs is None:
        jobs = min(len(seeds), MOST, os.cpu_count() or 1) if device == "cuda" else 1
    configs = {e.id: [e.config(smoke=smoke, device=device, seed=s, **changes or {}) for s in seeds] for e in chosen}
    for experiment in chosen:  # what could not be stored is refused before hours of training, not after
        read(experiment, folder)
        path_of(experiment, folder).parent.mkdir(parents=True, exist_ok=True)
    total = sum(len(e.parts(config)) for e in chosen for config in configs[e.id])
    seeds_of = (((e, *found) for found in _seeds(e.id, configs[e.id], folder, device, jobs)) for e in chosen)
    for done, (experiment, results, path) in enumerate(_all(seeds_of), 1):
        tell(done / total, f"{experiment.id}, {len(results.rows)} rows")
        yield experiment, results, path


def _all(several: Iterable[Iterable[T]]) -> Iterator[T]:
    """What each of several yields; the error of one that fails in running is raised when the others are done."""
    failed: RuntimeError | None = None
    for one in several:
        try:
            yield from one
        except RuntimeError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _seeds(name: str, configs: Sequence[Any], folder: Path, device: str, jobs: int) -> Iterator[tuple[Results, Path]]:
    jobs = min(jobs, len(configs))
    if jobs == 1:
        yield from _all(_one(name, config, folder, device) for config in configs)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with processes(jobs, threads) as pool:
        waiting = [pool.submit(_listed, name, config, folder, device) for config in configs]
        yield from _all(map(_result, as_completed(waiting)))


def _result(future: Future[list[T]]) -> Iterator[T]:
    """What another process returned, asked for when it is wanted."""
    yield from future.result()


def _listed(*args: Any) -> list[tuple[Results, Path]]:
    """`_one` for another process, which stores each part itself and tells of all of them at the end."""
    return list(_one(*args))


def _one(name: str, config: Any, folder: Path, device: str) -> Iterator[tuple[Results, Path]]:
    """Runs a seed and stores its rows, part by part."""
    experiment, empty, found = experiments()[name], None, False

    def stored(part: Any) -> Iterator[tuple[Results, Path]]:
        nonlocal empty, found
        start = time.monotonic()
        try:
            rows = experiment.run(part)
        except NoRows as error:  # not every method has every data set
            empty = error
            return
        except RuntimeError as error:
            which = ", ".join(f"{place}={getattr(part, place)}" for place in (*experiment.apart, "seed"))
            LOG.warning("%s, %s failed: %s", name, which, error)
            raise
        found = True
        results = record(part, rows, device=device, seconds=time.monotonic() - start)
        yield results, write(experiment, folder, results)

    yield from _all(map(stored, experiment.parts(config)))
    if empty is not None and not found:
        raise empty
