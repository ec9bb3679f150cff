"""Finitely many transformations: the elements of a finite group, or a table of crops (InstaAug)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint

from ..utils.shapes import check_count, check_finite, check_numbers, check_tensor, describe
from .base import Conditional, Coordinates
from .circle import reach, shortest
from .density import Density, Points, mean_of, nowhere
from .heads import Head
from .noise import Noise

__all__ = ["Categorical", "CategoricalDensity", "crop_table"]

PART = 256  # rows that are compared with all others at a time


class _Rows(Constraint):
    """One of the rows of a table."""

    is_discrete = True
    event_dim = 1

    def __init__(self, matches: Callable[[Tensor], Tensor]) -> None:
        self.matches = matches

    def check(self, value: Tensor) -> Tensor:
        """Which values are rows of the table."""
        return self.matches(value).any(-1)


class CategoricalDensity(Density):
    r"""Probabilities $p_k(x)$ of the rows of a table. There is no `rsample`: a choice has no derivative.

    Gradients go through the log-probabilities of `quadrature`: exact when it enumerates, otherwise with true samples of
    the softmax and a score-function term in the log-weights.

    Args:
        logits: $\log p$ up to a constant, `(*B, n)`.
        table: the coordinates of the elements, `(n, d)`.
        periodic: which coordinates live on a circle; none if None.
        ends: the ends of each coordinate's range, `(d,)` each; see `Density.ends`.
    """

    batched = ("logits",)
    has_rsample = False
    has_enumerate_support = True

    def __init__(
        self,
        logits: Tensor,
        table: Tensor,
        periodic: Sequence[bool] | None = None,
        ends: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        check_tensor("logits", logits, f"log-probabilities (*B, {len(table)})", logits.shape[-1] == len(table))
        super().__init__(logits.shape[:-1], periodic or (False,) * table.shape[-1], logits)
        self.logits, self.table = logits, table
        self._ends = ends

    @property
    def support(self) -> Constraint:
        """The rows of the table."""
        return _Rows(self._matches)

    def _matches(self, value: Tensor) -> Tensor:
        return _matches(value, self.table, self.periodic, self._ends)

    @property
    def log_probs(self) -> Tensor:
        """The normalised log-probabilities, `(*B, n)`."""
        return self.logits.log_softmax(-1)

    @property
    def mean(self) -> Tensor:
        """The mean of the coordinates, circular for periodic ones; for indices of group elements it means nothing."""
        return mean_of(self.enumerated(), self.periodic, self.ends)[0]

    @property
    def variance(self) -> Tensor:
        """The mean square of the distance to the mean, along the circle for periodic coordinates."""
        gap = shortest(self.enumerate_support() - self.mean, self.periodic, self.ends)
        return (self.enumerated().log_weights.exp().unsqueeze(-1) * gap.square()).sum(0)

    @property
    def mode(self) -> Tensor:
        """The row of greatest probability."""
        return self.table[self.logits.argmax(-1)]

    def entropy(self) -> Tensor:
        """The entropy of the choice."""
        log_p = self.log_probs
        return -(log_p.exp() * torch.where(log_p == -math.inf, 0.0, log_p)).sum(-1)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """True samples, whose choice has its gradient in the log-weights."""
        if pathwise:
            raise NotImplementedError(
                "a Categorical has no rsample: use quadrature (it enumerates the support), sample or enumerate_support"
            )
        log_p = self.log_probs
        chosen, log_weights = noise.choose(log_p)
        index = chosen.argmax(-1)
        log_q = log_p.expand(*index.shape, -1).gather(-1, index.unsqueeze(-1)).squeeze(-1)
        return Points(self.table[index], log_weights, log_q)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability; minus infinity for what is no row of the table."""
        value = self.coordinates(value)
        matches = self._matches(value)
        chosen = torch.where(matches, self.log_probs, 0.0).sum(-1)
        return torch.where(matches.any(-1), chosen, nowhere(value))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The rows, `(n, *B, d)`."""
        rows = self.table.reshape(-1, *[1] * len(self.batch_shape), self.table.shape[-1])
        return rows.expand(-1, *self.batch_shape, -1) if expand else rows

    def enumerated(self) -> Points:
        """All rows with their log-probabilities."""
        log_p = self.log_probs.movedim(-1, 0)
        return Points(self.enumerate_support(), log_p, log_p)


def _matches(
    value: Tensor, table: Tensor, periodic: Sequence[bool], ends: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Which rows of the table a value equals, up to single precision and to whole turns, `(..., n)`."""
    end = reach(periodic, table)
    gap = shortest(value.unsqueeze(-2) - table, periodic, (-end, end) if ends is None else ends)
    return (gap.abs() <= 4 * torch.finfo(torch.float32).eps * (1 + table.abs())).all(-1)


