"""A series as a small picture, to stand where an image would."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from .canvas import drawn
from .style import COLOURS, RC

__all__ = ["series_picture"]

SIDE = 128


def series_picture(series: np.ndarray) -> np.ndarray:
    """The channels of a series, each a line in its colour, from the least value to the greatest.

    Shape:
        series: `(C, L)`; result: `(128, 128, 3)`, uint8.
    """
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(SIDE / 100, SIDE / 100), dpi=100)
        axes = figure.add_axes((0.03, 0.03, 0.94, 0.94))
        axes.set_axis_off()
        for k, channel in enumerate(series):
            axes.plot(channel, color=COLOURS[k % len(COLOURS)], linewidth=1.2)
    return drawn(figure)[..., :3]
