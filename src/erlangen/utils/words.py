"""Numbers of things, as sentences have them."""

from __future__ import annotations

__all__ = ["several"]


def several(count: int, what: str) -> str:
    """So many of a thing, in words.

    >>> several(1, "file"), several(1200, "image")
    ('1 file', '1,200 images')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
