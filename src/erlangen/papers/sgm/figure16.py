"""Figure 16: the marginal densities of hue, saturation and value for coloured digits.

The hue of each digit was shifted by 0 to 0.6π and its saturation multiplied by 0.6 to 0.9 when the set was made, so the
ranges that should be found are known: the paper judges by eye that they are about right. The value was not touched.

Measured over many test images, read off resampled images at their brightest pixels: the range of the hue (in units of
0.6π) and of the saturation (in units of 0.3), as the shortest range with 98 % of the samples, divided by 0.98, which is
exact for a uniform law; the mean over images.

Time: after figure 8, which trains the model, a minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...metrics import half_range
from ...models import SymmetryModel
from ...utils.seeds import generator
from ..base import Claim, Row, Rows, experiment
from . import figure8
from .common import Training, data_set, on_device, trained
from .marginals import marginal_figure, marginal_rows

SPANS = {"hue": (-0.5, 0.5), "saturation": (-1.0, 1.0), "value": (-0.5, 0.5)}
TRUE = {"hue": 0.6 * math.pi, "saturation": 0.3}


@dataclass(frozen=True)
class Config:
    """The model of figure 8, how many images are shown and measured, and how often they are sampled."""

    models: figure8.Config = figure8.FULL
    shown: int = 6
    inputs: int = 100
    samples: int = 400
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(figure8.SMOKE, shown=2, inputs=4, samples=50)
PAPER = (
    Claim("hue_range", "range of the hue, of 0.6π", {"image": 0}, "1 (“approximately π”)", 0.9, 1.1),
    Claim("saturation_range", "range of the saturation, of 0.3", {"image": 0}, "“around 0.3”", 0.9, 1.1),
)


def build(config: Config) -> Training:
    """The training of figure 8."""
    return figure8.build(replace(config.models, seed=config.seed))["voted", "colour"]


@torch.no_grad()
def ranges(model: SymmetryModel, x: Tensor, samples: int, seed: int) -> dict[str, float]:
    """The mean range of hue and saturation of an image's variations, in units of the true ones."""
    x = on_device(model, x)
    made = model.resample(x, samples, generator(seed, x.device)).clamp(0, 1)
    place = x.amax(1).flatten(1).argmax(-1)  # the place of the brightest pixel, which colours do not change
    r, g, b = made.flatten(3).gather(-1, place.view(1, -1, 1, 1).expand(*made.shape[:3], 1)).squeeze(-1).unbind(-1)
    turn = torch.atan2(math.sqrt(3) * (g - b), 2 * r - g - b)
    top = torch.maximum(torch.maximum(r, g), b).clamp(min=1e-6)
    saturation = (1 - torch.minimum(torch.minimum(r, g), b) / top).sort(0).values
    many = math.ceil(0.98 * len(saturation))
    width = (saturation[many - 1 :] - saturation[: len(saturation) - many + 1]).amin(0)
    hue = 2 * half_range(turn).mean().item()
    found = {"hue": hue, "saturation": width.mean().item()}
    return {f"{name}_range": value / 0.98 / TRUE[name] for name, value in found.items()}


def run(config: Config) -> list[Row]:
    """One row for each image that is shown; the ranges, over many, in the first."""
    training = build(config)
    model, _ = trained(training, config.device)
    x = data_set(training, "test", max(config.inputs, config.shown)).x
    about: Row = {"method": "voted", "dataset": "colour", "seed": config.seed, "scale": training.scale}
    rows = marginal_rows(model, x[: config.shown], about, samples=10 * config.samples, spans=SPANS)
    rows[0] |= ranges(model, x[: config.inputs], config.samples, config.seed)
    return rows


def show(rows: Rows) -> Figure:
    """For each image its prototype and the marginals."""
    return marginal_figure(rows, list(SPANS), SPANS)


KEYS = ("method", "dataset", "seed", "image")
EXPERIMENT = experiment("sgm/figure16", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
