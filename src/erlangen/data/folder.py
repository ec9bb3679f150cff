"""Image folders of the user: a sub-folder for each class, or pictures without classes."""

from __future__ import annotations

import logging
import math
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from .images import ALIEN, SUFFIXES, image_size, opaque_level, page_count, quiet_bombs, read_image
from .sets import DataSet

__all__ = [
    "Background",
    "FolderSet",
    "Unreadable",
    "UnreadableImagesError",
    "background_of",
    "class_folders",
    "class_members",
    "image_folder",
    "looked_at",
    "loose_images",
    "pictures_below",
]

LOG = logging.getLogger("erlangen.data")
LITTER = (".", "__MACOSX", "__pycache__")  # beginnings of the names of files that programs leave behind
SHOWN = 10  # files named in an error; there may be thousands
MANY = 1000  # pictures that decide on the ground
GROUNDS = {"black": 0, "white": 255}
Background: TypeAlias = Literal["auto", "black", "white"]
T = TypeVar("T")


class Unreadable(NamedTuple):
    """A file that could not be read, and why."""

    path: Path
    reason: str


class UnreadableImagesError(ValueError):
    """Some files of a folder could not be read; `files` lists them all."""

    def __init__(self, message: str, files: Sequence[Unreadable]) -> None:
        super().__init__(message)
        self.files = tuple(files)


@dataclass(frozen=True, eq=False, repr=False)
class FolderSet(DataSet):
    """The data set of an image folder.

    Args:
        x: as in `DataSet`.
        y: as in `DataSet`.
        classes: as in `DataSet`.
        name: as in `DataSet`.
        files: the file of each image.
        skipped: the files that could not be read.
        background: the grey on which transparent pixels lie, or would.
    """

    files: tuple[Path, ...]
    skipped: tuple[Unreadable, ...] = ()
    background: int = 0

    def _each(self, index: Tensor) -> dict[str, Any]:
        return {**super()._each(index), "files": tuple(self.files[i] for i in index.tolist())}


def image_folder(
    path: str | os.PathLike[str],
    *,
    size: int | tuple[int, int] | None = None,
    exif: bool = True,
    unreadable: Literal["raise", "skip"] = "raise",
    background: int | Background = "auto",
    classes: Sequence[str] | None = None,
) -> FolderSet:
    """Reads a folder with a sub-folder for each class, in the order of their names.

    Grey pictures stay grey if all are; CMYK, palettes, transparency and 16 bits become RGB in uint8. Hidden files and
    files without the suffix of a picture are left alone; photographs in HEIC, AVIF, JPEG 2000 and JPEG XL
    are files that cannot be read.

    Args:
        path: the folder.
        size: the side, or height and width, to which pictures are resized and cropped at the centre. May be left out
            if all have one size.
        exif: whether to apply the orientation that the camera noted.
        unreadable: "raise" for files that are cut short, corrupt or too large (`PIL.Image.MAX_IMAGE_PIXELS`), or "skip"
            to leave them out and list them in the result.
        background: what transparent pixels lie on: a grey from 0 to 255, "black" or "white". "auto" is one for all:
            white where what is opaque is dark on the whole, as in black drawings, which black would hide, else black.
        classes: the classes to expect, in their order, such as those of a training folder; the names of the
            sub-folders if not given.

    Shape:
        x: `(N, C, H, W)`, uint8, C = 1 or 3.

    Raises:
        ValueError: the folder is missing, empty or not of this form, or sizes differ.
        UnreadableImagesError: some files could not be read.
    """
    root = Path(path)
    members = class_members(root)
    names = _class_names(root, list(members), classes)
    options: Any = {"size": size, "exif": exif, "unreadable": unreadable, "background": background}
    return _gathered(root, members, names, **options)


def loose_images(
    path: str | os.PathLike[str],
    *,
    size: int | tuple[int, int] | None = None,
    exif: bool = True,
    unreadable: Literal["raise", "skip"] = "raise",
    background: int | Background = "auto",
    below: bool = False,
) -> FolderSet:
    """Reads the pictures in a folder, without classes: all have the label 0.

    Args:
        path: the folder.
        size: see `image_folder`, as for all but the last.
        exif: the same.
        unreadable: the same.
        background: the same.
        below: whether pictures in its sub-folders, at any depth, are read as well.

    Raises:
        ValueError: the folder is missing, has no pictures of its own (or below it), or sizes differ.
        UnreadableImagesError: some files could not be read.
    """
    root = Path(path)
    files = [] if not root.is_dir() else pictures_below(root) if below else _entries(root)[1]
    if not files:
        where = "in it or below it" if below else "of its own"
        what = f"has no pictures {where}" if root.is_dir() else "is no folder"
        raise ValueError(f"path: received {str(root)!r}, which {what}; accepted is a folder of pictures")
    options: Any = {"size": size, "exif": exif, "unreadable": unreadable, "background": background}
    return _gathered(root, {"": files}, [""], **options)


