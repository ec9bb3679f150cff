"""An experiment is one table or figure of a paper: how to compute its rows, and how to show them."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import itertools
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from matplotlib.figure import Figure

__all__ = ["Claim", "Experiment", "NoRows", "Row", "Rows", "experiment", "experiments", "find", "tidy"]

Row: TypeAlias = dict[str, Any]  # plain columns; arrays (images, curves) are kept beside them
Rows: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Claim:
    """A number that the paper prints or implies, and what is asked of ours.

    Attributes:
        metric: the column of the rows.
        what: what it says, in words.
        where: which rows count, by their columns.
        paper: what the paper says, in its words or numbers; "–" where it has none.
        low: the least that is asked of ours, if anything.
        high: the greatest.
        run: False where the paper compares with a system that we do not have.
    """

    metric: str
    what: str
    where: Mapping[str, Any] = field(default_factory=dict)
    paper: str = "–"
    low: float | None = None
    high: float | None = None
    run: bool = True

    def values(self, rows: Rows) -> list[float]:
        """Ours, one for each row that counts."""
        fits = (row for row in rows if all(row.get(name) == value for name, value in self.where.items()))
        return [row[self.metric] for row in fits if row.get(self.metric) is not None]

    def holds(self, value: float) -> bool:
        """Whether a value is as asked."""
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    @property
    def asked(self) -> str:
        """What is asked, in words."""
        low, high = self.low, self.high
        if low is not None and high is not None:
            return f"{low:.3g} to {high:.3g}"
        return f"≥ {low:.3g}" if low is not None else f"≤ {high:.3g}" if high is not None else "–"


class NoRows(ValueError):
    """There is no row of the data sets and methods that were chosen."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper.

    Attributes:
        id: paper and artefact, "ltt/figure2".
        about: the docstring of its file.
        full: the configuration of the paper's scale.
        smoke: one of seconds.
        paper: what the paper prints.
        compute: from a configuration to rows.
        show: from rows to a figure.
        keys: the columns that tell one row from another; a new run replaces rows that agree in them.
        compare: from all rows that are stored to these and what compares them, in further columns or rows. That is
            computed anew whenever they are read, so that an experiment can be run part by part.
        shows: the id of the experiment whose stored rows are also its own, as a plot of a table has them.
        apart: which of its lists, such as `datasets` and `methods`, are computed and stored one after the other, so
            that a run that is cut short keeps what it had; rows must not depend on those of others.
    """

    id: str
    about: str
    full: Any
    smoke: Any
    paper: tuple[Claim, ...]
    compute: Callable[[Any], list[Row]]
    show: Callable[[Rows], Figure]
    keys: tuple[str, ...] = ("method", "dataset", "seed")
    compare: Callable[[list[Row]], list[Row]] = list
    shows: str | None = None
    apart: tuple[str, ...] = ()

    @property
    def stored(self) -> str:
        """The id under which its rows are stored."""
        return self.shows or self.id

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return self.about.strip().partition("\n")[0]

    def config(self, *, smoke: bool = False, **changes: Any) -> Any:
        """A configuration: full or smoke, with changes (`seed`, `device`, `pair`, or some of `datasets`, `methods`).

        Raises:
            ValueError: the experiment has no such setting, data set or method.
        """
        base = self.smoke if smoke else self.full
        names = {f.name for f in dataclasses.fields(base)}
        if unknown := sorted(set(changes) - names):
            known = ", ".join(name for name in ("datasets", "methods", "pair", "seed", "device") if name in names)
            raise ValueError(f"{unknown[0]}: received for {self.id}, which has none; accepted are {known}")
        some = {name: self._some(name, changes[name]) for name in ("datasets", "methods") if name in changes}
        return dataclasses.replace(base, **changes | some)

    def _some(self, name: str, chosen: Sequence[str]) -> tuple[Any, ...]:
        """Those of the full configuration's data sets or methods that are chosen, by their names."""
        every = [(each if isinstance(each, str) else each[0], each) for each in getattr(self.full, name)]
        names = list(dict.fromkeys(label for label, _ in every))
        if unknown := [label for label in chosen if label not in names]:
            raise ValueError(f"{name}: received {unknown[0]!r} for {self.id}; accepted are {', '.join(names)}")
        return tuple(each for label, each in every if label in chosen)

    def run(self, config: Any) -> list[Row]:
        """The rows of a configuration, checked: flat, and told apart by the keys.

        Raises:
            NoRows: there are none.
            ValueError: they are no such rows.
        """
        rows = tidy(self.compute(config), self.keys)
        if not rows:
            accepted = "data sets and methods that it has together"
            raise NoRows(f"datasets, methods: received those of no row of {self.id}; accepted are {accepted}")
        return rows

    def parts(self, config: Any) -> list[Any]:
        """A configuration for each choice of what is computed apart; together they are the given one."""
        choices = itertools.product(*([(name, (one,)) for one in getattr(config, name)] for name in self.apart))
        return [dataclasses.replace(config, **dict(choice)) for choice in choices]


def experiment(id: str, run: Callable[[Any], list[Row]], show: Callable[[Rows], Figure], **others: Any) -> Experiment:
    """What a paper's file ends with: `others` are attributes, and the docstring of the file says what it is about."""
    return Experiment(id, about=sys.modules[show.__module__].__doc__ or "", compute=run, show=show, **others)


def tidy(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """The rows, when they are flat and no two agree in all keys.

    Raises:
        ValueError: a column is neither plain nor an array, a key is missing, or two rows have the same keys.
    """
    seen: set[tuple[Any, ...]] = set()
    for i, row in enumerate(rows):
        for name, value in row.items():
            if not isinstance(value, bool | int | float | str | np.ndarray | None):
                raise ValueError(f"rows[{i}][{name!r}]: received {type(value).__name__}; accepted are plain columns")
        if missing := [key for key in keys if key not in row]:
            raise ValueError(f"rows[{i}]: received no {', '.join(missing)}; accepted are rows with {', '.join(keys)}")
        place = tuple(row[key] for key in keys)
        if place in seen:
            raise ValueError(f"rows[{i}]: received {place} twice; accepted are rows that differ in {', '.join(keys)}")
        seen.add(place)
    return list(rows)


def experiments() -> dict[str, Experiment]:
    """All experiments by their ids: every module of every paper that has an `EXPERIMENT`."""
    from . import __path__ as root

    found: dict[str, Experiment] = {}
    for paper in pkgutil.iter_modules(root):
        if not paper.ispkg:
            continue
        package = importlib.import_module(f"{__package__}.{paper.name}")
        for module in pkgutil.iter_modules(package.__path__):
            value = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), "EXPERIMENT", None)
            if isinstance(value, Experiment):
                found[value.id] = value
    return found


def find(name: str) -> list[Experiment]:
    """An experiment by its id ("ltt/figure2"), or all of a paper ("ltt").

    Raises:
        ValueError: there is none; the message has what there is.
    """
    known = experiments()
    if chosen := [known[name]] if name in known else [e for e in known.values() if e.id.startswith(f"{name}/")]:
        return chosen
    near = difflib.get_close_matches(name, known, 1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    raise ValueError(f"experiment: received {name!r}{hint}; accepted is one of {', '.join(known)}")
