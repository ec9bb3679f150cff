"""A bar with rate and time left, quiet when nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .history import History

__all__ = ["tracked"]


@contextmanager
def tracked(start: int, total: int, show: bool | None) -> Iterator[Callable[[History], None]]:
    """Yields a function that is called after every step; what the last row says stands beside the bar."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, force_terminal=True if show else None)
    columns = (
        TextColumn("[bold]training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}"),
        TimeRemainingColumn(),
    )
    watched = console.is_terminal and show is not False
    with Progress(*columns, console=console, transient=True, disable=not watched) as bar:
        task = bar.add_task("training", total=total, completed=start, what="")

        def tell(history: History) -> None:
            if watched:
                row = next((row for row in reversed(history.rows) if row["kind"] == "train"), None)
                bar.update(task, advance=1, what=f"loss {row['loss']:.4g}, {row['rate']:.0f}/s" if row else "")

        yield tell
