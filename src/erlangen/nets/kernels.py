r"""Convolutions of few channels in bfloat16, channels last, and what lies between them, as Triton kernels.

They are imported on CUDA alone.

For 16 channels the general kernels of cuDNN take some five times as long as reading the input and writing the result.
Here a tile of pixels reads its shifted neighbourhoods from the cache and leaves with one product of matrices each,
accumulated in float32. A convolution with padding P and stride s of images x `(N, C, H, W)` with weights w
`(K, C, F, F)` is

$$y_{n,k}(p) = \sum_{t, c} w_{k,c}(t)\, x_{n,c}(s p + t - P), \qquad t \in \{0, \dots, F - 1\}^2.$$
"""

# pyright: reportMissingImports=false, reportIndexIssue=false
from __future__ import annotations

from itertools import product

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["correlate", "pull_input", "pull_weight", "rectify"]

LEAST = 16  # the least side of a product of matrices on the tensor cores
PIXELS = 256  # of a tile
HELD = 8192  # numbers of a tile of pixels with their neighbours, so that its addresses fit in registers
ROWS = 64  # of pixels, of a tile of whole rows
COLUMNS = 32  # of a tile of a band matrix
BAND = 128  # columns of a band matrix, of which more would be mostly zeros
CHUNK = 32  # pixels of a tile whose products are summed over pixels
NUMBERS = 2048  # of a tile of a map that is changed number by number
PARTS = 1056  # sums over pixels are taken in so many parts, 8 for each of the 132 multiprocessors of an H100


