"""Running experiments: one run for each seed, several at a time where a device would otherwise wait for the host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import torch

from ..utils.processes import processes
from .base import Experiment, NoRows, experiments
from .store import Results, record, write

__all__ = ["pick_device", "reproduce"]

MOST = 6  # processes that share a device


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
    """
    jobs = (min(len(seeds), MOST, os.cpu_count() or 1) if device == "cuda" else 1) if jobs is None else jobs
    configs = {e.id: [e.config(smoke=smoke, device=device, seed=s, **changes or {}) for s in seeds] for e in chosen}
    total, done = sum(len(e.parts(config)) for e in chosen for config in configs[e.id]), 0
    for experiment in chosen:
        for results, path in _seeds(experiment.id, configs[experiment.id], folder, device, jobs):
            done += 1
            tell(done / total, f"{experiment.id}, {len(results.rows)} rows")
            yield experiment, results, path


def _seeds(name: str, configs: Sequence[Any], folder: Path, device: str, jobs: int) -> Iterator[tuple[Results, Path]]:
    jobs = min(jobs, len(configs))
    if jobs == 1:
        for config in configs:
            yield from _one(name, config, folder, device)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with processes(jobs, threads) as pool:
        waiting = [pool.submit(_listed, name, config, folder, device) for config in configs]
        for future in as_completed(waiting):
            yield from future.result()


def _listed(*args: Any) -> list[tuple[Results, Path]]:
    """`_one` for another process, which stores each part itself and tells of all of them at the end."""
    return list(_one(*args))


def _one(name: str, config: Any, folder: Path, device: str) -> Iterator[tuple[Results, Path]]:
    """Runs a seed and stores its rows, part by part."""
    experiment, empty, found = experiments()[name], None, False
    for part in experiment.parts(config):
        start = time.monotonic()
        try:
            rows = experiment.run(part)
        except NoRows as error:  # not every method has every data set
            empty = error
            continue
        results = record(part, rows, device=device, seconds=time.monotonic() - start)
        found = True
        yield results, write(experiment, folder, results)
    if empty is not None and not found:
        raise empty
