"""Data sets of the user in `.npz` files."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..utils.shapes import check_unit
from .files import DataUnavailableError, naming
from .sequences import Missing, Unequal, check_handling, stack_series
from .sets import DataSet

__all__ = ["array_names", "npz"]

LOG = logging.getLogger("erlangen.data")
HEADS = (b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY")  # of archives, empty ones, and single arrays


def npz(
    path: str | os.PathLike[str],
    *,
    split: str = "train",
    missing: Missing = "raise",
    unequal: Unequal = "raise",
    unlabelled: bool = False,
) -> DataSet:
    """Reads a data set from a `.npz` file; pickled objects in it are refused.

    The file holds `x` and `y`, or `x_train`, `y_train`, `x_test` and `y_test`. Labels are integers or strings; each
    value that occurs (in any part) is a class, in their order, unless an array `classes` of strings names the classes
    0, 1, 2, ….

    Args:
        path: the file.
        split: "train", also for a file without parts, or "test".
        missing: what to do about missing values of series, NaN, see `stack_series`.
        unequal: what to do about series of different lengths, which end in NaN, see `stack_series`; the test part is
            brought to the length of the training part, if there is one.
        unlabelled: whether labels are left alone, and may be missing: all signals then have the label 0.

    Shape:
        x in the file: images in uint8, `(N, H, W)`, `(N, H, W, C)` or `(N, C, H, W)` with C = 1 or 3, or in
        floating-point, the last two, within [0, 1]; or series, `(N, L)` of any numbers or `(N, C, L)` in
        floating-point.
    """
    path = Path(path)
    check_handling(missing, unequal)
    if not path.is_file():
        raise ValueError(f"path: received {str(path)!r}, which is no file; accepted is a .npz file")
    arrays = _arrays(path)
    suffix = f"_{split}" if f"x_{split}" in arrays else ""
    needed = [f"x{suffix}"] if unlabelled else [f"x{suffix}", f"y{suffix}"]
    if not set(needed) <= set(arrays) or (split != "train" and not suffix):
        first, part = ("x", f"x_{split}") if unlabelled else ("x and y", f"x_{split} and y_{split}")
        raise DataUnavailableError(
            f"path: received {str(path)!r} with {', '.join(arrays) or 'no arrays'}; accepted for {split!r} are "
            f"{f'{first}, or ' if split == 'train' else ''}{part}"
        )
    x = arrays[f"x{suffix}"]
    if unlabelled:
        labels, classes = torch.zeros(len(x), dtype=torch.long), ("",)
    else:
        labels, classes = _labels(path, len(x), arrays[f"y{suffix}"], arrays)
    signals = _signals(path, x)
    if signals.dtype == torch.uint8 or signals.ndim == 4:
        return DataSet(signals, labels, classes, path.stem)
    if split == "train" and (how := _otherwise(x)):
        shape = ", ".join(map(str, x.shape))
        LOG.warning("%s: x of shape (%s) in floating-point are read as %s.", path, shape, how)
    length = None
    with naming(path):
        if split == "test" and not missing == unequal == "raise" and "x_train" in arrays:
            train = _signals(path, arrays["x_train"])
            length = stack_series(list(train.numpy()), missing=missing, unequal=unequal).x.shape[-1]
        signals, kept = stack_series(list(signals.numpy()), missing=missing, unequal=unequal, length=length)
    return DataSet(signals, labels[kept], classes, path.stem)


def array_names(path: Path) -> list[str]:
    """The names of the arrays in a `.npz` file; none if it cannot be read, for then `npz` says what is wrong."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return list(file.files)
    except Exception:  # a damaged archive fails in any way
        return []


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file:  # numpy leaves open what it cannot read
            if not file.read(6).startswith(HEADS):  # numpy would take it for a pickle, and say how to load that
                raise ValueError("it begins as no such file does")
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                raise ValueError("it holds a single array")
            return {key: np.atleast_1d(loaded[key]) for key in loaded.files}
    except Exception as error:  # a damaged archive fails in any way
        raise ValueError(f"path: received {str(path)!r}; accepted is a .npz file without pickles ({error})") from error


