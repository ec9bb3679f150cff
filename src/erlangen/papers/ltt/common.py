"""What the toy experiments share: the choice of transform, conditional, model and objective, trained once.

The settings that differ from the published code are those that worked in trials: four samples for each input, a
classifier that is trained along with the distribution (but for the discovery of rotations), gradients clipped at 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ...data import DataSet, PosedSet, digits
from ...data.glyphs import from_prototype
from ...distributions import Conditional, FixedEntropyWeight, GlobalUniform, MeanFieldUniform, RealNVP
from ...metrics import half_range
from ...models import Averaged
from ...nets import EmbeddingCNN
from ...objectives import Augerino, AveragedObjective, InstaAug, LearningToTransform
from ...train import Config, Cosine, Optimiser, TensorLoader, fit
from ...transforms import Affine, AffineMatrix, Transform
from ...utils.seeds import generator, seeded
from ..cache import kept
from .data import __file__ as sets
from .data import glyph_set

__all__ = ["Method", "Training", "build", "coordinates", "orientations", "ranges", "trained", "training_set"]

Method = Literal["flow", "augerino", "instaaug"]
# How many transformed inputs the published code trains on: inputs × epochs, one sample for each.
PUBLISHED = {"glyphs-45": 1.2e6, "glyphs-90": 3.0e6, "glyphs-3-modes": 1.8e6, "mnist": 1.2e6, "rotations": 2.16e6}


@dataclass(frozen=True)
class Training:
    """All that a trained model depends on.

    Attributes:
        method: the family of the distribution and its objective.
        data: "glyphs-45", "glyphs-90", "glyphs-3-modes", "mnist" or "drawn".
        alpha: the weight of the entropy; Augerino has its own `bonus`.
        warm: the weight in the first third of the steps; in the second it falls to `alpha`. 0: `alpha` always.
        frozen: for so many steps a perceptron is trained on inputs as they are, then it is frozen and the entries b and
            d of a matrix, within ±π, are learned (the discovery of rotations); otherwise pose and classifier are
            learned together.
        filters: the width of the classifier; the published one has 32.
        decay: of the perceptron's weights, without which it is as sure of pictures that it never saw.
        points: how points are drawn, see `quadrature`.
        band: InstaAug's entropy is held there, in nats; with the weight `alpha` as it is if empty, as in the published
            toy code.
        watch: after every so many steps the range of each class is noted; never if 0.
        pair: files with two pictures in place of our glyphs.
    """

    method: Method = "flow"
    data: str = "glyphs-45"
    alpha: float = 0.3
    warm: float = 0.0
    bonus: float = 0.1
    steps: int = 1500
    batch: int = 64
    samples: int = 4
    burn_in: int = 100
    inputs: int = 12_000
    layers: int = 12
    filters: int = 8
    scatter: float = 0.2
    points: str = "random"
    decay: float = 0.0
    which: tuple[int, ...] = (0, 1, 5, 6, 9)
    frozen: int = 0
    band: tuple[float, ...] = ()
    watch: int = 0
    pair: tuple[str, ...] = ()
    lr: float = 1e-3
    seed: int = 0

    @property
    def scale(self) -> float:
        """The transformed inputs that it is trained on, as a share of the published code's, at most 1."""
        published = PUBLISHED.get("rotations" if self.frozen else self.data, math.inf)
        return round(min(1.0, self.steps * self.batch * self.samples / published), 3)


def training_set(config: Training) -> DataSet:
    """What is trained on."""
    if config.data.startswith("glyphs"):
        return glyph_set(config.data, config.inputs, config.seed, config.pair)
    return digits(config.data, which=config.which, n=config.inputs)


