"""The "13-layer" network of Augerino and Learning to Transform, which has nine convolutions."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import check_count
from .inputs import check_dropout, check_images

__all__ = ["Conv13"]


class Conv13(nn.Module):
    """Three groups of three 3×3 convolutions with batch normalisation and ReLU, a mean and a linear layer.

    The widths are k, k, 2k, then 2k throughout. Whole channels are dropped after each group, and the map is halved by a
    maximum before that, but for the last. With the defaults it has 3.99 million parameters ("layer13s").

    Differs from the published code: the convolutions have no bias, which the batch normalisation would cancel. That
    code never leaves training mode, so its accuracies are with dropout and the statistics of test batches.

    Args:
        channels: of the images.
        classes: the number of outputs.
        width: k.
        dropout: the probability of dropping a channel.

    Shape:
        input: `(B, channels, H, W)`, H and W at least 4; result: logits `(B, classes)`.
    """

    least = 4

    def __init__(self, channels: int = 3, classes: int = 10, *, width: int = 128, dropout: float = 0.3) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        check_count("classes", classes)
        self.dropout = nn.Dropout2d(check_dropout(dropout))
        k = check_count("width", width)
        self.group1 = nn.Sequential(*_convolutions(channels, k, k, 2 * k))
        self.group2 = nn.Sequential(*_convolutions(2 * k, 2 * k, 2 * k, 2 * k))
        self.group3 = nn.Sequential(*_convolutions(2 * k, 2 * k, 2 * k, 2 * k))
        self.last = nn.Linear(2 * k, classes)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        h = self.group1(check_images(x, self.channels, self.least))
        h = self.group2(self.dropout(F.max_pool2d(h, 2)))
        h = self.group3(self.dropout(F.max_pool2d(h, 2)))
        return self.last(self.dropout(h).mean((-2, -1)))


def _convolutions(channels: int, *widths: int) -> Iterator[nn.Module]:
    for width in widths:
        yield from (nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        channels = width
