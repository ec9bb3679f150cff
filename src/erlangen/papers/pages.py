"""Tables of the README and of the pages under docs that are made from stored rows."""

from __future__ import annotations

import math
import os
import re
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from ..utils.io import write_bytes
from .base import Claim, Row, Rows, experiments
from .draw import first
from .store import read

__all__ = ["PAGES", "TABLES", "headlines", "ours", "renew", "stated", "written"]

# What the README says of them, by the experiment and what a claim is about.
HEADLINES = {
    ("ltt/table1", "cifar10: flow, 20 views"): "CIFAR10, accuracy of Learning to Transform, %",
    ("ltt/table1", "cifar10: ours, 20 views"): "CIFAR10, the same with learned flips and another schedule (ours), %",
    ("ltt/table1", "cifar10-lt: flow, 20 views"): "CIFAR10-LT, accuracy of Learning to Transform, %",
    ("ltt/table1", "cifar10-lt: ours, 20 views"): "CIFAR10-LT, ours, %",
    ("ltt/table1", "fmnist: flow, 20 views"): "Fashion-MNIST, accuracy of Learning to Transform, %",
    ("ltt/table1", "fmnist: flow-code, 20 views"): "Fashion-MNIST, the same as the published code does it, %",
    ("ltt/table1", "fmnist: ours, 20 views"): "Fashion-MNIST, ours, %",
    ("genuine/table1", "R4: da, SI"): "Rotated digits, similarity of saliency maps with augmentation",
    ("genuine/table1", "R4: ir, SI"): "Rotated digits, with invariance regularisation",
    ("genuine/table1", "R4: ir, accuracy"): "Rotated digits, accuracy of regularisation, %",
    ("genuine/table1", "R4: ours, accuracy"): "Rotated digits, accuracy of ours, exactly invariant in one pass, %",
    ("pstn/table2", "MNIST30: pstn, mean of 5 folds"): "30 digits, accuracy of P-STN, %",
    ("pstn/table2", "MNIST100: pstn, mean of 5 folds"): "100 digits, accuracy of P-STN, %",
    ("pstn/table3", "mean over sets: pstn"): "Time series, accuracy of P-STN, mean of four sets, %",
    ("pstn/figure4", "accuracy, P-STN"): "Rotated digits in front of a frozen classifier, accuracy with P-STN, %",
    ("pstn/figure4", "accuracy, flow"): "The same with a flow in its place (ours), %",
    ("sgm/figure8", "five affine coordinates, plain, %"): "Orbits of digits, spread of prototypes, % of the images'",
    ("sgm/figure8", "five affine coordinates, voted, %"): "The same with moments and votes for poses (ours), %",
}
DIGITS = {
    "cnn": "classifier alone",
    "stn": "STN",
    "pstn": "P-STN",
    "affine": "hand-made augmentation",
    "flow": "flow in place of Student's t",
}
TURNED = {
    **{name: DIGITS[name] for name in ("cnn", "stn", "pstn", "flow")},
    "flow-near": "flow that begins near the identity, α = 0.01",
    "flow-wide": "flow that begins wide, α = 0.1",
}
CLOTHES = {"cnn": "classifier, on the original clothes", **{name: DIGITS[name] for name in ("stn", "pstn", "flow")}}
SIGNS = {"cnn": "classifier of whole scenes", "stn": "STN", "pstn": "P-STN", "boxes": "classifier, on the true boxes"}
UPRIGHT = {
    "flow": "the flow of table 1",
    "mean-shift": "mean-shift by that flow, as published",
    "group mean-shift to the end": "the same on the group, until it converges",
    "poses, group mean-shift": "mean-shift by a pose network",
    "poses, gated mean-shift": "the same behind a gate",
}
LABELLED = {
    "none": "no augmentation",
    "affine": "hand-made augmentation, all angles",
    "augerino": "Augerino",
    "lila": "LILA",
    "instaaug": "InstaAug",
    "flow": "flow of Learning to Transform",
    "sgm": "natural variations",
    "sgm-averaged": "the same, and averaged over in prediction",
    "sgm-own": "natural variations, learned from the labelled images alone",
}
CLASSIFIED = {
    "none": "no augmentation",
    "affine": "hand-made augmentation, full ranges",
    "tta": "test-time augmentation, full ranges",
    "augerino": "Augerino",
    "instaaug": "InstaAug",
    "flow": "flow of Learning to Transform",
    "ours": "flow with flips, averaged logits, another schedule (ours)",
}
SETS = {"cifar10": "CIFAR10", "cifar10-lt": "CIFAR10-LT", "fmnist": "Fashion-MNIST", "mnist": "MNIST"}
VIEWS = {"none": 1, "affine": 1}  # those that do not average; the others have 20
MOST = 4  # digits behind the point; smaller numbers have exponents
BLOCK = re.compile(r"<!-- from stored results: ([^\n]+?) -->\n((?!<!-- from stored).)*?<!-- end -->\n", re.DOTALL)


