"""The methods of the tables: which conditional and which objective go with each name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from ..distributions import (
    Conditional,
    Dirac,
    EntropyController,
    GlobalUniform,
    MeanFieldUniform,
    RealNVP,
    StudentT,
    preset,
)
from ..models import Averaged
from ..nets import EmbeddingCNN, SeriesLocaliser
from ..transforms import Transform
from .augerino import Augerino
from .base import AveragedObjective
from .fixed import HandMade, Plain
from .instaaug import InstaAug
from .learning_to_transform import LearningToTransform
from .marginal_likelihood import MarginalLikelihood
from .pstn import PSTN

__all__ = ["METHODS", "Method", "Terms"]

FEATURES = 32  # numbers that describe an input to a conditional, as published
SLOWER = 0.1  # the rate of a localiser as a share of the classifier's, in P-STN's published code
FASTER = 10.0  # the same for one range for all inputs: at a network's rate its few numbers would stay near their start
FARTHEST = 3.0  # how far P-STN's samples lie from their centre, in units of the scale, at most; as in `pstn/table2`


class Terms(NamedTuple):
    """The settings of an objective that a user of `METHODS` chooses.

    Attributes:
        alpha: the weight of the entropy (for instaaug, at the start), of the width, or of P-STN's divergence.
        entropy: the entropy to hold instead, by changing the weight; for instaaug, the middle of a band.
        burn_in: for how many steps the classifier is trained alone.
        original: the weight of the cross-entropy of the untransformed input.
        shares: whether Augerino's bonus is for the sum of widths as shares of their ranges; else for their norm.
        size: the number of inputs of the training set, for LILA.
    """

    alpha: float | None = None
    entropy: float | None = None
    burn_in: int = 0
    original: float = 1.0
    shares: bool = False
    size: int = 0


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Attributes:
        about: what it does, in a sentence.
        conditional: makes the distribution, from a transform and the channels of an image or a series.
        objective: makes what trains it.
        alpha: the weight of the entropy, the width or the divergence, unless one is given; None if there is none.
        averaging: how predictions are averaged, where it differs from the defaults of `Averaged`.
        learned: whether its distribution is learned.
        averages: whether its predictions are averaged over views.
        rate: the learning rate of `fast`, as a share of the classifier's.
        fast: what learns at that rate, see `AveragedObjective.parameter_groups`.
    """

    about: str
    conditional: Callable[[Transform, int], Conditional]
    objective: Callable[[Averaged, Terms], AveragedObjective]
    alpha: float | None = None
    averaging: Mapping[str, Any] = field(default_factory=dict)
    learned: bool = True
    averages: bool = True
    rate: float = 1.0
    fast: tuple[str, ...] = ("conditional",)


def _encoder(transform: Transform, channels: int) -> nn.Module:
    """What describes an image, or a series, to a conditional."""
    if transform.dims != 1:
        return EmbeddingCNN(channels, FEATURES)
    parts = SeriesLocaliser(channels, widths=(16, 32, 16), bins=8, dropout=0.0)
    return nn.Sequential(parts, nn.Linear(parts.features, FEATURES))


def _flow(transform: Transform, channels: int) -> Conditional:
    return RealNVP.over(transform, FEATURES, encoder=_encoder(transform, channels))


def _published_flow(transform: Transform, channels: int) -> Conditional:
    return preset("ltt-code", transform, FEATURES, encoder=_encoder(transform, channels))


def _box(transform: Transform, channels: int) -> Conditional:
    return MeanFieldUniform.over(transform, FEATURES, encoder=_encoder(transform, channels))


def _point(transform: Transform, channels: int) -> Conditional:
    return Dirac.over(transform, FEATURES, encoder=_encoder(transform, channels))


def _student(transform: Transform, channels: int) -> Conditional:
    """A truncated t: nothing is learned from samples in its far tails, and averages are worse for them."""
    return StudentT.over(transform, FEATURES, encoder=_encoder(transform, channels), truncation=FARTHEST)


def _one_range(transform: Transform, channels: int) -> Conditional:
    return GlobalUniform.over(transform, 1)


