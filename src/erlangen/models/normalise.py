"""What is done to images and series before a classifier sees them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..utils.shapes import check_tensor, describe

__all__ = ["Disc", "Mirror", "Normalise"]


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
        x = check_tensor("x", x, "images (B, C, H, W)", isinstance(x, Tensor) and x.ndim == 4)
        if not self.training:
            return x
        return torch.where(torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5, x.flip(-1), x)


class Disc(nn.Module):
    """Blackens all but a disc at the centre, since what a rotation leaves at the frame tells its angle.

    A rotation leaves empty corners, and pixels at the edge into which the outside was interpolated. A network that
    should judge an image by its content begins with this.

    Args:
        edge: by how many pixels the radius is less than half of the shorter side.

    Shape:
        input: `(B, C, H, W)`; result: the same.
    """

    def __init__(self, edge: int = 2) -> None:
        super().__init__()
        if not isinstance(edge, int) or isinstance(edge, bool) or edge < 0:
            raise ValueError(f"edge: received {describe(edge)}; accepted is a number of pixels >= 0")
        self.edge = edge

    def forward(self, x: Tensor) -> Tensor:
        """The images, black beyond the circle."""
        ok = isinstance(x, Tensor) and x.ndim == 4 and x.is_floating_point()
        x = check_tensor("x", x, "images (B, C, H, W) in floating point", ok)
        rows, columns = (torch.arange(n, device=x.device) - (n - 1) / 2 for n in x.shape[-2:])
        return torch.where(rows[:, None] ** 2 + columns**2 <= max(0, min(x.shape[-2:]) / 2 - self.edge) ** 2, x, 0.0)
