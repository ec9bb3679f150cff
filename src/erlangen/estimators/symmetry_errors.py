"""How far the poses of a symmetry model err, and its densities, and of what nothing can be said therefore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..metrics import wasserstein
from ..models import SymmetryModel
from ..objectives.prototypes import Chance
from ..report.symmetries import middle_of
from ..transforms import Affine, Group, Product

__all__ = ["PART", "density_errors", "pose_errors", "untold"]

ROUGH = 0.5  # of what counts as a range, and
PART = 0.2  # of the range that is found: where half of all poses err by more, it says more of errors than of images
CHANCE = 0.5  # of that range, over the root of the number of images: how far poses lie from their own density by chance


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


def density_errors(v: Tensor, poses: Tensor, lengths: Sequence[float], periodic: Sequence[bool]) -> np.ndarray:
    """How far the poses of images lie from where their densities have them, on the whole and on average, `(d,)`.

    It is the 1-Wasserstein distance between the samples of all images and their poses. Where prototypes lie does not
    matter, which is as arbitrary for both.

    Args:
        v: samples for each image, `(S, N, d)`.
        poses: `(N, d)`.
        lengths: of the circles, one for each coordinate; not looked at where it is on a line.
        periodic: which are on circles.
    """
    kinds = zip(v.flatten(0, 1).T, poses.T, lengths, periodic, strict=True)
    return np.array([wasserstein(a, b, length if wraps else None).item() for a, b, length, wraps in kinds])


def untold(found: np.ndarray, least: np.ndarray, error: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of which coordinates nothing can be said: since poses err too much, and else since densities do, `(d,)` each.

    Shape:
        found: half ranges, `(N, d)`; least: see `least_of`; error: of the median pose; gap: see `density_errors`.
    """
    small, by_chance = ROUGH * least, CHANCE / len(found) ** 0.5
    poses = error > np.maximum(small, PART * middle_of(found)[1])
    # The gap is a mean over images, of which some may go far and most not at all.
    return poses, ~poses & (gap > np.maximum(small, (PART + by_chance) * found.mean(0)))


def _coordinates(group: Group, g: Tensor) -> Tensor:
    """Those of an element, which need not be one of the group where it has rotations and two scales."""
    if isinstance(group, Product):
        parts = zip(group.factors, group.split(g), strict=True)
        return torch.cat([_coordinates(part, each) for part, each in parts], -1)  # pyright: ignore[reportArgumentType]
    return group.project(g) if isinstance(group, Affine) else group.element_log(g)
