r"""The one place that resamples signals: `warp(x, grid)`.

Interpolation is nearest, bilinear, bicubic (torch's, a = -0.75) or a cubic B-spline with prefilter; outside the frame
is a constant, the border or a reflection. S samples of one image read that image: it is never copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from ..utils.compiling import exporting
from ..utils.shapes import check_finite, check_same, check_tensor, compute_dtype, describe, mapped_on_cpu, vector

__all__ = [
    "Fill",
    "Interpolation",
    "Padding",
    "as_signal",
    "check_resampling",
    "fill_values",
    "from_pixels",
    "half_extent",
    "to_pixels",
    "warp",
]

Interpolation: TypeAlias = Literal["nearest", "bilinear", "bicubic", "spline"]
Padding: TypeAlias = Literal["zeros", "border", "reflection"]
Fill: TypeAlias = "float | Sequence[float]"

# Here and not where they are looked at, which older compilers cannot read.
OPTIONS = {"interpolation": get_args(Interpolation), "padding": get_args(Padding)}
POLE = 3**0.5 - 2.0  # the pole of the cubic B-spline's inverse filter
OUTSIDE = 1e6  # a position outside of every frame
SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
MARGIN = 24  # pixels of outside that a spline still feels: |POLE|^24 = 2e-14
REACH = 32  # pixels at which a sample is below rounding: |POLE|^32 = 5e-19
BLOCK = 256  # coefficients that are made at once


def _check_size(size: Sequence[int], p: Tensor) -> None:
    """Raises a `ValueError` unless the size is that of an image for points in the plane, or that of a series."""
    ok = isinstance(size, Sequence) and len(size) in (1, 2) and not isinstance(size, str) and all(n > 0 for n in size)
    if not ok or (p.ndim > 1 and p.shape[-1] != len(size)):
        raise ValueError(f"size: received {size!r}; accepted is (H, W) in pixels, or (L,) for series, at least 1 each")


def half_extent(size: Sequence[int], like: Tensor) -> Tensor:
    """Half the width and half the height (or half the length), in units of half the longer side.

    Shape:
        size: `(H, W)` or `(L,)`; result: `(2,)` as x, y, or `(1,)`.
    """
    _check_size(size, like)
    return vector([n / max(size) for n in reversed(size)], compute_dtype(like), like.device)


def to_pixels(p: Tensor, size: Sequence[int]) -> Tensor:
    """Points to pixel indices (column, row), the centre of the first pixel being 0.

    Shape:
        p: `(..., 2)` or `(..., 1)`; size: `(H, W)` or `(L,)`; result: as p.
    """
    p = _points(size, p)
    return p * (max(size) / 2) + vector([(n - 1) / 2 for n in reversed(size)], p.dtype, p.device)


def from_pixels(p: Tensor, size: Sequence[int]) -> Tensor:
    """Pixel indices (column, row) to points; the inverse of `to_pixels`."""
    p = _points(size, p)
    return (p - vector([(n - 1) / 2 for n in reversed(size)], p.dtype, p.device)) * (2 / max(size))


def _points(size: Sequence[int], p: Tensor) -> Tensor:
    """Checks points, and returns them in floating point: the middle of an even number of pixels is half a pixel."""
    check_tensor("p", p, "points, a tensor (..., 2), or (..., 1) for series")
    _check_size(size, p)
    accepted = f"points (..., {len(size)}) for the size {tuple(size)}"
    check_tensor("p", p, accepted, len(size) == 1 or (p.ndim > 0 and p.shape[-1] == len(size)))
    return p if p.is_floating_point() else p.to(torch.get_default_dtype())


def check_resampling(interpolation: str, padding: str, fill: Fill) -> None:
    """Raises a `ValueError` for options that `warp` does not know."""
    for name, value in (("interpolation", interpolation), ("padding", padding)):
        if value not in OPTIONS[name]:
            raise ValueError(f"{name}: received {value!r}; accepted are {', '.join(map(repr, OPTIONS[name]))}")
    values = fill_values(fill)
    if padding != "zeros" and any(values):
        raise ValueError(f"fill: received {fill!r} with padding {padding!r}; accepted is padding 'zeros'")


def fill_values(fill: Fill) -> list[float]:
    """The constant outside the frame, checked: one number, or one per channel."""
    try:
        values = [float(f) for f in (fill if isinstance(fill, Sequence) else (fill,))]
    except (TypeError, ValueError):
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise ValueError(f"fill: received {fill!r}; accepted is a finite number, or one per channel")
    return values


def as_signal(x: Tensor, interpolation: str, like: Tensor | None = None) -> Tensor:
    """Checks a signal and makes it floating-point: uint8 becomes [0, 1]; nearest keeps every type as it is."""
    accepted = "an image batch (B, C, H, W) or a series batch (B, C, L) with no empty side"
    ok = isinstance(x, Tensor) and x.ndim in (3, 4) and 0 not in x.shape[1:] and not x.is_complex()
    x = check_tensor("x", x, accepted, ok)
    if x.is_floating_point() or interpolation == "nearest":
        return x
    if x.dtype != torch.uint8:
        raise ValueError(f"x: received {describe(x)}; accepted is floating-point or uint8, or interpolation 'nearest'")
    return x.to(compute_dtype(x if like is None else like)) / 255


def signal_like(x: Tensor, like: Tensor) -> Tensor:
    """A signal in the type of a model: uint8 becomes [0, 1], half precision is widened; other types are refused."""
    x = as_signal(x, "bilinear", like)
    x = x.to(like.dtype) if x.dtype in (torch.float16, torch.bfloat16) else x
    check_same("x", x, "the model", like)
    return x.to(like.dtype)


def signal_for(x: Tensor, model: object, like: Tensor) -> Tensor:
    """A signal in the type of a model's parameters, see `signal_like`; as it comes where there are none."""
    own = (p for p in getattr(model, "parameters", tuple)() if p.is_floating_point())
    first = next(own, None)
    return as_signal(x, "bilinear", like) if first is None else signal_like(x, first)


