r"""Affine couplings on a mixture: the flow of Learning to Transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..utils.gpu import runs_triton
from ..utils.shapes import check_positive
from .base import Conditional
from .circle import by_kind
from .conditioner import Stack
from .coupling import Flow
from .fused import couple
from .mixture import Mixture

__all__ = ["RealNVP"]

STEEPEST = 8.0
MOST, WIDTHS = 16, (16, 32, 64, 128)  # coordinates and hidden units that the kernel takes


class RealNVP(Flow):
    r"""Affine couplings, $z' = z e^{s} + t$, on a mixture of normals (LTT section 4, CIFAR10).

    A periodic coordinate moves by a Möbius map of the circle and a rotation instead,

    $$\tan \frac{z' - t}{2} = e^{s} \tan \frac{z}{2}, \qquad
      \frac{\partial z'}{\partial z} = \frac{1}{e^{-s} \cos^2 \frac z2 + e^{s} \sin^2 \frac z2}.$$

    Train it with the points of `quadrature`: its base is a mixture (see `Mixture`). With a single coordinate, couplings
    read only the input and are together one map, so the mixture does the work.

    On CUDA, in float32 and where Triton is installed, samples go through all couplings in one kernel. It has first
    derivatives only; set the attribute `fused` to False for others.

    Args:
        features: the number of coordinates.
        context: the number of features of an input.
        base: where samples come from; a `Mixture` with the next three arguments if None.
        components: the number of components of the mixture.
        spread: the initial scale of each component, see the convention in `erlangen.distributions.base`.
        scatter: the initial means are uniform within this distance of the origin.
        layers: the number of couplings.
        width: the width of the conditioners' hidden layer.
        limit: the greatest $|s|$ of a coupling, softly; None for no limit (on a circle, for one of 8).
        squash: after each coupling, linear coordinates pass $c \tanh(z / c)$ with this c (6 in the published code); not
            if None.
        dropout: the share of the conditioners' hidden units that are dropped in training.
        **kwargs: encoder, periodic, bounds and origin, see `Conditional`.
    """

    fused: bool = True

    def __init__(
        self,
        features: int,
        context: int,
        *,
        base: Conditional | None = None,
        components: int = 10,
        spread: float | Sequence[float] | Tensor = 0.1,
        scatter: float | Sequence[float] | Tensor = 0.2,
        layers: int = 12,
        width: int = 64,
        limit: float | None = 3.0,
        squash: float | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, context, **kwargs)
        self.limit = None if limit is None else check_positive("limit", limit)
        self.squash = None if squash is None else check_positive("squash", squash)
        if base is None:
            own = {"periodic": self.periodic, "origin": self.start, "components": components}
            own |= {"spread": self.spreads("spread", spread), "scatter": self.spreads("scatter", scatter, zero=True)}
            base = Mixture(features, context, **own)
        self.build(base, layers, width, dropout)

    def writes(self, moves: Tensor) -> Tensor:
        """Shifts, then the arguments of the soft limit of log-scales."""
        return torch.cat((moves, moves / (self.limit or 1.0)), -1)

    def forth(self, z: Tensor, stack: Stack) -> tuple[Tensor, Tensor]:
        """Through all couplings, in one kernel where there is one."""
        seen, kept, first, last, bias = stack
        if kept is not None or first is None or not self._fuses(z, seen.shape[1]):
            return super().forth(z, stack)
        z, log_slope, _ = couple(z, seen, first, last, bias, self.limit or 0.0, self.squash or 0.0)
        return z, log_slope

    def _fuses(self, z: Tensor, width: int) -> bool:
        fits = z.shape[1] <= MOST and width in WIDTHS
        return self.fused and fits and z.is_cuda and z.dtype == torch.float32 and runs_triton()

    def move(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Scales and shifts."""

        def line(z: Tensor, t: Tensor, s: Tensor) -> Tensor:
            return torch.addcmul(t, z, s.exp())

        def circle(z: Tensor, t: Tensor, s: Tensor) -> Tensor:
            return t + _moebius(z, s)

        shift, s = self._parts(raw)
        return by_kind(self.kinds, line, circle, z, shift, s, dim=1), self._slope(z, s)

    def undo(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Shifts and scales back."""

        def line(z: Tensor, t: Tensor, s: Tensor) -> Tensor:
            return (z - t) * (-s).exp()

        def circle(z: Tensor, t: Tensor, s: Tensor) -> Tensor:
            return _moebius(z - t, -s)

        shift, s = self._parts(raw)
        z = by_kind(self.kinds, line, circle, z, shift, s, dim=1)
        return z, self._slope(z, s)

    def _slope(self, z: Tensor, s: Tensor) -> Tensor:
        return by_kind(self.kinds, lambda z, s: s, _moebius_slope, z, s, dim=1)

    def _parts(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        shift, s = raw.chunk(2, 1)
        if self.limit is not None:
            return shift, self.limit * s.tanh()
        # On a circle a map can only become so steep before its flat part has no slope to rounding.
        return shift, by_kind(self.kinds, lambda s: s, lambda s: STEEPEST * (s / STEEPEST).tanh(), s, dim=1)


def _moebius(z: Tensor, s: Tensor) -> Tensor:
    half, stretch = z / 2, (s / 2).exp()
    return 2 * torch.atan2(stretch * half.sin(), half.cos() / stretch)


def _moebius_slope(z: Tensor, s: Tensor) -> Tensor:
    """The logarithm of the slope of `_moebius`."""
    half = z / 2
    return -((-s).exp() * half.cos().square() + s.exp() * half.sin().square()).log()
