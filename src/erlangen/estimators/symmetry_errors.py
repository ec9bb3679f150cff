"""How far the poses of a symmetry model err, which transformations of known size tell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from ..models import SymmetryModel
from ..objectives.prototypes import Chance
from ..report.symmetries import middle_of
from ..transforms import Affine, Group, Product

__all__ = ["pose_errors", "untold"]

ROUGH = 0.5  # of what counts as a range, and
PART = 0.2  # of the range that is found: where half of all poses err by more, it says more of errors than of images


@torch.no_grad()
def pose_errors(model: SymmetryModel, ranges: Mapping[str, tuple[float, float]], x: Tensor) -> Tensor:
    r"""How wrong the pose of a copy of each input is that was transformed at random, from that of the input itself.

    $$ f(\mathcal{T}_\eta x)^{-1} \cdot \eta \cdot f(x), $$

    in coordinates: zero where the pose moves with its input, so that both have one prototype. A coordinate that is
    never seen, such as the angle of a disc, has any error.

    Args:
        model: whose poses are asked for.
        ranges: of the random transformations, as they were in training.
        x: inputs, `(B, ...)`; the result has `(B, d)`.
    """
    group, x = model.group, model.signal(x)
    moved = Chance(group, ranges).to(x.device)(1, x)[0]
    found = group.inverse(model.element(group.act(moved, x)))
    return _coordinates(group, group.compose(found, group.compose(moved, model.element(x))))


def untold(found: np.ndarray, least: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Of which coordinates nothing can be said, since poses err too much.

    Shape:
        found: half ranges, `(N, d)`; least: see `least_of`; error: of the median pose; result: `(d,)`.
    """
    return error > np.maximum(ROUGH * least, PART * middle_of(found)[1])


def _coordinates(group: Group, g: Tensor) -> Tensor:
    """Those of an element, which need not be one of the group where it has rotations and two scales."""
    if isinstance(group, Product):
        parts = zip(group.factors, group.split(g), strict=True)
        return torch.cat([_coordinates(part, each) for part, each in parts], -1)  # pyright: ignore[reportArgumentType]
    return group.project(g) if isinstance(group, Affine) else group.element_log(g)
