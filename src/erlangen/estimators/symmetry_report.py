"""What `SymmetryFinder.report` returns: how far images are transformed, in numbers and a page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data import FolderSet
from ..report.canvas import pixels
from ..report.symmetries import SymmetryFindings, middle_of, symmetries_page
from ..utils.io import write_bytes, write_json
from .coordinates import AFFINE
from .symmetry_errors import PART, untold
from .symmetry_run import REPORT

__all__ = [
    "LITTLE",
    "Scales",
    "Symmetries",
    "as_bytes",
    "at_the_end",
    "image_names",
    "least_of",
    "named",
    "recentred",
    "spoken_of",
]

# A variance of turns (in radians) and of sizes: where there is less, nothing turns. What that leaves of translations is
# at most 0.027 of how far the prototype is shifted, which is less than half a pixel of small images.
STILL = 1e-3
LITTLE = 0.05  # a share of the range that was looked for: less hardly occurs
FAR = 4.0  # images in which a coordinate goes this many times as far as in others are of another kind
SIZES = ("scale", "stretch", "sx", "sy")
NEAR = 0.02  # the end of a range, a share of its half


class Scales(NamedTuple):
    """What ranges are compared with, `(d,)` each.

    Attributes:
        looked: half the range that was looked for.
        least: what a range must be greater than to count as one; see `least_of`.
        error: how far the median pose is wrong, of images that were transformed at random; see `pose_errors`.
        gap: how far poses lie from where densities have them; see `density_errors`.
        chance: how far they may by chance; see `by_chance`.
    """

    looked: np.ndarray
    least: np.ndarray
    error: np.ndarray
    gap: np.ndarray
    chance: np.ndarray


@dataclass(frozen=True)
class Symmetries:
    """What `SymmetryFinder.report` found.

    Attributes:
        names: of the coordinates.
        images: of those that were measured, their files, or their places among all.
        half_ranges: of each image, half of the shortest range that holds 98 % of its transformations, `(N, d)`.
        looked: half the range that was looked for, `(d,)`.
        least: what a range must be greater than to count as one, `(d,)`; see `least_of`.
        error: how far the median pose is wrong, `(d,)`; see `pose_errors`.
        gap: how far poses lie from where densities have them, `(d,)`; see `density_errors`.
        chance: how far they may by chance, `(d,)`; see `by_chance`.
        at_the_end: the share of images whose poses lie at the end of what poses can be, `(d,)`; see `at_the_end`.
        left_out: files that could not be read.
        findings: what the page shows.
    """

    names: tuple[str, ...]
    images: tuple[str, ...]
    half_ranges: np.ndarray
    looked: np.ndarray
    least: np.ndarray
    error: np.ndarray
    gap: np.ndarray
    chance: np.ndarray
    at_the_end: np.ndarray
    left_out: tuple[str, ...]
    findings: SymmetryFindings

    def rows(self) -> list[dict[str, Any]]:
        """For each coordinate its median over images, the middle 90 % of them, whether it occurs, and in which share.

        A coordinate occurs, too, if it goes far in some images and hardly occurs in the most; see `spoken_of`. Whether
        it occurs is None where that cannot be told, see `untold`.
        """
        low, middle, high = middle_of(self.half_ranges)
        about = spoken_of(self.half_ranges, self.least)
        others = np.ma.median(np.ma.array(self.half_ranges, mask=about), 0).filled(np.inf)
        share = np.where(others <= self.least, about, self.half_ranges > self.least).mean(0)
        occurs = ((middle > self.least) | ~about.all(0)).astype(object)
        scales = (self.least, self.error, self.gap, self.chance)
        occurs[np.logical_or(*untold(self.half_ranges, *scales))] = None
        keys = ("half_range", "low", "high", "looked", *Scales._fields[1:], "occurs", "share", "at_the_end")
        columns = (middle, low, high, self.looked, *scales, occurs, share, self.at_the_end)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [{"name": name, **dict(zip(keys, row, strict=True))} for name, row in zip(self.names, rows, strict=True)]

    def __str__(self) -> str:
        return "\n".join((*self.findings.words, *filter(None, [self.findings.caution])))

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes symmetries.html and symmetries.json, and returns their paths."""
        page, numbers = (Path(os.path.expanduser(folder)) / name for name in REPORT)
        write_bytes(page, symmetries_page(self.findings).encode())
        content = {
            "coordinates": self.rows(),
            "caution": self.findings.caution,
            "images": list(self.images),
            "half_ranges": self.half_ranges.tolist(),
            "left_out": list(self.left_out),
            "settings": self.findings.facts,
        }
        write_json(numbers, {**content, "provenance": self.findings.about})
        return [page, numbers]


