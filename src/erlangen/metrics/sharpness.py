r"""How much detail an average keeps."""

from __future__ import annotations

import torch
from torch import Tensor

from ..utils.shapes import check_tensor

__all__ = ["detail", "sharpness"]


def detail(x: Tensor, dims: int = 2) -> Tensor:
    r"""$\sum |\nabla x|^2$, the energy of the differences between neighbours, over all channels.

    Shape:
        x: `(..., C, H, W)`, or `(..., C, L)` with `dims=1`; result: `(...)`.
    """
    ok = isinstance(x, Tensor) and x.is_floating_point() and x.ndim > dims
    check_tensor("x", x, f"a floating-point signal with {dims} sides, its channels before them", ok)
    sides = range(-dims, 0)
    return torch.stack([x.diff(dim=d).square().flatten(-dims - 1).sum(-1) for d in sides]).sum(0)


def sharpness(average: Tensor, x: Tensor) -> Tensor:
    r"""How much detail an average of signals keeps, $|\nabla \bar x|^2 / \frac1B \sum_i |\nabla x_i|^2$.

    For the mean of the very signals it lies between 0 and 1 (Jensen), and is 1 just when they differ by constants. An
    average of aligned signals is measured against the originals, so that a blur by the alignment counts against it.

    Shape:
        average: `(..., C, H, W)` or `(..., C, L)`; x: `(B, C, H, W)` or `(B, C, L)`; result: `(...)`.
    """
    ok = isinstance(x, Tensor) and x.ndim in (3, 4) and len(x) > 0 and x.is_floating_point()
    check_tensor("x", x, "floating-point signals (B, C, H, W) or (B, C, L), at least one", ok)
    same = isinstance(average, Tensor) and average.shape[-x.ndim + 1 :] == x.shape[1:]
    check_tensor("average", average, f"averages (..., {', '.join(map(str, x.shape[1:]))})", same)
    size = x.abs().amax().clamp_min(torch.finfo(x.dtype).tiny)  # so that squares neither vanish nor overflow
    whole = detail(x / size, x.ndim - 2).mean()
    return detail(average / size, x.ndim - 2) / whole.clamp_min(torch.finfo(x.dtype).tiny)
