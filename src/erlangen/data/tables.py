"""Series of the user in files: tables in `.csv`, arrays in `.npz`, or the formats of the archives."""

from __future__ import annotations

import csv
import logging
import math
import os
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from .files import naming
from .moments import NOTHING, UNEVEN, check_moments, has_words, shorten, value_of
from .npz import npz
from .sequences import Missing, Unequal, check_handling, stack_series
from .sets import DataSet
from .ucr import archive, whole

__all__ = ["SERIES", "read_series"]

LOG = logging.getLogger("erlangen.data")
SERIES = (".csv", ".ts", ".tsv")
COMMAS = re.compile(r"[+-]?[0-9]+(,[0-9]+)?")  # numbers with decimal commas, which are refused, but are no names
MANY = 10  # so many series hardly have a class each: then numbers of series, or moments, were taken for labels
AXIS = 8  # numbers that make an axis of moments, if they are evenly spaced
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
ROUNDED = 1.05  # the longest step over the shortest of an axis, whose numbers are rounded


def read_series(
    path: str | os.PathLike[str],
    *,
    split: str = "train",
    label: str | None = "label",
    series: str | None = None,
    time: str | None = None,
    missing: Missing = "raise",
    unequal: Unequal = "raise",
) -> DataSet:
    """Reads series from a file.

    A `.csv` holds one series to a row, with the label in the column of that name (without a line of names: in the
    first column), and all other columns are moments; or, if `series` names a column, one moment to a row, where rows
    with the same value in that column are one series, in their order, and every other column is a channel. A first line
    0, 1, 2, … or 1, 2, 3, … has names. Moments are those of one channel, in the order of the numbers that their names
    have: `x1, x2, y1, y2` is refused, as is `x1, x10, x2`. Values lie between commas or semicolons; empty cells, NA,
    NaN and ? are missing values. `.npz` is read as by `npz`, `.tsv` and `.ts` as the archives publish them.

    Args:
        path: the file.
        split: "train" or "test", for files that have parts.
        label: the column with the labels of a `.csv`; None if there are none: all are of one class.
        series: the column that says to which series a row of a `.csv` belongs; several, with commas between their
            names, where one alone does not tell series apart, such as "subject,trial".
        time: the column that says when, with `series`: rows of a series are put in the order of its numbers (or dates,
            as ISO 8601 has them), whose steps have to be even and alike in all series (to "resample": even), and it is
            no channel.
        missing: what to do about missing values, see `stack_series`.
        unequal: what to do about different lengths, see `stack_series`; of files that have parts, both are brought to
            the longest of the training part.

    Shape:
        x: `(N, C, L)`, float32.
    """
    check_handling(missing, unequal)
    path = Path(path)
    handling: Any = {"missing": missing, "unequal": unequal}
    kind = path.suffix.lower()
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise ValueError(f"path: received {str(path)!r}, which {what}; accepted is a file with series")
    if kind not in (".npz", *SERIES):
        raise ValueError(f"path: received {str(path)!r}; accepted is a file that ends in .npz, {', '.join(SERIES)}")
    if kind != ".csv":
        _check_unnamed(path, label=None if label in (None, "label") else label, series=series, time=time)
        return (npz if kind == ".npz" else archive)(path, split=split, **handling)
    if split != "train":
        raise ValueError(f"split: received {split!r} for {str(path)!r}, which has no parts; accepted is 'train'")
    if time is not None and series is None:
        raise ValueError(f"time: received {time!r} without series; accepted where a row is a moment of a series")
    with naming(path):
        table = Table.read(path, {label, series, time, *_parts(series)})
        if series is None:
            signals, labels = table.wide(label, path)
        else:
            signals, labels = table.long(label, series, time=time, unequal=unequal, path=path)
        x, kept = stack_series(signals, **handling)
    classes = sorted(set(labels), key=_by_value)
    if len(classes) == len(labels) >= MANY:
        how = "`label` names the column of classes, or is None where there is none"
        LOG.warning("%s: each of %d series has a class of its own, %s; %s.", path, len(labels), shorten(labels, 4), how)
    y = torch.tensor([classes.index(one) for one in labels])
    return DataSet(x, y[kept], tuple(classes), path.stem)


