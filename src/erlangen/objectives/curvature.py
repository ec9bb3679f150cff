r"""The curvature of a likelihood in a tensor of weights, Kronecker-factored and remembered over steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .base import summed

__all__ = ["Kronecker"]

LARGEST = 1024  # a side with more rows or columns has a diagonal factor: eigenvectors would take too long


class Kronecker(nn.Module):
    r"""$H \approx \frac{1}{\mathrm{tr}\,L}\, L \otimes R$ with $L = \mathbb{E}\, G G^T$ and $R = \mathbb{E}\, G^T G$.

    The curvature per input is $H = \mathbb{E}\, g g^T$. A gradient g is written as a matrix G, with the first dimension
    of the weights as its rows and all others as its columns. The trace is exact, and so is all of H where one side is
    1, as for biases. Means are over many steps, and the eigenvectors are those of the last `refresh`.

    Args:
        weights: the tensor.
        memory: over about how many steps means are taken; the weights of steps fall exponentially.
    """

    left: Tensor
    right: Tensor
    left_basis: Tensor
    right_basis: Tensor
    seen: Tensor
    values: Tensor

    def __init__(self, weights: Tensor, memory: int) -> None:
        super().__init__()
        self.memory = memory
        self.rows, self.columns = weights.shape[0] if weights.ndim else 1, math.prod(weights.shape[1:])
        sides = {"left": self.rows, "right": self.columns, "left_basis": self.rows, "right_basis": self.columns}
        sizes = {name: (n, n) if n <= LARGEST else (n,) for name, n in sides.items()}
        for name, size in {**sizes, "seen": (), "values": (self.rows, self.columns)}.items():
            self.register_buffer(name, torch.zeros(size, dtype=weights.dtype, device=weights.device))

    @torch.no_grad()
    def add(self, gradients: Tensor, weight: float | Tensor) -> None:
        """Takes the gradients of a step into the means.

        Args:
            gradients: of the weights, `(N, *weights.shape)`; each of several processes has its own.
            weight: of each; the weighted sum of $g g^T$, over all processes, is an estimate of the curvature per input.
        """
        g = self._matrices(gradients)
        left, right = summed(_second(g, self.left.ndim == 1)), summed(_second(g.mT, self.right.ndim == 1))
        for mean, new in ((self.left, left * weight), (self.right, right * weight), (self.seen, 1.0)):
            mean.mul_(1 - 1 / self.memory).add_(new / self.memory)  # no lerp_: torch does not map it over objectives

    @torch.no_grad()
    def refresh(self) -> None:
        """Finds the eigenvectors and eigenvalues of the means."""
        (left, left_basis), (right, right_basis) = _spectrum(self.left), _spectrum(self.right)
        trace = left.sum().clamp(min=torch.finfo(left.dtype).tiny)
        self.values.copy_(left.unsqueeze(-1) * (right / trace) / self.seen)
        self.left_basis.copy_(left_basis)
        self.right_basis.copy_(right_basis)

    def complexity(self, gradients: Tensor, weight: float, precision: Tensor, size: int) -> Tensor:
        r"""$\frac{1}{2N} \log \lvert I + N H / \delta \rvert$, `()`.

        It is differentiated with respect to the precision at the means as they are, and with respect to the gradients
        as the true determinant is there: half the trace of $(\delta I + N H)^{-1}$ times the gradients' own curvature.
        """
        curvature = size * self.values.clone()  # the buffer may change in place before the backward pass
        value = (curvature / precision).log1p().sum() / (2 * size)
        g = _along(self.left_basis.clone(), self._matrices(gradients))
        squares = _along(self.right_basis.clone(), g.mT).mT.square().sum(0)
        own = weight / 2 * (squares / (curvature + precision.detach())).sum()
        return value + own - own.detach()

    def _matrices(self, gradients: Tensor) -> Tensor:
        return gradients.reshape(len(gradients), self.rows, self.columns)


def _second(g: Tensor, diagonal: bool) -> Tensor:
    """The sum of G Gᵀ, or its diagonal, for `(N, rows, columns)`."""
    if diagonal:
        return g.square().sum((0, 2))
    flat = g.transpose(0, 1).flatten(1)
    return flat @ flat.T


def _spectrum(mean: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues and eigenvectors of a matrix; for a diagonal, the diagonal and a tensor that is not used."""
    if mean.ndim == 1:
        return mean, torch.zeros_like(mean)
    # A run that diverges has none. That would be an error here, before the one that says why.
    whole = mean.nan_to_num(0.0, 0.0, 0.0)
    values, vectors = torch.linalg.eigh((whole.cpu() if whole.device.type == "mps" else whole).double())
    return values.clamp(min=0).to(mean), vectors.to(mean)


def _along(basis: Tensor, g: Tensor) -> Tensor:
    """Columns in another basis; as they are where a diagonal stands for it."""
    return g if basis.ndim == 1 else basis.mT @ g
