"""Figure 7 (c): accuracy on CIFAR10 as test images are rotated, with and without mean-shift.

In the paper the flow and Augerino fail on images rotated by large angles; a baseline trained with rotations is robust
but less accurate; the flow with mean-shift (γ = 0.1, 10 steps, 100 samples) is said to be both robust and accurate.

Here Augerino and the flow are those of table 1. The baseline has the same recipe, with views rotated by any angle in
training and none in evaluation. Mean-shift is run in three ways: it adds coordinates, as published; it composes
elements, as our `mean_shift` does; and it composes them until it converges, since 10 steps of 0.1 go only
1 - 0.9¹⁰ = 65 % of the way.

Mean-shift relies on a conditional that rotates with its image, which nothing in the paper ensures. Two of ours do:

* *equivariant*: a flow that is trained to, together with the classifier (`Equivariance`); mean-shift is along the
  angle.
* *poses*: a network beside the flow of table 1, which stays frozen. It is trained without labels, on rotated training
  images, to say what rotates them back (`poses`; 4.0 million parameters, the classifier behind it has 75,000).

*Gated* mean-shift moves only images about which the pose network is sure. The gate moves at most one in 200 upright
images, calibrated on 5,000 training images that this network has not seen. In all of these the classifier has seen no
rotated images except the views of its own conditional.

The paper does not say how it evaluates: here a prediction averages 20 views around where the image was moved to, each
view one warp of the test image.

Measured: accuracy on the test set in percent, with all images rotated by the same angle; and what mean-shift adds to
the flow without it, upright (`kept`) and rotated (`gain`). The table has only quarter turns, which do not blur; other
angles do.

Time: on a GPU some minutes for each seed after table 1, and to train three models more; on a CPU, days.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ...report.style import ACCENT
from ...transforms import Affine
from ..base import Claim, Row, Rows, experiment
from ..draw import TINTS, beside, curve, sheet
from . import poses
from .classify import Training, data_set, predictions, scores, trained
from .poses import Posing, Shifted
from .recipes import WAYS

CHUNK = 1000  # images turned at once, to bound memory
TRAINED = {"rotated": "rotation-augmented", "augerino": "Augerino", "flow": "flow", "equivariant": "equivariant"}
END: dict[str, Any] = {"rule": "compose", "step_size": 0.5, "steps": 50}
SHIFTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mean-shift": ("flow", {"rule": "additive", "step_size": 0.1, "steps": 10}),
    "group mean-shift": ("flow", {"rule": "compose", "step_size": 0.1, "steps": 10}),
    "group mean-shift to the end": ("flow", END),
    "equivariant, group mean-shift": ("equivariant", END | {"along": ["angle"]}),
}
POSED = {"poses, group mean-shift": False, "poses, gated mean-shift": True}  # before the flow, and whether gated
COLOUR = {"rotated": TINTS["none"], **{way: TINTS[way] for way in TRAINED if way in TINTS}}
COLOUR |= {way: TINTS[before] for way, (before, _) in SHIFTS.items()} | dict.fromkeys(POSED, ACCENT)
DASHES = dict(zip(SHIFTS, ("--", ":", "-.", "--"), strict=True)) | {"poses, group mean-shift": "--"}


@dataclass(frozen=True)
class Config:
    """What is trained, and how much is measured; angles in degrees."""

    training: Training
    posing: Posing
    angles: tuple[int, ...] = tuple(range(0, 181, 15))
    samples: int = 20
    shift_samples: int = 100
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training(), Posing(Training(held=5000)))
SMOKE = Config(
    Training(source="glyphs", epochs=1, batch=8, samples=2, inputs=16),
    Posing(Training(source="glyphs", inputs=16, held=8), net="embedding", epochs=1, batch=8, spared=0.25),
    **{"angles": (0, 90), "samples": 2, "shift_samples": 4},
)
SAID = (("kept", 0, "“without reducing accuracy”", -0.5), ("gain", 90, "“robust”", 15.0))
PAPER = (
    *(
        Claim("accuracy", f"accuracy at {angle}°, {way}", {"method": way, "angle": angle})
        for way in COLOUR
        for angle in (0, 90)
    ),
    *(
        Claim(metric, f"accuracy at {angle}°, {way} less flow", {"method": way, "angle": angle}, says, low)
        for way in (*SHIFTS, *POSED)
        for metric, angle, says, low in SAID
    ),
)


def build(config: Config, method: str) -> Training:
    """The classifiers of table 1, one trained with rotations, and one whose conditional is."""
    return replace(config.training, dataset="cifar10", method=method, seed=config.seed)


def turned(x: Tensor, degrees: float) -> Tensor:
    """Images in bytes, all turned by an angle."""
    rotate, v = Affine("angle"), torch.full((1, 1), math.radians(degrees))
    return torch.cat([(rotate(part, v) * 255).round().byte() for part in x.split(CHUNK)])


def run(config: Config) -> list[Row]:
    """One row for each method and angle."""
    rows: list[Row] = []
    test = data_set(build(config, "flow"), "test")
    models = {method: trained(build(config, method), config.device) for method in TRAINED}
    for way, (method, how) in SHIFTS.items():
        models[way] = Shifted(models[method], samples=config.shift_samples, **how).eval()
    posing = replace(config.posing, training=replace(config.posing.training, seed=config.seed))
    pose = poses.posed(posing, config.device)
    least = poses.gate(pose, posing, config.shift_samples)
    for way, gated in POSED.items():
        how = {**poses.SHIFT, "samples": config.shift_samples, "gate": least if gated else None}
        models[way] = Shifted(models["flow"], pose, **how).eval()
    for angle in config.angles:
        x, found = turned(test.x, angle), {}
        for way, model in models.items():
            method, _ = SHIFTS.get(way, ("flow" if way in POSED else way, {}))
            found[way] = scores(predictions(model, x, config.samples, averaged=WAYS[method].averages), test.y)
            row: Row = {"method": way, "dataset": "cifar10", "angle": angle, "seed": config.seed}
            row |= {"scale": build(config, method).scale, **found[way]}
            if way not in TRAINED:
                row["gain" if angle else "kept"] = found[way]["accuracy"] - found["flow"]["accuracy"]
            rows.append(row)
    return rows


def show(rows: Rows) -> Figure:
    """Accuracy against the angle, a line for each method, broken where an image is moved first."""
    figure, (panel,) = sheet(1, 1, (8.5, 4.2))
    for way, colour in COLOUR.items():
        label = TRAINED.get(way, way if "," in way else f"flow, {way}")
        own, how = [row for row in rows if row["method"] == way], {"line": DASHES.get(way, "-")}
        curve(panel, own, "angle", "accuracy", colour=colour, label=label, **how)
    panel.set(xlabel="test rotation, degrees", ylabel="accuracy, %", xticks=range(0, 181, 30), ylim=(0, 100))
    beside(panel)
    return figure


KEYS = ("method", "dataset", "angle", "seed")
EXPERIMENT = experiment("ltt/figure7c", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
