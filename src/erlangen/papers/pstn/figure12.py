r"""Figure 12: localisers that are trained along with deeper classifiers learn the identity.

The paper trains classifiers of more and more layers (linear, ReLU, dropout) on rotated MNIST, alone and behind an STN
or a P-STN, and on upright MNIST. An STN mostly learns the identity, the more so before deeper classifiers; P-STN
rotates at least some digits back, and is better even where it does not. The paper gives neither the widths nor the
training: here layers of 128, on 10,000 digits rotated by angles uniform on the circle, 30 epochs of Adam, w = 3e-5 and
four samples.

Measured on 10,000 test digits: accuracy in percent, and the variance of the angles found (3.29 if uniform).

Time: on two cores of a CPU one and a half hours for five seeds, which are trained together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ...distributions import Dirac, GlobalUniform, StudentT
from ...models import Averaged
from ...nets import Localiser
from ...objectives import PSTN, AveragedObjective, Plain
from ...report.style import INK
from ...train import Config as How
from ...train import Cosine, Optimiser, TensorLoader, fit_many
from ...transforms import Affine
from ...utils.seeds import seeded
from ..base import Claim, Row, Rows, experiment
from ..cache import kept_many
from ..draw import curve, sheet
from . import frozen
from .draw import NAMES, TINTS

METHODS = ("upright", "cnn", "stn", "pstn")
LABELS = {"accuracy": "accuracy, %", "variance": "variance of the angles"}
WORDS = {**NAMES, "upright": "upright digits", "cnn": "no localiser"}


@dataclass(frozen=True)
class Training:
    """All that a model depends on; "upright" is the classifier alone, on upright digits."""

    method: str = "pstn"
    source: str = "mnist"
    depth: int = 1
    inputs: int = 10_000
    width: int = 128
    epochs: int = 30
    batch: int = 64
    samples: int = 4
    weight: float = 3e-5
    seed: int = 0


@dataclass(frozen=True)
class Config:
    """How models are trained, how deep they are, and how many seeds are trained together."""

    training: Training
    depths: tuple[int, ...] = (1, 2, 3, 4, 5)
    methods: tuple[str, ...] = METHODS
    tested: int = 10_000
    count: int = 5
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(Training(source="drawn", inputs=64, epochs=1, width=8, samples=2), depths=(1, 2), tested=50, count=2)
PAPER = tuple(
    Claim(metric, f"{what}, {WORDS[method]}, depth {depth}", {"method": method, "depth": depth})
    for metric, what in {"accuracy": "accuracy, %", "variance": "variance of angles"}.items()
    for method in (METHODS if metric == "accuracy" else METHODS[2:])
    for depth in FULL.depths
)


def build(config: Training) -> AveragedObjective:
    """The four nouns: rotations, a point or a t on the circle, a perceptron, and their objective."""
    rotate = Affine("angle")
    with seeded(config.seed):
        widths = (28 * 28, *[config.width] * config.depth)
        hidden = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU(), nn.Dropout(0.5))]
        net = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(config.width, 10))
        family = {"stn": Dirac, "pstn": StudentT}.get(config.method)
        encoder = Localiser(filters=(12, 18) if family is Dirac else (8, 14))
        own: Any = {"encoder": encoder, "hidden": (20,)}
        q = family.over(rotate, encoder.features, **own) if family else GlobalUniform.over(rotate, 1)
    options: Any = {"samples": config.samples, "eval_samples": 10, "frozen": [] if family else ["conditional"]}
    averaged = Averaged(net, rotate, q, **options)
    return PSTN(averaged, config.weight) if family else Plain(averaged)


def run(config: Config) -> list[Row]:
    """One row for each depth, method and seed."""
    rows: list[Row] = []
    for depth in config.depths:
        for method in config.methods:
            own = replace(config.training, method=method, depth=depth)
            configs = [replace(own, seed=config.count * config.seed + k) for k in range(config.count)]
            test = digits(own, "test", config.tested)
            for one, model in zip(configs, trained(configs, config.device), strict=True):
                found = frozen.localise(model, test, alone=method in ("upright", "cnn"))
                row: Row = {"method": method, "dataset": f"{own.source}-rotated", "depth": depth, "seed": one.seed}
                accuracy, variance = 100 * found.right.double().mean().item(), found.centre[:, 0].var().item()
                rows.append(row | {"scale": 1.0, "accuracy": accuracy, "variance": variance})
    return rows


def digits(config: Training, split: str, inputs: int) -> Any:
    """Turned, or upright for the method of that name."""
    place = config.source, split, inputs
    return frozen.upright(*place) if config.method == "upright" else frozen.data_set("rotated", *place)


def trained(configs: list[Training], device: str) -> list[Averaged]:
    """Models of one method and depth, from the cache or trained together."""

    def train(objectives: list[Any], missing: list[Any], **going: Any) -> list[dict[str, Tensor]]:
        cuda, data = torch.device(device).type == "cuda", digits(missing[0], "train", missing[0].inputs)
        common: Any = {"epochs": missing[0].epochs, "accelerator": "cuda" if cuda else "cpu", "graph": cuda, **going}
        how = [How(optimiser=Optimiser("adam", 1e-3, schedule=Cosine()), seed=c.seed, **common) for c in missing]
        load: Any = {"batch_size": missing[0].batch, "drop_last": True}
        fit_many(objectives, [TensorLoader(data.x, data.y, seed=c.seed, **load) for c in missing], how)
        return [{}] * len(missing)

    return [o.averaged for o, _ in kept_many(configs, device, build, train, code=(__file__, frozen.__file__))]


def show(rows: Rows) -> Figure:
    """Accuracy and variance against depth."""
    figure, axes = sheet(1, 2, (9, 3.4))
    for panel, (metric, label), methods in zip(axes, LABELS.items(), (METHODS, METHODS[2:]), strict=True):
        for method in methods:
            own = [row for row in rows if row["method"] == method]
            curve(panel, own, "depth", metric, colour=TINTS.get(method, INK), label=WORDS[method])
        panel.set(xlabel="hidden layers of the classifier", ylabel=label, xticks=FULL.depths)
    axes[0].legend(frameon=False, fontsize=8)
    return figure


KEYS = ("method", "dataset", "depth", "seed")
EXPERIMENT = experiment("pstn/figure12", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
