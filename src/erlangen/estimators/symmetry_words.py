"""What a report on symmetries says: a sentence for each coordinate, and what to keep in mind."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..metrics import occupied_arcs, occupied_mass
from ..report.symmetries import middle_of
from ..utils.words import percent, several
from .coordinates import AFFINE
from .symmetry_errors import untold
from .symmetry_images import Ground, ground_of, specks
from .symmetry_report import Scales, spoken_of

__all__ = ["arcs", "caution", "further", "lead", "usage", "words"]

FILLED = (
    "These images fill their frames. If they all differ, as photographs do, each has a prototype of its own, in any "
    "pose; wide ranges then show that, not how far images were moved."
)
FOLLOWED = (
    "In {} the density of an image follows the image: it moves along when the image is moved by a known amount, which "
    "it should not. What is found there is in part what this image did, not what images like it do, and its range is "
    "likely too small."
)
FAINT = (
    "Subjects hardly stand out from the noise of their ground: when it is taken away, little but specks is left of "
    "them, whose places are found and not theirs. Pictures reduced to a smaller size have less noise."
)
ENOUGH = 40  # images, of which some can be held out: see `set_aside`
FEW = f"Fewer than {ENOUGH} images say little: what is found describes these images, not others like them."
FACTORS = ("scale", "sx", "sy", "saturation", "value")  # coordinates that are logarithms of them
MANY = 0.01  # the share of poses at the end of a range that is worth a word


def lead(every: Tensor, measured: int) -> str:
    """What was looked at, in a sentence or two."""
    size = "×".join(map(str, every.shape[2:]))
    some = "" if measured == len(every) else f" Ranges are those of {measured:,} of them, chosen at random."
    return f"{several(len(every), 'image')} of {size} pixels; no labels were used.{some}"


def caution(every: Tensor, names: Sequence[str], follow: Sequence[str] = (), ground: Ground | None = None) -> str:
    """What to keep in mind: that images fill their frames or are faint, that densities follow them, that they are few.

    Poses of photographs move with them, so that they do not err, and say nothing of how these were taken.
    """
    filled = bool(set(names) & set(AFFINE)) and ground_of(every) is None
    faint = ground is not None and specks(every, ground)
    said = {FILLED: filled, FAINT: faint, FOLLOWED.format(" and ".join(follow)): bool(follow), FEW: len(every) < ENOUGH}
    return " ".join(sentence for sentence, true in said.items() if true)


def usage(folder: Path | None) -> str:
    """How to use what was learned, in Python."""
    use = "finder.resample(x, 10)  # natural variations of images (B, C, H, W)"
    if folder is None:
        return use
    start = "from erlangen.estimators import SymmetryFinder"
    return f"{start}\nfinder = SymmetryFinder.load({folder.as_posix()!r})\n{use}"


def arcs(
    v: Tensor, names: Sequence[str], lengths: Sequence[float], periodic: Sequence[bool], about: np.ndarray
) -> dict[str, str]:
    """In words, for each coordinate on a circle: in how many arcs transformations lie, and which share of them.

    Both are those of the median image. A few transformations elsewhere, as of digits that are others upside down, make
    the range of nearly all much wider than what is usual.

    Shape:
        v: `(S, N, d)`; about: which images count, see `spoken_of`, `(N, d)`.
    """
    found = {}
    for k, (name, length) in enumerate(zip(names, lengths, strict=True)):
        if periodic[k]:
            angle = v[:, torch.from_numpy(about[:, k]), k] * 2 * math.pi / length
            number, share, mass = (
                each.double().median().item() for each in (*occupied_arcs(angle), occupied_mass(angle))
            )
            many, hold = ("one arc", "holds") if number == 1 else (f"{number:.0f} arcs", "hold")
            found[name] = f"{many}, {percent(share)} of the circle, {hold} {percent(mass)}; 98 % lie within "
    return found


def further(ranges: Mapping[str, tuple[float, float]], ended: Mapping[str, float]) -> dict[str, str]:
    """What is said of coordinates with many poses at the end of their bounds: ranges that were found are too small.

    Colours end where they are clipped, so that to look further need not help.
    """
    said = {}
    for name in (name for name, share in ended.items() if share > MANY):
        low, high = (f"{2 * end:.3g}" for end in ranges[name])
        wider = f"{name}:{high}" if low == f"-{high}" else f"{name}:{low}:{high}"
        said[name] = "; poses reach the end of the searched range" + (
            f": search further, {wider}" if name in AFFINE else ""
        )
    return said


def words(
    names: Sequence[str],
    found: np.ndarray,
    scales: Scales,
    circles: Mapping[str, str],
    ends: Mapping[str, str],
) -> list[str]:
    """A sentence for each coordinate; `circles` is what is said of those on circles, `ends` see `further`."""
    said, about = [], spoken_of(found, scales.least)
    rough, unlearned = untold(found, *scales[1:])
    for k, name in enumerate(names):
        scale, unit = {"angle": (180 / math.pi, "°"), "hue": (360.0, "°")}.get(name, (1.0, ""))
        whole, small, error, gap, _ = (column[k].item() for column in scales)
        told, others = found[about[:, k], k], found[~about[:, k], k]
        low, middle, high = middle_of(told[:, None]).squeeze(1).tolist()
        end = f"{ends.get(name, '')}."
        if rough[k] or unlearned[k]:
            why = _wrong(f"{(error if rough[k] else gap) * scale:.2g}{unit}", rough[k])
            said.append(f"{name}: cannot be determined (found: ±{middle * scale:.3g}{unit}, but {why}){end}")
            continue
        if middle <= small:
            range_ = f"±{middle * scale:.2g}{unit}, searched ±{whole * scale:.3g}{unit}"
            said.append(f"{name}: hardly occurs ({range_}){end}")
            continue
        span = f" (±{low * scale:.3g}{unit} to ±{high * scale:.3g}{unit} from image to image)"
        spread = span if len(told) > 1 else ""
        some = f"in {percent(len(told) / len(found))} of the images, " if len(others) else ""
        rest = _rest(np.median(others).item(), small, scale, unit) if len(others) else ""
        range_ = f"±{middle * scale:.3g}{unit}{_plainly(name, middle)}"
        said.append(f"{name}: {some}{circles.get(name, '')}{range_}{spread}{rest}{end}")
    return said


def _rest(half: float, small: float, scale: float, unit: str) -> str:
    """What is said of the images that a sentence is not about."""
    range_ = f"±{half * scale:.2g}{unit}"
    return f"; in the others {range_}" if half > small else f"; in the others it hardly occurs ({range_})"


def _plainly(name: str, half: float) -> str:
    """The same in plain words: translations as parts of the longer side, and logarithms as factors."""
    if name in ("tx", "ty"):
        return f", {50 * half:.2g} % of the longer side"
    return f", ×{math.exp(-half):.2f} to ×{math.exp(half):.2f}" if name in FACTORS else ""


def _wrong(far: str, poses: bool) -> str:
    """Why nothing can be told, in words: poses err, or else densities."""
    if poses:
        return f"the poses of half of the images, transformed by known amounts, are wrong by {far} or more"
    why = "it has learned too little, or from images that lie elsewhere; more steps may help"
    return f"poses are on average {far} from where their density puts them: {why}"
