"""Hints to torch's compiler, given without importing it: that would double the time of `import erlangen`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

__all__ = ["constant", "exporting", "uncompiled"]

F = TypeVar("F", bound=Callable[..., Any])


def uncompiled(function: F) -> F:
    """`torch.compiler.disable`, for a function that decides on the host."""
    # Torch has one for itself that imports the compiler when the function is first called.
    disable: Any = getattr(torch, "_disable_dynamo", torch.compiler.disable)
    return disable(function)


def constant(function: F) -> F:
    """`torch.compiler.assume_constant_result`, for a function that always returns the same."""
    vars(function)["_dynamo_marked_constant"] = True  # all that torch's own decorator does
    return function


def exporting() -> bool:
    """Whether torch exports a program, which should take other sizes than those that it is shown now."""
    known: Any = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # torch 2.6 has only the latter
    return known()