def headlines(results: Path) -> str:
    """A table of what was run of the claims that the README quotes."""
    known, lines = experiments(), _head("paper", "ours")
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
    lines = _head(*(f"{size:,} digits" for size in sizes), "calibration error, 100")
    for method, words in DIGITS.items():
        found = {size: first(rows, method=method, dataset=f"mnist{size}", part="folds") for size in sizes}
        cells = [_spread(row) for row in found.values()]
        error = f"{found[100]['ece']:.3f}" if found.get(100) else "–"
        lines.append(f"| {' | '.join((words, *cells, error))} |")
    return "\n".join(lines) + "\n"


def warped_series(results: Path) -> str:
    """A table of P-STN's table 3: the accuracies on sets of series, and their mean over those of the archive."""
    rows = read(experiments()["pstn/table3"], results).rows
    sets = [name for name in dict.fromkeys(row["dataset"] for row in rows if row["part"] == "all") if name != "mean"]
    lines = _head(*sets, "mean of the official")
    for method in ("cnn", "stn", "pstn"):
        found = [first(rows, method=method, dataset=name, part="all") for name in (*sets, "mean")]
        lines.append(f"| {' | '.join((DIGITS[method], *map(_spread, found)))} |")
    return "\n".join(lines) + "\n"


def placed_clothes(results: Path) -> str:
    """A table of P-STN's figure 7: accuracies, and how well what is seen fits what was placed."""
    columns = {"accuracy": "accuracy, %", "overlap": "overlap with the true box", "distance": "distance, pixels"}
    return _by_method("pstn/figure7", results, CLOTHES, {words: ({}, name) for name, words in columns.items()})


def signs(results: Path) -> str:
    """A table of P-STN's table 1."""
    columns = {"accuracy": "accuracy, %", "nll": "negative log-likelihood", "overlap": "overlap with the true box"}
    return _by_method("pstn/table1", results, SIGNS, {words: ({}, name) for name, words in columns.items()})


def turned_digits(results: Path) -> str:
    """A table of P-STN's figure 4: accuracy and errors of the angle before a frozen classifier."""
    columns = {"accuracy": "accuracy, %", "error": "error of the angle modulo π, rad", "circular": "on the circle"}
    return _by_method("pstn/figure4", results, TURNED, {words: ({}, name) for name, words in columns.items()})


def upright_and_turned(results: Path) -> str:
    """A table of LTT's figure 7c: accuracies of photographs as they are, and rotated by 90°."""
    columns = {"upright, %": ({"angle": 0}, "accuracy"), "rotated by 90°, %": ({"angle": 90}, "accuracy")}
    return _by_method("ltt/figure7c", results, UPRIGHT, columns)


