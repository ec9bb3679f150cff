r"""Figure 2: where the copies of an input are among the representations of others.

The paper shows by t-SNE that a network trained with augmentation (DA) maps the four rotations of a digit to distant
points of its penultimate layer, each among images of its class: it solves the task without being invariant. Here
invariance regularisation (IR) is shown beside it. The networks are those of table 1.

Measured, in the penultimate layer itself: the mean distance between two copies of a test image as a share of the mean
distance between two images of its class. The plane of t-SNE is shown, but nothing is measured in it.

Time: after table 1 a minute on a CPU; the networks are trained there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from torch import Tensor, nn

from ..base import Claim, Row, Rows, experiment
from ..draw import first, sheet
from . import table1
from .common import Training, group_of, part, trained
from .tsne import tsne

METHODS = ("da", "ir")
GROUP = "R4"


@dataclass(frozen=True)
class Config:
    """The networks, how many images are mapped, and how."""

    training: Training
    methods: tuple[str, ...] = METHODS
    inputs: int = 250
    perplexity: float = 30.0
    steps: int = 750
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(table1.SMOKE.training, inputs=32, perplexity=5.0, steps=20)
PAPER = (
    Claim("spread", "distance of copies over that of a class, DA", {"method": "da"}, "far from each other", 0.25),
    Claim("spread", "distance of copies over that of a class, IR", {"method": "ir"}),
)


def build(config: Config, method: str) -> Training:
    """The network of table 1."""
    return table1.build(replace(table1.FULL, training=config.training, seed=config.seed), method, GROUP)


def spread(features: Tensor, y: Tensor) -> float:
    """How far copies are from each other, as a share of how far images of a class are.

    Shape:
        features: of all copies, `(n, B, d)`; y: `(B,)`.
    """
    n, b = features.shape[:2]
    between = torch.cdist(features.transpose(0, 1), features.transpose(0, 1)).sum() / (b * n * (n - 1))
    same = (y[:, None] == y) & ~torch.eye(b, dtype=torch.bool, device=y.device)
    return (between / torch.cdist(features, features)[:, same].mean()).item()


def run(config: Config) -> list[Row]:
    """One row for each method."""
    rows: list[Row] = []
    for method in config.methods:
        training = build(config, method)
        model, group = trained(training, config.device), group_of(training).to(config.device)
        data = part(training, "test").to(config.device)
        x, y = data.x[: config.inputs] / 255, data.y[: config.inputs]
        copies = group.act(group.elements().unsqueeze(1), x)
        latent = nn.Sequential(*list(model.children())[:-1])  # all but the last layer
        with torch.no_grad():
            features = latent(copies.flatten(0, 1))
        row: Row = {"method": method, "group": GROUP, "dataset": training.source, "seed": config.seed}
        row |= {"scale": training.scale, "spread": spread(features.unflatten(0, copies.shape[:2]), y)}
        plane = tsne(features, perplexity=config.perplexity, steps=config.steps, seed=config.seed)
        points = plane.unflatten(0, copies.shape[:2]).half().cpu().numpy()
        rows.append({**row, "points": points, "labels": y.to(torch.uint8).cpu().numpy()})
    return rows


def show(rows: Rows) -> Figure:
    """The plane for each method, a colour for each digit; of one image of each of three digits the four copies."""
    found = [row for method in METHODS if (row := first(rows, method=method))]
    figure, axes = sheet(1, len(found), (4.6 * len(found), 4.2))
    for panel, row in zip(axes, found, strict=True):
        points, labels = row["points"].astype(np.float32), row["labels"]
        shades = np.tile(labels, len(points))
        panel.scatter(*points.reshape(-1, 2).T, c=shades, cmap="tab10", vmax=9.5, s=7, alpha=0.5, linewidths=0)
        for digit in (2, 4, 7):
            chosen = np.flatnonzero(labels == digit)[:1]
            for orbit in points[:, chosen].transpose(1, 0, 2):
                panel.plot(*orbit.T, "o-", color="black", markersize=5, linewidth=1)
                halo = [withStroke(linewidth=3, foreground="white")]
                place = {"xytext": (6, 6), "textcoords": "offset points"}
                panel.annotate(str(digit), orbit[0], fontsize=11, weight="bold", path_effects=halo, zorder=4, **place)
        panel.set(title=f"{row['method']}, spread of copies {row['spread']:.2f}", xticks=[], yticks=[])
    return figure


KEYS = ("method", "group", "dataset", "seed")
EXPERIMENT = experiment("genuine/figure2", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
