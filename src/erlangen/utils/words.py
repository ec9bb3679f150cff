"""Numbers, as sentences have them."""

from __future__ import annotations

__all__ = ["percent", "several"]


def percent(share: float, digits: int = 0) -> str:
    """A share in percent.

    Example:
        >>> percent(0.14), percent(0.05333, 1)
        ('14 %', '5.3 %')
    """
    return f"{100 * share:.{digits}f} %"


def several(count: int, what: str) -> str:
    """So many of a thing.

    Example:
        >>> several(1, "file"), several(1200, "image")
        ('1 file', '1,200 images')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
