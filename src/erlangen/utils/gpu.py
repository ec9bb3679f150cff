"""Whether kernels written for a GPU run here."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch

from .compiling import constant

__all__ = ["runs_triton"]

LEAST = (8, 0)  # the compute capability from which on tensor cores take bfloat16


@constant
def runs_triton() -> bool:
    """Whether there is Triton, which comes with torch's builds for CUDA, and a GPU that takes what we write in it."""
    return _found()


@cache
def _found() -> bool:
    if find_spec("triton") is None or not torch.cuda.is_available() or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability() >= LEAST