def warp(
    x: Tensor,
    grid: Tensor,
    *,
    interpolation: Interpolation = "bilinear",
    padding: Padding = "zeros",
    fill: Fill = 0.0,
) -> Tensor:
    r"""Resamples a signal: the result at pixel i is $x(\mathrm{grid}_i)$.

    Runs in float32 (or float64) also under autocast; half-precision signals come back in their own type, uint8 images
    as floats in [0, 1]; with `interpolation="nearest"` every type keeps its type and values.

    Args:
        x: signal.
        grid: where to read, in the coordinates of `erlangen.transforms.base`. A batch dimension of 1 is shared by all.
        interpolation: "nearest", "bilinear", "bicubic" or "spline".
        padding: outside the frame: "zeros" (the constant `fill`), "border" or "reflection" (at the pixel edges).
        fill: the constant, one number or one per channel.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; grid: `(*S, B, H', W', 2)` or `(*S, B, L', 1)`;
        result: `(*S, B, C, H', W')` or `(*S, B, C, L')`.
    """
    check_resampling(interpolation, padding, fill)
    x = as_signal(x, interpolation, grid)
    dims = x.ndim - 2
    accepted = f"positions (*S, B, {'H, W' if dims == 2 else 'L'}, {dims}) with B = {x.shape[0]} or 1"
    ok = isinstance(grid, Tensor) and grid.ndim >= dims + 2 and grid.shape[-1] == dims and grid.is_floating_point()
    grid = check_tensor("grid", grid, accepted, ok and grid.shape[-dims - 2] in (1, x.shape[0]))
    check_same("grid", grid, "x", x)
    check_finite("grid", grid)  # torch's backward on the CPU reads outside the image where a position is NaN
    if mapped_on_cpu(grid):  # in mapped code values cannot be looked at
        grid = grid.nan_to_num(nan=OUTSIDE, posinf=OUTSIDE, neginf=OUTSIDE)
    with torch.autocast(x.device.type, enabled=False):
        grid = grid.to(compute_dtype(grid))
        if dims == 1:  # a series is an image one pixel high
            grid = torch.cat((grid, torch.zeros_like(grid)), -1).unsqueeze(-3)
            return _warp_images(x.unsqueeze(-2), grid, interpolation, padding, fill).squeeze(-2)
        if x.shape[-2] != x.shape[-1]:
            grid = grid / half_extent(x.shape[2:], grid)
        return _warp_images(x, grid, interpolation, padding, fill)


