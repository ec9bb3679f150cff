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
from .base import Experiment, experiments
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
    """Runs experiments and stores their rows, after each seed.

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
    total, done = len(chosen) * len(seeds), 0
    for experiment in chosen:
        for results in _seeds(experiment.id, configs[experiment.id], device, jobs):
            path, done = write(experiment, folder, results), done + 1
            tell(done / total, f"{experiment.id}, {len(results.rows)} rows")
            yield experiment, results, path


def _seeds(name: str, configs: Sequence[Any], device: str, jobs: int) -> Iterator[Results]:
    jobs = min(jobs, len(configs))
    if jobs == 1:
        yield from (_one(name, config, device) for config in configs)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with processes(jobs, threads) as pool:
        waiting = [pool.submit(_one, name, config, device) for config in configs]
        yield from (future.result() for future in as_completed(waiting))


def _one(name: str, config: Any, device: str) -> Results:
    start = time.monotonic()
    rows = experiments()[name].run(config)
    return record(config, rows, device=device, seconds=time.monotonic() - start)
