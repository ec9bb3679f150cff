r"""Equivariance of a conditional: the distribution for a turned input is the one for the input, turned back.

LTT section 3 (approximate invariance) bounds by how much a prediction changes when an input x is moved by h:

$$|p(C \mid x) - p(C \mid hx)| \leq 2 (M - m)\, \mathrm{TV}[q(\cdot \mid hx)\, h \,\|\, q(\cdot \mid x)],$$

where $q\, h$ is the distribution of $g_v h$ for $v \sim q$. The paper trains nothing that makes the distance small: q
sees inputs only as they are, so that mean-shift cannot rely on it for inputs that are turned further than those of the
training set. By Pinsker's inequality the distance is at most $\sqrt{\mathrm{KL} / 2}$, and a KL can be trained.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..distributions import Conditional, Points
from ..models import Prediction
from ..transforms import Group, Transform
from ..transforms.base import Bounds, resolve_bounds
from ..transforms.warp import as_signal
from ..utils.shapes import check_weight, describe

__all__ = ["Equivariance", "Moves", "after_undoing", "divergence"]


@torch.no_grad()
def after_undoing(group: Group, v: Tensor, h: Tensor) -> Tensor:
    r"""The coordinates of $g_v h^{-1}$, which does to a moved input what v does to it: $g_v h^{-1} (h x) = g_v x$.

    Shape:
        v: `(*S, B, d)`; h: `(B, *element_shape)`; result: `(*S, B, d)`, within the bounds or not.
    """
    return group.element_log(group.compose(group.element(v), group.inverse(h)))


def divergence(
    conditional: Conditional, group: Group, x: Tensor, h: Tensor, *, points: Points | Prediction
) -> tuple[Tensor, Tensor]:
    r"""How far the distribution for moved inputs is from the one for the inputs, moved back.

    $$\mathrm{KL}[q(\cdot \mid x)\, h^{-1} \,\|\, q(\cdot \mid hx)]
        = \mathbb{E}_{v \sim q(\cdot \mid x)}[\log q(v \mid x) - \log q(v h^{-1} \mid hx)],$$

    with $v h^{-1}$ as in `after_undoing`. The equation holds where $v \mapsto v h^{-1}$ keeps volumes, as rotations do
    in the coordinates of a factored `Affine`, and up to a constant otherwise. The gradient goes to $q(\cdot \mid hx)$
    alone: $q(\cdot \mid x)$ learns from the classifier, and is the target here. Points that have no density after the
    move, because they lie beyond the bounds, are left out.

    Args:
        conditional: q.
        group: what its coordinates are of.
        x: inputs, in floating point.
        h: what moves each of them.
        points: of $q(\cdot \mid x)$.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; h: `(B, *element_shape)`; points: v `(S, B, d)`; result: two scalars `()`, the
        divergence and the share of q that has a density after the move.
    """
    weights = points.log_weights.detach().exp()
    log_q = conditional(group.act(h, x)).log_prob(after_undoing(group, points.v, h))
    inside = log_q.detach() > -math.inf
    each = torch.where(inside, points.log_q.detach() - log_q, 0.0)
    return (weights * each).sum(0).mean(), (weights * inside).sum(0).mean()


class Moves(nn.Module):
    """Elements of a group, uniform within ranges of its coordinates.

    Args:
        transform: a group with continuous coordinates; an angle among `turns` must be periodic, as that of a factored
            `Affine`.
        turns: the range of each coordinate in which inputs are moved, by name: (low, high), or b for (-b, b). The whole
            circle of angles if None.
    """

    ranges: Tensor

    def __init__(self, transform: Transform, turns: Bounds | None = None) -> None:
        super().__init__()
        if not isinstance(transform, Group) or transform.support.is_discrete:
            accepted = "a Group with continuous coordinates"
            raise ValueError(f"transform: received {describe(transform)}; accepted is {accepted}")
        if turns is None and "angle" not in transform.names:
            got = f"None for {', '.join(transform.names)}"
            raise ValueError(
                f"turns: received {got}; accepted are ranges of coordinates, or None where one is an angle"
            )
        self.group = transform
        self.register_buffer("ranges", _ranges(transform, {"angle": math.pi} if turns is None else turns), False)

    def forward(self, count: int, like: Tensor) -> Tensor:
        """Random elements, `(count, *element_shape)`."""
        low, high = self.ranges.to(like.dtype)
        return self.group.element(low + (high - low) * torch.rand(count, len(low), dtype=low.dtype, device=low.device))


class Equivariance(nn.Module):
    r"""A price on how far a conditional is from equivariance, $\lambda\, \mathbb{E}_h\, \mathrm{KL}$, see `divergence`.

    The elements h are uniform within ranges of coordinates, one for each input and step. The classifier sees none of
    them: a step takes one more encoding and one log-density for it.

    A distribution that is uniform over the circle is equivariant too. What keeps q from it is the cross-entropy of the
    classifier, so $\lambda$ should not be far above the weight of the entropy.

    Args:
        transform: a group, see `Moves`.
        weight: $\lambda$, in units of the loss per nat.
        turns: how far inputs are moved, see `Moves`.
    """

    def __init__(self, transform: Transform, weight: float = 0.1, turns: Bounds | None = None) -> None:
        super().__init__()
        self.moves, self.weight = Moves(transform, turns), check_weight("weight", weight)

    def forward(
        self, conditional: Conditional, x: Tensor, points: Points | Prediction
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What is added to the loss, and what of it is logged: the divergence, and the share that has a density."""
        x = as_signal(x, "bilinear", points.v)
        far, inside = divergence(conditional, self.moves.group, x, self.moves(len(x), points.v), points=points)
        return self.weight * far, {"equivariance": far, "inside": inside}


def _ranges(group: Group, turns: Bounds) -> Tensor:
    """The ranges of all coordinates, `(2, d)`; those that are not named stay at the identity."""
    if unknown := [name for name in turns if name not in group.names]:
        raise ValueError(f"turns: received a range for {unknown}; accepted are the coordinates {list(group.names)}")
    places = [group.names.index(name) for name in turns]
    if [i for i in places if group.names[i] == "angle" and not group.periodic[i]]:
        # The exponential of a great angle has no logarithm, or one on another branch.
        accepted = "one whose angle is periodic (Affine with factored=True, within a whole turn)"
        raise ValueError(f"transform: received {group!r}; accepted is {accepted}")
    ranges = group.origin.expand(2, -1).clone()
    own = {group.names[i]: tuple(group.bounds[:, i].tolist()) for i in places}
    try:
        ranges[:, places] = resolve_bounds(tuple(turns), own, turns).to(ranges)
    except ValueError as error:
        raise ValueError(f"turns, as {error}") from None
    return ranges
