"""The multilayer perceptron of the symmetry-aware generative model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from ..utils.shapes import check_count, check_tensor, describe
from .inputs import check_dropout

__all__ = ["MLP"]


class MLP(nn.Module):
    """Layers of linear, gelu, layer normalisation and dropout, in this order (SGM appendix C).

    The paper's inference network has `hidden=(2048, 1024, 512, 256)`, its generative one `(1024, 512, 512)`, for which
    the published code has `(1024, 512, 256)`.

    Args:
        inputs: the number of values of one input, which may have any shape.
        hidden: the widths of the layers.
        outputs: of a linear layer at the end; there is none if None, and the result is the last layer's.
        dropout: the probability of dropping a value.

    Shape:
        input: `(B, ...)` with `inputs` values each; result: `(B, hidden[-1])`, or `(B, outputs)`.
    """

    def __init__(self, inputs: int, hidden: Sequence[int], *, outputs: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.inputs = check_count("inputs", inputs)
        if not isinstance(hidden, Sequence) or not hidden:
            raise ValueError(f"hidden: received {describe(hidden)}; accepted is a sequence of widths, such as (64, 32)")
        widths = (inputs, *(check_count("hidden", width) for width in hidden))
        p = check_dropout(dropout)
        self.layers = nn.Sequential()
        for a, b in pairwise(widths):
            self.layers.extend((nn.Linear(a, b), nn.GELU(), nn.LayerNorm(b), nn.Dropout(p)))
        self.features = widths[-1] if outputs is None else check_count("outputs", outputs)
        if outputs is not None:
            self.layers.append(nn.Linear(widths[-1], outputs))

    def forward(self, x: Tensor) -> Tensor:
        """The features of each input."""
        ok = isinstance(x, Tensor) and x.ndim > 1 and x.shape[1:].numel() == self.inputs and x.is_floating_point()
        check_tensor("x", x, f"floating-point inputs (B, ...) of {self.inputs} values each", ok)
        return self.layers(x.flatten(1))
