"""A progress bar that is quiet when nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["progress"]


@contextmanager
def progress(title: str) -> Iterator[Callable[[float, str], None]]:
    """A bar on the terminal (standard error), fed with the share done and what is being done."""
    console = Console(stderr=True)
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[what]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=1.0, what="")

        def tell(share: float, what: str) -> None:
            bar.update(task, completed=share, what=what)

        yield tell
