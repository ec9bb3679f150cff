"""Interrupts that wait for the end of a step: Ctrl-C, and the request to end that a scheduler sends before it kills."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import parent_process

__all__ = ["held"]

# Handlers that may be replaced, the usual one first; commands turn a request to end into an interrupt.
USUAL = {
    signal.SIGINT: (signal.default_int_handler,),
    signal.SIGTERM: (signal.SIG_DFL, signal.default_int_handler),
}


@contextmanager
def held(hold: bool) -> Iterator[Callable[[], bool]]:
    """Holds an interrupt back to the end of the block, and yields a function that says whether there was one.

    A second one is not held back. Nothing is held back outside the main thread, which alone may handle signals, nor
    where somebody else handles them, nor is a request to end in a process of a pool, which answers to its parent.
    """
    main, seen, owner = threading.current_thread() is threading.main_thread(), False, os.getpid()
    before = {number: signal.getsignal(number) for number in USUAL if hold and main}
    mine = {number: handler for number, handler in before.items() if handler in USUAL[number]}
    if parent_process() is not None:
        mine.pop(signal.SIGTERM, None)

    def restore() -> None:
        for number, handler in mine.items():
            signal.signal(number, handler)

    def note(number: int, frame: object) -> None:
        nonlocal seen
        seen = True
        restore()
        if os.getpid() != owner:  # a fork, such as a worker that loads data
            signal.signal(number, USUAL[signal.Signals(number)][0])
            signal.raise_signal(number)

    for number in mine:
        signal.signal(number, note)
    try:
        yield lambda: seen
    finally:
        restore()
    if seen:
        raise KeyboardInterrupt
