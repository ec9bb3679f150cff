r"""Weight tying: a first layer whose weights are transformed copies of one another, pooled over a finite group."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from ..transforms import FiniteGroup
from ..transforms.discrete import Permutations
from ..transforms.spatial import Spatial
from ..transforms.warp import signal_for
from ..utils.shapes import check_tensor, describe

__all__ = ["GroupTied", "Pool"]

Pool = Literal["max", "mean"]


class GroupTied(nn.Module):
    r"""A network that is invariant to a finite group by its first layer (genuine invariance, section 4.1: WT).

    The first layer $\phi$ responds to every element of the group, and its responses are pooled over them:

    $$f(x) = \mathrm{rest}\bigl(\mathrm{pool}_{g \in \mathcal{G}} \; \sigma(\phi(g x))\bigr), \qquad f(h x) = f(x),$$

    since $g h$ runs through the group as g does. Where the group moves pixels to pixels (`Rotations(4)`, `Flips`,
    `Shifts`, `Dihedral(4)`) this is exact, whatever the rest is; where it resamples (`Rotations(8)`), approximate.

    * A fully connected first layer, the paper's: rows of weights are images too, and $\langle w, g x \rangle =
      \langle g^{-1} w, x \rangle$, so its weights are copied and transformed, and the inputs are left alone (unless the
      group brings something else than zeros into the frame, which weights cannot know, or is one of your own).
    * Any other, a convolution say, is applied to the transformed inputs. With its kernel k that is $k * (g x) =
      g ((g^{-1} k) * x)$ (for padding that the group respects): responses of transformed kernels, each map turned into
      the frame of k before maps are pooled pixel by pixel. Maps that stay in the frame of x, as in a group-equivariant
      network, would move with x, and the rest would have to be invariant as well.

    The paper says "a pooling over a group" and not which; there is no published code.

    Args:
        first: the layer that is tied, an `nn.Linear` (or `nn.LazyLinear`) on flattened inputs or any module on inputs.
        group: the finite group.
        rest: what follows, from pooled features to logits.
        pool: "max" or "mean" over the group.
        activation: $\sigma$, applied before pooling; none if None. The greatest response commutes with an increasing
            activation such as ReLU, which may as well be in `rest`. The mean does not: without an activation all that
            it sees of an input is the mean of its orbit.

    Shape:
        input: `(B, C, H, W)` or `(B, C, L)`; result: what `rest` returns, `(B, K)` for logits.
    """

    def __init__(
        self,
        first: nn.Module,
        group: FiniteGroup,
        rest: nn.Module,
        *,
        pool: Pool = "max",
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        for name, module in {"first": first, "rest": rest}.items():
            if not isinstance(module, nn.Module):
                raise ValueError(f"{name}: received {describe(module)}; accepted is a module")
        if not isinstance(group, FiniteGroup):
            raise ValueError(f"group: received {describe(group)}; accepted is a FiniteGroup, such as Rotations(4)")
        if pool not in get_args(Pool):
            raise ValueError(f"pool: received {pool!r}; accepted is one of {', '.join(map(repr, get_args(Pool)))}")
        if activation is not None and not isinstance(activation, nn.Module):
            raise ValueError(f"activation: received {describe(activation)}; accepted is a module, or None")
        self.first, self.group, self.activation, self.rest = first, group, activation, rest
        self.pool: Pool = pool

    def extra_repr(self) -> str:
        """How responses are pooled."""
        return f"pool={self.pool!r}"

    def forward(self, x: Tensor) -> Tensor:
        """What the rest makes of the pooled features."""
        return self.rest(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """The responses of the first layer, pooled over the group, `(B, ...)`: invariant."""
        responses = self.responses(x)
        if self.activation is not None:
            responses = self.activation(responses.flatten(0, 1)).unflatten(0, responses.shape[:2])
        return responses.amax(0) if self.pool == "max" else responses.mean(0)

    def responses(self, x: Tensor) -> Tensor:
        """The responses of the first layer for every element of the group.

        Shape:
            result: `(n, B, features)` for an `nn.Linear`, `(n, B, ...)` for others.
        """
        x = signal_for(x, self, self.group.bounds)
        if isinstance(self.first, nn.LazyLinear):
            self.first(x[:1].flatten(1))  # this makes its weights, and turns it into an nn.Linear
        if isinstance(self.first, nn.Linear) and self._orthogonal:
            weight = self.tied(self.first.weight, x)
            bias = None if self.first.bias is None else self.first.bias.repeat(len(weight))
            return F.linear(x.flatten(1), weight.flatten(0, 1), bias).unflatten(1, weight.shape[:2]).transpose(0, 1)
        moved = self.group.act(self.group.elements().unsqueeze(1), x)
        seen = moved.flatten(0, 1)
        if isinstance(self.first, nn.Linear):
            _check_values(x, self.first.weight)
            seen = seen.flatten(1)
        if isinstance(self.first, nn.Conv1d | nn.Conv2d):
            _check_channels(x, self.first)
        return self.first(seen).unflatten(0, moved.shape[:2])

    @property
    def _orthogonal(self) -> bool:
        """Whether weights can be moved instead of inputs: the group permutes values, and brings in zeros at most."""
        moving = (part for part in self.group.modules() if isinstance(part, Spatial))
        filled = any(part.padding != "zeros" or np.any(part.fill) for part in moving)
        return isinstance(self.group, Permutations) and not filled

    def tied(self, weight: Tensor, x: Tensor) -> Tensor:
        r"""The copies of weights, $g^{-1} w$ for every element g.

        Shape:
            weight: one row for each feature, `(features, C H W)`; x: inputs, which say in what shape the group acts;
            result: `(n, features, C H W)`.
        """
        _check_values(x, weight)
        inverses = self.group.inverse(self.group.elements()).unsqueeze(1)
        return self.group.act(inverses, weight.unflatten(1, x.shape[1:])).flatten(2)


def _check_channels(x: Tensor, first: nn.Conv1d | nn.Conv2d) -> None:
    channels = first.in_channels or x.shape[1]  # a lazy one has not seen any
    sides = "H, W" if isinstance(first, nn.Conv2d) else "L"
    accepted = f"inputs (B, {channels}, {sides}), which the first layer takes"
    check_tensor("x", x, accepted, x.shape[1] == channels and x.ndim == 2 + len(first.kernel_size))


def _check_values(x: Tensor, weight: Tensor) -> None:
    accepted = f"inputs of {weight.shape[1]} values each, as many as the first layer takes"
    check_tensor("x", x, accepted, x.shape[1:].numel() == weight.shape[1])
