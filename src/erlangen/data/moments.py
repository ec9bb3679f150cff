"""What the names of columns say of moments: their order, and whether all are of one channel."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .ucr import number

__all__ = ["NOTHING", "UNEVEN", "check_moments", "has_words", "shorten", "value_of"]

LOG = logging.getLogger("erlangen.data")
NOTHING = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
# The last number, time or date of a name.
COUNT = re.compile(r"(?:[-+.:/ 0-9]*[0-9]T)?[-+.:/ ]*[0-9][-+.:/ 0-9]*Z?(?=[^0-9]*$)")
# A month beside a year, and the half of a day, which are no other channel: Jan 2020, 2 PM.
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
LONG = ("uary", "ruary", "ch", "il", "", "e", "y", "ust", "t|tember", "ober", "ember", "ember")
NAMED = "|".join(f"{short}(?:{rest})?" for short, rest in zip(MONTHS, LONG, strict=True))
MONTH = re.compile(rf"(?<![a-z])(?:{NAMED})\.?(?![a-z])", re.IGNORECASE)
YEAR = re.compile(r"(?<![0-9])[12][0-9]{3}(?![0-9])")
HALF = re.compile(r"(?<=[0-9]) ?[ap]\.?m\.?$", re.IGNORECASE)
UNEVEN = 1.5  # the longest step over the shortest: clocks tremble, but a missing moment makes a step twice as long


def check_moments(names: Sequence[str], path: Path) -> None:
    """Raises a `ValueError` for columns beside the moments of one channel; warns where names do not tell moments."""
    stems: dict[str, list[str]] = {}
    for name in filter(None, names):
        stems.setdefault(_stem(name), []).append(name)
    kinds = sorted(stems.values(), key=len, reverse=True)
    for kind in kinds:
        _check_order(kind, path)
    if len(kinds) < 2:
        return
    first, second, others = kinds[0], kinds[1], [name for kind in kinds[1:] for name in kind]
    if len(set(second)) > 1:
        how = "moments of one channel; of several, a row is a moment and `series` names a column, or the file is a .npz"
        raise ValueError(f"received the columns {shorten(first, 4)} and {shorten(second, 4)}; accepted are {how}")
    if len(first) > len(others):
        got = f"the columns {shorten(others)} beside {shorten(first, 4)}"
        raise ValueError(f"received {got}; accepted are moments and labels; others are left out of the file")
    read = "moments, a series to a row; where a row is a moment, `series` names the column that says of which series"
    LOG.warning("%s: the columns %s are read as %s.", path, shorten([name for name in names if name]), read)


def _check_order(names: Sequence[str], path: Path) -> None:
    """Raises a `ValueError` for moments out of order, such as x1, x10, x2, or counted twice, if names have numbers."""
    counts = np.diff([_count(name) for name in names])
    if not len(counts) or np.isnan(counts).any():
        return
    steps = np.sign(counts)
    if (steps != (steps[0] or 1)).any():
        k = int(np.flatnonzero(steps != (steps[0] or 1))[0])
        got = f"the column {names[k + 1]} after {names[k]}"
        raise ValueError(f"received {got}; accepted are moments of one channel in their order")
    if np.abs(counts).max() >= UNEVEN * np.abs(counts).min():
        k = int(np.abs(counts).argmax())
        where = f"moments at even steps, but {names[k]} and {names[k + 1]} are further apart than others"
        LOG.warning("%s: the columns %s are read as %s.", path, shorten(names, 4), where)


def _stem(name: str) -> str:
    """A name without its number, or its date."""
    if not has_words([name]):
        return ""
    return COUNT.sub("", HALF.sub("", MONTH.sub("", name) if YEAR.search(name) else name))


def _count(name: str) -> float:
    """The last number of a name; NaN if it has none, or a date or an hour. x.10 is the tenth; months are counted."""
    if (month := MONTH.search(name)) and (year := YEAR.search(name)):
        alone = sum(map(str.isdigit, name)) == len(year[0])
        return 12.0 * int(year[0]) + MONTHS.index(month[0][:3].lower()) if alone else math.nan
    if HALF.search(name):
        return math.nan
    try:
        return number(name if not has_words([name]) else (COUNT.findall(name) or [""])[0].lstrip("."))
    except ValueError:
        return math.nan


def value_of(cell: str) -> float:
    """The number in a cell of a table, NaN for none."""
    return np.nan if cell.strip().lower() in NOTHING else number(cell)


def has_words(cells: Sequence[str]) -> bool:
    """Whether some cells are no numbers."""
    try:
        for cell in cells:
            value_of(cell)
    except ValueError:
        return True
    return False


def shorten(names: Sequence[str], most: int = 8) -> str:
    """The first names of columns."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
