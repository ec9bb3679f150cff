"""Colours, type and sizes that all figures and pages share."""

from __future__ import annotations

from typing import Any

__all__ = ["ACCENT", "COLOURS", "HAIRLINE", "INK", "LABEL_COLOURS", "MUTED", "PAPER", "RC", "WINDOWS"]

PAPER = "#ffffff"
INK = "#1d2f42"
MUTED = "#6d7c8c"
HAIRLINE = "#d8dee5"
ACCENT = "#d6453d"  # marks the identity, and what moved
COLOURS = ("#2b7fa3", "#e07b39", "#7a5ea8", "#3d8b5f")  # mid-tones that read on light and on dark

WINDOWS = ("#e8742c", "#7a3fb0", "#1f8f5a", "#c2317f")  # stand out on the bundled picture

# Of the regions of the bundled picture, in the order of their labels.
LABEL_COLOURS = ("#cfe3ec", "#f6c85f", "#9bbf8a", "#7db4c4", "#b9a7d3", "#d6453d", "#fff3dd", "#e8853b")

# Only fonts that come with matplotlib, so that figures are the same on every machine.
RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "stixsans",
    "text.color": INK,
    "axes.edgecolor": HAIRLINE,
    "axes.labelcolor": MUTED,
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.solid_capstyle": "round",
    "lines.solid_joinstyle": "round",
    "figure.facecolor": PAPER,
    "savefig.facecolor": "auto",
}
