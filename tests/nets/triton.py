"""Where kernels are tested: on a GPU, and with TRITON_INTERPRET=1 in Triton's interpreter wherever there is one."""

import os
from importlib.util import find_spec

import pytest
import torch

from erlangen.utils.gpu import runs_triton

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
# The interpreter takes the bits of bfloat16 for integers.
DEVICE, DTYPE, EPS = ("cpu", torch.float32, 2**-19) if INTERPRETED else ("cuda", torch.bfloat16, 2**-8)
needs_triton = pytest.mark.skipif(not INTERPRETED and not runs_triton(), reason="needs Triton and CUDA")
needs_cuda = pytest.mark.skipif(INTERPRETED or not runs_triton(), reason="needs Triton and CUDA")


def draw(*shape):
    return torch.randn(shape, device=DEVICE).to(DTYPE)


def last(*shape):
    return draw(*shape).contiguous(memory_format=torch.channels_last)


def close(found, wanted, eps):
    return all((a.double() - b).abs().max() < eps * b.abs().max() for a, b in zip(found, wanted, strict=True))
