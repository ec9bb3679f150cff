"""Figure 7 (b, d): mean-shift aligns rotated copies of a glyph; and digits that the model was never trained on.

(b) Copies of one picture, turned within ±90°, are moved to the same orientation, each by itself. (d) The model of ±45°
glyphs aligns each class of the MNIST test set, turned within ±45°. The paper's average fails for digits with several
modes (4, 6). Our mean-shift sharpens the average of the 1s alone; aligned with each other (`congeal`), all are sharper.

Measured: (b) the median over pairs of copies of the angle between them; (d) the sharpness of class averages, |∇ mean|²
as a share of the mean |∇|² of the digits, of the largest prototype for `congeal`, and the number of prototypes.

Time: half a minute for each seed on a GPU after figure 2, whose models it uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import torch
from matplotlib.figure import Figure

from ...align import congeal, mean_shift
from ...data import digits, rotated
from ...data.glyphs import from_prototype
from ...metrics import pairwise_gap, rotation_angle, sharpness
from ...models import Averaged
from ..base import Claim, Row, Rows, experiment
from ..draw import first, picture, sheet
from ..store import as_bytes
from .common import Training, trained
from .data import as_glyphs, glyph_set

TRAINING = Training(data="glyphs-45")
SHOWN = 8  # copies and prototypes that are kept for the figure
STAGES = {
    "none": "average",
    "mean-shift": "after mean-shift",
    "congeal": "a prototype",
    "further": "further ones",
}


@dataclass(frozen=True)
class Config:
    """Training, how much is aligned, and files with two pictures in place of our glyphs."""

    training: Training = TRAINING
    source: str = "mnist"
    which: tuple[int, ...] = tuple(range(10))
    copies: int = 50
    per_digit: int = 100
    steps: int = 50
    samples: int = 128
    poses: int = 512
    pair: tuple[str, ...] = ()
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(
    training=Training(steps=3, batch=8, samples=2, burn_in=1, inputs=64, layers=2),
    **{"source": "drawn", "which": (1, 4), "copies": 4, "per_digit": 6, "steps": 2, "samples": 16, "poses": 16},
)
SAYS = dict.fromkeys((0, 1, 3, 8, 9), "a prototype") | {4: "fails", 6: "fails"}
PAPER = (
    Claim("gap", "b: median angle between aligned copies, degrees", {"part": "b"}, "“the same mode”", None, 5),
    *(
        Claim("gain", f"d: sharpness of {d}, {m} / before", {"method": m, "class": str(d)}, SAYS.get(d, "–"), low)
        for (m, low), d in product((("mean-shift", None), ("congeal", 1)), range(10))
    ),
    Claim("prototypes", "d: prototypes of digit 4", {"method": "congeal", "class": "4"}, "1", 2),
    Claim("prototypes", "d: prototypes of digit 6", {"method": "congeal", "class": "6"}, "1", 2),
)


def build(config: Config) -> Training:
    """The flow of figure 2, trained on glyphs within ±45°."""
    return replace(config.training, method="flow", pair=config.pair, seed=config.seed)


def copies(config: Config, model: Averaged, scale: float) -> list[Row]:
    """Part b: one row for each class of glyphs."""
    rows: list[Row] = []
    data, bounds = glyph_set("glyphs-90", 4 * config.copies, 10_000, config.pair), model.transform.bounds
    for c, name in enumerate(data.classes):
        mine = data.subset(data.y == c)
        x = mine.x.to(bounds) / 255
        moved = mean_shift(x, model.transform, model.conditional, steps=config.steps, samples=config.samples)
        turn = rotation_angle(moved.g).cpu()
        angle = from_prototype(mine).to(turn)
        row: Row = {"part": "b", "method": "mean-shift", "dataset": "glyphs-90", "class": name, "seed": config.seed}
        row |= {"scale": scale, "gap": pairwise_gap(angle + turn).rad2deg().item()}
        row |= {"gap_before": pairwise_gap(angle).rad2deg().item()}
        rows.append({**row, "images": as_bytes(torch.stack((x[:SHOWN], moved.x[:SHOWN])))})
    return rows


def classes(config: Config, model: Averaged, scale: float) -> list[Row]:
    """Part d: one row for each digit and way to align."""
    rows: list[Row] = []
    many = digits(config.source, "test", which=config.which)
    index = torch.cat([(many.y == c).nonzero().flatten()[: config.per_digit] for c in range(len(config.which))])
    data = rotated(many.subset(index), math.pi / 4, seed=config.seed)
    x, y = as_glyphs(data.x).to(model.transform.bounds) / 255, data.y.to(model.transform.bounds.device)
    moved = mean_shift(x, model.transform, model.conditional, steps=config.steps, samples=config.samples).x
    found = congeal(x, y, model.transform, model.conditional, poses=config.poses, seed=config.seed)
    for c, digit in enumerate(config.which):
        own = x[y == c]
        several = found.prototypes[found.labels == c]
        stages = {"none": own.mean(0), "mean-shift": moved[y == c].mean(0), "congeal": several[0]}
        before = sharpness(stages["none"], own)
        for method, image in stages.items():
            row: Row = {"part": "d", "method": method, "dataset": data.name, "class": str(digit), "seed": config.seed}
            after = sharpness(image, own)
            row |= {"scale": scale, "sharpness": after.item(), "gain": (after / before).item()}
            row |= {"prototypes": len(several) if method == "congeal" else 1}
            rows.append({**row, "images": as_bytes(several[:, :1] if method == "congeal" else image[None, :1])})
    return rows


def run(config: Config) -> list[Row]:
    """Rows of both parts."""
    training = build(config)
    model, _ = trained(training, config.device)
    return copies(config, model, training.scale) + classes(config, model, training.scale)


def show(rows: Rows) -> Figure:
    """Copies before and after; class averages before, after mean-shift, and prototypes."""
    figure, axes = sheet(6, 10, (11, 6.8))
    for panel in axes:
        panel.set_axis_off()
    glyph = first(rows, part="b")
    for line, word in enumerate(("copies", "aligned")):
        for k, image in enumerate(glyph["images"][line]):
            picture(axes[10 * line + k], image, word if k == 0 else "")
    found = [row["class"] for row in rows if row["part"] == "d" and row["method"] == "none"]
    for column, digit in enumerate(dict.fromkeys(found)):
        for line, (stage, words) in enumerate(STAGES.items()):
            row = first(rows, part="d", method="congeal" if stage == "further" else stage, **{"class": digit})
            images = row["images"][1:] if stage == "further" else row["images"][:1]
            if len(images):
                image = images[0] if stage != "further" else images.transpose(1, 2, 0, 3).reshape(1, 32, -1)
                picture(axes[10 * (line + 2) + column], image, words if column == 0 else "")
    return figure


KEYS = ("part", "method", "dataset", "class", "seed")
EXPERIMENT = experiment("ltt/figure7", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
