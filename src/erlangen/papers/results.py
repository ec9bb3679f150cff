"""docs/results.md: what the papers print and what we computed, side by side, from stored rows."""

from __future__ import annotations

import importlib
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ..utils.io import plain, write_bytes
from ..utils.words import percent, several
from .base import Claim, Experiment, Rows, experiments
from .draw import png
from .pages import ours, renew
from .store import Results, path_of, read

__all__ = ["redraw", "section"]

SET_BY_HAND = {"seed", "device", "datasets", "methods"}  # what a run is told, beside what is computed apart
LEAD = """# Results

The numbers that the papers print or imply, beside ours. `erlangen reproduce <experiment>` computes rows, `erlangen
reproduce --report` makes this page from them. *Ours* is the mean ± the standard deviation over seeds, or over folds
where that is said; *asked* is our criterion, and *met* says whether the mean meets it, and for how many seeds it holds.
*Scale* is the number of transformed inputs in training, as a share of the published code's.
"""


def redraw(results: Path, docs: Path, tell: Callable[[float, str], None] = lambda share, what: None) -> list[Path]:
    """Writes `results.md` and its figures from the result files, and returns what it wrote.

    The tables of other pages that come from stored rows are renewed as well, see `renew`.
    """
    known, paths, parts = experiments(), [], [LEAD]
    for paper, group in groupby(sorted(known), lambda name: name.partition("/")[0]):
        about = (importlib.import_module(f"{__package__}.{paper}").__doc__ or paper).strip().partition("\n")[0]
        parts.append(f"## {paper}: {about}\n")
        for name in group:
            experiment = known[name]
            stored, image = read(experiment, results), docs / "images" / f"{name.replace('/', '-')}.png"
            if stored.rows:
                write_bytes(image, png(experiment.show(stored.rows)))
                paths.append(image)
            else:
                image.unlink(missing_ok=True)
            parts.append(section(experiment, stored, f"images/{image.name}"))
            tell(len(parts) / (len(known) + 2), name)
    page = docs / "results.md"
    write_bytes(page, "\n".join(parts).encode())
    return [page, *paths, *renew(results, docs)]


def section(experiment: Experiment, stored: Results, image: str) -> str:
    """One experiment: what it is about, its figure, its table, and where the rows come from."""
    _, _, rest = experiment.about.strip().partition("\n")
    lines = [f"### {experiment.id}\n", f"**{experiment.title}**\n", rest.strip() + "\n"]
    if stored.rows:
        lines.append(f"![{experiment.id}]({image})\n")
    lines += ["| what | paper | asked | ours | met |", "|---|---|---|---|---|"]
    lines += [_line(claim, stored.rows) for claim in experiment.paper]
    return "\n".join([*lines, "", _origin(experiment, stored), ""])


def _line(claim: Claim, rows: Rows) -> str:
    values = claim.values(rows)
    asked = claim.low is not None or claim.high is not None
    met = "–"
    if asked and values:
        met = "yes" if claim.holds(statistics.fmean(values)) else "no"
        met += f", {sum(map(claim.holds, values))} of {len(values)}" if len(values) > 1 else ""
    return f"| {claim.what} | {claim.paper} | {claim.asked} | {ours(claim, rows)} | {met} |"


def _origin(experiment: Experiment, stored: Results) -> str:
    if not stored.rows:
        return f"Not run: `erlangen reproduce {experiment.id} --device cuda --seeds 5`."
    about = [run["provenance"] for run in stored.runs]
    seconds = sum(a["seconds"] or 0 for a in about)
    commits = ", ".join(sorted({(a["commit"] or "unknown")[:10] + ("*" if a["dirty"] else "") for a in about}))
    names = ", ".join(sorted({a["device_name"] for a in about}))
    scales = sorted({row["scale"] for row in stored.rows if row.get("scale") is not None})
    scale = " to ".join(percent(share) for share in dict.fromkeys((scales[0], scales[-1])))
    file = path_of(experiment, Path("results")).as_posix()
    day = max(a["time"] for a in about)[:10]
    took = f"{several(len(about), 'run')}, {seconds:.0f} s"
    line = f"{took} on {names}, {day}, commit {commits}; scale {scale}; rows: `{file}`."
    return line + _otherwise(experiment, stored)


def _otherwise(experiment: Experiment, stored: Results) -> str:
    """Where the settings of stored runs differ from those of now; newer settings count unless they are at defaults."""
    now, usual, had = _leaves(plain(experiment.full)), _usual(experiment.full), Counter[str]()
    chosen = SET_BY_HAND.union(experiment.apart)
    for run in stored.runs:
        was = _leaves(run["config"])
        had.update(f"{name} {was[name]}" for name in now.keys() & was.keys() - chosen if was[name] != now[name])
        had.update(f"no {name}" for name in now.keys() - was.keys() - usual)
    told = ", ".join(f"{what} ({several(count, 'run')})" for what, count in sorted(had.items()))
    return f" Settings other than now: {told}." if told else ""


def _usual(config: Any, name: str = "") -> set[str]:
    """The dotted names of the settings at their defaults, which stand for what was done before there were such."""
    found = set[str]()
    for field in fields(config) if is_dataclass(config) else ():
        value, whole = getattr(config, field.name), f"{name}.{field.name}" if name else field.name
        found |= {whole} if value == field.default else set()
        found |= _usual(value, whole)
    return found


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Plain values by their dotted names; lists count as values."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, part in value.items() for k, v in _leaves(part, f"{name}.{key}" if name else key).items()}
