"""`erlangen reproduce`: compute a table or figure of a paper, or redraw the report of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from .fit import Switch, left_open
from .progress import progress
from .refusal import Refusal, refusing

if TYPE_CHECKING:
    from ..papers import Experiment

__all__ = ["Reproduce"]

PAIR = (
    "Two pictures to use in place of our glyphs. No rotation may map one to itself or to the other. Rows then go to "
    "runs/<their names>, unless --results says otherwise."
)
KEPT = "stopped; what was trained is kept, of most models also half a training: the same command goes on from there."


@dataclass(frozen=True)
class Reproduce:
    """Compute tables and figures of the papers, or redraw the report from what is stored."""

    experiments: Annotated[tyro.conf.Positional[tuple[str, ...]], left_open("[EXPERIMENTS …]")] = ()
    """Experiments to run, such as ltt/figure2; the name of a paper stands for all of its experiments."""

    smoke: Switch = False
    """Run the smallest configuration, in seconds. Its rows go to the cache, never to the results."""

    device: str = "auto"
    """auto, cpu or cuda."""

    seeds: int = 1
    """Number of seeds, from --first on."""

    first: int = 0
    """The first seed: rows of other seeds stay as they are stored."""

    jobs: Annotated[int | None, left_open("N")] = None
    """Seeds to run at a time; by default one on the CPU, and up to six on CUDA."""

    pair: Annotated[tuple[Path, Path] | None, left_open("PICTURE PICTURE", PAIR)] = None

    datasets: Annotated[tuple[str, ...], left_open("NAME …")] = ()
    """Only these rows of a table over several data sets, such as cifar10 mnist."""

    methods: Annotated[tuple[str, ...], left_open("NAME …")] = ()
    """Only these rows of a table over several methods, such as none flow."""

    report: Switch = False
    """Redraw results.md and its figures from stored rows."""

    show_list: Annotated[Switch, tyro.conf.arg(name="list")] = False
    """List all experiments."""

    results: Path = Path("results")
    """Folder with the stored rows."""

    docs: Path = Path("docs")
    """Folder with results.md and images/."""

    @property
    def output(self) -> Path:
        """Where rows go."""
        if self.smoke:
            from ..data import cache_folder

            return cache_folder() / "smoke"
        if self.pair and self.results == Path("results"):
            return Path("runs") / "-".join(picture.stem for picture in self.pair)
        return self.results

    def run(self) -> list[Any]:
        """Does what was asked, and returns what to say."""
        if not (self.experiments or self.report or self.show_list):
            raise Refusal("give an experiment, --report or --list.")
        with refusing(self, "fewer --jobs", stopped=lambda: KEPT):
            return [*self._list(), *self._compute(), *self._report()]

    def _list(self) -> list[str]:
        if not self.show_list:
            return []
        from ..papers import experiments

        return [f"{name}  {experiment.title}" for name, experiment in experiments().items()]

    def _compute(self) -> list[Any]:
        if not self.experiments:
            return []
        from ..papers import find
        from ..papers.run import pick_device, reproduce

        for name, count, least in (("seeds", self.seeds, 1), ("jobs", self.jobs, 1), ("first", self.first, 0)):
            if count is not None and count < least:
                raise ValueError(f"{name}: received {count}; accepted is an integer {'>' if least else '>='} 0")
        chosen = list({e.id: e for name in self.experiments for e in find(name)}.values())
        changes: dict[str, Any] = {"pair": readable(self.pair)} if self.pair else {}
        changes |= {name: only for name in ("datasets", "methods") if (only := getattr(self, name))}
        options: dict[str, Any] = {
            "changes": changes,
            "smoke": self.smoke,
            "device": pick_device(self.device),
            "seeds": range(self.first, self.first + self.seeds),
            "jobs": self.jobs,
        }
        with progress("Reproducing") as tell:
            paths = {path: e for e, _, path in reproduce(chosen, self.output, **options, tell=tell)}
        return [line for path, experiment in paths.items() for line in (*_summary(experiment, self.output), path)]

    def _report(self) -> list[Path]:
        if not self.report:
            return []
        from ..papers.results import redraw

        if not self.results.is_dir():  # else a mistyped folder would empty the pages
            raise ValueError(f"results: received {self.results}, which is no folder; accepted is one with results")
        with progress("Drawing the results") as tell:
            return redraw(self.results, self.docs, tell)


def readable(pair: tuple[Path, Path]) -> tuple[str, ...]:
    """The paths of two pictures that can be read.

    Raises:
        ValueError: one cannot.
    """
    from PIL import Image

    for path in pair:
        try:
            with Image.open(path) as picture:
                picture.convert("RGB")
        except OSError as error:
            reason = error.strerror or "not a picture that can be read"
            raise ValueError(f"pair: received {path}, {reason.lower()}; accepted are two pictures") from error
    return tuple(str(path.absolute()) for path in pair)


def _summary(experiment: Experiment, folder: Path) -> list[str]:
    """What the paper says, what is asked and what is stored, one line for each."""
    from ..papers.store import read

    rows = read(experiment, folder).rows
    number: Callable[[float], str] = "{:.3g}".format
    lines = []
    for claim in experiment.paper:
        values = ", ".join(map(number, claim.values(rows))) or "not run"
        lines.append(f"{experiment.id}  {claim.what}: {values} (paper: {claim.paper}; asked: {claim.asked})")
    return lines
