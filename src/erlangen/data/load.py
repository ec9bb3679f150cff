"""One door to every data set: by its name, or from a folder of images, an `.npz` file or a table of series."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .cifar import cifar10
from .derived import coloured, long_tail, rotated
from .files import check_split
from .folder import background_of, class_folders, image_folder, pictures_below
from .glyphs import glyphs
from .gtsrb import gtsrb10
from .mnist import fashion_mnist, mnist
from .npz import npz
from .sets import DataSet
from .sprites import sprites
from .tables import SERIES, read_series
from .tiny_imagenet import tiny_imagenet, tiny_imagenet50
from .ucr import TABLE3, ucr

__all__ = ["load", "named_sets", "rotmnist_lt"]


def _glyphs(name: str, **options: Any) -> Callable[[str], DataSet]:
    """A reader of glyphs, as many as published: 12,000 for training and 600 for testing."""

    def read(split: str) -> DataSet:
        train = split == "train"
        return dataclasses.replace(glyphs(12_000 if train else 600, seed=int(not train), **options), name=name)

    return read


def _with_tail(read: Callable[[str], DataSet]) -> Callable[[str], DataSet]:
    """The tail is in the training part only; the test part stays balanced."""

    def tailed(split: str) -> DataSet:
        data = read(split)
        return long_tail(data) if split == "train" else dataclasses.replace(data, name=f"{data.name}-lt")

    return tailed


def _rotated(read: Callable[[str], DataSet]) -> Callable[[str], DataSet]:
    return lambda split: rotated(read(split), math.pi, seed=int(split != "train"))


def _coloured(read: Callable[[str], DataSet]) -> Callable[[str], DataSet]:
    return lambda split: coloured(read(split), seed=int(split != "train"))


def _sprites(split: str) -> DataSet:
    """Twenty thousand for training and two thousand for testing."""
    return sprites(20_000, seed=0) if split == "train" else sprites(2_000, seed=1)


def rotmnist_lt(split: str = "train") -> DataSet:
    """RotMNIST-LT: long-tailed digits, each turned by an angle uniform on the circle.

    Differs from the paper: no code or definition of its set was published, so this one is our specification. Training:
    the first 5000, 3871, …, 500 of each digit, in the order of the file, as in CIFAR10-LT. Testing: the whole test set,
    turned alike.
    """
    data = mnist(split)
    data = long_tail(data, largest=5000) if split == "train" else data
    return dataclasses.replace(rotated(data, seed=int(split != "train")), name="rotmnist-lt")


UCR = "ucr/"
NAMED: dict[str, Callable[[str], DataSet]] = {
    "glyphs": _glyphs("glyphs"),
    "glyphs-90": _glyphs("glyphs-90", spread=math.pi / 2),
    "glyphs-3-modes": _glyphs("glyphs-3-modes", modes=3),
    "sprites": _sprites,
    "mnist": mnist,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "tiny-imagenet": tiny_imagenet,
    "tiny-imagenet-50": tiny_imagenet50,
    "gtsrb10": gtsrb10,
    "cifar10-lt": _with_tail(cifar10),
    "mnist-rotated": _rotated(mnist),
    "mnist-coloured": _coloured(mnist),
    "fashion-mnist-rotated": _rotated(fashion_mnist),
    "cifar10-rotated": _rotated(cifar10),
    "rotmnist-lt": rotmnist_lt,
    **{f"{UCR}{name}": partial(ucr, name) for name in TABLE3},
}


def named_sets() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(NAMED)


def load(source: str | os.PathLike[str], split: str = "train", **options: Any) -> DataSet:
    """A data set: a named one, an image folder, an `.npz` file, or a table of series.

    Args:
        source: one of `named_sets()`, any set of the UCR or UEA archive as "ucr/FaceAll", or a path. A name goes
            first: write `./mnist` for a folder of that name.
        split: "train" or "test". A folder without parts, and a file without parts, is "train"; parts of a folder are
            its sub-folders `train` and `test`, and the classes of the second are those of the first.
        **options: for folders, see `image_folder`; for series, see `ucr`, `npz` and `read_series`.
    """
    check_split(split)
    path = Path(os.path.expanduser(source))  # expanduser leaves a name such as ~old alone
    if isinstance(source, str) and source.startswith(UCR) and not path.exists():
        _check_options(source, options, ("missing", "unequal"))
        return ucr(source.removeprefix(UCR), split, **options)
    if isinstance(source, str) and source in NAMED:
        if options:
            raise ValueError(f"{', '.join(options)}: received for the named set {source!r}; accepted for folders only")
        return NAMED[source](split)
    if path.is_dir():
        return _folder(path, split, options)
    kind = path.suffix.lower()
    if kind == ".npz":
        _check_options(source, options, ("missing", "unequal", "unlabelled"))
        return npz(path, split=split, **options)
    if kind in SERIES and path.is_file():
        _check_options(source, options, ("label", "series", "time", "missing", "unequal"))
        return read_series(path, split=split, **options)
    raise ValueError(
        f"source: received {str(source)!r}; accepted is a named set ({', '.join(NAMED)}), a folder with a sub-folder "
        f"for each class, a .npz file, or series in a file {', '.join(SERIES)}"
    )


def _check_options(source: object, options: dict[str, Any], known: tuple[str, ...]) -> None:
    if unknown := [name for name in options if name not in known]:
        got = f"{', '.join(unknown)}: received for the file or set {str(source)!r}"
        raise ValueError(f"{got}; accepted here are {', '.join(known)}")


def _folder(path: Path, split: str, options: dict[str, Any]) -> DataSet:
    if not class_folders(path / split):  # else it is a part: a class might be called `train`, and hold pictures
        if split != "train":
            raise ValueError(
                f"split: received {split!r}, but {str(path)!r} has no part of that name; accepted is 'train'"
            )
        return image_folder(path, **options)
    if split != "train" and (classes := class_folders(path / "train")):
        options = {"classes": classes} | options
        if options.get("background", "auto") == "auto":  # both parts lie on the ground of the first
            ground = background_of(pictures_below(path / "train"))
            options["background"] = "auto" if ground is None else ground
    return dataclasses.replace(image_folder(path / split, **options), name=path.resolve().name)
