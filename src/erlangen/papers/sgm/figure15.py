"""Figure 15: figure 10 for more digits.

The paper shows the marginals for all digits of figure 13, with the same conclusions as figure 10.

Measured: as in figure 10.

Time: after figure 8, which trains the model, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from ..base import Claim, Row, Rows, experiment
from . import figure8, figure10
from .common import Training
from .marginals import marginal_figure


@dataclass(frozen=True)
class Config(figure10.Config):
    """Each of the ten digits."""

    which: tuple[int, ...] = tuple(range(10))


FULL = Config()
SMOKE = Config(figure8.SMOKE, which=(3, 4), samples=50)
PAPER = (Claim("arcs", "arcs of a digit's rotations, all digits", {"method": "voted"}, "1 or 2"),)


def build(config: Config) -> Training:
    """The training of figure 8."""
    return figure10.build(config)


def run(config: Config) -> list[Row]:
    """One row for each image."""
    return figure10.run(config)


def show(rows: Rows) -> Figure:
    """For each image its prototype and the marginals."""
    return marginal_figure(rows, list(figure10.SPANS), figure10.SPANS)


KEYS = ("method", "dataset", "seed", "image")
EXPERIMENT = experiment("sgm/figure15", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
