r"""Coupling flows: some coordinates move, by a map whose parameters depend on the others and on the input.

A stack of L couplings turns a sample z of a base into v. In layer l the coordinates in $M_l$ move and the rest, $R_l$,
stay and are read:

$$a_l = W_l \,\mathrm{relu}(U_l z_{R_l} + P_l h + b_l) + c_l, \qquad z'_i = m(z_i; a_{l,i}) \text{ for } i \in M_l.$$

What depends on the input alone, $P_l h + b_l$, is computed once per input for all layers together, never per sample,
so time and memory don't grow with the size of the context times the number of samples.

Convention:
    * Inside a stack, samples are `(n, d, m)`, for n samples of m inputs. Rows are then contiguous, a conditioner is one
      batched product of matrices per layer, and what it sees of the context is added within it.
    * Linear coordinates come before periodic ones. A periodic coordinate is read as its sine and cosine.

References:
    | L. Dinh, J. Sohl-Dickstein, S. Bengio. Density estimation using Real NVP (2017), equations 7 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ..utils.compiling import exporting
from ..utils.shapes import check_count, describe
from .base import Conditional, has_bounds
from .bounded import log_tanh_slope
from .circle import by_kind, wrap_periodic
from .conditioner import Conditioners, Stack
from .density import Density, Points, check_density, columns
from .gaussian import Dirac
from .noise import Noise

__all__ = ["Flow", "FlowDensity"]

FEW = 32  # fewer inputs than this count as few
DRAWS = 100  # how often it is drawn, at most, which coordinates move together


class Flow(Conditional):
    r"""A stack of couplings over a base.

    Subclasses give the map of a coupling, `writes`, `move` and `undo`, and call `build`. With `squash`, linear
    coordinates pass $c \tanh(z / c)$ after each coupling.
    """

    squash: float | None = None

    def build(self, base: Conditional, layers: int, width: int, dropout: float = 0.0) -> None:
        """Makes the stack.

        Args:
            base: where samples come from, a conditional without bounds and encoder over the same coordinates.
            layers: the number of couplings, L.
            width: the width of the conditioners' hidden layer.
            dropout: the share of hidden units dropped in training: drawn once per call, so that what is returned is one
                distribution.
        """
        if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise ValueError(f"dropout: received {dropout!r}; accepted is a share, 0 <= dropout < 1")
        self.base = self._checked(base)
        self.order = sorted(range(self.features), key=lambda i: self.periodic[i])
        self.kinds = tuple(self.periodic[i] for i in self.order)
        moves = _moving(check_count("layers", layers), self.features)
        reads = torch.cat((~moves, ~moves[:, self.kinds.count(False) :]), -1)
        writes = self.writes(moves.to(self.origin.dtype))
        self.conditioners = Conditioners(self.context, reads.to(writes), writes, check_count("width", width), dropout)

    def writes(self, moves: Tensor) -> Tensor:
        """The factor of each output of the conditioners, `(L, outputs)`, given which coordinates move, `(L, d)`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement writes")

    def move(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """The map of a coupling and the logarithm of its slope, both `(n, d, m)`, given z and what was written."""
        raise NotImplementedError(f"{type(self).__name__} does not implement move")

    def undo(self, z: Tensor, raw: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of `move` and the logarithm of the slope of `move`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement undo")

    def forth(self, z: Tensor, stack: Stack) -> tuple[Tensor, Tensor]:
        """Through all couplings: `(n, d, m)`, and the logarithm of the volume by which that stretches, `(n, m)`."""
        slopes = []
        for conditioner in stack.layers():
            z, slope = self.move(z, conditioner(_read(self.kinds, z)))
            slopes.append(slope)
            if self.squash is not None:
                slopes.append(self._squash_slope(z))
                z = by_kind(self.kinds, partial(_squash, self.squash), _same, z, dim=1)
        return z, _total(slopes)

    def back(self, z: Tensor, stack: Stack) -> tuple[Tensor, Tensor]:
        """The inverse of `forth`, with the same volume."""
        slopes = []
        for conditioner in reversed(stack.layers()):
            if self.squash is not None:
                z = by_kind(self.kinds, partial(_stretch, self.squash), _same, z, dim=1)
                slopes.append(self._squash_slope(z))
            z, slope = self.undo(z, conditioner(_read(self.kinds, z)))
            slopes.append(slope)
        return z, _total(slopes)

    def _squash_slope(self, z: Tensor) -> Tensor:
        return by_kind(self.kinds, lambda z: log_tanh_slope(z / self.squash), torch.zeros_like, z, dim=1)

    def density(self, h: Tensor) -> FlowDensity:
        """A flow for each input."""
        return FlowDensity(self.base.density(h), self, h, self.conditioners.kept(h.shape[0]))

    def _checked(self, base: Conditional) -> Conditional:
        same = ("features", "context", "periodic")
        accepted = "a density without bounds and encoder, with the same features, context and periodic"
        if not isinstance(base, Conditional):
            raise ValueError(f"base: received {describe(base)}; accepted is {accepted}")
        plain = not has_bounds(base) and base.encoder is None and not (base.discrete or isinstance(base, Dirac))
        if not plain or any(getattr(base, name) != getattr(self, name) for name in same):
            got = ", ".join(f"{name}={getattr(base, name)}" for name in (*same, "bounds", "encoder"))
            raise ValueError(f"base: received {type(base).__name__} with {got}; accepted is {accepted}")
        return base


class FlowDensity(Density):
    """The density of samples of a base that went through a stack of couplings.

    Args:
        base: the density of what goes in.
        flow: the stack.
        h: the features of inputs, `(*B, context)`.
        kept: which hidden units are kept, `(*B, L * width)`; None for all.
    """

    def __init__(self, base: Density, flow: Flow, h: Tensor, kept: Tensor | None) -> None:
        super().__init__(check_density(base).batch_shape, base.periodic, base.like)
        self.batched = ("base", "h") if kept is None else ("base", "h", "kept")
        self.base, self.flow, self.h, self.kept = base, flow, h, kept

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Samples of the base, moved by the couplings."""
        z, log_weights, log_q = self.base.draw(noise, pathwise=pathwise)
        v, log_slope = self._through(z, back=False)
        return Points(v, log_weights, log_q - log_slope)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density, `(*S, *B)`."""
        value = self.coordinates(value)
        # An infinite coordinate that a coupling reads would make NaN of the others.
        far = by_kind(self.periodic, torch.isinf, lambda v: torch.zeros_like(v, dtype=torch.bool), value).any(-1)
        z, log_slope = self._through(value.masked_fill(far.unsqueeze(-1), 0.0), back=True)
        return torch.where(far, -math.inf, self.base.log_prob(z) - log_slope)

    def _through(self, z: Tensor, *, back: bool) -> tuple[Tensor, Tensor]:
        """Moves samples through the stack, or back; also the logarithm of the volume by which it stretches."""
        flow, shape, m = self.flow, torch.broadcast_shapes(z.shape[:-1], self.batch_shape), math.prod(self.batch_shape)
        given = columns(z, self.batch_shape)
        n = len(given[0])
        # With few inputs, samples count as inputs: one large product is faster than many small ones. An exported graph
        # takes any number of inputs, so that it cannot depend on it.
        fold = 1 if exporting() or m >= FEW else max(n, 1)
        rows = torch.stack([given[i].reshape(n // fold, m * fold) for i in flow.order], 1)
        with torch.autocast(z.device.type, enabled=False):
            kept = None if self.kept is None else self.kept.reshape(m, self.kept.shape[-1])
            stack = flow.conditioners.stack(self.h.reshape(m, self.h.shape[-1]), kept, fold)
            rows, log_slope = (flow.back if back else flow.forth)(rows, stack)
        rows = wrap_periodic(flow.kinds, rows, dim=1)
        v = torch.stack([rows[:, flow.order.index(i)] for i in range(rows.shape[1])], -1)
        return v.view(*shape, v.shape[-1]), log_slope.expand(v.shape[:-1]).reshape(shape)


def _read(kinds: Sequence[bool], rows: Tensor) -> Tensor:
    """What conditioners read: linear coordinates as they are, of periodic ones the sines, then the cosines."""
    line, circle = rows.split([len(kinds) - sum(kinds), sum(kinds)], 1)
    return torch.cat((line, circle.sin(), circle.cos()), 1) if circle.shape[1] else line


def _same(z: Tensor) -> Tensor:
    return z


def _squash(c: float, z: Tensor) -> Tensor:
    return c * (z / c).tanh()


def _stretch(c: float, z: Tensor) -> Tensor:
    """The inverse of `_squash`; what rounding put on an end gets the last number before it."""
    edge = 1 - torch.finfo(z.dtype).eps / 2
    return c * (z / c).clamp(-edge, edge).atanh()


def _total(slopes: list[Tensor]) -> Tensor:
    """The sum over layers and coordinates, `(n, m)`."""
    total = slopes[0]
    for slope in slopes[1:]:
        total = total + slope
    return total.sum(1)


def _moving(layers: int, features: int) -> Tensor:
    r"""Which coordinates each layer moves, `(L, d)`: a random half, then the other one; a single one moves always.

    A coordinate never sees those that always move with it, and cannot learn to depend on them. So halves are drawn
    until no draw could leave fewer such pairs: none from $2 \log_2 d$ layers on.
    """
    if features == 1:
        return torch.ones(layers, 1, dtype=torch.bool)
    cells = 2 ** -(-layers // 2)
    many, more = divmod(features, cells)
    fewest = (cells - more) * many**2 + more * (many + 1) ** 2  # ordered pairs, each coordinate with itself among them
    found, least = _halves(layers, features)
    for _ in range(DRAWS):
        if least <= fewest:
            break
        moves, together = _halves(layers, features)
        found, least = (moves, together) if together < least else (found, least)
    return found


def _halves(layers: int, features: int) -> tuple[Tensor, int]:
    """Random halves, and how many ordered pairs of coordinates always move together."""
    moves = torch.zeros(layers, features, dtype=torch.bool)
    for i in range(0, layers, 2):
        moves[i, torch.randperm(features)[: features // 2]] = True
        moves[i + 1 : i + 2] = ~moves[i]
    return moves, int((moves[:, :, None] == moves[:, None]).all(0).sum())
