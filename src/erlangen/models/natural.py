r"""Natural variations as a transform and a conditional, so that whatever takes these takes a model of symmetries."""

from __future__ import annotations

from torch import Tensor

from ..distributions import Conditional, Density
from ..transforms import Transform
from .symmetry import SymmetryModel

__all__ = ["FromPrototype", "Natural"]


class FromPrototype(Transform):
    r"""$x, v \mapsto \mathcal{T}_v(\hat x) = \mathcal{T}_v \mathcal{T}_{f(x)}^{-1}(x)$, by one warp of the input.

    Which element that is depends on the input, so there is a `forward` and nothing else of a `Transform`.

    Args:
        symmetry: the model that knows the prototype of an input.
    """

    def __init__(self, symmetry: SymmetryModel) -> None:
        group = symmetry.group
        super().__init__(group.names, group.bounds, origin=group.origin.tolist(), supports=group.supports)
        self.periodic, self.symmetry = group.periodic, symmetry

    def forward(self, x: Tensor, v: Tensor) -> Tensor:
        """The prototypes of inputs, transformed.

        Shape:
            v: `(*S, B, d)`; result: `(*S, B, C, H, W)`.
        """
        return self.symmetry.transform(x, v)


class Natural(Conditional):
    r"""$p_\psi(\eta \mid \hat x)$ as a conditional of the input: how things like it are transformed in the data.

    Args:
        symmetry: the model.
    """

    def __init__(self, symmetry: SymmetryModel) -> None:
        inner, group = symmetry.conditional, symmetry.group
        super().__init__(inner.features, inner.context, periodic=inner.periodic, origin=group.origin)
        self.symmetry = symmetry

    def forward(self, x: Tensor) -> Density:
        """The distribution for each input of a batch."""
        return self.symmetry.density(x)
