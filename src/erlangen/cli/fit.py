"""`erlangen fit`: from a folder of images, a file or a named set to a run folder with a report."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import tyro

from .progress import progress
from .refusal import refusing

__all__ = ["Fit", "parse_transform"]

SMALLER = "a smaller --batch-size, --samples, --eval-samples or --size, and another --output"
LENGTH = ("steps", "epochs")  # the settings that may change when a run goes on
QUICK = {"steps": 120, "batch_size": 64, "samples": 2, "eval_samples": 8}

# The help of options, where it is more than a line: tyro keeps the breaks of docstrings.
DATA = (
    "A folder with a sub-folder for each class, a .npz file, series in a .csv, .tsv or .ts file, or a named set: "
    "glyphs, mnist, ucr/FaceAll, …"
)
TRANSFORM = (
    "Coordinates to learn, with ranges if not the defaults: angle:180,tx:0.2 or angle:-30:60. Names: tx, ty, angle "
    "(degrees), scale, stretch, shear, sx, sy; hue (turns), saturation, value; crop (with its smallest size); affine "
    "and hsv for all of theirs. For series: warp (with its greatest velocity). If not given: tx,ty,angle; for series "
    "warp."
)
METHOD = (
    "flow: a distribution for each image (Learning to Transform); flow-code: the same, as its published code does it; "
    "augerino: one range for all; lila: the same, by the marginal likelihood; instaaug: a range for each image; pstn: "
    "a transformation of each image, with its uncertainty; stn: the same without uncertainty; affine: augmentation by "
    "hand; tta: averaging at test time only; none: the classifier alone."
)
NET = (
    "The classifier: lenet, fixup, conv13, preact18, small-cnn, embedding or mlp; for series series-cnn. If not given, "
    "it depends on the data."
)
ALPHA = (
    "Weight of the distribution's entropy (augerino: of its width; pstn: of its divergence from the prior). A larger "
    "weight makes the distribution wider."
)
ENTROPY = (
    "Keep the entropy at this value instead, by adapting the weight. The weight is never negative: the entropy cannot "
    "be pushed below the value that the classifier alone leads to."
)
SIZE = (
    "Side of the square to which pictures in a folder are resized and cropped at the centre. If not given: pictures of "
    "one size keep it, or are reduced to 64 on the longer side; those of several sizes become 64 by 64."
)
SERIES = (
    "For a .csv with one time step per row: the column that says to which series a row belongs, or several columns, "
    "such as subject,trial. The other columns are channels."
)
RESUME = (
    "Continue the run in --output with its own settings; --steps or --epochs make it longer. If its data have moved, "
    "say where they are now."
)
Switch: TypeAlias = Annotated[bool, tyro.conf.FlagCreatePairsOff]


def left_open(metavar: str, words: str | None = None) -> Any:
    """An option without a default that could be shown; its help, if not in a docstring."""
    return tyro.conf.arg(metavar=metavar, help=words, help_behavior_hint="")


@dataclass(frozen=True)
class Fit:
    """Train a classifier that learns which transformations leave each image's class unchanged."""

    data: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[DATA]", help=DATA)] = "glyphs"
    transform: Annotated[str | None, tyro.conf.arg(metavar="NAMES", help=TRANSFORM, help_behavior_hint="")] = None
    method: Annotated[
        Literal["flow", "flow-code", "augerino", "lila", "instaaug", "pstn", "stn", "affine", "tta", "none"],
        tyro.conf.arg(help=METHOD),
    ] = "flow"

    net: Annotated[str | None, left_open("NAME", NET)] = None

    epochs: Annotated[int | None, left_open("N")] = None
    """Length of the training in epochs."""

    steps: Annotated[int | None, left_open("N")] = None
    """Length of the training in steps; 800 if neither is given."""

    batch_size: int = 128
    """Images per step."""

    lr: float = 2e-3
    """Learning rate."""

    alpha: Annotated[float | None, left_open("WEIGHT", ALPHA)] = None
    entropy: Annotated[float | None, left_open("NATS", ENTROPY)] = None

    samples: int = 4
    """Views of each image in training."""

    eval_samples: int = 20
    """Views of each image in evaluation."""

    validation: float = 0.1
    """Share of the training set that is held out for validation; 0 for none."""

    size: Annotated[int | None, left_open("PIXELS", SIZE)] = None

    unreadable: Literal["raise", "skip"] = "raise"
    """What to do with files that cannot be read: stop, or skip them."""

    background: Literal["auto", "black", "white"] = "auto"
    """Background for transparent pixels; auto: white if the opaque parts are dark overall, else black."""

    missing: Literal["raise", "interpolate", "drop"] = "raise"
    """What to do with missing values in series: stop, interpolate between neighbours, or drop the series."""

    unequal: Literal["raise", "resample", "pad"] = "raise"
    """What to do with series of different lengths: stop, resample to the longest, or pad with the last value."""

    label: Annotated[str | None, left_open("COLUMN")] = None
    """Column of a .csv that holds the classes; label if not given."""

    series: Annotated[str | None, left_open("COLUMN", SERIES)] = None

    time: Annotated[str | None, left_open("COLUMN")] = None
    """With --series, the column that holds the time."""

    seed: int = 0
    """Random seed of weights, data order and noise."""

    device: str = "auto"
    """auto, cpu, cuda or mps."""

    precision: Literal["32-true", "tf32-mixed", "bf16-mixed", "64-true"] = "32-true"
    """Arithmetic of the training."""

    compile: Switch = False
    """Compile the training step: slow to start, then faster on a GPU."""

    output: Annotated[Path | None, left_open("RUN")] = None
    """Run folder, new or empty; runs/<data>-<method>-<time> if not given."""

    resume: Annotated[Switch, tyro.conf.arg(help=RESUME)] = False

    quick: Switch = False
    """A short run with few views, to see that everything works."""

    def run(self, typed: Collection[str] = ()) -> list[Path]:
        """Trains and writes the run folder; options that were typed count even if they are the defaults."""
        folder = self.output or new_folder(self.data, self.method)
        with refusing(self, SMALLER, stopped=lambda: stopped(folder)):
            return self._run(folder, typed)

    def _run(self, folder: Path, typed: Collection[str]) -> list[Path]:
        from ..estimators import RunConfig, prepare, train_run
        from ..estimators.reporting import write_report
        from ..estimators.training import check_folder, continued
        from ..train import Diverged

        if self.resume and self.output is None:
            raise ValueError("resume: received without a run; accepted with --output RUN, the folder of the run")
        config = RunConfig(**self.settings(typed))
        check_folder(folder, self.resume, self.data)
        if self.resume:
            self._check_same(stored := continued(folder, config), typed)
            config = replace(stored, data=self.data) if "data" in self._asked(typed) else stored
        with progress("Reading") as tell:
            tell(0.0, config.data)
            setting = prepare(config)
        try:
            run = train_run(setting, folder, resume=self.resume)
            with progress("Measuring") as tell:
                run = write_report(run, setting, tell)
        except Diverged as error:
            raise ValueError(str(error)) from error
        except OSError as error:
            raise ValueError(unwritten(folder, error)) from error
        kind = "images" if len(run.record["data"]["shape"]) == 3 else "series"
        print(summary(run.record["results"]["accuracy"], kind))
        if skipped := run.record["data"]["skipped"]:
            files = "file that cannot be read" if len(skipped) == 1 else "files that cannot be read"
            print(f"left out   {len(skipped):>8,} {files}; named in {folder / 'config.json'}")
        return [folder / "report.html"]

    def settings(self, typed: Collection[str] = ()) -> dict[str, Any]:
        """The settings of the run; a quick one has its own defaults."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("output", "resume", "quick")}
        if self.quick and not self.resume:
            asked = {*self._asked(typed), *(("steps",) if self.epochs else ())}
            values |= {name: value for name, value in QUICK.items() if name not in asked}
            values["log_every"] = 10
        return values | {"transform": None if self.transform is None else parse_transform(self.transform)}

    def _asked(self, typed: Collection[str]) -> list[str]:
        """The options that were typed, or differ from their defaults."""
        return [f.name for f in fields(self) if f.name in typed or getattr(self, f.name) != f.default]

    def _check_same(self, stored: Any, typed: Collection[str]) -> None:
        """Raises a `ValueError` for options other than the run began with, since it goes on with its own."""
        asked = self._asked(typed)
        quick = {name: value for name, value in QUICK.items() if name not in (*asked, *LENGTH)}
        if self.quick and any(getattr(stored, name) != value for name, value in quick.items()):
            raise ValueError(
                "quick: received with --resume for a run that began without it; accepted is --resume alone"
            )
        for name in asked:
            if name in ("output", "resume", "quick", *LENGTH):
                continue
            given, had = getattr(self, name), getattr(stored, name)
            if self.transform is not None and name == "transform":
                from ..estimators import resolve_ranges

                same = resolve_ranges(parse_transform(self.transform)) == resolve_ranges(had)
            else:
                same = given == had or (name == "data" and self._moved())
            if not same:
                raise ValueError(
                    f"{name}: received {given!r} with --resume; accepted is what the run began with, {had!r}"
                )

    def _moved(self) -> bool:
        """Whether the data are a path that exists: the run's own may have moved there, which their digest tells."""
        from ..estimators.sources import is_named

        return not is_named(self.data) and os.path.exists(os.path.expanduser(self.data))


