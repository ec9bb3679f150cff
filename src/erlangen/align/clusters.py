"""The inputs of one class as moved copies of a few prototypes: which prototype, and in which pose."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..transforms import Group
from .templates import Matcher, standardise

__all__ = ["Cluster", "Fit", "move"]

CHUNK = 256  # inputs moved at once, to bound memory
TRIM = 0.1  # share of a prototype's members, the least like it, that its mean leaves out
SEEDS = 16  # inputs that are tried as the beginning of a prototype
SHORTLIST = 3  # candidates that are tried for longer
TRIAL = 1  # rounds of such a trial
ROUNDS = 10  # at most, until prototypes and poses have settled
SETTLED = 3e-3  # relative change of the residual at which they have
FLOOR = 0.02  # of the variance: about what resampling leaves of one and the same shape, so less counts as this


def move(transform: Group, g: Tensor, x: Tensor) -> Tensor:
    """Moves inputs, in one warp each, some at a time."""
    pairs = zip(g.split(CHUNK), x.split(CHUNK), strict=True)
    return torch.cat([transform.act(h, part) for h, part in pairs])


class Fit(NamedTuple):
    """K prototypes of a class, with each input's pose for each of them.

    Attributes:
        prototypes: `(K, C, H, W)` or `(K, C, L)`.
        v: poses, `(N, K, d)`.
        correlation: of each input with each prototype in its pose, `(N, K)`.
        member: the prototype that each input belongs to, `(N,)`.
    """

    prototypes: Tensor
    v: Tensor
    correlation: Tensor
    member: Tensor

    @property
    def residual(self) -> Tensor:
        """The share of each input's variance that its prototype leaves, `(N,)`; 1 if it is more like the negative."""
        own = self.correlation.gather(1, self.member[:, None])[:, 0]
        return 1 - own.clamp_min(0).square()

    def left_out(self) -> float:
        r"""The mean residual if each input were left out of the mean that is its own prototype.

        Leaving one of n out lengthens its distance from the mean by $n / (n - 1)$; one that is alone is not explained.
        """
        sizes = torch.bincount(self.member, minlength=len(self.prototypes)).to(self.v.dtype)
        n = sizes[self.member]
        longer = self.residual * (n / (n - 1).clamp_min(1)).square()
        return torch.where(n > 1, longer, 1.0).clamp_max(1).mean().item()

    def beside(self, other: Fit) -> Fit:
        """The prototypes of both, each input with the one that it is most like."""
        pairs = zip(self[:3], other[:3], (0, 1, 1), strict=True)
        prototypes, v, correlation = (torch.cat((mine, theirs), dim) for mine, theirs, dim in pairs)
        return Fit(prototypes, v, correlation, correlation.argmax(1))

    def by_size(self) -> list[int]:
        """The prototypes that have members, the one with the most first."""
        sizes = torch.bincount(self.member)
        return [k for k in sizes.argsort(descending=True, stable=True).tolist() if sizes[k] > 0]

    def members(self, k: int) -> Tensor:
        """The inputs that belong to a prototype, as indices in order."""
        return (self.member == k).nonzero().flatten()

    def core(self, k: int) -> Tensor:
        """The members of a prototype without those that are least like it, as indices in order."""
        index = self.members(k)
        keep = len(index) - int(TRIM * len(index))
        return index[self.correlation[index, k].topk(keep).indices.sort().values]


