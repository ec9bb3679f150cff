"""The small networks of the probabilistic spatial transformer on MNIST: localiser and classifier."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import check_count, describe
from .inputs import check_dropout, check_square

__all__ = ["Localiser", "SmallCNN"]


class Localiser(nn.Module):
    """Two convolutions, each followed by a maximum over 2×2 and ReLU: the features of P-STN's localiser.

    With 8 and 14 filters the features are 224; a spatial transformer without the second head has 12 and 18 filters to
    come to as many parameters.

    Args:
        channels: of the images.
        size: of the images.
        filters: of the two convolutions.
        kernel: their size.

    Shape:
        input: `(B, channels, size, size)`; result: `(B, features)`.

    References:
        | P. Schwöbel et al. Probabilistic spatial transformer networks (2022), section 5.
    """

    def __init__(self, channels: int = 1, *, size: int = 28, filters: Sequence[int] = (8, 14), kernel: int = 5) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        self.size = check_count("size", size)
        if not isinstance(filters, Sequence) or len(filters) != 2:
            raise ValueError(f"filters: received {describe(filters)}; accepted is a pair of numbers, such as (8, 14)")
        a, b = (check_count("filters", n) for n in filters)
        least = 3 * check_count("kernel", kernel) + 1  # one pixel is left: ((size - k + 1) / 2 - k + 1) / 2
        if size < least:
            raise ValueError(f"size: received {size}; accepted is at least {least} with kernels of {kernel}")
        side = ((size - kernel + 1) // 2 - kernel + 1) // 2
        self.features = b * side**2
        self.conv1 = nn.Conv2d(channels, a, kernel)
        self.conv2 = nn.Conv2d(a, b, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """The features of each image."""
        h = F.relu(F.max_pool2d(self.conv1(check_square(x, self.channels, self.size)), 2))
        return F.relu(F.max_pool2d(self.conv2(h), 2)).flatten(1)


class SmallCNN(nn.Module):
    """P-STN's classifier: two convolutions as in the localiser, a hidden layer with ReLU and dropout, a linear layer.

    The defaults are the baseline without localiser, of 28,086 parameters; behind a localiser it has filters (10, 20)
    and a hidden layer of 50.

    Args:
        channels: of the images.
        classes: the number of outputs.
        size: of the images.
        filters: of the two convolutions of kernel 5.
        hidden: the width of the hidden layer.
        dropout: the probability of dropping a value of the hidden layer.

    Shape:
        input: `(B, channels, size, size)`; result: logits `(B, classes)`.
    """

    def __init__(
        self,
        channels: int = 1,
        classes: int = 10,
        *,
        size: int = 28,
        filters: Sequence[int] = (12, 24),
        hidden: int = 52,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.body = Localiser(channels, size=size, filters=filters)
        self.hidden = nn.Linear(self.body.features, check_count("hidden", hidden))
        self.dropout = nn.Dropout(check_dropout(dropout))
        self.last = nn.Linear(hidden, check_count("classes", classes))

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        return self.last(self.dropout(F.relu(self.hidden(self.body(x)))))
