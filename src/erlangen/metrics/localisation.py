r"""How far a transformation that was found is from the one that was applied: angles and boxes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..distributions.circle import wrap
from ..utils.shapes import check_tensor, check_true

__all__ = ["AngleError", "angle_error", "box_overlap"]


class AngleError(NamedTuple):
    r"""Errors of angles, one for each input, in radians.

    Attributes:
        printed: $|\theta_\mathrm{true} - \mu| \bmod \pi$, as P-STN equation 18 prints it, in [0, π). It forgives half a
            turn, but counts a little less than half a turn in full.
        circular: the distance on the circle, in [0, π].
    """

    printed: Tensor
    circular: Tensor


def angle_error(angle: Tensor, truth: Tensor) -> AngleError:
    r"""The error of each angle; P-STN equation 18 is the mean of `printed`.

    By chance, for angles that are uniform between -π and π, the means are 5π/12 = 1.31 and π/2 = 1.57.

    Shape:
        angle, truth: in radians, `(...)`; result: `(...)` each.

    Example:
        >>> error = angle_error(torch.tensor([0.1, 3.1]), torch.tensor([-0.1, -3.1]))
        >>> [round(e, 4) for e in error.printed.tolist()], [round(e, 4) for e in error.circular.tolist()]
        ([0.2, 3.0584], [0.2, 0.0832])
    """
    check_tensor(
        "angle", angle, "angles in radians, floating-point", torch.is_tensor(angle) and angle.is_floating_point()
    )
    check_tensor("truth", truth, f"angles {tuple(angle.shape)}", torch.is_tensor(truth) and truth.shape == angle.shape)
    gap = angle - truth
    return AngleError(gap.abs().remainder(math.pi), wrap(gap).abs())


def box_overlap(box: Tensor, truth: Tensor) -> Tensor:
    r"""The area that two boxes share, over the area of their union: 1 for the same box, 0 for boxes that do not meet.

    Shape:
        box, truth: left, top, right and bottom edges, `(..., 4)`, which broadcast; result: `(...)`.

    Example:
        >>> box_overlap(torch.tensor([0.0, 0.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 3.0, 1.0])).item()
        0.3333333432674408
    """
    for name, edges in {"box": box, "truth": truth}.items():
        four = torch.is_tensor(edges) and edges.shape[-1:] == (4,)
        check_tensor(name, edges, "left, top, right and bottom edges (..., 4)", four)
        ordered = (edges[..., :2] < edges[..., 2:]).all(-1) & edges.isfinite().all(-1)
        check_true(name, ordered, "boxes without an area, or without an end", "finite, left < right and top < bottom")
    sides = zip(reversed(box.shape), reversed(truth.shape), strict=False)
    check_tensor(
        "truth", truth, f"boxes that broadcast with {tuple(box.shape)}", all(1 in s or s[0] == s[1] for s in sides)
    )
    # Differences of unsigned numbers wrap around, and areas are soon beyond half precision.
    box, truth = (edges if edges.dtype == torch.float64 else edges.float() for edges in (box, truth))
    low, high = torch.maximum(box[..., :2], truth[..., :2]), torch.minimum(box[..., 2:], truth[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = [(edges[..., 2:] - edges[..., :2]).prod(-1) for edges in (box, truth)]
    return shared / (areas[0] + areas[1] - shared)
