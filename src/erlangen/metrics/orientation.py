r"""How samples of angles lie on the circle, and how far matrices are from rotations."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..distributions.circle import wrap
from ..utils.shapes import check_count, check_finite, check_tensor

__all__ = [
    "arc_masses",
    "binned_total_variation",
    "central_span",
    "circle_histogram",
    "distance_to_rotation",
    "half_range",
    "occupied_arcs",
    "occupied_mass",
    "pairwise_gap",
    "rotation_angle",
    "share_within",
]


def _samples(angle: Tensor) -> Tensor:
    ok = isinstance(angle, Tensor) and angle.ndim > 0 and len(angle) > 0
    check_tensor("angle", angle, "angles (S, ...), at least one sample", ok)
    check_finite("angle", angle)  # NaN would be counted in the first arc
    return angle


def _share(share: object) -> float:
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise ValueError(f"share: received {share!r}; accepted is a share, 0 < share <= 1")
    return float(share)


def share_within(angle: Tensor, half_width: float) -> Tensor:
    r"""The share of the samples within $\pm$ `half_width` of zero on the circle.

    Shape:
        angle: in radians, `(S, ...)`; result: `(...)`.
    """
    angle = wrap(_samples(angle))
    return (angle.abs() <= half_width).to(angle.dtype).mean(0)


def central_span(angle: Tensor, share: float = 0.98) -> Tensor:
    r"""From which to which quantile the central `share` of the samples reaches, as angles in $[-\pi, \pi)$ around zero.

    Shape:
        angle: in radians, `(S, ...)`; result: the length in radians, `(...)`.
    """
    angle, share = wrap(_samples(angle)).sort(0).values, _share(share)
    low, high = (round(end * (len(angle) - 1)) for end in ((1 - share) / 2, (1 + share) / 2))
    return angle[high] - angle[low]


def half_range(angle: Tensor, share: float = 0.98) -> Tensor:
    r"""Half the length of the shortest arc that holds `share` of the samples.

    Shape:
        angle: in radians, `(S, ...)`; result: in radians, at most π, `(...)`.

    Example:
        >>> round(math.degrees(half_range(torch.linspace(-0.5, 0.5, 1001) + 3)), 1)
        28.1
    """
    angle, share = wrap(_samples(angle)).sort(0).values, _share(share)
    many = math.ceil(share * len(angle) - 1e-9)
    around = torch.cat((angle, angle + 2 * math.pi))
    return (around[many - 1 : many - 1 + len(angle)] - around[: len(angle)]).amin(0) / 2


def circle_histogram(angle: Tensor, bins: int = 36) -> Tensor:
    r"""The share of the samples in each of `bins` equal arcs of the circle, from $-\pi$ on.

    Shape:
        angle: in radians, `(S, ...)`; result: `(bins, ...)`.
    """
    place = (wrap(_samples(angle)) + math.pi) * (check_count("bins", bins) / (2 * math.pi))
    place = place.long().clamp(0, bins - 1)
    counts = torch.zeros(bins, *angle.shape[1:], dtype=angle.dtype, device=angle.device)
    return counts.scatter_add(0, place, torch.ones_like(angle)) / len(angle)


def occupied_arcs(angle: Tensor, bins: int = 36, level: float = 0.25) -> tuple[Tensor, Tensor]:
    r"""In how many arcs the samples lie, and which share of the circle these cover.

    An arc is a run of bins, around the circle, whose count is above a share of the greatest count.

    Shape:
        angle: in radians, `(S, ...)`; result: `(...)`, whole numbers, and `(...)`.
    """
    _, full = _occupied(angle, bins, level)
    starts = (full & ~full.roll(1, 0)).sum(0)
    return torch.where(full.all(0), 1, starts), full.to(angle.dtype).mean(0)


def occupied_mass(angle: Tensor, bins: int = 36, level: float = 0.25) -> Tensor:
    r"""The share of the samples that lie in `occupied_arcs`; the rest are few, wherever they are.

    Shape:
        angle: in radians, `(S, ...)`; result: `(...)`.

    Example:
        >>> often = torch.linspace(-0.3, 0.3, 90)
        >>> round(occupied_mass(torch.cat((often, torch.linspace(1, 5, 10)))).item(), 2)
        0.9
    """
    shares, full = _occupied(angle, bins, level)
    return torch.where(full, shares, 0.0).sum(0)


def _occupied(angle: Tensor, bins: int, level: float) -> tuple[Tensor, Tensor]:
    """The histogram, and which of its bins are above a share of the greatest, `(bins, ...)` each."""
    shares = circle_histogram(angle, bins)
    return shares, shares > level * shares.amax(0)


def binned_total_variation(angle: Tensor, other: Tensor, bins: int = 36) -> Tensor:
    r"""$\frac12 \sum_b |p_b - q_b|$ of the histograms of two samples on the circle.

    Even two samples of one density differ: by about $\sqrt{b / (\pi S)}$ for b bins that are filled evenly.

    Shape:
        angle, other: in radians, `(S, ...)`; result: `(...)`.
    """
    return (circle_histogram(angle, bins) - circle_histogram(other, bins)).abs().sum(0) / 2


def arc_masses(angle: Tensor, arcs: int, half_width: float) -> Tensor:
    r"""The share of the samples in each of the arcs $2 \pi k / m \pm$ `half_width`.

    Shape:
        angle: in radians, `(S, ...)`; result: `(arcs, ...)`.
    """
    centres = torch.arange(check_count("arcs", arcs), device=angle.device, dtype=angle.dtype) * (2 * math.pi / arcs)
    return torch.stack([share_within(angle - centre, half_width) for centre in centres])


def rotation_angle(matrix: Tensor) -> Tensor:
    r"""The angle of the nearest rotation, counter-clockwise as displayed, in $(-\pi, \pi]$.

    Shape:
        matrix: `(..., 2, 2)`, or `(..., 3, 3)` of which the upper left counts; result: `(...)`.

    Example:
        >>> from erlangen.transforms import Affine
        >>> round(rotation_angle(Affine("angle", "scale").element(torch.tensor([[0.5, 0.2]]))).item(), 6)
        0.5
    """
    ok = isinstance(matrix, Tensor) and matrix.shape[-2:] in {(2, 2), (3, 3)}
    check_tensor("matrix", matrix, "matrices (..., 2, 2) or (..., 3, 3)", ok)
    (a, b), (c, d) = (row.unbind(-1) for row in matrix[..., :2, :2].unbind(-2))
    return torch.atan2(b - c, a + d)


def distance_to_rotation(matrix: Tensor) -> Tensor:
    r"""$\min_R \lVert A - R \rVert_F / \lVert A \rVert_F$ over rotations of the plane.

    With the singular values $s_1 \ge s_2$ of A (and $s_2 < 0$ for a reflection) the minimum is
    $\sqrt{(s_1 - 1)^2 + (s_2 - 1)^2}$; the rotation is that of $A + \mathrm{adj}(A)^\top$.

    Shape:
        matrix: `(..., 2, 2)`, or `(..., 3, 3)` of which the upper left counts; result: `(...)`.
    """
    angle = rotation_angle(matrix)
    (a, b), (c, d) = (row.unbind(-1) for row in matrix[..., :2, :2].unbind(-2))
    cos, sin = angle.cos(), angle.sin()
    error = (a - cos) ** 2 + (d - cos) ** 2 + (b - sin) ** 2 + (c + sin) ** 2
    return error.sqrt() / (a**2 + b**2 + c**2 + d**2).sqrt()


def pairwise_gap(angle: Tensor) -> Tensor:
    """The median over all pairs of their distance on the circle.

    Shape:
        angle: in radians, `(N,)`, at least two; result: `()`.
    """
    ok = isinstance(angle, Tensor) and angle.ndim == 1 and len(angle) > 1
    check_tensor("angle", angle, "at least two angles (N,)", ok)
    i, j = torch.triu_indices(len(angle), len(angle), 1, device=angle.device)
    return wrap(angle[i] - angle[j]).abs().median()
