"""Whether masks keep their values and move as the content does."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..transforms.base import Transform
from ..transforms.spatial import Spatial
from ..transforms.warp import from_pixels, half_extent, to_pixels
from .requirements import require
from .resampling import remain, within
from .signals import Size, positions

__all__ = ["check_masks"]


def check_masks(transform: Transform, v: Tensor, x: Tensor) -> None:
    """A mask keeps type and values; its pixels move with the points, or stay if only colours change.

    Args:
        transform: an instance, in float64.
        v: coordinates `(B, d)`.
        x: a signal with content above and below 0.2.
    """
    mask = (x[:, :1] > 0.2).long() * 7
    g = transform.element(v)
    moved = transform.act_mask(g, mask)
    require(moved.dtype == mask.dtype, f"a mask of int64 came back as {moved.dtype}")
    require(torch.isin(moved, torch.tensor([0, 7])).all(), "a mask came back with values that it did not have")
    if transform.acts_on == "colours":
        require(torch.equal(moved, mask), "a change of colours moved a mask")
    else:
        _sources(transform, g, [4 * n for n in x.shape[2:]])


class Moved(NamedTuple):
    """Where points move, in pixels, to first order.

    Attributes:
        to: `(B, N, d)`.
        back: the inverse of the derivative, `(B, N, d, d)`.
        bend: how far half of the second difference over a pixel to each side reaches in the source, `(B, N)`.
    """

    to: Tensor
    back: Tensor
    bend: Tensor


def _moved(transform: Transform, g: Tensor, p: Tensor, size: Size) -> Moved:
    steps = 2 / max(size) * torch.eye(len(size), dtype=p.dtype)
    ends = [p + sign * step for sign in (1, -1) for step in steps]
    points = transform.act_points(g, torch.cat((p, *ends), 1), size)
    to, *ends = to_pixels(points, size).split(p.shape[1], 1)
    ahead, behind = (torch.stack(half, -1) for half in (ends[: len(size)], ends[len(size) :]))
    back = torch.linalg.pinv((ahead - behind) / 2)
    return Moved(to, back, (back @ ((ahead + behind) / 2 - to.unsqueeze(-1))).abs().amax((-1, -2)))


def _sources(transform: Transform, g: Tensor, size: Size) -> None:
    r"""Every pixel of a mask comes from where the content does, to what rounding and bent space explain.

    A pixel's label is its own place, so that the result tells where each pixel comes from. A point s moves to φ(s); the
    pixel q nearest to that was read at a pixel f, which is at most half a pixel from where q comes from, about
    $f + D\varphi_f^{-1}(q - \varphi(f))$. Not from s: where many pixels become one, it may be far from f. What is
    resampled more than once may be off by another pixel each time, on the scale of the larger of source and result.
    """
    places, last = positions(size), torch.tensor(size[::-1]) - 1
    labels = to_pixels(places, size).round().long()
    s = places[(places.abs() <= half_extent(size, places) / 2).all(-1)][::3].expand(len(g), -1, -1)
    to = to_pixels(transform.act_points(g, s, size), size)
    q = to.round().minimum(last).clamp_min(0).long()
    found = _labels_at(transform.act_mask(g, (labels + 1).movedim(-1, 0).expand(len(g), -1, *size)), q) - 1
    landed, back, bend = _moved(transform, g, from_pixels(found.to(s), size), size)
    off = (back @ (q - landed).unsqueeze(-1)).squeeze(-1)
    again = max(1, sum(isinstance(part, Spatial) for part in transform.modules())) - 1
    # A kink between the ends is worth three bends.
    fine = 0.55 + 3 * bend + again * back.abs().sum(-1).amax(-1).clamp_min(1)
    inside = within(from_pixels(to, size), size) & remain(transform, g, s, size)
    wrong = inside & (off.abs().amax(-1) > fine)
    says = f"{wrong.sum()} of {inside.sum()} pixels come from elsewhere"
    require(not wrong.any(), f"a mask does not move with the content: {says}")


def _labels_at(mask: Tensor, q: Tensor) -> Tensor:
    """The labels, `(B, N, C)`, of a mask `(B, C, H, W)` or `(B, C, L)` at pixels `(B, N, d)`."""
    index = q[..., 0] + (mask.shape[-1] * q[..., 1] if q.shape[-1] == 2 else 0)
    return mask.flatten(2).gather(2, index.unsqueeze(1).expand(-1, mask.shape[1], -1)).mT