def _check_unnamed(path: Path, **columns: str | None) -> None:
    """Raises a `ValueError` for names of columns, given for a file that has none."""
    for role, name in columns.items():
        if name is not None:
            raise ValueError(f"{role}: received {name!r} for {str(path)!r}; accepted for the columns of a .csv")


def _by_value(label: str) -> tuple[bool, float, str]:
    """A key to sort labels by: numbers by their value, before words."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label


def _fractional(cell: str) -> bool:
    """Whether it is a number with a fraction."""
    try:
        value = float(cell)
    except ValueError:
        return False
    return math.isfinite(value) and not value.is_integer()


class Table(NamedTuple):
    """What a `.csv` holds.

    Attributes:
        names: of the columns; none if the first line has none.
        rows: the cells.
        lines: the line of each row in the file.
    """

    names: list[str]
    rows: list[list[str]]
    lines: list[int]

    @classmethod
    def read(cls, path: Path, known: Collection[str | None]) -> Self:
        """Reads a file. Its first line has names if one is known, if any after the first are words, or if all count."""
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                first = file.readline()
                file.seek(0)
                cells = csv.reader(file, delimiter=";" if first.count(";") >= max(1, first.count(",")) else ",")
                found = [(cells.line_num, row) for row in cells if any(map(str.strip, row))]
        except UnicodeDecodeError as error:
            raise ValueError(f"received what is no text at byte {error.start}; accepted is text in UTF-8") from error
        except csv.Error as error:
            raise ValueError(f"received no table ({error}); accepted are cells between commas") from error
        if not found:
            raise ValueError("it is empty")
        lines, rows = [line for line, _ in found], [row for _, row in found]
        head = [cell.strip() for cell in rows[0]]
        named = bool(set(head) & (set(known) - {None}))
        if len(head) == 1 and not named and has_words(head):
            got = f"line {lines[0]}: received one cell, {head[0][:40]!r}"
            raise ValueError(f"{got}; accepted are cells between commas or semicolons")
        if not named and (not has_words(head[1:]) or all(map(COMMAS.fullmatch, head))) and not _counts(head):
            return cls([], rows, lines)
        if not head[0]:
            raise ValueError("received a first column without a name, such as an index; accepted is one with a name")
        return cls(head, rows[1:], lines[1:])

    def column(self, name: str, role: str) -> int:
        """The place of a column that the user has named."""
        if name not in self.names:
            have = f"the columns are {shorten(self.names)}" if self.names else "there is no line of names"
            none = ", or is None where there is none" if role == "label" else ""
            raise ValueError(f"{role}={name!r}, but {have}; {role} names a column{none}")
        if self.names.count(name) > 1:
            raise ValueError(f"{role}={name!r}, but {self.names.count(name)} columns have this name; one is needed")
        return self.names.index(name)

    def number(self, row: int, place: int) -> float:
        """The number in a cell, NaN for none."""
        cell = self.rows[row][place]
        try:
            return value_of(cell)
        except ValueError:
            name = repr(self.names[place]) if place < len(self.names) else place + 1
            where = f"line {self.lines[row]}, column {name}: received {cell!r}"
            raise ValueError(f"{where}; accepted is a number such as 1.5, or nothing where it is missing") from None

    def label(self, row: int, place: int | None) -> str:
        """The label of a row, as of the archives: 1 and 1.0 are the same; all are of one class where there are none."""
        found = "series" if place is None else whole(self.rows[row][place])
        if found.lower() in NOTHING:
            got = "no label" if not found else f"the label {found!r}, which stands for none"
            raise ValueError(f"line {self.lines[row]}: received {got}; accepted is one for each series")
        return found

    def wide(self, label: str | None, path: Path) -> tuple[list[np.ndarray], list[str]]:
        """One series to a row."""
        bare = not self.names and label == "label"
        at = None if label is None else 0 if bare else self.column(label, "label")
        if at:
            self._check_cells(at + 1)
        if bare:
            self._check_classes()
        if self.names:
            self._check_named()
            check_moments([name for i, name in enumerate(self.names) if i != at], path)
        named = self._named() if self.names else range(max(map(len, self.rows), default=0))
        places = [[i for i in named if i != at and i < len(row)] for row in self.rows]
        signals = [np.array([self.number(k, i) for i in own]) for k, own in enumerate(places)]
        if not self.names:
            self._check_axis(signals)
        return signals, [self.label(k, at) for k in range(len(self.rows))]

    def long(
        self, label: str | None, series: str, *, time: str | None, unequal: Unequal, path: Path
    ) -> tuple[list[np.ndarray], list[str]]:
        """One moment to a row."""
        told = [series] if series in self.names else _parts(series)
        at = [self.column(name, "series") for name in told]
        kind = None if label is None else self.column(label, "label")
        when = None if time is None else self.column(time, "time")
        self._check_cells(len(self.names), len(self.names))
        self._check_named()
        if not (channels := [i for i in self._named() if i not in (*at, kind, when)]):
            raise ValueError(f"received the columns {shorten(self.names)}; accepted is one more, with values")
        members: dict[str, list[int]] = {}
        for k in range(len(self.rows)):
            members.setdefault(self._series(k, at), []).append(k)
        if when is not None:
            members = {name: self._in_time(name, rows, when) for name, rows in members.items()}
            if unequal != "resample":  # "resample" gives all series one length, however long they took
                self._check_paces(members, when)
        else:
            _mention_apart(members, path)
        signals = [np.array([[self.number(k, i) for k in rows] for i in channels]) for rows in members.values()]
        _mention_channels([self.names[i] for i in channels], signals, path)
        return signals, [self._one_label(name, rows, kind) for name, rows in members.items()]

    def _series(self, row: int, places: Sequence[int]) -> str:
        """The series that a row belongs to: its values in some columns, quoted where they have commas of their own."""
        values = [whole(self.rows[row][i]) for i in places]
        if "" in values:
            name = self.names[places[values.index("")]]
            raise ValueError(f"line {self.lines[row]}: received no {name!r}; accepted is one for each moment")
        return values[0] if len(values) == 1 else ", ".join(repr(v) if "," in v else v for v in values)

    def _named(self) -> list[int]:
        """The columns that have a name; others have no values."""
        return [i for i, name in enumerate(self.names) if name]

    def _check_classes(self) -> None:
        """Raises a `ValueError` for a first column of moments that would be taken for classes, without names."""
        fractions = [k for k, row in enumerate(self.rows) if _fractional(row[0])]
        if 2 * len(fractions) > len(self.rows):
            line, cell = self.lines[fractions[0]], self.rows[fractions[0]][0].strip()
            got = f"line {line}: received {cell!r} for a class, without a line of names"
            raise ValueError(f"{got}; accepted are classes first, or label=None where there are none")

    def _check_axis(self, signals: Sequence[np.ndarray]) -> None:
        """Raises a `ValueError` for a first line of times or wavelengths, which would be taken for a series."""
        if len(signals) > 1 and _axis(signals[0]) and not any(map(_axis, signals[1:])):
            got = f"line {self.lines[0]}: received {shorten(self.rows[0], 4)}, evenly spaced as no other line is"
            accepted = (
                "series; a line of moments is left out, or has the name of the column of labels that `label` says"
            )
            raise ValueError(f"{got}; accepted are {accepted}")

    def _check_cells(self, least: int, most: int | None = None) -> None:
        for line, row in zip(self.lines, self.rows, strict=True):
            if len(row) < least or (most is not None and len(row) > most):
                raise ValueError(f"line {line} has {len(row)} cells, not {'at least ' if most is None else ''}{least}")

    def _check_named(self) -> None:
        """Raises a `ValueError` for values without a name: the others may then stand under each other's names."""
        for line, row in zip(self.lines, self.rows, strict=True):
            if any(map(str.strip, row[len(self.names) :])):
                raise ValueError(f"line {line} has {len(row)} cells, more than the {len(self.names)} names of columns")
            if bare := [cell for cell, name in zip(row, self.names, strict=False) if cell.strip() and not name]:
                got = f"{bare[0].strip()!r} in a column without a name"
                raise ValueError(f"line {line}: received {got}; accepted are values with one")

    def _in_time(self, name: str, rows: list[int], when: int) -> list[int]:
        """Rows of a series in the order of their times."""
        times = np.array([self._moment(k, when) for k in rows])
        order = np.argsort(times, kind="stable")
        steps = np.diff(times[order])
        if len(steps) and not 0 < steps.max() < UNEVEN * steps.min():  # NaN is neither
            got = f"the series {name!r} with steps of time from {steps.min():g} to {steps.max():g}"
            raise ValueError(
                f"time: received {got}; accepted are evenly spaced ones, with empty cells where values are missing"
            )
        return [rows[k] for k in order]

    def _moment(self, row: int, place: int) -> float:
        """A time: a number, or the seconds of a date, of which double precision then keeps microseconds."""
        cell = self.rows[row][place].strip()
        try:
            return value_of(cell)
        except ValueError:  # numbers go first: 20250331 is one
            pass
        try:
            date = datetime.fromisoformat(cell)
        except ValueError:
            where = f"line {self.lines[row]}, column {self.names[place]!r}: received {cell!r}"
            raise ValueError(f"{where}; accepted is a number, or a date such as 2025-03-31T12:00:00.5") from None
        return (date.replace(tzinfo=date.tzinfo or UTC) - EPOCH) / timedelta(seconds=1)

    def _check_paces(self, members: dict[str, list[int]], when: int) -> None:
        """Raises a `ValueError` for series whose steps differ in length: as many of them would be another time."""
        ends = {name: (self._moment(rows[0], when), self._moment(rows[-1], when)) for name, rows in members.items()}
        paces = {name: (b - a) / (len(members[name]) - 1) for name, (a, b) in ends.items() if b > a}
        if paces and max(paces.values()) >= UNEVEN * min(paces.values()):
            slow, fast = max(paces, key=lambda name: paces[name]), min(paces, key=lambda name: paces[name])
            got = f"steps of {paces[slow]:g} in the series {slow!r} and of {paces[fast]:g} in {fast!r}"
            raise ValueError(f"time: received {got}; accepted are alike ones, or unequal='resample'")

    def _one_label(self, name: str, rows: list[int], kind: int | None) -> str:
        labels = {self.label(k, kind) for k in rows}
        if len(labels) != 1:
            raise ValueError(f"the series {name!r} has the labels {', '.join(sorted(labels)[:5])}; one is needed")
        return labels.pop()


