"""What lies between the convolutions of a residual network: in evaluation on a GPU one pass over a map, not four."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..utils.gpu import runs_triton
from .convolution import each

__all__ = ["rectified", "shifted"]


def shifted(x: Tensor, by: Tensor) -> Tensor:
    """The sum of a map and a number, in the type of the map."""
    return x + by.to(x.dtype)  # under autocast a float32 number would carry the maps back to float32


def rectified(
    x: Tensor, before: Tensor, *, scale: Tensor | None = None, rest: Tensor | None = None, after: Tensor | None = None
) -> Tensor:
    r"""$\max(s x + b + r, 0) + c$ for a scale s, a bias b before and c after it, and a residual r.

    Without gradients, in bfloat16 on CUDA, it is one kernel (`kernels`); a compiler makes one of torch's operations.

    Args:
        x: a map.
        before: b, a tensor with one number.
        scale: s, likewise; 1 if None.
        rest: r; 0 if None.
        after: c, as b; 0 if None.

    Shape:
        x, rest: `(B, C, H, W)`; result: likewise.
    """
    plain = torch.is_grad_enabled() or torch.compiler.is_compiling()
    if not plain and x.is_cuda and x.dtype == torch.bfloat16 and x.numel() and runs_triton():
        return rectify(x, before, scale, None if rest is None else rest.to(x.dtype), after)
    y = shifted(x, before) if scale is None else torch.addcmul(before.to(x.dtype), x, scale.to(x.dtype))
    y = F.relu(y if rest is None else y + rest)
    return y if after is None else shifted(y, after)


@torch.library.custom_op("erlangen::rectify", mutates_args=())
def rectify(x: Tensor, before: Tensor, scale: Tensor | None, rest: Tensor | None, after: Tensor | None) -> Tensor:
    """As `rectified`, in one kernel, without a gradient."""
    from . import kernels

    return kernels.rectify(x, before, scale, rest, after)


@rectify.register_fake
def _(x: Tensor, before: Tensor, scale: Tensor | None, rest: Tensor | None, after: Tensor | None) -> Tensor:
    return torch.empty_like(x, memory_format=torch.channels_last)


rectify.register_vmap(each(rectify))
