"""What the papers' figures share: a sheet in the house style, polar curves, pictures without axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase

from ..report.canvas import encode
from ..report.style import HAIRLINE, INK, MUTED, RC

__all__ = ["NAMES", "TINTS", "blank", "first", "panels", "picture", "png", "polar", "sheet"]

NAMES = {"flow": "flow (ours)", "instaaug": "InstaAug", "augerino": "Augerino", "random": "random affine"}
TINTS = {"flow": "#2b7fa3", "instaaug": "#e07b39", "augerino": "#7a5ea8", "random": "#9aa5b1"}


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


def polar(axes: Axes, density: np.ndarray, colour: str, label: str = "") -> None:
    """A histogram over the circle, from -π on, as a closed curve; upright is at the top."""
    place: Any = axes
    place.set_theta_zero_location("N")
    edges = np.linspace(-np.pi, np.pi, len(density) + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    axes.plot(np.append(middle, middle[0]), np.append(density, density[0]), color=colour, linewidth=1.8, label=label)
    axes.fill(middle, density, color=colour, alpha=0.15)
    place.set_thetagrids((0, 90, 180, 270), ("0°", "90°", "180°", "−90°"), fontsize=8, color=MUTED)
    axes.set_yticks([])
    axes.grid(color=HAIRLINE)


def picture(axes: Axes, image: np.ndarray, title: str = "") -> None:
    """An image `(C, H, W)` without axes, in grey if it has one channel."""
    shown = np.moveaxis(image, 0, -1)
    axes.imshow(shown if shown.shape[-1] == 3 else shown[..., 0], cmap="gray", vmin=0, interpolation="nearest")
    axes.set_axis_off()
    if title:
        axes.set_title(title, fontsize=9, color=INK)


def first(rows: Sequence[Any], **where: Any) -> Any:
    """The first row that fits, or None."""
    return next((row for row in rows if all(row.get(name) == value for name, value in where.items())), None)


def png(figure: Figure, colours: int = 160) -> bytes:
    """The figure as a small PNG."""
    with matplotlib.rc_context(RC):
        canvas: Any = figure.canvas
        canvas.draw()
        return encode(np.asarray(canvas.buffer_rgba())[..., :3].copy(), colours)
