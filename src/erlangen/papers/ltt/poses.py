r"""What mean-shift can go by before a frozen classifier: a network that was taught how far an image is turned.

No label is needed: images of the training set are taken to be upright, are turned by angles uniform on the circle, and
a conditional learns what turns them back (`PoseLikelihood`). Where it is the posterior of the angle, it turns with its
input, and mean-shift comes to rest at its mean. It is seldom sure, and an upright image that is turned away costs what
a turned one that is turned back brings. Hence the gate of `mean_shift`: the least at which no more than a share of
upright images move, among those that were set aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...align import calibrate_gate, mean_shift
from ...distributions import Mixture, quadrature
from ...models import Averaged, Disc, Mirror, Prediction, average
from ...nets import build as build_net
from ...objectives import PoseLikelihood
from ...train import Config, Optimiser, TensorLoader, WarmupCosine, fit
from ...transforms import Affine, Group
from ...utils.seeds import seeded
from ..cache import kept
from . import classify, recipes
from .classify import Training, data_set

__all__ = ["SHIFT", "Posing", "Shifted", "gate", "posed"]

SHIFT: dict[str, Any] = {"step_size": 1.0, "steps": 5}
FEATURES = 64


class Shifted(Averaged):
    r"""A classifier averaged around where mean-shift moves an input, $\mathbb{E}_{v \sim q(\cdot \mid g x)} f(v g x)$.

    Args:
        averaged: the classifier.
        pose: what mean-shift goes by, its own transformations and their distribution; those of the classifier if None.
        **how: options of `mean_shift`.
    """

    def __init__(self, averaged: Averaged, pose: PoseLikelihood | None = None, **how: Any) -> None:
        super().__init__(averaged.model, averaged.transform, averaged.conditional, normalise=averaged.normalise)
        self.goes_by = (
            (averaged.transform, averaged.conditional) if pose is None else (pose.moves.group, pose.conditional)
        )
        self.how = how

    def forward(self, x: Tensor) -> Prediction:
        """The prediction, averaged over views that are one warp of the input each."""
        group = self.transform
        if not isinstance(group, Group):
            raise ValueError(f"averaged: received one over {type(group).__name__}; accepted is one over a Group")
        g, moved, *_ = mean_shift(x, *self.goes_by, **self.how)
        q = self.conditional(moved)
        points = quadrature(q, self.eval_samples)
        images = group.act(group.compose(group.element(points.v), g), x)
        views = self.classify(images.flatten(0, 1)).unflatten(0, images.shape[:2])
        log_probs = average(views, points.log_weights, self.space)
        return Prediction(log_probs, views, points.v, points.log_q, points.log_weights, q)


@dataclass(frozen=True)
class Posing:
    """All that the network of poses depends on.

    Attributes:
        training: the data, and those set aside for the gate.
        net: its encoder.
        epochs: how long; with a rate of `lr` that falls along a cosine.
        spared: the share of upright images that the gate may move.
    """

    training: Training
    net: str = "conv13"
    epochs: int = 60
    batch: int = 128
    lr: float = 2e-3
    spared: float = 0.005


def build(config: Posing) -> PoseLikelihood:
    """A mixture of wrapped normals over the angle."""
    turn, data, inputs = Affine("angle"), data_set(config.training, "train"), config.training.recipe.inputs
    _, channels, _, side = data.x.shape
    with seeded(config.training.seed):
        net = build_net(config.net, classes=FEATURES, channels=channels, size=side)
        encoder = nn.Sequential(inputs(channels), Disc(), net)
        conditional = Mixture.over(turn, FEATURES, encoder=encoder, components=8, spread=0.5, scatter=1.0)
    return PoseLikelihood(conditional, turn, before=Mirror())


def _train(objective: PoseLikelihood, config: Posing, device: str, **going: Any) -> dict[str, Tensor]:
    data, cuda = data_set(config.training, "train"), torch.device(device).type == "cuda"
    loader = TensorLoader(data.x, batch_size=config.batch, seed=config.training.seed, drop_last=True)
    pays = cuda and config.epochs > 1
    optimiser = Optimiser("adamw", config.lr, weight_decay=0.01, clip=2.0, schedule=WarmupCosine(len(loader)))
    how = Config(
        epochs=config.epochs,
        optimiser=optimiser,
        seed=config.training.seed,
        accelerator="cuda" if cuda else "cpu",
        precision="bf16-mixed" if cuda else "32-true",
        compile=pays,
        graph=pays,
        channels_last=True,
        **going,
    )
    torch.compiler.reset()
    fit(objective, loader, how)
    return {}


def posed(config: Posing, device: str = "cpu") -> PoseLikelihood:
    """The posterior of the angle that turns an image back, trained, or from the cache."""
    return kept(config, device, build, _train, code=(__file__, classify.__file__, recipes.__file__))[0]


def gate(pose: PoseLikelihood, config: Posing, samples: int) -> float:
    """The gate that spares upright images, by those that were set aside."""
    turn = pose.moves.group
    held, device = data_set(config.training, "held").x, turn.bounds.device
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        return calibrate_gate(
            held.to(device) / 255, turn, pose.conditional, share=config.spared, samples=samples, **SHIFT
        )
