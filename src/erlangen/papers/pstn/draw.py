"""What the figures share: the methods in their colours, and accuracies by size of the training set."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from matplotlib.figure import Figure

from ...report.style import ACCENT, COLOURS, MUTED
from ..base import Rows
from ..draw import beside, sheet

__all__ = ["NAMES", "TINTS", "by_size", "by_weight"]

NAMES = {"cnn": "CNN", "stn": "STN", "pstn": "P-STN", "affine": "hand-made affine", "flow": "flow"}
TINTS = {"cnn": MUTED, "stn": COLOURS[3], "pstn": COLOURS[0], "affine": COLOURS[1], "flow": COLOURS[2]}


def _size(dataset: str) -> int:
    return int("".join(c for c in dataset if c.isdigit()))


def by_size(rows: Rows, methods: Sequence[str]) -> Figure:
    """The mean accuracy of each method against the size of the training set, ± a standard deviation over folds."""
    figure, (axes,) = sheet(1, 1, (6.4, 4))
    for k, method in enumerate(methods):
        own = sorted(
            ((_size(r["dataset"]), r) for r in rows if (r["method"], r["part"]) == (method, "folds")),
            key=lambda pair: pair[0],
        )
        places = [size * 1.03 ** (k - 2) for size, _ in own]  # side by side
        means, spreads = ([row[name] for _, row in own] for name in ("accuracy", "deviation"))
        axes.errorbar(places, means, spreads, fmt="o-", ms=4, capsize=2, color=TINTS[method], label=NAMES[method])
    sizes = sorted({_size(row["dataset"]) for row in rows})
    axes.set(xscale="log", xlabel="digits in the training set", ylabel="test accuracy, %")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    return figure


def by_weight(rows: Rows, methods: Sequence[str]) -> Figure:
    """For each size a line for each method: a dot for each fold with the chosen weight, and a bar for their mean."""
    datasets = sorted({row["dataset"] for row in rows}, key=_size)
    figure, axes = sheet(1, len(datasets), (max(6.4, 2.4 * len(datasets) + 1.4), 2.8))
    for panel, dataset in zip(axes, datasets, strict=True):
        for line, method in enumerate(methods):
            mine = [r for r in rows if (r["method"], r["dataset"]) == (method, dataset)]
            whole = next((r for r in mine if r["part"] == "folds"), None)
            if whole is None:
                continue
            values = [r["accuracy"] for r in mine if r["part"] == "fold" and r["weight"] == whole["weight"]]
            panel.plot(values, [line] * len(values), "o", color=TINTS[method], alpha=0.6)
            panel.plot(statistics.fmean(values), line, "|", color=ACCENT, markersize=14, markeredgewidth=2)
        ends = (len(methods) - 0.5, -0.5)  # the first on top
        panel.set(title=dataset, xlabel="test accuracy, %", yticks=range(len(methods)), ylim=ends)
        panel.set_yticklabels([NAMES[method] for method in methods] if panel is axes[0] else [])
    axes[-1].plot([], [], "|", color=ACCENT, markersize=14, markeredgewidth=2, label="mean of the folds")
    beside(axes[-1])
    return figure
