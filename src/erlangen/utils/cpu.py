"""What the processor can do."""

from __future__ import annotations

import torch

__all__ = ["short_floats"]


def short_floats() -> bool:
    """Whether the processor multiplies matrices of bfloat16; elsewhere that is slower than float32.

    False where torch cannot say.
    """
    asked = getattr(torch.cpu, "get_capabilities", dict)
    return any(asked().get(name, False) for name in ("avx512_bf16", "amx_bf16"))
