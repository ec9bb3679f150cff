r"""Table 1: traffic signs in scenes, with a classifier of whole scenes, an STN and a P-STN before a frozen classifier.

The paper has photographs of streets (Mapillary) and ResNets with weights from ImageNet: localisers that are trained
with labels alone, in front of a frozen classifier of the true boxes, find the signs; P-STN is better than STN, which is
better than a classifier of whole pictures. Section 5.1.3. Here signs of GTSRB lie in scenes made of other pictures, and
nothing has seen ImageNet (see `signs`), so that only the order of the methods compares: the rows say "stand-in".
*boxes* is the frozen classifier on the true boxes, the best that a localiser could do.

Measured: accuracy in percent, negative log-likelihood, and the overlap of the windows with the true boxes (the area
that they share over that of their union), the mean over samples.

Time: a minute or two for a method on a GPU; on one core of a CPU 45 minutes, and one and a half hours for P-STN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from ...metrics import box_overlap, nll
from ..base import Claim, Row, Rows, experiment
from ..draw import sheet
from .draw import NAMES, TINTS
from .signs import Training, predictions, scene_set, trained

METHODS = ("cnn", "stn", "pstn", "boxes")
PRINTED = {"cnn": ("76.0", "0.49"), "stn": ("90.6", "0.31"), "pstn": ("92.2", "0.29"), "boxes": ("–", "–")}


@dataclass(frozen=True)
class Config:
    """How models are trained, and which."""

    training: Training
    methods: tuple[str, ...] = METHODS
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(Training(source="glyphs", epochs=1, first=1, batch=8, samples=2, width=4))
PAPER = tuple(
    Claim(metric, f"{method}, {metric}", {"method": method}, said)
    for method, values in PRINTED.items()
    for metric, said in zip(("accuracy", "nll"), values, strict=True)
)


def build(config: Config, method: str) -> Training:
    """The choice of the four nouns is in `signs`."""
    training = replace(config.training, method=method, seed=config.seed)
    return training if method == "pstn" else replace(training, weight=0.0)


def run(config: Config) -> list[Row]:
    """One row for each method."""
    rows: list[Row] = []
    for method in config.methods:
        training = build(config, method)
        test = scene_set(training.source, "test")
        log_probs, windows = predictions(trained(training, config.device), test, method)
        right = (log_probs.argmax(-1) == test.y).double().mean().item()
        row: Row = {"method": method, "dataset": f"{test.name}, stand-in", "seed": config.seed, "scale": training.scale}
        row |= {
            "weights": "trained here, none from ImageNet",
            "accuracy": 100 * right,
            "nll": nll(log_probs, test.y).item(),
        }
        rows.append(row | {"overlap": box_overlap(windows, test.box.to(windows)).mean().item()})
    return rows


def show(rows: Rows) -> Figure:
    """Accuracy and overlap of each method, a dot for each seed."""
    figure, axes = sheet(1, 2, (8, 2.6))
    for panel, metric, label in zip(axes, ("accuracy", "overlap"), ("test accuracy, %", "overlap"), strict=True):
        for line, method in enumerate(METHODS):
            own = [row[metric] for row in rows if row["method"] == method]
            panel.plot(own, [line] * len(own), "o", color=TINTS.get(method, "black"), alpha=0.7)
        panel.set(xlabel=label, yticks=range(len(METHODS)), ylim=(len(METHODS) - 0.4, -0.6))
        names = [NAMES.get(method, "true boxes") for method in METHODS]
        panel.set_yticklabels(names if panel is axes[0] else [])
    return figure


EXPERIMENT = experiment("pstn/table1", run, show, full=FULL, smoke=SMOKE, paper=PAPER, apart=("methods",))
