r"""Everything that is measured of a model under one step of a ladder, from one pass over its copies."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..metrics import Bootstrap, Measured, measured
from ..metrics.invariance import distribution_error, logit_error
from ..metrics.outputs import classify_copies, measuring
from ..metrics.scores import bin_gaps, calibration_error
from ..utils.seeds import apart
from .ladder import Step
from .subject import Subject

__all__ = ["METRICS", "OF_INPUTS", "Outcome", "Value", "calibration", "outcome", "predict", "shares"]

# What is measured, and whether more of it is better.
METRICS = {"accuracy": True, "consistency": True, "li": False, "di": False, "si": True, "ece": False}
OF_INPUTS = tuple(name for name in METRICS if name != "ece")  # metrics of which each input has a value
FLAT = 1 / 255  # an image whose pixels differ by less shows nothing


@dataclass(frozen=True)
class Value:
    """A metric: its mean, the ends of its interval, the means of classes, and the value of each input if it has one."""

    mean: float
    low: float
    high: float
    classes: list[float] | None = None
    inputs: list[float] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, found: Measured) -> Value:
        """A measurement as plain numbers, those of inputs to six digits: a file keeps many of them."""
        low, high = found.interval.tolist()
        each = [float(f"{value:.6g}") for value in found.inputs.tolist()]
        return cls(float(found.mean), low, high, None if found.classes is None else found.classes.tolist(), each)


class Outcome(NamedTuple):
    """What became of the copies of images.

    Attributes:
        values: the metrics by name.
        moved: how far the prediction of each copy has moved, $D_{KL}$, `(S, B)`.
        predicted: the class of each copy, `(S, B)`.
        lost: the number of copies in which nothing is left of an image that showed something.
    """

    values: dict[str, Value]
    moved: Tensor
    predicted: Tensor
    lost: int


@torch.no_grad()
def predict(subject: Subject, x: Tensor, batch_size: int, seed: int) -> Tensor:
    """The logits of images in [0, 1], `(B, C, H, W)` to `(B, K)`."""
    with measuring(seed, subject):
        return torch.cat([subject(part) for part in x.split(batch_size)])


@torch.no_grad()
def outcome(
    subject: Subject, x: Tensor, y: Tensor, step: Step, *, logits: Tensor, bootstrap: Bootstrap, batch_size: int = 256
) -> Outcome:
    """Moves images, asks the model about the copies, and compares.

    A model that answers at random has noise of its own for the copies: with that of the images it would seem invariant.

    Shape:
        x: `(B, C, H, W)`, in [0, 1]; y: `(B,)`; logits: of the images, `(B, K)`.
    """
    orbit, found, lost = step.orbit, [], 0
    with measuring(orbit.seed, subject, orbit.law):
        batches = list(orbit.batches(x, batch_size))
    with measuring(_noise(step), subject):
        for batch in batches:
            parts = [orbit.act(g, batch.x) for g in batch.elements]
            shown = ~_flat(batch.x)
            lost += sum(int((_flat(part) & shown).sum()) for part in parts)
            found.append(torch.cat([classify_copies(subject, part) for part in parts]))
    copies = torch.cat(found, 1)
    predicted, classes = copies.argmax(-1), logits.shape[1]
    moved = distribution_error(logits, copies)
    each = {
        "accuracy": shares(predicted == y),
        "consistency": shares(predicted == logits.argmax(-1)),
        "li": logit_error(logits, copies),
        "di": moved,
    }
    values = {
        name: Value.of(measured(errors.mean(0), y, classes=classes, bootstrap=bootstrap))
        for name, errors in each.items()
    }
    values["ece"] = calibration(copies.log_softmax(-1), y, bootstrap)
    return Outcome(values, moved, predicted, lost)


def shares(held: Tensor) -> Tensor:
    """Where something holds, as numbers in double precision: a mean of 0.95 in single precision is less than 0.95.

    On the CPU, for not every device has double precision.
    """
    return held.cpu().double()


def _noise(step: Step) -> int:
    """The seed of a model that is asked about the copies of a step, or of its null control."""
    return apart(step.orbit.seed, zlib.crc32(f"{step.transform} {step.label}".encode()), int(step.orbit.back))


def _flat(x: Tensor) -> Tensor:
    """Which images show nothing, `(..., C, H, W)` to `(...)`."""
    return (x.amax((-1, -2)) - x.amin((-1, -2))).amax(-1) < FLAT


def calibration(log_probs: Tensor, y: Tensor, bootstrap: Bootstrap) -> Value:
    """The calibration error of copies, without the part of each input, which means nothing by itself.

    Shape:
        log_probs: `(S, B, K)`; y: `(B,)`.
    """
    found = calibration_error(bin_gaps(log_probs, y), y, classes=log_probs.shape[-1], bootstrap=bootstrap)
    return replace(Value.of(found), inputs=None)