def recentred(v: Tensor, names: Sequence[str], of: Tensor | None = None) -> Tensor:
    r"""Coordinates as seen from shifted prototypes, such that turns explain as much of the translations as they can.

    Where a prototype lies is arbitrary. Images that were turned or scaled around a point other than the prototype's
    centre have translations that follow, $w = c\, e^{s + i\theta} + w_0$; the shift c of each prototype is found by
    least squares, and its part is taken out. What is left are translations of the prototype that is shifted by c.

    Args:
        v: coordinates for each image.
        names: theirs.
        of: samples by which the shifts are found; v if None.

    Shape:
        v, of: `(S, N, d)`; result: that of v.
    """
    if not {"tx", "ty"} <= set(names) or not {"angle", *SIZES} & set(names):
        return v
    turn, w = _turns(v if of is None else of, names)
    u, away = turn - turn.mean(0), w - w.mean(0)
    still = STILL * turn.abs().square().sum(0)
    c = (u.conj() * away).sum(0) / (u.abs().square().sum(0) + still)
    turn, w = _turns(v, names)
    left = w - c * turn
    right, up = torch.view_as_real(left).squeeze(-2).unbind(-1) if left.is_complex() else left.unbind(-1)
    out = v.clone()
    out[..., names.index("tx")], out[..., names.index("ty")] = right.to(v.dtype), -up.to(v.dtype)
    return out


def _turns(v: Tensor, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    r"""Turns and sizes, $e^{s + i\theta}$, and translations, as complex numbers: y points down, so up is imaginary.

    Where nothing turns, both axes are apart, each with a size of its own: real numbers, right and up.

    Shape:
        v: `(S, N, d)`; results: `(S, N, 1)`, or `(S, N, 2)` without an angle.
    """
    column = {name: v[..., k].double() for k, name in enumerate(names)}
    still = torch.zeros_like(column["tx"])
    if "angle" not in column:
        scale, stretch, sx, sy = (column.get(name, still) for name in SIZES)
        sizes = torch.stack((scale + stretch + sx, scale - stretch + sy), -1).exp()
        return sizes, torch.stack((column["tx"], -column["ty"]), -1)
    scales = [column[name] for name in ("scale", "sx", "sy") if name in column]
    size = torch.stack(scales).mean(0).exp() if scales else still.exp()
    turn, w = torch.polar(size, column["angle"]), torch.complex(column["tx"], -column["ty"])
    return turn[..., None], w[..., None]


def image_names(X: object, rows: Tensor) -> tuple[str, ...]:
    """What to call images: by their files, or by their places in the set."""
    if isinstance(X, FolderSet):
        return tuple(X.files[i].as_posix() for i in rows.tolist())
    return tuple(map(str, rows.tolist()))


def named(names: Sequence[str], which: np.ndarray) -> list[str]:
    """The names of some coordinates."""
    return [name for name, one in zip(names, which, strict=True) if one]


def spoken_of(found: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The images that a sentence is about, for each coordinate: all, or those that go far, where others hardly move.

    Where arrows turn and letters do not, a median says what most do, and nothing of the others. Ranges that a density
    has not learned well spread too, but not as far. Those of letters may be a little more than what counts: both kinds
    part halfway between small ranges and great ones.

    Shape:
        found: half ranges, `(N, d)`; least: `(d,)`; result: `(N, d)`.
    """
    low, _, high = middle_of(found)
    far = found > np.sqrt(np.maximum(low, least) * high)
    about = np.ones_like(found, dtype=bool)
    for k in np.flatnonzero((high > least) & far.any(0) & ~far.all(0)):
        if np.median(found[far[:, k], k]) > FAR * np.median(found[~far[:, k], k]):
            about[:, k] = far[:, k]
    return about


def least_of(names: Sequence[str], looked: np.ndarray, side: int, error: np.ndarray) -> np.ndarray:
    """What a range must be greater than to count: a small part of what was looked for, and a move by half a pixel.

    In affine coordinates no point of the frame moves further than the coordinate itself, in halves of the longer side.
    A small part of the circle is many pixels: where poses are exact, less counts, if it is several times their error.
    """
    little = LITTLE * looked
    floor = np.where([name in AFFINE for name in names], 1 / side, little)
    return np.maximum(np.minimum(little, error / PART), floor)


def at_the_end(poses: Tensor, bounds: Tensor | None, periodic: Sequence[bool]) -> np.ndarray:
    """The share of poses that lie at an end of their bounds, where images are that were moved further, `(d,)`.

    Coordinates on circles have no ends, and poses that start from moments have no bounds: 0 for these.

    Shape:
        poses: `(N, d)`; bounds: `(2, d)`.
    """
    if bounds is None:
        return np.zeros(len(periodic))
    low, high = bounds.cpu()
    near = torch.minimum(poses - low, high - poses) < NEAR * (high - low) / 2
    return (near & ~torch.tensor(periodic)).double().mean(0).numpy()


def as_bytes(images: Tensor) -> list[np.ndarray]:
    """Images in [0, 1] as `(H, W, 3)` bytes; those that have neither one channel nor three as the mean of theirs."""
    colour = images if images.shape[1] in (1, 3) else images.mean(1, keepdim=True)
    return [pixels(image) for image in colour]
