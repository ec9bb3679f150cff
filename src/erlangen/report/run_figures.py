"""The figures of a run's report: accuracy, curves, learned distributions, views, ranges."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator
from PIL import Image as Pillow

from ..utils.words import percent
from .canvas import encode
from .style import ACCENT, COLOURS, HAIRLINE, INK, MUTED, RC

__all__ = [
    "Accuracy",
    "Coordinate",
    "Example",
    "accuracy_figure",
    "class_labels",
    "class_words",
    "curves_figure",
    "distribution_figure",
    "distribution_width",
    "enlarge",
    "ranges_figure",
]

DPI = 200  # two pixels to one of the page
RING, COLUMN = 232, 190  # of distributions, in pixels of the page
LONGEST = 24  # characters of the name of a class
BLUE, ORANGE = COLOURS[:2]
RIGHT: Any = {"ha": "right", "va": "center"}
LOOK: dict[Any, Any] = RC | {
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.titlesize": 10,
    "axes.labelsize": 8,
    "font.size": 9,
    "text.parse_math": False,  # classes have any name, also one with dollars
}


@dataclass(frozen=True)
class Coordinate:
    """A coordinate of a transform: its name, its range, whether its ends are one point, and the value of no change."""

    name: str
    low: float
    high: float
    periodic: bool = False
    origin: float = 0.0

    @property
    def unit(self) -> float:
        """What to multiply values with for display: degrees for angles and hues."""
        return {"angle": 180 / math.pi, "hue": 360.0}.get(self.name, 1.0)

    @property
    def sign(self) -> str:
        """The unit to write behind values on display."""
        return "°" if self.name in ("angle", "hue") else ""


@dataclass(frozen=True)
class Accuracy:
    """The share of right predictions on a part of the data, of inputs as they are and averaged over views."""

    part: str
    count: int
    plain: float
    averaged: float | None = None


@dataclass(frozen=True)
class Example:
    """An input: `(H, W, 3)` bytes, its class, the prediction and its probability, and samples of v, `(S, d)`."""

    image: np.ndarray
    label: str
    predicted: str
    probability: float
    v: np.ndarray
    views: Sequence[np.ndarray] = ()


def canvas(width: float, height: float) -> Figure:
    """An empty figure, in pixels of the page."""
    figure = Figure(figsize=(width / 100, height / 100), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure, colours: int | None = None) -> bytes:
    """The figure as a small PNG, with at most so many colours if they are given."""
    file = io.BytesIO()
    with matplotlib.rc_context(LOOK):
        figure.savefig(file, dpi=DPI)
    return encode(np.asarray(Pillow.open(file).convert("RGB")), colours)


def enlarge(image: np.ndarray, side: int = 128) -> np.ndarray:
    """Bytes `(H, W, 3)` made at least `side` pixels high by a whole factor, each pixel a square."""
    factor = max(1, -(-side // image.shape[0]))
    return image.repeat(factor, 0).repeat(factor, 1)


def accuracy_figure(rows: Sequence[Accuracy], many: str = "images") -> bytes:
    """For each part of the data the accuracy as it is and averaged, as points on a line and as numbers beside it.

    Args:
        rows: the parts.
        many: what several inputs are called.
    """
    height = 84 + 44 * len(rows)
    both = any(row.averaged is not None for row in rows)
    with matplotlib.rc_context(LOOK):
        figure = canvas(760, height)
        axes = figure.add_axes((0.15, 34 / height, 0.52, 44 * len(rows) / height))
        across: Any = axes.get_yaxis_transform()  # across in shares of the width, down in rows
        values = [a for row in rows for a in (row.plain, row.averaged) if a is not None]
        low = min(0.9, max(0.0, math.floor(min(values) * 10 - 0.3) / 10))
        for y, row in enumerate(rows):
            ends = [row.plain] if row.averaged is None else [row.plain, row.averaged]
            axes.plot((low, 1), (y, y), color=HAIRLINE, linewidth=0.8, zorder=1)
            axes.plot(ends, [y] * len(ends), color=BLUE, alpha=0.4, linewidth=5, zorder=2)
            for k, (value, colour) in enumerate(zip(ends, (MUTED, BLUE), strict=False)):
                axes.plot(value, y, "o", color=colour, markersize=9 - 3 * k, zorder=3 + k, clip_on=False)
                words = percent(value, 1)
                bold = "bold" if k == len(ends) - 1 else "normal"
                axes.text(1.26 + 0.2 * k, y, words, transform=across, color=colour, weight=bold, **RIGHT)
        for k, (word, colour) in enumerate((("as they are", MUTED), ("averaged", BLUE))[: 1 + both]):
            axes.text(1.26 + 0.2 * k, -0.8, word, transform=across, color=colour, fontsize=8, **RIGHT)
        axes.set_yticks(range(len(rows)), [f"{row.part}\n{row.count:,} {many}" for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(low, 1.0)
        axes.set_xticks([low, (1 + low) / 2, 1], [f"{100 * t:.3g} %" for t in (low, (1 + low) / 2, 1)])
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
    return png(figure)


def curves_figure(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Loss, accuracy, entropy (or width) and its weight along the run, training and validation."""
    wanted = [("loss", "loss"), ("accuracy", "accuracy"), ("entropy", "entropy, nats"), ("width", "width, as shares")]
    wanted.append(("alpha", "weight of the entropy, α"))
    shown = [(name, title) for name, title in wanted if any(name in row for row in rows)]
    width = 1160
    with matplotlib.rc_context(LOOK):
        figure = canvas(width, 250)
        for k, (name, title) in enumerate(shown):
            axes = figure.add_axes(
                ((52 + k * (width - 20) / len(shown)) / width, 0.17, 0.86 / len(shown) - 0.035, 0.66)
            )
            _curve(axes, rows, name)
            axes.set_title(title, loc="left", color=INK, fontsize=10)
            axes.set_xlabel("step")
        figure.axes[0].legend(frameon=False, fontsize=8, labelcolor=MUTED, loc="upper right")
    return png(figure)


