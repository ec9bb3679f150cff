r"""All affine couplings of a stack in one Triton kernel, and their gradients in another. Imported on CUDA alone.

A sample has few coordinates and a coupling few numbers, so that a stack of twelve in torch is hundreds of kernels that
each wait for the last. Here a tile of samples goes through the whole stack in registers. In layer l, with
$a = U_l z + p_l$ and the outputs $(t, r) = W_l \,\mathrm{relu}(a) + c_l$,

$$z' = t + z e^s, \qquad s = \lambda \tanh r \text{ (or } r), \qquad z'' = c \tanh(z' / c) \text{ (or } z').$$

The last k coordinates are periodic: read as their sines, then their cosines, and moved by a Möbius map,
$z' = t + 2 \arctan(e^s \tan \tfrac z2)$, with the slope $1 / (e^{-s} \cos^2 \tfrac z2 + e^s \sin^2 \tfrac z2)$.

Shape:
    z: `(n, d, m)`, n samples of m inputs; seen p: `(L, w, m)`; first U: `(L, w, d + k)`; last W: `(L, 2 d, w)`; bias c:
    `(L, 2 d)`; the result as z, and the logarithm of the volume by which the stack stretches, `(n, m)`.
"""

# pyright: reportMissingImports=false, reportIndexIssue=false
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["couple", "couple_back"]

TILE = 32  # samples
D: tl.constexpr = tl.constexpr(16)  # coordinates, padded to what a product of matrices takes
STEEPEST: tl.constexpr = tl.constexpr(8.0)  # the greatest |s| on a circle, where there is no other limit


@triton.jit
def _tanh(x):
    a = tl.exp(-2.0 * tl.abs(x))
    return tl.where(x < 0.0, a - 1.0, 1.0 - a) / (1.0 + a)


@triton.jit
def _log_tanh_slope(x):
    """log(1 - tanh² x)."""
    x = tl.abs(x)
    return 1.3862943611198906 - 2.0 * x - 2.0 * tl.log(1.0 + tl.exp(-2.0 * x))


@triton.jit
def _atan(x):
    """The arc tangent, to the last digit or two of single precision."""
    y = tl.abs(x)
    far, middle = y > 2.414213562373095, y > 0.4142135623730950
    base = tl.where(far, 1.5707963267948966, tl.where(middle, 0.7853981633974483, 0.0))
    y = tl.where(far, -1.0 / tl.maximum(y, 1.0), tl.where(middle, (y - 1.0) / (y + 1.0), y))
    q = y * y
    series = ((8.05374449538e-2 * q - 1.38776856032e-1) * q + 1.99777106478e-1) * q - 3.33329491539e-1
    y = base + (series * q * y + y)
    return tl.where(x < 0.0, -y, y)


@triton.jit
def _dot(a, b):
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _weights(first_ptr, last_ptr, bias_ptr, layer, d: tl.constexpr, k: tl.constexpr, W: tl.constexpr):
    """U `(W, D)`, its columns for cosines, the halves of W for shifts and for log-scales `(D, W)`, and of c `(D,)`."""
    i, w = tl.arange(0, D), tl.arange(0, W)
    column = first_ptr + (layer * W + w[:, None]) * (d + k) + i[None, :]
    first = tl.load(column, mask=(i < d)[None, :], other=0.0)
    cosine = tl.load(column + k, mask=((i >= d - k) & (i < d))[None, :], other=0.0)
    row = (layer * 2 * d + i[:, None]) * W + w[None, :]
    last_t = tl.load(last_ptr + row, mask=(i < d)[:, None], other=0.0)
    last_r = tl.load(last_ptr + row + d * W, mask=(i < d)[:, None], other=0.0)
    bias_t = tl.load(bias_ptr + layer * 2 * d + i, mask=i < d, other=0.0)
    bias_r = tl.load(bias_ptr + layer * 2 * d + d + i, mask=i < d, other=0.0)
    return first, cosine, last_t, last_r, bias_t, bias_r