def build(config: Training) -> AveragedObjective:
    """The four nouns."""
    data = training_set(config)
    channels, pixels = data.x.shape[1], data.x[0].numel()
    transform: Transform = Affine("tx", "ty", "angle", factored=True, bounds={"tx": 0.1, "ty": 0.1})
    with seeded(config.seed):
        model: nn.Module = EmbeddingCNN(channels, len(data.classes), width=config.filters)
        if config.frozen:
            transform = AffineMatrix("b", "d", bounds={"b": math.pi, "d": math.pi})
            hidden = (nn.Linear(pixels, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
            model = nn.Sequential(nn.Flatten(), *hidden, nn.Linear(256, len(data.classes)))
        conditional = _conditional(config, transform, channels)
        averaged = Averaged(model, transform, conditional, samples=config.samples, points=config.points)
    kinds = {"burn_in": config.frozen or config.burn_in, "original": 1.0}
    if config.method == "augerino":
        return Augerino(averaged, config.bonus, **kinds)
    if config.band:
        return InstaAug(averaged, (config.band[0], config.band[-1]), alpha=config.alpha, every=20, **kinds)
    alpha = Annealed(config.warm, config.alpha, config.steps // 3) if config.warm else config.alpha
    return LearningToTransform(averaged, alpha, **kinds)


class Annealed(FixedEntropyWeight):
    """A weight that stays at the first for so many steps of training, then falls evenly (in its logarithm) to the last.

    A small weight from the start lets a flow collapse to where the loss is least, and widens it only slowly.
    """

    step: Tensor

    def __init__(self, first: float, last: float, steps: int) -> None:
        super().__init__(first)
        self.factor, self.steps = last / first, max(steps, 1)
        self.register_buffer("step", torch.zeros(()))

    def forward(self, entropy: Tensor) -> Tensor:
        """The weight of this step."""
        share = (self.step / self.steps - 1).clamp(0, 1)
        if self.training:
            self.step += 1
        return self.alpha * self.factor**share


def _conditional(config: Training, transform: Transform, channels: int) -> Conditional:
    if config.method == "augerino":
        return GlobalUniform.over(transform, 1)
    encoder = EmbeddingCNN(channels, 32)
    if config.method == "instaaug":
        return MeanFieldUniform.over(transform, 32, encoder=encoder)
    return RealNVP.over(transform, 32, encoder=encoder, width=32, layers=config.layers, scatter=config.scatter)


def trained(config: Training, device: str = "cpu") -> tuple[Averaged, dict[str, Tensor]]:
    """The trained model, and what was watched: from the cache, by the hash of its config."""
    objective, notes = kept(config, device, build, _train, code=(__file__, sets))
    return objective.averaged, notes


def _train(objective: AveragedObjective, config: Training, device: str, **going: Any) -> dict[str, Tensor]:
    data, notes = training_set(config), []
    if config.frozen or config.watch:  # checkpoints would keep neither a first training nor what was watched
        going = {}
    loader = TensorLoader(data.x, data.y, batch_size=config.batch, seed=config.seed, drop_last=True)
    betas = (0.9, 0.99 if config.warm else 0.999)  # gradients that shrink with the weight are soon forgotten
    optimiser = Optimiser("adamw", lr=config.lr, betas=betas, clip=5.0, schedule=Cosine(0.1))
    # A single width has few gradients to learn from: Augerino's published rate is ten times as great.
    groups = {"conditional": Optimiser("adamw", lr=10 * config.lr)} if config.method == "augerino" else {}
    common: dict[str, Any] = {
        "optimiser": optimiser,
        "groups": groups,
        "accelerator": torch.device(device).type,
        "channels_last": torch.device(device).type == "cpu",  # convolutions take about half the time there
        "seed": config.seed,
    }
    if config.frozen:
        alone: Any = {**common, "optimiser": replace(optimiser, weight_decay=config.decay)}
        fit(objective, loader, Config(steps=config.frozen, log_every=500, **alone))
        objective.averaged.model.requires_grad_(False)
    watched = digits(config.data, "test", which=config.which, n=200).to(device) if config.watch else None

    def note(step: int, _: object) -> None:
        if watched is not None and step % config.watch == 0:
            notes.append(ranges(objective.averaged, watched, 200))

    fit(objective, loader, Config(steps=config.steps, log_every=500, **common, **going), on_step=note)
    return {"ranges": torch.stack(notes)} if notes else {}


@torch.no_grad()
def coordinates(model: Averaged, x: Tensor, samples: int) -> Tensor:
    """Samples of the transformation of each input, `(S, B, d)`."""
    device, dtype = model.transform.bounds.device, model.transform.bounds.dtype
    signal = x.to(device=device, dtype=dtype) / 255
    return model.conditional(signal).sample((samples,), generator(0, device))


def orientations(model: Averaged, data: PosedSet, samples: int, modes: int = 1) -> Tensor:
    """The angle of each transformed glyph from the prototype of its class, in radians, `(S, B)`, on the CPU."""
    turn = coordinates(model, data.x, samples)[..., model.transform.names.index("angle")]
    return turn.cpu() + from_prototype(data, modes).to(turn.dtype)


def ranges(model: Averaged, data: DataSet, samples: int) -> Tensor:
    """The mean half-range of the angle over the inputs of each class, in degrees, `(K,)`."""
    turn = coordinates(model, data.x, samples)[..., model.transform.names.index("angle")]
    each = half_range(turn).rad2deg()
    return torch.stack([each[data.y == c].mean() for c in range(len(data.classes))])
