"""Where randomness comes from: independent numbers, strata, antithetic pairs or Sobol points, behind one face.

A density asks for standard normal numbers, uniform numbers, or the number that chooses a mixture's component, and never
asks how they were made. Each number is marginally what it says, so every estimate made from any of these is unbiased;
they differ in how the n samples of one input depend on each other.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

__all__ = ["SOURCES", "Antithetic", "Noise", "Sobol", "Stratified"]


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

    def __init__(
        self, samples: torch.Size, batch: torch.Size, like: Tensor, generator: torch.Generator | None = None
    ) -> None:
        self.samples, self.batch = samples, batch
        self.like, self.generator = like, generator

    def _draw(self, shape: tuple[int, ...], *, normal: bool) -> Tensor:
        draw = torch.randn if normal else torch.rand
        return draw(shape, generator=self.generator, dtype=self.like.dtype, device=self.like.device)

    def normal(self, k: int) -> Tensor:
        """Standard normal numbers, `(*S, *B, k)`."""
        return self._draw((*self.samples, *self.batch, k), normal=True)

    def uniform(self, k: int) -> Tensor:
        """Numbers that are uniform on [0, 1), `(*S, *B, k)`."""
        return self._draw((*self.samples, *self.batch, k), normal=False)

    def choice(self) -> Tensor:
        """One uniform number per sample, with which a component is chosen, `(*S, *B)`."""
        return self._draw((*self.samples, *self.batch), normal=False)

    def equal_weights(self) -> Tensor:
        """The logarithm of one over the number of samples, `(*S, *B)`."""
        shape, n = (*self.samples, *self.batch), max(1, math.prod(self.samples))
        return torch.full(shape, -math.log(n), dtype=self.like.dtype, device=self.like.device)


class Stratified(Noise):
    r"""Independent noise, but components chosen systematically: $u_s = (U + s/n) \bmod 1$ with one U per input.

    Of n samples a component with probability p gets ⌊np⌋ or ⌈np⌉, so that its share has no other noise.
    """

    def choice(self) -> Tensor:
        """Equally spaced numbers with a random start for each input."""
        return _spaced(self.samples[0], self._draw((1, *self.batch), normal=False))


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
        first = _spaced(self._half, self._draw((1, *self.batch), normal=False))
        return torch.cat((first, first))[: self.samples[0]]

    @property
    def _half(self) -> int:
        return (self.samples[0] + 1) // 2


class Sobol(Noise):
    """Sobol points with a random digital shift for each input: unbiased, with an error that falls nearly as 1/n.

    The shift flips the same random binary digits of all points of an input, which keeps them evenly spread; a shift
    modulo 1 does not, and can have several times the error.

    The first dimension chooses components. Not for compiled code: the points are made on the CPU.
    """

    def __init__(
        self, samples: torch.Size, batch: torch.Size, like: Tensor, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(samples, batch, like, generator)
        self._next = 1

    def _columns(self, first: int, k: int) -> Tensor:
        points = SobolEngine(first + k).draw(self.samples[0], dtype=torch.float64)[:, first:] * 2**DIGITS
        cells = points.long().to(self.like.device).reshape(-1, *[1] * len(self.batch), k)
        kind: Any = {"dtype": torch.float64, "device": self.like.device}
        shift = torch.rand((*self.batch, k), generator=self.generator, **kind) * 2**DIGITS
        flips = shift.long()
        return (((cells ^ flips) + (shift - flips)) / 2**DIGITS).to(self.like.dtype)

    def normal(self, k: int) -> Tensor:
        """The normal quantiles of the next k dimensions."""
        edge = torch.finfo(self.like.dtype).eps / 4  # half the spacing of uniform numbers: no infinite quantile
        return torch.special.ndtri(self.uniform(k).clamp(edge, 1 - 2 * edge))

    def uniform(self, k: int) -> Tensor:
        """The next k dimensions."""
        first, self._next = self._next, self._next + k
        return self._columns(first, k)

    def choice(self) -> Tensor:
        """The first dimension."""
        return self._columns(0, 1).squeeze(-1)


def _spaced(n: int, start: Tensor) -> Tensor:
    """Makes n equally spaced numbers from a start on, modulo 1; start: `(1, *B)`, result: `(n, *B)`."""
    steps = torch.arange(n, dtype=start.dtype, device=start.device) / n
    return (start + steps.reshape(-1, *[1] * (start.ndim - 1))) % 1


SOURCES: dict[str, type[Noise]] = {"random": Stratified, "antithetic": Antithetic, "sobol": Sobol}
