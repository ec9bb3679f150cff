"""The data of a run: where they come from, and what is set aside."""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ..data import DataSet, DataUnavailableError, FolderSet, load, loose_images, named_sets
from ..data.folder import Background, class_folders, class_members, looked_at, pictures_below
from ..data.images import SUFFIXES, image_size
from ..data.load import UCR
from ..data.npz import array_names
from ..utils.seeds import generator
from ..utils.shapes import check_unit, describe
from .config import RunConfig, check_background

__all__ = [
    "LARGEST",
    "check_bytes",
    "check_levels",
    "check_parts",
    "check_sets",
    "check_sides",
    "class_root",
    "describe_data",
    "digest",
    "is_named",
    "load_images",
    "load_parts",
    "some",
    "some_rows",
]

LOG = logging.getLogger("erlangen.estimators")
LARGEST = 64  # the side to which pictures are resized unless the user says otherwise
FOLDERS, SERIES, TABLE = "folders of pictures", "series", "a .csv file"
HEEDED = {  # of each setting of how data are read, the kind of source that alone heeds it
    **dict.fromkeys(("size", "background", "unreadable"), FOLDERS),
    **dict.fromkeys(("missing", "unequal"), SERIES),
    **dict.fromkeys(("label", "series", "time"), TABLE),
}
SQUARE = ("lenet", "small-cnn")  # nets that take no other shape
VALIDATION = ("val", "valid", "validation")  # the names of a part for validation
MANY, CROPPED = 1000, 0.1  # pictures that tell how much is cropped, and the share from which it is said
LEAST = 8  # pixels, or moments, that a conditional's encoder needs, and that it takes to see a turn
DARK = 16  # the level, of 255, that 12 bits come to in a file of 16
ROUNDING = 1e-14  # values that differ by less than this share of their size are the same


Size: TypeAlias = int | tuple[int, int] | None


def load_parts(config: RunConfig) -> tuple[DataSet, DataSet | None, Size]:
    """The training and the test part of what `config.data` names, and the size to which its pictures were resized."""
    source, path = config.data, Path(os.path.expanduser(config.data))
    _check_size(config.size)
    if is_named(source):
        return _named(config)
    if not path.exists():
        known = f"a named set ({', '.join(named_sets())}), a folder with a sub-folder for each class, a .npz file, or "
        known += "series in a .csv, .tsv or .ts file"
        raise ValueError(f"data: received {source!r}, which does not exist; accepted is {known}")
    if path.is_dir():
        _heeded(f"the folder {source!r}", vars(config), (FOLDERS,))
        return _folder(config, path)
    kinds = (SERIES, TABLE) if path.suffix.lower() == ".csv" else (SERIES,)
    options = _heeded(f"the file {source!r}", vars(config), kinds)
    train = load(path, **options)
    if train.x.ndim == 4:
        _heeded(f"the images in {source!r}", vars(config))
    arrays = array_names(path) if path.suffix.lower() == ".npz" else []
    _warn_of_unread(config, [f"x_{name} in {path}" for name in VALIDATION if f"x_{name}" in arrays])
    return train, load(path, "test", **options) if _has_test(path) else None, None


def _folder(config: RunConfig, path: Path) -> tuple[DataSet, DataSet | None, Size]:
    """Both parts of a folder, of one size and both grey or both in colour."""
    root = class_root(path)
    parted = root != path
    tested = parted and bool(class_folders(path / "test"))
    parts = [root, path / "test"] if tested else [root]
    files = [file for part in parts for file in chain(*class_members(part).values())]
    size = config.size or _usual_size(files, config.net in SQUARE)
    _warn_of_unread(config, [str(path / name) for name in VALIDATION if parted and (path / name).is_dir()])
    _warn_of_crop(path, files, size)
    options: dict[str, Any] = {"size": size, "unreadable": config.unreadable, "background": config.background}
    train = load(path, **options)
    if not tested:
        return train, None, size
    test = load(path, "test", **options)
    return _in_colours(train, test.x.shape[1]), _in_colours(test, train.x.shape[1]), size


def _usual_size(files: Sequence[Path], square: bool) -> Size:
    """The size to which pictures are resized if the user says nothing; None for theirs."""
    size = _reduced(looked_at(files, image_size))
    return LARGEST if square and isinstance(size, tuple) else size


