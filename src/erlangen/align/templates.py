r"""Finding the pose of inputs: a prototype is moved until it looks like the input.

An input is compared in its own frame with a prototype moved to it, $x \approx a\, \mathcal{A}_{g^{-1}} p + b$ for some
contrast $a$ and brightness $b$, so nothing is won by shrinking an input or by moving it out of the frame. The best $a$
and $b$ leave $1 - \rho^2$ of the input's variance, with $\rho$ the correlation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..transforms import Group

__all__ = ["Matcher", "standardise"]

SPACING = 0.1  # between neighbours of the finest lattice: a twentieth of the frame
RATIO = 1.25  # from one lattice to the next coarser one
HUES = 8  # poses along a circle that moves no points
PATH = 17  # points along the range of a coordinate, to measure how far it moves things
ENTRIES = 2**24  # numbers in memory at a time
REACH = 6.0  # half-pixels that one step of the refinement may go


def standardise(x: Tensor, dims: int) -> Tensor:
    """Signals as vectors of mean zero and length one; constant ones become zero.

    Shape:
        x: `(..., C, *size)` with `dims` sides; result: `(..., D)`.
    """
    flat = x.flatten(-dims - 1)
    # Divided by its size first, so that squares neither vanish nor overflow.
    size = flat.abs().amax(-1, keepdim=True)
    flat = flat / torch.where(size > 0, size, 1.0)
    flat = flat - flat.mean(-1, keepdim=True)
    # What is left of a constant by rounding is no contrast.
    norm = torch.linalg.vector_norm(flat, dim=-1, keepdim=True)
    floor = flat.shape[-1] ** 0.5 * torch.finfo(x.dtype).eps
    return torch.where(norm > 8 * floor, flat / norm.clamp_min(floor), 0.0)


class Matcher:
    """Poses of prototypes in signals of one size: coarsely over the whole range of the group, then finely.

    Args:
        transform: the group.
        like: signals, for their size, type and device.
        poses: the greatest number of poses of the coarse search, where coordinates are not discrete.
        steps: the number of Gauss–Newton steps of the fine search.
    """

    def __init__(self, transform: Group, like: Tensor, *, poses: int, steps: int) -> None:
        self.transform, self.steps = transform, steps
        self.size, self.dims = tuple(like.shape[2:]), like.ndim - 2
        self.entries = like[0].numel()
        self.low, self.high = transform.bounds.to(like.dtype)
        self.origin = transform.origin.to(like.dtype)
        self.circle = torch.tensor(transform.periodic, device=like.device)
        self.discrete = [bool(s.is_discrete) for s in transform.supports]
        reach = [0.0 if d else self._reach(i) for i, d in enumerate(self.discrete)]
        self.lattice = self._lattice(reach, poses)
        self.unit = torch.stack([self._unit(i, r) for i, r in enumerate(reach)])

    def coarse(self, targets: Tensor, prototypes: Tensor) -> tuple[Tensor, Tensor]:
        """The best pose of each prototype in each target, of those on the lattice.

        Shape:
            targets: standardised, `(N, D)`; prototypes: `(K, C, *size)`; results: v `(N, K, d)`, correlation `(N, K)`.
        """
        best = [self._scan(targets, p) for p in prototypes]
        index = torch.stack([b.indices for b in best], 1)
        return self.lattice[index], torch.stack([b.values for b in best], 1)

    def fine(self, targets: Tensor, prototypes: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The pose of each prototype in each target near a given one, by Gauss–Newton steps.

        Shape:
            targets: `(N, D)`; prototypes: `(K, C, *size)`; v: `(N, K, d)`; results: v `(N, K, d)`, correlation
            `(N, K)`.
        """
        n, k, d = v.shape
        found, value = v.reshape(n * k, d).clone(), targets.new_empty(n * k)
        pair = torch.arange(n * k, device=v.device)
        for part in pair.split(max(1, ENTRIES // (self.entries * (2 * d + 2)))):
            p, target = prototypes[part % k], targets[part // k]
            found[part], value[part] = self._descend(found[part], p, target)
        return found.view(n, k, d), value.view(n, k)

    def match(self, targets: Tensor, prototypes: Tensor, v: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The pose of each prototype in each target: near the best of the lattice, or near `v` where that is better."""
        start, found = self.coarse(targets, prototypes)
        if v is not None:
            start = torch.where((self.correlation(targets, prototypes, v) >= found)[..., None], v, start)
        return self.fine(targets, prototypes, start)

    def correlation(self, targets: Tensor, prototypes: Tensor, v: Tensor) -> Tensor:
        """How much each target looks like each prototype at given poses, `(N, K)`."""
        n, k, d = v.shape
        value, flat = targets.new_empty(n * k), v.reshape(n * k, d)
        for part in torch.arange(n * k, device=v.device).split(max(1, ENTRIES // (4 * self.entries))):
            value[part] = (self._template(flat[part], prototypes[part % k]) * targets[part // k]).sum(-1)
        return value.view(n, k)

    def _scan(self, targets: Tensor, prototype: Tensor) -> torch.return_types.max:
        values = []
        for v in self.lattice.split(max(1, ENTRIES // (4 * max(self.entries, len(targets))))):
            values.append(targets @ self._template(v[:, None], prototype[None])[:, 0].mT)
        return torch.cat(values, 1).max(1)

    def _template(self, v: Tensor, p: Tensor) -> Tensor:
        """Prototypes moved to inputs whose pose is `v`, standardised: `(*S, M, D)`."""
        back = self.transform.inverse(self.transform.element(v))
        return standardise(self.transform.act(back, p), self.dims)

    def _descend(self, v: Tensor, p: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        r"""Levenberg's steps for $|\hat x - \hat t(v)|^2 = 2 (1 - \rho)$; slopes are differences over half-pixels.

        Differences over a half-pixel to either side see past the kinks of bilinear interpolation.
        """
        template = self._template(v, p)
        value = (template * target).sum(-1)
        free = self.unit.nonzero().flatten()
        if len(free) == 0:
            return v, value
        offsets = torch.diag(self.unit)[free]
        damping = torch.full_like(value, 0.01)
        for _ in range(self.steps):
            ahead, behind = (self._template(v + sign * offsets[:, None], p) for sign in (1, -1))
            slope = ((ahead - behind) / 2).movedim(0, 1)
            gram = slope @ slope.mT
            pull = (slope @ (target - template)[..., None])[..., 0]
            ridge = damping[:, None] * (gram.diagonal(dim1=-2, dim2=-1) + 1e-6)
            step = torch.linalg.solve(gram + torch.diag_embed(ridge + 1e-9), pull).clamp(-REACH, REACH)
            there = self._inside(v + step @ offsets)
            seen = self._template(there, p)
            gained = (seen * target).sum(-1)
            better = gained > value
            v, template = torch.where(better[:, None], there, v), torch.where(better[:, None], seen, template)
            value, damping = torch.where(better, gained, value), torch.where(better, damping / 5, damping * 10)
        return v, value

    def _inside(self, v: Tensor) -> Tensor:
        """Wrapped to the circle, or clamped to the interval."""
        span = self.high - self.low
        return torch.where(self.circle, torch.remainder(v - self.low, span) + self.low, v.clamp(self.low, self.high))

    def _reach(self, i: int) -> float:
        """How far the range of a coordinate carries a point at distance 1 from the centre."""
        t = torch.linspace(0, 1, PATH, dtype=self.low.dtype, device=self.low.device)
        v = self.origin.repeat(PATH, 1, 1)
        v[:, 0, i] = self.low[i] + t * (self.high[i] - self.low[i])
        corners = torch.tensor([[-1.0], [1.0]]) if self.dims == 1 else torch.tensor([[-0.7, -0.7], [0.7, 0.7]])
        p = corners.to(self.low)[None]
        path = self.transform.act_points(self.transform.element(v), p, self.size)
        return path.diff(dim=0).norm(dim=-1).sum(0).max().item()

    def _unit(self, i: int, reach: float) -> Tensor:
        """The change of a coordinate that carries a point by half a pixel; 0 where the coordinate is discrete."""
        if self.discrete[i]:
            return torch.zeros_like(self.low[i])
        return (self.high[i] - self.low[i]) * (1 / (max(self.size) * reach) if reach > 0 else 1 / 100)

    def _lattice(self, reach: Sequence[float], poses: int) -> Tensor:
        """Poses over all ranges, neighbours about equally far apart, as close as their number allows: `(G, d)`."""
        spacing, levels = SPACING, self._levels(reach, SPACING)
        while self._count(levels) > poses and max(levels) > 1:
            spacing *= RATIO
            levels = self._levels(reach, spacing)
        axes = [self._axis(i, n) for i, n in enumerate(levels)]
        return torch.cartesian_prod(*axes).view(-1, len(axes))

    def _count(self, levels: Sequence[int]) -> int:
        return math.prod(n for n, d in zip(levels, self.discrete, strict=True) if not d)

    def _levels(self, reach: Sequence[float], spacing: float) -> list[int]:
        pairs = list(zip(reach, self.transform.periodic, strict=True))
        # On an interval an odd number keeps its middle.
        counts = [round(r / spacing) if c else 2 * round(r / spacing / 2 - 0.5) + 1 for r, c in pairs]
        still = [round(HUES * SPACING / spacing) if c and r == 0 else 1 for r, c in pairs]
        return [max(a, b, 1) for a, b in zip(counts, still, strict=True)]

    def _axis(self, i: int, n: int) -> Tensor:
        low, high, origin = self.low[i], self.high[i], self.origin[i]
        if self.discrete[i]:
            return torch.arange(low.item(), high.item() + 1, dtype=low.dtype, device=low.device)
        if n == 1:
            return origin[None]
        t = torch.arange(n, dtype=low.dtype, device=low.device)
        if self.circle[i]:
            return torch.remainder(origin + t / n * (high - low) - low, high - low) + low
        return low + (t + 0.5) / n * (high - low)
