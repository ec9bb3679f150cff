r"""Rational-quadratic coupling splines: the flow of the generative model of symmetry transformations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ..utils.shapes import check_count, check_positive
from .base import Conditional
from .circle import wrap
from .coupling import Flow
from .gaussian import Gaussian

__all__ = ["SplineFlow"]


class SplineFlow(Flow):
    r"""Monotone rational-quadratic splines as couplings, on a Gaussian (SGM appendix C, generative network).

    A linear coordinate moves by a spline on $[-b, b]$ with slope 1 at its ends, and stays as it is beyond them. A
    periodic one is rotated, then moves by such a spline on $[-\pi, \pi]$, which has no seam.

    Args:
        features: the number of coordinates.
        context: the number of features of an input.
        base: where samples come from; a `Gaussian` with the initial `spread` if None.
        spread: the initial scale, see the convention in `erlangen.distributions.base`.
        hidden: the widths of hidden layers in the heads of the Gaussian.
        layers: the number of couplings.
        width: the width of the conditioners' hidden layer.
        bins: the number of bins of a spline, K.
        bound: the end b of the splines of linear coordinates.
        dropout: the share of the conditioners' hidden units that are dropped in training.
        **kwargs: encoder, periodic, bounds and origin, see `Conditional`.

    Differs from the published code: slopes at the ends are 1, so a spline has 3K − 1 parameters, not 3K + 1, and the
    map is smooth across them.

    References:
        | C. Durkan et al. Neural spline flows (2019).
    """

    def __init__(
        self,
        features: int,
        context: int,
        *,
        base: Conditional | None = None,
        spread: float | Sequence[float] | Tensor = 0.1,
        hidden: Sequence[int] = (),
        layers: int = 6,
        width: int = 256,
        bins: int = 6,
        bound: float = 3.0,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, context, **kwargs)
        self.univariate = _univariate()
        self.bins, self.ends = check_count("bins", bins), check_positive("bound", bound)
        if bins < 2:
            raise ValueError(f"bins: received {bins}; accepted is an integer > 1, since one bin cannot bend")
        if base is None:
            own = {"periodic": self.periodic, "origin": self.start, "hidden": hidden}
            base = Gaussian(features, context, spread=self.spreads("spread", spread), **own)
        self.build(base, layers, width, dropout)

    def writes(self, moves: Tensor) -> Tensor:
        """Widths, heights and slopes of each spline; for a periodic coordinate also a rotation."""
        counts = torch.tensor([3 * self.bins - (not p) for p in self.kinds])
        return moves.repeat_interleave(counts, -1)

    def move(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Through the splines."""
        return self._each(z, raw, back=False)

    def undo(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Back through the splines."""
        return self._each(z, raw, back=True)

    def _each(self, z: Tensor, raw: Tensor, *, back: bool) -> tuple[Tensor, Tensor]:
        """Moves linear coordinates, then periodic ones."""
        n_line, n_circle = len(self.kinds) - sum(self.kinds), sum(self.kinds)
        line, circle = z.split([n_line, n_circle], 1)
        split = n_line * (3 * self.bins - 1)
        pairs = []
        if n_line:
            pairs.append(self._spline(line, raw[:, :split].unflatten(1, (n_line, -1)), self.ends, back=back))
        if n_circle:
            rows, shift = raw[:, split:].unflatten(1, (n_circle, -1)).split([3 * self.bins - 1, 1], 2)
            pairs.append(self._turned(circle, rows, shift.squeeze(2), back=back))
        moved, slopes = zip(*pairs, strict=True)
        return torch.cat(moved, 1), torch.cat(slopes, 1)

    def _turned(self, z: Tensor, raw: Tensor, shift: Tensor, *, back: bool) -> tuple[Tensor, Tensor]:
        """A rotation, then a spline on the circle; or back."""
        if back:
            z, slope = self._spline(wrap(z), raw, math.pi, back=True)
            return z - shift, slope
        return self._spline(wrap(z + shift), raw, math.pi, back=False)

    def _spline(self, z: Tensor, raw: Tensor, bound: float, *, back: bool) -> tuple[Tensor, Tensor]:
        """The spline, or its inverse, and the logarithm of the slope of the spline; raw: `(n, k, 3K - 1, m)`."""
        parts = raw.movedim(2, -1).expand(*z.shape, -1).split([self.bins, self.bins, self.bins - 1], -1)
        spline = self.univariate(*parts, bound=bound)
        start = _inverse(spline, z) if back else z
        moved, slope = spline.call_and_ladj(start)
        return start if back else moved, slope


def _inverse(spline: Any, y: Tensor) -> Tensor:
    r"""The inverse of a spline, whose root is of a sum of squares: zuko's is of a difference, in float32 NaN at knots.

    In a bin with the mean slope s and the slopes d and d' at its ends, the share u of its height belongs to this share
    of its width (Durkan et al., equations 6 to 8, rearranged):

    $$\frac{2 s u}{2 s u + e + \sqrt{e^2 + r}}, \qquad e = d (1 - u) - d' u, \qquad r = 4 s^2 u (1 - u).$$
    """
    inside, x0, x1, y0, y1, d0, d1, s = spline.bin(spline.searchsorted(spline.vertical, y) - 1)
    u = torch.where(inside, y - y0, 0.0) / (y1 - y0)
    e, r = d0 * (1 - u) - d1 * u, 4 * s.square() * u * (1 - u)
    greater = e.abs() + (e.square() + r).sqrt()
    part = 2 * s * u
    share = part / (part + torch.where(e < 0, r / greater, greater))  # the lesser root without a difference
    return torch.where(inside, x0 + share * (x1 - x0), y)


def _univariate() -> Any:
    """The spline of zuko. To import zuko switches torch's validation of all distributions off, which is undone."""
    validates = Distribution._validate_args
    from zuko.transforms import MonotonicRQSTransform

    Distribution.set_default_validate_args(validates)
    return MonotonicRQSTransform
