"""Table 2: test accuracy on CIFAR10 with Augerino's 13-layer network.

The paper compares its flow with no augmentation, Fast AutoAugment and Augerino. The transformation has six affine
coordinates, and settings are those of the published code, with Augerino's ranges at the rate of Augerino's own code.
Fast AutoAugment is not run. *ours* is the flow with what helps on CIFAR10 in table 1.

The published code never leaves training mode: the paper's 94.3 was measured with dropout on, and with batches
normalised by their own statistics. Here every model is measured twice: in evaluation mode, and, in the rows that say
*train mode*, as published (100 images at a time, ten views of each in a pass, logits averaged instead of
probabilities). The conditional is in evaluation mode in both.

Training has 60 of the published 200 epochs, with 4 of the 5 views of an image. The first 10 epochs have no
transformations, as published.

Measured: accuracy on the test set in percent, expected calibration error (15 bins), negative log-likelihood.

Time: about five minutes for a method that learns on an H200 (estimated); on a CPU, weeks.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from ...models import Averaged
from ...utils.words import several
from ..base import Claim, Row, Rows, experiment
from ..draw import accuracies, sheet
from .classify import Training, data_set, predictions, scores, trained
from .recipes import WAYS
from .table1 import views

METHODS = ("none", "augerino", "flow", "ours")
BATCH, SLICE = 100, 10  # images, and views of each, that published evaluation normalises together
MOST = 2**12  # views at a time: the widest maps of 2**13 have 2**31 numbers, more than some kernels can count
PAPER_VALUES = {
    "none": "90.6",
    "fast-autoaugment": "92.65",
    "augerino": "93.8",
    "flow": "94.3",
    "ours": "–",
    "none, train mode": "–",
    "augerino, train mode": "–",
    "flow, train mode": "94.3",
    "ours, train mode": "–",
}
ASKED = {"flow": 94.3}


@dataclass(frozen=True)
class Config:
    """What is trained, and with how many views it is evaluated."""

    training: Training
    methods: tuple[str, ...] = METHODS
    samples: tuple[int, ...] = (20, 100)
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training("cifar10-conv13", epochs=60, samples=4))
SMOKE = Config(Training("cifar10-conv13", source="glyphs", epochs=1, batch=4, samples=2, inputs=8), samples=(2,))

PAPER = tuple(
    Claim(
        "accuracy",
        f"{way}, {several(n, 'view')}",
        {"method": way, "samples": n},
        said if n < 100 else "–",
        ASKED.get(way) if n == 20 else None,
        run=way != "fast-autoaugment",
    )
    for way, said in PAPER_VALUES.items()
    for n in ((1,) if way == "fast-autoaugment" else views(way.partition(",")[0], (20, 100)))
)


def build(config: Config, method: str) -> Training:
    """The choice of the four nouns is in `classify`."""
    return replace(config.training, method=method, seed=config.seed)


def in_train_mode(model: Averaged) -> Averaged:
    """A copy, since batch normalisation in training mode changes, that evaluates as the published code does."""
    copy = deepcopy(model)
    copy.model.train()
    copy.space, copy.largest = "logit", BATCH * SLICE
    return copy


def run(config: Config) -> list[Row]:
    """One row for each method, mode and number of views."""
    rows: list[Row] = []
    for method in config.methods:
        training = build(config, method)
        model, test = trained(training, config.device), data_set(training, "test")
        model.largest = MOST
        for name, way in ((method, model), (f"{method}, train mode", in_train_mode(model))):
            for samples in views(method, config.samples):
                found = predictions(way, test.x, samples, averaged=WAYS[method].averages, batch=BATCH)
                row: Row = {"method": name, "dataset": "cifar10", "samples": samples, "seed": config.seed}
                rows.append({**row, "scale": training.scale, **scores(found, test.y)})
    return rows


def show(rows: Rows) -> Figure:
    """The accuracies, a dot for each seed, beside the paper's; of what is in neither, nothing."""
    figure, (panel,) = sheet(1, 1, (8, 3.6))
    ran = {row["method"] for row in rows}
    accuracies(panel, rows, {m: said for m, said in PAPER_VALUES.items() if said != "–" or m in ran}, (1, 20, 100))
    return figure


KEYS = ("method", "dataset", "samples", "seed")
EXPERIMENT = experiment("ltt/table2", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, apart=("methods",))
