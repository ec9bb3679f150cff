"""What the tables share: a classifier trained with each method on each data set, and how good it is."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ...data import DataSet, load
from ...metrics import ece, nll
from ...models import Averaged
from ...nets import build as build_net
from ...objectives import AveragedObjective, Terms
from ...train import Config, Constant, Optimiser, StepDecay, TensorLoader, WarmupCosine, Within, fit
from ...utils.seeds import generator, seeded
from ..cache import kept
from . import recipes
from .recipes import FLOWS, PLAIN, WAYS, Recipe, recipe

__all__ = ["Training", "build", "data_set", "how", "predictions", "scores", "trained"]

MANY = 30  # beyond so many views the published code rejects none, and leaves out the image as it is


@dataclass(frozen=True)
class Training:
    """All that a trained classifier depends on.

    Attributes:
        dataset: one of `recipes.PUBLISHED`.
        method: one of `recipes.WAYS`.
        source: another named set in place of the data set's, for a run of seconds.
        epochs: how long; as in the recipe if 0. Steps of the schedule shrink with it; burn-in is a fifth at most.
        batch: inputs to a step; as in the recipe if 0.
        samples: views of an input in training; as in the recipe if 0.
        inputs: so many inputs of the training set, of all classes alike; all if 0.
        held: so many inputs of the training set are set aside, for choices.
    """

    dataset: str = "cifar10"
    method: str = "flow"
    source: str = ""
    epochs: int = 0
    batch: int = 0
    samples: int = 0
    inputs: int = 0
    held: int = 0
    seed: int = 0

    @property
    def recipe(self) -> Recipe:
        """The recipe of the data set, shortened or lengthened."""
        whole = recipe(self.dataset, self.method)
        epochs = self.epochs or whole.epochs
        own = {"epochs": epochs, "burn_in": min(whole.burn_in, epochs // 5)}
        own |= {"batch": self.batch or whole.batch, "samples": self.samples or whole.samples}
        schedule = whole.classifier.schedule
        if isinstance(schedule, StepDecay):
            schedule = replace(schedule, every=max(1, schedule.every * epochs // whole.epochs))
        return replace(whole, **own, classifier=replace(whole.classifier, schedule=schedule))

    @property
    def scale(self) -> float:
        """The number of transformed inputs in training as a share of the published code's."""
        published, own = recipes.PUBLISHED[self.dataset], self.recipe
        views = 1.0 if self.method in PLAIN else own.samples / published.samples
        return round(own.epochs / published.epochs * views, 3)


_load = lru_cache(maxsize=4)(load)  # all methods of a table have the same sets


def data_set(config: Training, part: str) -> DataSet:
    """The "train", "held" or "test" part."""
    data = _load(config.source or config.recipe.source, "test" if part == "test" else "train")
    if part != "test" and config.held:
        rest, held = data.split(config.held / len(data), seed=0)
        data = held if part == "held" else rest
    if config.inputs:
        order = torch.randperm(len(data), generator=generator(0))  # some sets are in the order of their classes
        data = data.subset(order[: config.inputs])
    return data


def build(config: Training) -> AveragedObjective:
    """The four nouns: a transform, the method's conditional over it, an averaged classifier and its objective."""
    own, method, data = config.recipe, WAYS[config.method], data_set(config, "train")
    transform, (_, channels, _, side) = own.transform(), data.x.shape
    with seeded(config.seed):
        net = build_net(own.net, classes=len(data.classes), channels=channels, size=side)
        conditional = method.conditional(transform, channels)
    options: dict[str, Any] = {"samples": own.samples, "normalise": own.inputs(channels), **method.averaging}
    averaged = Averaged(net, transform, conditional, largest=2**14, **options)
    burn_in = own.burn_in * (len(data) // own.batch) if method.learned else 0
    # As published, without the loss of the untransformed input.
    alpha = own.alpha if config.method in FLOWS else method.alpha
    return method.objective(averaged, Terms(alpha, burn_in=burn_in, original=0.0, size=len(data)))


def how(objective: AveragedObjective, config: Training, device: str) -> Config:
    """How a classifier is trained: on a GPU compiled, its steps recorded as one graph each."""
    own, cuda = config.recipe, torch.device(device).type == "cuda"
    pays = cuda and own.epochs > 1  # one epoch is over before the compiler is
    steps = own.epochs * (len(data_set(config, "train")) // own.batch)
    # After the burn-in, before which there is nothing to learn at any rate.
    slowly = (
        Within(WarmupCosine(own.rising), objective.burn_in, steps - objective.burn_in) if own.rising else Constant()
    )
    own_rate = Optimiser("adam", lr=own.rate, schedule=slowly)
    groups = {
        "scalars": replace(own.classifier, lr=own.classifier.lr / 10),
        "conditional": own_rate,
        "prior": own_rate,
    }
    return Config(
        epochs=own.epochs,
        optimiser=own.classifier,
        groups={name: groups[name] for name in objective.parameter_groups() if name in groups},
        seed=config.seed,
        accelerator="cuda" if cuda else "cpu",
        precision="bf16-mixed" if cuda else "32-true",
        compile=pays,
        graph=pays,
        channels_last=True,
        log_every=500,
    )


def trained(config: Training, device: str = "cpu") -> Averaged:
    """The trained model, from the cache, by the hash of its config."""
    objective, _ = kept(config, device, build, _train, code=(__file__, recipes.__file__))
    return objective.averaged


def _train(objective: AveragedObjective, config: Training, device: str, **going: Any) -> dict[str, Tensor]:
    data = data_set(config, "train")
    loader = TensorLoader(data.x, data.y, batch_size=config.recipe.batch, seed=config.seed, drop_last=True)
    torch.compiler.reset()  # the compiler gives up on code that it has seen with many methods
    fit(objective, loader, replace(how(objective, config, device), **going))
    return {}


@torch.no_grad()
def predictions(model: Averaged, x: Tensor, samples: int, *, averaged: bool = True, batch: int = 4000) -> Tensor:
    """The log-probabilities of inputs, averaged over views or as they are, `(N, K)`, on the CPU."""
    model = copy(model)
    model.eval_samples = samples
    if samples > MANY:
        model.rejection, model.identity = None, False
    device = model.transform.bounds.device
    found = []
    with seeded(0), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for part in x.to(device).split(batch):  # one copy: each would wait for what was computed before
            images = part / 255
            found.append((model(images).log_probs if averaged else model.classify(images).log_softmax(-1)).float())
    return torch.cat(found).cpu()


def scores(log_probs: Tensor, y: Tensor) -> dict[str, float]:
    """Accuracy in percent, and calibration."""
    right = (log_probs.argmax(-1) == y).double().mean().item()
    return {"accuracy": 100 * right, "ece": ece(log_probs, y).item(), "nll": nll(log_probs, y).item()}
