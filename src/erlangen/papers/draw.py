"""What the papers' figures share: a sheet in the house style, polar curves, pictures without axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase

from ..report.canvas import drawn, encode
from ..report.style import COLOURS, HAIRLINE, INK, MUTED, RC
from ..utils.words import several

__all__ = [
    "NAMES",
    "TINTS",
    "accuracies",
    "beside",
    "blank",
    "curve",
    "first",
    "panels",
    "picture",
    "png",
    "polar",
    "sheet",
]

NAMES = {"flow": "flow", "instaaug": "InstaAug", "augerino": "Augerino", "random": "random affine"}
# Of methods, the same in all figures that have several of them.
TINTS = dict(zip(("flow", "instaaug", "augerino", "ours"), COLOURS, strict=True))
TINTS |= {"none": MUTED, "affine": INK, "random": "#9aa5b1", "lila": TINTS["augerino"], "equivariant": TINTS["ours"]}
NEAR = 25  # points of accuracy


def blank(size: tuple[float, float]) -> Figure:
    """An empty figure, of a size in inches."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=size, dpi=100, layout="constrained")
        FigureCanvasAgg(figure)
        return figure


def panels(figure: FigureBase, rows: int, columns: int, kinds: Sequence[str | None] = (None,)) -> list[Axes]:
    """As many axes, row by row; `kinds` are their projections, in turn ("polar", or None)."""
    with matplotlib.rc_context(RC):
        spots = range(rows * columns)
        return [figure.add_subplot(rows, columns, k + 1, projection=kinds[k % len(kinds)]) for k in spots]


def sheet(
    rows: int, columns: int, size: tuple[float, float], kinds: Sequence[str | None] = (None,)
) -> tuple[Figure, list[Axes]]:
    """A figure with its axes, see `panels`."""
    figure = blank(size)
    return figure, panels(figure, rows, columns, kinds)


def polar(axes: Axes, density: np.ndarray, colour: str) -> None:
    """A histogram over the circle, from -π on, as a closed curve; upright is at the top."""
    place: Any = axes
    place.set_theta_zero_location("N")
    edges = np.linspace(-np.pi, np.pi, len(density) + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    axes.plot(np.append(middle, middle[0]), np.append(density, density[0]), color=colour, linewidth=1.8)
    axes.fill(middle, density, color=colour, alpha=0.15)
    place.set_thetagrids((0, 90, 180, 270), ("0°", "90°", "180°", "−90°"), fontsize=8, color=MUTED)
    axes.set_yticks([])
    axes.grid(color=HAIRLINE)


def curve(
    axes: Axes, rows: Sequence[Any], along: str, metric: str, *, colour: str, label: str, line: str = "-"
) -> None:
    """A column against another: the mean over seeds, in a band from the least to the greatest."""
    places = sorted({row[along] for row in rows})
    seeds = [[row[metric] for row in rows if row[along] == place] for place in places]
    axes.plot(places, [np.mean(values) for values in seeds], f"o{line}", color=colour, markersize=3, label=label)
    axes.fill_between(places, [min(v) for v in seeds], [max(v) for v in seeds], color=colour, alpha=0.2, linewidth=0)


def picture(axes: Axes, image: np.ndarray, title: str = "") -> None:
    """An image `(C, H, W)` without axes, in grey if it has one channel."""
    shown = np.moveaxis(image, 0, -1)
    axes.imshow(shown if shown.shape[-1] == 3 else shown[..., 0], cmap="gray", vmin=0, interpolation="nearest")
    axes.set_axis_off()
    if title:
        axes.set_title(title, fontsize=9, color=INK)


def accuracies(
    axes: Axes, rows: Sequence[Any], paper: Mapping[str, str], kinds: Sequence[int], *, legend: bool = True
) -> None:
    """A line for each method: a dot for each seed, in the colour of its number of views, and a bar for the paper's.

    What is more than `NEAR` points below the best is told at the left edge, lest the rest be one heap.
    """
    values = [row["accuracy"] for row in rows if row["method"] in paper]
    values += [float(said.split()[0]) for said in paper.values() if said[:1].isdigit()]
    least = min((v for v in values if v > max(values) - NEAR), default=0.0)
    for line, (method, said) in enumerate(paper.items()):
        if said[:1].isdigit():
            axes.plot(float(said.split()[0]), line, "|", color=MUTED, markersize=16, markeredgewidth=2)
        own = [row for row in rows if row["method"] == method]
        for colour, samples in zip(COLOURS, kinds, strict=False):
            mine = [row["accuracy"] for row in own if row["samples"] == samples and row["accuracy"] >= least]
            axes.plot(mine, np.full(len(mine), line), "o", color=colour, alpha=0.6)
        if far := [row["accuracy"] for row in own if row["accuracy"] < least]:
            where: Any = {"xy": (0.02, line), "xycoords": ("axes fraction", "data"), "va": "center"}
            axes.annotate(f"◂ {np.mean(far):.0f}", color=MUTED, fontsize=8, **where)
    for colour, samples in zip(COLOURS, kinds, strict=False):
        if any(row["samples"] == samples for row in rows):
            axes.plot([], [], "o", color=colour, label=several(samples, "view"))
    axes.plot([], [], "|", color=MUTED, markersize=12, markeredgewidth=2, label="the paper's")
    axes.set(yticks=range(len(paper)), yticklabels=list(paper), xlabel="accuracy, %")
    axes.margins(x=0.08)
    axes.invert_yaxis()
    if legend:
        beside(axes)


def beside(axes: Axes) -> None:
    """The legend, to the right of the axes."""
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def first(rows: Sequence[Any], **where: Any) -> Any:
    """The first row that fits, or None."""
    return next((row for row in rows if all(row.get(name) == value for name, value in where.items())), None)


def png(figure: Figure, colours: int = 160) -> bytes:
    """The figure as a small PNG."""
    return encode(drawn(figure)[..., :3], colours)
