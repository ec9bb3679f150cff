"""What happened in a run: rows in memory and on disk, the best of them, and why it ended."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..utils.io import append_jsonl, read_jsonl, write_jsonl

__all__ = ["History", "Log", "read_log"]

LOG = logging.getLogger("erlangen.train")

Row = dict[str, Any]


@dataclass
class History:
    """What `fit` returns, and `fit_many` for each objective.

    Attributes:
        rows: in the order of time, flat. Each has `kind` ("train", "validation" or "alarm"), `step`, `epoch` and
            `seconds`; those of kind "train" also `rate` (inputs per second) and `lr/<group>`.
        best: the best row of validation, or of training where there is none.
        stopped: why it ended: "finished", "patience", "diverged" (of one of several that are trained together), or None
            while it goes on.
        checkpoint: the last good checkpoint.
    """

    rows: list[Row] = field(default_factory=list)
    best: Row | None = None
    stopped: str | None = None
    checkpoint: Path | None = None

    def column(self, name: str, kind: str = "train") -> list[Any]:
        """The values of one column, where rows of that kind have it."""
        return [row[name] for row in self.rows if row["kind"] == kind and name in row]

    @property
    def alarms(self) -> list[str]:
        """What the alarm said."""
        return self.column("message", "alarm")


class Log:
    """The rows on disk, one to a line. A disk that is full stops nothing: what is missing is written later.

    Args:
        path: the file; nothing is written if None.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self._behind = path, False

    def restart(self, step: int) -> list[Row]:
        """The rows up to a step. Later ones, of a run that was killed after its last checkpoint, are removed."""
        if self.path is None or not self.path.is_file():
            return []
        try:
            rows = [row for row in read_log(self.path) if row["step"] <= step]
        except ValueError as error:
            raise ValueError(f"{error}. Remove that line, or the file: training needs neither") from error
        write_jsonl(self.path, rows)
        return rows

    def add(self, rows: list[Row]) -> None:
        """Appends the last of the rows, or writes all of them if some could not be written before."""
        if self.path is None:
            return
        try:
            if self._behind:
                write_jsonl(self.path, rows)
            else:
                append_jsonl(self.path, rows[-1])
        except OSError as error:
            if not self._behind:
                LOG.warning("%s Training goes on, and tries again later.", trouble(f"the log {self.path}", error))
            self._behind = True
        else:
            self._behind = False


def read_log(path: Path) -> list[Row]:
    """The rows of a log.

    Raises:
        ValueError: it has a line that is no such row.
    """
    rows = read_jsonl(path)
    for number, row in enumerate(rows, start=1):
        if "kind" not in row or not all(isinstance(row.get(name), int | float) for name in ("step", "seconds")):
            raise ValueError(f"{path}, row {number}: received {row!r}, accepted is one with kind, step and seconds")
    return rows


def trouble(what: str, error: OSError) -> str:
    """What could not be written, why, and what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{what} cannot be written: {reason}. Make room on the disk."
