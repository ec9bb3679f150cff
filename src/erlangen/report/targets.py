r"""Three densities with a known answer, on which every family of distributions is fitted.

Each is given up to its normaliser, which a fine grid supplies, and has the identity among its likeliest points: in the
papers the identity is always a right transformation, and the families that are ranges around it must have a chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..distributions.circle import wrap

__all__ = ["PROBLEMS", "Problem", "box_grid"]

FINE = {1: 7200, 2: 400}  # points per side of the grid on which integrals are computed
RADIUS, THICKNESS = 0.6, 0.08
CENTRES = (45.0, 165.0, -75.0)  # degrees; the second arc lies across ±180°
HALF_ARC, EDGE, BETWEEN = math.radians(25), math.radians(4), 0.01


@dataclass(frozen=True)
class Problem:
    """A density up to a constant, on a box.

    Args:
        name: one word.
        log_density: coordinates `(..., d)` to `(...)`.
        low: the least value of each coordinate.
        high: the greatest.
        origin: the coordinates of the identity.
        periodic: whether the coordinates live on circles.
    """

    name: str
    log_density: Callable[[Tensor], Tensor]
    low: tuple[float, ...]
    high: tuple[float, ...]
    origin: tuple[float, ...]
    periodic: bool = False

    @property
    def features(self) -> int:
        """The number of coordinates."""
        return len(self.low)

    def grid(self, n: int | None = None) -> tuple[Tensor, float]:
        """The midpoints of cells that fill the box, and the volume of one; see `box_grid`."""
        return box_grid(self.low, self.high, n or FINE[self.features])

    def log_normaliser(self, n: int | None = None) -> float:
        """The logarithm of the integral over the box, by n cells per side."""
        points, cell = self.grid(n)
        return float(self.log_density(points).logsumexp(0)) + math.log(cell)


def box_grid(low: Sequence[float], high: Sequence[float], n: int) -> tuple[Tensor, float]:
    """The midpoints of n cells per side, `(n**d, d)` with the first coordinate slowest, and the volume of a cell."""
    steps = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    sides = [a + (b - a) * steps for a, b in zip(low, high, strict=True)]
    points = torch.stack(torch.meshgrid(*sides, indexing="ij"), -1).reshape(-1, len(sides))
    return points, math.prod((b - a) / n for a, b in zip(low, high, strict=True))


def ring(v: Tensor) -> Tensor:
    r"""$\log p = -(|v| - 0.6)^2 / (2 \cdot 0.08^2)$ up to a constant: the coordinates depend on each other."""
    return -0.5 * ((v.norm(dim=-1) - RADIUS) / THICKNESS).square()


def arcs(v: Tensor) -> Tensor:
    """Three arcs of ±25° with smooth edges, a hundredth of their density between them: three modes on a circle."""
    centres = torch.deg2rad(torch.tensor(CENTRES, dtype=v.dtype))
    inside = F.logsigmoid((HALF_ARC - wrap(v - centres).abs().amin(-1)) / EDGE)
    return torch.logaddexp(inside, torch.full_like(inside, math.log(BETWEEN)))


def strip(v: Tensor) -> Tensor:
    """A strip along $v_1 = -v_2$, where two entries of a matrix make a rotation (LTT figure 3b)."""
    across, along = (v[..., 0] + v[..., 1]) / math.sqrt(2), (v[..., 0] - v[..., 1]) / math.sqrt(2)
    return -0.5 * (across / THICKNESS).square() + F.logsigmoid((1 - along.abs()) / 0.03)


PROBLEMS: dict[str, Problem] = {
    problem.name: problem
    for problem in (
        Problem("ring", ring, (-1.0, -1.0), (1.0, 1.0), (RADIUS, 0.0)),
        Problem("arcs", arcs, (-math.pi,), (math.pi,), (math.radians(CENTRES[0]),), periodic=True),
        Problem("strip", strip, (-1.0, -1.0), (1.0, 1.0), (0.0, 0.0)),
    )
}
