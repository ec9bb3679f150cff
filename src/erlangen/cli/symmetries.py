"""`erlangen symmetries`: which transformations occur in a folder of images."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from .fit import Switch, left_open, parse_transform
from .refusal import UNWRITTEN, refusing

__all__ = ["Symmetries"]

TRANSFORM = (
    "Coordinates to search, with ranges if not the defaults: tx:0.2 or scale:-0.5:0.2. Names: tx, ty, scale, "
    "stretch, shear, sx, sy; saturation, value; angle and hue, always on the whole circle; affine and hsv for all of "
    "theirs."
)
SIZE = (
    "Side to which pictures in a folder are resized, then cropped at the centre. If not given: 64 if they differ in "
    "size; else their own size, with the longer side reduced to 64 if the shorter one keeps 8 pixels."
)
OUTPUT = (
    "Folder for symmetries.html, symmetries.json and the trained model; created if missing. A finished run in it is "
    "replaced."
)
SMALL: dict[str, Any] = {
    **{"steps": (250, 1500), "batch_size": 64, "samples": 1},
    **{"inference": (256, 128), "generative": (256, 128)},
}
MANY = 4000  # images that a small run looks at


@dataclass(frozen=True)
class Symmetries:
    """Find which transformations occur in images, how far, and show it: prototypes, distributions, variations."""

    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[DATA]")] = "glyphs"
    """A folder of images, with or without sub-folders, a .npz file, or a named set; labels are not used."""

    transform: Annotated[str, tyro.conf.arg(metavar="NAMES", help=TRANSFORM)] = "tx,ty,angle,scale"

    steps: tuple[int, int] = (3000, 6000)
    """Training steps of the two stages: inferring prototypes, and learning how they are transformed."""

    batch_size: int = 128
    """Images per step."""

    size: Annotated[int | None, left_open("PIXELS", SIZE)] = None

    unreadable: Literal["raise", "skip"] = "raise"
    """What to do with files that cannot be read: stop, or skip them."""

    background: Literal["auto", "black", "white"] = "auto"
    """Background for transparent pixels; auto: white if the opaque parts are dark overall, else black."""

    seed: int = 0
    """Random seed of weights, data order and noise."""

    device: str = "auto"
    """auto, cpu, cuda or mps."""

    small: Switch = False
    """A short run with small networks: about a minute on one core."""

    output: Annotated[Path, tyro.conf.arg(help=OUTPUT)] = Path("symmetries")

    resume: Switch = False
    """Continue a stopped run in --output; repeat the options that it was started with."""

    def run(self, typed: Collection[str] = ()) -> list[Path]:
        """Learns, measures and writes both files; options that were typed count even if they are the defaults."""
        with refusing(self, "a smaller --batch-size or --size", stopped=self._stopped):
            return self._run(typed)

    def _run(self, typed: Collection[str]) -> list[Path]:
        from ..estimators import SymmetryFinder
        from ..estimators.sources import load_images, some
        from . import one_thread

        finder = SymmetryFinder(parse_transform(self.transform), device=self.device, **self._settings(typed))
        finder.check()  # to refuse before data are read
        data = load_images(self.data, size=self.size, unreadable=self.unreadable, background=self.background)
        data = some(data, MANY) if self.small else data
        with one_thread() if self.small else nullcontext():
            found = finder.fit(data).report(data)
        paths = found.save(self.output)
        print(found)
        if found.left_out:
            files = "file that cannot be read" if len(found.left_out) == 1 else "files that cannot be read"
            print(f"left out: {len(found.left_out):,} {files}; named in {paths[1]}")
        return paths

    def _settings(self, typed: Collection[str] = ()) -> dict[str, Any]:
        """The settings of the finder; a small run has its own defaults."""
        default = {field.name: field.default for field in fields(self)}
        own: dict[str, Any] = {"steps": self.steps, "batch_size": self.batch_size}
        asked = {name for name, value in own.items() if name in typed or value != default[name]}
        small = {name: value for name, value in SMALL.items() if self.small and name not in asked}
        return own | small | {"seed": self.seed, "folder": self.output, "resume": self.resume}

    def _stopped(self) -> str:
        if not (self.output / "config.json").exists():
            return UNWRITTEN
        return "stopped; the same command with --resume goes on."
