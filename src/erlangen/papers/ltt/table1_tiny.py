"""Table 1 (right): crops of Tiny ImageNet that are learned, as a range, as a choice of 321, or as a density.

The paper learns crops (centre, width and height) with InstaAug's PreActResNet18 on the 200 classes of Tiny ImageNet.
Here there are 50 of these classes, so only the order of the paper's numbers can be compared with ours, and nothing is
asked.

* *instaaug-crop* and *flow-crop* are distributions over the four coordinates.
* *instaaug-321* and *flow-321* are probabilities of 321 fixed crops (the paper's "with LRP"). The paper leaves open
  what a flow over them would be; here it is the paper's objective (equations 10 and 18) with its fixed α in place of
  InstaAug's band. Crops are drawn from these probabilities in training and in prediction; the gradient is that of the
  score function, less a baseline.
* *random-crop* is trained on crops uniform over all coordinates. Its rows are for the whole image (1 view), and
  averaged over such crops.
* *none* has no crops, and InstaAug's 160 epochs.

Neither the paper nor its code gives the settings, so these are InstaAug's: random mirroring in training for all
methods; SGD with Nesterov momentum, batches of 100, a rate that rises to 0.2 in 1000 steps; 10 epochs without crops and
150 with one crop of each image; the band of the entropy of 321 crops. All conditionals read the spatial scores of
InstaAug's network. Chosen by us:

* 80 epochs (10 without crops) with two crops of each image, which are as many crops.
* A cosine decay of the rate, where InstaAug watches the test set.
* Adam for the conditional, in the same step as the classifier. Its rate rises to 1e-4 in the first 2500 steps with
  crops, then decays. At 1e-3 from the start, the 321 crops lose their initial preference for the whole frame in eight
  steps.
* A band that is checked every 50 steps, with α starting at 0.02. From the published 0.2 the entropy overshoots the
  band and never returns.
* Sides of at least 0.375, as the smallest of the 321 crops; α = 0.1, as for CIFAR10; InstaAug's ranges between a
  quarter and a half of the whole ones.

All rows are of one seed. As in the paper, Augerino gains nothing, and InstaAug's choice of 321 is the best of the
methods that learn crops (in the paper together with *flow-321*); its range gains here but not in the paper. Two things
differ from the paper:

* Averaging predictions over random crops beats every method that learns crops.
* *flow-321* collapsed: 20 and 100 views of an image are all the same crop. Presumably, early in training, the loss of
  small crops is far greater than the reward that a fixed α of 0.1 gives to entropy, and probabilities near zero hardly
  grow again.

Measured: accuracy on the test set in percent, expected calibration error (15 bins), negative log-likelihood.

Time: two to six minutes for each method on an H200, four or five at once; on a CPU, days.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from ...utils.words import several
from ..base import Claim, Row, Rows, experiment
from ..draw import accuracies, sheet
from .classify import Training, data_set, predictions, scores, trained
from .recipes import PLAIN, WAYS

DATASET = "tiny-imagenet, 50 of 200 classes"
PAPER_VALUES = {
    "none": "55.1",
    "random-crop": "64.5",
    "augerino": "55.0",
    "instaaug-crop": "54.4",
    "instaaug-321": "66.0",
    "flow-crop": "65.4",
    "flow-321": "66.0",
}


@dataclass(frozen=True)
class Config:
    """What is trained, and with how many views it is evaluated."""

    training: Training
    methods: tuple[str, ...] = tuple(PAPER_VALUES)
    samples: tuple[int, ...] = (20, 100)
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training("tiny-imagenet-50", epochs=80, samples=2))
SMOKE = Config(Training("tiny-imagenet-50", source="glyphs", epochs=1, batch=4, samples=2, inputs=8), samples=(2,))


def views(method: str, samples: tuple[int, ...]) -> tuple[int, ...]:
    """How many views a prediction has; 1 is the image as it is."""
    alone = () if WAYS[method].averages else (1,)
    return alone if method == "none" else (*alone, *samples)


PAPER = tuple(
    Claim(
        "accuracy",
        f"{way}, {several(n, 'view')}, 50 of 200 classes",
        {"method": way, "dataset": DATASET, "samples": n},
        f"{said} (200 classes)" if n == views(way, (20, 100))[0] else "–",
    )
    for way, said in PAPER_VALUES.items()
    for n in views(way, (20, 100))
)


def build(config: Config, method: str) -> Training:
    """The choice of the four nouns is in `classify`; one view of each image is seen for as many epochs as there are."""
    epochs = config.training.epochs * (config.training.samples if method in PLAIN else 1)
    return replace(config.training, method=method, epochs=epochs, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each method and number of views."""
    rows: list[Row] = []
    for method in config.methods:
        training = build(config, method)
        model, test = trained(training, config.device), data_set(training, "test")
        for samples in views(method, config.samples):
            found = predictions(model, test.x, samples, averaged=samples > 1)
            row: Row = {"method": method, "dataset": DATASET, "samples": samples, "seed": config.seed}
            rows.append({**row, "scale": training.scale, **scores(found, test.y)})
    return rows


def show(rows: Rows) -> Figure:
    """The accuracies on 50 classes, a dot for each seed, beside the paper's on 200."""
    figure, (panel,) = sheet(1, 1, (8, 3.8))
    accuracies(panel, rows, PAPER_VALUES, (1, 20, 100))
    panel.set_title("ours: 50 classes; the paper's: 200", fontsize=9)
    return figure


KEYS = ("method", "dataset", "samples", "seed")
EXPERIMENT = experiment(
    "ltt/table1_tiny", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, apart=("methods",)
)
