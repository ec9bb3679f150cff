"""Ctrl-C that waits for the end of a step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["held"]


@contextmanager
def held(hold: bool) -> Iterator[Callable[[], bool]]:
    """Holds an interrupt back to the end of the block, and yields a function that says whether there was one.

    A second one is not held back. None is outside the main thread, which alone may, and where somebody else handles
    them.
    """
    main = threading.current_thread() is threading.main_thread()
    hold, seen = hold and main and signal.getsignal(signal.SIGINT) is signal.default_int_handler, False

    def note(number: int, frame: object) -> None:
        nonlocal seen
        seen = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if hold:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: seen
    finally:
        if hold:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if seen:
        raise KeyboardInterrupt
