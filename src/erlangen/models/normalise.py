"""What is done to images and series before a classifier sees them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["Mirror", "Normalise"]


class Normalise(nn.Module):
    """Subtracts the mean of each channel and divides by its standard deviation.

    Args:
        mean: one number for each channel.
        std: one number for each channel.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised images `(B, C, H, W)` or series `(B, C, L)`."""
        shape = (-1,) + (1,) * (x.ndim - 2)
        return (x - self.mean.view(shape)) / self.std.view(shape)


class Mirror(nn.Module):
    """In training, half of the images are mirrored left to right, at random; in evaluation none."""

    def forward(self, x: Tensor) -> Tensor:
        """Images, `(B, C, H, W)`."""
        if not self.training:
            return x
        return torch.where(torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5, x.flip(-1), x)
