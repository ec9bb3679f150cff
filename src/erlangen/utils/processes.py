"""Processes that end with the one that started them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context

import torch

__all__ = ["processes"]


@contextmanager
def processes(jobs: int, threads: int = 1) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes, each with a number of threads. An interrupt or any other error here ends them at once."""
    # CUDA does not survive a fork.
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_quietly, initargs=(threads,)) as pool:
        try:
            yield pool
        except BaseException:
            for child in active_children():
                child.terminate()
            raise


def _quietly(threads: int) -> None:
    """Leaves interrupts to the process that started this one, which stops it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
