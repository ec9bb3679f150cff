"""Figure 14: orbits of coloured digits, their prototypes, and variations.

As figure 13, under changes of hue only, of saturation only, and of value only.

Measured for each kind of orbit over many test images: the mean squared distance between two prototypes of an orbit as a
share of that between the images, in percent. Saturations and values that are clipped cannot be undone.

Time: after figure 8, which trains the model, seconds.
"""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from ..base import Row, Rows, experiment
from . import figure8, figure13
from .common import Training

ORBITS = {name: (name,) for name in ("hue", "saturation", "value")}


Config = figure13.Config
FULL = figure13.FULL
SMOKE = figure13.SMOKE
PAPER = figure13.claims(ORBITS)


def build(config: Config) -> Training:
    """The training of figure 8."""
    return figure8.build(replace(config.models, seed=config.seed))["voted", "colour"]


def run(config: Config) -> list[Row]:
    """One row for each kind of orbit."""
    return figure13.orbit_rows(config, build(config), ORBITS)


def show(rows: Rows) -> Figure:
    """A column for each kind of orbit."""
    return figure13.orbit_figure(rows, ORBITS)


KEYS = ("method", "dataset", "seed", "orbit")
EXPERIMENT = experiment("sgm/figure14", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
