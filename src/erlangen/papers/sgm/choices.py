r"""Figures 5 to 7 and tables 1 to 3: why the density is flexible, why it sees the prototype, why that is invariant.

The paper argues with idealised pictures of digits that are rotated by up to 30°. Here they are real runs, under
rotations alone.

* *density* (figure 5, table 1): 8s, which are nearly the same upside down. A Gaussian (simple) against a spline flow.
* *prototype* (figure 6, table 2): 2s and 8s. A density that sees the prototype (seen), and one that does not (blind):
  what is right for 8s is wrong for 2s.
* *invariance* (figure 7, table 3): 2s. Prototypes that are the same for all rotations (full), for those within 15° of
  one another (partial), and images as they are (none).

Measured on test images, whose angles are known:

* `invalid`: the percentage of samples that rotate a digit to more than 35° from upright (8s modulo 180°).
* `half_range`: half the shortest range with 98 % of the samples, in degrees. 30 is right, or 120 for 8s with both
  modes, plus the slant of handwriting, which a density must cover where the prototype does not show it.
* `poses`: the same for the poses of all these images. It is much more, since not all prototypes of 2s stand the same
  way up.
* `nll`: minus the log-density of the true pose.

Time: on a GPU a minute or two for each of seven models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from matplotlib.figure import Figure

from ...data import PosedSet
from ...metrics import circle_histogram, half_range
from ...models import SymmetryModel
from ...report.style import COLOURS
from ...utils.seeds import generator
from ..base import Claim, Row, Rows, experiment
from ..draw import first, polar, sheet
from .common import TINY, Training, data_set, on_device, trained

RUNS: dict[tuple[str, str], dict[str, Any]] = {
    ("density", "simple"): {"which": (8,), "density": "gaussian"},
    ("density", "flexible"): {"which": (8,)},
    ("prototype", "blind"): {"which": (2, 8), "density": "blind"},
    ("prototype", "seen"): {"which": (2, 8)},
    ("invariance", "full"): {"which": (2,)},
    ("invariance", "partial"): {"which": (2,), "reach": 15.0, "copies": 0},
    ("invariance", "none"): {"which": (2,), "lr": (1e-12, 1e-3), "copies": 0},
}
TURNED = 30.0
ROTATIONS = Training(
    added=TURNED, inputs=5000, names=("angle",), anchored=False, steps=(2000, 3000), batch=256, held=0.1
)


@dataclass(frozen=True)
class Config:
    """Training, which choices, and how much is measured."""

    training: Training = ROTATIONS
    methods: tuple[str, ...] = tuple(method for _, method in RUNS)
    inputs: int = 300
    samples: int = 500
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMOKE = Config(replace(ROTATIONS, **TINY, data="drawn"), inputs=6, samples=50)
PAPER = (
    Claim("nll", "8s, simple density, nats", {"part": "density", "method": "simple"}),
    Claim("nll", "8s, flexible density, nats", {"part": "density", "method": "flexible"}, "better"),
    Claim("invalid", "8s, simple density, %", {"part": "density", "method": "simple"}, "much mass wasted"),
    Claim("invalid", "8s, flexible density, %", {"part": "density", "method": "flexible"}, "little", None, 15),
    Claim("invalid", "2s, blind, %", {"part": "prototype", "method": "blind"}, "upside-down 2s", 20),
    Claim("invalid", "2s, prototype seen, %", {"part": "prototype", "method": "seen"}, "none", None, 15),
    Claim("half_range", "2s, full invariance, degrees", {"part": "invariance", "method": "full"}, "30", 25, 36),
    Claim("poses", "2s, full invariance, range of the poses of the test set", {"part": "invariance", "method": "full"}),
    Claim("half_range", "2s, partial invariance, degrees", {"part": "invariance", "method": "partial"}, "less than 30"),
    Claim("half_range", "2s, no invariance, degrees", {"part": "invariance", "method": "none"}, "0", None, 10),
)


def build(config: Config, part: str, method: str) -> Training:
    """Rotations of digits; the choice of the four nouns is in `common`."""
    return replace(config.training, seed=config.seed, **RUNS[part, method])


@torch.no_grad()
def measured(model: SymmetryModel, data: PosedSet, digit: int, samples: int, seed: int) -> Row:
    """What is measured on the images of one digit: where samples turn them, how far, and their log-density."""
    x = on_device(model, data.x)
    pose = model.pose(x).median[:, 0]
    q = model.density(x)
    v = q.sample((samples,), generator(seed, x.device))[..., 0]
    turn = (v - pose).cpu() + data.angle.to(v.dtype)  # where the image is turned to
    period = math.pi if digit == 8 else 2 * math.pi
    away = (torch.remainder(turn + period / 2, period) - period / 2).abs()
    invalid = 100 * (away > math.radians(TURNED + 5)).double().mean().item()
    wide = half_range(v).rad2deg().mean().item()
    found = {"invalid": invalid, "half_range": wide, "poses": half_range(pose).rad2deg().item()}
    nll = -model.log_prob(x).clamp(min=-50).mean().item()
    return {**found, "nll": nll, "turns": circle_histogram(turn, 72).mean(1).numpy()}


def run(config: Config) -> list[Row]:
    """One row for each choice; of 2s and 8s, those of the 2s."""
    rows: list[Row] = []
    for part, method in RUNS:
        if method not in config.methods:
            continue
        training = build(config, part, method)
        model, _ = trained(training, config.device)
        data = data_set(training, "test")
        own = data.subset((data.y == 0).nonzero().flatten()[: config.inputs])
        row: Row = {"method": method, "dataset": "mnist", "seed": config.seed, "scale": training.scale, "part": part}
        if isinstance(own, PosedSet):
            row |= measured(model, own, training.which[0], config.samples, config.seed)
        rows.append(row)
    return rows


def show(rows: Rows) -> Figure:
    """For each choice where digits are turned to."""
    figure, axes = sheet(1, len(RUNS), (2.1 * len(RUNS), 2.6), ("polar",))
    for panel, (part, method) in zip(axes, RUNS, strict=True):
        row = first(rows, part=part, method=method)
        if row is not None:
            polar(panel, row["turns"], COLOURS[0])
            panel.set_title(f"{part}: {method}\n{row['invalid']:.0f} % invalid", fontsize=8)
    return figure


KEYS = ("method", "dataset", "seed", "part")
EXPERIMENT = experiment("sgm/choices", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, apart=("methods",))
