r"""All affine couplings of a stack in one Triton kernel, and their gradients in another. Imported on CUDA alone.

A sample has few coordinates and a coupling few numbers, so that a stack of twelve in torch is hundreds of kernels that
each wait for the last. Here a tile of samples goes through the whole stack in registers. In layer l, with
$a = U_l z + p_l$ and the outputs $(t, r) = W_l \,\mathrm{relu}(a) + c_l$,

$$z' = t + z e^s, \qquad s = \lambda \tanh r \text{ (or } r), \qquad z'' = c \tanh(z' / c) \text{ (or } z').$$

Shape:
    z: `(n, d, m)`, n samples of m inputs; seen p: `(L, w, m)`; first U: `(L, w, d)`; last W: `(L, 2 d, w)`; bias c:
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
def _dot(a, b):
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _weights(first_ptr, last_ptr, bias_ptr, layer, d: tl.constexpr, W: tl.constexpr):
    """U `(W, D)`, the halves of W for shifts and for log-scales `(D, W)`, and of c `(D,)`."""
    i, w = tl.arange(0, D), tl.arange(0, W)
    first = tl.load(first_ptr + (layer * W + w[:, None]) * d + i[None, :], mask=(i < d)[None, :], other=0.0)
    row = (layer * 2 * d + i[:, None]) * W + w[None, :]
    last_t = tl.load(last_ptr + row, mask=(i < d)[:, None], other=0.0)
    last_r = tl.load(last_ptr + row + d * W, mask=(i < d)[:, None], other=0.0)
    bias_t = tl.load(bias_ptr + layer * 2 * d + i, mask=i < d, other=0.0)
    bias_r = tl.load(bias_ptr + layer * 2 * d + d + i, mask=i < d, other=0.0)
    return first, last_t, last_r, bias_t, bias_r


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
    place = (n * d + i[:, None]) * m + t[None, :]
    z = tl.load(z_ptr + place, mask=there, other=0.0)
    slope = tl.zeros((T,), tl.float32)
    for layer in range(L):
        tl.store(kept_ptr + layer * samples * d * m + place, z, mask=there)
        first, last_t, last_r, bias_t, bias_r = _weights(first_ptr, last_ptr, bias_ptr, layer, d, W)
        seen = tl.load(seen_ptr + (layer * W + w[:, None]) * m + t[None, :], mask=(t < m)[None, :], other=0.0)
        hidden = tl.maximum(_dot(first, z) + seen, 0.0)
        shift, s = _dot(last_t, hidden) + bias_t[:, None], _dot(last_r, hidden) + bias_r[:, None]
        if LIMITED:
            s = limit * _tanh(s)
        z = shift + z * tl.exp(s)
        slope += tl.sum(s, 0)
        if SQUASHED:
            slope += tl.sum(tl.where((i < d)[:, None], _log_tanh_slope(z / squash), 0.0), 0)
            z = squash * _tanh(z / squash)
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
    W: tl.constexpr,
    LIMITED: tl.constexpr,
    SQUASHED: tl.constexpr,
    T: tl.constexpr,
):
    """The gradients of a tile of samples, back through the stack: of z; of p, sample by sample; its part of the rest.

    Shape:
        pre: `(n, L, W, m)`; first_out: `(P, L, W, D)`; last_out: `(P, L, 2, D, W)`; bias_out: `(P, L, 2, D)`, for P
        programs.
    """
    i, w = tl.arange(0, D), tl.arange(0, W)
    t = tl.program_id(0) * T + tl.arange(0, T)
    n, samples = tl.program_id(1), tl.num_programs(1)
    part = n * tl.num_programs(0) + tl.program_id(0)
    there = (i < d)[:, None] & (t < m)[None, :]
    place = (n * d + i[:, None]) * m + t[None, :]
    g = tl.load(grad_ptr + place, mask=there, other=0.0)
    g_slope = tl.load(grad_slope_ptr + n * m + t, mask=t < m, other=0.0)[None, :]
    for step in range(L):
        layer = L - 1 - step
        z = tl.load(kept_ptr + layer * samples * d * m + place, mask=there, other=0.0)
        first, last_t, last_r, bias_t, bias_r = _weights(first_ptr, last_ptr, bias_ptr, layer, d, W)
        seen = tl.load(seen_ptr + (layer * W + w[:, None]) * m + t[None, :], mask=(t < m)[None, :], other=0.0)
        pre = _dot(first, z) + seen
        hidden = tl.maximum(pre, 0.0)
        s = _dot(last_r, hidden) + bias_r[:, None]
        bent = s
        if LIMITED:
            bent = _tanh(s)
            s = limit * bent
        stretched = z * tl.exp(s)
        if SQUASHED:
            u = _tanh((_dot(last_t, hidden) + bias_t[:, None] + stretched) / squash)
            g = tl.where(there, g * (1.0 - u * u) - 2.0 * u / squash * g_slope, 0.0)
        g_r = tl.where(there, g * stretched + g_slope, 0.0)
        if LIMITED:
            g_r = g_r * limit * (1.0 - bent * bent)
        g_pre = tl.where(pre > 0.0, _dot(tl.trans(last_t), g) + _dot(tl.trans(last_r), g_r), 0.0)
        tl.store(pre_ptr + ((n * L + layer) * W + w[:, None]) * m + t[None, :], g_pre, mask=(t < m)[None, :])
        own = part * L + layer
        tl.store(first_out_ptr + (own * W + w[:, None]) * D + i[None, :], _dot(g_pre, tl.trans(z)))
        rows = (own * 2 * D + i[:, None]) * W + w[None, :]
        back = tl.trans(tl.where((t < m)[None, :], hidden, 0.0))
        tl.store(last_out_ptr + rows, _dot(g, back))
        tl.store(last_out_ptr + rows + D * W, _dot(g_r, back))
        tl.store(bias_out_ptr + own * 2 * D + i, tl.sum(g, 1))
        tl.store(bias_out_ptr + own * 2 * D + D + i, tl.sum(g_r, 1))
        g = g * tl.exp(s) + _dot(tl.trans(first), g_pre)
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
    firsts = grad.new_empty(parts, layers, width, side)
    lasts, biases = grad.new_empty(parts, layers, 2, side, width), grad.new_empty(parts, layers, 2, side)
    given = grad, grad_slope, kept, seen, first, last, bias
    how = _how(first, d, limit, squash)
    _back[(tiles, n)](*given, z, pre, firsts, lasts, biases, m, limit, squash, **how)
    return (
        z,
        pre.sum(0),
        firsts.sum(0)[..., :d],
        lasts.sum(0)[:, :, :d].flatten(1, 2),
        biases.sum(0)[..., :d].flatten(1),
    )


def _how(first: Tensor, d: int, limit: float, squash: float) -> dict[str, int | bool]:
    layers, width, _ = first.shape
    return {"L": layers, "d": d, "W": width, "LIMITED": limit > 0, "SQUASHED": squash > 0, "T": TILE}
