r"""3×3 convolutions of few channels in bfloat16, channels last, as Triton kernels. Imported on CUDA alone.

For 16 channels the general kernels of cuDNN take some five times as long as reading the input and writing the result.
Here a tile of pixels reads its nine shifted neighbourhoods from the cache and leaves with one product of matrices each,
accumulated in float32. A convolution with padding 1 and stride s of images x `(N, C, H, W)` with weights w
`(K, C, 3, 3)` is

$$y_{n,k}(p) = \sum_{t, c} w_{k,c}(t)\, x_{n,c}(s p + t - 1), \qquad t \in \{0, 1, 2\}^2.$$
"""

# pyright: reportMissingImports=false, reportIndexIssue=false
from __future__ import annotations

from itertools import product

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["correlate", "pull_input", "pull_weight"]

LEAST = 16  # the least side of a product of matrices on the tensor cores
PIXELS = 256  # of a tile
CHUNK = 32  # pixels of a tile whose products are summed over pixels
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
    S: tl.constexpr,
    TILE: tl.constexpr,
):
    """The result at a tile of pixels, for C a power of two that the tensor cores take."""
    HO: tl.constexpr = (H + S - 1) // S
    WO: tl.constexpr = (W + S - 1) // S
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = m < pixels
    n, row, column = m // (HO * WO), (m // WO) % HO * S, m % WO * S
    c, k = tl.arange(0, C), tl.arange(0, KP)
    total = tl.zeros((TILE, KP), tl.float32)
    for t in range(9):
        i, j = row + (t // 3 - 1), column + (t % 3 - 1)
        there = inside & (i >= 0) & (i < H) & (j >= 0) & (j < W)
        place = ((n * H + i) * W + j) * C
        x = tl.load(x_ptr + place[:, None] + c[None, :], mask=there[:, None], other=0.0)
        w = tl.load(w_ptr + k[None, :] * (9 * C) + t * C + c[:, None], mask=k[None, :] < K, other=0.0)
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
    S: tl.constexpr,
    TILE: tl.constexpr,
):
    """The result at a tile of pixels, for C so small that all nine neighbours are one row of a matrix, padded to JP."""
    HO: tl.constexpr = (H + S - 1) // S
    WO: tl.constexpr = (W + S - 1) // S
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n, row, column = m // (HO * WO), (m // WO) % HO * S, m % WO * S
    q, k = tl.arange(0, JP), tl.arange(0, KP)
    t = q // C
    i, j = row[:, None] + (t // 3 - 1)[None, :], column[:, None] + (t % 3 - 1)[None, :]
    there = (m < pixels)[:, None] & (q < 9 * C)[None, :] & (i >= 0) & (i < H) & (j >= 0) & (j < W)
    x = tl.load(x_ptr + ((n[:, None] * H + i) * W + j) * C + (q % C)[None, :], mask=there, other=0.0)
    known = (q < 9 * C)[:, None] & (k < K)[None, :]
    w = tl.load(w_ptr + k[None, :] * (9 * C) + q[:, None], mask=known, other=0.0)
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
    H: tl.constexpr,
    W: tl.constexpr,
    S: tl.constexpr,
    ROW: tl.constexpr,
    COLUMN: tl.constexpr,
    TILE: tl.constexpr,
):
    """The gradient of the input at a tile of those of its pixels that lie at (ROW, COLUMN) modulo the stride.

    All of them reached outputs by the same taps t, those for which S divides p + 1 - t.
    """
    HO: tl.constexpr = (H + S - 1) // S
    WO: tl.constexpr = (W + S - 1) // S
    m = tl.program_id(0) * TILE + tl.arange(0, TILE)
    n, row, column = m // (HO * WO), (m // WO) % HO, m % WO
    c, k = tl.arange(0, CP), tl.arange(0, K)
    total = tl.zeros((TILE, CP), tl.float32)
    for a in tl.static_range((ROW + 1) % S, 3, S):
        for b in tl.static_range((COLUMN + 1) % S, 3, S):
            i, j = row + (ROW + 1 - a) // S, column + (COLUMN + 1 - b) // S
            there = (m < pixels) & (i >= 0) & (i < HO) & (j >= 0) & (j < WO)
            place = ((n * HO + i) * WO + j) * K
            g = tl.load(g_ptr + place[:, None] + k[None, :], mask=there[:, None], other=0.0)
            w = tl.load(w_ptr + k[:, None] * (9 * C) + (3 * a + b) * C + c[None, :], mask=c[None, :] < C, other=0.0)
            total = tl.dot(g, w, total)
    row, column = row * S + ROW, column * S + COLUMN
    inside = (m < pixels) & (row < H) & (column < W)
    place = ((n * H + row) * W + column) * C
    value = total.to(x_ptr.dtype.element_ty)
    tl.store(x_ptr + place[:, None] + c[None, :], value, mask=inside[:, None] & (c < C)[None, :])


