"""Figure 10: the marginal densities of the coordinates for several digits.

The paper shows for some digits of figure 8b the marginals of both translations, the rotation and both scales: a round 0
is rotated almost evenly, a 1 and a 9 have two modes of rotation, and small and large prototypes have other scales. The
angle lives on a circle here, so that a mode at ±180° is one mode.

Measured for each image: in how many arcs its rotations lie, and which share of the circle these cover, in percent.

Time: after figure 8, which trains the model, seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure

from ..base import Claim, Row, Rows, experiment
from . import figure8
from .common import Training, data_set, trained
from .marginals import marginal_figure, marginal_rows

SPANS = {"tx": (-0.5, 0.5), "ty": (-0.5, 0.5), "angle": (-math.pi, math.pi), "sx": (-0.8, 0.8), "sy": (-0.8, 0.8)}


@dataclass(frozen=True)
class Config:
    """The model of figure 8, which digits, how many of each, and how often they are sampled."""

    models: figure8.Config = figure8.FULL
    which: tuple[int, ...] = (0, 1, 2, 6, 8, 9, 9)
    each: int = 1
    samples: int = 4000
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(figure8.SMOKE, which=(0, 1), samples=50)
PAPER = (
    Claim("share", "rotations of a 0, share of the circle, %", {"digit": 0}, "almost uniform", 70),
    Claim("arcs", "arcs of a 1's rotations", {"digit": 1}, "2", 2, 2),
    Claim("arcs", "arcs of a 2's rotations", {"digit": 2}, "2 (like an upside-down 7)"),
)


def build(config: Config) -> Training:
    """The training of figure 8."""
    return figure8.build(replace(config.models, seed=config.seed))["voted", "mnist"]


def run(config: Config) -> list[Row]:
    """One row for each image."""
    training = build(config)
    model, _ = trained(training, config.device)
    data = data_set(training, "test")
    members = {c: (data.y == c).nonzero().flatten() for c in set(config.which)}
    chosen: list[int] = []
    for c in config.which:
        chosen += [int(k) for k in members[c] if int(k) not in chosen][: config.each]
    about: Row = {"method": "voted", "dataset": "mnist", "seed": config.seed, "scale": training.scale}
    rows = marginal_rows(model, data.x[torch.tensor(chosen)], about, samples=config.samples, spans=SPANS)
    return [{**row, "digit": int(data.y[k])} for row, k in zip(rows, chosen, strict=True)]


def show(rows: Rows) -> Figure:
    """For each image its prototype and the marginals."""
    return marginal_figure(rows, list(SPANS), SPANS)


KEYS = ("method", "dataset", "seed", "image")
EXPERIMENT = experiment("sgm/figure10", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