def _warn_of_crop(path: Path, files: Sequence[Path], size: Size) -> None:
    """Says how much of the pictures is cropped away, if it is much: the class may be seen there."""
    if size is None:
        return
    height, width = (size, size) if isinstance(size, int) else size
    seen = dict(looked_at(files[:: -(-len(files) // MANY) or 1], lambda file: (file, image_size(file))))
    shapes = [w * height / (h * width) for h, w in seen.values()]
    lost = [1 - min(shape, 1 / shape) for shape in shapes]
    if lost and (mean := sum(lost) / len(lost)) > CROPPED:
        words = "%s: resized and cropped at the centre to %d×%d, pictures lose %.0f %% on average and at most %.0f %%. "
        words += "Those that all have one size are kept whole if no size is given.%s"
        (h, w), many = Counter(seen.values()).most_common(1)[0]
        odd = next((file.name for file, one in seen.items() if one != (h, w)), "")
        which = f" {many:,} of {len(seen):,} are {h}×{w}; {odd} is not." if odd and 2 * many > len(seen) else ""
        LOG.warning(words, path, height, width, 100 * mean, 100 * max(lost), which)


def _warn_of_unread(config: RunConfig, found: Sequence[str]) -> None:
    """Says of parts for validation that they are left alone."""
    share = f"{config.validation:.3g} of the training part" if config.validation else "nothing"
    for what in found:
        LOG.warning("%s is not read: for validation, %s is held out.", what, share)


def _in_colours(data: DataSet, channels: int) -> DataSet:
    """Grey pictures with their channel repeated, like grey pictures among others in colour."""
    return data if data.x.shape[1] != 1 else replace(data, x=data.x.expand(-1, channels, -1, -1).contiguous())


def load_images(
    source: str, *, size: Size = None, unreadable: Any = "raise", background: Background = "auto"
) -> DataSet:
    """The images that a source names; labels are not looked at.

    Args:
        source: a folder of pictures with or without sub-folders (of one with parts, `train`), a `.npz` file, or a named
            set.
        size: the side, or height and width, to which the pictures of a folder are resized and cropped at the centre. If
            None, theirs where they have one size; that is made smaller if the longer side is greater than `LARGEST`, as
            far as the shorter keeps `LEAST`. Pictures of several sizes become squares of that side.
        unreadable: see `erlangen.data.image_folder`.
        background: what transparent pixels of a folder lie on; "auto" as in `erlangen.data.image_folder`.
    """
    check_background(background)
    _check_size(size)
    path = Path(os.path.expanduser(source))
    given = {"size": size, "background": background, "unreadable": unreadable}
    if source in named_sets():
        _heeded(f"the named set {source!r}", given)
        _warn_of_twin(source)
        return load(source)
    if path.is_file() and path.suffix.lower() == ".npz":
        _heeded(f"the file {source!r}", given)
        if _has_test(path):
            LOG.warning("%s has a training and a test part: the images of the first are read, and no others.", path)
        return load(path, unlabelled=True)
    if not path.is_dir():
        raise ValueError(f"data: received {source!r}, which {_unlike(path)}; accepted is {_image_sources()}")
    root = class_root(path)
    if root != path:
        LOG.warning("%s has a training part: the images in %s are read, and no others.", path, root)
    files = pictures_below(root)
    kept = _reduced(looked_at(files, image_size)) if size is None else size
    _warn_of_crop(root, files, kept)
    return loose_images(root, size=kept, unreadable=unreadable, background=background, below=True)


def _unlike(path: Path) -> str:
    """What is wrong with a path as a source of images."""
    if not path.exists():
        return "does not exist"
    kind = path.suffix.lower()
    if kind == ".npy":
        return "holds an array without a name (np.savez('images.npz', x=array) gives it one)"
    return "is a single picture" if kind in SUFFIXES else "is no file of images"


def _image_sources() -> str:
    names = ", ".join(name for name in named_sets() if "/" not in name)
    return f"a folder of pictures, with or without sub-folders, a .npz file, or a named set ({names})"


def class_root(path: Path) -> Path:
    """The folder in which each sub-folder is a class of the training part."""
    return path / "train" if class_folders(path / "train") else path


def is_named(source: str) -> bool:
    """Whether it is the name of a set, also of one of the archives of series that no list has."""
    return source in named_sets() or (source.startswith(UCR) and not Path(source).exists())


def _named(config: RunConfig) -> tuple[DataSet, DataSet | None, None]:
    source, series = config.data, config.data.startswith(UCR)
    options = _heeded(f"the named set {source!r}", vars(config), (SERIES,) if series else ())
    _warn_of_twin(source)
    train = load(source, **options)
    try:
        return train, load(source, "test", **options), None
    except DataUnavailableError as error:
        if not series:
            raise
        LOG.warning("No test part: %s.", error)
        return train, None, None


def _warn_of_twin(source: str) -> None:
    if Path(source).exists():
        LOG.warning("%s is the named set; write ./%s for what has this name here.", source, source)


def _heeded(what: str, given: Mapping[str, Any], kinds: Sequence[str] = ()) -> dict[str, Any]:
    """What is given of the settings that sources of these kinds heed; raises a `ValueError` for other settings."""
    unusual = {name: given[name] for name in HEEDED if name in given and given[name] != getattr(RunConfig, name)}
    for name, value in unusual.items():
        if (kind := HEEDED[name]) not in kinds:
            got = value if kind == FOLDERS else repr(value)
            raise ValueError(f"{name}: received {got} for {what}; accepted for {kind} only")
    return unusual


def _has_test(path: Path) -> bool:
    """Whether a file has a test part: in it, or, of the archives of series, beside it."""
    if path.suffix.lower() != ".npz":
        return path.stem.endswith("_TRAIN") and path.with_name(path.name.replace("_TRAIN", "_TEST")).is_file()
    return "x_test" in array_names(path)


def _reduced(sizes: Iterable[tuple[int, int]]) -> Size:
    """The size to which pictures are resized, of the same form where they have one; None for theirs."""
    one: tuple[int, int] | None = None
    for size in sizes:
        if one not in (None, size):
            return LARGEST
        one = size
    if one is None:
        return None
    share = max(LARGEST / max(one), LEAST / min(one))
    if share >= 1:
        return None
    height, width = round(one[0] * share), round(one[1] * share)
    return height if height == width else (height, width)


def _check_size(size: object) -> None:
    """Raises a `ValueError` for a size that leaves only a few pixels of pictures."""
    sides = size if isinstance(size, tuple) and len(size) == 2 else (size,)
    if size is not None and not all(isinstance(side, int) and side >= LEAST for side in sides):
        accepted = f"a number of pixels, at least {LEAST}, or (height, width)"
        raise ValueError(f"size: received {size!r}; accepted is {accepted}")


def check_sides(name: str, sides: Sequence[int]) -> None:
    """Raises a `ValueError` for images or series so small that no transformation can be seen in them."""
    if min(sides) < LEAST:
        what, unit = ("images", "pixels") if len(sides) == 2 else ("series", "moments")
        got = f"{what} of {'×'.join(map(str, sides))} {unit}"
        raise ValueError(f"{name}: received {got}; accepted are at least {LEAST}")


def check_levels(name: str, x: Tensor) -> None:
    """Raises a `ValueError` for images whose levels would be mistaken: only those in uint8 are divided by 255."""
    if x.ndim != 4 or x.dtype == torch.uint8:
        return
    if not x.is_floating_point():
        raise ValueError(f"{name}: received {describe(x)}; accepted are images within [0, 1] or in uint8")
    check_unit(name, x)


def check_bytes(name: str, x: Tensor) -> None:
    """Raises a `ValueError` for uint8 images of 0 and 1 alone, which are all but black; warns of others as dark."""
    if x.ndim != 4 or x.dtype != torch.uint8 or (most := int(x.max())) > DARK:
        return
    got = f"images in uint8 in which no level is more than {most} of 255"
    if most == 1:
        raise ValueError(f"{name}: received {got}; accepted are levels up to 255, as 255 * x has them")
    LOG.warning("%s: received %s, nearly black; stretch pictures that use fewer bits than their files.", name, got)


def check_sets(**parts: object) -> None:
    """Raises a `ValueError` for what is neither a data set nor None."""
    for name, part in parts.items():
        if not (part is None or isinstance(part, DataSet)):
            raise ValueError(f"{name}: received {describe(part)}; accepted is a DataSet, or None")


def check_parts(data: DataSet, test: DataSet | None) -> None:
    """Raises a `ValueError` for data from which no classifier can be trained, or parts that do not match."""
    shape = tuple(data.x.shape[1:])
    what = "images" if len(shape) == 3 else "series"
    check_sides("data", shape[1:])
    check_bytes("data", data.x)
    for name, part in {"data": data, "test": test}.items():
        if part is not None and part.x.is_floating_point() and not bool(part.x.isfinite().all()):
            raise ValueError(f"{name}: received NaN or infinite values; accepted are finite ones")
        if part is not None:
            check_levels(name, part.x)
    if sum(n > 0 for n in data.counts()) < 2:
        raise ValueError(f"data: received {what} of {data.classes} alone; accepted are at least two classes")
    if test is None:
        return
    if test.classes != data.classes:
        alien = sorted(set(test.classes) ^ set(data.classes)) or list(test.classes)
        raise ValueError(f"test: received classes that differ in {alien[:5]}; accepted are those of the training part")
    if tuple(test.x.shape[1:]) != shape:
        got, accepted = ("×".join(map(str, s)) for s in (test.x.shape[1:], shape))
        raise ValueError(f"test: received {what} of {got}; accepted are those of the training part, {accepted}")
    counts = zip(data.classes, data.counts(), test.counts(), strict=True)
    if unseen := [name for name, here, there in counts if there and not here]:
        raise ValueError(f"test: received {what} of {unseen[:5]}; accepted are classes that the training part has")


def describe_data(data: DataSet, parts: dict[str, DataSet | None]) -> dict[str, Any]:
    """What `config.json` says of the data."""
    folders = [part for part in (data, parts["test"]) if isinstance(part, FolderSet)]
    skipped = [str(file.path) for part in folders for file in part.skipped]
    mean, std = _moments(parts["train"] or data)
    return {
        "name": data.name,
        "shape": list(data.x.shape[1:]),
        "classes": list(data.classes),
        "counts": {name: part.counts() for name, part in parts.items() if part is not None},
        "digest": digest((data.classes, tuple(data.x.shape), str(data.x.dtype)), data.x, data.y),
        "skipped": skipped,
        "background": [part.background for part in folders],
        "normalise": {"mean": mean, "std": std},
    }


def some(data: DataSet, n: int) -> DataSet:
    """At most n of the signals, always the same."""
    return data if len(data) <= n else data.subset(some_rows(len(data), n))


def some_rows(count: int, n: int) -> Tensor:
    """Which n of them `some` takes: all if there are no more, `(n,)`, ascending."""
    return torch.arange(count) if count <= n else torch.randperm(count, generator=generator(0))[:n].sort().values


def _moments(data: DataSet) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel, of images in [0, 1] or of series; of a constant the second is 1."""
    count, zero = data.x.numel() // data.x.shape[1], torch.zeros(data.x.shape[1], 1, dtype=torch.float64)
    mean = sum((part.sum(1, keepdim=True) for part in _channels(data)), zero) / count
    # Squares about the mean: those about zero have no digits left for the variance if the mean is large.
    std = (sum(((part - mean).square().sum(1, keepdim=True) for part in _channels(data)), zero) / count).sqrt()
    size = torch.stack([part.abs().amax(1, keepdim=True) for part in _channels(data)]).amax(0)
    std = torch.where(std > ROUNDING * size, std, 1.0)
    digits = [6 - math.ceil(math.log10(one)) for one in std.flatten().tolist()]  # to a millionth of the deviation
    rows = (zip(row.flatten().tolist(), digits, strict=True) for row in (mean, std))
    return [[round(value, n) for value, n in row] for row in rows]  # pyright: ignore[reportReturnType]


def _channels(data: DataSet) -> Iterator[Tensor]:
    """The values of each channel, `(C, n)` for some signals after others."""
    scale = 255.0 if data.x.dtype == torch.uint8 else 1.0
    for part in data.x.split(1024):
        yield (part.double().cpu() / scale).transpose(0, 1).flatten(1)


def digest(what: object, *tensors: Tensor) -> str:
    """A hash, by which a run that goes on knows the data that it began with."""
    found = hashlib.sha256(repr(what).encode())
    for tensor in tensors:
        found.update(tensor.cpu().contiguous().view(torch.uint8).numpy().data)  # bytes, for numpy has no bfloat16
    return found.hexdigest()[:16]
