"""Result files: rows with the runs that they come from, arrays beside them, and what a new run replaces.

`results/<paper>/<artefact>.json` is `{"experiment": id, "runs": [{"id", "config", "provenance"}, …], "rows": […]}`,
each row naming its run. Arrays of rows (images, curves) are in the `.npz` of the same name, by the row's keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.files import alone
from ..utils.io import plain, provenance, read_json, write_json, write_npz
from .base import Experiment, Row

__all__ = ["Results", "Run", "as_bytes", "merge", "read", "record", "write"]

Run = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """What is stored of an experiment; rows have their arrays as columns."""

    runs: list[Run] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def record(config: Any, rows: Sequence[Row], *, device: str, seconds: float) -> Results:
    """A run and its rows, with provenance."""
    run = uuid.uuid4().hex[:12]
    about = provenance(config, device=device, seconds=seconds)
    settings = about.pop("config")
    return Results([{"id": run, "config": settings, "provenance": about}], [{**row, "run": run} for row in rows])


def as_bytes(x: Tensor) -> np.ndarray:
    """Images in [0, 1] as they are kept for a figure, in uint8."""
    return (x.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()


def merge(old: Results, new: Results, keys: Sequence[str]) -> Results:
    """The old rows but those that a new one replaces, and the new ones; runs without rows are forgotten."""
    fresh = {place(row, keys) for row in new.rows}
    rows = [row for row in old.rows if place(row, keys) not in fresh] + new.rows
    used, runs = {row["run"] for row in rows}, {run["id"]: run for run in (*old.runs, *new.runs)}
    return Results([run for name, run in runs.items() if name in used], rows)


def place(row: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, ...]:
    """What tells a row from the others; its text, so that a row is the same before and after it was on the disk."""
    return tuple(str(plain(row.get(key))) for key in keys)


def path_of(experiment: Experiment, folder: Path) -> Path:
    """Where the results of an experiment are."""
    return folder / f"{experiment.stored}.json"


def read(experiment: Experiment, folder: Path) -> Results:
    """What is stored, and what compares its rows; nothing if there is no file.

    Raises:
        ValueError: it is a folder or another file, or arrays that its rows have are missing or damaged.
    """
    stored = _read(experiment, folder)
    return Results(stored.runs, experiment.compare([dict(row) for row in stored.rows]))


def _read(experiment: Experiment, folder: Path) -> Results:
    path = path_of(experiment, folder)
    if path.is_dir():
        raise ValueError(f"{path}: received a folder; accepted is a file of results, or none")
    if not path.is_file():
        return Results()
    content = read_json(path)
    if not _is_of(experiment, content):
        raise ValueError(f"{path}: received another kind of file; accepted are the results of {experiment.stored}")
    remedy = f"restore it, or remove {path} and run {experiment.id} again"
    arrays = _arrays(path.with_suffix(".npz"), remedy)
    rows: list[Row] = []
    for row in content["rows"]:
        names, row = row.get("arrays") or "", {name: value for name, value in row.items() if name != "arrays"}
        for name in filter(None, names.split(",")):
            key = "/".join((*place(row, experiment.keys), name))
            if key not in arrays:
                raise ValueError(f"{path.with_suffix('.npz')}: has no {key!r}; {remedy}")
            row[name] = arrays[key]
        rows.append(row)
    return Results(content["runs"], rows)


def write(experiment: Experiment, folder: Path, new: Results) -> Path:
    """Stores a run: rows with the same keys are replaced, others stay. Each file is replaced in one step.

    Of several processes that store at the same time each waits for the others, and no row is lost.
    """
    path = path_of(experiment, folder)
    with alone(path):
        _write(experiment, path, merge(_read(experiment, folder), new, experiment.keys))
    return path


def _write(experiment: Experiment, path: Path, results: Results) -> None:
    rows, arrays = [], {}
    for row in results.rows:
        own = {name: value for name, value in row.items() if isinstance(value, np.ndarray)}
        flat = {name: value for name, value in row.items() if name not in own}
        arrays |= {"/".join((*place(row, experiment.keys), name)): value for name, value in own.items()}
        rows.append({**flat, "arrays": ",".join(own)} if own else flat)
    if arrays:
        write_npz(path.with_suffix(".npz"), arrays)
    write_json(path, {"experiment": experiment.stored, "runs": results.runs, "rows": rows})


def _is_of(experiment: Experiment, content: Any) -> bool:
    """Whether a file has rows and runs of an experiment."""
    if not isinstance(content, dict) or content.get("experiment") != experiment.stored:
        return False
    parts = ((content.get("runs"), "id"), (content.get("rows"), "run"))
    return all(isinstance(p, list) and all(isinstance(x, dict) and name in x for x in p) for p, name in parts)


def _arrays(path: Path, remedy: str) -> dict[str, np.ndarray]:
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return dict(file)
    except Exception as error:  # a damaged archive fails in any way
        raise ValueError(f"{path}: received a file that is damaged ({error}); {remedy}") from error
