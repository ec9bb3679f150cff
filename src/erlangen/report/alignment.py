"""Series before and after their alignment, as one picture."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .canvas import drawn, encode
from .style import ACCENT, COLOURS, INK, MUTED, RC

__all__ = ["alignment_figure", "alignment_picture"]

SHOWN = 60  # series that are drawn; more would be a wall


def alignment_figure(before: np.ndarray, after: np.ndarray, titles: tuple[str, str] = ("before", "after")) -> Figure:
    """Some series as they were and as they are, with the mean and the deviation of all at each moment.

    Args:
        before: series.
        after: the same, aligned.
        titles: over the two panels.

    Shape:
        before and after: `(n, time)`, one channel.
    """
    before, after = np.asarray(before), np.asarray(after)
    for name, x in (("before", before), ("after", after)):
        if x.ndim != 2 or x.shape != before.shape or not x.size:
            accepted = "series (n, time), at least one, as many after as before"
            raise ValueError(f"{name}: received shape {x.shape}; accepted are {accepted}")
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(9, 3.2), dpi=100, layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, 2, sharey=True)
        for panel, x, title in zip(panels, (before, after), titles, strict=True):
            time, mean, deviation = np.arange(x.shape[1]), x.mean(0), x.std(0)
            panel.plot(time, x[:SHOWN].T, color=COLOURS[0], alpha=0.15, linewidth=0.8)
            panel.fill_between(time, mean - deviation, mean + deviation, color=ACCENT, alpha=0.2, linewidth=0)
            panel.plot(time, mean, color=ACCENT, linewidth=2.2)
            panel.set_title(title, fontsize=10, color=INK)
            panel.set_xlabel("time", fontsize=9, color=MUTED)
    return figure


def alignment_picture(before: np.ndarray, after: np.ndarray, titles: tuple[str, str] = ("before", "after")) -> bytes:
    """The figure as a small PNG, see `alignment_figure`."""
    return encode(drawn(alignment_figure(before, after, titles))[..., :3], 128)
