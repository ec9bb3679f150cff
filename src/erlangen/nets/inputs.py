"""What an input has to be: the checks that every network shares, and the disc that some look through."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..utils.shapes import check_tensor, describe

__all__ = ["Disc", "check_dropout", "check_images", "check_series", "check_square"]


def check_images(x: object, channels: int, least: int) -> Tensor:
    """Returns a batch of images with the right channels and sides of at least `least`, else a `ValueError`."""
    accepted = f"floating-point images (B, {channels}, H, W) with H, W >= {least}"
    x = check_tensor("x", x, accepted)
    ok = x.ndim == 4 and x.shape[1] == channels and min(x.shape[-2:]) >= least and x.is_floating_point()
    return check_tensor("x", x, accepted, ok)


def check_series(x: object, channels: int) -> Tensor:
    """Returns a batch of series with the right channels, else a `ValueError`."""
    accepted = f"floating-point series (B, {channels}, L)"
    x = check_tensor("x", x, accepted)
    ok = x.ndim == 3 and x.shape[1] == channels and x.shape[-1] > 0 and x.is_floating_point()
    return check_tensor("x", x, accepted, ok)


def check_square(x: object, channels: int, size: int) -> Tensor:
    """Returns a batch of images of one size with the right channels, else a `ValueError`."""
    accepted = f"floating-point images (B, {channels}, {size}, {size})"
    x = check_tensor("x", x, accepted)
    return check_tensor("x", x, accepted, x.shape[1:] == (channels, size, size) and x.is_floating_point())


def check_dropout(name: str, p: object) -> float:
    """Returns `p` as a float when it is a probability below 1, else a `ValueError`."""
    if not isinstance(p, int | float) or isinstance(p, bool) or not 0 <= p < 1:
        raise ValueError(f"{name}: received {describe(p)}; accepted is a probability, 0 <= {name} < 1")
    return float(p)


class Disc(nn.Module):
    """Blackens all but a disc at the centre, for what a rotation leaves at the frame tells its angle.

    That are the corners, which are empty, and pixels at the edge, into which the outside was interpolated. A network
    that should judge an image by what is in it begins with this.

    Args:
        edge: by how many pixels the radius is less than half of the shorter side.

    Shape:
        input: `(B, C, H, W)`; result: the same.
    """

    def __init__(self, edge: int = 2) -> None:
        super().__init__()
        if not isinstance(edge, int) or edge < 0:
            raise ValueError(f"edge: received {describe(edge)}; accepted is a number of pixels >= 0")
        self.edge = edge

    def forward(self, x: Tensor) -> Tensor:
        """The images, black beyond the circle."""
        rows, columns = (torch.arange(n, device=x.device) - (n - 1) / 2 for n in x.shape[-2:])
        return torch.where(rows[:, None] ** 2 + columns**2 <= (min(x.shape[-2:]) / 2 - self.edge) ** 2, x, 0.0)