class Cluster:
    """The inputs of one class.

    Args:
        x: inputs, `(N, C, H, W)` or `(N, C, L)`.
        start: elements that move them before anything else, `(N, ...)`.
        matcher: what finds poses.
        chance: draws the inputs from which prototypes begin.
    """

    def __init__(self, x: Tensor, start: Tensor, matcher: Matcher, chance: torch.Generator) -> None:
        self.x, self.start, self.matcher, self.chance = x, start, matcher, chance
        self.transform = matcher.transform
        self.targets = standardise(move(self.transform, start, x), x.ndim - 2)

    def fit(self, most: int, gain: float) -> Fit:
        r"""The fit whose number of prototypes K has the least $\log \max(R_K, \text{floor}) - K \log(1 - \text{gain})$.

        The search ends when two more prototypes have not helped.
        """
        best = fit = self._grow(None)
        least = math.log(max(best.left_out(), FLOOR))
        for k in range(1, min(most, len(self.x))):
            if k >= len(best.prototypes) + 2:
                break
            fit = self._grow(fit)
            score = math.log(max(fit.left_out(), FLOOR)) - k * math.log1p(-gain)
            if score < least:
                best, least = fit, score
        return best

    def elements(self, v: Tensor, index: Tensor) -> Tensor:
        """The elements that move some inputs from where they came to the prototype, given their poses."""
        return self.transform.compose(self.transform.element(v), self.start[index])

    def mean(self, g: Tensor, index: Tensor) -> Tensor:
        """The mean of some inputs, each moved by its element."""
        total = torch.zeros_like(self.x[0])
        for part, h in zip(index.split(CHUNK), g.split(CHUNK), strict=True):
            total += self.transform.act(h, self.x[part]).sum(0)
        return total / len(index)

    def _grow(self, fit: Fit | None) -> Fit:
        """Adds a prototype: of a few candidates, the one that leaves the least unexplained after a trial."""
        trials = [self._trial(fit, new) for new in self._seeds(fit)]
        best = min(trials, key=lambda trial: trial.residual.mean().item())
        return self._settle(best)

    def _trial(self, fit: Fit | None, new: Tensor) -> Fit:
        """A fit with one more prototype, which becomes the mean of the members that it wins; the others stay."""
        alone = self._match(new[None], None)
        for _ in range(TRIAL):
            both = alone if fit is None else fit.beside(alone)
            core = both.core(len(both.prototypes) - 1)
            if len(core) == 0:
                break
            new = self.mean(self.elements(alone.v[core, 0], core), core)
            alone = self._match(new[None], alone.v)
        return alone if fit is None else fit.beside(alone)

    def _match(self, prototypes: Tensor, v: Tensor | None) -> Fit:
        v, correlation = self.matcher.match(self.targets, prototypes, v)
        return Fit(prototypes, v, correlation, correlation.argmax(1))

    def _settle(self, fit: Fit) -> Fit:
        """Alternates: every prototype becomes the mean of its members, every input finds its prototype and pose.

        In the end every prototype is the mean of the members it has, and is judged as that. Without this last mean, a
        prototype of few inputs would explain others by its sharpness alone, which they would blur by joining it.
        """
        for _ in range(ROUNDS):
            before = fit.residual.mean().item()
            fit = self._match(self._means(fit), fit.v)
            if before - fit.residual.mean().item() <= SETTLED * before:
                break
        prototypes = self._means(fit)
        return fit._replace(
            prototypes=prototypes, correlation=self.matcher.correlation(self.targets, prototypes, fit.v)
        )

    def _means(self, fit: Fit) -> Tensor:
        """The trimmed mean of each prototype's members; one without members stays as it is."""
        means = []
        for k, old in enumerate(fit.prototypes):
            core = fit.core(k)
            means.append(self.mean(self.elements(fit.v[core, k], core), core) if len(core) else old)
        return torch.stack(means)

    def _seeds(self, fit: Fit | None) -> list[Tensor]:
        """Candidates for one more prototype: means of inputs like a random one, the few that explain the most more."""
        n, known = len(self.x), 0 if fit is None else len(fit.prototypes)
        have = torch.ones_like(self.targets[:, 0]) if fit is None else fit.residual
        share = max(1, n // (2 * (known + 1)))
        blends, gains = [], []
        for i in torch.randperm(n, generator=self.chance)[:SEEDS].tolist():
            one = self.transform.act(self.start[i : i + 1], self.x[i : i + 1])
            v, value = self.matcher.coarse(self.targets, one)
            like = value[:, 0].topk(share).indices
            blends.append(self.mean(self.elements(v[like, 0], like), like))
            left = 1 - self.matcher.coarse(self.targets, blends[-1][None])[1][:, 0].clamp_min(0).square()
            gains.append((have - left).relu().sum().item())
        return [blends[i] for i in sorted(range(len(gains)), key=lambda i: -gains[i])[:SHORTLIST]]
