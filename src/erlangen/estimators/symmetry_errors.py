"""How far the poses and the densities of a symmetry model err, and which coordinates cannot be told therefore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..metrics import wasserstein
from ..models import SymmetryModel
from ..objectives.moves import moves_within
from ..report.symmetries import middle_of
from ..transforms import Affine, Group, Product
from ..utils.seeds import generator

__all__ = ["PART", "by_chance", "density_errors", "density_moves", "following", "pose_errors", "untold"]

# Where half of all poses err by more than these parts, of what counts as a range and of the range that is found, that
# range says more of errors than of images.
ROUGH, PART = 0.5, 0.2
CHANCES = 100  # draws for each image, that show how poses may lie by chance
MEDIAN = 101  # samples for the median of a density
FOLLOWS = 0.1  # a density that moves along with its image by more than this share of the move knows the image
SURE = 3.0  # by how many standard errors this share has to be above zero, for few images
POOL = 8000  # numbers that each of these is compared with


@torch.no_grad()
def pose_errors(model: SymmetryModel, ranges: Mapping[str, tuple[float, float]], x: Tensor) -> Tensor:
    r"""How far the pose of a randomly transformed copy of each input is from where the input's own pose puts it.

    $$ f(\mathcal{T}_\eta x)^{-1} \cdot \eta \cdot f(x), $$

    in coordinates: zero where the pose moves with its input, so that both have one prototype. A coordinate that is
    never seen, such as the angle of a disc, has any error.

    Args:
        model: whose poses are asked for.
        ranges: of the random transformations, as they were in training.
        x: inputs, `(B, ...)`; the result has `(B, d)`.
    """
    group, x = model.group, model.signal(x)
    moved = moves_within(group, ranges).to(x.device)(len(x))
    found = group.inverse(model.element(group.act(moved, x)))
    return _coordinates(group, group.compose(found, group.compose(moved, model.element(x))))


@torch.no_grad()
def density_moves(model: SymmetryModel, ranges: Mapping[str, tuple[float, float]], x: Tensor) -> Tensor:
    """How far each input is moved at random, within half of the ranges, and how far the median of its density moves.

    An input and its copy have one prototype, so that the density should not move. Where a prototype still shows what
    was done to the input, as that of an enlarged picture is smoother, it moves along.

    Args:
        model: see `pose_errors`, as are the others; the result has `(B, 2, d)`.
        ranges: the same.
        x: the same.
    """
    group, x = model.group, model.signal(x)
    near = {name: (low / 2, high / 2) for name, (low, high) in ranges.items()}
    moved = moves_within(group, near).to(x.device)(len(x))
    before, after = (model.density(each).sample((MEDIAN,)).median(0).values for each in (x, group.act(moved, x)))
    return torch.stack((_coordinates(group, moved), after - before), 1)


def following(moves: Tensor, periodic: Sequence[bool]) -> np.ndarray:
    """In which coordinates densities follow their images, `(d,)`: the slope by least squares is surely above zero.

    Circles are left out, since a median there jumps from one arc to another.

    Shape:
        moves: see `density_moves`, of all inputs, `(N, 2, d)`.
    """
    given, found = (moves.double() - moves.double().mean(0)).unbind(1)
    power = given.square().sum(0).clamp_min(1e-12)
    slope = (given * found).sum(0) / power
    error = ((found - slope * given).square().sum(0) / power / max(1, len(moves) - 2)).sqrt()
    sure = (slope > FOLLOWS) & (slope > SURE * error) & ~torch.tensor(periodic)
    return sure.numpy() & (len(moves) > 2)  # a line goes through any two


def density_errors(v: Tensor, poses: Tensor, lengths: Sequence[float], periodic: Sequence[bool]) -> np.ndarray:
    """How far the poses of all images lie from where their densities put them, `(d,)`.

    It is the 1-Wasserstein distance between the samples of all images and their poses. It does not depend on where
    prototypes lie, which is arbitrary: both are as seen from these.

    Args:
        v: samples for each image, `(S, N, d)`.
        poses: `(N, d)`.
        lengths: of the circles, one for each coordinate; not looked at where it is on a line.
        periodic: which are on circles.
    """
    kinds = zip(v.flatten(0, 1).T, poses.T, lengths, periodic, strict=True)
    return np.array([wasserstein(a, b, length if wraps else None).item() for a, b, length, wraps in kinds])


def by_chance(v: Tensor, poses: Tensor, lengths: Sequence[float], periodic: Sequence[bool]) -> np.ndarray:
    """How far poses may lie from their densities by chance: the farthest of a hundred draws for each image, `(d,)`.

    It is 0 where poses lie closer together than those of any such draw. A density that puts a few images anywhere,
    although all of them lie alike, is wrong, but no further from their poses than draws may be.

    Args:
        v: see `density_errors`, as are the others.
        poses: the same.
        lengths: the same.
        periodic: the same.
    """
    which = torch.randint(len(v), (CHANCES, *v.shape[1:2]), generator=generator(0))  # equal images have equal samples
    drawn, pool = v.gather(0, which[..., None].expand(-1, -1, v.shape[2])), v[: max(1, POOL // v.shape[1])]
    far = np.max([density_errors(pool, one, lengths, periodic) for one in drawn], 0)
    kinds = [length if wraps else None for length, wraps in zip(lengths, periodic, strict=True)]
    near = np.min([_spread(one, kinds) for one in drawn], 0)
    return np.where(_spread(poses, kinds) < near, 0.0, far)


def _spread(v: Tensor, lengths: Sequence[float | None]) -> np.ndarray:
    """The mean distance between two of them, on lines or on circles of these lengths, `(d,)`."""
    return np.array([_apart(x, length).mean().item() for x, length in zip(v.double().T, lengths, strict=True)])


def _apart(x: Tensor, length: float | None) -> Tensor:
    away = (x[:, None] - x).abs()
    return away if length is None else torch.minimum(away % length, length - away % length)


def untold(
    found: np.ndarray, least: np.ndarray, error: np.ndarray, gap: np.ndarray, chance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates that cannot be told, `(d,)` each: since poses err too much, or if not, since densities do.

    Shape:
        found: half ranges, `(N, d)`; least: see `least_of`; error: of the median pose; gap: see `density_errors`;
        chance: see `by_chance`.
    """
    small = ROUGH * least
    poses = error > np.maximum(small, PART * middle_of(found)[1])
    # The gap is a mean over images, of which some may go far and most not at all.
    return poses, ~poses & (gap > np.maximum(small, np.maximum(PART * found.mean(0), chance)))


def _coordinates(group: Group, g: Tensor) -> Tensor:
    """The coordinates of an element, which need not be one of the group if it has rotations and two scales."""
    if isinstance(group, Product):
        parts = zip(group.factors, group.split(g), strict=True)
        return torch.cat([_coordinates(part, each) for part, each in parts], -1)  # pyright: ignore[reportArgumentType]
    return group.project(g) if isinstance(group, Affine) else group.element_log(g)
