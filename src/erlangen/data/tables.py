"""Series of the user in files: tables in `.csv`, arrays in `.npz`, or the formats of the archives."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .files import naming
from .npz import npz
from .sequences import Missing, Unequal, check_handling, stack_series
from .sets import DataSet
from .ucr import archive

__all__ = ["SERIES", "read_series"]

NOTHING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
SERIES = (".csv", ".ts", ".tsv")


def read_series(
    path: str | os.PathLike[str],
    *,
    split: str = "train",
    label: str | None = "label",
    series: str | None = None,
    missing: Missing = "raise",
    unequal: Unequal = "raise",
) -> DataSet:
    """Reads series from a file.

    A `.csv` holds one series to a row, with the label in the column of that name (without a line of names: in the
    first column); or, if `series` names a column, one moment to a row, where rows with the same value in that column
    are one series, in their order, and every other column is a channel. Values lie between commas or semicolons;
    empty cells, NA, NaN and ? are missing values. `.npz` is read as by `npz`, `.tsv` and `.ts` as the archives
    publish them.

    Args:
        path: the file.
        split: "train" or "test", for files that have parts.
        label: the column with the labels of a `.csv`; None if there are none: all are of one class.
        series: the column that says to which series a row of a `.csv` belongs.
        missing: what to do about missing values, see `stack_series`.
        unequal: what to do about different lengths, see `stack_series`.

    Shape:
        x: `(N, C, L)`, float32.
    """
    check_handling(missing, unequal)
    path = Path(path)
    handling: Any = {"missing": missing, "unequal": unequal}
    if not path.is_file() or path.suffix.lower() not in (".npz", *SERIES):
        raise ValueError(f"path: received {str(path)!r}; accepted is a file that ends in .npz, {', '.join(SERIES)}")
    if path.suffix.lower() == ".npz":
        return npz(path, split=split, **handling)
    if path.suffix.lower() != ".csv":
        return archive(path, split=split, **handling)
    if split != "train":
        raise ValueError(f"split: received {split!r} for {str(path)!r}, which has no parts; accepted is 'train'")
    with naming(path):
        names, rows = _table(path)
        wide = series is None
        signals, labels = _wide(names, rows, label) if wide else _long(names, rows, label, series)
        x, kept = stack_series(signals, **handling)
    classes = sorted(set(labels), key=_by_value)
    y = torch.tensor([classes.index(one) for one in labels])
    return DataSet(x, y[kept], tuple(classes), path.stem)


def _by_value(label: str) -> tuple[bool, float, str]:
    """Numbers by their value, before words."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


def _number(cell: str) -> float:
    return np.nan if cell.strip().lower() in NOTHING else float(cell)


def _table(path: Path) -> tuple[list[str] | None, list[list[str]]]:
    """The names of the columns, if the first line has any, and the rows."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        file.seek(0)
        rows = [row for row in csv.reader(file, delimiter=";" if first.count(";") > first.count(",") else ",") if row]
    if not rows:
        raise ValueError("it is empty")
    try:
        [_number(cell) for cell in rows[0][1:]]
    except ValueError:
        return [name.strip() for name in rows[0]], rows[1:]
    return None, rows


def _column(names: list[str] | None, name: str, role: str) -> int:
    if names is None or name not in names:
        have = "no line of names" if names is None else f"the columns {', '.join(names[:8])}"
        raise ValueError(f"{role}={name!r}, but there is {have}; {role} names a column")
    return names.index(name)


def _wide(names: list[str] | None, rows: list[list[str]], label: str | None) -> tuple[list[np.ndarray], list[str]]:
    """One series to a row."""
    at = None if label is None else 0 if names is None else _column(names, label, "label")
    signals = [np.array([_number(cell) for i, cell in enumerate(row) if i != at]) for row in rows]
    return signals, ["series" if at is None else row[at].strip() for row in rows]


def _long(
    names: list[str] | None, rows: list[list[str]], label: str | None, series: str
) -> tuple[list[np.ndarray], list[str]]:
    """One moment to a row."""
    at = _column(names, series, "series")
    kind = None if label is None else _column(names, label, "label")
    members: dict[str, list[list[str]]] = {}
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names or row):
            raise ValueError(f"line {number} has {len(row)} cells, not {len(names or row)}")
        members.setdefault(row[at].strip(), []).append(row)
    channels = [i for i in range(len(names or ())) if i not in (at, kind)]
    signals = [np.array([[_number(row[i]) for row in part] for i in channels]) for part in members.values()]
    return signals, [_one_label(name, part, kind) for name, part in members.items()]


def _one_label(name: str, rows: list[list[str]], kind: int | None) -> str:
    if kind is None:
        return "series"
    labels = {row[kind].strip() for row in rows}
    if len(labels) != 1:
        raise ValueError(f"the series {name!r} has the labels {', '.join(sorted(labels)[:5])}; one is needed")
    return labels.pop()
