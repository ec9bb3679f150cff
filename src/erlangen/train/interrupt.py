"""Interrupts that wait for the end of a step: Ctrl-C, and the request to end that a scheduler sends before it kills."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import parent_process

__all__ = ["held"]

USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@contextmanager
def held(hold: bool) -> Iterator[Callable[[], bool]]:
    """Holds an interrupt back to the end of the block, and yields a function that says whether there was one.

    A second one is not held back. None is outside the main thread, which alone may, and where somebody else handles
    them; nor is a request to end in a process of a pool, which has others to answer to.
    """
    main, seen, owner = threading.current_thread() is threading.main_thread(), False, os.getpid()
    mine = [number for number, usual in USUAL.items() if hold and main and signal.getsignal(number) == usual]
    if parent_process() is not None:
        mine = [number for number in mine if number != signal.SIGTERM]

    def restore() -> None:
        for number in mine:
            signal.signal(number, USUAL[number])

    def note(number: int, frame: object) -> None:
        nonlocal seen
        seen = True
        restore()
        if os.getpid() != owner:  # a fork, such as a worker that loads data
            signal.raise_signal(number)

    for number in mine:
        signal.signal(number, note)
    try:
        yield lambda: seen
    finally:
        restore()
    if seen:
        raise KeyboardInterrupt
