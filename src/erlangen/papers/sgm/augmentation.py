"""Ours: natural variations as augmentation for classifiers, the question with which the paper closes.

The paper would like "to see it applied to data augmentation in the discriminative settings": LeNet on MNIST with 100,
1,000 and 10,000 labels. Each digit is rotated, by up to 15°. Compared are no augmentation, hand-made augmentation,
Augerino, LILA, InstaAug, the flow of Learning to Transform, and natural variations of a symmetry model: in training
(sgm), and also averaged over in prediction (sgm-averaged). That model has seen all 50,000 training images without
labels, which no other method has; that of sgm-own has seen only the labelled ones, and holds out a tenth to judge its
density. All have the ranges of figure 8, as many steps, and default settings. All that learn average 20 views in
prediction and, except LILA, also train on unmodified images, as much as on four views; affine and sgm do neither.

Measured: accuracy on the test set in percent.

Time: on a GPU some minutes for each number of labels, after figure 8, which trains the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ...data import DataSet
from ...models import Averaged
from ...nets import LeNet
from ...objectives import METHODS as KNOWN
from ...objectives import AveragedObjective, HandMade, Terms
from ...train import Config as How
from ...train import Cosine, Optimiser, TensorLoader, fit
from ...transforms import Affine
from ...utils.seeds import seeded
from ..base import Claim, Row, Rows, experiment
from ..draw import TINTS, beside, curve, sheet
from . import figure8
from .common import Training, data_set, trained

NATURAL = ("sgm", "sgm-averaged", "sgm-own")
METHODS = ("none", "affine", "augerino", "lila", "instaaug", "flow", *NATURAL)
LINES = {"lila": "--", "sgm-averaged": "--", "sgm-own": ":"}
LOW = 70  # what is below is told in words, lest the rest be one heap


@dataclass(frozen=True)
class Config:
    """The symmetry model of figure 8, the methods and sizes that are compared, and how classifiers are trained."""

    models: figure8.Config = figure8.FULL
    methods: tuple[str, ...] = METHODS
    datasets: tuple[tuple[str, int], ...] = tuple((f"mnist{labels}", labels) for labels in (100, 1000, 10_000))
    steps: int = 4000
    batch: int = 100
    samples: int = 4
    eval_samples: int = 20
    inputs: int = 10_000
    held: float = 0.1
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(figure8.SMOKE, datasets=(("mnist32", 32),), steps=2, batch=8, samples=1, eval_samples=2, inputs=8)
PAPER = tuple(
    Claim("accuracy", f"{labels:,} labels: {method}, accuracy, %", {"method": method, "labels": labels})
    for _, labels in FULL.datasets
    for method in METHODS
)


def symmetry_of(config: Config, labels: int, method: str) -> Training:
    """The symmetry model: of all images, or of the labelled ones alone, of which there are as many of each digit."""
    training = figure8.build(replace(config.models, seed=config.seed))["voted", "mnist"]
    if method != "sgm-own":
        return training
    return replace(training, inputs=labels, balanced=True, batch=min(training.batch, labels), held=config.held)


def build(config: Config, method: str, labels: int) -> AveragedObjective:
    """A LeNet, what is done to its images, and its objective."""
    with seeded(config.seed):
        net: nn.Module = LeNet(1, 10)
        counts = {"samples": config.samples, "eval_samples": config.eval_samples}
        if method in NATURAL:
            symmetry, _ = trained(symmetry_of(config, labels, method), config.device)
            return HandMade(symmetry.averaged(net.to(config.device), **counts))
        names = ("tx", "ty", "angle", "sx", "sy")
        group = Affine(*names, factored=True, bounds={n: 0.25 for n in names if n != "angle"} | {"angle": math.pi})
        way = KNOWN[method]
        averaged = Averaged(net, group, way.conditional(group, 1), **counts, **way.averaging)
        return way.objective(averaged, Terms(way.alpha, burn_in=config.steps // 10 * way.learned, size=labels))


@torch.no_grad()
def accuracy(averaged: Averaged, data: DataSet, views: bool) -> float:
    """In percent, averaged over views or of images as they are."""
    averaged.eval()
    device, right = next(averaged.model.parameters()).device, 0
    for x, y in zip(data.x.split(250), data.y.split(250), strict=True):
        images: Tensor = x.to(device).to(torch.get_default_dtype()) / 255
        scores = averaged(images).log_probs if views else averaged.classify(images)
        right += int((scores.argmax(-1).cpu() == y).sum())
    return 100 * right / len(data)


def run(config: Config) -> list[Row]:
    """One row for each method and number of labels."""
    rows: list[Row] = []
    for dataset, labels in config.datasets:
        test = data_set(symmetry_of(config, labels, "sgm"), "test", config.inputs)
        classifiers: dict[str, Averaged] = {}
        for method in config.methods:
            way = method.removesuffix("-averaged")  # averaging differs in prediction alone
            classifiers[way] = classifiers.get(way) or classifier(config, way, labels)
            views = way != method or (method in KNOWN and KNOWN[method].averages)
            scale = symmetry_of(config, labels, way).scale if way in NATURAL else 1.0
            row: Row = {"method": method, "dataset": dataset, "seed": config.seed, "labels": labels}
            rows.append(row | {"scale": scale, "accuracy": accuracy(classifiers[way], test, views)})
    return rows


def classifier(config: Config, method: str, labels: int) -> Averaged:
    """A classifier, trained on so many labels."""
    objective, train = build(config, method, labels), data_set(symmetry_of(config, labels, "sgm-own"), "train")
    loader = TensorLoader(train.x, train.y, batch_size=min(config.batch, len(train)), seed=config.seed)
    optimiser, kind = Optimiser("adamw", 1e-3, clip=5.0, schedule=Cosine(0.05)), torch.device(config.device).type
    place: Any = {"accelerator": kind, "graph": kind == "cuda", "seed": config.seed, "log_every": 500}
    own = dict.fromkeys(KNOWN["lila"].fast if method == "lila" else (), replace(optimiser, lr=1e-2))  # as in `fit`
    fit(objective, loader, How(steps=config.steps, optimiser=optimiser, groups=own, **place))
    return objective.averaged


def show(rows: Rows) -> Figure:
    """The accuracy of each method against the number of labels."""
    figure, (panel,) = sheet(1, 1, (7, 4))
    for method in METHODS:
        if own := [row for row in rows if row["method"] == method]:
            how = {"colour": TINTS.get(method, TINTS["ours"]), "line": LINES.get(method, "-")}
            curve(panel, own, "labels", "accuracy", label=method, **how)
    panel.set(xscale="log", xlabel="labels", ylabel="accuracy, %")
    for row in (row for row in rows if row["accuracy"] < LOW):
        panel.annotate(f"{row['method']}: {row['accuracy']:.0f} ▾", (row["labels"], LOW + 1), fontsize=8)
    panel.set_ylim(bottom=min(LOW, max((row["accuracy"] for row in rows), default=LOW)))
    beside(panel)
    return figure


HOW: Any = {"keys": ("method", "dataset", "seed", "labels"), "apart": ("datasets",)}
EXPERIMENT = experiment("sgm/augmentation", run, show, full=FULL, smoke=SMOKE, paper=PAPER, **HOW)
