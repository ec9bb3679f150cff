"""A training step of P-STN on series, 16 × 10 warps, against the classifier alone on as many series, 160.

The networks and the step are those of ``erlangen reproduce pstn/table3``, on series of FaceAll's length, 131, with
CPAB warps of ten cells. ``of_cnn`` is the ratio of the whole step to the classifier's, at most 1.5 is asked. Then where
the time goes: the localiser and its samples, the warp, the classifier behind it, forward and backward.
``python benchmarks/bench_series.py cuda`` measures on a GPU, and also with steps that are compiled.
"""

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from common import captured, interleaved, ratio, save
from erlangen.objectives import AveragedObjective
from erlangen.papers.pstn import series
from erlangen.papers.pstn.series import Training
from erlangen.train.engine import Engine, launch

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CUDA = DEVICE == "cuda"
CONFIG = {"series": 16, "samples": 10, "length": 131, "classes": 2, "steps": 20 if CUDA else 1, "repeats": 9}
WARM = 6 if CUDA else 1  # steps before the timing, of which some record the graph


def objective(method: str) -> AveragedObjective:
    """What table 3 trains."""
    # Bumps stand in for the archive, which need not be at hand: only the length of series matters.
    return series.build(Training("bumps", method, weight=1e-4)).to(DEVICE)


def batch(n: int) -> tuple[Tensor, Tensor]:
    """Series and labels that are simply there."""
    x = torch.randn(n, 1, CONFIG["length"], device=DEVICE)
    return x, torch.randint(CONFIG["classes"], (n,), device=DEVICE)


def stepped(method: str, n: int, *, compiled: bool = False) -> Callable[[], None]:
    """Several steps of training."""
    model, data = objective(method), batch(n)
    training = replace(series.how(model, Training("bumps", method), DEVICE), compile=compiled)
    engine, number = Engine(model, training, launch(model, training)), itertools.count()
    model.train()

    def run() -> None:
        for _ in range(CONFIG["steps"]):
            engine.step(data, next(number), dict.fromkeys(engine.settings, 1.0))

    for _ in range(WARM):
        run()
    return run


def parts() -> dict[str, Callable[[], Any]]:
    """Forward and backward of the parts of a step of P-STN, each on its own."""
    whole: Any = objective("pstn")
    model = whole.to(memory_format=torch.channels_last).averaged.train()
    x, _ = batch(CONFIG["series"])
    views = torch.randn(CONFIG["series"] * CONFIG["samples"], 1, CONFIG["length"], device=DEVICE)
    v = (0.05 * torch.randn(CONFIG["samples"], CONFIG["series"], 9, device=DEVICE)).requires_grad_()

    def mixed() -> Any:
        return torch.autocast(DEVICE, torch.bfloat16, enabled=CUDA)

    def localise() -> None:
        with mixed():
            loss = model.conditional(x).rsample(torch.Size([CONFIG["samples"]])).sum()
        loss.backward()

    def warp() -> None:
        model.transform(x, v).square().sum().backward()

    def classify() -> None:
        with mixed():
            loss = model.classify(views).square().sum()
        loss.backward()

    found: dict[str, Callable[[], Any]] = {}
    for run in (localise, warp, classify):
        replay = (captured(run) if CUDA else None) or run
        found[run.__name__] = lambda replay=replay: [replay() for _ in range(CONFIG["steps"])]
    return found


def main() -> None:
    """Run the benchmark and write its result."""
    torch.manual_seed(0)
    n = CONFIG["series"] * CONFIG["samples"]
    runs = {"cnn": stepped("cnn", n), "pstn": stepped("pstn", CONFIG["series"]), "stn": stepped("stn", n), **parts()}
    if CUDA:
        sizes = {"cnn": n, "pstn": CONFIG["series"]}
        runs |= {f"{method}, compiled": stepped(method, size, compiled=True) for method, size in sizes.items()}
    times = interleaved(runs, CONFIG["repeats"])
    rows = [
        {
            "part": name,
            "seconds": {key: value / CONFIG["steps"] for key, value in times[name].items()},
            "of_cnn": ratio(times[name], times["cnn, compiled" if "compiled" in name else "cnn"]),
        }
        for name in runs
    ]
    save("series" if DEVICE == "cpu" else f"series_{DEVICE}", rows, CONFIG, device=DEVICE)
    for row in rows:
        print(f"{row['part']}: {1e3 * row['seconds']['median']:.2f} ms, {row['of_cnn']['median']:.2f} of the CNN's")


if __name__ == "__main__":
    main()
