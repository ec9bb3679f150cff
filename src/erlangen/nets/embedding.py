"""The five-layer network of Learning to Transform: from an image to the features that describe it."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import check_count
from .inputs import check_images

__all__ = ["EmbeddingCNN"]


class EmbeddingCNN(nn.Module):
    r"""Four 3×3 convolutions of widths c, 2c, 4c and 8c with ReLU, and a linear layer.

    The maps are halved by a maximum after convolutions 2, 3 and 4; the maximum over what remains, of any size, leaves
    8c numbers for the linear layer. There is no normalisation, so an input is encoded the same in any batch.

    With c = 8 and 32 features it conditions the published flow; with c = 32 and as many features as classes it is the
    classifier of its toy experiments.

    Differs from the published code: at 28 pixels that takes the maximum over the upper left 2×2 of the last 3×3 map,
    and so is blind to the lower and right edges; here it is over the whole map. At 32 pixels they are the same.

    Args:
        channels: of the images.
        features: the number of outputs.
        width: c, the number of filters of the first convolution.

    Shape:
        input: `(B, channels, H, W)`, H and W at least 8; result: `(B, features)`.

    References:
        | U. Singhal et al. Learning to transform for generalizable instance-wise invariance (2023).
    """

    least = 8

    def __init__(self, channels: int = 3, features: int = 32, *, width: int = 8) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        self.features = check_count("features", features)
        c = check_count("width", width)
        self.conv1 = nn.Conv2d(channels, c, 3, padding=1)
        self.conv2 = nn.Conv2d(c, 2 * c, 3, padding=1)
        self.conv3 = nn.Conv2d(2 * c, 4 * c, 3, padding=1)
        self.conv4 = nn.Conv2d(4 * c, 8 * c, 3, padding=1)
        self.last = nn.Linear(8 * c, features)

    def forward(self, x: Tensor) -> Tensor:
        """The features of each image."""
        h = F.relu(self.conv1(check_images(x, self.channels, self.least)))
        for conv in (self.conv2, self.conv3, self.conv4):
            h = F.relu(F.max_pool2d(conv(h), 2))  # the same as the maxima of activations, which are four times as many
        return self.last(h.amax((-2, -1)))
