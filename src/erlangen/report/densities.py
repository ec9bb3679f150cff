"""The figures and tables of docs/distributions.md, drawn from stored rows."""

from __future__ import annotations

import errno
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from PIL import Image as Pillow

from ..utils.io import read_json
from .canvas import Canvas, Progress, write_figures
from .style import ACCENT, COLOURS, INK, MUTED
from .targets import PROBLEMS

__all__ = ["densities", "divergence_table", "families_picture", "quadrature_picture", "summary"]

Rows = Sequence[Mapping[str, Any]]

# Left: each coordinate by itself, one range or one bump. Right: coordinates that depend on each other, several modes.
BLOCKS = (
    ("each coordinate by itself", ("Dirac", "GlobalUniform", "MeanFieldUniform", "Gaussian", "StudentT")),
    ("jointly", ("Categorical", "Mixture", "RealNVP", "SplineFlow")),
)
SIDE, GAP, LABEL, HEADER, BELOW = 120, 22, 148, 76, 34
BLOCK = LABEL + len(PROBLEMS) * (SIDE + GAP)
HEAT = LinearSegmentedColormap.from_list("heat", ["#ffffff", "#cfe3ec", COLOURS[0], INK])
FAILED = 0.5  # nats


def summary(rows: Rows) -> dict[tuple[str, str], list[float]]:
    """The divergences KL(q‖p) of each family and problem, sorted; none where there is no density."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        values = found.setdefault((row["family"], row["problem"]), [])
        if row["kl"] is not None:
            values.append(row["kl"])
    return {key: sorted(values) for key, values in found.items()}


def divergence_table(rows: Rows) -> str:
    """KL(q‖p) as a table in Markdown: the median over seeds, and the least and greatest where they differ."""
    found = summary(rows)
    lines = ["| family | " + " | ".join(PROBLEMS) + " |", "|---" * (1 + len(PROBLEMS)) + "|"]
    for family in dict.fromkeys(row["family"] for row in rows):
        cells = [_cell(found[family, problem]) for problem in PROBLEMS]
        lines.append(f"| `{family}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, middle, high = (f"{x:.3f}" for x in (values[0], statistics.median(values), values[-1]))
    return middle if low == high else f"{middle} ({low} … {high})"


def families_picture(rows: Rows, images: Mapping[str, np.ndarray]) -> bytes:
    """Targets and fitted densities, families below each other, with KL(q‖p) under each."""
    lines = 1 + max(len(names) for _, names in BLOCKS)
    canvas = Canvas(len(BLOCKS) * BLOCK + 50, HEADER + lines * (SIDE + BELOW) + 6)
    numbers = summary(rows)
    for b, (title, names) in enumerate(BLOCKS):
        left = 18 + b * (BLOCK + 14)
        canvas.text(left, 28, title, 15, weight="bold")
        for k, problem in enumerate(PROBLEMS):
            centre = left + LABEL + k * (SIDE + GAP) + SIDE / 2
            canvas.text(centre, HEADER - 12, problem, 14, ha="center", color=MUTED)
        for line, name in enumerate(("target", *names)):
            top = HEADER + line * (SIDE + BELOW)
            canvas.text(left, top + SIDE / 2 + 5, name, 14, color=ACCENT if line == 0 else INK)
            for k, problem in enumerate(PROBLEMS):
                place = (left + LABEL + k * (SIDE + GAP), top)
                _density(canvas, place, images[f"{name}/{problem}"], images[f"target/{problem}"])
                if line:
                    _number(canvas, place, numbers[name, problem])
    _legend(canvas, 18 + BLOCK + 14, HEADER + (lines - 1) * (SIDE + BELOW))
    return canvas.png(128)


def _legend(canvas: Canvas, left: float, top: float) -> None:
    canvas.text(left + LABEL, top + 34, "KL(q‖p) in nats below each density, median of the seeds", 13, color=MUTED)
    canvas.text(left + LABEL, top + 58, f"above {FAILED:g}", 13, color=ACCENT, weight="bold")
    canvas.text(left + LABEL + 76, top + 58, f"and below {FAILED:g}", 13, color=COLOURS[3], weight="bold")
    canvas.text(left + LABEL, top + 82, "a Dirac has no density; a Categorical is", 13, color=MUTED)
    canvas.text(left + LABEL, top + 100, "compared with the target on its own points", 13, color=MUTED)


def _number(canvas: Canvas, place: tuple[float, float], values: Sequence[float]) -> None:
    words, colour = "–", MUTED
    if values:
        kl = statistics.median(values)
        words, colour = f"{kl:.3f}", ACCENT if kl > FAILED else COLOURS[3]
    canvas.text(place[0] + SIDE / 2, place[1] + SIDE + 17, words, 13, ha="center", color=colour, weight="bold")


def _density(canvas: Canvas, place: tuple[float, float], image: np.ndarray, target: np.ndarray) -> None:
    """One cell, on the scale of the target: a map over the square, or a curve around the circle."""
    greatest, image = float(target.max()), image.astype(float)
    if target.ndim == 2:
        if image.ndim == 2:
            canvas.image(*place, _heat(image / greatest))
        canvas.box(*place, SIDE, SIDE)
        if image.ndim == 1:
            axes = canvas.axes(*place, SIDE, SIDE, (-1, 1, -1, 1))
            axes.plot(*image, "o", color=COLOURS[0], markersize=6, markeredgecolor="white")
        return
    axes = canvas.axes(*place, SIDE, SIDE, (-1.08, 1.08, -1.08, 1.08))
    _circle(axes, image, greatest)


def _heat(share: np.ndarray) -> np.ndarray:
    """The square root of a density, so that a faint one shows, as colours; the second coordinate points up."""
    small = (HEAT(np.sqrt(share.clip(0, 1)))[..., :3] * 255).round().astype(np.uint8)
    upright = np.ascontiguousarray(small.swapaxes(0, 1)[::-1])
    return np.asarray(Pillow.fromarray(upright).resize((SIDE, SIDE), Pillow.Resampling.BILINEAR))


def _circle(axes: Axes, image: np.ndarray, greatest: float) -> None:
    """A density as a curve outside a circle; ±π lies to the left."""
    inner, room = 0.55, 0.42
    whole = np.linspace(-math.pi, math.pi, 721)
    axes.plot(inner * np.cos(whole), inner * np.sin(whole), color=MUTED, linewidth=0.9)
    axes.plot((-inner, -inner + 0.1), (0, 0), color=MUTED, linewidth=0.9)
    axes.text(-inner + 0.14, 0, "±π", fontsize=7, color=MUTED, va="center")
    if len(image) == 1:
        angle = float(image[0])
        axes.plot(inner * np.cos(angle), inner * np.sin(angle), "o", color=COLOURS[0], markersize=6, mec="white")
        return
    angle = (np.arange(len(image)) + 0.5) / len(image) * 2 * math.pi - math.pi
    angle, values = np.append(angle, angle[0] + 2 * math.pi), np.append(image, image[0])
    radius = inner + room * np.minimum(values / greatest, 1.2)
    x = np.concatenate((radius * np.cos(angle), inner * np.cos(angle[::-1])))
    y = np.concatenate((radius * np.sin(angle), inner * np.sin(angle[::-1])))
    axes.fill(x, y, color=COLOURS[0], alpha=0.35, linewidth=0)
    axes.plot(radius * np.cos(angle), radius * np.sin(angle), color=COLOURS[0], linewidth=1.4)


def quadrature_picture(rows: Rows) -> bytes:
    """The error of an expectation against the number of points, for each density and kind of points."""
    names = list(dict.fromkeys(row["density"] for row in rows))
    width, height, gap, left = 250, 230, 34, 78
    canvas = Canvas(left + len(names) * (width + gap) + 84, height + 118)
    errors = [row["rms"] for row in rows]
    counts = sorted({row["n"] for row in rows})
    frame = [math.log2(counts[0]) - 0.3, math.log2(counts[-1]) + 0.3]
    frame += [math.log10(min(errors)) - 0.3, math.log10(max(errors)) + 0.3]
    for k, name in enumerate(names):
        x = left + k * (width + gap)
        canvas.box(x, 48, width, height)
        canvas.text(x + width / 2, 34, name, 14, ha="center")
        axes = canvas.axes(x, 48, width, height, frame)
        _guides(axes, counts, [row["rms"] for row in rows if row["density"] == name and row["n"] == counts[0]])
        for kind, colour in zip(dict.fromkeys(row["points"] for row in rows), COLOURS, strict=False):
            chosen = [row for row in rows if (row["density"], row["points"]) == (name, kind)]
            n, rms = [math.log2(row["n"]) for row in chosen], [math.log10(row["rms"]) for row in chosen]
            axes.plot(n, rms, "o-", color=colour, linewidth=1.7, markersize=4)
            if k == len(names) - 1:
                y = 48 + height * (frame[3] - rms[-1]) / (frame[3] - frame[2])
                canvas.text(x + width + 8, y + 5, kind, 13, color=colour, weight="bold")
        for n in counts:
            place = x + width * (math.log2(n) - frame[0]) / (frame[1] - frame[0])
            canvas.text(place, height + 66, str(n), 11, ha="center", color=MUTED)
    for power in range(math.ceil(frame[2]), math.floor(frame[3]) + 1):
        y = 48 + height * (frame[3] - power) / (frame[3] - frame[2])
        canvas.text(left - 8, y + 4, f"$10^{{{power}}}$", 13, ha="right", color=MUTED)
    canvas.text(left - 60, 34, "RMS error", 13, color=MUTED)
    canvas.text(left + (len(names) * (width + gap) - gap) / 2, height + 94, "points", 13, ha="center", color=MUTED)
    return canvas.png(128)


def _guides(axes: Axes, counts: Sequence[int], first: Sequence[float]) -> None:
    """Dashed lines of slope −1/2 above what was measured, and −1 below it."""
    for start, slope, name, place in (
        (1.5 * max(first), -0.5, "$n^{-1/2}$", 0.12),
        (0.6 * min(first), -1.0, "$n^{-1}$", -0.12),
    ):
        fall = [math.log10(start) + slope * math.log10(n / counts[0]) for n in counts]
        axes.plot([math.log2(n) for n in counts], fall, color=MUTED, linewidth=0.9, dashes=(4, 3), alpha=0.8)
        middle, side = len(counts) // 2, "left" if place > 0 else "right"
        axes.text(math.log2(counts[middle]), fall[middle] + place, name, fontsize=9, color=MUTED, ha=side, va="center")


def stored(results: str | os.PathLike[str], name: str) -> Path:
    """A stored file, which must be there."""
    path = Path(results) / name
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, "not there; `erlangen figures --compute` makes it", str(path))
    return path


def _families(results: Path) -> bytes:
    rows = read_json(stored(results, "families.json"))["rows"]
    with np.load(stored(results, "families.npz")) as images:
        return families_picture(rows, dict(images))


def _quadrature(results: Path) -> bytes:
    return quadrature_picture(read_json(stored(results, "quadrature.json"))["rows"])


FIGURES: dict[str, Callable[[Path], bytes]] = {"families": _families, "quadrature": _quadrature}


def densities(
    folder: str | os.PathLike[str], results: str | os.PathLike[str], progress: Progress | None = None
) -> list[Path]:
    """Draws the figures of docs/distributions.md into a folder, which is made if it is missing.

    Args:
        folder: where to.
        results: the folder of stored rows.
        progress: called with the share done, from 0 to 1, and what is being drawn.

    Returns:
        The files.

    Raises:
        FileNotFoundError: there are no stored rows.
    """
    return write_figures(folder, {name: partial(draw, Path(results)) for name, draw in FIGURES.items()}, progress)