@triton.jit
def _forth(
    z_ptr,
    seen_ptr,
    first_ptr,
    last_ptr,
    bias_ptr,
    out_ptr,
    slope_ptr,
    kept_ptr,
    m,
    limit,
    squash,
    L: tl.constexpr,
    d: tl.constexpr,
    k: tl.constexpr,
    W: tl.constexpr,
    LIMITED: tl.constexpr,
    SQUASHED: tl.constexpr,
    T: tl.constexpr,
):
    """A tile of samples through the stack; `kept` gets what goes into each layer, `(L, n, d, m)`."""
    i, w = tl.arange(0, D), tl.arange(0, W)
    t = tl.program_id(0) * T + tl.arange(0, T)
    n, samples = tl.program_id(1), tl.num_programs(1)
    there = (i < d)[:, None] & (t < m)[None, :]
    line, circle = (i < d - k)[:, None], ((i >= d - k) & (i < d))[:, None]
    place = (n * d + i[:, None]) * m + t[None, :]
    z = tl.load(z_ptr + place, mask=there, other=0.0)
    slope = tl.zeros((T,), tl.float32)
    for layer in range(L):
        tl.store(kept_ptr + layer * samples * d * m + place, z, mask=there)
        first, cosine, last_t, last_r, bias_t, bias_r = _weights(first_ptr, last_ptr, bias_ptr, layer, d, k, W)
        seen = tl.load(seen_ptr + (layer * W + w[:, None]) * m + t[None, :], mask=(t < m)[None, :], other=0.0)
        if k > 0:
            pre = _dot(first, tl.where(circle, tl.sin(z), z)) + _dot(cosine, tl.cos(z)) + seen
        else:
            pre = _dot(first, z) + seen
        hidden = tl.maximum(pre, 0.0)
        shift, s = _dot(last_t, hidden) + bias_t[:, None], _dot(last_r, hidden) + bias_r[:, None]
        if LIMITED:
            s = limit * _tanh(s)
        elif k > 0:
            s = tl.where(circle, STEEPEST * _tanh(s / STEEPEST), s)
        moved, log_slope = z * tl.exp(s), s
        if k > 0:
            sine, cosines = tl.sin(0.5 * z), tl.cos(0.5 * z)
            low, high = tl.exp(-s) * cosines * cosines, tl.exp(s) * sine * sine
            # By how much the half angle changes is never beyond a quarter turn, where the half angle itself may be.
            change = _atan((tl.exp(s) - 1.0) * sine * cosines / (cosines * cosines + high))
            moved = tl.where(circle, z + 2.0 * change, moved)
            log_slope = tl.where(circle, -tl.log(low + high), s)
        z = shift + moved
        slope += tl.sum(log_slope, 0)
        if SQUASHED:
            slope += tl.sum(tl.where(line, _log_tanh_slope(z / squash), 0.0), 0)
            z = tl.where(line, squash * _tanh(z / squash), z)
    tl.store(out_ptr + place, z, mask=there)
    tl.store(slope_ptr + n * m + t, slope, mask=t < m)


@triton.jit
def _back(
    grad_ptr,
    grad_slope_ptr,
    kept_ptr,
    seen_ptr,
    first_ptr,
    last_ptr,
    bias_ptr,
    z_ptr,
    pre_ptr,
    first_out_ptr,
    last_out_ptr,
    bias_out_ptr,
    m,
    limit,
    squash,
    L: tl.constexpr,
    d: tl.constexpr,
    k: tl.constexpr,
    W: tl.constexpr,
    LIMITED: tl.constexpr,
    SQUASHED: tl.constexpr,
    T: tl.constexpr,
):
    """The gradients of a tile of samples, back through the stack: of z; of p, sample by sample; its part of the rest.

    Shape:
        pre: `(n, L, W, m)`; first_out: `(P, L, 2, W, D)`; last_out: `(P, L, 2, D, W)`; bias_out: `(P, L, 2, D)`, for P
        programs.
    """
    i, w = tl.arange(0, D), tl.arange(0, W)
    t = tl.program_id(0) * T + tl.arange(0, T)
    n, samples = tl.program_id(1), tl.num_programs(1)
    part = n * tl.num_programs(0) + tl.program_id(0)
    there = (i < d)[:, None] & (t < m)[None, :]
    line, circle = (i < d - k)[:, None], ((i >= d - k) & (i < d))[:, None]
    place = (n * d + i[:, None]) * m + t[None, :]
    g = tl.load(grad_ptr + place, mask=there, other=0.0)
    g_slope = tl.load(grad_slope_ptr + n * m + t, mask=t < m, other=0.0)[None, :]
    for step in range(L):
        layer = L - 1 - step
        z = tl.load(kept_ptr + layer * samples * d * m + place, mask=there, other=0.0)
        first, cosine, last_t, last_r, bias_t, bias_r = _weights(first_ptr, last_ptr, bias_ptr, layer, d, k, W)
        seen = tl.load(seen_ptr + (layer * W + w[:, None]) * m + t[None, :], mask=(t < m)[None, :], other=0.0)
        read, level = z, z
        pre = seen
        if k > 0:
            read, level = tl.where(circle, tl.sin(z), z), tl.where(circle, tl.cos(z), 0.0)
            pre += _dot(cosine, level)
        pre += _dot(first, read)
        hidden = tl.maximum(pre, 0.0)
        s = _dot(last_r, hidden) + bias_r[:, None]
        bend = tl.full((D, T), 1.0, tl.float32)  # ds/dr
        if LIMITED:
            bent = _tanh(s)
            s, bend = limit * bent, limit * (1.0 - bent * bent)
        elif k > 0:
            bent = _tanh(s / STEEPEST)
            s, bend = tl.where(circle, STEEPEST * bent, s), tl.where(circle, 1.0 - bent * bent, 1.0)
        slope, by_s, of_slope, slope_by_s = tl.exp(s), z * tl.exp(s), tl.zeros((D, T), tl.float32), bend * 0.0 + 1.0
        moved = by_s
        if k > 0:
            sine, cosines = tl.sin(0.5 * z), tl.cos(0.5 * z)
            low, high = tl.exp(-s) * cosines * cosines, tl.exp(s) * sine * sine
            steep, both = 1.0 / (low + high), sine * cosines
            change = _atan((tl.exp(s) - 1.0) * both / (cosines * cosines + high))
            moved = tl.where(circle, z + 2.0 * change, moved)
            slope, by_s = tl.where(circle, steep, slope), tl.where(circle, 2.0 * both * steep, by_s)
            of_slope = tl.where(circle, steep * both * (tl.exp(-s) - tl.exp(s)), 0.0)
            slope_by_s = tl.where(circle, steep * (low - high), 1.0)
        if SQUASHED:
            u = _tanh((_dot(last_t, hidden) + bias_t[:, None] + moved) / squash)
            squeezed = g * (1.0 - u * u) - 2.0 * u / squash * g_slope
            g = tl.where(there, tl.where(line, squeezed, g), 0.0)
        g_r = tl.where(there, (g * by_s + g_slope * slope_by_s) * bend, 0.0)
        g_pre = tl.where(pre > 0.0, _dot(tl.trans(last_t), g) + _dot(tl.trans(last_r), g_r), 0.0)
        tl.store(pre_ptr + ((n * L + layer) * W + w[:, None]) * m + t[None, :], g_pre, mask=(t < m)[None, :])
        own = part * L + layer
        cells = (own * 2 * W + w[:, None]) * D + i[None, :]
        tl.store(first_out_ptr + cells, _dot(g_pre, tl.trans(read)))
        rows = (own * 2 * D + i[:, None]) * W + w[None, :]
        back = tl.trans(tl.where((t < m)[None, :], hidden, 0.0))
        tl.store(last_out_ptr + rows, _dot(g, back))
        tl.store(last_out_ptr + rows + D * W, _dot(g_r, back))
        tl.store(bias_out_ptr + own * 2 * D + i, tl.sum(g, 1))
        tl.store(bias_out_ptr + own * 2 * D + D + i, tl.sum(g_r, 1))
        g = tl.where(there, g * slope + g_slope * of_slope, 0.0)
        g_read = _dot(tl.trans(first), g_pre)
        if k > 0:
            tl.store(first_out_ptr + cells + W * D, _dot(g_pre, tl.trans(level)))
            g_level = _dot(tl.trans(cosine), g_pre)
            g_read = tl.where(circle, g_read * tl.cos(z) - g_level * tl.sin(z), g_read)
        g += g_read
    tl.store(z_ptr + place, g, mask=there)