def _warp_images(x: Tensor, grid: Tensor, interpolation: str, padding: str, fill: Fill) -> Tensor:
    """`warp` with a grid in [-1, 1] along both sides: samples become rows of one tall image per input.

    Shape:
        x: `(B, C, H, W)`; grid: `(*S, B, H', W', 2)`; result: `(*S, B, C, H', W')`.
    """
    *samples, b, height, width, _ = grid.shape
    batch, channels = x.shape[:2]
    if 0 in (*samples, batch, height, width):
        return x.new_zeros(*samples, batch, channels, height, width)
    rows = grid.movedim(-4, 0).reshape(b, -1, width, 2)
    offset = _per_channel(fill, x)
    if x.is_floating_point():
        # Interpolation is linear, so a constant outside is zero outside once the constant is taken away.
        source = x.to(grid.dtype) if offset is None else x.to(grid.dtype) - offset
        source = source if b == batch else source.reshape(1, batch * channels, *x.shape[2:])
        out = _sample(source, rows, interpolation, padding).reshape(batch, channels, *samples, height, width)
        out = (out if offset is None else out + offset.reshape(-1, *[1] * (len(samples) + 2))).to(x.dtype)
    else:
        out = _gather(x, rows, padding, offset).reshape(batch, channels, *samples, height, width)
    n = len(samples)
    return out.permute(*range(2, 2 + n), 0, 1, -2, -1)


def _per_channel(fill: Fill, x: Tensor) -> Tensor | None:
    """The fill as `(C, 1, 1)` or `(1, 1, 1)`; None where it is zero."""
    values = fill_values(fill)
    if len(values) not in (1, x.shape[1]):
        raise ValueError(
            f"fill: received {len(values)} values; accepted is one, or one for each of {x.shape[1]} channels"
        )
    if not any(values):
        return None
    dtype = compute_dtype(x) if x.is_floating_point() else _checked_integers(fill, values, x.dtype)
    return vector(values, dtype, x.device).reshape(-1, 1, 1)


def _checked_integers(fill: Fill, values: Sequence[float], dtype: torch.dtype) -> torch.dtype:
    """The type of integers that are kept as they are, where it can hold the values."""
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    if not all(value.is_integer() and low <= value <= high for value in values):
        got = f"{fill!r} for {dtype}, which nearest neighbours keep"
        raise ValueError(f"fill: received {got}; accepted are whole numbers from {low} to {high}")
    return dtype


def _sample(x: Tensor, grid: Tensor, interpolation: str, padding: str) -> Tensor:
    """Interpolates `x` `(N, C, H, W)` at `grid` `(N, H', W', 2)`."""
    if interpolation == "spline":
        return _sample_spline(x, grid, padding)
    return F.grid_sample(x, grid, mode=interpolation, padding_mode=padding, align_corners=False)


def look_up(x: Tensor, index: Tensor) -> Tensor:
    """The entries of `x` at these places along the last dimension, `gather`, of every type."""
    signed = SIGNED.get(x.dtype)  # torch does not gather the wider unsigned integers: the same bits are looked up
    return x.gather(-1, index) if signed is None else x.view(signed).gather(-1, index).view(x.dtype)


def _gather(x: Tensor, grid: Tensor, padding: str, fill: Tensor | None) -> Tensor:
    """Nearest neighbours of integers: positions are interpolated, values only looked up, so that none is rounded."""
    batch, channels, height, width = x.shape
    dtype = grid.dtype if height * width < 2**24 else torch.float64  # float32 counts no further
    pixels = torch.arange(1, height * width + 1, dtype=dtype, device=x.device).reshape(1, 1, height, width)
    rows = grid.to(dtype).reshape(1, -1, *grid.shape[2:])
    index = F.grid_sample(pixels, rows, mode="nearest", padding_mode=padding, align_corners=False).long()
    index = index.reshape(len(grid), 1, -1).expand(batch, channels, -1)
    outside = torch.zeros((1, 1, 1), dtype=x.dtype, device=x.device) if fill is None else fill
    table = torch.cat((outside.reshape(1, -1, 1).expand(batch, channels, 1), x.reshape(batch, channels, -1)), -1)
    return look_up(table, index).reshape(batch, channels, *grid.shape[1:3])


