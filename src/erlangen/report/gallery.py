"""The gallery: every transform at work, as one picture and as one self-contained page."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..utils.io import write_bytes
from .canvas import Canvas, Progress
from .exhibits import PICTURES, SERIES, Exhibit, coordinates
from .page import Image, Section, page
from .panels import Panel, Row, paint
from .style import ACCENT, HAIRLINE, MUTED

__all__ = ["gallery", "gallery_page", "gallery_picture"]

# The picture, in pixels.
MARGIN, GUTTER, COLUMN = 44, 56, 600
HEADER, FOOTER = 148, 56
TITLE, CAPTION, SPACE = 30, 21, 25
FIVE, SIX = 112, 92  # sides of pictures, five or six to a row
HEADING = 44

# The page.
SIDE, HIGH, LENGTH = 168, 110, 256
LEAD = "What can be done to a signal: every transform at work on one picture and one series, both drawn in code."
READ = """The original signal is framed in red. What comes from outside the frame is transparent here and black in the \
tensors. Every card has the coordinates of its transform with their default ranges, and code that makes what it shows, \
after these lines (for series: x = series().unsqueeze(0))."""
SETUP = """import torch

from erlangen.data import picture, series

x = picture().unsqueeze(0)"""


class Block(NamedTuple):
    """A titled grid of panels, all of one size."""

    title: str
    note: str
    panels: Sequence[Panel]
    per_line: int
    width: float
    height: float
    gap: float

    @property
    def total(self) -> float:
        """The height with title and captions."""
        lines = math.ceil(len(self.panels) / self.per_line)
        if not lines:  # a heading
            return HEADING
        return TITLE + lines * (self.height + CAPTION) + (lines - 1) * 6


Band = Sequence[Block]  # blocks side by side


def gallery(folder: str | os.PathLike[str], progress: Progress | None = None) -> tuple[Path, Path]:
    """Draws `gallery.png` and `gallery.html` into a folder, which is made if it is missing.

    Args:
        folder: where to.
        progress: called with the share done, from 0 to 1, and what is being drawn.

    Returns:
        The two files.
    """
    tell = progress or (lambda share, what: None)
    folder = Path(os.path.expanduser(folder))
    folder.mkdir(parents=True, exist_ok=True)
    picture, text = folder / "gallery.png", folder / "gallery.html"
    drawn = gallery_picture(lambda share, what: tell(0.5 * share, what))
    write_bytes(text, gallery_page(lambda share, what: tell(0.5 + 0.5 * share, what)).encode())
    write_bytes(picture, drawn)
    tell(1.0, "done")
    return picture, text


def gallery_picture(progress: Progress | None = None) -> bytes:
    """The gallery as one PNG: three columns of rows, the unchanged signal highlighted."""
    tell = progress or (lambda share, what: None)
    columns = []
    for k, (title, make) in enumerate(COLUMNS):
        tell(k / (len(COLUMNS) + 1), title)
        columns.append((title, list(make())))
    tell(len(COLUMNS) / (len(COLUMNS) + 1), "picture")
    depth = max(sum(_depth(band) for band in bands) + SPACE * (len(bands) - 1) for _, bands in columns)
    width = 2 * MARGIN + len(columns) * COLUMN + (len(columns) - 1) * GUTTER
    canvas = Canvas(width, HEADER + depth + FOOTER)
    _paint_header(canvas)
    for k, (title, bands) in enumerate(columns):
        left = MARGIN + k * (COLUMN + GUTTER)
        canvas.text(left, HEADER - 26, title.upper(), 13, color=ACCENT, weight="bold")
        # Columns of different depth end together.
        headings = sum(not band[0].panels for band in bands)
        space = (depth - sum(_depth(band) for band in bands)) / (len(bands) - 1 - headings)
        _paint_column(canvas, left, bands, space)
    return canvas.png()


def gallery_page(progress: Progress | None = None) -> str:
    """The gallery as one self-contained HTML page: a card for each transform."""
    tell = progress or (lambda share, what: None)
    builders = [("Images", SIDE, build) for build in PICTURES.values()]
    builders += [("Series", LENGTH, build) for build in SERIES.values()]
    sections: dict[str, list[Section]] = {"": [Section("How to read this page", READ, code=SETUP)]}
    for k, (heading, size, build) in enumerate(builders):
        exhibit = build(size)
        tell(k / len(builders), exhibit.title)
        sections.setdefault(heading, []).append(_card(exhibit))
    return page("erlangen: the transforms", LEAD, sections)


def _card(exhibit: Exhibit) -> Section:
    labelled = len(exhibit.rows) > 1
    rows = [
        (row.label if labelled else "", [_image(p, f"{exhibit.title}, {row.label} {p.caption}") for p in row.panels])
        for row in exhibit.rows
    ]
    most = len(rows[0][1])
    per_line = most if most <= 5 else 4 if most == 8 else 3
    return Section(exhibit.title, exhibit.text, coordinates(exhibit.transform), rows, per_line, exhibit.code)


def _image(panel: Panel, alt: str) -> Image:
    """A panel as an image without a background, so that it stands on light and on dark pages."""
    shapes = {
        "picture": panel.signal.shape[:0:-1],
        "series": (3 * SIDE // 2, 3 * HIGH // 2),
        "map": (3 * SIDE // 2, 3 * SIDE // 2),
    }
    width, height = shapes[panel.kind]
    canvas = Canvas(width, height, paper=None)
    paint(canvas, replace(panel, identity=False, frame=None), (0, 0, width, height), paper=None)
    return Image(canvas.png(128), alt, panel.caption, panel.identity, panel.frame or "", SIDE)


def _depth(band: Band) -> float:
    return max(block.total for block in band)


def _paint_header(canvas: Canvas) -> None:
    end = canvas.text(MARGIN - 3, 76, "erlangen", 54, weight="bold")
    words = "what can be done to a signal: transformations of images and series, as groups where they are groups"
    canvas.text(end + 22, 76, words, 19, color=MUTED)
    right = canvas.width - MARGIN
    canvas.box(MARGIN, 98, right - MARGIN, 1, facecolor=HAIRLINE, edgecolor="none")
    canvas.box(right - 158, 62, 14, 14, edgecolor=ACCENT, linewidth=1.9)
    canvas.text(right, 74, "the original signal", 14, color=MUTED, ha="right")


def _paint_column(canvas: Canvas, left: float, bands: Sequence[Band], space: float) -> None:
    top = float(HEADER)
    for band in bands:
        x = left
        for block in band:
            _paint_block(canvas, block, x, top)
            x += block.per_line * (block.width + block.gap)
        top += _depth(band) + (space if band[0].panels else 0)


def _paint_block(canvas: Canvas, block: Block, left: float, top: float) -> None:
    if not block.panels:
        canvas.text(left, top + HEADING - 26, block.title, 13, color=ACCENT, weight="bold")
        return
    end = canvas.text(left, top + 16, block.title, 16, weight="bold")
    if block.note:
        canvas.text(end + 10, top + 16, block.note, 13, color=MUTED)
    for k, panel in enumerate(block.panels):
        line, column = divmod(k, block.per_line)
        x = round(left + column * (block.width + block.gap))
        y = round(top + TITLE + line * (block.height + CAPTION + 6))
        paint(canvas, panel, (x, y, block.width, block.height))
        colour, weight = (ACCENT, "bold") if panel.identity else (panel.frame or MUTED, "normal")
        middle = x + block.width / 2
        canvas.text(middle, y + block.height + 17, panel.caption, 12.5, color=colour, weight=weight, ha="center")


def _five(row: Row, title: str, note: str = "") -> Band:
    return [Block(title, note, row.panels, 5, FIVE, FIVE, (COLUMN - 5 * FIVE) / 4)]


def _six(row: Row, title: str, per_line: int, note: str = "") -> Block:
    return Block(title, note, row.panels, per_line, SIX, SIX, (COLUMN - 6 * SIX) / 5)


def _three(row: Row, title: str, note: str = "", height: float = 150) -> Band:
    width = (COLUMN - 20) // 3
    return [Block(title, note, row.panels, 3, width, height, (COLUMN - 3 * width) / 2)]


def _affine_column() -> Iterator[Band]:
    notes = {
        "tx": "to the right",
        "ty": "down",
        "angle": "counter-clockwise",
        "scale": "log-scale, enlarges",
        "stretch": "wider and lower",
        "shear": "along the diagonals",
        "sx": "log-scale along x",
        "sy": "log-scale along y",
    }
    for name in ("affine", "log_scales"):
        for row in PICTURES[name](FIVE).rows:
            yield _five(row, row.label, notes[row.label])
    yield _five(PICTURES["factored"](FIVE).rows[0], "factored", "translation ∘ rotation ∘ stretch")
    yield _five(PICTURES["similarity"](FIVE).rows[0], "Similarity", "angle, scale, tx, ty")
    yield _five(PICTURES["affine_matrix"](FIVE).rows[0], "AffineMatrix", "exp of a matrix with six free entries")


def _image_column() -> Iterator[Band]:
    yield _five(PICTURES["crop"](FIVE).rows[0], "Crop", "centre, width and height of a window")
    yield _five(PICTURES["square_crop"](FIVE).rows[0], "Crop", "square: the aspect is kept")
    for row in PICTURES["hsv"](FIVE).rows:
        yield _five(row, f"HSV {row.label}", "in turns" if row.label == "hue" else "log-factor")
    yield _five(PICTURES["cpab"](FIVE).rows[0], "CPAB", "diffeomorphisms of the frame")
    yield _five(PICTURES["cpab_volume"](FIVE).rows[0], "CPAB", "volume-preserving")
    yield _five(PICTURES["product"](FIVE).rows[0], "Product", "Affine × HSV, drawn from its bounds")
    points, masks = PICTURES["labels"](FIVE).rows
    mixed = Row("labels", tuple(masks.panels[k] if k % 2 else points.panels[k] for k in range(5)))
    yield _five(mixed, "Points and masks", "move along")
    yield _five(PICTURES["interpolation"](FIVE).rows[0], "Interpolation", "of 18 pixels")
    yield _five(PICTURES["padding"](FIVE).rows[0], "Padding", "outside the frame")


def _group_column() -> Iterator[Band]:
    def first(name: str) -> Row:
        return PICTURES[name](SIX).rows[0]

    yield [_six(first("rotations6"), "Rotations(6)", 6, "by 60°")]
    yield [_six(first("rotations4"), "Rotations(4)", 4, "exact"), _six(first("flips"), "Flips", 2, "exact")]
    yield [_six(first("dihedral"), "Dihedral(4)", 4, "exact"), _six(first("shifts"), "Shifts(4)", 2, "exact")]
    yield [Block("SERIES", "", (), 1, COLUMN, 0, 0)]
    for row in SERIES["time_affine"](COLUMN).rows:
        yield _three(row, f"TimeAffine {row.label}", "later" if row.label == "shift" else "slower")
    warped, maps = SERIES["time_cpab"](COLUMN).rows
    yield _three(warped, "CPAB", "of time")
    yield _three(maps, "φ(t)", "where each moment goes", height=(COLUMN - 20) // 3)
    moved, turned = (SERIES[name](COLUMN).rows[0] for name in ("shifts", "flips"))
    blocks = (_six(moved, "Shifts(4)", 4, "exact"), _six(turned, "Flips", 2, "exact"))
    yield [block._replace(height=120) for block in blocks]


COLUMNS: tuple[tuple[str, Callable[[], Iterator[Band]]], ...] = (
    ("Affine maps", _affine_column),
    ("Crops, colours, deformations", _image_column),
    ("Finite groups", _group_column),
)
