"""Whether kernels written for a GPU run here, and how exactly it multiplies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec

import torch

__all__ = ["quick_products", "runs_triton"]

LEAST = (8, 0)  # the compute capability from which on tensor cores take bfloat16


@torch.compiler.assume_constant_result
def runs_triton() -> bool:
    """Whether there is Triton, which comes with torch's builds for CUDA, and a GPU that takes what we write in it."""
    return _found()


@cache
def _found() -> bool:
    if find_spec("triton") is None or not torch.cuda.is_available() or torch.version.hip is not None:
        return False
    return torch.cuda.get_device_capability() >= LEAST


@contextmanager
def quick_products(device: str | torch.device) -> Iterator[None]:
    """Inside a block float32 matrices on CUDA are multiplied by tensor cores, with factors rounded to TF32 (3 digits).

    That is enough for the layers of a network, as convolutions have it by default, and several times as fast. Affine
    maps and colours are not affected: they multiply elementwise.
    """
    before = torch.get_float32_matmul_precision()
    try:
        if torch.device(device).type == "cuda":
            torch.set_float32_matmul_precision("high")
        yield
    finally:
        torch.set_float32_matmul_precision(before)
