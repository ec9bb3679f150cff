"""Figure 12: the laws of the sprites' factors, by shape.

The paper resamples dSprites so that scale, orientation and position follow laws that differ from shape to shape
(appendix C.3.1), and shows their empirical distributions. Ours are drawn in code with the same laws; here they are read
off the images again.

Measured: the 1-Wasserstein distance between what is read off the images and the law, for each shape and factor, in
percent of the factor's range (scale 0.5, x and y 1, orientation one period of the shape).

Time: seconds on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.figure import Figure

from ...data import read_sprites, sprites
from ...data.sprites import FACTORS, LAWS, PERIODS, SHAPES
from ...metrics import wasserstein
from ...report.style import COLOURS
from ..base import Claim, Row, Rows, experiment
from ..draw import first, sheet

__all__ = ["distances", "law_samples"]

RANGES = {"scale": 0.5, "x": 1.0, "y": 1.0}


@dataclass(frozen=True)
class Config:
    """How many sprites, and of what size."""

    inputs: int = 6000
    size: int = 64
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(inputs=90, size=16)
PAPER = tuple(
    Claim("distance", f"{shape}: {factor}, distance from its law, %", {"shape": shape, "factor": factor}, "–", None, 3)
    for shape in SHAPES
    for factor in FACTORS
)


def build(config: Config) -> tuple[torch.Tensor, torch.Tensor]:
    """The factors that are read off, and the shapes."""
    data = sprites(config.inputs, seed=config.seed, size=config.size)
    return read_sprites(data.x, data.y), data.y


def law_samples(shape: str, factor: str, n: int = 4000) -> torch.Tensor:
    """Evenly spaced quantiles of a law."""
    return LAWS[shape][factor].quantile((torch.arange(n, dtype=torch.float64) + 0.5) / n)


def distances(found: torch.Tensor, y: torch.Tensor) -> dict[tuple[str, str], float]:
    """By shape and factor the distance from the law, in percent of the range.

    Shape:
        found: `(N, 4)`; y: `(N,)`.
    """
    values = {}
    for k, shape in enumerate(SHAPES):
        for i, factor in enumerate(FACTORS):
            period = PERIODS[shape] if factor == "orientation" else None
            far = wasserstein(found[y == k, i].double(), law_samples(shape, factor), period)
            values[shape, factor] = 100 * far.item() / (period or RANGES[factor])
    return values


def histogram(values: torch.Tensor, shape: str, factor: str) -> np.ndarray:
    """The density of a factor over its range."""
    top = PERIODS[shape] if factor == "orientation" else 1.1 if factor == "scale" else 1.0
    low = 0.4 if factor == "scale" else 0.0
    values = torch.remainder(values, top) if factor == "orientation" else values
    return np.histogram(values.double().cpu().numpy(), 40, (low, top), density=True)[0].astype(np.float32)


def run(config: Config) -> list[Row]:
    """One row for each shape and factor."""
    found, y = build(config)
    rows: list[Row] = []
    for (shape, factor), far in distances(found, y).items():
        mine = found[y == SHAPES.index(shape), FACTORS.index(factor)]
        row: Row = {"method": "data", "dataset": "sprites", "seed": config.seed, "scale": 1.0}
        row |= {"shape": shape, "factor": factor, "distance": far, "read": histogram(mine, shape, factor)}
        rows.append({**row, "law": histogram(law_samples(shape, factor), shape, factor)})
    return rows


def show(rows: Rows) -> Figure:
    """For each shape and factor the law, and what is read off."""
    figure, axes = sheet(len(SHAPES), len(FACTORS), (11, 5.5))
    for panel, (shape, factor) in zip(axes, ((s, f) for s in SHAPES for f in FACTORS), strict=True):
        row = first(rows, shape=shape, factor=factor)
        places = np.arange(len(row["law"]))
        panel.fill_between(places, row["law"], step="mid", color=COLOURS[0], alpha=0.3, label="law")
        panel.step(places, row["read"], where="mid", color=COLOURS[1], linewidth=1, label="read off")
        panel.set(title=f"{shape}: {factor}", xticks=[], yticks=[])
    axes[8].legend(frameon=False, fontsize=8, loc="upper left")  # hearts are never small
    return figure


KEYS = ("method", "dataset", "seed", "shape", "factor")
EXPERIMENT = experiment("sgm/figure12", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
