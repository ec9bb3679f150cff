r"""What the experiments share: Transforming-MNIST, the perceptron, networks trained with each method; measures.

*Data.* The digits of both files of MNIST but the 9, padded with zeros from 28 to 36 pixels. In an order that is drawn
once, with seed 0 whatever the seed of the run, the first 10,000 are for training, 50,000 for testing and 2,000 for
validation. They are stored upright; in training each is moved by a random element in every step, in validation by one
that is drawn once, and tests are over whole orbits. The mean and deviation of the training part normalise inputs inside
of the networks, so that an input of zeros is a black image: the baseline of the integrated gradients.

*Network.* Five hidden layers of 128 rectified units, 233,225 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data import DataSet, digits, load
from ...distributions import Categorical
from ...metrics import Saliency, consistency, distribution_invariance, logit_invariance, saliency_similarity
from ...models import Averaged, GroupTied, Normalise
from ...objectives import HandMade, InvarianceRegularised, Objective
from ...train import Config, Optimiser, TensorLoader, fit
from ...transforms import FiniteGroup, Rotations, Shifts
from ...utils.seeds import generator, seeded
from ..cache import kept
from . import posed
from .posed import Posed, Posing

__all__ = [
    "GROUPS",
    "Training",
    "Transforming",
    "accuracy",
    "alike",
    "averaged",
    "build",
    "group_of",
    "images",
    "measures",
    "part",
    "perceptron",
    "teach",
    "trained",
]

GROUPS = ("R4", "T3")
CLASSES, SIDE, LAYERS = 9, 36, 5


@dataclass(frozen=True)
class Training:
    """All that a trained network depends on.

    Attributes:
        method: "wt" or "wt-mean" (tied weights, pooled by their maximum or mean), "da" (augmentation), "ir" (a price on
            the invariance error), "learned" (the same, over a distribution of elements that is learned, beginning
            near the identity) or "ours" (`posed`).
        group: "R4" or "T3".
        source: "mnist", "fashion-mnist", or "drawn" for a run of seconds.
        sizes: of the training, test and validation parts.
        nu: the weight of the invariance error, where the method has one.
        regulariser: which invariance error, see `InvarianceRegularised`.
    """

    method: str = "da"
    group: str = "R4"
    source: str = "mnist"
    sizes: tuple[int, int, int] = (10_000, 50_000, 2_000)
    epochs: int = 300
    batch: int = 512
    lr: float = 8e-4
    width: int = 128
    nu: float = 0.0
    regulariser: str = "logit"
    seed: int = 0

    @property
    def scale(self) -> float:
        """The inputs that it is trained on, as a share of the paper's."""
        return round(min(1.0, self.epochs * self.sizes[0] / 3e6), 3)


def group_of(config: Training) -> FiniteGroup:
    """Four-fold rotations, or three cyclic shifts along x."""
    return Rotations(4) if config.group == "R4" else Shifts(3)


@lru_cache(maxsize=2)
def images(source: str) -> DataSet:
    """Both files of a set in one, without its last class, in a random order, padded to 36 × 36."""
    files = [digits(source, s) if source == "drawn" else load(source, s) for s in ("train", "test")]
    x, y = (torch.cat([getattr(file, name) for file in files]) for name in ("x", "y"))
    chosen = (y < CLASSES).nonzero().flatten()
    chosen = chosen[torch.randperm(len(chosen), generator=generator(0))]
    margin = (SIDE - x.shape[-1]) // 2
    return DataSet(F.pad(x[chosen], [margin] * 4), y[chosen], files[0].classes[:CLASSES], source)


def part(config: Training, name: str) -> DataSet:
    """The "train", "test" or "held" part, upright."""
    place = ("train", "test", "held").index(name)
    start = sum(config.sizes[:place])
    return images(config.source).subset(torch.arange(start, start + config.sizes[place]))


def perceptron(config: Training) -> nn.Module:
    """The network, with a first layer that is tied over the group for the methods "wt" and "wt-mean"."""
    x = part(config, "train").x / 255
    widths = [SIDE * SIDE, *[config.width] * LAYERS]
    first, *others = (nn.Linear(a, b) for a, b in pairwise(widths))
    rest = [layer for hidden in others for layer in (hidden, nn.ReLU())]
    rest.append(nn.Linear(config.width, CLASSES))
    normalise = Normalise([x.mean().item()], [x.std().item()])
    if config.method.startswith("wt"):
        pool: Any = "mean" if config.method == "wt-mean" else "max"
        tied = GroupTied(first, group_of(config), nn.Sequential(*rest), pool=pool, activation=nn.ReLU())
        return nn.Sequential(normalise, tied)
    return nn.Sequential(normalise, nn.Flatten(), first, nn.ReLU(), *rest)


