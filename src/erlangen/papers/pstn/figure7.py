r"""Figure 7: clothes placed at random on a larger canvas, before a frozen classifier.

The paper shrinks Fashion-MNIST to half its size, places each image somewhere on a black canvas, and trains an STN and a
P-STN before a classifier of clothes that fill the frame: both learn to zoom in, P-STN slightly better. Here also the
flow in the same place.

Measured on the 10,000 test images: accuracy in percent; the overlap (intersection over union) of the window with the
true box, at the centre of the distribution; the mean distance of its middle from the true one, in pixels of the canvas.

Three seeds are trained together, for 6 epochs (the published code has 600).

Time: five minutes on a GPU, with ten other trainings beside it.
"""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.figure import Figure

from ...data import BoxedSet
from ...metrics import box_overlap
from ...transforms import Transform
from ..base import Claim, Row, Rows, experiment
from ..draw import first, picture, sheet
from ..store import as_bytes
from . import figure4
from .draw import NAMES
from .figure4 import DRAWN
from .frozen import CANVAS, Found, Frozen, classifiers, data_set, localise, localisers, moves, upright
from .signs import boxes

Config = figure4.Config
SHOWN, VIEWS = 4, 5

FULL = Config(Frozen(task="placed", source="fashion-mnist", epochs=6), methods=("cnn", *DRAWN), count=3)
TINY = Frozen(task="placed", source="drawn", inputs=32, epochs=1, first=1, batch=8, samples=2)
SMOKE = Config(TINY, methods=FULL.methods, tested=20, count=1)
PAPER = (
    Claim("accuracy", "accuracy of the classifier on clothes that fill the frame, %", {"method": "cnn"}, "90.63"),
    Claim("accuracy", "accuracy, STN", {"method": "stn"}, "84.41"),
    Claim("accuracy", "accuracy, P-STN", {"method": "pstn"}, "84.99"),
    Claim("accuracy", "accuracy, flow", {"method": "flow"}),
    *(
        Claim(metric, f"{what}, {NAMES[method]}", {"method": method})
        for metric, what in {"overlap": "overlap with the true box", "distance": "distance of the middle"}.items()
        for method in DRAWN
    ),
)


build = figure4.build


def run(config: Config) -> list[Row]:
    """One row for each method and seed."""
    training, rows = config.training, []
    boxed = data_set(training.task, training.source, "test", config.tested)
    for method in config.methods:
        configs, alone = build(config, method), method == "cnn"
        models = (classifiers if alone else localisers)(configs, config.device)
        data = upright(training.source, "test", config.tested) if alone else boxed
        for own, model in zip(configs, models, strict=True):
            row: Row = {"method": method, "dataset": f"{own.source}-placed", "seed": own.seed, "scale": own.scale}
            found = localise(model, data, alone=alone, shown=SHOWN)
            row["accuracy"] = 100 * found.right.double().mean().item()
            rows.append(row if alone else row | places(found, boxed, moves(own)))
    return rows


def places(found: Found, data: BoxedSet, move: Transform) -> Row:
    """How well the window fits the box."""
    seen = boxes(move, found.centre)
    middles = [(box[:, :2] + box[:, 2:]) / 2 for box in (seen, data.box)]
    canvas = torch.nn.functional.interpolate(data.x[:SHOWN] / 255, found.views.shape[-1])
    return {
        "overlap": box_overlap(seen, data.box).mean().item(),
        "distance": (middles[0] - middles[1]).norm(dim=-1).mean().item() * CANVAS / 2,
        "views": as_bytes(torch.cat((canvas.unsqueeze(0), found.views[:VIEWS]))[..., ::2, ::2]),
    }


def show(rows: Rows) -> Figure:
    """For each method the canvas and what is seen of it."""
    figure, axes = sheet(1, 3, (9, 2.3))
    for panel, method in zip(axes, DRAWN, strict=True):
        row = first(rows, method=method)
        if row is not None:
            views = row["views"][:, :, 0].swapaxes(0, 1)
            words = f"{NAMES[method]}: {row['accuracy']:.1f} %, overlap {row['overlap']:.2f}"
            picture(panel, np.block([list(line) for line in views])[None], words)
            panel.set(xlim=(-0.5, (1 + VIEWS) * views.shape[-1] - 0.5))  # of an STN there is one view
    return figure


EXPERIMENT = experiment("pstn/figure7", run, show, full=FULL, smoke=SMOKE, paper=PAPER)
