"""Trials of one event that happens sooner or later, faster or slower: noisy bumps whose time is warped."""

from __future__ import annotations

import math

import torch

from ..transforms import CPAB
from ..utils.seeds import generator
from ..utils.shapes import check_count, check_weight
from .sets import DataSet

__all__ = ["warped_bumps"]

WIDTH = 0.2  # the deviation of the bump, where the whole time is from -1 to 1
CELLS, WAVES = 8, 3


def warped_bumps(n: int = 300, length: int = 128, *, noise: float = 0.1, warp: float = 0.4, seed: int = 0) -> DataSet:
    r"""Trials of a bump $e^{-t^2 / 2 \sigma^2}$, σ = 0.2, each in a time of its own, and noise on top.

    The warps are flows of smooth velocities, $\sum_k c_k \sin(k \pi (t + 1) / 2)$ for k = 1, 2, 3 with normal $c_k$ of
    deviation `warp` $/ 2^{k - 1}$, in halves of the whole time.

    Args:
        n: how many.
        length: moments of each.
        noise: its deviation.
        warp: how much time differs.
        seed: of warps and noise.

    Shape:
        x: `(n, 1, length)`; one class.
    """
    for name, value in (("noise", noise), ("warp", warp)):
        check_weight(name, value)
    chance, dtype = generator(seed), torch.float64
    t = (torch.arange(check_count("length", length), dtype=dtype) + 0.5) * (2 / length) - 1
    bump = torch.exp(-(t / WIDTH).square() / 2).expand(check_count("n", n), 1, -1)
    k, node = torch.arange(1, WAVES + 1), torch.arange(1, CELLS)
    waves = torch.sin(math.pi * k[:, None] * node / CELLS).to(dtype)
    size = warp * torch.randn(n, WAVES, generator=chance, dtype=dtype) / 2.0 ** (k - 1)
    x = CPAB((CELLS,)).to(dtype)(bump, size @ waves)
    x = x + noise * torch.randn(x.shape, generator=chance, dtype=dtype)
    return DataSet(x.float(), torch.zeros(n, dtype=torch.long), ("bump",), "warped-bumps")
