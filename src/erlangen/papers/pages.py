"""Tables of the README and of the pages under docs that are made from stored rows."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from ..utils.io import write_bytes
from .base import Claim, Rows, experiments
from .draw import first
from .store import read

__all__ = ["PAGES", "few_digits", "headlines", "ours", "renew", "stated"]

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
DIGITS = {
    "cnn": "classifier alone",
    "stn": "STN",
    "pstn": "P-STN",
    "affine": "augmentation by hand",
    "flow": "flow in the place of the t",
}
MOST = 4  # digits behind the point; smaller numbers have exponents
BEGIN, END = "<!-- from stored results -->\n", "<!-- end -->\n"


def headlines(results: Path) -> str:
    """A table of what was run of the claims that the README quotes."""
    known, lines = experiments(), ["| | paper | ours |", "|---|---|---|"]
    stored = {name: read(known[name], results).rows for name, _ in HEADLINES}
    for (name, what), words in HEADLINES.items():
        claim = next(claim for claim in known[name].paper if claim.what == what)
        if claim.values(stored[name]):
            lines.append(f"| {words} | {claim.paper} | {ours(claim, stored[name])} |")
    return "\n".join(lines) + "\n"


def few_digits(results: Path) -> str:
    """A table of P-STN's table 2: the accuracies of all sizes that were run, and the calibration on 100 digits."""
    rows = read(experiments()["pstn/table2"], results).rows
    sizes = sorted({int(row["dataset"].removeprefix("mnist")) for row in rows})
    lines = ["| | " + "".join(f"{size:,} digits | " for size in sizes) + "calibration error, 100 |"]
    lines.append("|---" * (len(sizes) + 2) + "|")
    for method, words in DIGITS.items():
        found = {size: first(rows, method=method, dataset=f"mnist{size}", part="folds") for size in sizes}
        cells = [f"{row['accuracy']:.1f} ± {row['deviation']:.1f}" if row else "–" for row in found.values()]
        error = f"{found[100]['ece']:.3f}" if found.get(100) else "–"
        lines.append(f"| {' | '.join((words, *cells, error))} |")
    return "\n".join(lines) + "\n"


# By their places, from the folder of the documentation.
PAGES: Mapping[str, Callable[[Path], str]] = {"../README.md": headlines, "spatial-transformers.md": few_digits}


def renew(results: Path, docs: Path) -> list[Path]:
    """Writes the tables anew into the pages that are there, where these say that they go; returns these pages.

    Args:
        results: the folder of the stored rows.
        docs: the folder of the documentation, beside which there may be a README.
    """
    paths = []
    for name, table in PAGES.items():
        page = Path(os.path.normpath(docs / name))
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if end:
            write_bytes(page, (before + begin + table(results) + end + after).encode())
            paths.append(page)
    return paths


def ours(claim: Claim, rows: Rows) -> str:
    """What is stored of a claim: the mean and the deviation over seeds.

    An accuracy that is the mean over folds has the deviation over these beside it, in its row.
    """
    own = [row for row in rows if claim.values([row])]
    if len(own) == 1 and claim.metric == "accuracy" and own[0].get("deviation"):
        return spelled(own[0]["accuracy"], own[0]["deviation"])
    return stated(claim.values(rows))


def stated(values: list[float]) -> str:
    """The mean and the standard deviation, to two digits of the latter."""
    if not values:
        return "not run"
    mean = statistics.fmean(values)
    return spelled(mean, statistics.stdev(values)) if len(values) > 1 else f"{mean:.3g}"


def spelled(mean: float, spread: float) -> str:
    """A mean ± a deviation, to two digits of the latter."""
    digits = 1 - math.floor(math.log10(spread)) if spread > 0 else MOST + 1
    if not 0 <= digits <= MOST:
        return f"{mean:.3g} ± {spread:.2g}"
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"
