"""Figure 4: how far predictions move when test images are rotated, for each class from head to tail.

On long-tailed sets a classifier learns rotational invariance for frequent classes, and not for rare ones. The paper
plots the expected KL divergence (eKLD) of each class for a baseline, Augerino and its flow, on RotMNIST-LT (±180°) and
CIFAR10-LT (±10°). That of the flow is the lowest, above all in the tail.

The models of CIFAR10-LT are those of table 1, with *ours* beside them. For RotMNIST-LT nothing is published: the set is
`data.rotmnist_lt`, the recipe that of MNIST (LeNet), with as many steps and an α of its own. All of its images are
rotated at random, so its baseline is trained on rotations. It has one more model: a flow that is trained to rotate with
its input (`Equivariance`), with the angle on the circle. Without that, a flow predicts the same for all rotations only
if it fills the circle evenly.

Measured on the test set: KL(p(x) ‖ p(rotated x)) with ten random angles for each image, as the mean over the images of
a class (`ekld`), and with the two exchanged (`backward`); for the last three classes, the mean as a share of the
baseline's and of Augerino's. Methods that average draw 100 fresh samples for every prediction; the image itself is not
among them, and none are rejected. Differs from the published code, which averages logits, rotates an image once, and
adds 1e-8 to probabilities, so that no image counts for more than 18.

Time: on a GPU a minute for each seed after table 1, and some minutes to train on RotMNIST-LT; on a CPU, a day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...data import DataSet, rotated
from ...metrics import Divergence, ekld
from ..base import Claim, Row, Rows, experiment
from ..draw import TINTS, curve, sheet
from .classify import Training, data_set, predictions, trained
from .recipes import WAYS

METHODS = {
    "rotmnist-lt": ("none", "augerino", "flow", "equivariant"),
    "cifar10-lt": ("none", "augerino", "flow", "ours"),
}
SPREADS = {"rotmnist-lt": 180, "cifar10-lt": 10}  # degrees
NAMES = {"none": "baseline", "augerino": "Augerino", "flow": "flow", "ours": "ours"}
NAMES["equivariant"] = "flow that turns with its input (ours)"
RIVALS = ("none", "augerino")
TAIL = 3  # classes


@dataclass(frozen=True)
class Config:
    """What is trained, and how much is measured."""

    training: Training
    datasets: tuple[str, ...] = tuple(METHODS)
    methods: tuple[str, ...] = tuple(NAMES)
    rotations: int = 10
    samples: int = 100
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(Training(source="glyphs", epochs=1, batch=8, samples=2, inputs=16), rotations=2, samples=3)
PAPER = tuple(
    Claim(
        f"to_{rival}",
        f"{dataset}: tail eKLD of {NAMES[method]} / {NAMES[rival]}",
        {"method": method, "dataset": dataset, "class": "tail"},
        "below 1" if method == "flow" else "–",
        high=1.0 if method != "ours" else None,
    )
    for dataset, methods in METHODS.items()
    for method in methods
    if method not in RIVALS
    for rival in RIVALS
)


def build(config: Config, dataset: str, method: str) -> Training:
    """The classifiers of table 1, and the same on RotMNIST-LT."""
    return replace(config.training, dataset=dataset, method=method, seed=config.seed)


def copies(test: DataSet, degrees: float, count: int) -> Tensor:
    """Images and, after them, all of them turned at random so many times, `((1 + count) N, C, H, W)`."""
    # The seeds are others than those with which the set itself was turned.
    turned = (rotated(test, math.radians(degrees), seed=1000 + k).x for k in range(count))
    return torch.cat((test.x, *turned))


def divergence(log_probs: Tensor, y: Tensor) -> Divergence:
    """The eKLD of each class, from predictions for `copies`."""
    first, *others = log_probs.split(len(y))
    return ekld(first, torch.stack(others), y)


def run(config: Config) -> list[Row]:
    """One row for each method, data set and class, and one for the tail."""
    rows: list[Row] = []
    for dataset in config.datasets:
        test = data_set(build(config, dataset, "none"), "test")
        images = copies(test, SPREADS[dataset], config.rotations)
        for method in (each for each in METHODS[dataset] if each in config.methods):
            training = build(config, dataset, method)
            model = trained(training, config.device)
            # All in one go, for the samples of a copy should be others than those of its image.
            log_probs = predictions(model, images, config.samples, averaged=WAYS[method].averages)
            found = divergence(log_probs, test.y)
            row: Row = {"method": method, "dataset": dataset, "seed": config.seed, "scale": training.scale}
            sizes = data_set(training, "train").counts()
            for place, (name, size) in enumerate(zip(test.classes, sizes, strict=True)):
                values = {"ekld": found.forward[place].item(), "backward": found.backward[place].item()}
                rows.append({**row, "class": name, "place": place, "size": size, **values})
            rows.append({**row, "class": "tail", "ekld": found.forward[-TAIL:].mean().item()})
    return rows


def compare(rows: list[Row]) -> list[Row]:
    """The rows; those of the tail also as a share of the baseline's and of Augerino's."""
    tails = {(row["method"], row["dataset"], row["seed"]): row for row in rows if row["class"] == "tail"}
    for (method, *where), row in tails.items():
        for rival in RIVALS:
            if method not in RIVALS and (other := tails.get((rival, *where))):
                row[f"to_{rival}"] = row["ekld"] / other["ekld"]
    return rows


def show(rows: Rows) -> Figure:
    """For each data set the eKLD against the class, a line for each method."""
    figure, axes = sheet(1, len(METHODS), (12, 3.8))
    for panel, (dataset, methods) in zip(axes, METHODS.items(), strict=True):
        mine = [row for row in rows if row["dataset"] == dataset and "place" in row]
        for method in methods:
            if own := [row for row in mine if row["method"] == method]:
                curve(panel, own, "place", "ekld", colour=TINTS[method], label=NAMES[method])
        about = {row["place"]: f"{row['class']}\n{row['size']}" for row in mine}
        panel.set_xticks(list(about), list(about.values()), fontsize=6.5)
        panel.set(title=f"{dataset}, ±{SPREADS[dataset]}°", ylabel="eKLD", xlabel="class and its training images")
        panel.set_yscale("log")  # otherwise all but the baseline's lie at the bottom
        panel.set_ylim(top=8 * panel.get_ylim()[1])
        panel.legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    return figure


KEYS, PARTS = ("method", "dataset", "class", "seed"), ("datasets", "methods")
EXPERIMENT = experiment(
    "ltt/figure4", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, compare=compare, apart=PARTS
)
