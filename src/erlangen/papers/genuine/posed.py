r"""A row of ours: one forward pass of a network whose weights are free, of inputs that are brought into one pose.

$$f(x) = \phi\bigl(\hat g(x)^{-1} x\bigr), \qquad \hat g(x) = \arg\max_{g \in \mathcal{G}} \; a_g^\top x + b_g$$

It is invariant where the pose is equivariant, $\hat g(h x) = h \hat g(x)$, and then $\phi$ may be as sensitive as it
likes: what a price on the invariance error takes from a network (its spectral decay) is not paid. No weight is tied to
another to that end. $\hat g$ is a softmax regression that learns to name the element by which an input was moved. Its
loss over whole orbits is convex and does not change when $\mathcal{G}$ acts on inputs and rows $a_g$ at once, so that
descent from zero keeps the rows in one orbit, $a_g = g a_e$, to rounding: there is nothing that could drive them apart.

It needs data that have a pose of their own, as upright digits do and as augmentation takes for granted.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from ...distributions import Categorical
from ...objectives import Objective
from ...objectives.base import accuracy, groups_of, labelled
from ...transforms import FiniteGroup
from ...transforms.warp import as_signal

__all__ = ["Posed", "Posing"]


class Posed(nn.Module):
    """A network of inputs that are moved back from where a conditional finds them.

    Args:
        model: the network.
        group: the finite group.
        conditional: over the elements of the group, from inputs as they are.

    Shape:
        input: `(B, C, H, W)`; result: what the network returns.
    """

    def __init__(self, model: nn.Module, group: FiniteGroup, conditional: Categorical) -> None:
        super().__init__()
        self.model, self.group, self.conditional = model, group, conditional

    def forward(self, x: Tensor) -> Tensor:
        """The network's answer for inputs in one pose."""
        x = as_signal(x, "bilinear", self.group.bounds)
        pose = self.conditional(x).logits.argmax(-1)
        return self.model(self.group.act(self.group.inverse(pose), x))


class Posing(Objective):
    """The cross-entropy of a `Posed` network, and that of the elements by which inputs are moved, over whole orbits.

    Args:
        posed: the network.
    """

    def __init__(self, posed: Posed) -> None:
        super().__init__()
        self.posed = posed

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The network's parameters, and those of the conditional."""
        return groups_of(self.posed.model, self.posed.conditional)

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss and its parts."""
        x, y = labelled(batch)
        x, group = as_signal(x, "bilinear", self.posed.group.bounds), self.posed.group
        logits = self.posed(x)
        orbit = group.act(group.elements().unsqueeze(1), x).flatten(0, 1)
        pose = F.cross_entropy(self.posed.conditional(orbit).logits, group.elements().repeat_interleave(len(x)))
        cross_entropy = F.cross_entropy(logits, y)
        parts = {"cross_entropy": cross_entropy, "pose": pose, "accuracy": accuracy(logits, y)}
        return {"loss": cross_entropy + pose, **parts}
