"""Table 1 (left): test accuracy with LILA's residual network, and with LeNet on the grey sets.

The paper compares its flow with a baseline, Augerino and LILA on CIFAR10, Fashion-MNIST, MNIST and CIFAR10-LT. The
transformation has six affine coordinates. Here are also:

* *affine* and *tta*: hand-made augmentation, and test-time augmentation, both uniform within the same bounds;
* *instaaug*: InstaAug with a mean-field range for each image;
* *flow-code*: the flow as the published code has it (averaged logits, rejection, the image itself among the views);
* *ours*: the flow with everything else that helps (`recipes.OURS`), chosen on images held out of the training sets.

*lila* is our version of it (`objectives.MarginalLikelihood`), not the published code; it is not run yet. Settings are
those of the published code, with these differences:

* Views in training. *flow* has the published 20 on CIFAR10 and CIFAR10-LT, and *flow-code* on CIFAR10-LT; everything
  else that has views has four (`recipes.FEW`). With fewer views most losses keep their mean and gain noise; the loss of
  *flow-code* and of *ours*, which average logits first, changes.
* Gradients of the residual network are clipped where no distribution is learned, and for *ours* (`recipes.LIMIT`).
* Inputs are normalised after the transformation, and all 60,000 images of the grey sets are trained on, not 50,000.
* *flow-code* spreads the means of its mixture as for CIFAR10 on all sets.
* Augerino's ranges learn at the flow's rate (1e-4; its own code has 1e-2), and InstaAug's band, a quarter to a half of
  each range, is not tuned to any set. Both may do better than here.

Earlier rows of *flow-code* with 20 views were withdrawn (CIFAR10 86.0 %, Fashion-MNIST 89.6, MNIST 99.4, CIFAR10-LT
77.5): because of a fault in the rejection, all views came from a few components of the mixture. Fashion-MNIST and MNIST
have been measured again; CIFAR10 and CIFAR10-LT have not. Rows with 100 views reject nothing and stand. On
Fashion-MNIST *flow-code* reaches what the paper reports for its flow, while the flow as the paper describes it does
not.

Measured: accuracy on the test set in percent, expected calibration error (15 bins), negative log-likelihood.

Time: on a GPU a CIFAR10 run of a method that learns takes minutes; on a CPU, days.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from ...utils.words import several
from ..base import Claim, Row, Rows, experiment
from ..draw import accuracies, sheet
from .classify import Training, data_set, predictions, scores, trained
from .recipes import WAYS

DATASETS = ("cifar10", "fmnist", "mnist", "cifar10-lt")
METHODS = ("none", "affine", "tta", "augerino", "instaaug", "flow", "flow-code", "ours", "lila")
PAPER_VALUES = {
    "cifar10": {"none": "74.1 ± 0.5", "augerino": "79.0 ± 1", "lila": "84.2 ± 0.8", "flow": "86.8 ± 0.4"},
    "fmnist": {"none": "89.6 ± 0.2", "augerino": "90.1 ± 0.1", "lila": "91.9 ± 0.2", "flow": "92.3 ± 1.4"},
    "mnist": {"none": "99.1 ± 0.02", "augerino": "98.3 ± 0.1", "lila": "99.4 ± 0.02", "flow": "99.2 ± 0.1"},
    "cifar10-lt": {"none": "70.8 ± 0.8", "augerino": "63.6 ± 1.3", "lila": "76.4 ± 0.9", "flow": "78.1 ± 1"},
}
ASKED = {"cifar10": 86.8, "fmnist": 92.3, "mnist": 99.2, "cifar10-lt": 78.1}
BETTER = {"cifar10": 87.8, "cifar10-lt": 79.1}


@dataclass(frozen=True)
class Config:
    """What is trained, and with how many views it is evaluated."""

    training: Training
    datasets: tuple[str, ...] = DATASETS
    methods: tuple[str, ...] = tuple(way for way in METHODS if way in WAYS)
    samples: tuple[int, ...] = (20, 100)
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(
    Training(source="glyphs", epochs=1, batch=8, samples=2, inputs=16),
    datasets=("cifar10",),
    samples=(2, 3),
)


def views(method: str, samples: tuple[int, ...]) -> tuple[int, ...]:
    """How many views a prediction has: one of the input as it is, where a method does not average."""
    return samples if method not in WAYS or WAYS[method].averages else (1,)


PAPER = tuple(
    Claim(
        "accuracy",
        f"{dataset}: {way}, {several(n, 'view')}",
        {"method": way, "dataset": dataset, "samples": n},
        PAPER_VALUES[dataset].get(way, "–") if n < 100 else "–",
        ASKED[dataset] if way == "flow" and n == 20 else BETTER.get(dataset) if way == "ours" and n == 20 else None,
        run=way in WAYS,
    )
    for dataset in DATASETS
    for way in METHODS
    for n in views(way, (20, 100))
)


def build(config: Config, dataset: str, method: str) -> Training:
    """The choice of the four nouns is in `classify`."""
    return replace(config.training, dataset=dataset, method=method, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each method, data set and number of views."""
    rows: list[Row] = []
    for dataset in config.datasets:
        for method in config.methods:
            training = build(config, dataset, method)
            model, test = trained(training, config.device), data_set(training, "test")
            for samples in views(method, config.samples):
                found = predictions(model, test.x, samples, averaged=WAYS[method].averages)
                row: Row = {"method": method, "dataset": dataset, "samples": samples, "seed": config.seed}
                rows.append({**row, "scale": training.scale, **scores(found, test.y)})
    return rows


def show(rows: Rows) -> Figure:
    """For each data set the accuracies, a dot for each seed, beside the paper's."""
    figure, axes = sheet(1, len(DATASETS), (12, 3.6))
    for panel, dataset in zip(axes, DATASETS, strict=True):
        own = [row for row in rows if row["dataset"] == dataset]
        said = {way: PAPER_VALUES[dataset].get(way, "–") for way in METHODS}
        accuracies(panel, own, said, (1, 20, 100), legend=panel is axes[-1])
        panel.set(title=dataset)
        panel.tick_params(labelleft=panel is axes[0])
    return figure


KEYS = ("method", "dataset", "samples", "seed")
EXPERIMENT = experiment(
    "ltt/table1", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, apart=("datasets", "methods")
)