def _parts(series: str | None) -> list[str]:
    """The names of columns between commas."""
    return [] if series is None else [name.strip() for name in series.split(",") if name.strip()] or [series]


def _mention_apart(members: dict[str, list[int]], path: Path) -> None:
    """Warns of series that are joined from several stretches of rows: numbers may begin again with each subject."""
    # Where series take turns row by row, a stretch is one row, or a few where others have none.
    stretches = {name: 1 + sum(b - a > 1 for a, b in pairwise(rows)) for name, rows in members.items()}
    if apart := [name for name, n in stretches.items() if 1 < n <= len(members[name]) / 2]:
        how = "where numbers begin again, as for each subject, `series` names both columns, such as subject,trial"
        got = f"{len(apart)} series, such as {apart[0]!r}, stand at several places and are joined"
        LOG.warning("%s: rows of %s; %s.", path, got, how)


def _mention_channels(names: Sequence[str], signals: Sequence[np.ndarray], path: Path) -> None:
    """Warns of columns that may be no channels: a time or an index, and what is one for a series, such as an age."""
    for name, *values in zip(names, *signals, strict=True):
        steps = [np.diff(one) for one in values if len(one) > 2]
        if steps and all(not each.any() or 0 < each.max() < UNEVEN * each.min() for each in steps):
            how = "a channel, which is constant or rises evenly in every series; `time` names the column that says when"
            LOG.warning("%s: the column %s is read as %s.", path, name, how)


def _axis(values: np.ndarray) -> bool:
    """Whether they are evenly spaced, as moments or wavelengths in a line of names are."""
    steps = np.diff(values)
    if len(values) < AXIS or np.isnan(steps).any() or steps[0] == 0:
        return False
    steps = steps / steps[0]
    return bool(steps.min() > 0 and steps.max() < ROUNDED * steps.min())


def _counts(cells: Sequence[str]) -> bool:
    """Whether they count from 0 or 1, as the columns of an array; an index before them has no name."""
    cells = cells[1:] if not cells[0] else cells
    return len(cells) > 1 and any(list(cells) == [str(k + i) for i in range(len(cells))] for k in (0, 1))
