"""`erlangen symmetries`: which transformations occur in a folder of images."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from .. import __version__
from .fit import TRANSFORM, Switch, left_open, parse_transform
from .refusal import refusing

if TYPE_CHECKING:
    from ..data import DataSet

__all__ = ["Symmetries"]

SMALL: dict[str, Any] = {
    **{"steps": (250, 900), "batch_size": 64, "samples": 1},
    **{"inference": (256, 128), "generative": (256, 128)},
}
MANY = 4000  # images that a small run looks at


@dataclass(frozen=True)
class Symmetries:
    """Find which transformations occur in images, how far, and show it: prototypes, distributions, variations."""

    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[DATA]")] = "glyphs"
    """A folder of images, with or without sub-folders, a .npz file, or a named set; labels are not looked at."""

    transform: Annotated[str, tyro.conf.arg(metavar="NAMES", help=TRANSFORM)] = "tx,ty,angle,scale"

    steps: tuple[int, int] = (3000, 6000)
    """Of the inference of prototypes, and of their distribution."""

    batch_size: int = 128
    """Images to a step."""

    size: Annotated[int | None, left_open("PIXELS")] = None
    """Side to which the pictures of a folder are resized; 64 if not given."""

    unreadable: Literal["raise", "skip"] = "raise"
    """Whether files that cannot be read stop everything or are left out."""

    seed: int = 0
    """Of weights, order and noise."""

    device: str = "auto"
    """auto, cpu, cuda or mps."""

    small: Switch = False
    """A short run with small networks: about two minutes on two cores."""

    output: Path = Path("symmetries")
    """Folder for symmetries.html and symmetries.json; made if it is missing."""

    def run(self) -> list[Path]:
        """Learns, measures and writes both files."""
        with refusing(self, "a smaller --batch-size or --size", stopped=self._stopped):
            return self._run()

    def _run(self) -> list[Path]:
        from ..estimators import SymmetryFinder
        from . import one_thread

        own: dict[str, Any] = {"steps": self.steps, "batch_size": self.batch_size} | (SMALL if self.small else {})
        finder = SymmetryFinder(parse_transform(self.transform), seed=self.seed, device=self.device, **own)
        finder.looked_for()  # to refuse before data are read
        data = self._data()
        finder.folder, finder.resume = self._training / self._name(data), True
        with one_thread() if self.small else nullcontext():
            found = finder.fit(data).report(data)
        paths = found.save(self.output)
        shutil.rmtree(self._training, ignore_errors=True)
        print(found)
        return paths

    @property
    def _training(self) -> Path:
        """Where checkpoints are until all is done."""
        return self.output / "training"

    def _name(self, data: DataSet) -> str:
        """With which a command goes on after an interrupt, and no other: settings, data and version."""
        from ..estimators.sources import data_digest

        settings = repr((__version__, replace(self, output=Path()), data_digest(data)))
        return hashlib.sha256(settings.encode()).hexdigest()[:16]

    def _stopped(self) -> str:
        begun = any(self._training.glob("*/checkpoint/0*"))
        return "stopped; the same command goes on from here." if begun else "stopped before anything was learned."

    def _data(self) -> DataSet:
        import torch

        from ..data import load, loose_images, named_sets
        from ..estimators.sources import LARGEST

        path = Path(self.data).expanduser()
        size: dict[str, Any] = {} if self.size is None else {"size": self.size}
        options: Any = {"size": LARGEST, "unreadable": self.unreadable, **size}
        if self.data in named_sets() or not path.is_dir():
            data = load(self.data, **size)
        elif any(entry.is_dir() and not entry.name.startswith(".") for entry in path.iterdir()):
            data = load(path, **options)
        else:
            data = loose_images(path, **options)
        return data.subset(torch.arange(min(len(data), MANY))) if self.small else data