def _whole_range(transform: Transform, channels: int) -> Conditional:
    """Uniform within the bounds, and never anything else."""
    (low, high), origin = transform.bounds, transform.origin
    whole = GlobalUniform.over(transform, 1, width=torch.maximum(origin - low, high - origin).tolist())
    return whole.requires_grad_(False)


def _learning_to_transform(averaged: Averaged, terms: Terms) -> AveragedObjective:
    alpha: Any = terms.alpha
    if terms.entropy is not None:
        alpha = EntropyController(terms.entropy, alpha=max(alpha, 1e-4), high=max(1.0, alpha))
    return LearningToTransform(averaged, alpha, burn_in=terms.burn_in, original=terms.original)


def _published_code(averaged: Averaged, terms: Terms) -> AveragedObjective:
    """One cross-entropy, of the average of logits."""
    return LearningToTransform(averaged, terms.alpha or 0.0, burn_in=terms.burn_in, together=True)


def _augerino(averaged: Averaged, terms: Terms) -> AveragedObjective:
    own: Any = {"shares": terms.shares, "burn_in": terms.burn_in, "original": terms.original}
    return Augerino(averaged, terms.alpha or 0.0, **own)


def _lila(averaged: Averaged, terms: Terms) -> AveragedObjective:
    """Without the untransformed input, whose cross-entropy is no part of the likelihood."""
    return MarginalLikelihood(averaged, terms.size, burn_in=terms.burn_in)


def _pstn(averaged: Averaged, terms: Terms) -> AveragedObjective:
    return PSTN(averaged, terms.alpha or 0.0, burn_in=terms.burn_in, original=terms.original)


def _instaaug(averaged: Averaged, terms: Terms) -> AveragedObjective:
    """The band is a quarter of a nat to either side of a target, or a quarter to a half of each coordinate's range."""
    low, high = averaged.transform.bounds
    if terms.entropy is None:
        shares = torch.tensor([[0.25], [0.5]]).to(low) * (high - low)
        band = shares.log().sum(-1).tolist()
    else:
        band = [terms.entropy - 0.25, terms.entropy + 0.25]
    own: Any = {"alpha": terms.alpha, "burn_in": terms.burn_in, "original": terms.original}
    return InstaAug(averaged, (band[0], band[1]), **own)


METHODS: dict[str, Method] = {
    "flow": Method(
        "Learning to Transform: a normalising flow gives each input its own distribution of transformations.",
        _flow,
        _learning_to_transform,
        alpha=0.3,
    ),
    "flow-code": Method(
        "Learning to Transform as in its published code: logits are averaged, in training under one cross-entropy, and "
        "in evaluation over the unmodified image and views that were chosen because they lie near it.",
        _published_flow,
        _published_code,
        alpha=0.1,
        averaging={"space": "logit", "identity": "eval", "rejection": 1.0},
    ),
    "augerino": Method(
        "Augerino: one range of transformations is learned for all inputs.",
        _one_range,
        _augerino,
        alpha=0.1,
        rate=FASTER,
    ),
    "lila": Method(
        "LILA: one range of transformations is learned for all inputs, by the marginal likelihood of the labels.",
        _one_range,
        _lila,
        averaging={"space": "logit"},
        rate=FASTER,
        fast=("conditional", "prior"),
    ),
    "instaaug": Method(
        "InstaAug: each input has its own range of each coordinate.",
        _box,
        _instaaug,
        alpha=0.2,
    ),
    "stn": Method(
        "Spatial transformer: a single transformation for each input.",
        _point,
        _pstn,
        rate=SLOWER,
    ),
    "pstn": Method(
        "P-STN: a transformation for each input, with an uncertainty over which predictions are averaged.",
        _student,
        _pstn,
        alpha=1e-3,
        rate=SLOWER,
    ),
    "affine": Method(
        "Augmentation by hand: training on transformations uniform within the bounds, prediction without them.",
        _whole_range,
        lambda averaged, terms: HandMade(averaged),
        learned=False,
        averages=False,
    ),
    "tta": Method(
        "Test-time augmentation: plain training, prediction averaged over transformations uniform within the bounds.",
        _whole_range,
        lambda averaged, terms: Plain(averaged),
        learned=False,
    ),
    "none": Method(
        "The classifier alone.",
        _whole_range,
        lambda averaged, terms: Plain(averaged),
        learned=False,
        averages=False,
    ),
}