class Categorical(Conditional):
    """Probabilities of a table of elements, from the input (InstaAug's location-related crops; finite groups).

    Args:
        table: the coordinates of the elements, `(n, d)`, no two alike.
        context: the number of features of an input.
        start: the row of the identity, where the distribution starts.
        spread: the probability that starts elsewhere, in equal parts.
        logits: the initial log-probabilities, up to a constant, `(n,)`; made from `start` and `spread` if None.
        hidden: the widths of hidden layers in the head.
        **kwargs: encoder, periodic and bounds, see `Conditional`. Bounds only say which range a periodic
            coordinate has.

    References:
        | N. Miao et al. Learning instance-specific augmentations by capturing local invariances (2023).
    """

    table: Tensor
    discrete = True

    def __init__(
        self,
        table: Tensor | Sequence[Sequence[float]],
        context: int,
        *,
        start: int = 0,
        spread: float = 0.5,
        logits: Tensor | Sequence[float] | None = None,
        hidden: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        accepted = "coordinates of elements (n, d), n > 0"
        rows = check_numbers("table", table, accepted)
        check_tensor("table", rows, accepted, rows.ndim == 2 and len(rows) > 0)
        check_finite("table", rows)
        super().__init__(rows.shape[1], context, **kwargs)
        parts = rows.split(PART)  # of a large table, all differences at once would take gigabytes
        if any(int(_matches(part, rows, self.periodic, self._ends).sum()) > len(part) for part in parts):
            raise ValueError(f"table: received {len(rows)} rows, some of them alike; accepted are different rows")
        self.register_buffer("table", rows)
        self.head = Head(
            context, _start_logits(len(rows), start, spread) if logits is None else _given(logits, rows), hidden
        )

    @classmethod
    def over(cls, transform: Coordinates, context: int, **kwargs: Any) -> Self:
        """All elements of a finite group, starting at its identity."""
        support = getattr(transform, "support", None)
        if not isinstance(support, Constraint) or not support.is_discrete or transform.features != 1:
            got = describe(transform)
            raise ValueError(f"transform: received {got}; accepted is a finite group, or a table of elements")
        low, high = transform.bounds.unbind()
        table = torch.arange(int(low), int(high) + 1)[:, None]
        return cls(table, context, **dict[str, Any](start=int(transform.origin - low)) | kwargs)

    def bound(self, q: Density) -> Density:
        """The same: the rows of the table are not moved into bounds."""
        return q

    def density(self, h: Tensor) -> CategoricalDensity:
        """Probabilities for each input."""
        return CategoricalDensity(self.head(h), self.table, self.periodic, self._ends)


def _start_logits(n: int, start: int, spread: float) -> Tensor:
    if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start < n:
        raise ValueError(f"start: received {start!r}; accepted is the index of one of {n} rows")
    if not isinstance(spread, int | float) or not 0 < spread < 1:
        raise ValueError(f"spread: received {spread!r}; accepted is a probability between 0 and 1")
    logits = torch.full((n,), math.log(spread / max(n - 1, 1)))
    logits[start] = math.log1p(-spread)
    return logits


def _given(logits: Tensor | Sequence[float], rows: Tensor) -> Tensor:
    accepted = f"finite numbers ({len(rows)},)"
    logits = check_numbers("logits", logits, accepted)
    check_tensor("logits", logits, accepted, logits.shape == (len(rows),))
    check_finite("logits", logits)
    return logits


def crop_table(
    levels: Sequence[tuple[int, float]] = ((16, 0.375), (8, 0.75), (1, 1.0)), favour: Sequence[float] = (0.0, 1.0, 3.0)
) -> tuple[Tensor, Tensor]:
    """Square crops on grids of centres, as coordinates cx, cy, width, height of a crop, and initial log-probabilities.

    The defaults give InstaAug's 321 crops: 16² of 0.375, 8² of 0.75 of the frame's sides, and the whole frame.

    Args:
        levels: for each size, the number of centres along a side and the size.
        favour: the log-weight of each size as a whole, shared equally by its crops.

    Shape:
        result: `(n, 4)` and `(n,)`, the last level last.
    """
    if len(levels) != len(favour):
        raise ValueError(f"favour: received {favour!r}; accepted is one number for each of {len(levels)} levels")
    tables, logits = [], []
    for (n, size), weight in zip(levels, favour, strict=True):
        if not 0 < size <= 1:
            raise ValueError(f"levels: received the size {size!r}; accepted is a fraction of the side, 0 < size <= 1")
        places = torch.linspace(-1, 1, n) if check_count("levels", n) > 1 else torch.zeros(1)
        centres = torch.cartesian_prod(places, places).flip(-1)
        tables.append(torch.cat((centres, torch.full((n * n, 2), size)), -1))
        logits.append(torch.full((n * n,), weight - 2 * math.log(n)))
    return torch.cat(tables), torch.cat(logits)
