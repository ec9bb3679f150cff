"""Colour: hue, saturation and value."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..utils.shapes import check_true, describe, vector
from .affine import check_names
from .base import Bounds, Group, resolve_bounds
from .warp import as_signal

__all__ = ["HSV", "clip"]

NAMES = ("hue", "saturation", "value")
FAINT = 1e-6  # the saturation below which a colour is grey
LEAST = 1e-30  # the value below which it is black
FAR = 1e30  # beyond every number that is clipped


class HSV(Group):
    r"""Hue, saturation and value of each pixel (SGM Eq. 25).

    $$ h' = (h + 2\pi\eta_h) \bmod 2\pi, \quad
       s' = \max(0, \min(s\, e^{\eta_s}, 1)), \quad v' = \max(0, \min(v\, e^{\eta_v}, 1)) $$

    Coordinates add, so elements are the coordinates themselves. The clips pass gradients through (appendix C.5), grey
    pixels (with a saturation below 1e-6) have a gradient of zero in hue rather than NaN. The action is a homomorphism
    wherever nothing is clipped.

    Args:
        *names: any of "hue" (in turns, periodic), "saturation" and "value" (log-factors); all three if none is given.
        bounds: ranges that differ from the defaults, by name: (low, high), or b for (-b, b).

    Shape:
        x: `(B, 3, H, W)`, RGB in [0, 1] or uint8; v: `(*S, B, d)`; elements: `(*S, B, 3)`.
    """

    element_shape = (3,)
    acts_on = "colours"
    dims = 2
    levels = True

    def __init__(self, *names: str, bounds: Bounds | None = None) -> None:
        names = names or NAMES
        check_names(names, NAMES)
        ranges = resolve_bounds(names, {"hue": 0.5, "saturation": 1.0, "value": 0.5}, bounds)
        super().__init__(names, ranges, periods=[float(name == "hue") for name in names])

    def identity(self) -> Tensor:
        """Zeros."""
        return torch.zeros(3, dtype=self.bounds.dtype, device=self.bounds.device)

    def element(self, v: Tensor) -> Tensor:
        """The coordinates, with zero for those left out."""
        v = self.coordinates(v)
        zero = torch.zeros_like(v[..., 0])
        return torch.stack([v[..., self.names.index(n)] if n in self.names else zero for n in NAMES], -1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        """The sum."""
        g, h = self.pair(g, h)
        return g + h

    def inverse(self, g: Tensor) -> Tensor:
        """The negative."""
        return -self.elements_like(g)

    def element_log(self, g: Tensor) -> Tensor:
        """The coordinates; the hue is brought within its bounds by whole turns, wherever the bounds begin."""
        g = self.elements_like(g)
        missing = [k for k, name in enumerate(NAMES) if name not in self.names]
        accepted = f"elements that the coordinates {', '.join(self.names)} can express"
        check_true("g", (g[..., missing] == 0).all(-1), f"{describe(g)} with others", accepted)
        v = g[..., [NAMES.index(name) for name in self.names]]
        turn = vector([float(name == "hue") for name in self.names], g.dtype, g.device)
        return v - turn * (v.detach() - self.bounds.mean(0).to(v.dtype) + 0.5).floor()

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Recolours each pixel. Hue and chroma of `x` are computed once, for all samples."""
        g = self.elements_like(g)
        x = as_signal(x, "bilinear", g)
        if x.ndim != 4 or x.shape[1] != 3:
            raise ValueError(f"x: received {describe(x)}; accepted by HSV are RGB images (B, 3, H, W)")
        check_levels(x)
        self.check_batch(g, x, "x")
        hue, saturation, value = _to_hsv(clip(x.to(g.dtype)))
        d_hue, *factors = (part[..., None, None] for part in g.unbind(-1))
        # Factors beyond e^60 change nothing any more, and would overflow.
        by_saturation, by_value = (part.clamp(max=60.0).exp() for part in factors)
        hue, saturation, value = hue + d_hue, clip(saturation * by_saturation), clip(value * by_value)
        return _to_rgb(hue, saturation, value).to(x.dtype)

    def act_points(self, g: Tensor, p: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """Points stay where they are."""
        g = self.elements_like(g)
        p = self.check_points(g, p)
        return p.expand(*g.shape[:-2], *p.shape)

    def act_mask(self, g: Tensor, mask: Tensor) -> Tensor:
        """Labels stay as they are."""
        g = self.elements_like(g)
        self.check_batch(g, as_signal(mask, "nearest"), "mask")
        return mask.expand(*g.shape[:-2], *mask.shape)


def check_levels(x: Tensor) -> None:
    """Raises a `ValueError` unless values are in [0, 1], to rounding."""
    slack = 1e-6
    inside = (x >= -slack) & (x <= 1 + slack)
    check_true("x", inside, f"{describe(x)} with values outside", "RGB in [0, 1] (or uint8)")


def clip(x: Tensor) -> Tensor:
    """Clips to [0, 1] and passes the gradient through."""
    # Compiled code would fuse a product x with the difference, and leave its rounding; not after this.
    far = min(FAR, torch.finfo(x.dtype).max)
    x = x.clamp(-far, far)
    return x.clamp(0, 1).detach() + (x - x.detach())


def _to_hsv(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue in turns, saturation and value; grey pixels have hue 0, black ones saturation 0, and no gradient is NaN.

    Nothing depends on whether two numbers are equal to the last bit: compiled code may compute one of them twice, with
    another rounding.

    Shape:
        x: `(B, 3, H, W)`; results: `(B, H, W)`.
    """
    r, g, b = x.unbind(1)
    value, low = x.amax(1), x.amin(1)
    chroma = value - low
    saturation = chroma / torch.where(value < LEAST, 1, value)
    grey = saturation < FAINT
    span = torch.where(grey, 1, chroma)
    red, green = (r >= g) & (r >= b), g >= b
    sector = torch.where(red, (g - b) / span, torch.where(green, 2 + (b - r) / span, 4 + (r - g) / span))
    return torch.where(grey, 0, sector / 6), torch.where(grey, 0, saturation), value


def _to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    r"""$v (1 - s\, \max(0, \min(k, 4 - k, 1)))$ with $k = (n + 6 h) \bmod 6$ and n = 5, 3, 1 for R, G, B.

    Shape:
        hue, saturation, value: `(..., H, W)`; result: `(..., 3, H, W)`.
    """
    chroma = value * saturation
    channels = []
    for n in (5, 3, 1):
        turns = hue + n / 6
        k = 6 * (turns - turns.floor())
        channels.append(value - chroma * torch.minimum(k, 4 - k).clamp(0, 1))
    return torch.stack(torch.broadcast_tensors(*channels), -3)
