r"""Table 3: time series of the UCR archive, with a classifier alone, an STN and a P-STN that warp time.

The paper finds that warps of time which a P-STN learns are a useful augmentation where nobody would know how to make
one by hand: on five sets its mean accuracy is above those of the STN and of the classifier alone. Section 5.2.2.

P-STN's w is the one with the least negative log-likelihood on a held-out quarter of the training part, in one
repetition (nearly all of these few series are classified correctly, so accuracies hardly differ); five repetitions are
then trained on all of it. The t-test is the paper's: two samples, against the best other method, at p = 0.05. The mean
is over the sets whose official test part is at hand.

Measured: accuracy on the test part in percent, negative log-likelihood, expected calibration error.

Time: a step of P-STN takes 150 billion operations, two seconds on one core of a CPU: 40 hours for a repetition of all
sets. On a GPU, with ten others beside it, a repetition takes one to five minutes.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import Any

from matplotlib.figure import Figure

from ...report.style import MUTED
from ..base import Claim, Row, Rows, experiment
from ..draw import beside, sheet
from .common import scores
from .draw import NAMES, TINTS
from .series import OWN, Training, data_set, name_of, summaries, trained

METHODS = ("cnn", "stn", "pstn")
DATASETS = ("FaceAll", "TwoPatterns", "Wafer", "PhalangesOutlinesCorrect", "UWaveGestureLibraryX")
WEIGHTS = (0.0, 1e-5, 1e-4, 1e-3)
PRINTED = {
    "FaceAll": ("80.83 ± 0.62", "82.28 ± 0.42", "84.31 ± 0.75"),
    "TwoPatterns": ("97.92 ± 0.53", "99.79 ± 0.04", "99.96 ± 0.04"),
    "Wafer": ("99.63 ± 0.05", "99.18 ± 0.17", "98.86 ± 0.20"),
    "PhalangesOutlinesCorrect": ("79.88 ± 1.32", "82.26 ± 0.98", "81.66 ± 0.59"),
    "UWaveGestureLibraryX": ("74.15 ± 1.27", "79.77 ± 0.42", "81.13 ± 0.46"),
}
# The paper's less its standard error, of five repetitions.
LEAST = {"FaceAll": 83.97, "TwoPatterns": 99.94, "Wafer": 98.77, "PhalangesOutlinesCorrect": 81.39}
MEAN = ("89.57", "90.88", "91.20")  # the paper's means over its four sets whose test parts are at hand


@dataclass(frozen=True)
class Config:
    """How models are trained, on which sets, with which methods and weights, and how often."""

    training: Training
    datasets: tuple[str, ...] = DATASETS
    methods: tuple[str, ...] = METHODS
    weights: tuple[float, ...] = WEIGHTS
    repetitions: int = 5
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
TINY = Training(epochs=2, samples=2, small=True)
SMOKE = Config(TINY, datasets=("bumps",), weights=(0.0, 1e-4), repetitions=2)
PAPER = (
    *(
        Claim(
            *("accuracy", f"{dataset}: {method}, mean of repetitions", where, said),
            LEAST.get(dataset) if method == "pstn" else None,
        )
        for dataset in (*DATASETS, DATASETS[-1] + OWN)
        for method, said in zip(METHODS, PRINTED.get(dataset, ("–",) * 3), strict=True)
        for where in [{"method": method, "dataset": dataset, "part": "all"}]
    ),
    *(
        Claim("accuracy", f"mean over sets: {method}", {"method": method, "dataset": "mean", "part": "all"}, said)
        for method, said in zip(METHODS, MEAN, strict=True)
    ),
    *(
        Claim(
            "over", f"mean over sets: P-STN above {NAMES[m]}", {"method": m, "dataset": "mean", "part": "all"}, "–", 0
        )
        for m in METHODS[:2]
    ),
)


def build(config: Config, dataset: str, method: str) -> Training:
    """The choice of the four nouns is in `series`."""
    return replace(config.training, dataset=dataset, method=method)


def run(config: Config) -> list[Row]:
    """For each set and method a row of each repetition; of P-STN also one of each weight."""
    rows: list[Row] = []
    for dataset in config.datasets:
        for method in config.methods:
            training = build(config, dataset, method)
            if method == "pstn":
                tried = [_row(config, replace(training, weight=w, held=True, seed=config.seed)) for w in config.weights]
                rows += tried
                training = replace(training, weight=min(tried, key=lambda row: row["nll"])["weight"])
            first = config.seed * config.repetitions
            rows += [_row(config, replace(training, seed=first + k)) for k in range(config.repetitions)]
    return rows


def _row(config: Config, training: Training) -> Row:
    """A model: tested, or, if some of its training part was set aside, judged on that."""
    model, alarms = trained(training, config.device)
    part = "held" if training.held else "test"
    label = f"held, w = {training.weight:g}" if training.held else part
    row: Row = {"method": training.method, "dataset": name_of(training.dataset), "part": label, "seed": training.seed}
    row |= {"weight": training.weight, "scale": training.scale, "alarms": alarms}
    return row | scores(model, data_set(training, part), averaged=training.method != "cnn", batch=500)


def compare(rows: list[Row]) -> list[Row]:
    """The rows, and for each set one of all repetitions of a method, with the t-test, and their means over sets."""
    tested = [row for row in rows if row["part"] == "test"]
    wholes = [row for name in dict.fromkeys(r["dataset"] for r in tested) for row in summaries(tested, name)]
    by = {m: {r["dataset"]: r["accuracy"] for r in wholes if r["method"] == m} for m in METHODS}
    whole = set.intersection(*(set(found) for found in by.values()))
    missing = {name for name in DATASETS if not {name, name + OWN} & whole}
    # Means are over the sets with an official test part; there is none while some of the sets were not run.
    sets = [name for name in whole if not name.endswith(OWN)] if not missing or missing == set(DATASETS) else []
    mean = {m: statistics.fmean(by[m][name] for name in sets) for m in METHODS if sets}
    same: Row = {"dataset": "mean", "part": "all", "seed": 0, "sets": len(sets)}
    means = [{"method": m, **same, "accuracy": a, "over": mean["pstn"] - a} for m, a in mean.items()]
    return rows + wholes + means


def show(rows: Rows) -> Figure:
    """For each set, and their mean, a dot for each repetition of each method, and a bar for the paper's mean."""
    shown = [row for row in rows if row["part"] == "test" or row["dataset"] == "mean"]
    names = list(dict.fromkeys(row["dataset"] for row in shown))
    figure, axes = sheet(2, columns := -(-len(names) // 2), (3 * columns + 1.6, 4.6))
    for panel, name in zip(axes, names, strict=False):
        for line, method in enumerate(METHODS):
            own = [row["accuracy"] for row in shown if (row["method"], row["dataset"]) == (method, name)]
            panel.plot(own, [line] * len(own), "o", color=TINTS[method], alpha=0.6)
            if said := (PRINTED | {"mean": MEAN}).get(name):
                panel.plot(float(said[line].split()[0]), line, "|", color=MUTED, ms=14, mew=2)
        panel.set(title=name, xlabel="test accuracy, %", yticks=range(len(METHODS)), ylim=(2.6, -0.6))
        panel.set_yticklabels([NAMES[method] for method in METHODS] if panel in axes[::columns] else [])
    axes[columns - 1].plot([], [], "|", color=MUTED, ms=14, mew=2, label="the paper's")
    beside(axes[columns - 1])
    return figure


HOW: Any = {"keys": ("method", "dataset", "part", "seed"), "compare": compare, "apart": ("datasets", "methods")}
EXPERIMENT = experiment("pstn/table3", run, show, full=FULL, smoke=SMOKE, paper=PAPER, **HOW)
