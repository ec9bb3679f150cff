"""How commands end that cannot do what they were asked: in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Refusal", "refusing"]

TOLD = ("Collapsed", "Diverged")  # of training, which says what to try; by name, for torch is slow to import

UNWRITTEN = "stopped; nothing was written."


class Refusal(Exception):
    """What the user can put right, in a sentence."""


@contextmanager
def refusing(
    smaller: str, *, stopped: Callable[[], str] = lambda: UNWRITTEN, words: Callable[[str], str] = "{}.".format
) -> Iterator[None]:
    """Turns what a user can mend, or has asked for, into a `Refusal`.

    Args:
        smaller: what takes less memory.
        stopped: what is said when the user interrupts.
        words: an error of the library in the words of the command line.
    """
    try:
        yield
    except (ValueError, FileExistsError) as error:
        raise Refusal(words(str(error))) from error
    except (MemoryError, RuntimeError) as error:
        from ..utils.errors import is_memory

        if type(error).__name__ in TOLD:
            raise Refusal(str(error)) from error
        if not is_memory(error):
            raise
        raise Refusal(f"out of memory; try {smaller}.") from error
    except KeyboardInterrupt:
        raise Refusal(stopped()) from None
