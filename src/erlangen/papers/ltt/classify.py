"""What the tables share: a classifier trained with each method on each data set, as published, and how good it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ...data import DataSet, load
from ...metrics import ece, nll
from ...models import Averaged, Normalise
from ...nets import build as build_net
from ...objectives import METHODS, AveragedObjective, Terms
from ...train import Config, Optimiser, StepDecay, TensorLoader, fit
from ...transforms import Affine
from ...utils.seeds import seeded
from ..cache import kept

__all__ = ["PUBLISHED", "Published", "Training", "build", "data_set", "predictions", "scores", "trained"]


@dataclass(frozen=True)
class Published:
    """The settings of a data set in the published code.

    Attributes:
        source: the name of the set.
        net: the classifier.
        alpha: the weight of the entropy.
        classifier: the optimiser of the classifier.
        rate: the learning rate of the conditional, of Adam.
        epochs: how long.
        burn_in: epochs without transformation.
        shift: the bounds of translations.
        moments: mean and standard deviation of the channels, by which inputs are normalised.
    """

    source: str
    net: str
    alpha: float
    classifier: Optimiser
    rate: float
    epochs: int
    burn_in: int
    shift: float
    moments: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,), (1.0,))


COLOUR = (tuple(v / 255 for v in (125.3, 123.0, 113.9)), tuple(v / 255 for v in (63.0, 62.1, 66.7)))
SGD: dict[str, Any] = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}
ADAM: dict[str, Any] = {"name": "adam", "weight_decay": 1e-4}
PUBLISHED = {
    "cifar10": Published(
        "cifar10", "fixup", 0.1, Optimiser(**SGD, schedule=StepDecay(80, 0.1)), 1e-4, 200, 10, 0.1, COLOUR
    ),
    "fmnist": Published(
        "fashion-mnist", "lenet", 0.03, Optimiser(**ADAM, lr=0.03, schedule=StepDecay(80, 0.05)), 1e-3, 200, 10, 0.5
    ),
    "mnist": Published(
        "mnist", "lenet", 0.01, Optimiser(**ADAM, lr=1e-3, schedule=StepDecay(20, 0.1)), 1e-4, 100, 1, 1.0
    ),
    "cifar10-lt": Published(
        "cifar10-lt", "fixup", 0.05, Optimiser(**SGD, schedule=StepDecay(80, 0.05)), 1e-4, 100, 10, 0.5, COLOUR
    ),
}


@dataclass(frozen=True)
class Training:
    """All that a trained classifier depends on.

    Attributes:
        dataset: one of `PUBLISHED`.
        method: one of `erlangen.objectives.METHODS`.
        source: another named set in place of the data set's, for a run of seconds.
        epochs: how long; as published if 0. The schedule shrinks with it.
        batch: inputs to a step.
        samples: views of an input in training.
        inputs: so many inputs of the training set; all if 0.
        held: so many inputs of the training set are set aside, for choices.
    """

    dataset: str = "cifar10"
    method: str = "flow"
    source: str = ""
    epochs: int = 0
    batch: int = 256
    samples: int = 20
    inputs: int = 0
    held: int = 0
    seed: int = 0

    @property
    def published(self) -> Published:
        """What the published code has."""
        return PUBLISHED[self.dataset]

    @property
    def length(self) -> int:
        """How many epochs."""
        return self.epochs or self.published.epochs

    @property
    def scale(self) -> float:
        """The length of training as a share of the published code's, at most 1."""
        return round(min(1.0, self.length / self.published.epochs), 3)


@lru_cache(maxsize=8)
def data_set(config: Training, part: str) -> DataSet:
    """The "train", "held" or "test" part."""
    data = load(config.source or config.published.source, "test" if part == "test" else "train")
    if part != "test" and config.held:
        rest, held = data.split(config.held / len(data), seed=0)
        data = held if part == "held" else rest
    return data.subset(torch.arange(min(config.inputs, len(data)))) if config.inputs else data


def build(config: Training) -> AveragedObjective:
    """The four nouns: six affine coordinates, the method's conditional, an averaged classifier and its objective."""
    published, method, data = config.published, METHODS[config.method], data_set(config, "train")
    bounds = {
        "tx": published.shift,
        "ty": published.shift,
        "angle": math.pi,
        "scale": 1.0,
        "stretch": 1.0,
        "shear": 1.0,
    }
    transform, (_, channels, _, side) = Affine(bounds=bounds), data.x.shape
    mean, std = (v * channels if len(v) == 1 else v for v in published.moments)
    with seeded(config.seed):
        net = build_net(published.net, classes=len(data.classes), channels=channels, size=side)
        conditional = method.conditional(transform, channels)
    options: dict[str, Any] = {"samples": config.samples, "normalise": Normalise(mean, std), **method.averaging}
    averaged = Averaged(net, transform, conditional, largest=2**14, **options)
    burn_in = published.burn_in * config.length // published.epochs * (len(data) // config.batch)
    # As published, without the loss of the untransformed input.
    alpha = published.alpha if config.method.startswith("flow") else method.alpha
    return method.objective(averaged, Terms(alpha, burn_in=burn_in if method.learned else 0, original=0.0))


def trained(config: Training, device: str = "cpu") -> Averaged:
    """The trained model, from the cache, by the hash of its config."""
    objective, _ = kept(config, device, lambda: build(config), lambda o: _train(o, config, device), code=__file__)
    return objective.averaged


def _train(objective: AveragedObjective, config: Training, device: str) -> dict[str, Tensor]:
    data, published = data_set(config, "train"), config.published
    schedule: Any = published.classifier.schedule
    shorter = StepDecay(max(1, schedule.every * config.length // published.epochs), schedule.factor)
    classifier, cuda = replace(published.classifier, schedule=shorter), torch.device(device).type == "cuda"
    own = {
        "scalars": replace(classifier, lr=classifier.lr / 10),
        "conditional": Optimiser("adam", lr=published.rate),
    }
    how = Config(
        epochs=config.length,
        optimiser=classifier,
        groups={name: own[name] for name in objective.parameter_groups() if name in own},
        seed=config.seed,
        accelerator="cuda" if cuda else "cpu",
        precision="bf16-mixed" if cuda else "32-true",
        compile=cuda,
        graph=cuda,
        channels_last=True,
        log_every=500,
    )
    fit(objective, TensorLoader(data.x, data.y, batch_size=config.batch, seed=config.seed, drop_last=True), how)
    return {}


@torch.no_grad()
def predictions(model: Averaged, x: Tensor, samples: int, *, averaged: bool = True, batch: int = 500) -> Tensor:
    """The log-probabilities of inputs, averaged over views or as they are, `(N, K)`, on the CPU."""
    model.eval_samples = samples
    device = model.transform.bounds.device
    found = []
    with seeded(0), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for part in x.split(batch):
            images = part.to(device) / 255
            found.append((model(images).log_probs if averaged else model.classify(images).log_softmax(-1)).float())
    return torch.cat(found).cpu()


def scores(log_probs: Tensor, y: Tensor) -> dict[str, float]:
    """Accuracy in percent, and calibration."""
    right = (log_probs.argmax(-1) == y).double().mean().item()
    return {"accuracy": 100 * right, "ece": ece(log_probs, y).item(), "nll": nll(log_probs, y).item()}
