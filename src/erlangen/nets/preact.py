"""Pre-activation residual networks, as InstaAug sizes them for Tiny ImageNet: its classifier and its crop scores."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import check_count
from .inputs import check_images, check_square

__all__ = ["CropEncoder", "PreActBlock", "PreActResNet18"]

CUT = 0.87962566103423978  # the standard deviation of a standard normal cut at ±2


class PreActBlock(nn.Module):
    r"""A residual block that normalises before it convolves.

    .. math:: a = \mathrm{relu}(N_1 x), \quad y = P + W_2 * \mathrm{relu}(N_2(W_1 * a))

    The shortcut P is x, or a 1×1 convolution of a where stride or width change.

    Args:
        channels: of the input.
        filters: of the output.
        stride: 1, or 2 to halve the map.

    Shape:
        input: `(B, channels, H, W)`; result: `(B, filters, ⌈H/stride⌉, ⌈W/stride⌉)`.

    References:
        | K. He et al. Identity mappings in deep residual networks (2016).
    """

    def __init__(self, channels: int, filters: int, stride: int = 1) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(filters)
        self.conv2 = nn.Conv2d(filters, filters, 3, padding=1, bias=False)
        same = stride == 1 and channels == filters
        self.shortcut = None if same else nn.Conv2d(channels, filters, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block's map."""
        a = F.relu(self.norm1(x))
        h = self.conv2(F.relu(self.norm2(self.conv1(a))))
        return h + (x if self.shortcut is None else self.shortcut(a))


@torch.no_grad()
def _initialise(net: nn.Module) -> None:
    """Convolutions from a normal cut at two deviations, of variance 2 / fan-in; linear weights with deviation 0.01."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            std = math.sqrt(2 / module.weight[0].numel()) / CUT
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.01)
            nn.init.zeros_(module.bias)


class PreActResNet18(nn.Module):
    """InstaAug's classifier for 64×64: a convolution of stride 2, four stages of two blocks, a mean and a linear layer.

    The stages have widths c, 2c, 4c, 8c and halve the map from the second on, which leaves 4×4 of 64×64. There is no
    normalisation after the last block, as in the published code. 11,268,616 parameters for the 200 classes of Tiny
    ImageNet.

    Args:
        channels: of the images.
        classes: the number of outputs.
        width: c.

    Shape:
        input: `(B, channels, H, W)`, H and W at least 16; result: logits `(B, classes)`.

    References:
        | N. Miao et al. Learning instance-specific augmentations by capturing local invariances (2023).
    """

    least = 16

    def __init__(self, channels: int = 3, classes: int = 200, *, width: int = 64) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        check_count("classes", classes)
        c = check_count("width", width)
        self.stem = nn.Conv2d(channels, c, 3, 2, padding=1, bias=False)
        self.blocks = nn.Sequential(PreActBlock(c, c), PreActBlock(c, c))
        for before, after in pairwise((c, 2 * c, 4 * c, 8 * c)):
            self.blocks.extend((PreActBlock(before, after, 2), PreActBlock(after, after)))
        self.last = nn.Linear(8 * c, classes)
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        h = self.blocks(self.stem(check_images(x, self.channels, self.least)))
        return self.last(h.mean((-2, -1)))


class CropEncoder(nn.Module):
    """InstaAug's small network: one score for each crop of a fine grid, of a coarse grid, and for the whole frame.

    A convolution of stride 2 and three blocks of widths 8, 16 and 32, the last two halving the map. Scores are a 1×1
    convolution of the second and third map plus a learned bias at each place, and one convolution as large as the third
    map. At 64 pixels these are 16² + 8² + 1 = 321 scores, row by row, in the order of the rows of
    `erlangen.distributions.crop_table`.

    Args:
        channels: of the images.
        size: of the images, a multiple of 8.

    Shape:
        input: `(B, channels, size, size)`; result: `(B, (size/4)² + (size/8)² + 1)`.

    References:
        | N. Miao et al. Learning instance-specific augmentations by capturing local invariances (2023).
    """

    def __init__(self, channels: int = 3, *, size: int = 64) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        self.size = check_count("size", size)
        if size % 8:
            raise ValueError(f"size: received {size}; accepted is a multiple of 8, such as 64")
        fine, coarse = size // 4, size // 8
        self.features = fine**2 + coarse**2 + 1
        self.stem = nn.Sequential(nn.Conv2d(channels, 8, 3, 2, padding=1, bias=False), PreActBlock(8, 8))
        self.block1, self.block2 = PreActBlock(8, 16, 2), PreActBlock(16, 32, 2)
        self.fine = nn.Conv2d(16, 1, 1, bias=False)
        self.coarse = nn.Conv2d(32, 1, 1, bias=False)
        self.whole = nn.Conv2d(32, 1, coarse, bias=False)
        self.bias = nn.Parameter(torch.zeros(self.features))
        _initialise(self)
        with torch.no_grad():
            for head in (self.fine, self.coarse, self.whole):
                head.weight.div_(10)  # so that the scores start near their biases

    def forward(self, x: Tensor) -> Tensor:
        """The scores."""
        fine = self.block1(self.stem(check_square(x, self.channels, self.size)))
        coarse = self.block2(fine)
        scores = (self.fine(fine), self.coarse(coarse), self.whole(coarse))
        return torch.cat([s.flatten(1) for s in scores], -1) + self.bias