@triton.jit
def _pull_weight(
    x_ptr,
    g_ptr,
    w_ptr,
    pixels,
    parts,
    C: tl.constexpr,
    K: tl.constexpr,
    JP: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    S: tl.constexpr,
    TILE: tl.constexpr,
    ROUNDS: tl.constexpr,
):
    """One part of the sum over pixels that is the gradient of the weights, `(K, 9 C)` padded to `(K, JP)`."""
    HO: tl.constexpr = (H + S - 1) // S
    WO: tl.constexpr = (W + S - 1) // S
    k, q = tl.arange(0, K), tl.arange(0, JP)
    t = q // C
    part = tl.program_id(0)
    total = tl.zeros((K, JP), tl.float32)
    for r in range(ROUNDS):
        m = (r * parts + part) * TILE + tl.arange(0, TILE)
        n, row, column = m // (HO * WO), (m // WO) % HO * S, m % WO * S
        i, j = row[:, None] + (t // 3 - 1)[None, :], column[:, None] + (t % 3 - 1)[None, :]
        there = (m < pixels)[:, None] & (q < 9 * C)[None, :] & (i >= 0) & (i < H) & (j >= 0) & (j < W)
        x = tl.load(x_ptr + ((n[:, None] * H + i) * W + j) * C + (q % C)[None, :], mask=there, other=0.0)
        g = tl.load(g_ptr + m[None, :] * K + k[:, None], mask=(m < pixels)[None, :], other=0.0)
        total = tl.dot(g, x, total)
    tl.store(w_ptr + (part * K + k)[:, None] * JP + q[None, :], total)


def correlate(x: Tensor, w: Tensor, stride: int) -> Tensor:
    """The convolution y, `(N, K, ⌈H/s⌉, ⌈W/s⌉)`."""
    x, w = _last(x), _last(w)
    (n, c, h, width), k = x.shape, len(w)
    y = _empty(x, (n, k, -(-h // stride), -(-width // stride)))
    pixels = y.numel() // k
    shape = {"C": c, "K": k, "KP": _padded(k), "H": h, "W": width, "S": stride, "TILE": PIXELS}
    few = {} if c in (16, 32, 64) else {"JP": _padded(9 * c)}
    kernel = _correlate_few if few else _correlate
    kernel[(triton.cdiv(pixels, PIXELS),)](x, w, y, pixels, **shape, **few)
    return y


def pull_input(g: Tensor, w: Tensor, size: tuple[int, int], stride: int) -> Tensor:
    """The gradient of the input, `(N, C, H, W)`, from that of the output."""
    g, w = _last(g), _last(w)
    k, c = w.shape[:2]
    x, pixels = _empty(g, (len(g), c, *size)), g.numel() // k
    shape = {"C": c, "CP": _padded(c), "K": k, "H": size[0], "W": size[1], "S": stride, "TILE": PIXELS}
    for i, j in product(range(stride), repeat=2):
        _pull_input[(triton.cdiv(pixels, PIXELS),)](g, w, x, pixels, ROW=i, COLUMN=j, **shape)
    return x


def pull_weight(x: Tensor, g: Tensor, stride: int) -> Tensor:
    """The gradient of the weights, `(K, C, 3, 3)`, from that of the output: parts of the sum, always the same ones."""
    x, g = _last(x), _last(g)
    (_, c, h, width), k = x.shape, g.shape[1]
    pixels, padded = g.numel() // k, _padded(9 * c)
    parts = min(PARTS, triton.cdiv(pixels, CHUNK))
    sums = torch.empty((parts, k, padded), dtype=torch.float32, device=x.device)
    shape = {"C": c, "K": k, "JP": padded, "H": h, "W": width, "S": stride, "TILE": CHUNK}
    shape["ROUNDS"] = triton.cdiv(pixels, parts * CHUNK)
    _pull_weight[(parts,)](x, g, sums, pixels, parts, **shape, num_warps=2, num_stages=4)
    w = sums.sum(0)[:, : 9 * c].unflatten(1, (3, 3, c)).permute(0, 3, 1, 2)
    return w.to(x.dtype, memory_format=torch.channels_last)


def _padded(n: int) -> int:
    return max(LEAST, triton.next_power_of_2(n))


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _empty(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)
