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
from ..transforms.base import Bounds
from ..transforms.warp import signal_for
from ..utils.shapes import check_weight
from .moves import moves_along

__all__ = ["Equivariance", "after_undoing", "divergence"]


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


class Equivariance(nn.Module):
    r"""A price on how far a conditional is from equivariance, $\lambda\, \mathbb{E}_h\, \mathrm{KL}$, see `divergence`.

    The elements h are uniform within ranges of coordinates, one for each input and step. The classifier sees none of
    them: a step takes one more encoding and one log-density for it.

    A distribution that is uniform over the circle is equivariant too. What keeps q from it is the cross-entropy of the
    classifier, so $\lambda$ should not be far above the weight of the entropy.

    Args:
        transform: a group, see `moves_along`.
        weight: $\lambda$, in units of the loss per nat.
        turns: how far inputs are moved, see `moves_along`.
    """

    def __init__(self, transform: Transform, weight: float = 0.1, turns: Bounds | None = None) -> None:
        super().__init__()
        self.moves, self.weight = moves_along(transform, turns), check_weight("weight", weight)

    def forward(
        self, conditional: Conditional, x: Tensor, points: Points | Prediction
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """What is added to the loss, and what of it is logged: the divergence, and the share that has a density."""
        x = signal_for(x, conditional, points.v)
        h = self.moves(len(x), dtype=points.v.dtype)
        far, inside = divergence(conditional, self.moves.group, x, h, points=points)
        return self.weight * far, {"equivariance": far, "inside": inside}
