"""Tiny ImageNet, from the official archive (packed or not) or, its first 50 classes, from a compact file.

References:
    Le and Yang, Tiny ImageNet visual recognition challenge, Stanford CS231N (2015).
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from .files import DataUnavailableError, Remote, check_split, fetch, find, reading
from .images import decode_all
from .sets import DataSet

__all__ = ["tiny_imagenet", "tiny_imagenet50"]

REMOTE = Remote("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "md5:90528d7ca1a48142e341f4ef8d21d0de")
FOLDERS = ("", "tiny-imagenet", "tiny_imagenet")
OFFICIAL = ("tiny-imagenet-200", "tiny-imagenet-200.zip")
COMPACT = "tiny_imagenet50"


def tiny_imagenet(split: str = "train", *, download: bool = True) -> DataSet:
    """Tiny ImageNet: 200 classes of 500 pictures for training and 50 for testing, in the order of `wnids.txt`.

    Differs from the official split: "test" is the official validation part, since the labels of the official test part
    are not public.

    Args:
        split: "train" or "test".
        download: whether to fetch the archive (248 MB) if it is not at hand.

    Shape:
        x: `(N, 3, 64, 64)`, uint8.
    """
    check_split(split)
    source = find(FOLDERS, OFFICIAL)
    if source is None:
        try:
            source = fetch(REMOTE, "tiny-imagenet", download=download)
        except DataUnavailableError as error:
            hint = ". A part of it is at hand as 'tiny-imagenet-50'" if find(("",), (COMPACT,)) else ""
            raise DataUnavailableError(f"{error}{hint}") from None
    return _official(source, split, None)


def tiny_imagenet50(split: str = "train", *, download: bool = True) -> DataSet:
    """The first 50 classes of Tiny ImageNet: not comparable with numbers for all 200.

    Args:
        split: "train" or "test", see `tiny_imagenet`.
        download: whether to fetch the whole archive if neither it nor the compact file is at hand.

    Shape:
        x: `(N, 3, 64, 64)`, uint8.
    """
    check_split(split)
    if compact := find(("",), (COMPACT,)):
        return _compact(compact, split)
    source = find(FOLDERS, OFFICIAL) or fetch(REMOTE, "tiny-imagenet", download=download)
    return _official(source, split, 50)


def _compact(folder: Path, split: str) -> DataSet:
    """JPEGs without their headers, of which there are two."""
    path, names = folder / ("train.npz" if split == "train" else "val.npz"), folder / "classes.txt"
    with reading(names):
        lines = [line.split("\t") for line in names.read_text(encoding="utf-8").splitlines() if line]
        if [len(line) for line in lines] != [3] * 50:
            raise ValueError(f"{len(lines)} lines, where 50 with a number, a code and a name are accepted")
    classes = tuple(line[2] for line in lines)
    with reading(path), np.load(path, allow_pickle=False) as file:
        z = {key: file[key] for key in ("header", "header_offset", "header_id", "scan", "offset", "label")}
        headers = [z["header"][a:b].tobytes() for a, b in pairwise(z["header_offset"].tolist())]

        def jpeg(i: int) -> bytes:
            return headers[z["header_id"][i]] + z["scan"][z["offset"][i] : z["offset"][i + 1]].tobytes()

        x = decode_all(f"tiny-imagenet-50-{split}", [path], [lambda i=i: jpeg(i) for i in range(len(z["label"]))])
    return DataSet(x, torch.from_numpy(z["label"]).long(), classes, "tiny-imagenet-50")


def _official(source: Path, split: str, first: int | None) -> DataSet:
    """The first classes, in the order of `wnids.txt`; pictures by class and number, or by number for "test"."""
    name = "tiny-imagenet" if first is None else f"tiny-imagenet-{first}"
    with reading(source), ExitStack() as stack:
        files = _files(source, stack)
        wnids = files["wnids.txt"]().decode().split()[:first]
        words = dict(line.split("\t", 1) for line in files["words.txt"]().decode().splitlines())
        notes = files["val/val_annotations.txt"]().decode().splitlines()
        found = _pictures(files, wnids, None if split == "train" else dict(line.split("\t")[:2] for line in notes))
        stamp = source / "wnids.txt" if source.is_dir() else source
        x = decode_all(f"{name}-{split}", [stamp], [files[file] for _, file in found])
        return DataSet(x, torch.tensor([c for c, _ in found]), tuple(words.get(w, w) for w in wnids), name)


def _files(source: Path, stack: ExitStack) -> dict[str, Callable[[], bytes]]:
    """How to read each file of a folder or of an archive, which stays open until the `stack` closes."""
    if source.is_dir():
        return {path.relative_to(source).as_posix(): path.read_bytes for path in source.rglob("*.*")}
    archive = stack.enter_context(zipfile.ZipFile(source))
    return {name.partition("/")[2]: partial(archive.read, name) for name in archive.namelist()}


def _pictures(files: Iterable[str], wnids: Sequence[str], labels: dict[str, str] | None) -> list[tuple[int, str]]:
    """The class and file of each picture: of the training part, or of the part that has `labels`."""
    place = {wnid: c for c, wnid in enumerate(wnids)}
    pattern = re.compile(r"(train/(n\d+)/images|val/images)/(\w+_(\d+)\.JPEG)")
    matches = [match for match in map(pattern.fullmatch, files) if match and bool(match[2]) == (labels is None)]
    found = [(match[2] if labels is None else labels[match[3]], int(match[4]), match[0]) for match in matches]
    chosen = [(place[wnid], number, file) for wnid, number, file in found if wnid in place]
    if not chosen:
        raise ValueError("it holds no pictures of this part")
    return [(c, file) for c, number, file in sorted(chosen, key=lambda e: (e[0] if labels is None else 0, e[1]))]
