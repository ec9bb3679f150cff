"""The command line. Thin; torch loads when it is needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import tyro

from .. import __version__
from .audit import Audit
from .check import Check
from .fit import Fit, Switch
from .progress import progress
from .refusal import UNWRITTEN, Refusal, Stopped, ending, in_words, refusing
from .reproduce import Reproduce
from .symmetries import Symmetries
from .typed import given

__all__ = ["main"]

DRAWN = "stopped; figures that were finished before are there."


@dataclass(frozen=True)
class Demo:
    """Learn which rotations leave pictures unchanged, with three methods, and show the answers: two minutes."""

    output: Path = Path("demo")
    """Folder for demo.html, demo.png and the trained models; created if missing. A stopped run in it continues."""

    quick: Switch = False
    """A few steps of everything, to see that it works."""

    def run(self) -> list[Path]:
        """Trains, measures and draws."""
        from ..estimators.demo import Scale, demo

        scale = Scale(images=200, steps=10, samples=100, turned=40, shifts=2) if self.quick else Scale()
        try:
            with one_thread(), progress("Demonstration") as tell:
                return demo(self.output, tell, scale=scale, jobs=min(2, os.cpu_count() or 1))
        except KeyboardInterrupt:
            raise Stopped("stopped; the same command goes on from here.") from None
        except (ValueError, FileExistsError) as error:
            remedy = f"Remove --output {self.output}, or give another folder."
            raise Refusal(f"{in_words(str(error), self)} {remedy}") from error


@dataclass(frozen=True)
class Gallery:
    """Draw the gallery of all transforms: one picture and one self-contained page."""

    output: Path = Path("gallery")
    """Folder for gallery.png and gallery.html; created if missing."""

    def run(self) -> list[Path]:
        """Draws both files."""
        from ..report.gallery import gallery

        with one_thread(), progress("Drawing the gallery") as tell:
            return list(gallery(self.output, tell))


@dataclass(frozen=True)
class Figures:
    """Redraw the figures of the documentation."""

    output: Path = Path("docs/images")
    """Folder for the figures; created if missing."""

    results: Path = Path("results/distributions")
    """Folder of the stored numbers and densities that some figures show."""

    compute: Switch = False
    """Compute the stored numbers first, which takes minutes."""

    def run(self) -> list[Path]:
        """Draws all of them."""
        from ..estimators.bumps import align_bumps
        from ..report.conventions import figures
        from ..report.densities import densities
        from ..report.families import compute_families
        from ..report.integration import compute_quadrature

        with refusing(self, stopped=lambda: DRAWN), one_thread():
            if self.compute:
                with progress("Fitting every family") as tell:
                    compute_families(self.results, tell)
                with progress("Measuring quadrature") as tell:
                    compute_quadrature(self.results, tell)
                with progress("Aligning series") as tell:
                    align_bumps(self.output, self.results.parent / "series", tell)
            with progress("Drawing the figures") as tell:
                paths = densities(self.output, self.results, lambda share, what: tell(0.1 * share, what))
                return paths + figures(self.output, lambda share, what: tell(0.1 + 0.9 * share, what))


Command: TypeAlias = (
    Annotated[Fit, tyro.conf.subcommand("fit")]
    | Annotated[Audit, tyro.conf.subcommand("audit")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Symmetries, tyro.conf.subcommand("symmetries")]
    | Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Gallery, tyro.conf.subcommand("gallery")]
    | Annotated[Figures, tyro.conf.subcommand("figures")]
    | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
)
DESCRIPTION = """Learn from data which transformations leave an input's meaning unchanged.

`erlangen --version` says which version this is."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code.

    It is 0, 2 for what the user can put right, 1 where a check fails, 130 after an interrupt, and 141 where nobody
    reads on, as after `| head`.
    """
    try:
        try:
            return _main(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        return 141


def _main(arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments in (["--version"], ["-V"]):
        print(f"erlangen {__version__}")
        return 0
    command = tyro.cli(
        Command,  # pyright: ignore[reportArgumentType]
        prog="erlangen",
        description=DESCRIPTION,
        args=arguments or ["--help"],
        config=(tyro.conf.OmitSubcommandPrefixes,),
    )
    command = expanded(command)
    # A run folder must be new, which only the command itself can judge; a check writes nothing.
    if isinstance(command, Check | Fit | Reproduce):
        return _run(command, arguments[1:])
    new = [folder for folder in (command.output, *command.output.parents) if not folder.exists()]
    try:
        return _run(command, arguments[1:], refusal(command.output))
    finally:
        for folder in new:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def expanded(command: Any) -> Any:
    """A command with the user's folder for ~ in its paths, which a shell leaves as it is in `--output=~/runs`."""
    given = {field.name: getattr(command, field.name) for field in fields(command)}
    paths = {name: Path(os.path.expanduser(path)) for name, path in given.items() if isinstance(path, Path)}
    return replace(command, **paths)


def _run(command: Any, arguments: Sequence[str], reason: str | None = None) -> int:
    """Runs a command, unless there is a reason not to, and says why where it comes to nothing."""
    code = Refusal.code
    if reason is None:
        try:
            # What was typed counts, even if it is the default.
            typed = [given(command, arguments)] if isinstance(command, Fit | Symmetries) else []
            with ending():
                paths = command.run(*typed)
        except OSError as error:
            reason = f"{error.filename or getattr(command, 'output', command)}: {error.strerror or error}"
        except Refusal as error:
            reason, code = str(error), error.code
        except KeyboardInterrupt:
            reason, code = UNWRITTEN, Stopped.code
        else:
            print(*paths, sep="\n")
            return 0
    print(f"erlangen: {reason}", file=sys.stderr)
    return code


@contextmanager
def one_thread() -> Iterator[None]:
    """Pictures are small: threads gain nothing on them, and on a busy machine they wait for one another."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def refusal(output: Path) -> str | None:
    """Why no files can be put into a folder, in a sentence, if they cannot; it is made if it is missing."""
    if output.exists() and not output.is_dir():
        return f"--output {output} is a file; give a folder."
    try:
        output.mkdir(parents=True, exist_ok=True)
        probe = output / ".erlangen"
        probe.touch()
        probe.unlink()
    except OSError as error:
        return f"cannot write to --output {output}: {(error.strerror or str(error)).lower()}."
    return None
