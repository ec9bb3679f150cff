"""The folder of a `SymmetryFinder`: settings and weights, beside the log and checkpoints of its training."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from ..utils.io import plain, read_json, write_json
from .runs import CONFIG, WEIGHTS, load_weights, save_weights

__all__ = ["REPORT", "begin", "finish", "read_finder"]

FORMAT = "symmetries-1"
REPORT = ("symmetries.html", "symmetries.json")  # what `Symmetries.save` writes
KEPT = {"network": "network", "anchored": "anchored", "shape": "X"}  # entries that may not change, and their arguments
PARTS = {"ranges", "settings", "network", "anchored", "ground", "shape", "digest"}


def begin(folder: Path, record: Mapping[str, Any], *, resume: bool) -> dict[str, Any]:
    """Makes a folder ready: writes the settings into it, or checks that they are those that its run began with.

    Returns:
        The record in the folder, such as the ground that the run goes on with.

    Raises:
        FileExistsError: the folder holds a run that was not finished, or another one, and `resume` is False.
        ValueError: settings or images are not those that the run began with.
    """
    content: Any = plain({"format": FORMAT, **record})
    there = (folder / CONFIG).is_file()
    if there and resume:
        was = _read(folder)
        _check_same(folder, was, content)
        return was
    if there:
        _clear(folder)
    write_json(folder / CONFIG, content)
    return content


def finish(folder: Path, model: nn.Module, facts: Mapping[str, str]) -> None:
    """Writes the weights, and the facts about the training."""
    write_json(folder / CONFIG, {**_read(folder), "facts": dict(facts)})
    save_weights(folder, model)


def read_finder(
    folder: Path, network: Mapping[str, Any], settings: Sequence[str]
) -> tuple[dict[str, Any], Callable[[nn.Module], None]]:
    """The record of a finder that was fitted, and a function that puts its weights into a model.

    Args:
        folder: the folder.
        network: the settings of networks in this version.
        settings: the names of the settings that this version knows.
    """
    if not (folder / CONFIG).is_file():
        accepted = "a folder that a SymmetryFinder was fitted with"
        raise ValueError(f"folder: received {str(folder)!r}, which holds no run; accepted is {accepted}")
    record = _read(folder)
    if not (folder / WEIGHTS).is_file():
        got = f"{str(folder)!r}, which has no {WEIGHTS}: it was not finished"
        raise ValueError(f"folder: received {got}; go on with it: resume=True")
    if unknown := sorted(set(record["settings"]) - set(settings)):
        got = f"{str(folder)!r}, whose {CONFIG} has the settings {', '.join(unknown)}"
        raise ValueError(f"folder: received {got}; accepted by this version are {', '.join(settings)}")
    if "facts" not in record:
        raise ValueError(f"folder: received {str(folder)!r}, whose {CONFIG} lacks facts; accepted is one not damaged")
    if record["network"] != network:
        got = f"{str(folder)!r} with the network {record['network']}"
        raise ValueError(f"folder: received {got}; accepted by this version is {dict(network)}")
    return record, lambda model: load_weights(folder, model)


def _read(folder: Path) -> dict[str, Any]:
    record = read_json(folder / CONFIG)
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        got = f"{str(folder)!r}, whose {CONFIG} is not that of a SymmetryFinder"
        raise ValueError(f"folder: received {got}; accepted is one that it was fitted with, or a new one")
    lacks = PARTS - {name for name in record if name not in ("ranges", "settings") or isinstance(record[name], dict)}
    if lacks:
        got = f"{str(folder)!r}, whose {CONFIG} lacks {', '.join(sorted(lacks))}"
        raise ValueError(f"folder: received {got}; accepted is one of this version that is not damaged")
    return {"noise": 0.0, **record}  # older runs have none


def _check_same(folder: Path, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    # Ranges as lists: poses have one column for each coordinate, in this order.
    pairs = [("transform", list(was["ranges"].items()), list(now["ranges"].items()))]
    pairs += [(name, was["settings"].get(name), value) for name, value in now["settings"].items()]
    pairs += [(called, was[name], now[name]) for name, called in KEPT.items()]
    for called, before, after in pairs:
        if before != after:
            began = f"the run in {str(folder)!r} began with {_told(before)}"
            raise ValueError(f"{called}: received {_told(after)}, but {began}; accepted is the same")
    if was["digest"] != now["digest"]:
        raise ValueError(f"X: received other images than the run in {str(folder)!r} began with")


def _told(value: Any) -> str:
    """Coordinates with their ranges, in their order; anything else as it is."""
    if not isinstance(value, list) or not all(isinstance(one, tuple) for one in value):
        return str(value)
    return ", ".join(f"{name}:{low:.4g}:{high:.4g}" for name, (low, high) in value)


def _clear(folder: Path) -> None:
    """Removes a run that was finished, and its report, which must not stand beside the run that replaces it."""
    _read(folder)
    if not (folder / WEIGHTS).is_file():
        why = "holds a run that was not finished; accepted is another folder, or the same with resume=True to go on"
        raise FileExistsError(f"folder: received {str(folder)!r}, which {why}")
    for name in (WEIGHTS, CONFIG, "log.jsonl", *REPORT):
        (folder / name).unlink(missing_ok=True)
    for part in (folder / "checkpoint", *folder.glob("collapsed-*")):
        shutil.rmtree(part, ignore_errors=True)
