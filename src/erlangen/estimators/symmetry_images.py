"""What a `SymmetryFinder` sees: images of any kind, and the ground on which they stand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..data import DataSet
from ..transforms.warp import as_signal
from ..utils.shapes import check_tensor, check_unit, describe
from .sources import check_bytes, check_sides, some_rows

__all__ = ["Ground", "colour_of", "ground_of", "learnable", "levels", "on_black", "specks"]

EVEN = 0.05  # how far borders may be from one colour, on average, where images count as standing on it
CHANNELS = (1, 2, 3, 4)  # usual numbers of channels, which tell whether these come first
BESIDE = 2  # neighbours, at least, of a pixel of a subject that belong to it too: those on a line have two
NOISE = 3.5  # times the distance within which three quarters of borders are from their colour, some four deviations


class Ground(NamedTuple):
    """The even ground on which images stand: its colour, and how far pixels may be from it and still show it."""

    colour: list[float]
    noise: float


def learnable(X: DataSet | Tensor | np.ndarray) -> Tensor:
    """Images from which something can be learned."""
    x = levels(X)
    check_sides("X", x.shape[2:])
    low, high = x.amin((0, 2, 3)), x.amax((0, 2, 3))
    if torch.equal(low, high):
        level = ", ".join(dict.fromkeys(f"{one:.4g}" for one in low.tolist()))
        got = f"{len(x)} image{'s' * (len(x) != 1)} in which every pixel is {level}"
        raise ValueError(f"X: received {got}; accepted are images that show something")
    check_bytes("X", x)
    return x


def levels(X: DataSet | Tensor | np.ndarray) -> Tensor:
    """Images of any kind as a tensor, uint8 or within [0, 1]."""
    accepted = "images (N, C, H, W), uint8 or floating-point within [0, 1]"
    if not isinstance(X, DataSet | Tensor | np.ndarray) or (isinstance(X, np.ndarray) and X.dtype.kind not in "uif"):
        raise ValueError(f"X: received {describe(X)}; accepted are {accepted}, or a data set of them")
    if isinstance(X, np.ndarray):  # torch takes no reversed axes and no foreign bytes, and warns of what is read-only
        wide = X.dtype.itemsize > 8  # quadruple precision, which torch has not either
        X = np.require(X, np.float64 if wide else X.dtype.newbyteorder("="), ("C", "W"))
    x = X.x if isinstance(X, DataSet) else torch.as_tensor(X)
    ok = x.ndim == 4 and x.numel() > 0 and (x.dtype == torch.uint8 or x.is_floating_point())
    check_tensor("X", x, accepted, ok)
    if x.shape[1] not in CHANNELS and x.shape[3] in CHANNELS:
        last = f"{describe(x)}, whose channels seem to come last"
        raise ValueError(f"X: received {last}; accepted are {accepted}: np.moveaxis(X, 3, 1) has them")
    if x.dtype == torch.uint8:
        return x
    check_unit("X", x, accepted)
    return x.to(torch.get_default_dtype()).clamp(0, 1)  # what rounding may have added: colours take nothing beyond


def ground_of(x: Tensor) -> Ground | None:
    """The ground if images stand on an even one, so that what moves is the subject."""
    level = as_signal(x[some_rows(len(x), 1000)], "bilinear")
    edges = torch.cat((level[..., 0, :], level[..., -1, :], level[..., :, 0], level[..., :, -1]), -1).transpose(0, 1)
    colour = edges.flatten(1).median(1).values
    away = (edges - colour[:, None, None]).abs()
    if away.mean() > EVEN:
        return None
    usual = away.flatten(1).quantile(0.75, 1).max().item()  # half of the noise on black is below it, and clipped
    return Ground(colour.tolist(), min(NOISE * usual, 5 * EVEN))  # the noise of an even ground is hardly more


def on_black(x: Tensor, ground: Ground, like: Tensor) -> Tensor:
    """Images less the colour and the noise of their ground; those on black stay as they are, in their own type.

    Noise would count as mass: if it is 0.01 all over the frame, centres of mass move a tenth less than subjects.
    """
    if not any(ground.colour) and not ground.noise:
        return x
    level = as_signal(x, "bilinear", like)
    level = level - colour_of(ground, level)
    return level * (level.abs() > ground.noise).any(1, keepdim=True) if ground.noise else level


def colour_of(ground: Ground, x: Tensor) -> Tensor:
    """Its colour, `(C, 1, 1)`."""
    return torch.tensor(ground.colour, dtype=x.dtype, device=x.device).view(-1, 1, 1)


def specks(x: Tensor, ground: Ground) -> bool:
    """Whether little but specks is left of images when the noise of their ground is taken away.

    Subjects as faint as the noise lose most of their pixels with it. What is left lies anywhere in them, and moves with
    the image, so that poses which follow it seem to be right.
    """
    if not ground.noise:
        return False
    left = on_black(x[some_rows(len(x), 1000)], ground, torch.zeros(())).any(1, keepdim=True).float()
    beside = 9 * F.avg_pool2d(left, 3, stride=1, padding=1) - left
    whole = left * (beside > BESIDE - 0.5)
    return bool(2 * whole.sum() <= left.sum())