def _curve(axes: Axes, rows: Sequence[Mapping[str, Any]], name: str) -> None:
    for kind, colour, style in (("train", BLUE, "-"), ("validation", ORANGE, "o-")):
        if name == "alpha" and kind == "validation":
            continue
        chosen = [(row["step"], row[name]) for row in rows if row["kind"] == kind and row.get(name) is not None]
        if chosen:
            single = "o" if len(chosen) == 1 else style
            axes.plot(*zip(*chosen, strict=True), single, color=colour, linewidth=1.6, markersize=3, label=kind)
    axes.grid(axis="y", color=HAIRLINE, linewidth=0.7)
    axes.set_xlim(0, 1.03 * max(row["step"] for row in rows))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.tick_params(length=0)
    if name == "alpha":
        most = max((max(line.get_ydata()) for line in axes.lines), default=0.0)  # pyright: ignore[reportArgumentType]
        axes.set_ylim(0, 1.3 * most if most > 0 else 1.0)


def distribution_width(coordinates: Sequence[Coordinate]) -> int:
    """The width of a `distribution_figure`, in pixels of the page."""
    rings = sum(c.periodic for c in coordinates)
    lines = len(coordinates) - rings
    columns = -(-lines // 2) if lines > 3 else lines
    return max(1, rings) * RING + columns * COLUMN + 10


def distribution_figure(example: Example, coordinates: Sequence[Coordinate]) -> bytes:
    """The picture, a ring around it for each periodic coordinate, and a histogram for every other."""
    rings = [k for k, c in enumerate(coordinates) if c.periodic]
    lines = [k for k, c in enumerate(coordinates) if not c.periodic]
    total = distribution_width(coordinates)
    with matplotlib.rc_context(LOOK):
        figure = canvas(total, RING)
        if not rings:
            _picture(figure, (30 / total, 0.13, 172 / total, 0.74), example.image)
        for place, k in enumerate(rings):
            box = (place * RING / total, 0.02, RING / total, 0.96)
            _ring(figure, box, example, k, coordinates[k])
        for place, k in enumerate(lines):
            column, row = divmod(place, 2) if len(lines) > 3 else (place, 0)
            left = max(1, len(rings)) * RING + column * COLUMN + 14
            tall = (0.27, 0.62 - 0.5 * row) if len(lines) > 3 else (0.5, 0.24)
            axes = figure.add_axes((left / total, tall[1], (COLUMN - 34) / total, tall[0]))
            _histogram(axes, example.v[:, k], coordinates[k])
    return png(figure)


def _picture(figure: Figure, place: tuple[float, float, float, float], image: np.ndarray) -> Axes:
    axes = figure.add_axes(place)
    axes.imshow(enlarge(image), interpolation="antialiased")
    axes.set_axis_off()
    return axes


def _ring(
    figure: Figure, place: tuple[float, float, float, float], example: Example, k: int, coordinate: Coordinate
) -> None:
    """A density around a circle, with the picture inside; upwards is no change, and a turn is drawn as it turns."""
    axes = figure.add_axes(place)
    inner, room = 0.52, 0.34
    bins = 72
    share = (example.v[:, k] - coordinate.low) / (coordinate.high - coordinate.low)
    values, _ = np.histogram(share % 1.0, bins, (0, 1))
    values = _smooth(values / max(len(share), 1) * bins)
    theta = 2 * math.pi * (np.arange(bins) + 0.5) / bins * (coordinate.high - coordinate.low) / _turn(coordinate)
    theta = theta + coordinate.low / _turn(coordinate) * 2 * math.pi + math.pi / 2
    theta, values = np.append(theta, theta[0] + 2 * math.pi), np.append(values, values[0])
    radius = inner + room * values / max(values.max(), 2.0)
    whole = np.linspace(0, 2 * math.pi, 361)
    even = inner + room / max(values.max(), 2.0)
    axes.plot(even * np.cos(whole), even * np.sin(whole), color=HAIRLINE, linewidth=0.8, dashes=(3, 3), zorder=0)
    ends = theta[::-1]
    x = np.concatenate((radius * np.cos(theta), inner * np.cos(ends)))
    y = np.concatenate((radius * np.sin(theta), inner * np.sin(ends)))
    axes.fill(x, y, color=BLUE, alpha=0.32, linewidth=0)
    axes.plot(radius * np.cos(theta), radius * np.sin(theta), color=BLUE, linewidth=1.5)
    axes.plot(inner * np.cos(whole), inner * np.sin(whole), color=MUTED, linewidth=0.9)
    tall, wide = (0.84 * inner * n / max(example.image.shape[:2]) for n in example.image.shape[:2])
    picture = axes.imshow(enlarge(example.image), extent=(-wide, wide, -tall, tall), interpolation="antialiased")
    picture.set_clip_path(Circle((0, 0), 0.95 * inner, transform=axes.transData))
    for angle, words in ((0, "0°"), (90, "90°"), (180, "180°"), (270, "−90°")):
        turn = math.radians(angle + 90)
        axes.text(
            0.97 * math.cos(turn), 0.95 * math.sin(turn), words, ha="center", va="center", color=MUTED, fontsize=7
        )
    axes.text(-1.06, 0.98, coordinate.name, color=INK, fontsize=9, weight="bold", va="center")
    axes.set_xlim(-1.08, 1.08)
    axes.set_ylim(-1.08, 1.08)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _turn(coordinate: Coordinate) -> float:
    return 360.0 / coordinate.unit


def _smooth(values: np.ndarray) -> np.ndarray:
    """A little, around the circle."""
    return (np.roll(values, 1) + 2 * values + np.roll(values, -1)) / 4


def _histogram(axes: Axes, v: np.ndarray, coordinate: Coordinate) -> None:
    low, origin, high = (c * coordinate.unit for c in (coordinate.low, coordinate.origin, coordinate.high))
    counts, edges = np.histogram(v * coordinate.unit, 24, (low, high))
    axes.stairs(counts, edges, fill=True, color=BLUE, alpha=0.32)
    axes.stairs(counts, edges, color=BLUE, linewidth=1.3)
    axes.axvline(origin, color=ACCENT, linewidth=0.9, dashes=(3, 2))
    axes.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
    axes.set_ylim(0, max(counts.max() * 1.1, 1))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    near = min(origin - low, high - origin) < 0.2 * (high - low)  # where its number would lie on that of an end
    ticks = [low, high] if near else [low, origin, high]
    axes.set_xticks(ticks, [_label(t, coordinate) for t in ticks])
    axes.tick_params(length=0)
    axes.set_title(coordinate.name, loc="left", color=INK, fontsize=9, weight="bold")


def _label(value: float, coordinate: Coordinate) -> str:
    return f"{value:.3g}{coordinate.sign}".replace("-", "−")


def ranges_figure(
    half_ranges: np.ndarray, labels: np.ndarray, classes: Sequence[str], coordinates: Sequence[Coordinate]
) -> bytes:
    """For each class and coordinate the mean half-range over inputs as a bar, and a dot for every input.

    Shape:
        half_ranges: `(N, d)`; labels: `(N,)`.
    """
    rows = [c for c in range(len(classes)) if (labels == c).any()]
    per_line = min(len(coordinates), 4)
    lines = -(-len(coordinates) // per_line)
    names = class_labels(rows, classes)
    name = 14 + 7 * max(map(len, names))
    panel, tall = (1160 - name - 20) / per_line, 66 + 22 * len(rows)
    chance = np.random.default_rng(0)
    with matplotlib.rc_context(LOOK):
        figure = canvas(1160, lines * tall)
        for k, coordinate in enumerate(coordinates):
            line, column = divmod(k, per_line)
            bottom = (lines - 1 - line) * tall + 34
            place = (name + column * panel, bottom, panel - 26, tall - 62)
            axes = figure.add_axes(
                (place[0] / 1160, place[1] / (lines * tall), place[2] / 1160, place[3] / (lines * tall))
            )
            _bars(axes, [half_ranges[labels == c, k] * coordinate.unit for c in rows], coordinate, chance)
            axes.set_yticks(range(len(rows)) if column == 0 else [], names if column == 0 else [])
    return png(figure)


def _bars(axes: Axes, groups: Sequence[np.ndarray], coordinate: Coordinate, chance: np.random.Generator) -> None:
    most = (coordinate.high - coordinate.low) / 2 * coordinate.unit
    for y, values in enumerate(groups):
        axes.barh(y, most, height=0.62, color=HAIRLINE, alpha=0.45, linewidth=0)
        axes.barh(y, values.mean(), height=0.62, color=BLUE, alpha=0.45, linewidth=0)
        some = values[:60]
        jitter = chance.uniform(-0.22, 0.22, len(some))
        axes.plot(some, y + jitter, ".", color=INK, markersize=2.2, alpha=0.45, markeredgewidth=0)
        axes.text(most * 1.02, y, f"{values.mean():.3g}{coordinate.sign}", va="center", color=INK, fontsize=7.5)
    axes.set_xlim(0, most * 1.22)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xticks([0, most / 2, most], [_label(t, coordinate) for t in (0, most / 2, most)])
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)
    # Not ±: a range need not lie about the input as it is.
    axes.set_title(f"{coordinate.name}, half the length", loc="left", color=INK, fontsize=9, weight="bold")


def class_words(number: int, name: str) -> str:
    """The name of a class in a figure: long ones lose their middle; a number, where the font lacks a character."""
    font = get_font(findfont(str(LOOK["font.family"])))
    if not all(font.get_char_index(ord(letter)) for letter in name):
        return f"class {number + 1}"
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[1 - LONGEST // 2 :]}"


def class_labels(numbers: Sequence[int], classes: Sequence[str]) -> list[str]:
    """The names of classes in a figure, by `class_words`, with a number before those that would be called the same."""
    words = [class_words(k, classes[k]) for k in numbers]
    return [f"{k + 1}. {one}" if words.count(one) > 1 else one for k, one in zip(numbers, words, strict=True)]
