"""Where randomness comes from: independent numbers, strata, antithetic pairs or Sobol points, behind one face.

A density asks for standard normal numbers, uniform numbers, or a choice between components, and never asks how they
were made. Each number is marginally what it says, so every estimate made from any of these is unbiased; they differ in
how the n samples of one input depend on each other. What a density asks for later is independent of what it, or another
one with the same noise, asked for before: of several choices all combinations occur.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.quasirandom import SobolEngine

from ..utils.shapes import compute_dtype, describe

__all__ = ["SOURCES", "Antithetic", "Common", "Enumerated", "Noise", "Own", "Sobol", "Stratified"]


DIGITS = SobolEngine.MAXBIT  # binary digits of Sobol points


class Noise:
    """Independent numbers.

    Args:
        samples: the shape of the samples, `S`.
        batch: the shape of the batch, `B`.
        like: a tensor that gives type and device.
        generator: where the numbers come from; the global generator if None.

    Shape:
        everything that is drawn: `(*S, *B)`, or `(*S, *B, k)` for k numbers per sample.
    """

    _again = False  # whether there was a choice before

    def __init__(
        self, samples: torch.Size, batch: torch.Size, like: Tensor, generator: torch.Generator | None = None
    ) -> None:
        if generator is not None and not isinstance(generator, torch.Generator):
            raise ValueError(f"generator: received {describe(generator)}; accepted is a torch.Generator, or None")
        self.samples, self.batch = samples, batch
        self.like, self.generator = like, generator

    def _draw(self, shape: tuple[int, ...], *, normal: bool) -> Tensor:
        draw: Any = torch.randn if normal else torch.rand
        own = {} if self.generator is None else {"generator": self.generator}  # export with free sizes allows none
        return draw(shape, **own, dtype=self.like.dtype, device=self.like.device)

    def normal(self, k: int) -> Tensor:
        """Standard normal numbers, `(*S, *B, k)`."""
        return self._draw((*self.samples, *self.batch, k), normal=True)

    def uniform(self, k: int) -> Tensor:
        """Numbers that are uniform on [0, 1), `(*S, *B, k)`."""
        return self._draw((*self.samples, *self.batch, k), normal=False)

    def choice(self) -> Tensor:
        """One uniform number per sample, with which a component is chosen, `(*S, *B)`."""
        return self._draw((*self.samples, *self.batch), normal=False)

    def choose(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        r"""Chooses between components, and the log-weights of the choices.

        Their values are all $-\log n$, and their gradient is that of choosing: $\log p_c - \mathrm{stop}(\log p_c)$.

        Shape:
            log_p: normalised, `(*B, K)`; result: one-hot `(*S, *B, K)`, and `(*S, *B)`.
        """
        chosen = _one_hot(self.choice(), log_p)
        choice = _chosen(chosen, log_p)
        return chosen, self.equal_weights() + choice - choice.detach()

    def _spaced(self, n: int) -> Tensor:
        """Makes n equally spaced numbers with a random start for each input, modulo 1, `(n, *B)`.

        In order the first time and in random order later: two choices in order would go hand in hand.
        """
        start = self._draw((1, *self.batch), normal=False)
        steps = torch.arange(n, dtype=start.dtype, device=start.device).reshape(-1, *[1] * len(self.batch))
        if self._again:
            steps = self._draw((n, *self.batch), normal=False).argsort(0).to(start.dtype)
        self._again = True
        return (start + steps / n) % 1

    def equal_weights(self) -> Tensor:
        """The logarithm of one over the number of samples, `(*S, *B)`."""
        shape, n = (*self.samples, *self.batch), max(1, math.prod(self.samples))
        return torch.full(shape, -math.log(n), dtype=self.like.dtype, device=self.like.device)


class Own(Noise):
    """Independent numbers from a generator for each input: what an input gets depends on no other in its batch.

    They are drawn on the CPU, and so are the same on any device.

    Args:
        samples: the shape of the samples, `S`.
        generators: of the inputs of a batch `(B,)`, on the CPU.
        like: a tensor that gives type and device.
    """

    def __init__(self, samples: torch.Size, generators: Sequence[torch.Generator], like: Tensor) -> None:
        super().__init__(samples, torch.Size([len(generators)]), like)
        self.generators = generators

    def _draw(self, shape: tuple[int, ...], *, normal: bool) -> Tensor:
        draw, dim = torch.randn if normal else torch.rand, len(self.samples)
        own = (*shape[:dim], *shape[dim + 1 :])
        rows = [draw(own, generator=each, dtype=self.like.dtype, device="cpu") for each in self.generators]
        return torch.stack(rows, dim).to(self.like.device)


class Stratified(Noise):
    r"""Independent noise, but components chosen systematically: $u_s = (U + s/n) \bmod 1$ with one U per input.

    Of n samples a component with probability p gets ⌊np⌋ or ⌈np⌉, so that its share has no other noise.
    """

    def choice(self) -> Tensor:
        """Equally spaced numbers with a random start for each input."""
        return self._spaced(self.samples[0])


class Antithetic(Noise):
    """The second half of the samples mirrors the first, component by component: what is odd cancels."""

    def normal(self, k: int) -> Tensor:
        """Normal numbers, then their negatives."""
        first = self._draw((self._half, *self.batch, k), normal=True)
        return torch.cat((first, -first))[: self.samples[0]]

    def uniform(self, k: int) -> Tensor:
        """Uniform numbers u, then 1 - u."""
        first = self._draw((self._half, *self.batch, k), normal=False)
        return torch.cat((first, 1 - first))[: self.samples[0]]

    def choice(self) -> Tensor:
        """Both of a pair choose the same component."""
        first = self._spaced(self._half)
        return torch.cat((first, first))[: self.samples[0]]

    @property
    def _half(self) -> int:
        return (self.samples[0] + 1) // 2


class Sobol(Noise):
    """Sobol points with a random digital shift for each input: unbiased, with an error that falls nearly as 1/n.

    The shift flips the same random binary digits of all points of an input, which keeps them evenly spread; a shift
    modulo 1 does not, and can have several times the error.

    The first dimension chooses components, the first time. Not for compiled code: the points are made on the CPU.
    """

    _next = 1  # the next dimension

    def _columns(self, first: int, k: int) -> Tensor:
        points = SobolEngine(first + k).draw(self.samples[0], dtype=torch.float64)[:, first:] * 2**DIGITS
        cells = points.long().to(self.like.device).reshape(-1, *[1] * len(self.batch), k)
        kind: Any = {"dtype": torch.float64, "device": self.like.device}
        shift = torch.rand((*self.batch, k), generator=self.generator, **kind) * 2**DIGITS
        flips = shift.long()
        return (((cells ^ flips) + (shift - flips)) / 2**DIGITS).to(compute_dtype(self.like))

    def normal(self, k: int) -> Tensor:
        """The normal quantiles of the next k dimensions."""
        u = self._further(k)  # never in half precision, in which torch has no quantiles
        edge = torch.finfo(u.dtype).eps / 4  # half the spacing of uniform numbers: no infinite quantile
        return torch.special.ndtri(u.clamp(edge, 1 - 2 * edge)).to(self.like.dtype)

    def uniform(self, k: int) -> Tensor:
        """The next k dimensions."""
        return self._further(k).to(self.like.dtype)

    def _further(self, k: int) -> Tensor:
        first, self._next = self._next, self._next + k
        return self._columns(first, k)

    def choice(self) -> Tensor:
        """The first dimension, later the next one."""
        again, self._again = self._again, True
        return (self._further(1) if again else self._columns(0, 1)).squeeze(-1).to(self.like.dtype)


class Common(Sobol):
    """The same Sobol points for every input: what comes of an input then depends on no other in its batch.

    Each point is what it says, but inputs depend on each other: not for training.
    """

    def _columns(self, first: int, k: int) -> Tensor:
        one = Sobol(self.samples, torch.Size([1] * len(self.batch)), self.like, self.generator)
        return one._columns(first, k).expand(*self.samples, *self.batch, k)


class Enumerated(Noise):
    """Every component in turn, weighted by its probability: choosing has no noise, and unlikely components are tried.

    With K components the number of samples is a multiple of K; of several choices every combination comes in turn, and
    it is a multiple of the number of combinations. What has no components has independent noise.
    """

    _combinations = 1  # how many combinations there are of the components chosen before

    def choose(self, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """Each component as often as any other, and its log-probability over that number."""
        n, k = self.samples[0], log_p.shape[-1]
        each, self._combinations = self._combinations, self._combinations * k
        if n % self._combinations:
            received = f"{n} points, enumerated, for {self._combinations} components"
            raise ValueError(f"n: received {received}; accepted is a multiple of {self._combinations}")
        turns = torch.eye(k, dtype=log_p.dtype, device=log_p.device)[torch.arange(n, device=log_p.device) // each % k]
        chosen = turns.reshape(n, *[1] * len(self.batch), k).expand(n, *self.batch, k)
        return chosen, _chosen(chosen, log_p) - math.log(n // k)


def _one_hot(u: Tensor, log_p: Tensor) -> Tensor:
    """Which component a uniform number chooses, `(*S, *B, K)`: the last whose mass before it is at most u."""
    masses = log_p.detach().exp().cumsum(-1)
    ends = masses[..., :-1] / masses[..., -1:]  # masses may miss a sum of 1 by rounding
    passed = (u.unsqueeze(-1) >= ends).to(log_p.dtype)
    return pad(passed, (1, 0), value=1.0) - pad(passed, (0, 1))


def _chosen(chosen: Tensor, log_p: Tensor) -> Tensor:
    """The log-probabilities of the chosen components; those of others may be minus infinity."""
    return torch.where(chosen > 0, log_p, 0.0).sum(-1)


SOURCES: dict[str, type[Noise]] = {
    "random": Stratified,
    "antithetic": Antithetic,
    "sobol": Sobol,
    "common": Common,
    "enumerated": Enumerated,
}
