"""The page of `SymmetryFinder`: which transformations occur in images, how far, overall and image by image."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np

from .canvas import encode
from .page import Image, Section, page
from .run_figures import LOOK, Coordinate, Example, canvas, distribution_figure, distribution_width, enlarge, png
from .style import COLOURS, HAIRLINE, INK, MUTED

__all__ = ["SymmetryFindings", "middle_of", "spans_figure", "symmetries_page"]


@dataclass(frozen=True)
class SymmetryFindings:
    """What the page shows.

    Attributes:
        title: of the page.
        lead: what was trained, in a sentence or two.
        words: a sentence for each coordinate.
        coordinates: of the group.
        half_ranges: half of the shortest range that holds 98 % of each image's transformations, `(N, d)`.
        inputs: some images, `(H, W, 3)` bytes each.
        prototypes: theirs.
        resampled: natural variations, several of each.
        v: samples of the transformations of their prototypes, `(S, d)` each.
        facts: the settings, by name.
        code: how to use it.
        about: its provenance.
        untold: the names of coordinates whose ranges say nothing.
        rough: of these, those in which poses err, so that copies of an image have other prototypes.
        caution: what to keep in mind when these ranges are read, in a sentence or two.
    """

    title: str
    lead: str
    words: Sequence[str]
    coordinates: Sequence[Coordinate]
    half_ranges: np.ndarray
    inputs: Sequence[np.ndarray]
    prototypes: Sequence[np.ndarray]
    resampled: Sequence[Sequence[np.ndarray]]
    v: Sequence[np.ndarray]
    facts: Mapping[str, str]
    code: str = ""
    about: Mapping[str, Any] | None = None
    untold: Collection[str] = ()
    rough: Collection[str] = ()
    caution: str = ""


def middle_of(half_ranges: np.ndarray) -> np.ndarray:
    """Below and above the middle 90 % of images, and their median: each is a value that some image has.

    A median between two kinds of images would be the range of none.

    Shape:
        half_ranges: `(N, d)`; result: low, median and high, `(3, d)`.
    """
    return np.quantile(half_ranges, (0.05, 0.5, 0.95), axis=0, method="inverted_cdf")


def symmetries_page(found: SymmetryFindings) -> str:
    """The whole page."""
    spans = Image(spans_figure(found.half_ranges, found.coordinates, found.untold), " ".join(found.words), width=760)
    sections = {
        "What occurs": [
            Section(
                "How far images are transformed",
                note="Half of the shortest range that holds 98 % of the transformations of an image's prototype; a "
                "line for each image, the median marked. The scale ends at the searched range, and what "
                f"goes further is drawn at its end. {found.caution}".rstrip(),
                rows=[("", [spans])],
                per_line=1,
                facts={name: said for name, _, said in (line.partition(": ") for line in found.words)},
            )
        ],
        "What it sees": [_pictures(found)],
        "Image by image": [_distributions(found)],
        "What it is": [
            Section("Settings", facts=found.facts, code=found.code),
        ],
    }
    return page(found.title, found.lead, sections, found.about)


def spans_figure(half_ranges: np.ndarray, coordinates: Sequence[Coordinate], untold: Collection[str] = ()) -> bytes:
    """For each coordinate a mark for each image on a line from nothing to the whole range, and the median.

    Grey, and without a number, where these say nothing.
    """
    height = 40 + 34 * len(coordinates)
    with matplotlib.rc_context(LOOK):
        figure = canvas(760, height)
        axes = figure.add_axes((0.15, 24 / height, 0.6, 34 * len(coordinates) / height))
        medians = middle_of(half_ranges)[1].tolist()
        for y, coordinate in enumerate(coordinates):
            whole = (coordinate.high - coordinate.low) / 2
            share = np.clip(half_ranges[:, y] / whole, 0, 1)
            axes.plot((0, 1), (y, y), color=HAIRLINE, linewidth=0.8, zorder=0)
            unknown = coordinate.name in untold
            lines, mark, text = (MUTED, MUTED, MUTED) if unknown else (COLOURS[0], COLOURS[1], INK)
            axes.vlines(share, y - 0.22, y + 0.22, color=lines, alpha=max(0.05, 1 / len(share) ** 0.5))
            axes.plot(min(medians[y] / whole, 1.0), y, "D", color=mark, markersize=6, zorder=3)
            words = "cannot be determined" if unknown else f"±{medians[y] * coordinate.unit:.3g}{coordinate.sign}"
            axes.text(1.03, y, words, transform=axes.get_yaxis_transform(), va="center", color=text, weight="bold")
        axes.set_yticks(range(len(coordinates)), [c.name for c in coordinates])
        axes.set_ylim(len(coordinates) - 0.5, -0.5)
        axes.set_xlim(-0.01, 1.01)
        axes.set_xticks([0, 1], ["none", "all of it"], color=MUTED)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
    return png(figure)


def _image(pixels: np.ndarray, alt: str) -> Image:
    return Image(encode(enlarge(pixels, 96)), alt, width=96)


def _pictures(found: SymmetryFindings) -> Section:
    rows = [
        ("images", [_image(image, "an image") for image in found.inputs]),
        ("prototypes", [_image(image, "its prototype") for image in found.prototypes]),
    ]
    for k in range(len(found.resampled[0])):
        label = "resampled" if k == 0 else ""
        rows.append((label, [_image(images[k], "a natural variation") for images in found.resampled]))
    copies = "the same for all transformed copies of an image"
    but = f", except in {', '.join(found.rough)}, where poses are wrong" if found.rough else ""
    text = (
        f"Images, their prototypes ({copies}{but}), and natural variations: "
        "prototypes transformed as the images of the set are."
    )
    return Section("Prototypes and variations", text, rows=rows, per_line=len(found.inputs))


def _distributions(found: SymmetryFindings) -> Section:
    figures, coordinates = [], _widened(found)
    width = min(760, distribution_width(coordinates))
    for k, (image, v) in enumerate(zip(found.prototypes, found.v, strict=True)):
        example = Example(image, "", "", 1.0, v)
        figures.append(Image(distribution_figure(example, coordinates), f"image {k + 1}", width=width))
    text = (
        "For each image its prototype, and how it is transformed in the set. Any transformed copy of an image may be "
        "its prototype: only widths and shapes say something, not where they lie."
    )
    names = {coordinate.name for coordinate in coordinates}
    if {"tx", "ty"} <= names and names & {"angle", "scale", "stretch", "sx", "sy"}:
        text += " Translations are relative to the point about which rotations and scalings explain most of them."
    return Section("Distributions", text, rows=[("", figures)], per_line=1 if width > 400 else 3)


def _widened(found: SymmetryFindings) -> list[Coordinate]:
    """Coordinates with ranges wide enough for what is shown: poses may leave the searched ones."""
    v = np.concatenate(found.v)
    low, high = np.quantile(v, (0.005, 0.995), axis=0)
    return [
        c if c.periodic else replace(c, low=min(c.low, float(low[k])), high=max(c.high, float(high[k])))
        for k, c in enumerate(found.coordinates)
    ]
