r"""How much saliency similarity depends on what the paper leaves open: baseline, steps and target of the gradients.

The paper's saliency maps (section 4.1) are integrated gradients "with respect to the target class"; it does not say
where their path begins, how many steps it has, or which class that is. Here each of these is changed in turn, for
networks of table 1: with tied weights, augmentation, regularisation, and ours.

Measured: SI of the first 1,000 test images for each choice, and how much it differs from that of table 1 (a black
image, 50 steps, the class that is predicted for the input, also for its copies).

Time: after table 1 some minutes on a CPU; the networks are trained there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from matplotlib.figure import Figure

from ...metrics import Saliency, saliency_similarity
from ...report.style import COLOURS
from ..base import Claim, Row, Rows, experiment
from ..draw import sheet
from . import table1
from .common import GROUPS, Training, group_of, part, trained

METHODS = ("wt", "da", "ir", "ours")
MEAN = "mean"  # the mean of the training images, which is zero for normalised inputs
CHOICES: dict[str, dict[str, Any]] = {
    "table 1": {},
    "from the mean": {"baseline": MEAN},
    "from white": {"baseline": 1.0},
    "10 steps": {"steps": 10},
    "200 steps": {"steps": 200},
    "class of each copy": {"target": "own"},
    "label": {"target": "true"},
}


@dataclass(frozen=True)
class Config:
    """The networks, how many images are compared, and by which choices."""

    training: Training
    methods: tuple[str, ...] = METHODS
    groups: tuple[str, ...] = GROUPS
    choices: tuple[str, ...] = tuple(CHOICES)
    inputs: int = 1000
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(table1.SMOKE.training, choices=("from the mean", "10 steps"), inputs=2)
PAPER = tuple(
    Claim("SI", f"{group}: {method}, {choice}", {"method": method, "group": group, "choice": choice})
    for group in GROUPS
    for method in METHODS
    for choice in CHOICES
)


def build(config: Config, method: str, group: str) -> Training:
    """The network of table 1."""
    return table1.build(replace(table1.FULL, training=config.training, seed=config.seed), method, group)


def saliency(choice: str, training: Training) -> Saliency:
    """How maps are made by a choice."""
    change: dict[str, Any] = CHOICES[choice]
    if change.get("baseline") == MEAN:
        change = {"baseline": (part(training, "train").x / 255).mean().item()}
    return Saliency(**change)


def run(config: Config) -> list[Row]:
    """One row for each group, method and choice."""
    rows: list[Row] = []
    for group in config.groups:
        for method in config.methods:
            training = build(config, method, group)
            model, moves = trained(training, config.device), group_of(training).to(config.device)
            data = part(training, "test").to(config.device)
            x, y = data.x[: config.inputs], data.y[: config.inputs]
            row: Row = {"method": method, "group": group, "dataset": training.source, "seed": config.seed}
            found: dict[str, float] = {}
            for choice in config.choices:
                how: Any = {"saliency": saliency(choice, training), "batch_size": 2048}
                found[choice] = saliency_similarity(model, x, moves, y=y, **how).mean.item()
                change = found[choice] - found[config.choices[0]]
                rows.append({**row, "choice": choice, "scale": training.scale, "SI": found[choice], "change": change})
    return rows


def show(rows: Rows) -> Figure:
    """For each group SI by every choice, a dot for each method and seed."""
    figure, axes = sheet(1, len(GROUPS), (9, 3.2))
    for panel, group in zip(axes, GROUPS, strict=True):
        for colour, method in zip(COLOURS, METHODS, strict=True):
            own = [row for row in rows if (row["method"], row["group"]) == (method, group)]
            lines = [list(CHOICES).index(row["choice"]) for row in own]
            panel.plot([row["SI"] for row in own], lines, "o", color=colour, label=method, alpha=0.7)
        panel.set(title=group, xlabel="saliency similarity", yticks=range(len(CHOICES)), yticklabels=list(CHOICES))
        panel.invert_yaxis()
    axes[1].tick_params(labelleft=False)
    axes[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


KEYS = ("method", "group", "dataset", "choice", "seed")
EXPERIMENT = experiment("genuine/sensitivity", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
