"""Training small networks together against one after another: steps of table 2 of the P-STN paper, batches of 8.

For each method and number of models, ``of_apart`` is the time of a step of all models together over that of a step of
each, one after another. ``python benchmarks/bench_fit_many.py cuda`` measures on a GPU, where steps are taken as they
are and as graphs.
"""

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from common import interleaved, ratio, save
from erlangen.papers.pstn.common import Training, build, how
from erlangen.train.engine import Engine, launch
from erlangen.train.many import StackEngine
from erlangen.train.stack import Stack

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CUDA = DEVICE == "cuda"
CONFIG = {"batch": 8, "methods": ["cnn", "pstn"], "models": [5, 25], "steps": 10 if CUDA else 1, "repeats": 9}
WARM = 6  # steps before the timing, of which some record graphs


def repeated(step: Callable[[], Any]) -> Callable[[], None]:
    """Several in a row, so that the host can run ahead as it does in training."""

    def many() -> None:
        for _ in range(CONFIG["steps"]):
            step()

    for _ in range(WARM):
        step()
    return many


def stepped(engine: Engine, batch: tuple[torch.Tensor, ...]) -> Callable[[], Any]:
    """Takes one step after another."""
    steps, factors = itertools.count(), dict.fromkeys(engine.settings, 1.0)
    engine.objective.train()
    return lambda: engine.step(batch, next(steps), factors)


def ways(method: str, models: int, graph: bool) -> dict[str, Callable[[], None]]:
    """A step of each model one after another, and of all together."""
    # Digits are drawn at random: only their shape matters.
    configs = [Training(method, fold=k, weight=1e-4) for k in range(models)]
    x = torch.randint(256, (models, CONFIG["batch"], 1, 28, 28), dtype=torch.uint8, device=DEVICE)
    y = torch.randint(10, (models, CONFIG["batch"]), device=DEVICE)
    objectives = [build(config) for config in configs]
    settings = [replace(how(o, c, DEVICE), graph=graph) for o, c in zip(objectives, configs, strict=True)]
    stack = Stack(objectives)
    together = stepped(StackEngine(stack, settings, launch(stack, settings[0])), (x, y))
    engines = [Engine(o, s, launch(o, s)) for o, s in zip(objectives, settings, strict=True)]
    apart = [stepped(engine, (x[k], y[k])) for k, engine in enumerate(engines)]

    def one_by_one() -> None:
        for step in apart:
            step()

    return {"apart": repeated(one_by_one), "together": repeated(together)}


def main() -> None:
    """Run the benchmark and write its result."""
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    kinds: Any = itertools.product(CONFIG["methods"], CONFIG["models"], (False, True)[: 1 + CUDA])
    for method, models, graph in kinds:
        times = interleaved(ways(method, models, graph), CONFIG["repeats"])
        for way, time in times.items():
            rows.append(
                {
                    "method": method,
                    "models": models,
                    "graph": graph,
                    "way": way,
                    "ms": 1e3 * time["median"] / CONFIG["steps"],
                    "of_apart": ratio(time, times["apart"]),
                }
            )
            share = rows[-1]["of_apart"]["median"]
            print(f"{method}, {models} models, graph {graph}, {way}: {rows[-1]['ms']:.2f} ms, {share:.2f} of apart")
    save("fit_many" if DEVICE == "cpu" else f"fit_many_{DEVICE}", rows, CONFIG, device=DEVICE)


if __name__ == "__main__":
    main()
