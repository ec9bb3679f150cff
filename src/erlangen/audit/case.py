"""A model and the images that it is measured on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import DataSet, FolderSet, load, named_sets
from ..data.folder import class_folders
from ..data.npz import array_names
from ..data.tables import SERIES
from ..estimators.sources import some_rows
from ..metrics import (
    Bootstrap,
    Orbit,
    Saliency,
    jacobian_norm,
    measured,
    saliency_map,
    saliency_similarity,
    there_and_back,
)
from ..metrics.outputs import measuring
from ..transforms.warp import as_signal
from ..utils.shapes import check_count, check_unit, compute_dtype, describe
from .findings import Worst
from .labels import labels_of
from .ladder import Step
from .measuring import Outcome, Value, calibration, outcome, predict, shares
from .record import Picture, Result
from .subject import Preprocess, subject_of

__all__ = ["Case", "Settings", "as_data", "given"]

FIRST = 8  # images about which a model is asked first
COLOURS = (1, 3, 4)  # channels that pictures have


@dataclass(frozen=True)
class Settings:
    """How a model is measured.

    Args:
        images: the greatest number of images; if there are more, a fixed choice of them is taken.
        saliency: on how many of them saliency similarity and sensitivity are measured, which need many gradients; 0 for
            none.
        steps: of the path of integrated gradients.
        batch_size: images that the model sees at a time.
        bootstrap: how intervals are made.
        seed: of whatever is random in the model.
        classes: the names of the model's outputs, in their order, if it is not that of the data's classes.
    """

    images: int = 1000
    saliency: int = 32
    steps: int = 12
    batch_size: int = 256
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    seed: int = 0
    classes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("images", "steps", "batch_size"):
            check_count(name, getattr(self, name))
        if not isinstance(self.saliency, int) or self.saliency < 0:
            raise ValueError(f"saliency: received {self.saliency!r}; accepted is an integer >= 0")


def given(preprocess: Preprocess | None, settings: Settings | None) -> tuple[Preprocess, Settings]:
    """What was given, or the defaults; a `ValueError` for anything else, such as a dictionary."""
    preprocess = Preprocess() if preprocess is None else preprocess
    settings = Settings() if settings is None else settings
    for name, value, kind in (("preprocess", preprocess, Preprocess), ("settings", settings, Settings)):
        if not isinstance(value, kind):
            raise ValueError(f"{name}: received {describe(value)}; accepted is a {kind.__name__}, or None")
    return preprocess, settings


class Case:
    """A model and the images that it is measured on.

    Args:
        model: a module, a callable, or the place of one.
        data: images with labels; see `as_data`.
        preprocess: what the model wants done to images in [0, 1].
        settings: how it is measured.
    """

    def __init__(self, model: object, data: object, preprocess: Preprocess, settings: Settings) -> None:
        every = as_data(data)
        self.rows = some_rows(len(every), settings.images)
        chosen = _images(every.subset(self.rows))
        self.subject = subject_of(model, chosen.x[: min(FIRST, settings.batch_size)], preprocess, settings.seed)
        self.data, self.every, self.settings = chosen.to(self.subject.device), len(every), settings
        names = {"wanted": settings.classes, "known": self.subject.names}
        self.labels = labels_of(self.data, self.subject.classes, **names, named=not isinstance(data, tuple | list))
        self.x, self.y = self.data.x, self.labels.y
        self.logits = predict(self.subject, self.x, settings.batch_size, settings.seed)
        self.seen = _in_turn(self.y, settings.saliency if self.subject.differentiable else 0)

    def plain(self) -> dict[str, Value]:
        """Accuracy and calibration of images as they are."""
        right = shares(self.logits.argmax(-1) == self.y)
        bootstrap = self.settings.bootstrap
        accuracy = measured(right, self.y, classes=self.subject.classes, bootstrap=bootstrap)
        error = calibration(self.logits.log_softmax(-1)[None], self.y, bootstrap)
        return {"accuracy": Value.of(accuracy), "ece": error}

    def measure(self, step: Step) -> tuple[Result, Outcome]:
        """Everything under one step, and under its null control where it can be undone."""
        step = replace(step, orbit=replace(step.orbit, seed=self.settings.seed))
        found, values = self.values(step)
        null: dict[str, Value] = {}
        if step.orbit.transform.invertible:
            _, null = self.values(replace(step, orbit=there_and_back(step.orbit)))
        # The control keeps only what a reader compares: all of it would double the file.
        null = {name: replace(value, classes=None, inputs=None) for name, value in null.items()}
        copies = len(found.predicted)
        return Result(step.transform, step.strength, step.label, copies, found.lost, values, null), found

    def values(self, step: Step) -> tuple[Outcome, dict[str, Value]]:
        """Every metric under the orbit of a step."""
        orbit, bootstrap, size = step.orbit, self.settings.bootstrap, self.settings.batch_size
        logits = self.logits
        if orbit.disc:  # what lies outside is missing in the copies, and would count as a change
            logits = predict(self.subject, orbit.frame(self.x), size, self.settings.seed)
        found = outcome(self.subject, self.x, self.y, step, logits=logits, bootstrap=bootstrap, batch_size=size)
        values, seen = dict(found.values), self.seen
        if len(seen) and orbit.transform.invertible:
            saliency = Saliency(steps=self.settings.steps)
            similar = saliency_similarity(
                self.subject,
                self.x[seen],
                orbit,
                y=self.y[seen],
                batch_size=size,
                bootstrap=bootstrap,
                saliency=saliency,
            )
            values["si"] = Value.of(similar)
        return found, values

    def place(self, index: int) -> str:
        """Where an input is to be found: its file, or its number in the data."""
        if isinstance(self.data, FolderSet):
            return "/".join(self.data.files[index].parts[-2:])
        return f"Image {int(self.rows[index])}"

    def sensitivity(self) -> float | None:
        """The mean norm of the Jacobian, where there are gradients."""
        if not len(self.seen):
            return None
        how = self.settings
        found = jacobian_norm(self.subject, self.x[self.seen], batch_size=how.batch_size, seed=how.seed)
        return float(found.mean)

    def pictures(self, steps: Sequence[Step], found: Sequence[Worst]) -> list[Picture]:
        """Images before and after, and where the model looks, for the class that it predicts in either."""
        before = self.x[[one.index for one in found]]
        after = torch.cat([self._copy(steps[one.step].orbit, one) for one in found])
        looks: list[tuple[Tensor, Tensor] | None] = [None] * len(found)
        if len(self.seen):
            target = torch.tensor([[one.before, one.after] for one in found], device=before.device).T.flatten()
            maps = self._looks(torch.cat((before, after)), target)
            looks = list(zip(*maps.split(len(found)), strict=True))
        return [Picture(*found) for found in zip(before.cpu(), after.cpu(), looks, strict=True)]

    def _looks(self, x: Tensor, target: Tensor) -> Tensor:
        """Where the model looks for some classes, `(B, 1, H, W)`."""
        size, saliency = self.settings.batch_size, Saliency(threshold=0.0)
        with measuring(self.settings.seed, self.subject):
            parts = zip(x.split(size), target.split(size), strict=True)
            maps = torch.cat([saliency_map(self.subject, *part, saliency).cpu() for part in parts])
        return maps.nan_to_num(0.0, 0.0)  # a copy in which nothing is left may have no gradient

    def _copy(self, orbit: Orbit, found: Worst) -> Tensor:
        """The copy of an image, `(1, C, H, W)`."""
        x = self.x[found.index : found.index + 1]
        return orbit.act(orbit.elements(x)[found.copy : found.copy + 1], x)[0]


def _in_turn(y: Tensor, n: int) -> Tensor:
    """The places of at most n inputs, the classes in turn."""
    order = y.cpu().argsort(stable=True)
    _, counts = y.cpu().unique(return_counts=True)
    rank = torch.cat([torch.arange(int(count)) for count in counts])
    return order[rank.argsort(stable=True)[:n]].sort().values.to(y.device)


def _images(data: DataSet) -> DataSet:
    """The data with images in [0, 1], in floating-point; a `ValueError` if they are no such images."""
    if data.x.ndim != 4:
        raise ValueError(f"data: received series {tuple(data.x.shape)}; accepted are images (B, C, H, W)")
    if data.x.shape[-1] in COLOURS and data.x.shape[1] not in COLOURS:  # rows would be taken for channels
        got = f"images {tuple(data.x.shape)}, whose channels come last"
        accepted = "(B, C, H, W): x.movedim(-1, 1), and channels_last for a model that takes them last"
        raise ValueError(f"data: received {got}; accepted are images {accepted}")
    x = as_signal(data.x, "bilinear")
    normalised = "any normalisation, which belongs into preprocess (mean and std)"
    check_unit("data", x, f"images in uint8 or in [0, 1], before {normalised}")
    return replace(data, x=x.to(compute_dtype(x)).clamp(0, 1))  # what rounding may have added


def as_data(data: object, **options: Any) -> DataSet:
    """Images with labels: a data set, a pair of tensors or arrays, or what a name or path has, its test part if any.

    Args:
        data: any of these.
        **options: for folders, see `erlangen.data.image_folder`.
    """
    if isinstance(data, str | os.PathLike):
        if Path(data).suffix.lower() in SERIES and Path(os.path.expanduser(data)).is_file():
            raise ValueError(f"data: received {str(data)!r}, a file of series; accepted are images (B, C, H, W)")
        return load(data, "test" if _has_test(data) else "train", **options)
    if isinstance(data, tuple | list):
        data = tuple(torch.tensor(part) if _numbers(part) or _labels(part) else part for part in data)
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        x, y = data
        whole = not (y.is_floating_point() or y.is_complex()) and y.ndim == 1 and len(y) > 0
        if not whole or int(y.min()) < 0:
            raise ValueError(f"data: received the labels {describe(y)}; accepted are whole numbers (B,), from 0 on")
        data = DataSet(x.detach(), y.long(), tuple(map(str, range(int(y.max()) + 1))), "images")
    if not isinstance(data, DataSet):
        got = type(data).__name__
        got += f" of {', '.join(type(part).__name__ for part in data[:4])}" if isinstance(data, tuple) else ""
        raise ValueError(
            f"data: received {got}; accepted is a DataSet, a pair of images (B, C, H, W), all of one size, and labels "
            "(B,), or the name or path of a data set"
        )
    return data


def _numbers(part: object) -> bool:
    return isinstance(part, np.ndarray) and part.dtype.kind in "biuf"


def _labels(part: object) -> bool:
    return isinstance(part, tuple | list) and all(isinstance(label, Integral) for label in part)


def _has_test(source: str | os.PathLike[str]) -> bool:
    if isinstance(source, str) and source in named_sets():  # a path of that name is a path
        return True
    path = Path(os.path.expanduser(source))
    if path.suffix.lower() == ".npz" and path.is_file():
        return "x_test" in array_names(path)
    return bool(class_folders(path / "test"))  # otherwise `path` is a class of that name
