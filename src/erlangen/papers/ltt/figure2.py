"""Figure 2 (right): the orientation of transformed glyphs hardly depends on that of the input.

The paper shows polar plots for two inputs of one class, section 3: dotted lines for the orientations of the inputs, a
curve for the orientations after the learned transformations. The ideal is uniform within ±90° of the class prototype,
for any input. Here for glyphs within ±45° and within ±90° of their prototype.

Measured over many inputs: the share of samples within ±90° of the prototype, the length of their central 98 % (for
each input, then the mean), and the total variation between two inputs of a class that are 60° apart (10° bins).

Time: a minute and a half for each seed and set on a GPU that 15 runs share, 6 minutes on a core of a CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure

from ...metrics import binned_total_variation, central_span, circle_histogram, share_within
from ...report.style import ACCENT, COLOURS
from ..base import Claim, Row, Rows, experiment
from ..draw import first, picture, polar, sheet
from .common import Training, orientations, trained
from .data import glyph_set, two_inputs

TRAINING = Training()


@dataclass(frozen=True)
class Config:
    """Training, how much is measured, and files with two pictures in place of our glyphs."""

    data: tuple[str, ...] = ("glyphs-45", "glyphs-90")
    training: Training = TRAINING
    inputs: int = 200
    samples: int = 1000
    pair_samples: int = 10_000
    pair: tuple[str, ...] = ()
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(
    data=("glyphs-90",),
    training=Training(steps=3, batch=8, samples=2, burn_in=1, inputs=64, layers=2),
    inputs=16,
    samples=50,
    pair_samples=200,
)
PAPER = tuple(
    claim
    for data, share in (("glyphs-45", 0.95), ("glyphs-90", 0.97))
    for where in ({"method": "flow", "dataset": data},)
    for claim in (
        Claim("within", f"{data}: share of samples within ±90° of the prototype", where, "all, ideally", share),
        Claim("span", f"{data}: central 98 % of an input's orientations, degrees", where, "180, ideally", 150),
        Claim("variation", f"{data}: total variation of inputs 60° apart", where, "“large overlap”", None, 0.15),
    )
)


def build(config: Config, data: str) -> Training:
    """A flow over translation and rotation, an averaged CNN, entropy rewarded with α = 0.3."""
    return replace(config.training, data=data, method="flow", pair=config.pair, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each set."""
    rows: list[Row] = []
    for data in config.data:
        training = build(config, data)
        model, _ = trained(training, config.device)
        test = glyph_set(data, 20 * config.inputs, 10_000, config.pair)
        angle = orientations(model, test.subset(torch.arange(config.inputs)), config.samples)
        sides = two_inputs(test, math.pi / 3)
        pair = [orientations(model, side, config.pair_samples) for side in sides]
        rows.append(
            {
                "method": "flow",
                "dataset": data,
                "seed": config.seed,
                "scale": training.scale,
                "within": share_within(angle, math.pi / 2).mean().item(),
                "span": central_span(angle).rad2deg().mean().item(),
                "variation": binned_total_variation(pair[0], pair[1]).mean().item(),
                "inputs": torch.stack([side.x[::2] for side in sides]).numpy(),
                "angles": torch.stack([side.angle[::2] for side in sides]).float().numpy(),
                "histograms": torch.stack([circle_histogram(p, 36).T[::2] for p in pair]).float().numpy(),
            }
        )
    return rows


def show(rows: Rows) -> Figure:
    """For each set and each figure: the two inputs, and the orientations after transformation."""
    sets = [name for name in ("glyphs-45", "glyphs-90") if first(rows, dataset=name)]
    figure, axes = sheet(len(sets), 6, (11, 2.3 * len(sets)), (None, None, "polar"))
    for line, name in enumerate(sets):
        row = first(rows, dataset=name)
        for glyph in range(2):
            images, around = axes[6 * line + 3 * glyph :][:2], axes[6 * line + 3 * glyph + 2]
            for side, colour in enumerate((ACCENT, COLOURS[0])):
                angle = row["angles"][side, glyph]
                picture(images[side], row["inputs"][side, glyph], f"{math.degrees(angle):+.0f}°")
                images[side].title.set_color(colour)
                polar(around, row["histograms"][side, glyph], colour)
                around.axvline(angle, color=colour, linestyle=":", linewidth=1.6)
            around.set_title(f"{name}: after transformation", fontsize=9)
    return figure


EXPERIMENT = experiment("ltt/figure2", run, show, full=FULL, smoke=SMOKE, paper=PAPER)
