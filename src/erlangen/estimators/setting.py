"""A run before its first step: the data in parts, the settings complete, and the model that they make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ..data import DataSet
from ..models import Averaged, Normalise
from ..nets import build
from ..objectives import METHODS
from ..utils.seeds import seeded
from .config import RunConfig, check_device
from .coordinates import COLOUR, build_transform, resolve_ranges
from .sources import check_parts, check_sets, describe_data, is_named, load_parts

__all__ = ["Setting", "build_model", "prepare"]

VIEWS = 8192  # at most so many are in memory at a time
STEPS = 800
USUAL = ("tx", "ty", "angle")  # default coordinates of images


@dataclass(frozen=True)
class Setting:
    """What a run needs.

    Attributes:
        config: the settings, none of them left open.
        train: what it learns from.
        validation: what was set aside.
        test: what it never sees.
        about: what `config.json` says of the data.
    """

    config: RunConfig
    train: DataSet
    validation: DataSet | None
    test: DataSet | None
    about: dict[str, Any]


def prepare(config: RunConfig, data: DataSet | None = None, test: DataSet | None = None) -> Setting:
    """Reads the data, sets some aside, and completes the settings.

    Args:
        config: the settings.
        data: the training set; read from `config.data` if not given, and then `test` as well.
        test: the test set.

    Raises:
        ValueError: something is unknown or does not fit; the message names it.
    """
    check_sets(data=data, test=test)
    if config.method not in METHODS:
        raise ValueError(f"method: received {config.method!r}; accepted is one of {', '.join(METHODS)}")
    ranges = None if config.transform is None else resolve_ranges(config.transform)
    _check_heeded(config)
    check_device(config.device)
    size = config.size
    if data is None:
        data, test, size = load_parts(config)
        source = config.data if is_named(config.data) else os.path.abspath(os.path.expanduser(config.data))
    else:
        source = data.name
    check_parts(data, test)
    ranges = resolve_ranges("warp" if data.x.ndim == 3 else USUAL) if ranges is None else ranges
    config = replace(config, data=source, transform=ranges, size=size)
    _check_entropy(config)
    if set(ranges) & set(COLOUR) and data.x.shape[1] != 3:
        got = f"{', '.join(name for name in ranges if name in COLOUR)} for grey images"
        raise ValueError(f"transform: received {got}; accepted for images in colour only")
    if (data.x.ndim == 3) != ("warp" in ranges):
        got, accepted = ("series", "transform='warp'") if data.x.ndim == 3 else ("images", "a transform of images")
        raise ValueError(f"transform: received {', '.join(ranges)} for {got}; accepted is {accepted}")
    train, validation = data.split(config.validation, seed=config.seed) if config.validation else (data, None)
    settled = _settle(config, train)
    about = describe_data(data, {"train": train, "validation": validation, "test": test})
    build_model(settled, about)  # raises an error for what does not fit before anything is written
    return Setting(settled, train, validation, test, about)


def _check_heeded(config: RunConfig) -> None:
    """Raises a `ValueError` for a weight or an entropy that the method does not use."""
    heeding = {
        "alpha": [name for name, method in METHODS.items() if method.alpha is not None],
        "entropy": ["flow", "instaaug"],
    }
    for name, methods in heeding.items():
        value = getattr(config, name)
        if value is not None and config.method not in methods:
            got = f"received {value:g} for the method {config.method}"
            raise ValueError(f"{name}: {got}, which does not use it; accepted with {', '.join(methods)}")


def _check_entropy(config: RunConfig) -> None:
    """Raises a `ValueError` for an entropy that no distribution over the ranges can have."""
    low, high = build_transform(config.transform or ()).bounds.double()
    most = float((high - low).log().sum())
    if config.entropy is not None and config.entropy >= most:
        got = f"received {config.entropy:g} nats"
        raise ValueError(f"entropy: {got}; accepted is less than {most:.4g}, the entropy of the whole range")


def _settle(config: RunConfig, train: DataSet) -> RunConfig:
    """The settings that were left open."""
    method, sides = METHODS[config.method], tuple(train.x.shape[2:])
    steps = STEPS if config.steps is None and config.epochs is None else config.steps
    total = steps or (config.epochs or 0) * -(-len(train) // config.batch_size)
    burn_in = config.burn_in
    if burn_in is None:
        burn_in = total // 10 if method.learned else 0
    if burn_in >= total:
        raise ValueError(f"burn_in: received {burn_in} for a run of {total} steps; accepted is a number below that")
    usual = "series-cnn" if len(sides) == 1 else "lenet" if sides in ((28, 28), (32, 32)) else "embedding"
    return replace(
        config,
        steps=steps,
        burn_in=burn_in,
        net=config.net or usual,
        alpha=method.alpha if config.alpha is None else config.alpha,
    )


def build_model(config: RunConfig, about: Mapping[str, Any]) -> Averaged:
    """The model of a run, with the weights that its seed gives.

    Args:
        config: settings without anything left open.
        about: what `config.json` says of the data.
    """
    channels, *size = about["shape"]
    method, transform = METHODS[config.method], build_transform(config.transform or ())
    # Wide enough to classify: its default is the width of an encoder. And small enough to be trained anywhere.
    own: dict[str, Any] = {
        "embedding": {"width": 16},
        "series-cnn": {"widths": (64, 64, 64), "kernels": (8, 5, 3)},
    }.get(config.net or "", {})
    with seeded(config.seed):
        net = build(config.net or "lenet", classes=len(about["classes"]), channels=channels, size=tuple(size), **own)
        conditional, normalise = method.conditional(transform, channels), Normalise(**about["normalise"])
        if len(size) == 1 and conditional.encoder is not None:  # series come in any unit, images between 0 and 1
            conditional.encoder = nn.Sequential(normalise, conditional.encoder)
        model = Averaged(
            net,
            transform,
            conditional,
            samples=config.samples,
            eval_samples=config.eval_samples,
            normalise=normalise,
            largest=VIEWS,
            **method.averaging,
        )
    # On CPUs a step, or a prediction, takes about two thirds of the time with convolutions laid out so.
    return model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue, reportArgumentType]
