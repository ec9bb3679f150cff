"""What a run is: everything that decides what is trained, on what and for how long."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, Literal, get_args

import torch

from ..data.folder import Background
from ..data.sequences import Missing, Unequal, check_handling
from ..nets import NETS
from ..utils.seeds import check_seed
from ..utils.shapes import check_count, check_positive, describe
from .coordinates import Wanted, resolve_ranges

__all__ = ["RunConfig", "check_background", "check_device"]


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The settings of a run. What is None is chosen when the data are known.

    Attributes:
        method: one of `METHODS`.
        transform: names of coordinates, or names with ranges; see `resolve_ranges`. Angles in radians. If None, tx, ty
            and angle for images, warp for series.
        net: the classifier, one of `erlangen.nets.NETS`; "lenet" for images of 28 or 32 pixels,
            "embedding" for others, "series-cnn" for series.
        data: where the data come from, for `erlangen.data.load`, a path or a name; the name of the set where it is
            given as such.
        size: the side, or height and width, to which the pictures of a folder are resized and cropped at the centre. If
            None: theirs where all agree, made smaller if the longer side is more than 64; 64 where they differ.
        unreadable: what to do with files that cannot be read, "raise" or "skip".
        background: what transparent pixels of a folder's pictures lie on, see `erlangen.data.image_folder`.
        missing: what to do about missing values of series, see `erlangen.data.stack_series`.
        unequal: what to do about series of different lengths.
        label: the column of a `.csv` that has the classes, see `erlangen.data.read_series`; "label" if None.
        series: the column of a `.csv` that says to which series a row belongs; several with commas between them.
        time: the column that says when.
        validation: the share of the training set that is set aside, 0 for none.
        steps: how long; 800 if neither this nor `epochs` is given.
        epochs: how long, in epochs.
        burn_in: for how many steps the classifier is trained alone, where a distribution is learned; a tenth of them.
        batch_size: inputs to a step.
        lr: the learning rate, which falls to a tenth along a cosine.
        alpha: the weight of the entropy (flow; instaaug, at the start), of the width (augerino) or of the divergence
            (pstn).
        entropy: the entropy to hold, in nats, by changing the weight; for instaaug, the middle of a band.
        samples: views of an input in training.
        eval_samples: views of an input in evaluation.
        seed: of weights, order and noise.
        device: "auto", "cpu", "cuda", or what else Fabric accepts.
        precision: see `erlangen.train.Config`.
        compile: whether the step is compiled.
        log_every: steps to a row of the log.
        checkpoint_seconds: how often a checkpoint is written.
    """

    method: str = "flow"
    transform: Wanted | None = None
    net: str | None = None
    data: str = "glyphs"
    size: int | tuple[int, int] | None = None
    unreadable: Literal["raise", "skip"] = "raise"
    background: Background = "auto"
    missing: Missing = "raise"
    unequal: Unequal = "raise"
    label: str | None = None
    series: str | None = None
    time: str | None = None
    validation: float = 0.1
    steps: int | None = None
    epochs: int | None = None
    burn_in: int | None = None
    batch_size: int = 128
    lr: float = 2e-3
    alpha: float | None = None
    entropy: float | None = None
    samples: int = 4
    eval_samples: int = 20
    seed: int = 0
    device: str = "auto"
    precision: Literal["32-true", "tf32-mixed", "bf16-mixed", "64-true"] = "32-true"
    compile: bool = False
    log_every: int = 50
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.data, str | os.PathLike):
            raise ValueError(f"data: received {describe(self.data)}; accepted is a path, or the name of a set")
        object.__setattr__(self, "data", os.fspath(self.data))
        if self.net is not None and self.net not in NETS:
            raise ValueError(f"net: received {self.net!r}; accepted is one of {', '.join(NETS)}")
        if self.unreadable not in ("raise", "skip"):
            raise ValueError(f"unreadable: received {self.unreadable!r}; accepted is 'raise' or 'skip'")
        check_background(self.background)
        check_handling(self.missing, self.unequal)
        for name in ("batch_size", "samples", "eval_samples", "log_every"):
            check_count(name, getattr(self, name))
        for name in ("steps", "epochs"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        object.__setattr__(self, "size", _read_size(self.size))
        check_positive("lr", self.lr)
        if self.steps is not None and self.epochs is not None:
            raise ValueError(f"steps, epochs: received {self.steps} and {self.epochs}; accepted is one of them")
        if self.alpha is not None and not (isinstance(self.alpha, Real) and 0 <= self.alpha < math.inf):
            raise ValueError(f"alpha: received {self.alpha!r}; accepted is a finite weight >= 0")
        if self.entropy is not None and not (isinstance(self.entropy, Real) and math.isfinite(self.entropy)):
            raise ValueError(f"entropy: received {self.entropy!r}; accepted is a finite entropy in nats")
        if self.burn_in is not None and not (isinstance(self.burn_in, Integral) and self.burn_in >= 0):
            raise ValueError(f"burn_in: received {self.burn_in!r}; accepted is a number of steps >= 0")
        if not isinstance(self.compile, bool):
            raise ValueError(f"compile: received {self.compile!r}; accepted is True or False")
        object.__setattr__(self, "seed", check_seed(self.seed))
        if not (isinstance(self.validation, Real) and 0 <= self.validation < 1):
            raise ValueError(f"validation: received {self.validation!r}; accepted is a share, 0 <= validation < 1")

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> RunConfig:
        """The settings in a `config.json`; those that this version does not know are refused."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(stored) - known):
            raise ValueError(f"config: received the settings {unknown}, which this version does not know")
        return cls(**{**stored, "transform": resolve_ranges(stored["transform"])})


def _read_size(size: Any) -> int | tuple[int, int] | None:
    """A side, or a pair of them, which JSON has as a list."""
    if isinstance(size, list | tuple) and len(size) == 2:
        return check_count("size", size[0]), check_count("size", size[1])
    return None if size is None else check_count("size", size)


def check_background(background: str) -> None:
    """Raises a `ValueError` for what is no ground for transparent pixels."""
    if background not in get_args(Background):
        raise ValueError(f"background: received {background!r}; accepted are 'auto', 'black' and 'white'")


def check_device(device: str) -> None:
    """Raises a `ValueError` for a device that this machine does not have."""
    there = {
        **dict.fromkeys(("auto", "cpu"), True),
        **dict.fromkeys(("cuda", "gpu"), torch.cuda.is_available()),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device, False):
        accepted = ", ".join(name for name, has in there.items() if has)
        raise ValueError(f"device: received {device!r}, which this machine does not have; accepted are {accepted}")