def _gathered(
    root: Path,
    members: dict[str, list[Path]],
    names: list[str],
    *,
    size: int | tuple[int, int] | None,
    exif: bool,
    unreadable: str,
    background: int | str,
) -> FolderSet:
    """The pictures of all classes, read and stacked."""
    if unreadable not in ("raise", "skip"):
        raise ValueError(f"unreadable: received {unreadable!r}; accepted are 'raise' and 'skip'")
    target = _target(size)
    grey = GROUNDS.get(str(background), background)
    if grey == "auto":
        grey = background_of(chain(*members.values())) or 0
    if not isinstance(grey, int) or not 0 <= grey <= 255:
        accepted = "'auto', 'black', 'white' and integers from 0 to 255"
        raise ValueError(f"background: received {background!r}; accepted are {accepted}")
    files = [(file, names.index(name)) for name in members for file in members[name]]
    _warn_of_pages(root, [file for file, _ in files])
    bad: list[Unreadable] = []
    if target is None:
        sizes = _read_all(files, partial(image_size, exif=exif), bad, unreadable, root)
        _check_one_size(root, {shape: file for shape, (file, _) in reversed(sizes)})
        files = [entry for _, entry in sizes]
    _check_memory(len(files), target)
    read = _read_all(files, partial(read_image, size=target, exif=exif, background=grey), bad, unreadable, root)
    _check_left(root, list(members), {names[label] for _, (_, label) in read})
    x = _stack([pixels for pixels, _ in read])
    y = torch.tensor([label for _, (_, label) in read])
    name = root.resolve().name
    return FolderSet(x, y, tuple(names), name, tuple(file for _, (file, _) in read), tuple(bad), grey)


def looked_at(files: Iterable[Path], look: Callable[[Path], T | None]) -> Iterator[T]:
    """What `look` returns for each file, in turn, without None; files that it fails for are skipped."""
    with quiet_bombs():
        for file in files:
            if (seen := _seen(file, look)) is not None:
                yield seen


def _seen(file: Path, look: Callable[[Path], T | None]) -> T | None:
    try:
        return look(file)
    except Exception:  # decoders raise anything for a file that is broken; reading the folder names it
        return None