def _sample_spline(x: Tensor, grid: Tensor, padding: str) -> Tensor:
    r"""Cubic B-spline interpolation, by four bilinear look-ups of the spline coefficients.

    With $f$ the fraction of a position above pixel $i$, the four weights $w_0, \dots, w_3$ of the pixels $i-1, \dots,
    i+2$ are positive, so that $w_0 c_{i-1} + w_1 c_i = (w_0 + w_1)\, c(i - 1 + w_1 / (w_0 + w_1))$ with $c(\cdot)$
    linear.
    """
    height, width = x.shape[2:]
    size = vector([width, height], x.dtype, x.device)
    position = ((grid + 1) * size - 1) / 2
    margin = 0
    if padding == "zeros":
        margin = MARGIN
        position = position + margin
    elif padding == "border":
        position = position.clamp_min(0).minimum(size - 1)
    c = _coefficients(_coefficients(x.mT, margin).mT, margin)
    i = position.detach().floor()
    f = position - i
    w0, w1 = (1 - f) ** 3 / 6, (4 - 6 * f**2 + 3 * f**3) / 6
    w3 = f**3 / 6
    low = w0 + w1
    weights = (low, 1 - low)  # the four weights sum to 1
    places = ((i - 1 + w1 / low), (i + 1 + w3 / (1 - low)))
    places = [(2 * p + 1) / (size + 2 * margin) - 1 for p in places]
    mode = "zeros" if padding == "zeros" else "reflection"
    out = torch.zeros((), dtype=x.dtype, device=x.device)
    for wx, px in zip(weights, places, strict=True):
        for wy, py in zip(weights, places, strict=True):
            at = torch.stack((px[..., 0], py[..., 1]), -1)
            weight = (wx[..., 0] * wy[..., 1]).unsqueeze(1)
            out = out + weight * F.grid_sample(c, at, mode="bilinear", padding_mode=mode, align_corners=False)
    return out


def _coefficients(x: Tensor, margin: int) -> Tensor:
    """The cubic B-spline coefficients along the last side, `(..., n)` to `(..., n + 2 margin)`.

    In blocks, each from the samples that it feels: one matrix for all would grow as the square of the length.
    """
    n, blocks = x.shape[-1], []
    rows = torch.arange(-margin, n + margin, device=x.device)[:, None]
    columns, mirrored = torch.arange(n, device=x.device), 0 if margin else n
    if exporting() or n + 2 * margin <= BLOCK:  # in what is exported, a loop would fix the length
        return x @ _prefilter(rows, columns, mirrored, x).mT
    for start in range(0, n + 2 * margin, BLOCK):
        near = slice(max(start - margin - REACH, 0), start - margin + BLOCK + REACH)
        blocks.append(x[..., near] @ _prefilter(rows[start : start + BLOCK], columns[near], mirrored, x).mT)
    return torch.cat(blocks, -1)


def _prefilter(rows: Tensor, columns: Tensor, mirrored: int, like: Tensor) -> Tensor:
    r"""The matrix from samples to cubic B-spline coefficients, in closed form.

    The inverse of the filter (1, 4, 1)/6 is $h_k = \frac{-6 z}{1 - z^2} z^{|k|}$ with the pole $z = \sqrt 3 - 2$. The
    signal is zero outside; or one of n samples is reflected at the pixel edges, whose images sum to a geometric series
    of ratio $z^{2n}$.

    Args:
        rows: which coefficients, `(R, 1)`.
        columns: of which samples, `(K,)`.
        mirrored: n, where the signal is reflected; 0 where it is zero outside.
        like: gives the type.

    Shape:
        result: `(R, K)`.
    """

    def power(k: Tensor) -> Tensor:
        return (1 - 2 * (k % 2)) * (-POLE) ** k.to(like.dtype)

    gain = -6 * POLE / (1 - POLE * POLE)
    direct = (rows - columns).abs()
    if not mirrored:
        return gain * power(direct)
    turn, image = 2 * mirrored, rows + columns + 1
    images = power(direct) + power(turn - direct) + power(image) + power(turn - image)
    return gain * images / (1 - power(image.new_full((), turn)))