def alike(group: FiniteGroup) -> Categorical:
    """All elements alike, whatever the input, to begin with."""
    return Categorical.over(group, SIDE * SIDE, spread=1 - 1 / len(group), encoder=nn.Flatten())


def averaged(model: nn.Module, group: FiniteGroup, *, exact: bool = True) -> Averaged:
    """A network averaged over the group, each element alike; one random element in place of all if not exact."""
    return Averaged(model, group, alike(group), samples=1, space="logit", exact=exact, frozen=("conditional",))


class Transforming(InvarianceRegularised):
    """Regularisation of data that come transformed: each input of a step is moved before anything else sees it."""

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss and its parts."""
        (x, y), group = batch, self.transform
        if self.training and isinstance(group, FiniteGroup):
            x = group.act(torch.randint(len(group), (len(x),), device=x.device), x)
        return super().forward((x, y))


def build(config: Training) -> Objective:
    """The four nouns: a finite group, all its elements alike or a learned choice, a network, an objective."""
    group = group_of(config)
    with seeded(config.seed):
        model = perceptron(config)
    if config.method == "ours":
        return Posing(Posed(model, group, alike(group)))
    if config.method not in ("ir", "learned"):
        return HandMade(averaged(model, group, exact=False))
    regulariser: Any = {"nu": config.nu, "regulariser": config.regulariser, "samples": 1}
    if config.method == "ir":
        return InvarianceRegularised(model, group, **regulariser)
    few = Categorical.over(group, SIDE * SIDE, spread=0.1, encoder=nn.Flatten())
    return Transforming(model, group, few, augment=False, alpha=1.0, **regulariser)


def trained(config: Training, device: str = "cpu") -> nn.Module:
    """The trained network, from the cache, by the hash of its config."""
    objective, _ = kept(config, device, build, teach, code=(__file__, posed.__file__))
    return objective.posed if isinstance(objective, Posing) else getattr(objective, "averaged", objective).model


def teach(objective: Objective, config: Training, device: str, **going: Any) -> dict[str, Tensor]:
    """Trains it, and leaves the weights of the epoch with the best accuracy on the validation set."""
    data, held, group = part(config, "train"), part(config, "held"), group_of(config)
    once = torch.randint(len(group), (len(held),), generator=generator(0))
    validation = TensorLoader(group.act(once, held.x), held.y, batch_size=len(held), shuffle=False)
    # Adam would take full steps along gradients that are zero but for rounding, such as those of a pose's offsets.
    how = Config(
        epochs=config.epochs,
        optimiser=Optimiser("adam", lr=config.lr),
        groups={"conditional": Optimiser("sgd", lr=0.1, momentum=0.9)} if isinstance(objective, Posing) else {},
        seed=config.seed,
        accelerator=torch.device(device).type,
        log_every=500,
        monitor="accuracy",
        greater_is_better=True,
        patience=config.epochs,
        **going,
    )
    fit(objective, TensorLoader(data.x, data.y, batch_size=config.batch, seed=config.seed), how, validation=validation)
    return {}


def measures(model: nn.Module, data: DataSet, group: FiniteGroup, *, maps: int, steps: int = 50) -> dict[str, float]:
    """Accuracy over all copies of all inputs in percent, LI, DI and consistency; SI of the first `maps` inputs."""
    many: Any = {"batch_size": 2048}
    salient = saliency_similarity(model, data.x[:maps], group, saliency=Saliency(steps=steps), **many)
    return {
        "accuracy": accuracy(model, data, group),
        "LI": logit_invariance(model, data.x, group, **many).mean.item(),
        "DI": distribution_invariance(model, data.x, group, **many).mean.item(),
        "SI": salient.mean.item(),
        "consistency": consistency(model, data.x, group, **many).mean.item(),
    }


@torch.no_grad()
def accuracy(model: nn.Module, data: DataSet, group: FiniteGroup) -> float:
    """The share of copies, over whole orbits, whose class is found, in percent."""
    right = 0
    for x, y in zip(data.x.split(1024), data.y.split(1024), strict=True):
        copies = group.act(group.elements().unsqueeze(1), x)
        output = model(copies.flatten(0, 1))
        found = getattr(output, "log_probs", output).argmax(-1).unflatten(0, copies.shape[:2])
        right += int((found == y).sum())
    return 100 * right / (len(data) * len(group))
