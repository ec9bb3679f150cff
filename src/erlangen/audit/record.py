"""What an audit has found, and the file that keeps it."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..utils.io import plain, read_json, write_bytes
from .findings import Blindness, Pair, Worst
from .measuring import Value

__all__ = ["FORMAT", "Audit", "Picture", "Result", "is_whole", "read_audit"]

FORMAT = 1


@dataclass(frozen=True)
class Result:
    """What was measured at one step of a ladder.

    Attributes:
        transform: the name of the transformation.
        strength: how much of it, in the unit of the ladder.
        label: the same in words.
        copies: of each input.
        lost: the number of copies in which nothing is left of the image.
        values: the metrics by name; those that could not be measured are missing.
        null: the same of the null control, there and back; empty where there is none.
    """

    transform: str
    strength: float
    label: str
    copies: int
    lost: int
    values: Mapping[str, Value]
    null: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """A worst input: before and after, `(C, H, W)`, and where the model looks, `(1, H, W)`, if that is known."""

    before: Tensor
    after: Tensor
    looks: tuple[Tensor, Tensor] | None


@dataclass(frozen=True)
class Audit:
    """A model, measured.

    Attributes:
        model: its name, preprocessing, and whether it has gradients, gives probabilities, their logarithms or what
            looks like sigmoids, and answers at random.
        data: name, digest, shape, classes, number and labels.
        settings: of the measurement.
        plain: accuracy and calibration of inputs as they are.
        steps: what was measured under each transformation.
        pairs: classes that turn into each other.
        worst: the inputs that move most.
        blindness: whether the model is invariant because it hardly looks.
        notes: what could not be measured, and what to be careful with.
        summary: all of it in a few sentences, by what they are about.
        provenance: where this comes from.
        pictures: of the worst inputs; they are in the report, not in the file.
    """

    model: Mapping[str, Any]
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    plain: Mapping[str, Value]
    steps: Sequence[Result]
    pairs: Sequence[Pair]
    worst: Sequence[Worst]
    blindness: Blindness
    notes: Sequence[str]
    summary: Mapping[str, str]
    provenance: Mapping[str, Any]
    pictures: Sequence[Picture] = ()

    def record(self) -> dict[str, Any]:
        """Everything but the pictures, as plain JSON values."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "pictures"}
        return {"format": FORMAT, "kind": "audit", **{name: plain(value, name) for name, value in fields.items()}}

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes `audit.json` and `report.html` into a folder, and says where they are."""
        from ..report.audit import audit_page

        record, folder = self.record(), Path(os.path.expanduser(folder))
        paths = [folder / "audit.json", folder / "report.html"]
        # Not indented: it holds a number for every input and metric.
        write_bytes(paths[0], json.dumps(record, allow_nan=False).encode() + b"\n")
        shown = [(p.before, p.after, p.looks) for p in self.pictures]
        write_bytes(paths[1], audit_page(record, shown).encode())
        return paths


def read_audit(path: str | os.PathLike[str], *, name: str = "audit") -> dict[str, Any]:
    """The record in an `audit.json`, or in a folder that holds one.

    Args:
        path: of the file or the folder.
        name: what an error calls it.

    Raises:
        ValueError: there is none, it is damaged or of another version; the message says which.
    """
    place = Path(os.path.expanduser(path))
    place = place / "audit.json" if place.is_dir() else place
    if not place.is_file():
        raise ValueError(f"{name}: received {str(path)!r}, which holds no audit; accepted is an audit.json")
    record = read_json(place)
    if not isinstance(record, dict) or record.get("kind") != "audit":
        raise ValueError(f"{name}: received {str(path)!r}, which is something else; accepted is an audit.json")
    if record.get("format") != FORMAT:
        raise ValueError(f"{place}: received the format {record.get('format')!r}; accepted by this version is {FORMAT}")
    if not is_whole(record):
        raise ValueError(f"{place}: damaged, some of it is missing or of another kind; run the audit again")
    return record


def is_whole(record: object) -> bool:
    """Whether this is a record with what is compared: a number (or null) for each input, or for those of saliency."""
    if not isinstance(record, dict):
        return False
    model, data, steps = (record.get(name) for name in ("model", "data", "steps"))
    if not (isinstance(model, dict) and isinstance(data, dict) and isinstance(steps, list) and steps):
        return False
    count, seen = data.get("count"), data.get("seen")
    if not (isinstance(data.get("digest"), str) and type(count) is int and count > 0 and isinstance(seen, list)):
        return False
    return all(type(i) is int and 0 <= i < count for i in seen) and all(map(_whole_step, steps))


def _whole_step(step: object) -> bool:
    if not isinstance(step, dict) or not isinstance(values := step.get("values"), dict):
        return False
    if not all(isinstance(step.get(name), str) for name in ("transform", "label")):
        return False
    inputs = [
        value.get("inputs", 0) if isinstance(value, dict) else 0 for name, value in values.items() if name != "ece"
    ]
    return all(isinstance(each, list) and all(map(_value, each)) for each in inputs)


def _value(v: object) -> bool:
    """Whether something is the value of an input: a number that floating-point can hold, or null."""
    return v is None or isinstance(v, float) or (isinstance(v, int) and abs(v) <= sys.float_info.max)
