"""A bar with rate and time left, quiet when nobody watches."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .history import History

__all__ = ["tracked"]


@contextmanager
def tracked(start: int, total: int, show: bool | None) -> Iterator[Callable[[Sequence[History]], None]]:
    """Yields a function that is called after every step; what the last rows say stands beside the bar."""
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

        def tell(histories: Sequence[History]) -> None:
            if watched:
                last = [next((r for r in reversed(h.rows) if r["kind"] == "train"), None) for h in histories]
                rows = [row for row in last if row is not None]
                what = f"loss {statistics.fmean(r['loss'] for r in rows):.4g}, " if rows else ""
                bar.update(task, advance=1, what=what + f"{sum(r['rate'] for r in rows):.0f}/s" if rows else "")

        yield tell
