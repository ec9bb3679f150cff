r"""What the experiments with a frozen classifier share: a localiser learns to undo what was done to its inputs.

A classifier is trained on upright digits, or on clothes as they are, and frozen. Then inputs are turned by angles
uniform on the circle (the paper does not say by which; that its frozen classifier finds 41.2 % of them suggests it), or
placed on a canvas of 96 pixels, of whose side they fill half, and a localiser is trained with the labels alone. What it
should have found is known.

*Networks.* The classifier of 28,086 parameters; localisers of 72,000 (rotations) and 194,000 (placement).

*Training.* As the published code: Adam, batches of 64, ten samples, w = 3e-5, in steps down by ten. Differs from it:
the rate falls along a cosine, over fewer epochs (the published 100 end at a rate of 1e-13); STN and P-STN begin at the
identity, the angle lives on its circle, and the other coordinates within bounds.

*Flow.* A controller holds its entropy at a target, its gradient has a limit, its rate rises in the first steps, and of
angles it begins spread over the circle. Without these it often collapses to angles that are wrong: *flow-near* begins
near the identity, as the others do, and its entropy is worth 0.01 a nat; *flow-wide* begins spread, its gradient has a
limit, and its entropy is worth 0.1. On 3,000 digits of the training set that were held out, after five epochs with two
seeds, the controller alone had 96.2 and 88.1 %, splines in place of affine couplings 82.0 and 77.2. STN and P-STN have
neither that limit nor those steps, and of them there is no such trial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...data import DataSet, digits, fashion_mnist, mnist, placed, rotated
from ...distributions import Conditional, Dirac, EntropyController, GlobalUniform, RealNVP, StudentT
from ...models import Averaged
from ...nets import Localiser, SmallCNN
from ...objectives import PSTN, AveragedObjective, LearningToTransform, Plain
from ...train import Config, Cosine, Optimiser, TensorLoader, WarmupCosine, fit_many
from ...transforms import Affine, Transform
from ...utils.seeds import seeded
from ..cache import kept_many

__all__ = ["Found", "Frozen", "classifiers", "data_set", "localise", "localisers", "moves", "upright"]

SIDE, CANVAS = 28, 96
LIMIT = 1.0  # the greatest norm of the gradient of a flow
WARM = 1000  # steps in which its rate rises
TARGET = {"rotated": 0.0, "placed": -2.5}  # the entropy to hold, in nats: deviations of 14°, of 1/20 of a side
SPREAD = math.sqrt(math.log1p(math.exp(-3)))  # the scale that Student's t begins with, as in the code for rotations


@dataclass(frozen=True)
class Frozen:
    """All that a localiser, or the classifier behind it, depends on.

    Attributes:
        method: "cnn" (the classifier), "stn", "pstn", "flow", "flow-near" or "flow-wide".
        task: "rotated" or "placed".
        source: "mnist", "fashion-mnist", or "drawn" for a run of seconds.
        inputs: so many of the training set; all if 0.
        weight: of the divergence (P-STN's w), or of the flow's entropy (the first one, where it is controlled).
        epochs: how long; the published code has 100 for rotations, 600 for placement.
        first: for how many epochs the classifier is trained.
    """

    method: str = "pstn"
    task: str = "rotated"
    source: str = "mnist"
    inputs: int = 0
    weight: float = 3e-5
    epochs: int = 30
    first: int = 20
    batch: int = 64
    samples: int = 10
    lr: float = 1e-3
    seed: int = 0

    @property
    def scale(self) -> float:
        """The transformed inputs that it is trained on, as a share of the published code's."""
        whole = {"rotated": 100, "placed": 600}[self.task] * 60_000 * 10
        seen = self.epochs * (self.inputs or 60_000) * self.samples
        return round(min(1.0, seen / whole), 3)


@lru_cache(maxsize=4)
def upright(source: str, split: str, inputs: int = 0) -> DataSet:
    """A set as it is."""
    read = {"mnist": mnist, "fashion-mnist": fashion_mnist}
    data = read[source](split) if source in read else digits(source, split)
    return data.subset(torch.arange(inputs)) if inputs else data


@lru_cache(maxsize=4)
def data_set(task: str, source: str, split: str, inputs: int = 0) -> Any:
    """A set after it was turned or placed, the same for all seeds, with what was done to each input."""
    data, seed = upright(source, split, inputs), {"train": 1, "test": 2}[split]
    return rotated(data, seed=seed) if task == "rotated" else placed(data, CANVAS, seed=seed)


def moves(config: Frozen) -> Transform:
    """Rotations; or scale and translation."""
    if config.task == "rotated":
        return Affine("angle")
    return Affine("scale", "tx", "ty", factored=True, bounds={"scale": 1.5, "tx": 1.5, "ty": 1.5})


def _averaged(config: Frozen) -> Averaged:
    """An untrained classifier behind an untrained localiser."""
    move = moves(config)
    with seeded(config.seed):
        # A view of the canvas is as large as the canvas; the classifier is for images of 28 pixels.
        net = nn.Sequential(nn.AdaptiveAvgPool2d(SIDE), SmallCNN(size=SIDE))
        conditional = _conditional(config, move)
    return Averaged(net, move, conditional, samples=config.samples, eval_samples=10, frozen=["conditional"])


def _conditional(config: Frozen, move: Transform) -> Conditional:
    if config.method == "cnn":
        return GlobalUniform.over(move, 1)
    turned = config.task == "rotated"
    kind: dict[str, Any] = {"filters": (28, 53)} if turned else {"filters": (11, 21), "kernel": 7, "size": CANVAS}
    encoder = Localiser(**kind)
    hidden = 20 if turned else 12
    if config.method == "stn":
        return Dirac.over(move, encoder.features, encoder=encoder, hidden=(2 * hidden,))
    if config.method == "pstn":
        low, high = move.bounds
        start = [SPREAD / float(half) for half in (high - low) / 2]
        return StudentT.over(move, encoder.features, encoder=encoder, hidden=(hidden,), spread=start)
    features = nn.Sequential(encoder, nn.Linear(encoder.features, 2 * hidden), nn.ReLU())
    wide: Any = {"spread": 0.3, "scatter": 1.0} if turned and config.method != "flow-near" else {}
    return RealNVP.over(move, 2 * hidden, encoder=features, layers=4, width=16, **wide)


def _classifier(config: Frozen) -> AveragedObjective:
    return Plain(_averaged(config))


def classifiers(configs: Sequence[Frozen], device: str = "cpu") -> list[Averaged]:
    """Classifiers of inputs as they are, from the cache or trained together."""

    def train(objectives: list[Any], missing: list[Any], **going: Any) -> list[dict[str, Tensor]]:
        data = upright(missing[0].source, "train", missing[0].inputs)
        _fit(objectives, missing, device, data, missing[0].first, **going)
        return [{}] * len(objectives)

    alone = [replace(c, method="cnn", weight=0.0, epochs=1, samples=1) for c in configs]
    return [o.averaged for o, _ in kept_many(alone, device, _classifier, train, code=(__file__,))]


def localisers(configs: Sequence[Frozen], device: str = "cpu") -> list[Averaged]:
    """Localisers of one method before frozen classifiers, from the cache or trained together."""

    def train(objectives: list[Any], missing: list[Any], **going: Any) -> list[dict[str, Tensor]]:
        for objective, classifier in zip(objectives, classifiers(missing, device), strict=True):
            objective.averaged.model.load_state_dict(classifier.model.state_dict())
        config = missing[0]
        data = data_set(config.task, config.source, "train", config.inputs)
        _fit(objectives, missing, device, data, config.epochs, **going)
        return [{}] * len(objectives)

    return [o.averaged for o, _ in kept_many(configs, device, _localiser, train, code=(__file__,))]


def _localiser(config: Frozen) -> AveragedObjective:
    averaged = _averaged(config)
    averaged.conditional.requires_grad_(True)
    options: Any = {"samples": config.samples, "eval_samples": 10, "frozen": ["model"]}
    averaged = Averaged(averaged.model, averaged.transform, averaged.conditional, **options)
    if config.method in ("stn", "pstn"):
        return PSTN(averaged, config.weight)
    if config.method != "flow":
        return LearningToTransform(averaged, config.weight)
    return LearningToTransform(averaged, EntropyController(TARGET[config.task], alpha=config.weight, low=0.1, high=3.0))


def _fit(
    objectives: list[Any], configs: Sequence[Frozen], device: str, data: DataSet, epochs: int, **going: Any
) -> None:
    cuda = torch.device(device).type == "cuda"
    common: Any = {"epochs": epochs, "accelerator": "cuda" if cuda else "cpu", "graph": cuda, "log_every": 200, **going}
    method, steps = configs[0].method, epochs * (len(data) // configs[0].batch)
    schedule = WarmupCosine(max(1, min(WARM, steps // 10))) if method == "flow" else Cosine()
    clip = LIMIT if method in ("flow", "flow-wide") else None
    adam = Optimiser("adam", configs[0].lr, schedule=schedule, clip=clip)
    how = [Config(optimiser=adam, seed=c.seed, **common) for c in configs]
    loaders = [TensorLoader(data.x, data.y, batch_size=c.batch, seed=c.seed, drop_last=True) for c in configs]
    fit_many(objectives, loaders, how)


class Found(NamedTuple):
    """What a model says of inputs, on the CPU.

    Attributes:
        right: whether the class is right, `(N,)`.
        centre: the coordinates of the transformation, `(N, d)`; those of the identity for a classifier alone.
        deviation: their uncertainty, `(N, d)`.
        views: of the first inputs, `(S, n, C, H, W)`, in [0, 1].
    """

    right: Tensor
    centre: Tensor
    deviation: Tensor
    views: Tensor


@torch.no_grad()
def localise(model: Averaged, data: DataSet, *, alone: bool = False, shown: int = 4) -> Found:
    """The predictions of a model, and what they are made of; of its classifier if `alone`."""
    device, parts = model.transform.bounds.device, []
    with seeded(0):
        for x, y in zip(data.x.split(500), data.y.split(500), strict=True):
            images = x.to(device) / 255
            if alone:
                origin = model.transform.origin.expand(len(x), -1)
                parts.append((model.classify(images).argmax(-1).cpu() == y, origin, torch.zeros_like(origin)))
            else:
                prediction = model(images)
                parts.append((prediction.log_probs.argmax(-1).cpu() == y, *prediction.localisation(256)))
        images = data.x[:shown].to(device) / 255
        views = images.unsqueeze(0) if alone else model.transform(images, model(images).v)
    right, centre, deviation = (torch.cat(part).cpu() for part in zip(*parts, strict=True))
    return Found(right, centre, deviation, views.cpu())
