"""What the benchmarks share: fair timing, peak memory, and results with their provenance.

Times compare only within one run on one machine, so what is compared runs round-robin, and ratios are taken within
each round. No benchmark asserts a time.
"""

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from erlangen.utils.io import provenance, write_json

RESULTS = Path(__file__).parent / "results"
START = time.perf_counter()

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler is chatty


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    q25, median, q75 = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "q25": q25, "q75": q75}


class Timing(dict[str, float]):
    """Median and quartiles in seconds; ``rounds`` keeps the single times in order and isn't saved."""

    def __init__(self, rounds: Sequence[float]) -> None:
        super().__init__(spread(rounds))
        self.rounds = list(rounds)


def interleaved(functions: Mapping[str, Callable[[], Any]], repeats: int, warmup: int = 1) -> dict[str, Timing]:
    """Time functions against each other: in every round each runs once, in random order.

    Work on a GPU is waited for inside the timed region.

    Args:
        functions: what to time, by name.
        repeats: how many rounds are timed, at least 2.
        warmup: how many rounds go before them untimed.

    Raises:
        ValueError: ``repeats`` is below 2.
    """
    if repeats < 2:
        raise ValueError(f"repeats: received {repeats}, accepted are integers from 2 (a spread needs two)")
    order, shuffler = list(functions), random.Random(0)
    rounds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(warmup + repeats):
        shuffler.shuffle(order)
        for name in order:
            seconds = _timed(functions[name])
            if number >= warmup:
                rounds[name].append(seconds)
    return {name: Timing(times) for name, times in rounds.items()}


def _timed(function: Callable[[], Any]) -> float:
    _wait()
    start = time.perf_counter()
    function()
    _wait()
    return time.perf_counter() - start


def _wait() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def captured(run: Callable[[], Any]) -> Callable[[], None] | None:
    """The same inside a CUDA graph; None where it can't be captured."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            run()
    except RuntimeError:
        return None
    return partial(_replay, graph, run)


def _replay(graph: torch.cuda.CUDAGraph, run: Callable[[], Any]) -> None:
    """A graph reads and writes the tensors that its function holds: as long as there is one, so must there be both."""
    graph.replay()


def ratio(a: Timing, b: Timing) -> dict[str, float]:
    """Median and quartiles of the time of ``a`` over that of ``b``, round by round of the same run."""
    return spread([x / y for x, y in zip(a.rounds, b.rounds, strict=True)])


def peak_memory(function: Callable[[], Any], device: torch.device | str = "cpu") -> int:
    """Most bytes that torch held at one time while a function ran, beyond what it held before.

    The function runs once before it is measured, so that what it caches doesn't count. On the CPU the numbers are
    exact sums over torch's own allocations in this thread (a backward pass runs in it too); scratch memory inside
    compiled libraries is not seen.

    Args:
        function: what to run; what it returns counts while it runs.
        device: where it allocates.
    """
    function()
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        function()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        function()
    return _peak(_memory_events(profiler))


def _memory_events(profiler: profile) -> list[dict[str, Any]]:
    # The exported trace is the public way to every single allocation.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    events = [event for event in events if event.get("name") == "[memory]" and event["args"]["Device Type"] == 0]
    return sorted(events, key=lambda event: event["ts"])


def _peak(events: list[dict[str, Any]]) -> int:
    held: dict[int, int] = {}
    total = peak = 0
    for event in events:
        address, size = event["args"]["Addr"], event["args"]["Bytes"]
        if size > 0:
            held[address] = size
            total += size
        else:
            total -= held.pop(address, 0)  # what was allocated before doesn't count when it goes
        peak = max(peak, total)
    return peak


def save(
    name: str, rows: Sequence[Mapping[str, Any]], config: object, *, device: torch.device | str | None = None
) -> None:
    """Write ``benchmarks/results/<name>.json``: the rows, with their provenance.

    Args:
        name: of the benchmark.
        rows: what was measured.
        config: with what: a dataclass or a mapping.
        device: where; torch's default device if not given.
    """
    origin = provenance(config, device=device, seconds=time.perf_counter() - START)
    write_json(RESULTS / f"{name}.json", {"benchmark": name, "provenance": origin, "rows": rows})