def _warn_of_pages(root: Path, files: Sequence[Path]) -> None:
    """Warns that of a file with many pages, as microscopes write them, only the first is read."""
    stacks = [file for file in files if file.suffix.lower() in (".tif", ".tiff")]
    seen = looked_at(stacks[:: -(-len(stacks) // MANY) or 1], lambda file: (page_count(file), file.relative_to(root)))
    pages, file = max(seen, default=(1, root))
    if pages > 1:
        words = (
            "%s: of pictures with several pages, such as %s with %d, the first page is read and no other; save each "
        )
        LOG.warning(words + "page as a file of its own to have all.", root, file, pages)


def background_of(files: Iterable[Path]) -> int | None:
    """The grey on which the transparent pictures among some files show, one for all; None if there are none."""
    every = list(files)
    some = every[:: -(-len(every) // MANY) or 1]
    with quiet_bombs(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        levels = [level for level in pool.map(partial(_seen, look=opaque_level), some) if level is not None]
    if not levels:
        return None
    return 255 if sum(levels) / len(levels) < 0.5 else 0


def _target(size: object) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int) else size
    if isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(n, int) and n > 0 for n in pair):
        return pair[0], pair[1]
    raise ValueError(f"size: received {size!r}; accepted is a number of pixels, or (height, width), at least 1")


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """The visible sub-folders and pictures of a folder, by name."""
    entries = sorted((e for e in folder.iterdir() if not e.name.startswith(LITTER)), key=lambda e: e.name)
    folders = [e for e in entries if e.is_dir()]
    return folders, [e for e in entries if e.suffix.lower() in SUFFIXES | ALIEN and not e.is_dir()]


def class_folders(folder: Path) -> list[str]:
    """The classes of a folder, which are the names of its visible sub-folders, sorted; none if it is no folder."""
    return sorted({_class_name(below.name) for below in _entries(folder)[0]}) if folder.is_dir() else []


def _class_name(name: str) -> str:
    """One name for those that read alike: a Mac writes an umlaut as a letter and its dots, other systems as one."""
    return unicodedata.normalize("NFC", name)


def pictures_below(folder: Path) -> list[Path]:
    """The pictures of a folder and of its sub-folders, at any depth; links that lead up again are not followed."""
    folders, files = _entries(folder)
    above = {folder.resolve(), *folder.resolve().parents}
    return files + [file for sub in folders if sub.resolve() not in above for file in pictures_below(sub)]


def class_members(root: Path) -> dict[str, list[Path]]:
    """The pictures of each class; a `ValueError` for a folder of another form."""
    form = "accepted is a folder with a sub-folder of pictures for each class"
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise ValueError(f"path: received {str(root)!r}, which {what}; {form}")
    folders, loose = _entries(root)
    if not folders:
        what = f"holds {len(loose)} pictures but no sub-folders" if loose else "is empty"
        raise ValueError(f"path: received {str(root)!r}, which {what}; {form}")
    members: dict[str, list[Path]] = {}
    for folder in folders:
        below, files = _entries(folder)
        members.setdefault(_class_name(folder.name), []).extend(files)
        if below:
            raise ValueError(
                f"path: received {str(root)!r}, in which {folder.name!r} holds folders ({below[0].name!r}, …); {form}. "
                f"Perhaps {str(folder)!r} is meant?"
            )
    if bare := [name for name, files in members.items() if not files]:
        kinds = ", ".join(sorted(SUFFIXES))
        raise ValueError(
            f"path: received {str(root)!r}, in which {', '.join(map(repr, bare[:SHOWN]))} has no pictures ({kinds}); "
            "accepted is at least one for each class: add some or remove the folder"
        )
    return dict(sorted(members.items()))


def _class_names(root: Path, found: list[str], classes: Sequence[str] | None) -> list[str]:
    names = found if classes is None else list(map(_class_name, classes))
    if unknown := [name for name in found if name not in names]:
        raise ValueError(
            f"classes: received {str(root)!r} with the sub-folders {', '.join(map(repr, unknown[:SHOWN]))}; accepted "
            f"are {', '.join(map(repr, names))}"
        )
    return names


def _read_all(
    files: list[tuple[Path, int]],
    read: Callable[[Path], T],
    bad: list[Unreadable],
    unreadable: str,
    root: Path,
) -> list[tuple[T, tuple[Path, int]]]:
    """Reads files in threads, for decoders release Python's lock; those that fail go to `bad`, or raise together."""

    def attempt(entry: tuple[Path, int]) -> tuple[T, tuple[Path, int]] | Unreadable:
        try:
            return read(entry[0]), entry
        except Exception as error:  # decoders raise anything for a file that is broken, and it has to be named
            return Unreadable(entry[0], str(error) or type(error).__name__)

    with quiet_bombs(), ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        results = list(pool.map(attempt, files))
    bad += [result for result in results if isinstance(result, Unreadable)]
    if bad and unreadable == "raise":
        shown = "; ".join(f"{file.path.relative_to(root)}: {file.reason}" for file in bad[:SHOWN])
        more = f"; and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise UnreadableImagesError(
            f"path: received {str(root)!r}, in which {len(bad)} of {len(files)} files cannot be read ({shown}{more}); "
            "repair or remove them, or leave them out with unreadable='skip'",
            bad,
        )
    return [result for result in results if not isinstance(result, Unreadable)]


def _check_one_size(root: Path, sizes: dict[tuple[int, int], Path]) -> None:
    if len(sizes) > 1:
        examples = [f"{h}×{w} ({file.relative_to(root)})" for (h, w), file in list(sizes.items())[:3]]
        raise ValueError(
            f"size: received None, but the pictures of {str(root)!r} have {len(sizes)} sizes, such as "
            f"{', '.join(examples)}; accepted is a size to which all are resized and cropped"
        )


def _check_memory(count: int, target: tuple[int, int] | None) -> None:
    """Raises a `ValueError` for a size at which pictures do not fit: out of memory, systems kill without a word."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not every system says
        memory = math.inf
    if target is not None and (needed := 3 * count * math.prod(target)) > memory:
        raise ValueError(
            f"size: received {target[0]}×{target[1]}, at which {count} pictures need {needed / 1e9:,.0f} GB and this "
            f"machine has {memory / 1e9:,.0f}; accepted is less"
        )


def _check_left(root: Path, wanted: list[str], left: set[str]) -> None:
    if wanted == [""] and not left:
        raise ValueError(f"path: received {str(root)!r}, in which no picture can be read; accepted is at least one")
    if gone := [name for name in wanted if name not in left]:
        raise ValueError(
            f"path: received {str(root)!r}, in which no file of {', '.join(map(repr, gone[:SHOWN]))} can be read; "
            "accepted is at least one for each class"
        )


def _stack(images: list[np.ndarray]) -> Tensor:
    """Grey if all are grey, else RGB: `(N, C, H, W)`."""
    channels = max(image.shape[-1] for image in images)
    out = torch.empty(len(images), channels, *images[0].shape[:2], dtype=torch.uint8)
    for place, image in zip(out, images, strict=True):
        place.copy_(torch.tensor(image).movedim(-1, 0))  # one channel is copied to all
    return out
