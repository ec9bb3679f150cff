"""The residual network without normalisation on which LILA and Learning to Transform compare."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import check_count
from .convolution import Convolution
from .inputs import check_images
from .rectified import rectified, shifted

__all__ = ["FixupBlock", "FixupResNet"]


def _scalar(value: float) -> nn.Parameter:
    return nn.Parameter(torch.full((1,), value))


class FixupBlock(nn.Module):
    r"""A residual block with four scalar biases and a scalar scale in place of normalisation.

    .. math:: y = \mathrm{relu}(P(x) + b_4 + s\, W_2 * (b_3 + \mathrm{relu}(b_2 + W_1 * (x + b_1))))

    $W_2$ starts at zero, so the block starts as $\mathrm{relu}(P(x))$. The shortcut P is the identity, or where the
    block halves the map every second pixel of $x + b_1$, with channels of zeros added.

    Args:
        channels: of the input.
        filters: of the output, `channels` or more.
        stride: 1, or 2 to halve the map.
        depth: L, the number of residual blocks in the network: $W_1$ starts with the standard deviation
            $L^{-1/2} \sqrt{2 / (9 \cdot filters)}$.

    Shape:
        input: `(B, channels, H, W)`; result: `(B, filters, ⌈H/stride⌉, ⌈W/stride⌉)`.
    """

    def __init__(self, channels: int, filters: int, *, stride: int, depth: int) -> None:
        super().__init__()
        self.stride, self.added = stride, filters - channels
        self.bias1, self.bias2, self.bias3, self.bias4 = (_scalar(0.0) for _ in range(4))
        self.scale = _scalar(1.0)
        self.conv1 = Convolution(channels, filters, 3, stride=stride, padding=1, bias=False)
        self.conv2 = Convolution(filters, filters, 3, padding=1, bias=False)
        nn.init.normal_(self.conv1.weight, std=math.sqrt(2 / (9 * filters * depth)))
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The block's map."""
        biased = shifted(x, self.bias1)
        h = self.conv2(rectified(self.conv1(biased), self.bias2, after=self.bias3))
        rest = x if self.stride == 1 else self._halved(biased)
        return rectified(h, self.bias4, scale=self.scale, rest=rest)

    def _halved(self, x: Tensor) -> Tensor:
        return F.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))


class FixupResNet(nn.Module):
    """LILA's residual network: a convolution, three stages of widths c, 2c and 4c, a mean and a linear layer.

    The defaults are the network of 8 layers and 74,827 parameters ("resnet_8_16"). It starts as its shortcuts, and
    since the linear layer starts at zero, with equal probabilities.

    Args:
        channels: of the images.
        classes: the number of outputs.
        width: c.
        blocks: of each stage; the network has 6 · blocks + 2 layers.

    Shape:
        input: `(B, channels, H, W)`, H and W at least 4; result: logits `(B, classes)`.

    References:
        | H. Zhang et al. Fixup initialization: residual learning without normalization (2019).
        | A. Immer et al. Invariance learning in deep neural networks with differentiable Laplace approximations (2022).
    """

    least = 4

    def __init__(self, channels: int = 3, classes: int = 10, *, width: int = 16, blocks: int = 1) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        check_count("classes", classes)
        widths = [check_count("width", width) * 2**stage for stage in range(3)]
        depth = 3 * check_count("blocks", blocks)
        self.stem = Convolution(channels, width, 3, padding=1, bias=False)
        self.bias1, self.bias2 = _scalar(0.0), _scalar(0.0)
        self.blocks = nn.Sequential()
        for stage, filters in enumerate(widths):
            for i in range(blocks):
                first = i == 0 and stage > 0
                before = filters // 2 if first else filters
                self.blocks.append(FixupBlock(before, filters, stride=2 if first else 1, depth=depth))
        self.last = nn.Linear(widths[-1], classes)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        h = rectified(self.stem(check_images(x, self.channels, self.least)), self.bias1)
        h = self.blocks(h).mean((-2, -1))
        return self.last(shifted(h, self.bias2))

    def scalar_parameters(self) -> list[nn.Parameter]:
        """The biases and scales of one number each, in place of normalisation.

        The published code of Learning to Transform trains them at a tenth of the rate of the others.
        """
        return [p for p in self.parameters() if p.numel() == 1 and p is not self.last.bias]
