"""What an input has to be: the checks that every network shares."""

from __future__ import annotations

from torch import Tensor

from ..utils.shapes import check_tensor, describe

__all__ = ["check_dropout", "check_images", "check_series", "check_square"]


def check_images(x: Tensor, channels: int, least: int) -> Tensor:
    """Returns a batch of images with the right channels and sides of at least `least`, else a `ValueError`."""
    ok = isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 4
    ok = ok and x.shape[1] == channels and min(x.shape[-2:]) >= least
    return check_tensor("x", x, f"floating-point images (B, {channels}, H, W) with H, W >= {least}", ok)


def check_series(x: Tensor, channels: int) -> Tensor:
    """Returns a batch of series with the right channels, else a `ValueError`."""
    ok = isinstance(x, Tensor) and x.is_floating_point() and x.ndim == 3
    ok = ok and x.shape[1] == channels and x.shape[-1] > 0
    return check_tensor("x", x, f"floating-point series (B, {channels}, L)", ok)


def check_square(x: Tensor, channels: int, size: int) -> Tensor:
    """Returns a batch of images of one size with the right channels, else a `ValueError`."""
    ok = isinstance(x, Tensor) and x.shape[1:] == (channels, size, size) and x.is_floating_point()
    return check_tensor("x", x, f"floating-point images (B, {channels}, {size}, {size})", ok)


def check_dropout(p: object) -> float:
    """Returns `p` as a float when it is a probability below 1, else a `ValueError`."""
    if not isinstance(p, int | float) or isinstance(p, bool) or not 0 <= p < 1:
        raise ValueError(f"dropout: received {describe(p)}; accepted is a probability, 0 <= dropout < 1")
    return float(p)
