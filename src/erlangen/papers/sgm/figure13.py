"""Figure 13: orbits of digits, their prototypes, and variations.

The paper takes seven images of the orbit of a digit, under rotations only, translations only, and all five coordinates,
and shows that their prototypes are the same, and many variations.

Measured for each kind of orbit over many test images: the mean squared distance between two prototypes of an orbit as a
share of that between the images, in percent.

Time: after figure 8, which trains the model, seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure

from ...utils.seeds import generator
from ..base import Claim, Row, Rows, experiment
from ..draw import first, picture, sheet
from . import figure8
from .common import Training, data_set, moved, on_device, ranges_of, spread, strip, trained

ORBITS = {"rotation": ("angle",), "translation": ("tx", "ty"), "all": ("tx", "ty", "angle", "sx", "sy")}


@dataclass(frozen=True)
class Config:
    """The model of figure 8, how many images are measured, and which digits are shown."""

    models: figure8.Config = figure8.FULL
    inputs: int = 100
    views: int = 7
    shown: tuple[int, ...] = (0, 1, 2)
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(figure8.SMOKE, inputs=6, views=3, shown=(0,))


def claims(orbits: Iterable[str]) -> tuple[Claim, ...]:
    """The claims that prototypes of an orbit are alike."""
    said = "the same or very similar"
    return tuple(
        Claim("spread", f"{kind}: spread of prototypes, %", {"orbit": kind}, said, None, 10) for kind in orbits
    )


PAPER = claims(ORBITS)


def build(config: Config) -> Training:
    """The training of figure 8."""
    return figure8.build(replace(config.models, seed=config.seed))["voted", "mnist"]


def orbit_rows(config: Config, training: Training, orbits: dict[str, tuple[str, ...]]) -> list[Row]:
    """One row for each kind of orbit."""
    model, _ = trained(training, config.device)
    x, rows = data_set(training, "test", config.inputs).x, []
    ranges = ranges_of(training)
    for kind, names in orbits.items():
        h = moved(model, x, {name: ranges[name] for name in names}, config.views)
        row: Row = {"method": "voted", "dataset": training.data, "seed": config.seed, "scale": training.scale}
        row |= {"orbit": kind, "spread": 100 * spread(model, x, h)}
        for k in config.shown:
            views = model.group.act(h[:, k], on_device(model, x[k : k + 1]).expand(config.views, -1, -1, -1))
            with torch.no_grad():
                made = model.resample(views, 1, generator(k, views.device))[0]
                row[f"orbit_{k}"] = strip(views)
                row[f"prototypes_{k}"], row[f"resampled_{k}"] = strip(model.prototype(views)), strip(made)
        rows.append(row)
    return rows


def run(config: Config) -> list[Row]:
    """One row for each kind of orbit."""
    return orbit_rows(config, build(config), ORBITS)


def orbit_figure(rows: Rows, orbits: dict[str, tuple[str, ...]]) -> Figure:
    """A column for each kind, a block for each image: its orbit, prototypes, variations."""
    some = first(rows, orbit=next(iter(orbits)))
    shown = sorted(int(name.split("_")[1]) for name in some if name.startswith("orbit_"))
    figure, axes = sheet(3 * len(shown), len(orbits), (3.6 * len(orbits), 1.7 * len(shown) + 0.4))
    for column, kind in enumerate(orbits):
        row = first(rows, orbit=kind)
        parts = [f"{part}_{k}" for k in shown for part in ("orbit", "prototypes", "resampled")]
        for line, part in enumerate(parts):
            title = f"{kind}, spread {row['spread']:.1f} %" if line == 0 else ""
            picture(axes[line * len(orbits) + column], row[part], title)
    return figure


def show(rows: Rows) -> Figure:
    """A column for each kind of orbit."""
    return orbit_figure(rows, ORBITS)


KEYS = ("method", "dataset", "seed", "orbit")
EXPERIMENT = experiment("sgm/figure13", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
