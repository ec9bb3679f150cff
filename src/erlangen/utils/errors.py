"""What went wrong, in words."""

from __future__ import annotations

__all__ = ["is_memory", "reason"]

LONG = 240  # characters, after which nobody reads on


def is_memory(error: BaseException) -> bool:
    """Whether memory has run out; for that of the processor torch has no class of its own."""
    ours = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return ours or "DefaultCPUAllocator" in str(error)


def reason(error: BaseException) -> str:
    r"""The message of an error in one line, not too long; its class if it has none.

    Example:
        >>> reason(RuntimeError("wrong shape:\n  got 3, expected 1"))
        'wrong shape: got 3, expected 1'
        >>> reason(KeyError())
        'KeyError'
    """
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= LONG else f"{words[: LONG - 1]}…"
