"""How commands end that cannot do what they were asked: in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..utils.errors import is_memory

__all__ = ["Refusal", "refusing"]

TOLD = ("Collapsed", "Diverged")  # of training, which says what to try; by name, for torch is slow to import


class Refusal(Exception):
    """What the user can put right, in a sentence."""


@contextmanager
def refusing(smaller: str) -> Iterator[None]:
    """Turns what a user can mend, or has asked for, into a `Refusal`.

    Args:
        smaller: the options that take less memory.
    """
    try:
        yield
    except ValueError as error:
        raise Refusal(f"{error}.") from error
    except (MemoryError, RuntimeError) as error:
        if type(error).__name__ in TOLD:
            raise Refusal(str(error)) from error
        if not is_memory(error):
            raise
        raise Refusal(f"out of memory; try a smaller {smaller}.") from error
    except KeyboardInterrupt:
        raise Refusal("stopped; nothing was written.") from None
