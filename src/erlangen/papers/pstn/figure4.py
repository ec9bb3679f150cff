r"""Figure 4: rotated MNIST before a frozen classifier: which angle a localiser finds, and how sure it is.

The paper trains a CNN on upright digits, freezes it, and trains an STN and a P-STN to rotate digits back: P-STN
classifies more digits correctly and is nearer to the true angles, and its variance is 17 % greater where it errs. Here
also the flow in the same place, and, as *flow-near* and *flow-wide*, the flow as it was first tried: it often collapses
to wrong angles (see `frozen`).

Measured on the 10,000 test digits: accuracy in percent; the error of the angle as equation 18 prints it, modulo π, and
the distance on the circle, in [0, π]; by how many percent the deviation of the angle is greater for digits with a
(circular) error above the median than for the others. The angle is the centre of the distribution.

Time: on a GPU half an hour for five seeds, which are trained together; on one core of a CPU about ten hours for
each seed and method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure

from ...data import PosedSet
from ...distributions.circle import wrap
from ...metrics import angle_error
from ...report.style import COLOURS, MUTED
from ..base import Claim, Row, Rows, experiment
from ..draw import first, picture, sheet
from ..store import as_bytes
from .draw import NAMES, TINTS
from .frozen import Found, Frozen, classifiers, data_set, localise, localisers

METHODS = ("cnn", "stn", "pstn", "flow", "flow-near", "flow-wide")
DRAWN = METHODS[1:4]
ALPHA = {"flow": 0.3, "flow-near": 0.01, "flow-wide": 0.1}  # the weight of the flow's entropy
SHOWN, VIEWS, DOTS = 4, 5, 500
BINS = np.linspace(0, 1.5, 31)


@dataclass(frozen=True)
class Config:
    """How localisers are trained, on how many images they are tested, and how many seeds are trained together."""

    training: Frozen
    methods: tuple[str, ...] = METHODS
    tested: int = 10_000
    count: int = 5
    device: str = "cpu"
    seed: int = 0


FULL = Config(Frozen())
SMOKE = Config(Frozen(source="drawn", inputs=64, epochs=1, first=1, batch=16, samples=2), tested=50, count=2)
PAPER = (
    Claim("accuracy", "accuracy of the frozen classifier alone, %", {"method": "cnn"}, "41.2"),
    Claim("accuracy", "accuracy, STN", {"method": "stn"}, "76.13"),
    Claim("accuracy", "accuracy, P-STN", {"method": "pstn"}, "82.98", 82.9),
    Claim("accuracy", "accuracy, flow", {"method": "flow"}),
    Claim("accuracy", "accuracy, flow that begins near the identity", {"method": "flow-near"}),
    Claim("accuracy", "accuracy, flow that begins wide, without a controller", {"method": "flow-wide"}),
    Claim("error", "error of the angle modulo π (Eq. 18), STN", {"method": "stn"}, "0.76"),
    Claim("error", "the same, P-STN", {"method": "pstn"}, "0.59", None, 0.59),
    Claim("error", "the same, flow", {"method": "flow"}),
    Claim("circular", "error of the angle on the circle, STN", {"method": "stn"}),
    Claim("circular", "the same, P-STN", {"method": "pstn"}),
    Claim("circular", "the same, flow", {"method": "flow"}),
    Claim("wider", "deviation above the median error, % greater, P-STN", {"method": "pstn"}, "17", 0.0),
    Claim("better", "flow: accuracy above the better of STN and P-STN", {"method": "flow"}, "–", 0.0),
)


def build(config: Config, method: str) -> list[Frozen]:
    """The localisers of a method; the choice of the four nouns is in `frozen`."""
    common = replace(config.training, method=method, weight=ALPHA.get(method, config.training.weight))
    return [replace(common, seed=config.count * config.seed + k) for k in range(config.count)]


def run(config: Config) -> list[Row]:
    """One row for each method and seed."""
    training = config.training
    data = data_set(training.task, training.source, "test", config.tested)
    rows: list[Row] = []
    for method in config.methods:
        configs, alone = build(config, method), method == "cnn"
        models = (classifiers if alone else localisers)(configs, config.device)
        for own, model in zip(configs, models, strict=True):
            row: Row = {"method": method, "dataset": f"{own.source}-rotated", "seed": own.seed, "scale": own.scale}
            rows.append(row | measured(localise(model, data, alone=alone, shown=SHOWN), data))
    return rows


def compare(rows: list[Row]) -> list[Row]:
    """The rows, each with how far it is above the better of STN and P-STN of the same seed."""
    for row in rows:
        others = [r["accuracy"] for r in rows if r["seed"] == row["seed"] and r["method"] in ("stn", "pstn")]
        if len(others) == 2:
            row["better"] = row["accuracy"] - max(others)
    return rows


def measured(found: Found, data: PosedSet) -> Row:
    """How far angles are from the true ones, and how sure the localiser was."""
    angle, deviation = -found.centre[:, 0], found.deviation[:, 0]  # what it undoes is what it found
    error = angle_error(angle, data.angle)
    far = error.circular > error.circular.median()
    near, away = deviation[~far].mean().item(), deviation[far].mean().item()
    return {
        "accuracy": 100 * found.right.double().mean().item(),
        "error": error.printed.mean().item(),
        "circular": error.circular.mean().item(),
        "wider": 100 * (away / near - 1) if near > 0 else 0.0,
        "pairs": torch.stack((data.angle, wrap(angle)))[:, :DOTS].float().numpy(),
        "widths": np.stack([np.histogram(deviation[k].numpy(), BINS)[0] for k in (~far, far)]).astype(np.float32),
        "views": as_bytes(torch.cat((data.x[None, :SHOWN] / 255, found.views[:VIEWS]))),
    }


def show(rows: Rows) -> Figure:
    """For each method angles that were found against true ones; digits before and after; deviations of P-STN."""
    figure, axes = sheet(2, 3, (9, 5.4))
    for panel, method in zip(axes, DRAWN, strict=False):
        row = first(rows, method=method)
        if row is not None:
            panel.plot(*row["pairs"], ".", markersize=3, color=TINTS[method], alpha=0.5)
        panel.plot([-np.pi, np.pi], [-np.pi, np.pi], color=MUTED, linewidth=0.8)
        panel.set(title=NAMES[method], xlabel="true angle", ylabel="found", aspect="equal")
    for panel, method in zip(axes[3:5], ("stn", "pstn"), strict=True):
        row = first(rows, method=method)
        if row is not None:
            views = row["views"][:, :, 0]
            picture(panel, np.block([list(column) for column in views.swapaxes(0, 1)])[None], f"{NAMES[method]}: views")
    row = first(rows, method="pstn")
    # Most deviations lie in the first bins: what is wider, and errs more often, shows in the tail alone.
    axes[5].set(title="P-STN", xlabel="deviation of the angle", ylabel="digits", yscale="log")
    if row is not None:
        for counts, colour, label in zip(row["widths"], COLOURS, ("error below the median", "above"), strict=False):
            axes[5].stairs(counts, BINS, color=colour, label=label)
        axes[5].legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = experiment("pstn/figure4", run, show, full=FULL, smoke=SMOKE, paper=PAPER, compare=compare)
