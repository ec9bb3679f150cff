"""Figure 17: sprites and their positions, in the data and resampled.

The paper resamples sprites of each shape and compares their positions with those in the data: ranges and shapes agree,
densities not quite. Since the laws are known, here every factor is read off the resampled images by moments (as in
figure 12) and compared with its law. The heart is never rotated, and is either high or low.

Measured for each shape and factor: the 1-Wasserstein distance between resampled sprites and the law, in percent of the
factor's range (scale 0.5, x and y 1, orientation one period of the shape's own symmetry). For the heart also the share
at either of its two heights.

Time: after figure 8, which trains the model, a minute on a GPU (not measured yet).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure

from ...data import FactoredSet, read_sprites
from ...data.sprites import FACTORS, SHAPES
from ...utils.seeds import generator
from ..base import Claim, Row, Rows, experiment
from ..draw import first, picture, sheet
from .common import SPRITES, TINY, Training, data_set, on_device, strip, trained
from .figure12 import distances


@dataclass(frozen=True)
class Config:
    """Training, and how many sprites are resampled how often."""

    training: Training = SPRITES
    inputs: int = 900
    samples: int = 10
    shown: int = 8
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(replace(SPRITES, **TINY), inputs=12, samples=2, shown=2)
PAPER = (
    *(
        Claim(
            "distance", f"{shape}: {factor}, distance from its law, %", {"shape": shape, "factor": factor}, "–", None, 8
        )
        for shape in SHAPES
        for factor in FACTORS
    ),
    Claim("high", "hearts in the upper half, %", {"shape": "heart", "factor": "y"}, "50", 35, 65),
    Claim("between", "hearts between their two heights, %", {"shape": "heart", "factor": "y"}, "0", None, 10),
)


def build(config: Config) -> Training:
    """Similarities of sprites; the choice of the four nouns is in `common`."""
    return replace(config.training, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each shape and factor."""
    training = build(config)
    model, _ = trained(training, config.device)
    data = data_set(training, "test", config.inputs)
    x = on_device(model, data.x)
    with torch.no_grad():
        made = model.resample(x, config.samples, generator(config.seed, x.device)).clamp(0, 1).cpu()
    y = data.y.repeat(config.samples)
    found, rows = read_sprites(made.flatten(0, 1), y), []
    for (shape, factor), far in distances(found, y).items():
        own = data.y == SHAPES.index(shape)
        row: Row = {"method": "voted", "dataset": "sprites", "seed": config.seed, "scale": training.scale}
        row |= {"shape": shape, "factor": factor, "distance": far}
        if factor == "y":
            height = found[y == SHAPES.index(shape), FACTORS.index("y")]
            row |= {"high": 100 * (height < 0.5).double().mean().item()}
            row |= {"between": 100 * ((height > 0.35) & (height < 0.65)).double().mean().item()}
            row |= {"images": strip(x[own][: config.shown]), "resampled": strip(made[0, own][: config.shown])}
            truth = data.factors[own] if isinstance(data, FactoredSet) else found[: len(data)][own]
            row |= {"places": _grid(truth), "places_resampled": _grid(found[y == SHAPES.index(shape)])}
        rows.append(row)
    return rows


def _grid(factors: torch.Tensor) -> np.ndarray:
    """How many sprites are where, `(16, 16)`, y down."""
    x, y = factors[:, 2:].double().numpy().T
    return np.histogram2d(y, x, 16, ((0, 1), (0, 1)))[0].astype(np.float32)


def show(rows: Rows) -> Figure:
    """For each shape: sprites, their positions, resampled ones, and theirs."""
    figure, axes = sheet(len(SHAPES), 4, (9, 4.6))
    for k, shape in enumerate(SHAPES):
        row = first(rows, shape=shape, factor="y")
        for panel, (name, title) in zip(
            axes[4 * k : 4 * k + 4],
            (("images", shape), ("places", "positions"), ("resampled", "resampled"), ("places_resampled", "positions")),
            strict=True,
        ):
            if name.startswith("places"):
                panel.imshow(row[name], cmap="Blues", interpolation="nearest")
                panel.set(xticks=[], yticks=[])
                panel.set_title(title, fontsize=9)
            else:
                image = row[name]
                side = image.shape[1]
                half = max(1, image.shape[2] // side // 2) * side
                picture(panel, np.concatenate((image[:, :, :half], image[:, :, half : 2 * half]), 1), title)
    return figure


KEYS = ("method", "dataset", "seed", "shape", "factor")
EXPERIMENT = experiment("sgm/figure17", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
