"""The figures of an audit's report: decisions that stay, metrics against strength, accuracy by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ..utils.words import percent
from .run_figures import LOOK, canvas, png
from .style import COLOURS, HAIRLINE, INK, MUTED

__all__ = ["WIDTH", "classes_figure", "ladder_figure", "overview_figure"]

BLUE = COLOURS[0]
PANELS = {
    **{"accuracy": "accuracy ↑", "consistency": "consistency ↑", "li": "LI ↓", "di": "DI, nats ↓"},
    **{"si": "SI ↑", "ece": "ECE ↓"},
}
WIDTH = 440  # the width of the page: a telephone shows it whole, and words in it stay legible
LARGE: dict[Any, Any] = LOOK | {"font.size": 9.5, "xtick.labelsize": 9, "ytick.labelsize": 9}
SHARES = ("accuracy", "consistency", "si")  # from 0 to 1


def overview_figure(steps: Sequence[Mapping[str, Any]]) -> bytes:
    """For every step the share of decisions that stay, with its interval, and that of the null control, paler."""
    ladders = [(name, list(group)) for name, group in groupby(steps, key=lambda step: step["transform"])]
    lines = len(steps) + len(ladders)
    height = 40 + 19 * lines
    with matplotlib.rc_context(LARGE):
        figure = canvas(WIDTH, height)
        axes = figure.add_axes((0.31, 30 / height, 0.55, 19 * lines / height))
        y, ticks = 0, []
        for name, group in ladders:
            axes.text(-0.02, y, name, transform=axes.get_yaxis_transform(), ha="right", va="center", weight="bold")
            for step in group:
                y += 1
                ticks.append((y, step["label"]))
                _share(axes, y, step)
            y += 1
        axes.set_yticks(*zip(*ticks, strict=True))
        axes.set_ylim(y - 0.3, -0.7)
        axes.set_xlim(-0.01, 1.01)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100 %"])
        axes.grid(axis="x", color=HAIRLINE, linewidth=0.7)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
    return png(figure, 64)


def _share(axes: Axes, y: float, step: Mapping[str, Any]) -> None:
    value, null = step["values"]["consistency"], step["null"].get("consistency")
    if null:
        axes.plot(null["mean"], y, "D", color=MUTED, alpha=0.45, markersize=6, markeredgewidth=0, clip_on=False)
    axes.plot((value["low"], value["high"]), (y, y), color=BLUE, linewidth=3, alpha=0.45)
    axes.plot(value["mean"], y, "o", color=BLUE, markersize=6, clip_on=False)
    axes.text(1.04, y, percent(value["mean"]), transform=axes.get_yaxis_transform(), va="center", color=INK)


def ladder_figure(steps: Sequence[Mapping[str, Any]]) -> bytes:
    """Six panels against strength: means with intervals, and the null control, dashed."""
    with matplotlib.rc_context(LARGE):
        figure = canvas(WIDTH, 480)
        for k, (metric, title) in enumerate(PANELS.items()):
            row, column = divmod(k, 2)
            axes = figure.add_axes((0.125 + 0.5 * column, 0.72 - 0.325 * row, 0.365, 0.2))
            axes.set_title(title, loc="left", color=INK, weight="bold")
            _panel(axes, steps, metric)
    return png(figure, 64)


def _panel(axes: Axes, steps: Sequence[Mapping[str, Any]], metric: str) -> None:
    axes.tick_params(length=0)
    axes.set_xlim(-0.4, len(steps) - 0.6)
    words = [step["label"].partition(" of the side")[0].partition(" pixel")[0] for step in steps]
    axes.set_xticks(range(len(steps)), words)
    if not any(_has(step["values"], metric) for step in steps):
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center", color=MUTED)
        axes.set_yticks([])
        return
    for part, colour, style in (("null", MUTED, "D--"), ("values", BLUE, "o-")):
        found = [(x, step[part][metric]) for x, step in enumerate(steps) if _has(step[part], metric)]
        if found:
            x, mean = [x for x, _ in found], [value["mean"] for _, value in found]
            low, high = ([value[end] for _, value in found] for end in ("low", "high"))
            axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.vlines(x, low, high, color=colour, alpha=0.5, linewidth=2)
            axes.plot(x, mean, style, color=colour, linewidth=1.4, markersize=4, clip_on=False)
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.7)
    if metric in SHARES:
        axes.set_ylim(-0.03, 1.03)
    else:
        axes.set_ylim(0, max(axes.get_ylim()[1], 1e-3))
        # Few and short, whatever the size of logits: long ones are cut off at the edge.
        axes.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}".replace("e+0", "e"))


def _has(values: Mapping[str, Any], metric: str) -> bool:
    """Whether there is something to draw: a mean that is not finite is stored as null."""
    return metric in values and values[metric]["mean"] is not None


def classes_figure(record: Mapping[str, Any], present: Sequence[int], names: Sequence[str]) -> bytes:
    """A table: for each class its accuracy as it is and at the greatest strength of each transformation."""
    last = {step["transform"]: step for step in record["steps"]}
    columns = {"as it is": record["plain"]["accuracy"]}
    columns |= {f"{name}\n{step['label']}": step["values"]["accuracy"] for name, step in last.items()}
    table = np.array([[value["classes"][k] for value in columns.values()] for k in present], float)
    height = 46 + 22 * len(present)
    left = min(0.3, 0.03 + 0.0105 * max(map(len, names)))
    with matplotlib.rc_context(LOOK):
        figure = canvas(760, height)
        axes = figure.add_axes((left, 4 / height, 0.99 - left, 22 * len(present) / height))
        axes.imshow(table, cmap="RdYlBu", vmin=0, vmax=1, aspect="auto", alpha=0.55)
        for i, row in enumerate(table):
            for j, value in enumerate(row):
                axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", color=INK, fontsize=8)
        axes.set_xticks(range(len(columns)), [words.replace(" of the side", "") for words in columns], fontsize=7.5)
        axes.set_yticks(range(len(present)), names)
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
    return png(figure, 128)
