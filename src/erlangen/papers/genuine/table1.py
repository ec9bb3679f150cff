r"""Table 1: accuracy and invariance of networks with tied weights, augmentation and invariance regularisation.

The paper compares weight tying (WT), data augmentation (DA) and invariance regularisation (IR) on Transforming-MNIST,
over four-fold rotations and three cyclic shifts along x: DA classifies all copies correctly, but its logits differ
between them, and it looks at different things; IR is nearly as invariant as WT, at a price. Here also: tied weights
pooled by their mean, the DA network averaged over the group, regularisation over a learned distribution of elements,
and *ours*: one forward pass of the same network, without tied weights, on inputs that were moved to a learned pose
(`posed`).

Measured, on whole orbits of the test set: accuracy in percent, logit invariance (LI), distribution invariance (DI),
share of decisions that stay (consistency), and saliency similarity (SI, of the first 2,000 images): integrated
gradients of the predicted class in 50 steps from a black image, smoothed as the group moves pixels (circular for
shifts).

Time: on one core of a CPU two to four minutes for each network, two and a half hours for four seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from ...report.style import COLOURS, MUTED
from ..base import Claim, Row, Rows, experiment
from ..draw import beside, sheet
from .common import GROUPS, Training, averaged, group_of, measures, part, trained

METHODS = ("wt", "wt-mean", "da", "averaged", "ir", "learned", "ours")
# Tuned so that SI is at least 0.95 on the validation set, as the paper does. With seed 0 it was 0.962 for 7 on R4, and
# 0.891, 0.932, 0.951 for 7, 25, 60 on T3, where a little is added for other seeds.
NU = {"R4": 7.0, "T3": 70.0}
COLUMNS = ("accuracy", "LI", "DI", "SI")
PRINTED = {
    ("wt", "R4"): ("94.6 ± 0.1", "0.00 ± 0.0", "0.0 ± 0.0", "1.00 ± 0.00"),
    ("da", "R4"): ("94.0 ± 0.5", "98.6 ± 5.4", "0.3 ± 0.1", "0.17 ± 0.04"),
    ("ir", "R4"): ("87.9 ± 0.8", "0.02 ± 0.0", "0.0 ± 0.0", "0.95 ± 0.03"),
    ("wt", "T3"): ("96.6 ± 0.1", "0.0 ± 0.0", "0.0 ± 0.0", "1.00 ± 0.0"),
    ("da", "T3"): ("96.2 ± 0.2", "50.8 ± 6.8", "0.1 ± 0.0", "0.57 ± 0.08"),
    ("ir", "T3"): ("93.1 ± 0.1", "0.01 ± 0.0", "0.0 ± 0.0", "0.95 ± 0.07"),
}
EXACT = {"LI": (None, 1e-6), "DI": (None, 1e-6), "SI": (0.99, None)}
ASKED: dict[tuple[str, str], dict[str, tuple[float | None, float | None]]] = {
    ("wt", "R4"): {"accuracy": (94.0, None), **EXACT},
    ("wt", "T3"): {"accuracy": (96.0, None), **EXACT},
    ("da", "R4"): {"accuracy": (93.5, None), "LI": (20, None), "SI": (None, 0.5)},
    ("da", "T3"): {"accuracy": (95.7, None), "LI": (20, None), "SI": (None, 0.75)},
    ("averaged", "R4"): EXACT,
    ("averaged", "T3"): EXACT,
    ("ir", "R4"): {"accuracy": (86.0, None), "LI": (None, 0.05), "SI": (0.95, None)},
    ("ir", "T3"): {"accuracy": (91.5, None), "LI": (None, 0.05), "SI": (0.95, None)},
    ("ours", "R4"): {"accuracy": (90.0, None), "SI": (0.95, None)},
}


@dataclass(frozen=True)
class Config:
    """How networks are trained, which of them, and how many saliency maps are compared, in how many steps."""

    training: Training
    methods: tuple[str, ...] = METHODS
    groups: tuple[str, ...] = GROUPS
    maps: int = 2000
    steps: int = 50
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(Training(source="drawn", sizes=(64, 32, 16), epochs=1, batch=16), maps=4, steps=2)
PAPER = tuple(
    Claim(column, f"{group}: {method}, {column}", {"method": method, "group": group}, said, *asked)
    for group in GROUPS
    for method in METHODS
    for column, said in zip(COLUMNS, PRINTED.get((method, group), ("–",) * 4), strict=True)
    for asked in [ASKED.get((method, group), {}).get(column, (None, None))]
)


def build(config: Config, method: str, group: str) -> Training:
    """The choice of the four nouns is in `common`; the averaged network is that of augmentation."""
    kind = "da" if method == "averaged" else method
    nu = NU[group] if kind in ("ir", "learned") else 0.0
    return replace(config.training, method=kind, group=group, nu=nu, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each group and method."""
    rows: list[Row] = []
    for group in config.groups:
        for method in config.methods:
            training = build(config, method, group)
            elements = group_of(training).to(config.device)
            model, test = trained(training, config.device), part(training, "test").to(config.device)
            model = averaged(model, elements).to(config.device).eval() if method == "averaged" else model
            row: Row = {"method": method, "group": group, "dataset": training.source, "seed": config.seed}
            found = measures(model, test, elements, maps=config.maps, steps=config.steps)
            rows.append({**row, "scale": training.scale, "nu": training.nu, **found})
    return rows


def show(rows: Rows) -> Figure:
    """For each group the accuracy of every method against its saliency similarity, a dot for each seed."""
    figure, axes = sheet(1, 2, (9, 3.6))
    for panel, group in zip(axes, GROUPS, strict=True):
        for k, method in enumerate(METHODS):
            colour, mark = COLOURS[k // 2], "os"[k % 2]
            own = [row for row in rows if (row["method"], row["group"]) == (method, group)]
            panel.plot(
                [r["SI"] for r in own], [r["accuracy"] for r in own], mark, color=colour, label=method, alpha=0.7
            )
            said = PRINTED.get((method, group))
            if said:
                place = [[float(text.split()[0])] for text in (said[3], said[0])]
                panel.plot(*place, "+", color=colour, markersize=11, markeredgewidth=2)
        panel.plot([], [], "+", color=MUTED, markersize=11, markeredgewidth=2, label="the paper's")
        panel.set(title=group, xlabel="saliency similarity", ylabel="accuracy, %")
    beside(axes[-1])
    return figure


KEYS = ("method", "group", "dataset", "seed")
EXPERIMENT = experiment("genuine/table1", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
