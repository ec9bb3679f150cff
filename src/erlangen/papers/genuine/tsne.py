r"""t-SNE of some hundred points, exactly: every pair of points counts.

References:
    | L. van der Maaten, G. Hinton. Visualizing data using t-SNE (2008).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...utils.seeds import generator

__all__ = ["affinities", "tsne"]


def affinities(x: Tensor, perplexity: float) -> Tensor:
    r"""$p_{ij} = (p_{j|i} + p_{i|j}) / 2N$ with $p_{j|i} \propto e^{-\beta_i |x_i - x_j|^2}$ of the given perplexity.

    Shape:
        x: `(N, d)`; result: `(N, N)`, which sums to one.
    """
    squared = torch.cdist(x, x).square()
    squared = squared / squared.mean()
    apart = torch.where(torch.eye(len(x), dtype=torch.bool, device=x.device), math.inf, squared)
    low, high = torch.full_like(x[:, :1], -20.0), torch.full_like(x[:, :1], 20.0)  # of log β, halved in every step
    for _ in range(50):
        middle = (low + high) / 2
        log_p = (-middle.exp() * apart).log_softmax(1)
        entropy = -(log_p.exp() * log_p.clamp_min(-1e4)).sum(1, keepdim=True)
        wide = entropy > math.log(perplexity)
        low, high = torch.where(wide, middle, low), torch.where(wide, high, middle)
    p = (-high.exp() * apart).softmax(1)
    return (p + p.mT) / (2 * len(x))


def tsne(x: Tensor, *, perplexity: float = 30.0, steps: int = 500, seed: int = 0) -> Tensor:
    r"""Points y of the plane whose neighbours are those of x.

    They make $KL(P \,\|\, Q)$ small, where $q_{ij} \propto (1 + |y_i - y_j|^2)^{-1}$, by descent with momentum.

    Shape:
        x: `(N, d)`, N more than three times the perplexity; result: `(N, 2)`.
    """
    if not 1 < perplexity < len(x) / 3:
        raise ValueError(f"perplexity: received {perplexity} for {len(x)} points; accepted is 1 < perplexity < N / 3")
    p = affinities(x, perplexity)
    y = 1e-4 * torch.randn(len(x), 2, generator=generator(seed)).to(x)
    velocity, gains, rate = torch.zeros_like(y), torch.ones_like(y), max(len(x) / 48, 50.0)
    for step in range(steps):
        early = step < steps // 4
        kernel = 1 / (1 + torch.cdist(y, y).square())
        kernel.fill_diagonal_(0)
        pull = (p * (12 if early else 1) - kernel / kernel.sum()) * kernel
        gradient = 4 * (pull.sum(1, keepdim=True) * y - pull @ y)
        gains = torch.where(gradient * velocity > 0, gains * 0.8, gains + 0.2).clamp_min(0.01)
        velocity = (0.5 if early else 0.8) * velocity - rate * gains * gradient
        y = y + velocity
    return y
