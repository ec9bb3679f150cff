r"""Poses, learned without labels: what would put an input back that was moved."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..distributions import Conditional, check_over
from ..transforms import Transform
from ..transforms.base import Bounds
from ..transforms.warp import signal_for
from .base import Objective, check_spread, trainable
from .equivariance import after_undoing
from .moves import Moves, moves_along

__all__ = ["PoseLikelihood"]


class PoseLikelihood(Objective):
    r"""Minus the log-likelihood of what moves an input back, $-\mathbb{E}_{x, h} \log q(h^{-1} \mid h x)$.

    It is the cross-entropy of `Equivariance` with the identity as the distribution for inputs as they are: these are
    taken to be in the pose where they belong, as the photographs of most data sets are, and elements h, uniform within
    ranges of coordinates, move them away from it. At the optimum q is the posterior of the pose. `align.mean_shift`
    with such a q and a gate moves inputs back for a frozen classifier that has never seen them turned.

    A network reads the angle off the corners that a rotation leaves empty, if it sees them: begin its encoder with
    `models.Disc`.

    Args:
        conditional: q, over the coordinates of the group.
        transform: the group, see `moves_along`.
        turns: how far inputs are moved, see `moves_along`; the whole circle of angles if None.
        before: what is done to inputs before they are moved, such as `models.Mirror()`; nothing if None.
    """

    def __init__(
        self,
        conditional: Conditional,
        transform: Transform,
        turns: Bounds | None = None,
        *,
        before: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.conditional, self.moves, self.before = conditional, moves_along(transform, turns), before or nn.Identity()
        check_over(conditional, transform)
        _check_undone(self.moves)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The conditional's."""
        return {"conditional": trainable(self.conditional.parameters())}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss, and the share of the moves whose inverse has a density; labels are not looked at."""
        group = self.moves.group
        x = self.before(signal_for(batch[0], self.conditional, group.bounds))
        h = self.moves(len(x))
        with torch.no_grad():
            moved = group.act(h, x)
        q = self.conditional(moved)
        check_spread(q, "conditional")
        log_q = q.log_prob(after_undoing(group, group.origin.expand(len(x), -1), h))
        inside = log_q.detach() > -math.inf
        return {"loss": -torch.where(inside, log_q, 0.0).mean(), "inside": inside.to(log_q.dtype).mean()}


def _check_undone(moves: Moves) -> None:
    """Raises a `ValueError` unless the way back from the end of each range lies within bounds; a circle has none."""
    group, (low, high) = moves.group, moves.group.bounds
    ends = torch.where(torch.tensor(group.periodic), group.origin, moves.ranges)
    each = torch.where(torch.eye(len(low), dtype=torch.bool), ends[:, None], group.origin).flatten(0, 1)
    back = after_undoing(group, group.origin.expand_as(each), group.element(each))
    slack = 1e-4 * (high - low)
    beyond = ((back < low - slack) | (back > high + slack)).any(-1).view(2, -1).any(0)
    if names := [name for name, far in zip(group.names, beyond.tolist(), strict=True) if far]:
        accepted = "moves whose inverse lies within the bounds of the transform"
        raise ValueError(f"turns: received ranges of {', '.join(names)} that lead beyond them; accepted are {accepted}")
