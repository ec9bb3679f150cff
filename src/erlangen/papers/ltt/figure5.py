"""Figure 5: matrices drawn from the learned distribution are close to rotations, random ones are not.

The paper shows histograms of the relative error to the nearest rotation matrix, of samples from the flow of figure 3b
and of random affine matrices. Here InstaAug is added, with a box that rotates as far as the flow. The error is ‖A − R‖
/ ‖A‖ of the linear part (Frobenius), and random matrices have independent standard normal entries, as in the published
code.

Time: none after figure 3, whose models it uses; without, 5 minutes for each seed on a GPU that ten runs share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...metrics import distance_to_rotation
from ...utils.seeds import generator
from ..base import Claim, Row, Rows, experiment
from ..draw import NAMES, TINTS, first, sheet
from .common import Training
from .discovery import DISCOVERY, discover

BINS = np.linspace(0, 1, 51)


@dataclass(frozen=True)
class Config:
    """Training, how much is measured, and files with two pictures in place of our glyphs."""

    discovery: Training = DISCOVERY
    inputs: int = 200
    samples: int = 1000
    pair: tuple[str, ...] = ()
    device: str = "cpu"
    seed: int = 0


FULL = Config()
TINY = Training(steps=2, batch=8, samples=2, inputs=64, layers=2, frozen=2, alpha=0.002)
SMOKE = Config(discovery=TINY, inputs=8, samples=50)
PAPER = (
    Claim("distance", "median relative distance to a rotation, random affine", {"method": "random"}, "large"),
    Claim("distance", "the same, InstaAug", {"method": "instaaug"}),
    Claim("distance", "the same, flow", {"method": "flow"}, "“much smaller”"),
    Claim("ratio", "the flow's as a multiple of InstaAug's", {"method": "flow"}, "–", None, 1 / 3),
)


def build(config: Config) -> Training:
    """Two free entries of a matrix, a frozen perceptron, a flow (and InstaAug's box that turns as far)."""
    return replace(config.discovery, pair=config.pair, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each method."""
    training = build(config)
    found = discover(training, config.device, config.inputs, config.samples)
    random = torch.randn(config.inputs * config.samples, 2, 2, generator=generator(config.seed))
    distances: dict[str, Tensor] = {"random": distance_to_rotation(random)}
    distances |= {method: f.distance for method, f in found.items()}
    medians = {method: d.median().item() for method, d in distances.items()}
    return [
        {
            "method": method,
            "dataset": training.data,
            "seed": config.seed,
            "scale": training.scale,
            "distance": medians[method],
            "ratio": medians[method] / medians["instaaug"],
            "histogram": (np.histogram(d.flatten().numpy(), BINS)[0] / d.numel()).astype(np.float32),
        }
        for method, d in distances.items()
    ]


def show(rows: Rows) -> Figure:
    """The three histograms over one another."""
    figure, (axes,) = sheet(1, 1, (7, 3))
    for method in ("random", "instaaug", "flow"):
        row = first(rows, method=method)
        if row is not None:
            axes.stairs(row["histogram"], BINS, fill=True, alpha=0.35, color=TINTS[method])
            label = f"{NAMES[method]}: median {row['distance']:.3f}"
            axes.stairs(row["histogram"], BINS, color=TINTS[method], linewidth=1.6, label=label)
    axes.set(xlabel="relative distance to the nearest rotation", ylabel="share of samples", xlim=(0, 1))
    axes.legend(frameon=False, fontsize=9)
    return figure


EXPERIMENT = experiment("ltt/figure5", run, show, full=FULL, smoke=SMOKE, paper=PAPER)
