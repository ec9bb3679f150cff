"""Sets of the UCR and UEA archives of time series, as published (`.tsv`, `.ts`) or compact (`.npz`).

References:
    Dau et al., The UCR time series archive (2018); Bagnall et al., The UEA multivariate time series archive (2018).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from .files import DataUnavailableError, check_split, find, naming
from .npz import npz
from .sequences import Missing, Unequal, stack_series
from .sets import DataSet

__all__ = ["TABLE3", "archive", "ucr"]

# P-STN, Table 3. Of the last, only the training part is in the compact collection.
TABLE3 = ("FaceAll", "TwoPatterns", "Wafer", "PhalangesOutlinesCorrect", "UWaveGestureLibraryX")
FOLDERS = ("ucr", "UCR", "UCRArchive_2018", "Univariate_ts", "Multivariate_ts", "")
MISSING = frozenset({"?", "", "NaN"})
PLAIN = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")  # numbers, as programs write them


class Part(NamedTuple):
    """The series of a file, the label of each, and the classes where the file lists them."""

    series: list[np.ndarray]
    labels: list[str]
    classes: tuple[str, ...] | None


def ucr(name: str, split: str = "train", *, missing: Missing = "raise", unequal: Unequal = "raise") -> DataSet:
    """A set of the UCR or the UEA archive, by its name there, such as "FaceAll".

    `ERLANGEN_DATA` has to name a folder that holds it: as `ucr/FaceAll.npz`, or as published, such as
    `UCRArchive_2018/FaceAll/FaceAll_TRAIN.tsv` or `Univariate_ts/FaceAll/FaceAll_TRAIN.ts` and their `_TEST`. The
    archives are not to be downloaded file by file. Values are those of the archive; labels become 0 to K - 1, and the
    original ones are the names of the classes.

    Args:
        name: of the set.
        split: "train" or "test", as the curators divided it.
        missing: what to do about missing values, see `stack_series`.
        unequal: what to do about different lengths, see `stack_series`; both parts are brought to the longest of the
            training part.

    Shape:
        x: `(N, C, L)`, float32.
    """
    check_split(split)
    # The compact collection says in a name where a set is not what the name promises.
    forms = (f"{name}.npz", f"{name}_UEA.npz", f"{name}_trainonly.npz")
    parts = [f"{stem}_TRAIN.{kind}" for stem in (f"{name}/{name}", name) for kind in ("tsv", "ts", "txt")]
    path = find(FOLDERS, (*forms, *parts)) if isinstance(name, str) and name else None
    if path is None:
        raise DataUnavailableError(
            f"the series {name!r} are not at hand (looked for ucr/{name}.npz and {name}/{name}_TRAIN.tsv or .ts); set "
            "ERLANGEN_DATA to a folder that holds them, from timeseriesclassification.com or the UCR archive"
        )
    if path.stem.endswith("_trainonly") and split == "test":
        raise DataUnavailableError(f"{path.name} has no test part; set ERLANGEN_DATA to a folder with {name}_TEST.tsv")
    if path.suffix == ".npz":
        found = npz(path, split=split, missing=missing, unequal=unequal)
    else:
        found = archive(path, split=split, missing=missing, unequal=unequal)
    return DataSet(found.x, found.y, found.classes, f"ucr/{name}")


def archive(path: Path, *, split: str = "train", missing: Missing = "raise", unequal: Unequal = "raise") -> DataSet:
    """Reads a file of the archives, `.tsv`, `.txt` or `.ts`; the classes are those of both parts.

    Args:
        path: the file; for the test part, one whose name ends in `_TRAIN`, beside which there is a `_TEST`.
        split: "train" or "test".
        missing: see `stack_series`.
        unequal: see `stack_series`; the test part is brought to the length of the training part.
    """
    files = {"train": path}
    if path.stem.endswith("_TRAIN"):
        files["test"] = path.with_name(path.name.replace("_TRAIN", "_TEST"))
    if split not in files or not files[split].is_file():
        accepted = f"{files[split].name} beside it" if split in files else "'train'"
        got = f"received {split!r}, but {str(path)!r} has no such part"
        raise DataUnavailableError(f"split: {got}; accepted is {accepted}")
    read = {name: _read(file) for name, file in files.items() if file.is_file()}
    part, classes = read[split], _classes(list(read.values()))
    length = None
    if split == "test" and not missing == unequal == "raise":
        with naming(path):
            length = stack_series(read["train"].series, missing=missing, unequal=unequal).x.shape[-1]
    with naming(files[split]):
        x, kept = stack_series(part.series, missing=missing, unequal=unequal, length=length)
        if alien := [label for label in part.labels if label not in classes]:
            raise ValueError(f"received the label {alien[0]!r}; accepted are those that @classLabel lists: {classes}")
        y = torch.tensor([classes.index(label) for label in part.labels])
    return DataSet(x, y[kept], classes, path.stem.removesuffix("_TRAIN"))


def _classes(parts: Sequence[Part]) -> tuple[str, ...]:
    """The classes in the order of the file that lists them, else of their values."""
    if listed := next((part.classes for part in parts if part.classes), None):
        return listed
    labels = {label for part in parts for label in part.labels}
    numeric = all(label.lstrip("-").isdigit() for label in labels)
    return tuple(sorted(labels, key=int if numeric else None))


def _read(path: Path) -> Part:
    with naming(path):
        text = path.read_text(encoding="utf-8", errors="replace")
        return _ts(text) if path.suffix.lower() == ".ts" else _tsv(text)


def _tsv(text: str) -> Part:
    """A label and then the values in each line, between tabs, commas or blanks; of blanks many are as one."""
    lines = {number: line for number, line in enumerate(text.splitlines(), start=1) if line.strip()}
    cut = {number: line.split(next((c for c in "\t," if c in line), None)) for number, line in lines.items()}
    if bare := [number for number, cells in cut.items() if not cells[0].strip()]:
        raise ValueError(f"line {bare[0]}: received no label; accepted is one for each series")
    series = [_numbers(cells[1:], number) for number, cells in cut.items()]
    return Part(series, [whole(cells[0]) for cells in cut.values()], None)


def _ts(text: str) -> Part:
    """Lines with @ describe the set; then each has the channels and the label between colons."""
    series, labels, classes, data = [], [], None, False
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        if not data:
            key, *words = line.split()
            data, holds = key.lower() == "@data", words[:1] and words[0].lower() == "true"
            if key.lower() == "@timestamps" and holds:
                raise ValueError("received time stamps, which are not read; accepted are evenly spaced values")
            if key.lower() == "@classlabel" and holds:
                classes = tuple(map(whole, words[1:]))
            continue
        if classes is None:
            raise ValueError("received no class labels; accepted are sets for classification, with @classLabel true")
        *channels, label = line.split(":")
        rows = [_numbers(channel.split(","), number) for channel in channels]
        if len({len(row) for row in rows}) != 1:
            raise ValueError(f"line {number}: received channels of different lengths, or none; accepted is one length")
        series.append(np.array(rows))
        labels.append(whole(label))
    if not data:
        raise ValueError("received no line @data; accepted are series after it")
    return Part(series, labels, classes)


def number(cell: str) -> float:
    """The number that a cell has, as tables write them: Python also reads 1_000, and digits of any script."""
    if "_" in cell or not cell.isascii():
        raise ValueError(f"could not convert string to float: {cell!r}")
    return float(cell)


def _numbers(cells: Sequence[str], line: int) -> np.ndarray:
    """The values of a line, NaN where one is missing."""
    try:
        return np.array([np.nan if cell in MISSING else number(cell) for cell in map(str.strip, cells)])
    except ValueError as error:
        accepted = "numbers, and ? or NaN where one is missing; a table with names of columns is a .csv"
        raise ValueError(f"line {line}: {error}; accepted are {accepted}") from None


def whole(label: str) -> str:
    """A label as the archives mean it: 1, 1.0 and 1.0000000e+00 are the same class; codes such as 01 are names."""
    label = label.strip()
    if not PLAIN.fullmatch(label):
        return label
    value = float(label)
    exact = value.is_integer() and abs(value) < 2**53  # a longer number is a name, which a float would change
    return str(int(value)) if exact else label