def couple(
    z: Tensor, seen: Tensor, first: Tensor, last: Tensor, bias: Tensor, limit: float, squash: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The couplings of samples, the logarithm of the volume, and what went into each layer, `(L, n, d, m)`.

    A limit or a squash of 0 stands for none.
    """
    n, d, m = z.shape
    z, seen, first, last, bias = (x.contiguous() for x in (z, seen, first, last, bias))
    out, slope, kept = torch.empty_like(z), z.new_empty(n, m), z.new_empty(len(first), n, d, m)
    how = _how(first, d, limit, squash)
    _forth[(triton.cdiv(m, TILE), n)](z, seen, first, last, bias, out, slope, kept, m, limit, squash, **how)
    return out, slope, kept


def couple_back(
    grad: Tensor,
    grad_slope: Tensor,
    kept: Tensor,
    seen: Tensor,
    first: Tensor,
    last: Tensor,
    bias: Tensor,
    limit: float,
    squash: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of z, seen, first, last and bias, given those of what `couple` returned."""
    layers, n, d, m = kept.shape
    grad, grad_slope, seen, first, last, bias = (x.contiguous() for x in (grad, grad_slope, seen, first, last, bias))
    width, tiles = first.shape[1], triton.cdiv(m, TILE)
    parts, side = n * tiles, D.value
    z, pre = torch.empty_like(grad), grad.new_empty(n, layers, width, m)
    firsts = grad.new_empty(parts, layers, 2, width, side)
    lasts, biases = grad.new_empty(parts, layers, 2, side, width), grad.new_empty(parts, layers, 2, side)
    given = grad, grad_slope, kept, seen, first, last, bias
    how, k = _how(first, d, limit, squash), first.shape[2] - d
    _back[(tiles, n)](*given, z, pre, firsts, lasts, biases, m, limit, squash, **how)
    reads = [firsts[:, :, 0].sum(0)[..., :d], *([firsts[:, :, 1].sum(0)[..., d - k : d]] if k else [])]
    last, bias = lasts.sum(0)[:, :, :d].flatten(1, 2), biases.sum(0)[..., :d].flatten(1)
    return z, pre.sum(0), torch.cat(reads, -1), last, bias


def _how(first: Tensor, d: int, limit: float, squash: float) -> dict[str, int | bool]:
    layers, width, reads = first.shape
    flags = {"LIMITED": limit > 0, "SQUASHED": squash > 0}
    return {"L": layers, "d": d, "k": reads - d, "W": width, "T": TILE, **flags}
