"""`erlangen audit`: any model, measured under transformations of any data."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from .fit import Switch, left_open
from .progress import progress
from .refusal import refusing

__all__ = ["Audit", "parse_ladders"]

SMALL = 64  # pixels along a side, up to which threads gain little and, on a busy machine, lose a lot
MODEL = (
    "A run folder, a .pt2 file of torch.export, an .onnx file, or package.module:function that returns a module. It "
    "takes images (B, C, H, W) and gives logits or probabilities (B, K)."
)
TRANSFORMS = (
    "Transformations to measure, with strengths if not the defaults: rotation:15:30,flip. Names: rotation "
    "(degrees), translation (share of the side), scale (factor), shear, flip, hue (degrees), saturation (factor), blur "
    "(pixels)."
)
SIZE = (
    "Side to which images are resized for the model; pictures in a folder when they are read, so before they are "
    "transformed. If not given, that of the run, or no resizing."
)
BACKGROUND = (
    "Background for transparent pixels; auto: that of the run, else white if the opaque parts are dark overall, else "
    "black."
)


@dataclass(frozen=True)
class Audit:
    """Measure how invariant a model is, whoever made it: a page to read and a file to compare with."""

    model: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="MODEL", help=MODEL)]
    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="DATA")]
    """A folder with a sub-folder for each class, a .npz file, or a named set; the test part if there are parts."""

    transforms: Annotated[str | None, tyro.conf.arg(metavar="NAMES", help=TRANSFORMS, help_behavior_hint="")] = None

    size: Annotated[int | None, left_open("PIXELS", SIZE)] = None

    mean: tuple[float, ...] = (0.0,)
    """Mean to subtract from images in [0, 1] (times --range), one for each channel or one for all."""

    std: tuple[float, ...] = (1.0,)
    """Standard deviation to divide by afterwards."""

    channels: Annotated[int | None, left_open("N")] = None
    """Channels that the model takes: grey images are repeated, and colour images become grey for 1."""

    range: float = 1.0
    """Largest pixel value before mean and std: 255 for a model that takes bytes."""

    channels_last: Switch = False
    """The model takes images (B, H, W, C), as TensorFlow models do."""

    classes: Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="NAME …", help_behavior_hint="")] = None
    """Class names of the model's outputs, in order, if they differ from the data's classes sorted by name."""

    images: int = 1000
    """Number of images at most; a fixed choice of them if there are more."""

    saliency: int = 32
    """Number of these on which saliency is measured, which takes much of the time; 0 for none."""

    batch_size: int = 256
    """Images per call of the model."""

    unreadable: Literal["raise", "skip"] = "raise"
    """What to do with files that cannot be read: stop, or skip them."""

    background: Annotated[Literal["auto", "black", "white"], tyro.conf.arg(help=BACKGROUND)] = "auto"

    seed: int = 0
    """Random seed, for models that draw random numbers."""

    output: Path = Path("audit")
    """Folder for report.html and audit.json; created if missing."""

    def run(self) -> list[Path]:
        """Measures and writes both files."""
        with refusing(self, "a smaller --batch-size, --images or --size"):
            return self._run()

    def _run(self) -> list[Path]:
        from ..audit import Preprocess, Settings, audit
        from ..audit.case import as_data
        from ..estimators.sources import is_named
        from . import one_thread

        settings = Settings(
            images=self.images, saliency=self.saliency, batch_size=self.batch_size, seed=self.seed, classes=self.classes
        )
        preprocess = Preprocess(self.size, self.mean, self.std, self.channels, self.range, self.channels_last)
        transforms = None if self.transforms is None else parse_ladders(self.transforms)
        folder = os.path.isdir(os.path.expanduser(self.data)) and not is_named(self.data)
        with progress("Auditing") as tell:
            tell(0.0, f"reading {self.data}")
            data = as_data(self.data, **self._reading() if folder else {})
            small = max(self.size or 0, *data.x.shape[-2:]) <= SMALL
            with one_thread() if small else nullcontext():
                found = audit(self.model, data, transforms, preprocess=preprocess, settings=settings, progress=tell)
        paths = found.save(self.output)
        print(*(f"{about}: {words}" for about, words in found.summary.items()), *found.notes, sep="\n")
        return paths

    def _reading(self) -> dict[str, Any]:
        """How a folder of pictures is read: options that were not given are those of the run that is audited."""
        how = {"size": self.size, "unreadable": self.unreadable, "background": self.background}
        if (run := Path(os.path.expanduser(self.model))).is_dir():
            from ..estimators.runs import read_record

            record = read_record(run)
            ground = record["data"].get("background")
            if self.size is None:
                how["size"] = record["config"].get("size")
            if self.background == "auto" and ground:
                how["background"] = ground[0]
        return how


def parse_ladders(words: str) -> dict[str, Any]:
    """Names of transformations with their strengths, None for those of the ladder.

    Example:
        >>> parse_ladders("rotation:15:30,flip")
        {'rotation': [15.0, 30.0], 'flip': None}
    """
    found: dict[str, Any] = {}
    for item in words.split(","):
        name, *numbers = (part.strip() for part in item.split(":"))
        if name in found:
            raise ValueError(f"transforms: received {name} twice; accepted is once, with all its strengths")
        try:
            found[name] = [float(number) for number in numbers] or None
        except ValueError:
            accepted = "names with commas between them, with strengths if wanted: rotation:15:30,flip"
            raise ValueError(f"transforms: received {item!r}; accepted are {accepted}") from None
    return found
