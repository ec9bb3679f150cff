"""The convolutions of a variational autoencoder: from images to features, and back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from ..utils.shapes import check_count, describe
from .inputs import check_square

__all__ = ["PixelDecoder", "PixelEncoder"]

NARROW = 3  # filters of the convolution before the perceptron


class ChannelNorm(nn.Module):
    """Layer normalisation over the channels of each pixel.

    Shape:
        input: `(B, C, H, W)`; result: the same.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Each pixel with mean 0 and variance 1, then scaled and shifted."""
        return self.norm(x.movedim(1, -1)).movedim(-1, 1)


class PixelEncoder(nn.Module):
    """Convolutions with gelu and layer normalisation, one of 3 filters, and a hidden layer (SGM appendix C.4).

    All kernels are 3 × 3; the first two convolutions halve the image.

    Args:
        channels: of the images.
        size: their side, a multiple of 4.
        filters: of the convolutions, two or more.
        hidden: the width of the hidden layer.

    Shape:
        input: `(B, channels, size, size)`; result: `(B, hidden)`.
    """

    def __init__(
        self, channels: int = 1, size: int = 28, *, filters: Sequence[int] = (64, 128), hidden: int = 256
    ) -> None:
        super().__init__()
        self.channels, self.size, widths = check_count("channels", channels), _side(size), _filters(filters)
        self.layers, self.features = nn.Sequential(), check_count("hidden", hidden)
        for k, (a, b) in enumerate(pairwise((channels, *widths))):
            self.layers.extend((nn.Conv2d(a, b, 3, stride=2 if k < 2 else 1, padding=1), nn.GELU(), ChannelNorm(b)))
        self.layers.append(nn.Conv2d(widths[-1], NARROW, 3, padding=1))
        inputs = NARROW * (size // 4) ** 2
        self.layers.extend((nn.Flatten(), nn.Linear(inputs, hidden), nn.GELU(), nn.LayerNorm(hidden)))

    def forward(self, x: Tensor) -> Tensor:
        """The features of each image."""
        return self.layers(check_square(x, self.channels, self.size))


class PixelDecoder(nn.Module):
    """The encoder inverted: a hidden layer, and transposed convolutions in the opposite order (SGM appendix C.4).

    Args:
        inputs: the number of features.
        channels: of the images.
        size: their side, a multiple of 4.
        filters: of the encoder.
        hidden: the width of the hidden layer.

    Shape:
        input: `(B, inputs)`; result: `(B, channels, size, size)`.
    """

    def __init__(
        self,
        inputs: int,
        channels: int = 1,
        size: int = 28,
        *,
        filters: Sequence[int] = (64, 128),
        hidden: int = 256,
    ) -> None:
        super().__init__()
        side, widths = _side(size) // 4, _filters(filters)[::-1]
        cells = widths[0] * side**2
        first = nn.Linear(check_count("inputs", inputs), check_count("hidden", hidden))
        self.layers = nn.Sequential(first, nn.GELU(), nn.LayerNorm(hidden), nn.Linear(hidden, cells))
        self.layers.append(nn.Unflatten(1, (widths[0], side, side)))
        steps = list(pairwise((*widths, widths[-1])))
        for k, (a, b) in enumerate(steps):
            doubles = k >= len(steps) - 2
            move = nn.ConvTranspose2d(a, b, 3, stride=1 + doubles, padding=1, output_padding=int(doubles))
            self.layers.extend((nn.GELU(), ChannelNorm(a), move))
        self.layers.extend((nn.GELU(), ChannelNorm(widths[-1]), nn.Conv2d(widths[-1], channels, 3, padding=1)))

    def forward(self, z: Tensor) -> Tensor:
        """The image of each vector of features."""
        return self.layers(z)


def _side(size: int) -> int:
    if check_count("size", size) % 4:
        raise ValueError(f"size: received {size}; accepted is a multiple of 4")
    return size


def _filters(filters: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(filters, Sequence) or len(filters) < 2:
        raise ValueError(f"filters: received {describe(filters)}; accepted are two widths or more, such as (64, 128)")
    return tuple(check_count("filters", n) for n in filters)
