"""Measuring any model: an audit, a gate for continuous integration, and a plugin for pytest.

Names load when they are first used: pytest imports the plugin in every run, which must cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .case import Settings
    from .core import audit
    from .gate import Verdict, compare
    from .invariant import assert_invariant
    from .ladder import LADDERS, Ladder
    from .loading import load_model
    from .record import Audit, read_audit
    from .subject import Preprocess

__all__ = [
    "LADDERS",
    "Audit",
    "Ladder",
    "Preprocess",
    "Settings",
    "Verdict",
    "assert_invariant",
    "audit",
    "compare",
    "load_model",
    "read_audit",
]

HOMES = {
    "LADDERS": "ladder",
    "Audit": "record",
    "Ladder": "ladder",
    "Preprocess": "subject",
    "Settings": "case",
    "Verdict": "gate",
    "assert_invariant": "invariant",
    "audit": "core",
    "compare": "gate",
    "load_model": "loading",
    "read_audit": "record",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(globals().keys() | HOMES.keys())
