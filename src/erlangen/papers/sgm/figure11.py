"""Figure 11: prototypes of prototypes.

A perfect inference finds nothing to do in a prototype. The paper treats prototypes as inputs, again and again: the mean
norm of the inferred coordinates falls to a plateau of about 5 % of the first. Here for digits under five affine
coordinates and under rotations alone (the models of figure 8); the original is warped once for each prototype.

Measured: the mean norm of the coordinates at each iteration, in percent of that of the first.

Time: after figure 8 seconds; the models are trained there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from ...report.style import COLOURS
from ..base import Claim, Row, Rows, experiment
from ..draw import curve, picture, sheet
from . import figure8
from .common import Training, data_set, iterated, strip, trained

SETS = (("voted", "mnist"), ("voted", "mnist-six"), ("voted", "mnist-rotation"), ("plain", "mnist"))


@dataclass(frozen=True)
class Config:
    """The models of figure 8, how many images, how often, and how many are shown."""

    models: figure8.Config = figure8.FULL
    inputs: int = 500
    times: int = 8
    shown: int = 4
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(figure8.SMOKE, inputs=6, times=3, shown=2)
PAPER = (
    Claim(
        "later",
        "rotations alone, voted: mean of later steps, %",
        {"method": "voted", "dataset": "mnist-rotation"},
        "–",
        None,
        2,
    ),
    Claim(
        "later",
        "five affine coordinates, voted: mean of later steps, %",
        {"method": "voted", "dataset": "mnist"},
        "about 5",
        None,
        6,
    ),
    Claim(
        "later",
        "five affine coordinates, plain: mean of later steps, %",
        {"method": "plain", "dataset": "mnist"},
        "about 5",
    ),
)


def build(config: Config, method: str, dataset: str) -> Training:
    """The training of figure 8."""
    return figure8.build(replace(config.models, seed=config.seed))[method, dataset]


def run(config: Config) -> list[Row]:
    """One row for each model and iteration."""
    rows: list[Row] = []
    for method, dataset in SETS:
        training = build(config, method, dataset)
        model, _ = trained(training, config.device)
        norms, chain = iterated(model, data_set(training, "test", config.inputs).x, config.times)
        share = [100 * norm / norms[0] for norm in norms]
        row: Row = {"method": method, "dataset": dataset, "seed": config.seed, "scale": training.scale}
        for k, value in enumerate(share):
            rows.append({**row, "iteration": k, "magnitude": value})
        rows[-1]["later"] = sum(share[1:]) / max(1, len(share) - 1)
        rows[-1]["chain"] = strip(chain[:, : config.shown].transpose(0, 1).flatten(0, 1))
    return rows


def show(rows: Rows) -> Figure:
    """The magnitude at each iteration for each model, and chains of prototypes."""
    figure, axes = sheet(1, 2, (11, 3.2))
    for colour, (method, dataset) in zip(COLOURS, SETS, strict=True):
        own = [row for row in rows if (row["method"], row["dataset"]) == (method, dataset)]
        line = "--" if method == "plain" else "-"
        curve(axes[0], own, "iteration", "magnitude", colour=colour, label=f"{method}, {dataset}", line=line)
    axes[0].axhline(5, color="gray", linestyle=":", linewidth=1)
    axes[0].set(xlabel="iteration", ylabel="norm of the pose, % of the first", yscale="log")
    axes[0].legend(frameon=False, fontsize=8)
    chain = next(row["chain"] for row in rows if row["dataset"] == "mnist" and "chain" in row)
    times = len({row["iteration"] for row in rows}) + 1
    side = chain.shape[1]
    lines = chain.reshape(chain.shape[0], side, -1, times * side).transpose(0, 2, 1, 3)
    picture(axes[1], lines.reshape(chain.shape[0], -1, times * side), "an image and its prototypes")
    return figure


KEYS = ("method", "dataset", "seed", "iteration")
EXPERIMENT = experiment("sgm/figure11", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
