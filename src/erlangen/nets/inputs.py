"""What an input has to be: the checks that every network shares."""

from __future__ import annotations

from torch import Tensor

from ..utils.shapes import check_tensor, describe

__all__ = ["check_dropout", "check_images", "check_series", "check_square"]


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
