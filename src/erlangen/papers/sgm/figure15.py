"""Figure 15: figure 10 for more digits.

The paper shows the marginals for all digits of figure 13, with the same conclusions as figure 10.

Measured: as in figure 10.

Time: after figure 8, which trains the model, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from ..base import Claim, Rows, experiment
from . import figure8, figure10


@dataclass(frozen=True)
class Config(figure10.Config):
    """Each of the ten digits."""

    which: tuple[int, ...] = tuple(range(10))


FULL = Config()
SMOKE = Config(figure8.SMOKE, which=(3, 4), samples=50)
PAPER = (Claim("arcs", "arcs of a digit's rotations, all digits", {"method": "voted"}, "1 or 2"),)


build = figure10.build
run = figure10.run


def show(rows: Rows) -> Figure:
    """For each image its prototype and the marginals."""
    return figure10.show(rows)


KEYS = ("method", "dataset", "seed", "image")
EXPERIMENT = experiment("sgm/figure15", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