def _labels(path: Path, count: int, y: np.ndarray, arrays: dict[str, np.ndarray]) -> tuple[Tensor, tuple]:
    """Labels as indices, and the names of the classes."""
    if y.shape != (count,):
        raise ValueError(f"{path}: received y of shape {y.shape} for {count} signals; accepted is a label for each")
    named, every = arrays.get("classes"), [a for key, a in arrays.items() if key in ("y", "y_train", "y_test")]
    if named is not None and len(set(named.tolist())) < len(named):
        raise ValueError(
            f"{path}: received classes with the same name, {named.tolist()[:5]}; accepted is each name once"
        )
    if y.dtype.kind not in "biuU":
        raise ValueError(f"{path}: received y of the type {y.dtype}; accepted are integers or strings")
    if named is None or y.dtype.kind == "U":
        values = np.unique(np.concatenate(every)) if named is None else named
        if lost := sorted(set(np.unique(y).tolist()) - set(values.tolist())):
            raise ValueError(
                f"{path}: received the labels {lost[:5]}, which classes does not name; accepted are its names"
            )
        order = np.argsort(values)
        index = order[np.searchsorted(values, y, sorter=order)]
        return torch.from_numpy(index.astype(np.int64)), tuple(map(str, values.tolist()))
    if named.dtype.kind != "U" or y.min() < 0 or y.max() >= len(named):
        raise ValueError(
            f"{path}: received labels {y.min()} to {y.max()} and {len(named)} classes of the type {named.dtype}; "
            "accepted are strings, and labels from 0 to one less than their number"
        )
    return torch.from_numpy(y.astype(np.int64)), tuple(map(str, named.tolist()))


def _otherwise(x: np.ndarray) -> str:
    """How series are read that may be meant otherwise, in words: as square grey images, or with time first."""
    if x.ndim != 3 or x.shape[1] < x.shape[2]:
        return ""
    (n, channels, moments), read = x.shape, f"series of {x.shape[1]} channels"
    if channels > moments:
        return f"{read} and {moments} moments; np.swapaxes(x, 1, 2) is to be stored if time comes first"
    grey = x.min() >= 0 and x.max() <= 1
    return f"{read}; as grey images their shape would be ({n}, {channels}, {moments}, 1)" if grey else ""


def _signals(path: Path, x: np.ndarray) -> Tensor:
    image = x.ndim == 4 or (x.dtype == np.uint8 and x.ndim != 2)
    # Integers (N, H, W) may be images; (N, L) are nothing but series, such as counts of a sensor.
    ok = x.dtype == np.uint8 or x.dtype.kind == "f" or (x.dtype.kind in "iu" and x.ndim == 2)
    if not ok or 0 in x.shape or x.ndim not in ((3, 4) if image else (2, 3)):
        raise ValueError(
            f"{path}: received x of the type {x.dtype} and shape {x.shape}; accepted are images (N, H, W), "
            "(N, H, W, C) or (N, C, H, W) in uint8, images (N, H, W, C) or (N, C, H, W) in floating-point, or "
            "series (N, L) of numbers or (N, C, L) in floating-point"
        )
    if x.ndim == 4 and x.shape[1] not in (1, 3):
        if x.shape[3] not in (1, 3):
            raise ValueError(f"{path}: received x of shape {x.shape}; accepted are images of 1 or 3 channels")
        x = np.moveaxis(x, 3, 1)
    elif x.ndim == (3 if image else 2):
        x = x[:, None]
    if not image:
        return torch.from_numpy(x.astype(np.float64))  # `stack_series` refuses what float32 cannot hold
    levels = torch.from_numpy(np.ascontiguousarray(x if x.dtype == np.uint8 else x.astype(np.float32)))
    if levels.dtype == torch.uint8:
        return levels
    check_unit(str(path), levels)
    return levels.clamp_(0, 1)  # what rounding may have added
