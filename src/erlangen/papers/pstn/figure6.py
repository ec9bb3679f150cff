r"""Figure 6: where a P-STN looks for the traffic sign in a scene.

The paper draws the boxes of ten samples over photographs of streets: they lie around the sign, and differ a little from
each other. Section 5.1.3. Here the scenes are a stand-in, and nothing has seen ImageNet (see `signs`). Beside the ten
windows of P-STN are the one of STN and the true box.

Measured: the overlap of the windows with the true boxes, the mean over samples and test scenes, and the share of scenes
in which the middle of some window lies in the true box.

Time: with the models of table 1 at hand, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch import Tensor

from ...metrics import box_overlap
from ...report.style import ACCENT
from ..base import Claim, Row, Rows, experiment
from ..draw import picture, sheet
from .draw import NAMES, TINTS
from .signs import CANVAS, Training, predictions, scene_set, trained

METHODS = ("stn", "pstn")


@dataclass(frozen=True)
class Config:
    """How the models are trained, and how many scenes are shown."""

    training: Training
    methods: tuple[str, ...] = METHODS
    shown: int = 8
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(Training(source="glyphs", epochs=1, first=1, batch=8, samples=2, width=4), shown=3)
PAPER = tuple(
    Claim(metric, f"{NAMES[method]}: {what}", {"method": method}, said)
    for method in METHODS
    for metric, what, said in (
        ("overlap", "overlap with the true box", "–"),
        ("found", "a window's middle lies in the true box, %", "shown" if method == "pstn" else "–"),
    )
)


def build(config: Config, method: str) -> Training:
    """The choice of the four nouns is in `signs`."""
    weight = config.training.weight if method == "pstn" else 0.0
    return replace(config.training, method=method, weight=weight, seed=config.seed)


def found(windows: Tensor, truth: Tensor) -> float:
    """In how many scenes, in percent, the middle of some window lies in the true box."""
    middle = (windows[..., :2] + windows[..., 2:]) / 2
    inside = ((middle >= truth[:, :2]) & (middle <= truth[:, 2:])).all(-1)
    return 100 * inside.any(0).double().mean().item()


def run(config: Config) -> list[Row]:
    """One row for each method, with scenes and windows."""
    rows: list[Row] = []
    for method in config.methods:
        training = build(config, method)
        test = scene_set(training.source, "test")
        _, windows = predictions(trained(training, config.device), test, method)
        truth = test.box.to(windows)
        row: Row = {"method": method, "dataset": f"{test.name}, stand-in", "seed": config.seed, "scale": training.scale}
        row |= {"overlap": box_overlap(windows, truth).mean().item(), "found": found(windows, truth)}
        some = torch.arange(config.shown) * (len(test) // config.shown)  # of all classes
        row |= {"scenes": test.x[some].cpu().numpy(), "windows": windows[:, some].numpy(), "truth": truth[some].numpy()}
        rows.append(row)
    return rows


def outline(axes: Axes, box: np.ndarray, **style: object) -> None:
    """Draws a box that is in the coordinates of the library."""
    left, top, right, bottom = (box + 1) * CANVAS / 2 - 0.5
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, **style))  # pyright: ignore[reportArgumentType]


def show(rows: Rows) -> Figure:
    """Scenes with the windows of each method in its colour, and the true box dashed."""
    some = [row for row in rows if row["seed"] == rows[0]["seed"]]
    shown = len(some[0]["scenes"])
    figure, axes = sheet(1, shown, (1.5 * shown, 2.0))
    for k, panel in enumerate(axes):
        picture(panel, some[0]["scenes"][k] / 255)
        for row in some:
            for window in row["windows"][:, k]:
                outline(panel, window, edgecolor=TINTS[row["method"]], linewidth=1)
        outline(panel, some[0]["truth"][k], edgecolor=ACCENT, linewidth=1.2, linestyle="--")
        panel.set(xlim=(-0.5, CANVAS - 0.5), ylim=(CANVAS - 0.5, -0.5))
    lines = [Line2D([], [], color=TINTS[row["method"]], label=NAMES[row["method"]]) for row in some]
    truth = Line2D([], [], color=ACCENT, linestyle="--", label="true box")
    figure.legend(handles=[*lines, truth], loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


EXPERIMENT = experiment("pstn/figure6", run, show, full=FULL, smoke=SMOKE, paper=PAPER)
