r"""Student's t with fixed degrees of freedom: its quantiles as a table, and its sum around the circle.

torch draws t noise by rejection, which a compiled graph cannot follow. Here a uniform number goes through the quantile
function, which for fixed $\nu$ is a function of one variable and is tabulated once, in float64.

With $t = \sqrt{\nu} \sinh w$ the density of w is $b \cosh^{-\nu} w$, so that every integral has an integrand that is
analytic and decays exponentially.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..utils.shapes import check_positive
from .circle import wrap

__all__ = ["LEAST_DOF", "WIDEST", "StandardT", "log_tails"]

Array = NDArray[np.floating[Any]]

LEAST_DOF = 0.5  # below it the square of the farthest float32 sample overflows
WIDEST = 2 * math.pi  # the greatest scale on the circle: there the density is all but uniform
# The table is even in the logit of the distribution function. Its end is the tail 2^-53, the last that float64 noise
# reaches; with quintics on this many cells the relative error of a quantile is below 1e-10.
CELLS = 512
STEP = 54 * math.log(2) / CELLS
# The sum around the circle: this many turns on each side as they are, and the others in so many points.
TURNS, POINTS = 2, 6


class StandardT(nn.Module):
    r"""Student's t around 0 with scale 1, $f(t) = f(0) (1 + t^2/\nu)^{-(\nu+1)/2}$: constants, without parameters.

    In float64 the relative error of a quantile is below 1e-10, down to a tail of $2^{-53}$, and that of the density
    around the circle is below 1e-10 for scales up to $2\pi$.

    Args:
        dof: the degrees of freedom ν, at least 0.5.
        truncation: the greatest |t|; none if None.
    """

    cells: Tensor
    windings: Tensor

    def __init__(self, dof: float, truncation: float | None = None) -> None:
        super().__init__()
        self.dof = check_positive("dof", dof)
        if self.dof < LEAST_DOF:
            raise ValueError(f"dof: received {dof}; accepted is a number >= {LEAST_DOF}")
        self.truncation = None if truncation is None else check_positive("truncation", truncation)
        self.log_peak = -math.log(2 * float(_mills(np.zeros(1), self.dof)[0])) - 0.5 * math.log(self.dof)
        self.entropy = _entropy(self.dof) - self.log_peak
        self.mass = 1.0 if self.truncation is None else -math.expm1(log_tails(self.truncation, self.dof))
        dtype = torch.get_default_dtype()
        for name, table in _tables(self.dof).items():
            self.register_buffer(name, torch.from_numpy(table).to(dtype), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> StandardT:
        super()._apply(fn, recurse)
        # Made anew, so that `.float().double()` leaves a table with all its digits.
        for name, table in _tables(self.dof).items():
            setattr(self, name, torch.from_numpy(table).to(getattr(self, name)))
        return self

    def quantile(self, u: Tensor) -> Tensor:
        """The t below which there is the mass u, without truncation; in float32 no tail is less than 2^-24."""
        tails = (2 * torch.minimum(u, 1 - u)).clamp(min=torch.finfo(u.dtype).eps / 2)
        place = (torch.log1p(1 - tails) - torch.log(tails)) / STEP
        cell = place.long().clamp(max=CELLS - 1)
        within = place - cell
        w = torch.zeros_like(u)
        for coefficient in reversed(self.cells[cell].unbind(-1)):
            w = w * within + coefficient
        return math.sqrt(self.dof) * torch.copysign(w.sinh(), u - 0.5)

    def truncated_quantile(self, u: Tensor) -> Tensor:
        """The t below which there is the share u of the mass between the ends of the truncation."""
        if self.truncation is None:
            return self.quantile(u)
        return self.quantile(0.5 + (u - 0.5) * self.mass).clamp(-self.truncation, self.truncation)

    def log_prob(self, t: Tensor) -> Tensor:
        """The log-density, without truncation."""
        return self.log_peak - (self.dof + 1) / 2 * torch.log1p(t.square() / self.dof)

    def log_truncated(self, t: Tensor, shift: Tensor) -> Tensor:
        """The log-density between the ends of the truncation, minus infinity beyond.

        A sample that rounding put beyond an end has the density of the end; `shift` is what was added to t and
        subtracted again.
        """
        if self.truncation is None:
            return self.log_prob(t)
        end = self.truncation + 2 * torch.finfo(t.dtype).eps * (self.truncation + shift)
        return torch.where(t.abs() > end, -math.inf, self.log_prob(t) - math.log(self.mass))

    def log_wrapped(self, delta: Tensor, scale: Tensor) -> Tensor:
        r"""The log-density around the circle, $\log \frac1\sigma \sum_k f((\delta + 2\pi k)/\sigma)$.

        The sum converges slowly: terms fall as $k^{-\nu-1}$. Those beyond the second turn are summed by Gauss
        quadrature for the measure $\sum_k k^{-\nu-1} \delta_{1/k}$, that is, as a few terms more, whose k is no
        integer and which count more than once. It holds for scales up to $2\pi$.
        """
        return self._terms(delta, scale)[1].logsumexp(-1) - scale.log()

    def expected(self, delta: Tensor, scale: Tensor) -> Tensor:
        r"""$E[t \mid \sigma t \equiv \delta \bmod 2\pi]$, the derivative of a sample on the circle in its scale.

        Moving each sample by it moves the wrapped density as a change of the scale does. t itself would do so too,
        but on the circle its tails bring only noise, of infinite variance for ν ≤ 2.
        """
        t, terms = self._terms(delta, scale)
        return (terms.softmax(-1) * t).sum(-1)

    def _terms(self, delta: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """The values that wrap to an angle, and the log-density of each times how often it counts, `(..., 17)` both."""
        turns, log_count = self.windings
        t = (wrap(delta).unsqueeze(-1) + 2 * math.pi * turns) / scale.unsqueeze(-1)
        return t, self.log_prob(t) + log_count


@lru_cache
def _tables(dof: float) -> dict[str, Array]:
    return {"cells": _quantiles(dof), "windings": _windings(dof)}


def _mills(w: Array, dof: float) -> Array:
    r"""The tail beyond w divided by the density at w, $\int_0^\infty (\cosh u + \tanh w \sinh u)^{-\nu} du$.

    By the double exponential rule for integrands with exponential decay, to rounding.

    References:
        | H. Takahasi, M. Mori. Double exponential formulas for numerical integration (1974).
    """
    x, step = np.linspace(-3.7, math.log(45 + math.sqrt(90 * dof)), 80, retstep=True)
    u = np.exp(x - np.exp(-x)) / dof
    rise = 2 * np.sinh(u / 2) ** 2 + np.tanh(w)[:, None] * np.sinh(u)
    return (np.exp(-dof * np.log1p(rise)) * (step * u * (1 + np.exp(-x)))).sum(1)


def _depth(w: Array, dof: float) -> Array:
    """Minus the logarithm of the mass beyond w on both sides, w ≥ 0."""
    log_cosh = 0.5 * np.log1p(np.sinh(w) ** 2)
    return np.log(_mills(np.zeros(1), dof)) - np.log(_mills(w, dof)) + dof * log_cosh


def log_tails(t: float, dof: float) -> float:
    """The logarithm of the mass beyond ±t, which has all its digits however little that is."""
    return -float(_depth(np.array([math.asinh(t / math.sqrt(dof))]), dof)[0])


def _entropy(dof: float) -> float:
    r"""The entropy without truncation, plus $\log f(0)$: $(\nu+1) (\psi(\frac{\nu+1}{2}) - \psi(\frac\nu2)) / 2$."""
    upper, lower = torch.special.digamma(torch.tensor([dof + 1, dof], dtype=torch.float64) / 2).tolist()
    return (dof + 1) / 2 * (upper - lower)


def _quantiles(dof: float) -> Array:
    r"""Coefficients of w as a polynomial on each cell, `(CELLS, 6)`: value, slope and curvature are exact at the ends.

    With $L = 2 \operatorname{artanh} r$ for the mass r between -w and w, and m the Mills ratio,
    $w' = m (1 + r)/2$ and $w'' = w' (\nu w' \tanh w - r)$.
    """
    level = STEP * np.arange(CELLS + 1)
    depth = np.logaddexp(0, level) - math.log(2)
    w = np.zeros_like(level)
    for _ in range(60):  # Newton; the depth is convex, so that it converges from anywhere
        change = (depth - _depth(w, dof)) * _mills(w, dof)
        w += change
        if np.abs(change).max() < 1e-13 * w[-1]:
            break
    w[0] = 0
    r = np.tanh(level / 2)
    slope = _mills(w, dof) * (1 + r) / 2
    return _quintics(w, STEP * slope, STEP**2 * slope * (dof * slope * np.tanh(w) - r))


def _quintics(value: Array, slope: Array, curvature: Array) -> Array:
    """Coefficients of Hermite's quintics on unit cells, lowest first, `(n, 6)`."""
    rise = np.diff(value) - slope[:-1] - curvature[:-1] / 2
    turn = np.diff(slope) - curvature[:-1]
    bend = np.diff(curvature) / 2
    third, fourth, fifth = 10 * rise - 4 * turn + bend, -15 * rise + 7 * turn - 2 * bend, 6 * rise - 3 * turn + bend
    return np.stack((value[:-1], slope[:-1], curvature[:-1] / 2, third, fourth, fifth), 1)


def _windings(dof: float) -> Array:
    r"""Turns k and the logarithm of how often each counts, `(2, 2 TURNS + 1 + 2 POINTS)`.

    With $s = k_0/k$ a term is $s^{p+1} h(s)$ with h analytic. The measure $\sum_{k \geq k_0} s_k^{p+1} \delta_{s_k}$
    is summed up to `last` and integrated beyond, with the first term of Euler and Maclaurin; its Gauss rule then needs
    a few points. Where ν is great p stays below: far turns have no weight, but those near k_0 must be seen.
    """
    power, first, last = min(dof, 16.0), TURNS + 1.0, 256
    k = np.arange(first, last + 2)
    count = np.ones_like(k)
    count[-2:] = 23 / 24, 1 / 24
    part, weight = _gauss(*_jacobi(power - 1, 16))
    far, far_count = (last + 0.5) / part, weight * (last + 0.5) / part ** (power + 1)
    k, count = np.append(k, far), np.append(count, far_count)
    s, weight = _gauss(*_lanczos(first / k, count * (first / k) ** (power + 1)))
    turns, log_count = first / s, np.log(weight) - (power + 1) * np.log(s)
    near = np.arange(-TURNS, TURNS + 1)
    return np.array([[*-turns, *near, *turns], [*log_count, *np.zeros_like(near), *log_count]])


def _jacobi(power: float, n: int) -> tuple[Array, Array, float]:
    """The recurrence of the polynomials that are orthogonal on [0, 1] with the weight s^power, and its mass."""
    k = np.arange(1, n)
    even = 2 * k + power
    diagonal = np.append(power / (power + 2), power**2 / (even * (even + 2)))
    side = np.append(4 * (1 + power) / ((2 + power) ** 2 * (3 + power)), 0 * k[1:])
    k, even = k[1:], even[1:]
    side[1:] = (2 * k * (k + power) / even) ** 2 / (even**2 - 1)
    return (1 + diagonal) / 2, np.sqrt(side) / 2, 1 / (power + 1)


def _lanczos(s: Array, weight: Array) -> tuple[Array, Array, float]:
    """The recurrence of the polynomials that are orthogonal on weighted points, and their mass."""
    mass = float(weight.sum())
    basis = [np.sqrt(weight / mass)]
    diagonal, side = np.zeros(POINTS), np.zeros(POINTS)
    for i in range(POINTS):
        new = s * basis[-1]
        diagonal[i] = new @ basis[-1]
        for old in basis * 2:  # twice is enough
            new = new - (new @ old) * old
        side[i] = np.linalg.norm(new)
        basis.append(new / side[i])
    return diagonal, side[:-1], mass


def _gauss(diagonal: Array, side: Array, mass: float) -> tuple[Array, Array]:
    """Points and weights of the Gauss rule, from the recurrence.

    References:
        | G. H. Golub, J. H. Welsch. Calculation of Gauss quadrature rules (1969).
    """
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1))
    return nodes, mass * vectors[0] ** 2
