"""Figure 8: test images, their prototypes, and natural variations, for sprites, digits and coloured digits.

The paper shows that all images of an orbit have the same prototype, and that resampled images look like the test set:
sprites (a), MNIST rotated by up to 15° under five affine coordinates (b), coloured MNIST under hue, saturation and
value (c). Our sprites are drawn in the manner of dSprites. Here are also the paper's plain inference network, digits
under rotations alone, and digits under all six affine coordinates, which are closed under composition; the five are
not.

Measured over orbits of 100 test images under the random transformations of training: the mean squared distance between
two prototypes of an orbit (each made by one warp), as a percentage of that between the inputs; the share of the content
that is left in prototypes; the seconds and steps per second of both stages.

Time: on an H200, seven models at once, two to seven minutes for each; 13 PFLOP in all, so days on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from matplotlib.figure import Figure

from ...utils.seeds import generator
from ..base import Claim, Row, Rows, experiment
from ..draw import first, picture, sheet
from .common import COLOURS, SPRITES, TINY, Training, data_set, moved, on_device, ranges_of, spread, strip, trained

MNIST = Training()
SIX = ("tx", "ty", "angle", "scale", "stretch", "shear")
RIGID: Any = {"names": ("angle",), "added": 0.0, "anchored": False}
DIGITS = {
    ("voted", "mnist"): {},
    ("voted", "mnist-six"): {"names": SIX},
    ("voted", "mnist-rotation"): RIGID,
    ("plain", "mnist"): {"copies": 0, "anchored": False},
    ("plain", "mnist-rotation"): {**RIGID, "copies": 0},
}
DATASETS = ("mnist", "mnist-six", "mnist-rotation", "sprites", "colour")


@dataclass(frozen=True)
class Config:
    """Trainings, which rows are computed, and how much is measured and shown."""

    digits: Training = MNIST
    sprites: Training = SPRITES
    colours: Training = COLOURS
    datasets: tuple[str, ...] = DATASETS
    methods: tuple[str, ...] = ("voted", "plain")
    inputs: int = 100
    views: int = 8
    shown: int = 12
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(
    Training(data="drawn", **TINY),
    replace(SPRITES, **TINY),
    replace(COLOURS, **TINY, data="drawn-colour"),
    inputs=6,
    views=2,
    shown=3,
)
PAPER = (
    Claim(
        "spread",
        "rotations alone, voted: spread of prototypes, %",
        {"method": "voted", "dataset": "mnist-rotation"},
        "–",
        None,
        2,
    ),
    Claim(
        "spread", "rotations alone, plain: spread of prototypes, %", {"method": "plain", "dataset": "mnist-rotation"}
    ),
    Claim(
        "spread",
        "five affine coordinates, voted, %",
        {"method": "voted", "dataset": "mnist"},
        "–",
        None,
        10,
    ),
    Claim("spread", "five affine coordinates, plain, %", {"method": "plain", "dataset": "mnist"}, "close to invariant"),
    Claim("spread", "six affine coordinates, voted, %", {"method": "voted", "dataset": "mnist-six"}, "–", None, 10),
    Claim("spread", "sprites, %", {"method": "voted", "dataset": "sprites"}, "the same for a shape", None, 10),
    Claim("spread", "colours, %", {"method": "voted", "dataset": "colour"}, "close to invariant", None, 10),
    Claim("content", "content left in prototypes of digits, %", {"method": "voted", "dataset": "mnist"}, "–", 80),
)


def build(config: Config) -> dict[tuple[str, str], Training]:
    """The trainings by method and data set; the choice of the four nouns is in `common`."""
    found = {place: replace(config.digits, **changes) for place, changes in DIGITS.items()}
    found |= {("voted", "sprites"): config.sprites, ("voted", "colour"): config.colours}
    return {place: replace(training, seed=config.seed) for place, training in found.items()}


def run(config: Config) -> list[Row]:
    """One row for each model."""
    rows: list[Row] = []
    for (method, dataset), training in build(config).items():
        if method not in config.methods or dataset not in config.datasets:
            continue
        model, notes = trained(training, config.device)
        x = data_set(training, "test", config.inputs).x
        h = moved(
            model, x, ranges_of(training) | ({"shear": (0.0, 0.0)} if "shear" in training.names else {}), config.views
        )
        seconds = notes["seconds"].item()
        row: Row = {"method": method, "dataset": dataset, "seed": config.seed, "scale": training.scale}
        row |= {"spread": 100 * spread(model, x, h), "content": 100 * notes["content"].item(), "seconds": seconds}
        row["steps_per_second"] = sum(training.steps) / max(seconds, 1e-9)
        some = on_device(model, x[: config.shown])
        with torch.no_grad():
            made = model.resample(some, 1, generator(config.seed, some.device))[0]
            parts = {"inputs": strip(some), "prototypes": strip(model.prototype(some)), "resampled": strip(made)}
        rows.append({**row, **parts})
    return rows


def show(rows: Rows) -> Figure:
    """For each set of the paper the images, their prototypes and their variations; of others if there are none."""
    paper = [first(rows, method="voted", dataset=name) for name in ("sprites", "mnist", "colour")]
    shown = [row for row in paper if row is not None] or list(rows[:1])
    figure, axes = sheet(3 * len(shown), 1, (9, 2.4 * len(shown)))
    for k, row in enumerate(shown):
        for panel, part in zip(axes[3 * k :], ("inputs", "prototypes", "resampled"), strict=False):
            picture(panel, row[part], f"{row['dataset']}: test images" if part == "inputs" else part)
    return figure


EXPERIMENT = experiment("sgm/figure8", run, show, full=FULL, smoke=SMOKE, paper=PAPER, apart=("datasets", "methods"))
