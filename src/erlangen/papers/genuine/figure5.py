r"""Figure 5: sensitivity to any change of the input, for three forms of invariance regularisation.

The paper tunes the weight ν of each regulariser (KL divergence of predictions, squared distance of logits, the same
divided by the size of the logits) until saliency maps are similar, SI ≥ 0.95, and finds that all of them make a network
less sensitive than augmentation alone: $\sigma_{\max}$ of its Jacobian falls, and so does its accuracy.

Measured: for each regulariser the smallest ν of a list for which SI on the validation set is at least 0.95, or, if
there is none, the greatest of the list, with *reached* 0; at that ν, on the test set, the mean of $\sigma_{\max}(J)$
over 1,000 images (J is by inputs in [0, 1]; by normalised ones all values are smaller by the same factor), its share of
that of augmentation, accuracy and SI.

Time: on one core of a CPU four minutes for each ν of a list, some two hours for a seed; on a GPU minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from matplotlib.figure import Figure
from torch import nn

from ...metrics import Saliency, jacobian_norm, saliency_similarity
from ...report.style import COLOURS
from ..base import Claim, Row, Rows, experiment
from ..draw import sheet
from .common import GROUPS, Training, accuracy, group_of, part, trained

METHODS = (
    ("da", (0.0,)),
    ("distribution", (30.0, 100.0, 300.0, 1000.0)),
    ("logit", (3.0, 7.0, 25.0, 70.0)),
    ("normalised", (1.0, 10.0, 100.0)),
)
ENOUGH = 0.95


@dataclass(frozen=True)
class Config:
    """How networks are trained, the weights that are tried for each regulariser, and how much is measured."""

    training: Training
    methods: tuple[tuple[str, tuple[float, ...]], ...] = METHODS
    groups: tuple[str, ...] = GROUPS
    inputs: int = 1000
    steps: int = 50
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(
    Training(source="drawn", sizes=(64, 32, 16), epochs=1, batch=16),
    methods=tuple((method, weights[:1]) for method, weights in METHODS),
    inputs=4,
    steps=2,
)
PAPER = tuple(
    Claim(metric, f"{group}: {what}, {method}", {"method": method, "group": group}, said, low, high)
    for group in GROUPS
    for method, _ in METHODS[1:]
    for metric, what, said, low, high in (
        ("reached", "SI reaches 0.95 (1: yes)", "1", 1.0 if method == "logit" else None, None),
        ("share", "σ_max(J) as a share of augmentation's", "considerably smaller", None, 1.0),
    )
)


def build(config: Config, method: str, group: str, nu: float) -> Training:
    """Augmentation, or a regulariser with its weight; the choice of the four nouns is in `common`."""
    training = replace(config.training, group=group, seed=config.seed)
    return training if method == "da" else replace(training, method="ir", regulariser=method, nu=nu)


def similarity(config: Config, training: Training, model: nn.Module, name: str) -> float:
    """SI on images of a part."""
    x, group = part(training, name).x[: config.inputs].to(config.device), group_of(training).to(config.device)
    return saliency_similarity(model, x, group, saliency=Saliency(steps=config.steps), batch_size=2048).mean.item()


def run(config: Config) -> list[Row]:
    """One row for each group and method."""
    rows: list[Row] = []
    for group in config.groups:
        for method, weights in config.methods:
            for nu in weights:
                training = build(config, method, group, nu)
                model = trained(training, config.device)
                held = similarity(config, training, model, "held")
                if held >= ENOUGH:
                    break
            test, moves = part(training, "test").to(config.device), group_of(training).to(config.device)
            sensitivity = jacobian_norm(model, test.x[: config.inputs], batch_size=2048).mean.item()
            row: Row = {"method": method, "group": group, "dataset": training.source, "seed": config.seed}
            row |= {"scale": training.scale, "nu": nu, "reached": int(held >= ENOUGH), "held_SI": held}
            row |= {"sigma_max": sensitivity, "SI": similarity(config, training, model, "test")}
            rows.append(row | {"accuracy": accuracy(model, test, moves)})
    return rows


def compare(rows: list[Row]) -> list[Row]:
    """The rows, each with its sensitivity as a share of that of augmentation."""
    plain = {(row["group"], row["dataset"], row["seed"]): row["sigma_max"] for row in rows if row["method"] == "da"}
    for row in rows:
        if usual := plain.get((row["group"], row["dataset"], row["seed"])):
            row["share"] = row["sigma_max"] / usual
    return rows


def show(rows: Rows) -> Figure:
    """For each group a bar for the sensitivity, with ν and SI beside it; pale where SI stays below 0.95."""
    figure, axes = sheet(1, len(GROUPS), (9, 3))
    names = [method for method, _ in METHODS]
    for panel, group in zip(axes, GROUPS, strict=True):
        for line, (colour, method) in enumerate(zip(COLOURS, names, strict=True)):
            for row in (row for row in rows if (row["method"], row["group"]) == (method, group)):
                pale = method != "da" and not row["reached"]
                panel.barh(line, row["sigma_max"], color=colour, alpha=0.3 if pale else 0.8, height=0.6)
                if row["seed"] == 0:
                    said = f"ν {row['nu']:g}, SI {row['SI']:.2f}, {row['accuracy']:.1f} %"
                    panel.text(row["sigma_max"], line, f" {said}", va="center", fontsize=7)
        panel.set(title=group, yticks=range(len(names)), yticklabels=names, xlabel="σ_max of the Jacobian")
        panel.invert_yaxis()
        panel.margins(x=0.35)
    return figure


KEYS = ("method", "group", "dataset", "seed")
EXPERIMENT = experiment("genuine/figure5", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, compare=compare)
