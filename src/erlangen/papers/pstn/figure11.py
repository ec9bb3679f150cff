r"""Figure 11: how often predictions are right against how sure they are, on 100 digits.

The paper draws reliability curves of the models of table 2 on MNIST100: a classifier alone and an STN are surer than
they are right; P-STN, averaged over its transformations, is nearly as often right as it is sure, above all with w =
0.0001. Here also of hand-made augmentation and of the flow.

Measured: the expected calibration error on the test set, in 15 bins, of all weights of table 2 (`part` "fold"), and the
mean over folds (`part` "folds") of each weight, where `kind` says which weight is "chosen" for its accuracy on
validation folds.

Time: none after table 2, whose models it uses, but for their tests: some minutes on a CPU.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from ...metrics import ece, reliability
from ...report.style import MUTED
from ..base import Claim, Row, Rows, experiment
from ..draw import sheet
from . import table2
from .common import LOCALISED, Training, fold, predictions, scores, test_set, trained
from .draw import NAMES, TINTS

SIZE, BINS = 100, 15


@dataclass(frozen=True)
class Config:
    """The models of table 2, and on how many digits they are tested."""

    training: Training
    methods: tuple[str, ...] = table2.METHODS
    weights: tuple[tuple[str, tuple[float, ...]], ...] = table2.FULL.weights
    tested: int = 10_000
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(table2.TINY, weights=table2.SMOKE.weights, tested=50)
PAPER = (
    Claim("ece", "CNN", {"method": "cnn", "part": "folds"}, "0.0743 ± 0.0094"),
    Claim("ece", "STN", {"method": "stn", "part": "folds"}, "0.1160 ± 0.0205"),
    Claim("ece", "P-STN, w = 0.0003", {"method": "pstn", "part": "folds", "weight": 3e-4}, "0.0567 ± 0.0065"),
    Claim("ece", "P-STN, w = 0.0001", {"method": "pstn", "part": "folds", "weight": 1e-4}, "0.0271 ± 0.0088"),
    Claim("least", "P-STN, least of all w", {"method": "pstn", "part": "folds", "kind": "chosen"}, "–", None, 0.057),
    Claim("ece", "P-STN, w chosen", {"method": "pstn", "part": "folds", "kind": "chosen"}, "–", None, 0.065),
    Claim("below", "the same, less the better of CNN and STN", {"method": "pstn", "kind": "chosen"}, "–", None, 0.0),
    Claim("ece", "hand-made affine", {"method": "affine", "part": "folds"}),
    Claim("ece", "flow, alpha chosen", {"method": "flow", "part": "folds", "kind": "chosen"}),
)


def build(config: Config, method: str) -> list[Training]:
    """The models of table 2 on 100 digits."""
    own = {"training": config.training, "weights": config.weights, "seed": config.seed}
    return table2.build(replace(table2.FULL, **own), method, SIZE)


def run(config: Config) -> list[Row]:
    """For each method a row of each weight and fold, and one of each weight."""
    rows: list[Row] = []
    means: list[Row] = []
    for method in config.methods:
        found = measured(config, method)
        rows += found
        weights = sorted({row["weight"] for row in found})
        each = {w: [row for row in found if row["weight"] == w] for w in weights}
        best = max(weights, key=lambda w: statistics.fmean(row["validation"] for row in each[w]))
        errors = {w: statistics.fmean(row["ece"] for row in each[w]) for w in weights}
        for weight, own in each.items():
            same = {name: own[0][name] for name in ("method", "dataset", "weight", "scale")}
            kind = "chosen" if weight == best else "other"
            counts = {"ece": errors[weight], "least": min(errors.values())}
            means.append({**same, "part": "folds", "seed": config.seed, "kind": kind, **counts})
    return rows + means


def compare(rows: list[Row]) -> list[Row]:
    """The rows; each mean over folds has its difference from the better one of CNN and STN."""
    means = [row for row in rows if row["part"] == "folds"]
    for row in means:
        same = [other for other in means if (other["dataset"], other["seed"]) == (row["dataset"], row["seed"])]
        others = {other["method"]: other["ece"] for other in same if other["method"] in ("cnn", "stn")}
        if len(others) == 2:
            row["below"] = row["ece"] - min(others.values())
    return rows


def measured(config: Config, method: str) -> list[Row]:
    """The calibration error and the reliability curve of each weight and fold."""
    configs, test = build(config, method), test_set(config.training.source, config.tested)
    rows: list[Row] = []
    for own, (model, _) in zip(configs, trained(configs, config.device), strict=True):
        averaged, held = method in LOCALISED, fold(own).validation
        log_probs = predictions(model, test.x, averaged=averaged)
        row: Row = {"method": method, "dataset": f"{own.source}{SIZE}", "part": "fold", "seed": own.fold}
        row |= {"weight": own.weight, "scale": own.scale, "ece": ece(log_probs, test.y, BINS).item()}
        row["validation"] = 0.0 if held is None else scores(model, held, averaged=averaged)["accuracy"]
        curve = reliability(log_probs, test.y, BINS)
        rows.append(row | {"curve": np.stack([part.numpy() for part in curve]).astype(np.float32)})
    return rows


def show(rows: Rows) -> Figure:
    """A reliability curve for each method with the chosen weight, over all folds."""
    figure, (axes,) = sheet(1, 1, (5.2, 4.6))
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
    for whole in (row for row in rows if row["part"] == "folds" and row["kind"] == "chosen"):
        names = ("method", "dataset", "weight")
        own = [r["curve"] for r in rows if r["part"] == "fold" and all(r[n] == whole[n] for n in names)]
        confidence, accuracy, share = np.stack(own).swapaxes(0, 1)
        total = share.sum(0)
        middle, right = (
            np.nansum(value * share, 0) / np.where(total > 0, total, np.nan) for value in (confidence, accuracy)
        )
        label = f"{NAMES[whole['method']]}: {whole['ece']:.3f}"
        axes.plot(middle, right, "o-", markersize=4, color=TINTS[whole["method"]], label=label)
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.legend(frameon=False, fontsize=8, title="expected calibration error")
    return figure


KEYS = ("method", "dataset", "part", "weight", "seed")
EXPERIMENT = experiment("pstn/figure11", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, compare=compare)