def parse_transform(words: str) -> dict[str, float | tuple[float, float] | None]:
    """Names of coordinates with their ranges, angles in radians.

    Example:
        >>> parse_transform("tx:0.2,ty,angle:-90:90")
        {'tx': 0.2, 'ty': None, 'angle': (-1.5707963267948966, 1.5707963267948966)}
    """
    found: dict[str, float | tuple[float, float] | None] = {}
    for item in words.split(","):
        name, *numbers = (part.strip() for part in item.split(":"))
        unit = math.pi / 180 if name == "angle" else 1.0
        try:
            values = [float(number) * unit for number in numbers]
        except ValueError:
            values = [math.nan]
        if not name or len(values) > 2 or not all(map(math.isfinite, values)) or name in found:
            accepted = "names with commas between them, each once, with ranges if wanted: tx:0.2,ty or scale:-0.5:0.2"
            raise ValueError(f"transform: received {item!r} in {words!r}; accepted are {accepted}")
        found[name] = None if not values else values[0] if len(values) == 1 else (values[0], values[1])
    return found


def new_folder(data: str, method: str) -> Path:
    """A folder that does not exist yet."""
    name = re.sub(r"[^\w.-]+", "-", Path(os.path.expanduser(data)).resolve().stem)
    first = Path("runs") / f"{name.strip('-.') or 'data'}-{method}-{datetime.now():%Y%m%d-%H%M%S}"
    numbered = (first.with_name(f"{first.name}-{k}") for k in range(2, 1000))
    return first if not first.exists() else next(path for path in numbered if not path.exists())


def stopped(folder: Path) -> str:
    """What an interrupt has left behind, and what to do."""
    if not (folder / "config.json").exists():
        return "stopped before anything was written."
    return f"stopped; {resuming(folder)} goes on."


def resuming(folder: Path) -> str:
    """The command that goes on with a run, as it can be typed."""
    return f"`erlangen fit --resume --output {shlex.quote(str(folder))}`"


def unwritten(folder: Path, error: OSError) -> str:
    """What to do after files could not be written."""
    reason = (error.strerror or str(error)).rstrip(".")
    go_on = f"{resuming(folder)} goes on" if (folder / "config.json").exists() else "try again"
    return f"cannot write to --output {folder}: {reason}. Put that right, then {go_on}."


def summary(rows: list[dict[str, Any]], kind: str = "images") -> str:
    """The accuracies as lines of text."""
    from ..utils.words import percent

    lines = []
    for row in rows:
        averaged = "" if row["averaged"] is None else f"   {percent(row['averaged'], 1):>7} averaged"
        lines.append(
            f"{row['part']:<11}{row['count']:>8,} {kind}   {percent(row['plain'], 1):>7} as they are{averaged}"
        )
    return "\n".join(lines)