def classified(results: Path) -> str:
    """A table of LTT's table 1: accuracies with 20 views."""
    rows, lines = read(experiments()["ltt/table1"], results).rows, _head(*SETS.values())
    for method, words in CLASSIFIED.items():
        same = {"method": method, "samples": VIEWS.get(method, 20)}
        cells = [_cell(Claim("accuracy", name, {**same, "dataset": name}).values(rows)) for name in SETS]
        lines.append(f"| {' | '.join((words, *cells))} |")
    return "\n".join(lines) + "\n"


def labels(results: Path) -> str:
    """A table of natural variations as augmentation."""
    columns = {f"{n:,} labels": ({"labels": n}, "accuracy") for n in (100, 1000, 10_000)}
    return _by_method("sgm/augmentation", results, LABELLED, columns)


def _by_method(
    name: str, results: Path, methods: Mapping[str, str], columns: Mapping[str, tuple[Mapping[str, object], str]]
) -> str:
    """A line for each method that was run; in each column the mean and the deviation over seeds of some rows."""
    rows, lines = read(experiments()[name], results).rows, _head(*columns)
    for method, words in methods.items():
        claims = [Claim(metric, head, {"method": method, **where}) for head, (where, metric) in columns.items()]
        cells = [_cell(claim.values(rows)) for claim in claims]
        if set(cells) != {"–"}:
            lines.append(f"| {' | '.join((words, *cells))} |")
    return "\n".join(lines) + "\n"


def _cell(values: list[float]) -> str:
    """Mean and deviation over runs, if any, with one digit behind the point; of small numbers with three."""
    if not values:
        return "–"
    mean, digits = statistics.fmean(values), 1 if max(values) >= 10 else 3
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if spread > 0 else "")


def _spread(row: Row | None) -> str:
    """An accuracy and its deviation over folds or repetitions, which a mean over sets has not."""
    if row is None:
        return "–"
    return f"{row['accuracy']:.1f}" + (f" ± {row['deviation']:.1f}" if "deviation" in row else "")


def _head(*columns: str) -> list[str]:
    return [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]


TABLES: Mapping[str, Callable[[Path], str]] = {
    "headlines": headlines,
    "few digits": few_digits,
    "turned digits": turned_digits,
    "placed clothes": placed_clothes,
    "signs": signs,
    "warped series": warped_series,
    "upright and turned": upright_and_turned,
    "labels": labels,
    "classified": classified,
}
# By their places, from the folder of the documentation.
PAGES = ("../README.md", "choose.md", "learning-to-transform.md", "series.md", "sgm.md", "spatial-transformers.md")


def written(text: str, results: Path) -> str:
    """A page whose tables say what is stored; each stands between the names of its table and of its end."""

    def block(found: re.Match[str]) -> str:
        if found[1] not in TABLES:
            raise ValueError(f"table: received {found[1]!r}; accepted are {', '.join(TABLES)}")
        return f"<!-- from stored results: {found[1]} -->\n{TABLES[found[1]](results)}<!-- end -->\n"

    return BLOCK.sub(block, text)


def renew(results: Path, docs: Path) -> list[Path]:
    """Writes the tables anew into the pages that are there, where these say that they go; returns these pages.

    Args:
        results: the folder of the stored rows.
        docs: the folder of the documentation, beside which there may be a README.
    """
    paths = []
    for name in PAGES:
        page = Path(os.path.normpath(docs / name))
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        if BLOCK.search(text):
            write_bytes(page, written(text, results).encode())
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
    """The mean and the standard deviation, to two digits of the latter; one value alone, to three of its own."""
    if not values:
        return "not run"
    mean = statistics.fmean(values)
    if len(values) > 1:
        return spelled(mean, statistics.stdev(values))
    return f"{mean:.3g}" if mean == round(mean) else f"{mean:#.3g}".rstrip(".")


def spelled(mean: float, spread: float) -> str:
    """A mean ± a deviation, to two digits of the latter."""
    digits = 1 - math.floor(math.log10(spread)) if spread > 0 else MOST + 1
    if not 0 <= digits <= MOST:
        return f"{mean:.3g} ± {spread:.2g}"
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"
