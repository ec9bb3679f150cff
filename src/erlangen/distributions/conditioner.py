"""Small networks that read a sample and see the context, all of a stack of couplings at once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Conditioner", "Conditioners", "Stack"]


class Conditioners(nn.Module):
    """The conditioners of all couplings of a stack, each with one hidden layer.

    The last layers start at zero, so a stack starts as the identity.

    Args:
        context: the number of features of an input.
        reads: what each layer reads, a 0/1 mask `(L, inputs)`.
        writes: what each layer writes, a factor for each output `(L, outputs)`, zero for what stays.
        width: the width of the hidden layers.
        dropout: the share of hidden units that are dropped in training.
    """

    reads: Tensor
    writes: Tensor

    def __init__(self, context: int, reads: Tensor, writes: Tensor, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        depth, inputs = reads.shape
        self.width, self.dropout = width, dropout
        self.register_buffer("reads", reads)
        self.register_buffer("writes", writes)
        self.project = nn.Linear(context, depth * width)
        self.first = nn.Parameter(torch.empty(depth, width, inputs)) if bool(reads.any()) else None
        self.last = nn.Parameter(torch.zeros(depth, writes.shape[1], width))
        self.bias = nn.Parameter(torch.zeros(depth, writes.shape[1]))
        with torch.no_grad():
            # As nn.Linear does it, for a layer that sees the context and what it reads.
            bound = (context + float(reads.sum(-1).mean())) ** -0.5
            for weight in (self.project.weight, self.project.bias, self.first):
                if weight is not None:
                    weight.uniform_(-bound, bound)

    def kept(self, batch: int) -> Tensor | None:
        """Which hidden units are kept for each input, `(B, L * width)`; None for all."""
        if not self.training or not self.dropout:
            return None
        share = self.project.weight.new_full((batch, self.project.out_features), 1 - self.dropout)
        return torch.bernoulli(share) / (1 - self.dropout)

    def stack(self, h: Tensor, kept: Tensor | None, copies: int = 1) -> Stack:
        """The conditioners, given the features of m inputs `(m, context)`; for copies of all inputs."""
        depth = len(self.reads)
        seen = torch.addmm(self.project.bias[:, None], self.project.weight, h.t()).repeat(1, copies)
        keeps = None if kept is None else kept.t().repeat(1, copies).unflatten(0, (depth, self.width))
        first = None if self.first is None else self.first * self.reads[:, None]
        last, bias = self.last * self.writes[..., None], self.bias * self.writes
        return Stack(seen.unflatten(0, (depth, self.width)), keeps, first, last, bias)


class Stack(NamedTuple):
    """The conditioners of L layers of w hidden units, for m inputs.

    Attributes:
        seen: what the hidden units get from the inputs, `(L, w, m)`.
        kept: which of them are kept, `(L, w, m)`; None for all.
        first: the weights of what is read, `(L, w, inputs)`; None if nothing is.
        last: the weights of what is written, `(L, outputs, w)`.
        bias: what is added to it, `(L, outputs)`.
    """

    seen: Tensor
    kept: Tensor | None
    first: Tensor | None
    last: Tensor
    bias: Tensor

    def layers(self) -> list[Conditioner]:
        """The conditioners, first to last."""
        none = [None] * len(self.last)
        parts = (none if part is None else part.unbind() for part in self)
        return [Conditioner(*part) for part in zip(*parts, strict=True)]


class Conditioner:
    """One conditioner, for given inputs."""

    def __init__(self, seen: Tensor, kept: Tensor | None, first: Tensor | None, last: Tensor, bias: Tensor) -> None:
        self.seen, self.kept = seen, kept
        self.first, self.last, self.bias = first, last, bias

    def __call__(self, z: Tensor) -> Tensor:
        """What it writes, `(n, outputs, m)`, when it reads z, `(n, inputs, m)`; `(1, outputs, m)` if it reads none."""
        hidden = self.seen.relu().unsqueeze(0) if self.first is None else _affine(self.seen, self.first, z).relu_()
        hidden = hidden if self.kept is None else hidden * self.kept
        return _affine(self.bias.unsqueeze(-1), self.last, hidden)


def _affine(shift: Tensor, weight: Tensor, z: Tensor) -> Tensor:
    """The weight times each of n matrices, plus a shift, in one pass."""
    n, _, m = z.shape
    return torch.baddbmm(shift.expand(n, len(weight), m), weight.expand(n, -1, -1), z)
