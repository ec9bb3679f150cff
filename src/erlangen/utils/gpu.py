"""What there is to write kernels for a GPU with."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["HAS_TRITON"]

HAS_TRITON = find_spec("triton") is not None  # it comes with torch's builds for CUDA
