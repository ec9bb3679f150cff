"""What a trained run can do, measured, and the report that shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import DataSet
from ..distributions import Dirac
from ..objectives import METHODS
from ..report.canvas import Progress, pixels
from ..report.run import Findings, run_page
from ..report.run_figures import Accuracy, Coordinate, Example
from ..report.sparkline import series_picture
from ..utils.io import plain, provenance, read_jsonl, write_bytes
from ..utils.seeds import seeded
from ..utils.words import several
from .runs import Run, as_floats, write_record
from .setting import Setting
from .sources import some

__all__ = ["half_ranges", "measure", "write_report"]

LOOKED_AT = 2000  # inputs of the training and of the validation set; the test set is whole
SHOWN, VIEWS, SAMPLES = 6, 9, 2000  # images, views of each, and samples of their distributions
CLASSES, PER_CLASS, POINTS = 20, 40, 500  # classes whose ranges are shown, images of each, and samples for an image


def write_report(run: Run, setting: Setting, progress: Progress | None = None) -> Run:
    """Measures a run and writes `report.html`, and its accuracy into `config.json`."""
    findings = measure(run, setting, progress)
    record = {**run.record, "results": {"accuracy": [plain(row) for row in findings.accuracy]}}
    write_bytes(run.folder / "report.html", run_page(findings).encode())
    write_record(run.folder, record)
    return replace(run, record=record)


def measure(run: Run, setting: Setting, progress: Progress | None = None) -> Findings:
    """Accuracies, distributions, views and ranges.

    Args:
        run: what was trained.
        setting: with its data.
        progress: called with the share done, from 0 to 1, and what is being done.
    """
    tell, method = progress or (lambda share, what: None), METHODS[run.config.method]
    accuracy = []
    held = None if setting.validation is None else some(setting.validation, LOOKED_AT)
    parts = {"test": setting.test, "validation": held, "training": some(setting.train, LOOKED_AT)}
    for k, (name, part) in enumerate(parts.items()):
        if part is not None:
            tell(0.25 * k, f"accuracy on the {name} set")
            accuracy.append(_accuracy(run, name, part))
    shown = setting.test or setting.validation or setting.train
    tell(0.75, "distributions")
    views = run.config.method != "none"
    ranges, labels = _ranges(run, shown) if method.learned else (np.zeros((0, 0)), np.zeros(0, int))
    return Findings(
        title=f"{setting.about['name']}: {run.config.method}",
        lead=f"{method.about} {_lead(run, setting)}",
        facts=_facts(run, setting),
        accuracy=accuracy,
        history=_history(run.folder),
        coordinates=_coordinates(run),
        learned=method.learned,
        examples=_examples(run, shown) if views else (),
        half_ranges=ranges,
        labels=labels,
        classes=run.classes,
        kinds=_kinds(setting),
        code=_code(run.folder),
        about=provenance(device=run.model.transform.bounds.device),
    )


def _accuracy(run: Run, name: str, data: DataSet) -> Accuracy:
    y = data.y.cpu()

    def share(averaged: bool) -> float:
        return float((run.log_probs(data.x, averaged=averaged).argmax(-1).cpu() == y).double().mean())

    return Accuracy(name, len(data), share(False), share(True) if run.averages else None)


def _history(folder: Path) -> list[dict[str, Any]]:
    path = folder / "log.jsonl"
    return read_jsonl(path) if path.is_file() else []  # a full disk takes none, and users remove it


def _coordinates(run: Run) -> list[Coordinate]:
    transform = run.model.transform
    ends = transform.bounds.double().T.tolist()
    kinds = zip(transform.names, ends, transform.periodic, transform.origin.tolist(), strict=True)
    return [Coordinate(name, low, high, periodic, origin) for name, (low, high), periodic, origin in kinds]


@torch.no_grad()
def _examples(run: Run, data: DataSet) -> list[Example]:
    """One image of each of several classes, or more of each if they are few."""
    chosen = data.subset(_spread(data, SHOWN))
    x = as_floats(chosen.x, run.model.transform.bounds)
    probabilities = run.log_probs(chosen.x).exp()
    best = probabilities.max(-1)
    with seeded(run.config.seed):
        v = run.model.conditional(x).sample((SAMPLES,))
        views = run.model.transform(x, v[:VIEWS])
    return [
        Example(
            _bytes(x[i]),
            run.classes[int(chosen.y[i])],
            run.classes[int(best.indices[i])],
            float(best.values[i]),
            v[:, i].double().cpu().numpy(),
            [_bytes(view) for view in views[:, i]],
        )
        for i in range(len(x))
    ]


def _spread(data: DataSet, n: int) -> Tensor:
    """Indices of images, the classes in turn."""
    y, found = data.y.cpu(), []
    present = [c for c, count in enumerate(data.counts()) if count]
    step = max(1, len(present) / n)
    chosen = [present[int(k * step)] for k in range(min(n, len(present)))]
    members = {c: (y == c).nonzero().flatten().tolist() for c in chosen}
    for turn in range(-(-n // len(chosen))):
        found += [members[c][turn] for c in chosen if turn < len(members[c])]
    return torch.tensor(sorted(found[:n], key=lambda i: int(y[i])))


def _bytes(image: Tensor) -> np.ndarray:
    """An image in [0, 1], or a picture of a series, as `(H, W, 3)` bytes."""
    if image.ndim == 2:
        return series_picture(image.detach().cpu().double().numpy())
    return pixels(image)


@torch.no_grad()
def _ranges(run: Run, data: DataSet) -> tuple[np.ndarray, np.ndarray]:
    y, transform = data.y.cpu(), run.model.transform
    present = [c for c, count in enumerate(data.counts()) if count][:CLASSES]
    index = torch.cat([(y == c).nonzero().flatten()[:PER_CLASS] for c in present])
    chosen = data.subset(index)
    found = []
    with seeded(run.config.seed):
        for part in chosen.x.split(256):
            v = run.model.conditional(as_floats(part, transform.bounds)).sample((POINTS,))
            found.append(half_ranges(v, transform.bounds, transform.periodic))
    return torch.cat(found).double().cpu().numpy(), chosen.y.cpu().numpy()


def half_ranges(v: Tensor, bounds: Tensor, periodic: tuple[bool, ...], share: float = 0.98) -> Tensor:
    """Half the length of the shortest range, on a circle the shortest arc, that holds a share of the samples.

    Shape:
        v: `(S, B, d)`; bounds: `(2, d)`; result: `(B, d)`.
    """
    ordered = v.sort(0).values
    held = math.ceil(share * len(v))
    found = []
    for k, wraps in enumerate(periodic):
        column, period = ordered[..., k], bounds[1, k] - bounds[0, k]
        if wraps:
            column = torch.cat((column, column[: held - 1] + period))
        found.append((column[held - 1 :] - column[: len(column) - held + 1]).amin(0) / 2)
    return torch.stack(found, -1)


def _kinds(setting: Setting) -> tuple[str, str]:
    """What the data are, one and many."""
    return ("image", "images") if len(setting.about["shape"]) == 3 else ("series", "series")


def _lead(run: Run, setting: Setting) -> str:
    n, (_, *size) = len(setting.train), setting.about["shape"]
    kind = f"images of {size[0]}×{size[1]} pixels" if len(size) == 2 else f"series of {size[0]} moments"
    names = ", ".join(run.model.transform.names)
    what = "" if run.config.method == "none" else f" Coordinates: {names}."
    return f"Trained on {n:,} {kind} in {len(run.classes)} classes.{what}"


def _facts(run: Run, setting: Setting) -> Mapping[str, str]:
    config, rows = run.config, _history(run.folder)
    steps = max((row["step"] for row in rows), default=0)
    seconds = max((row["seconds"] for row in rows), default=0.0)
    ranges = [
        f"{c.name} {c.low * c.unit:.4g} to {c.high * c.unit:.4g}{c.sign}{' (whole circle)' if c.periodic else ''}"
        for c in _coordinates(run)
    ]
    weights = sum(p.numel() for p in run.model.model.parameters())
    training = f"{steps:,} steps of {config.batch_size} {_kinds(setting)[1]}"
    if config.method not in ("none", "tta"):
        training += f", {_views(run, config.samples)} each"
    skipped = len(setting.about["skipped"])
    facts = {
        "data": f"{config.data}: {', '.join(f'{sum(n):,} {name}' for name, n in setting.about['counts'].items())}",
        "classes": ", ".join(run.classes[:12]) + (", …" if len(run.classes) > 12 else ""),
        "method": config.method,
        "transform": "" if config.method == "none" else "; ".join(ranges),
        "classifier": f"{config.net}, {weights:,} parameters",
        "training": f"{training}, in {seconds:.0f} s",
        "evaluation": _views(run, config.eval_samples) if run.averages else f"{_kinds(setting)[1]} as they are",
        "alpha": "" if config.alpha is None else f"{config.alpha:g}",
        "entropy": "" if config.entropy is None else _entropy(config.entropy, rows),
        "seed": str(config.seed),
        "left out": f"{skipped} file{'s' * (skipped != 1)} that cannot be read" if skipped else "",
    }
    return {name: value for name, value in facts.items() if value}


def _views(run: Run, count: int) -> str:
    """How many there are of an input: a point gives one, however many are asked for."""
    count = 1 if isinstance(run.model.conditional, Dirac) else count
    return several(count, "view")


def _entropy(target: float, rows: list[dict[str, Any]]) -> str:
    """The entropy to hold, and the last of training: it may stay above its target, since weights are not negative."""
    found = [row["entropy"] for row in rows if row["kind"] == "train" and row.get("entropy") is not None]
    return f"target {target:g} nats" + (f", reached {found[-1]:.3g}" if found else "")


def _code(folder: Path) -> str:
    return "\n".join(
        (
            "from erlangen.estimators import load_run",
            f"run = load_run({folder.as_posix()!r})",
            "run.classes[run.predict(x)[0]]  # x: images (B, C, H, W), uint8 or in [0, 1], or series (B, C, L)",
        )
    )
