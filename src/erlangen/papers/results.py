"""docs/results.md: what the papers print and what we computed, side by side, from stored rows."""

from __future__ import annotations

import importlib
import math
import statistics
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from ..utils.io import plain, write_bytes
from .base import Claim, Experiment, Rows, experiments
from .draw import png
from .store import Results, path_of, read

__all__ = ["headlines", "redraw", "section", "stated"]

SET_BY_HAND = {"seed", "device", "datasets", "methods"}  # what a run is told
LEAD = """# Results

Numbers that the papers print or imply, and ours. `erlangen reproduce <experiment>` computes rows, `erlangen reproduce
--report` makes this page from them. *Ours* is the mean ± the standard deviation over seeds; *met* counts the seeds for
which what is asked holds. *Scale* is the number of transformed inputs in training, as a share of the published code's.
"""

# What the README says of them, by the experiment and what a claim is about.
HEADLINES = {
    ("ltt/table1", "cifar10: flow, 20 views"): "CIFAR10, accuracy of Learning to Transform, %",
    ("ltt/table1", "cifar10: ours, 20 views"): "CIFAR10, the same with learned flips and another schedule (ours), %",
    ("ltt/table1", "cifar10-lt: flow, 20 views"): "CIFAR10-LT, accuracy of Learning to Transform, %",
    ("ltt/table1", "cifar10-lt: ours, 20 views"): "CIFAR10-LT, ours, %",
    ("genuine/table1", "R4: da, SI"): "Turned digits, similarity of saliency maps with augmentation",
    ("genuine/table1", "R4: ir, SI"): "Turned digits, with invariance regularisation",
    ("genuine/table1", "R4: ir, accuracy"): "Turned digits, accuracy of regularisation, %",
    ("genuine/table1", "R4: ours, accuracy"): "Turned digits, accuracy of ours, exactly invariant in one pass, %",
    ("pstn/table2", "MNIST30: pstn, mean of 5 folds"): "30 digits, accuracy of P-STN, %",
    ("pstn/table2", "MNIST100: pstn, mean of 5 folds"): "100 digits, accuracy of P-STN, %",
}
MOST = 4  # digits behind the point; smaller numbers have exponents
BEGIN, END = "<!-- from stored results -->\n", "<!-- end -->\n"


def headlines(results: Path) -> str:
    """A table of what was run of the claims that the README quotes."""
    known, lines = experiments(), ["| | paper | ours |", "|---|---|---|"]
    stored = {name: read(known[name], results).rows for name, _ in HEADLINES}
    for (name, what), words in HEADLINES.items():
        claim = next(claim for claim in known[name].paper if claim.what == what)
        if values := claim.values(stored[name]):
            lines.append(f"| {words} | {claim.paper} | {stated(values)} |")
    return "\n".join(lines) + "\n"


def redraw(results: Path, docs: Path, tell: Callable[[float, str], None] = lambda share, what: None) -> list[Path]:
    """Writes `results.md` and its figures from the result files, and returns what it wrote.

    A README beside the folder of the documentation has its headlines renewed, where it says that they go.
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
    readme = docs.parent / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if end:
        write_bytes(readme, (before + begin + headlines(results) + end + after).encode())
        paths.append(readme)
    return [page, *paths]


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
    met = f"{sum(map(claim.holds, values))} of {len(values)}" if asked and values else "–"
    return f"| {claim.what} | {claim.paper} | {claim.asked} | {stated(values)} | {met} |"


def stated(values: list[float]) -> str:
    """The mean and the standard deviation, to two digits of the latter."""
    if not values:
        return "not run"
    mean, spread = statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None
    if spread is None:
        return f"{mean:.3g}"
    digits = 1 - math.floor(math.log10(spread)) if spread > 0 else MOST + 1
    if not 0 <= digits <= MOST:
        return f"{mean:.3g} ± {spread:.2g}"
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _origin(experiment: Experiment, stored: Results) -> str:
    if not stored.rows:
        return f"Not run: `erlangen reproduce {experiment.id} --device cuda --seeds 5`."
    about = [run["provenance"] for run in stored.runs]
    seconds = sum(a["seconds"] or 0 for a in about)
    commits = ", ".join(sorted({(a["commit"] or "unknown")[:10] + ("*" if a["dirty"] else "") for a in about}))
    names = ", ".join(sorted({a["device_name"] for a in about}))
    scales = sorted({row["scale"] for row in stored.rows if row.get("scale") is not None})
    scale = f"{scales[0]:.0%}" if len(set(scales)) == 1 else f"{scales[0]:.0%} to {scales[-1]:.0%}"
    file = path_of(experiment, Path("results")).as_posix()
    day = max(a["time"] for a in about)[:10]
    line = f"{len(about)} runs, {seconds:.0f} s on {names}, {day}, commit {commits}; scale {scale}; rows: `{file}`."
    return line + _otherwise(experiment, stored)


def _otherwise(experiment: Experiment, stored: Results) -> str:
    """Which settings stored runs had that a run would not have now; settings that came later are left out."""
    now, had = _leaves(plain(experiment.full)), Counter[str]()
    for run in stored.runs:
        was = _leaves(run["config"])
        had.update(f"{name} {was[name]}" for name in now.keys() & was.keys() - SET_BY_HAND if was[name] != now[name])
    told = ", ".join(f"{what} ({count} runs)" for what, count in sorted(had.items()))
    return f" Settings other than now: {told}." if told else ""


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Plain values by their dotted names; lists count as values."""
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, part in value.items() for k, v in _leaves(part, f"{name}.{key}" if name else key).items()}
