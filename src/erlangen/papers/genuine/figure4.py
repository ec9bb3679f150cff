r"""Figure 4: invariance and accuracy when data drift from Transforming-MNIST to Transforming-FMNIST.

Images drift as $(1 - \beta) x_1 + \beta x_2$, a digit and a piece of clothing at the same place of their test parts. In
the paper the distribution invariance error of augmentation (DA) grows fast with $\beta$, while those of tied weights
(WT) and of invariance regularisation (IR) stay low; WT keeps most of its accuracy. The networks are those of table 1,
with *ours* beside them.

Measured, over whole orbits of 5,000 drifted images: distribution invariance error (DI) and its growth, the slope of the
straight line through its values at all $\beta$; how many times faster it grows than that of IR; accuracy as a share of
that at $\beta = 0$. The paper does not say whose label a drifted image has: here the digit's, by default.

Time: after table 1 half a minute on a CPU; the networks are trained there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure

from ...data import DataSet
from ...metrics import distribution_invariance
from ...report.style import COLOURS
from ..base import Claim, Row, Rows, experiment
from ..draw import curve, sheet
from . import table1
from .common import GROUPS, Training, accuracy, group_of, part, trained

METHODS = ("wt", "da", "ir", "ours")


@dataclass(frozen=True)
class Config:
    """What drifts, where to, and whose label it has: that of "from" or "to"."""

    training: Training
    methods: tuple[str, ...] = METHODS
    groups: tuple[str, ...] = GROUPS
    to: str = "fashion-mnist"
    label: str = "from"
    betas: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    inputs: int = 5000
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(table1.SMOKE.training, to="drawn", betas=(0.0, 1.0), inputs=8)
PAPER = tuple(
    Claim(
        "faster", f"{group}: growth of DI, {method} over IR", {"method": method, "group": group, "beta": 1.0}, said, low
    )
    for group in GROUPS
    for method, said, low in (("da", "rapid, even for slight drift", 20.0), ("wt", "none", None), ("ours", "–", None))
)


def build(config: Config, method: str, group: str) -> Training:
    """The network of table 1."""
    return table1.build(replace(table1.FULL, training=config.training, seed=config.seed), method, group)


def drifted(config: Config, training: Training, beta: float) -> DataSet:
    """The first test images, mixed with as many of the other set; the labels are those of one of the two."""
    first, second = (part(replace(training, source=source), "test") for source in (training.source, config.to))
    x = torch.lerp(first.x[: config.inputs] / 255, second.x[: config.inputs] / 255, beta)
    labels = first if config.label == "from" else second
    return DataSet(x, labels.y[: config.inputs], labels.classes, f"{training.source}→{config.to}").to(config.device)


def run(config: Config) -> list[Row]:
    """One row for each group, method and degree of drift."""
    rows: list[Row] = []
    for group in config.groups:
        for method in config.methods:
            training = build(config, method, group)
            model, moves = trained(training, config.device), group_of(training).to(config.device)
            own: list[Row] = []
            for beta in config.betas:
                data = drifted(config, training, beta)
                di = distribution_invariance(model, data.x, moves, batch_size=2048).mean.item()
                row: Row = {"method": method, "group": group, "dataset": data.name, "beta": beta, "seed": config.seed}
                own.append({**row, "scale": training.scale, "DI": di, "accuracy": accuracy(model, data, moves)})
            growth = float(np.polyfit(config.betas, [row["DI"] for row in own], 1)[0])
            start = max(own[0]["accuracy"], 1e-9)
            rows += [{**row, "ratio": row["accuracy"] / start, "growth": growth} for row in own]
    return rows


def compare(rows: list[Row]) -> list[Row]:
    """The rows, each with its growth as a multiple of that of IR."""
    growth = {(row["group"], row["dataset"], row["seed"]): row["growth"] for row in rows if row["method"] == "ir"}
    for row in rows:
        if (slow := growth.get((row["group"], row["dataset"], row["seed"]))) is not None:
            row["faster"] = row["growth"] / max(slow, 1e-9)
    return rows


def show(rows: Rows) -> Figure:
    """For each group DI and the accuracy that is left, against the degree of drift."""
    figure, axes = sheet(2, len(GROUPS), (9, 5.4))
    for line, (metric, title) in enumerate((("DI", "DI"), ("ratio", "accuracy left"))):
        for panel, group in zip(axes[2 * line :], GROUPS, strict=False):
            for colour, method in zip(COLOURS, METHODS, strict=True):
                own = [row for row in rows if (row["method"], row["group"]) == (method, group)]
                curve(panel, own, "beta", metric, colour=colour, label=method)
            panel.set(title=group, xlabel="drift β", ylabel=title)
            if metric == "DI":
                panel.set_yscale("symlog", linthresh=1e-4)  # it is exactly 0 for some, and small for others
    axes[2].legend(frameon=False, fontsize=8)
    return figure


KEYS = ("method", "group", "dataset", "beta", "seed")
EXPERIMENT = experiment("genuine/figure4", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, compare=compare)
