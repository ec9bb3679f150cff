"""How commands end that cannot do what they were asked to: with a sentence, in the words of the command line."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .typed import spelled

__all__ = ["Refusal", "Stopped", "ending", "in_words", "refusing"]

TOLD = ("Collapsed", "Diverged")  # errors of training that say what to try; by name, for torch is slow to import

UNWRITTEN = "stopped; nothing was written."

# Arguments of the library that have another name as fields of commands.
FIELDS = {
    "path": "data",
    "source": "data",
    "X": "data",
    "run": "output",
    "folder": "output",
    "experiment": "experiments",
}

# The library's words for an option and its value, followed by those of the command line: of these, the first whose
# options the command has are taken.
WORDS = (
    (
        "missing='interpolate' (stack_series and files: also missing='drop')",
        "--missing interpolate, or --missing drop",
    ),
    ("unequal='resample'", "--unequal resample"),
    ("unequal='pad'", "--unequal pad"),
    ("unreadable='skip'", "--unreadable skip"),
    ("resume=True", "--resume"),
    ("transform='warp'", "--transform warp"),
    ("bring a validation set of your own", "--validation 0"),
    (
        "set size, channels, channels_last, range, mean and std",
        "set --size, --channels, --channels-last, --range, --mean and --std",
    ),
    ("(saliency, --saliency)", "(--saliency)"),
    ("saliency=0", "--saliency 0"),
    ("by these (classes)", "by these (--classes)"),
    (
        "Try a smaller learning rate, a warm-up, gradient clipping (clip), or precision 32-true",
        "Start again with a smaller --lr, or --precision 32-true, and another --output",
        "Start again with another --seed, or a greater --batch-size, and another --output",
    ),
    (
        "Try a blur in the first steps, a greater weight of the invertibility, narrower bounds, a smaller learning "
        "rate, or another seed",
        "Start again with narrower ranges in --transform, or another --seed, and another --output",
    ),
)
OPTION = re.compile(r"--[a-z][a-z-]*")
NAME = re.compile(r"(\w+)(?:\['(.+)'\])?")  # an argument, or an item of it


class Refusal(Exception):
    """What the user can put right, in a sentence."""

    code = 2  # the exit status of the command


class Stopped(Refusal):
    """The user has interrupted: what is left behind, and what to do."""

    code = 130  # as shells have it: 128, and the number of the signal


@contextmanager
def ending() -> Iterator[None]:
    """Turns a request to end (SIGTERM) into an interrupt, unless somebody else handles it; only the main thread may."""
    mine = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if mine:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # training holds it back until the end of a step
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def refusing(command: Any, smaller: str = "", *, stopped: Callable[[], str] = lambda: UNWRITTEN) -> Iterator[None]:
    """Turns what a user can mend into a `Refusal`, and an interrupt into a `Stopped`.

    Args:
        command: whose options errors are about, a dataclass.
        smaller: what takes less memory, if anything does.
        stopped: what is said when the user interrupts.
    """
    try:
        yield
    except (ValueError, FileExistsError) as error:
        raise Refusal(in_words(str(error), command)) from error
    except (MemoryError, RuntimeError) as error:
        from ..utils.errors import is_memory

        if type(error).__name__ in TOLD:
            raise Refusal(in_words(str(error), command)) from error
        if not is_memory(error):
            raise
        raise Refusal(f"out of memory; try {smaller}." if smaller else "out of memory.") from error
    except KeyboardInterrupt:
        raise Stopped(stopped()) from None


def in_words(message: str, command: Any) -> str:
    """A sentence of the library in the words of a command: options, as they are typed, instead of arguments."""
    typed = spelled(command)
    for old, *ways in WORDS:
        new = next((way for way in ways if set(OPTION.findall(way)) <= set(typed.values())), old)
        message = message.replace(old, new)
    head, _, rest = message.partition(":")
    found = [NAME.fullmatch(name) for name in head.split(", ")]
    names = [(FIELDS.get(match[1], match[1]), match[2]) for match in found if match]
    if len(names) == len(found) and all(name in typed for name, _ in names):
        head = ", ".join(" ".join(filter(None, (typed[name], item))) for name, item in names)
    message = f"{head}:{rest}" if rest else message
    return message if message.endswith((".", "?")) else f"{message}."
