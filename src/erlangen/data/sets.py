"""A data set is plain: signals, labels, the names of the classes, and a name of its own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import torch
from torch import Tensor

from ..utils.seeds import generator
from ..utils.shapes import check_tensor, check_true, describe

__all__ = ["BoxedSet", "DataSet", "FactoredSet", "PosedSet"]


@dataclass(frozen=True, eq=False, repr=False)
class DataSet:
    """Signals with labels. Images stay uint8, as every transform of the library accepts them.

    Args:
        x: images in uint8, or images or series in floating-point.
        y: labels, indices into `classes`.
        classes: the names of the classes.
        name: what to call the set.

    Shape:
        x: `(N, C, H, W)` or `(N, C, L)`, N > 0; y: `(N,)`, int64.

    Example:
        >>> data = DataSet(torch.zeros(6, 1, 8, 8, dtype=torch.uint8), torch.arange(6) % 2, ("cat", "dog"), "pets")
        >>> data
        DataSet 'pets': 6 of (1, 8, 8), uint8, 2 classes
        >>> train, validation = data.split(1 / 3, seed=0)
        >>> validation.counts()
        [1, 1]
    """

    x: Tensor
    y: Tensor
    classes: tuple[str, ...]
    name: str

    def __post_init__(self) -> None:
        ok = isinstance(self.x, Tensor) and self.x.ndim in (3, 4) and 0 not in self.x.shape
        ok = ok and (self.x.is_floating_point() or (self.x.dtype == torch.uint8 and self.x.ndim == 4))
        accepted = "images (N, C, H, W) in uint8 or floating-point, or series (N, C, L) in floating-point, none empty"
        check_tensor("x", self.x, accepted, ok)
        ok = isinstance(self.y, Tensor) and self.y.dtype == torch.int64 and self.y.shape == self.x.shape[:1]
        check_tensor("y", self.y, f"one int64 label for each of {len(self.x)} signals", ok)
        if self.y.device != self.x.device:
            raise ValueError(f"y: received {describe(self.y)}, but x is on {self.x.device}; accepted is one device")
        known = (self.y >= 0) & (self.y < len(self.classes))
        check_true(
            "y", known, "labels without a class", f"0 to {len(self.classes) - 1}, for {len(self.classes)} classes"
        )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        kind, dtype = type(self).__name__, str(self.x.dtype).removeprefix("torch.")
        return f"{kind} {self.name!r}: {len(self)} of {tuple(self.x.shape[1:])}, {dtype}, {len(self.classes)} classes"

    def counts(self) -> list[int]:
        """How many signals each class has."""
        return torch.bincount(self.y, minlength=len(self.classes)).tolist()

    def _each(self, index: Tensor) -> dict[str, Any]:
        """The fields that hold one entry per signal, at `index`."""
        return {k: v[index.to(v.device)] for k, v in vars(self).items() if isinstance(v, Tensor)}

    def subset(self, index: Tensor, name: str | None = None) -> Self:
        """The signals at `index`, in its order.

        Args:
            index: integers, or a truth value for each signal.
            name: the name of the subset; that of the set if not given.

        Shape:
            index: `(M,)` or `(N,)`.
        """
        whole = isinstance(index, Tensor) and not index.is_floating_point() and not index.is_complex()
        ok = whole and index.ndim == 1 and (index.dtype != torch.bool or len(index) == len(self))
        accepted = f"a tensor of integers from 0 to {len(self) - 1}, or of {len(self)} truth values, that selects some"
        index = check_tensor("index", index, accepted, ok)
        index = index.nonzero().flatten() if index.dtype == torch.bool else index.long()
        check_true("index", (index >= 0) & (index < len(self)), describe(index) + " with others", accepted)
        check_tensor("index", index, accepted, len(index) > 0)
        return dataclasses.replace(self, name=self.name if name is None else name, **self._each(index))

    def split(self, fraction: float, *, seed: int) -> tuple[Self, Self]:
        """Sets a fraction of every class aside, at random: for validation, so that the test set stays unseen.

        Each class keeps at least one signal on either side; the order of the set is kept.

        Args:
            fraction: between 0 and 1, of each class, rounded.
            seed: of the choice, which is the same on every device.

        Returns:
            What is left, and what was set aside.
        """
        if not isinstance(fraction, Real) or not 0 < fraction < 1:
            raise ValueError(f"fraction: received {fraction!r}; accepted is a number between 0 and 1, both excluded")
        counts = self.counts()
        if few := [self.classes[c] for c, n in enumerate(counts) if n == 1]:
            raise ValueError(
                f"split: received a single signal of the class {', '.join(map(repr, few))}; accepted are at least two "
                "of each class: add some, leave the class out, or bring a validation set of your own"
            )
        chance, y = generator(seed), self.y.cpu()
        aside = torch.zeros(len(self), dtype=torch.bool)
        for c, n in enumerate(counts):
            take = min(max(round(fraction * n), 1), n - 1)
            members = (y == c).nonzero().flatten()
            aside[members[torch.randperm(n, generator=chance)[:take]]] = n > 0
        aside = aside.to(self.y.device)
        return self.subset(~aside), self.subset(aside)

    def to(self, device: torch.device | str) -> Self:
        """The set on another device, as one tensor."""
        return dataclasses.replace(self, **{k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)})


@dataclass(frozen=True, eq=False, repr=False)
class PosedSet(DataSet):
    """A data set whose signals were turned, with the angle by which each was turned.

    Args:
        x: as in `DataSet`.
        y: as in `DataSet`.
        classes: as in `DataSet`.
        name: as in `DataSet`.
        angle: counter-clockwise as displayed, in radians, within [-π, π].

    Shape:
        angle: `(N,)`.
    """

    angle: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        ok = isinstance(self.angle, Tensor) and self.angle.is_floating_point() and self.angle.shape == self.y.shape
        check_tensor("angle", self.angle, f"one angle for each of {len(self.x)} signals", ok)


@dataclass(frozen=True, eq=False, repr=False)
class BoxedSet(DataSet):
    """A data set of images in which the place of what the label names is known.

    Args:
        x: as in `DataSet`, images.
        y: as in `DataSet`.
        classes: as in `DataSet`.
        name: as in `DataSet`.
        box: left, top, right and bottom edge in the coordinates of `erlangen.transforms`, whose unit is half the longer
            side: on a square canvas the whole is (-1, -1, 1, 1).

    Shape:
        box: `(N, 4)`.
    """

    box: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tensor("x", self.x, "images (N, C, H, W)", self.x.ndim == 4)
        ok = isinstance(self.box, Tensor) and self.box.is_floating_point() and self.box.shape == (len(self.x), 4)
        check_tensor("box", self.box, f"a box (left, top, right, bottom) for each of {len(self.x)} images", ok)
        ordered = (self.box[:, :2] < self.box[:, 2:]).all(-1)
        check_true("box", ordered, "boxes without an area", "left < right and top < bottom")


@dataclass(frozen=True, eq=False, repr=False)
class FactoredSet(DataSet):
    """A data set whose signals were made from known factors.

    Args:
        x: as in `DataSet`.
        y: as in `DataSet`.
        classes: as in `DataSet`.
        name: as in `DataSet`.
        factors: the true factors of each signal.
        names: of the factors.

    Shape:
        factors: `(N, F)`.
    """

    factors: Tensor
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (len(self.x), len(self.names))
        ok = isinstance(self.factors, Tensor) and self.factors.is_floating_point() and self.factors.shape == shape
        check_tensor("factors", self.factors, f"floating-point factors {shape}", ok)

    def factor(self, name: str) -> Tensor:
        """One factor of all signals, `(N,)`."""
        if name not in self.names:
            raise ValueError(f"name: received {name!r}; accepted is one of {', '.join(self.names)}")
        return self.factors[:, self.names.index(name)]


def check_images(name: str, data: object) -> None:
    """Raises a `ValueError` unless it is a set of images."""
    if not isinstance(data, DataSet):
        raise ValueError(f"{name}: received {describe(data)}; accepted is a DataSet of images")
    if data.x.ndim != 4:
        raise ValueError(f"{name}: received {data!r}; accepted are images")