@triton.jit
def _correlate(
    x_ptr,
    w_ptr,
    y_ptr,
    pixels,
    C: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    P: tl.constexpr,
    S: tl.constexpr,
    TILE: tl.constexpr,
):
    """The result at a tile of pixels, for C a power of two that the tensor cores take."""
    HO: tl.constexpr = (H + 2 * P - F) // S + 1
    WO: tl.constexpr = (W + 2 * P - F) // S + 1
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = m < pixels
    n, row, column = m // (HO * WO), (m // WO) % HO * S, m % WO * S
    c, k = tl.arange(0, C), tl.arange(0, KP)
    total = tl.zeros((TILE, KP), tl.float32)
    for t in range(F * F):
        i, j = row + (t // F - P), column + (t % F - P)
        there = inside & (i >= 0) & (i < H) & (j >= 0) & (j < W)
        place = ((n * H + i) * W + j) * C
        x = tl.load(x_ptr + place[:, None] + c[None, :], mask=there[:, None], other=0.0)
        w = tl.load(w_ptr + k[None, :] * (F * F * C) + t * C + c[:, None], mask=k[None, :] < K, other=0.0)
        total = tl.dot(x, w, total)
    tl.store(
        y_ptr + m[:, None] * K + k[None, :], total.to(y_ptr.dtype.element_ty), mask=inside[:, None] & (k[None, :] < K)
    )


@triton.jit
def _correlate_few(
    x_ptr,
    w_ptr,
    y_ptr,
    pixels,
    C: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
    JP: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    P: tl.constexpr,
    S: tl.constexpr,
    TILE: tl.constexpr,
):
    """The result at a tile of pixels, for C so small that all neighbours are one row of a matrix, padded to JP."""
    HO: tl.constexpr = (H + 2 * P - F) // S + 1
    WO: tl.constexpr = (W + 2 * P - F) // S + 1
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n, row, column = m // (HO * WO), (m // WO) % HO * S, m % WO * S
    q, k = tl.arange(0, JP), tl.arange(0, KP)
    t = q // C
    i, j = row[:, None] + (t // F - P)[None, :], column[:, None] + (t % F - P)[None, :]
    there = (m < pixels)[:, None] & (q < F * F * C)[None, :] & (i >= 0) & (i < H) & (j >= 0) & (j < W)
    x = tl.load(x_ptr + ((n[:, None] * H + i) * W + j) * C + (q % C)[None, :], mask=there, other=0.0)
    known = (q < F * F * C)[:, None] & (k < K)[None, :]
    w = tl.load(w_ptr + k[None, :] * (F * F * C) + q[:, None], mask=known, other=0.0)
    y = tl.dot(x, w).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + m[:, None] * K + k[None, :], y, mask=(m < pixels)[:, None] & (k < K)[None, :])


@triton.jit
def _pull_input(
    g_ptr,
    w_ptr,
    x_ptr,
    pixels,
    C: tl.constexpr,
    CP: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    P: tl.constexpr,
    S: tl.constexpr,
    ROW: tl.constexpr,
    COLUMN: tl.constexpr,
    TILE: tl.constexpr,
):
    """The gradient of the input at a tile of those of its pixels that lie at (ROW, COLUMN) modulo the stride.

    All of them reached outputs by the same taps t, those for which S divides p + P - t.
    """
    HO: tl.constexpr = (H + 2 * P - F) // S + 1
    WO: tl.constexpr = (W + 2 * P - F) // S + 1
    HI: tl.constexpr = (H + S - 1) // S
    WI: tl.constexpr = (W + S - 1) // S
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n, row, column = m // (HI * WI), (m // WI) % HI, m % WI
    c, k = tl.arange(0, CP), tl.arange(0, KP)
    total = tl.zeros((TILE, CP), tl.float32)
    for a in tl.static_range((ROW + P) % S, F, S):
        for b in tl.static_range((COLUMN + P) % S, F, S):
            i, j = row + (ROW + P - a) // S, column + (COLUMN + P - b) // S
            there = (m < pixels) & (i >= 0) & (i < HO) & (j >= 0) & (j < WO)
            place = ((n * HO + i) * WO + j) * K
            g = tl.load(g_ptr + place[:, None] + k[None, :], mask=there[:, None] & (k < K)[None, :], other=0.0)
            known = (k < K)[:, None] & (c < C)[None, :]
            w = tl.load(w_ptr + k[:, None] * (F * F * C) + (F * a + b) * C + c[None, :], mask=known, other=0.0)
            total = tl.dot(g, w, total)
    row, column = row * S + ROW, column * S + COLUMN
    inside = (m < pixels) & (row < H) & (column < W)
    place = ((n * H + row) * W + column) * C
    value = total.to(x_ptr.dtype.element_ty)
    tl.store(x_ptr + place[:, None] + c[None, :], value, mask=inside[:, None] & (c < C)[None, :])


@triton.jit
def _pull_input_few(
    g_ptr,
    w_ptr,
    x_ptr,
    rows,
    C: tl.constexpr,
    K: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    P: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """The gradient of the input at a tile of rows of pixels, for stride 1 and K so small that g is read by rows.

    What row a of the taps adds is a row of g, numbers (j', k) that lie side by side, times the band matrix
    w_{k,c}(a, j + P - j') with columns (j, c).
    """
    HO: tl.constexpr = H + 2 * P - F + 1
    WO: tl.constexpr = W + 2 * P - F + 1
    r = tl.program_id(0) * TILE + tl.arange(0, TILE)
    o = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    n, row, j, c = r // H, r % H, o // C, o % C
    total = tl.zeros((TILE, COLUMNS), tl.float32)
    for start in range(0, WO * K, STEP):
        q = start + tl.arange(0, STEP)
        b = j[None, :] + P - (q // K)[:, None]
        known = (q < WO * K)[:, None] & (o < W * C)[None, :] & (b >= 0) & (b < F)
        place = (q % K * (F * F * C))[:, None] + b * C + c[None, :]
        for a in tl.static_range(F):
            i = row + (P - a)
            there = (r < rows) & (i >= 0) & (i < HO)
            g_place = ((n * HO + i) * (WO * K))[:, None] + q[None, :]
            g = tl.load(g_ptr + g_place, mask=there[:, None] & (q < WO * K)[None, :], other=0.0)
            total = tl.dot(g, tl.load(w_ptr + place + a * F * C, mask=known, other=0.0), total)
    value = total.to(x_ptr.dtype.element_ty)
    tl.store(x_ptr + r[:, None] * (W * C) + o[None, :], value, mask=(r < rows)[:, None] & (o < W * C)[None, :])


@triton.jit
def _pull_weight(
    x_ptr,
    g_ptr,
    w_ptr,
    pixels,
    parts,
    C: tl.constexpr,
    K: tl.constexpr,
    KP: tl.constexpr,
    JP: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    F: tl.constexpr,
    P: tl.constexpr,
    S: tl.constexpr,
    TILE: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    """One part of the sum over pixels that is the gradient of the weights, `(K, F F C)` padded to `(KP, JP)`."""
    HO: tl.constexpr = (H + 2 * P - F) // S + 1
    WO: tl.constexpr = (W + 2 * P - F) // S + 1
    k, q = tl.arange(0, KP), tl.arange(0, JP)
    t = q // C
    part = tl.program_id(0)
    total = tl.zeros((KP, JP), tl.float32)
    for r in range(ROUNDS):
        m = (r * parts + part) * TILE + tl.arange(0, TILE)
        n, row, column = m // (HO * WO), (m // WO) % HO * S, m % WO * S
        i, j = row[:, None] + (t // F - P)[None, :], column[:, None] + (t % F - P)[None, :]
        there = (m < pixels)[:, None] & (q < F * F * C)[None, :] & (i >= 0) & (i < H) & (j >= 0) & (j < W)
        x = tl.load(x_ptr + ((n[:, None] * H + i) * W + j) * C + (q % C)[None, :], mask=there, other=0.0)
        g = tl.load(g_ptr + m[None, :] * K + k[:, None], mask=(m < pixels)[None, :] & (k < K)[:, None], other=0.0)
        total = tl.dot(g, x, total)
    tl.store(w_ptr + (part * KP + k)[:, None] * JP + q[None, :], total)


@triton.jit
def _rectify(
    x_ptr,
    before_ptr,
    scale_ptr,
    rest_ptr,
    after_ptr,
    y_ptr,
    numbers,
    SCALED: tl.constexpr,
    RESIDUAL: tl.constexpr,
    RAISED: tl.constexpr,
    TILE: tl.constexpr,
):
    """The result for a tile of numbers; those after them are of tensors with one number."""
    i = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = i < numbers
    y = tl.load(x_ptr + i, mask=inside, other=0.0).to(tl.float32)
    if SCALED:
        y *= tl.load(scale_ptr).to(tl.float32)
    y += tl.load(before_ptr).to(tl.float32)
    if RESIDUAL:
        y += tl.load(rest_ptr + i, mask=inside, other=0.0).to(tl.float32)
    y = tl.where(y < 0, 0.0, y)  # unlike a maximum, this leaves a NaN what it is
    if RAISED:
        y += tl.load(after_ptr).to(tl.float32)
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=inside)


def rectify(x: Tensor, before: Tensor, scale: Tensor | None, rest: Tensor | None, after: Tensor | None) -> Tensor:
    """max(scale · x + before + rest, 0) + after, `(N, C, H, W)`, as `before`, `scale` and `after` are one number."""
    x, rest = _last(x), None if rest is None else _last(rest)
    y = _empty(x, tuple(x.shape))
    kinds = {"SCALED": scale is not None, "RESIDUAL": rest is not None, "RAISED": after is not None}
    given = (x if one is None else one for one in (before, scale, rest, after))  # x is not read in place of None
    _rectify[(triton.cdiv(x.numel(), NUMBERS),)](x, *given, y, x.numel(), **kinds, TILE=NUMBERS)
    return y


def correlate(x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution y, `(N, K, H', W')`."""
    x, w = _last(x), _last(w)
    (n, c, h, width), (k, _, _, side) = x.shape, w.shape
    y = _empty(x, (n, k, *((size + 2 * padding - side) // stride + 1 for size in (h, width))))
    shape = {"C": c, "K": k, "KP": _padded(k), "H": h, "W": width, "F": side, "P": padding, "S": stride}
    pixels, tile = y.numel() // k, PIXELS
    if c in (16, 32, 64):
        kernel = _correlate
    else:
        kernel, shape["JP"] = _correlate_few, _padded(side**2 * c)
        tile = min(PIXELS, HELD // shape["JP"])
    kernel[(triton.cdiv(pixels, tile),)](x, w, y, pixels, **shape, TILE=tile)
    return y


def pull_input(g: Tensor, w: Tensor, size: tuple[int, int], stride: int, padding: int) -> Tensor:
    """The gradient of the input, `(N, C, H, W)`, from that of the output."""
    g, w = _last(g), _last(w)
    k, c, side, _ = w.shape
    x = _empty(g, (len(g), c, *size))
    shape = {"C": c, "K": k, "H": size[0], "W": size[1], "F": side, "P": padding}
    if stride == 1 and k < LEAST and size[1] * c <= BAND:
        rows = len(x) * size[0]
        grid = (triton.cdiv(rows, ROWS), triton.cdiv(size[1] * c, COLUMNS))
        _pull_input_few[grid](g, w, x, rows, **shape, TILE=ROWS, COLUMNS=COLUMNS, STEP=LEAST)
        return x
    pixels = len(x) * triton.cdiv(size[0], stride) * triton.cdiv(size[1], stride)
    tile = PIXELS if k % LEAST == 0 else PIXELS // 2
    shape |= {"CP": _padded(c), "KP": _padded(k), "S": stride, "TILE": tile}
    for i, j in product(range(stride), repeat=2):
        _pull_input[(triton.cdiv(pixels, tile),)](g, w, x, pixels, ROW=i, COLUMN=j, **shape)
    return x


def pull_weight(x: Tensor, g: Tensor, side: int, stride: int, padding: int) -> Tensor:
    """The gradient of the weights, `(K, C, F, F)`, from that of the output: parts of the sum, always the same ones."""
    x, g = _last(x), _last(g)
    (_, c, h, width), k = x.shape, g.shape[1]
    pixels, taps = g.numel() // k, side**2 * c
    parts = min(PARTS, triton.cdiv(pixels, CHUNK))
    shape = {"C": c, "K": k, "KP": _padded(k), "JP": _padded(taps), "H": h, "W": width, "F": side, "P": padding}
    shape |= {"S": stride, "TILE": CHUNK, "ROUNDS": triton.cdiv(pixels, parts * CHUNK)}
    sums = torch.empty((parts, shape["KP"], shape["JP"]), dtype=torch.float32, device=x.device)
    # Where channels do not come 16 at a time, addresses fill the registers of two warps.
    warps = 4 if c < LEAST and shape["JP"] > 128 else 2
    _pull_weight[(parts,)](x, g, sums, pixels, parts, **shape, num_warps=warps, num_stages=4)
    w = sums.sum(0)[:k, :taps].unflatten(1, (side, side, c)).permute(0, 3, 1, 2)
    return w.to(x.dtype, memory_format=torch.channels_last, copy=True)


def _padded(n: int) -> int:
    return max(LEAST, triton.next_power_of_2(n))


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)
