r"""Exponential and logarithm of affine matrices, in closed form and elementwise.

An element of the algebra is $M = \begin{bmatrix} A & b \\ 0 & 0 \end{bmatrix}$, its exponential $\begin{bmatrix} e^A
& \varphi(A) b \\ 0 & 1 \end{bmatrix}$ with $\varphi(A) = \int_0^1 e^{tA} dt$. Write $A = m I + N$ with $N$ traceless;
then $N^2 = \delta I$ and, with the entire functions $C(x) = \cosh\sqrt x$ and $S(x) = \sinh\sqrt x / \sqrt x$,

$$ e^{tA} = e^{tm} (C(t^2 \delta) I + t S(t^2 \delta) N), \qquad \varphi(A) = p I + q N. $$

$\varphi(A) = A^{-1} (e^A - I)$ cancels where an eigenvalue of $A$ is small. So the integral is taken by
Gauss–Legendre quadrature, which is exact to rounding for eigenvalues of moderate size; the quotient serves where the
determinant $m^2 - \delta$ is large (many turns), and there nothing cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from numpy.polynomial.legendre import leggauss
from torch import Tensor
from torch.autograd import Function

from ..utils.shapes import check_tensor, check_true, describe, eager_on_cpu, vector
from .special import horner

__all__ = ["affine_exp", "affine_inverse", "affine_log", "compose_matrices", "linear_exp", "polar_log", "with_last_row"]


def compose_matrices(g: Tensor, h: Tensor) -> Tensor:
    """The matrix product, elementwise: autocast and TF32 would round it to 3 digits.

    Shape:
        g: `(..., n, k)`; h: `(..., k, l)`; result: `(..., n, l)`.
    """
    return (g.unsqueeze(-1) * h.unsqueeze(-3)).sum(-2)


def affine_inverse(g: Tensor) -> Tensor:
    """The inverse of affine matrices.

    Shape:
        g: `(..., 3, 3)`; result: `(..., 3, 3)`.
    """
    # Scaled to entries of at most 1, so that determinants of large or small matrices neither overflow nor vanish.
    scale = g[..., :2, :2].detach().abs().amax((-1, -2)).clamp_min(torch.finfo(g.dtype).tiny)
    a, b, c, d = (g[..., :2, :2] / scale[..., None, None]).flatten(-2).unbind(-1)
    x, y = g[..., :2, 2].unbind(-1)
    det = (a * d - b * c) * scale
    rows = torch.stack((d, -b, b * y - d * x, -c, a, c * x - a * y), -1) / det[..., None]
    return torch.cat((rows.unflatten(-1, (2, 3)), g[..., 2:, :]), -2)


# Gauss–Legendre nodes on [0, 1] and a last one at 1; their weights, 0 for the last; and 1 for the last alone.
_NODES, _WEIGHTS = (leggauss(12)[0] + 1) / 2, leggauss(12)[1] / 2
_TABLE = ([*_NODES.tolist(), 1.0], [*_WEIGHTS.tolist(), 0.0], [0.0] * len(_NODES) + [1.0])
LARGE = 64.0  # determinants from which A⁻¹ is used
_CONSTANTS: dict[tuple[torch.dtype, torch.device], tuple[Tensor, ...]] = {}


def _constants(like: Tensor) -> tuple[Tensor, ...]:
    """The nodes, their squares, the weights and the last node's mark, `(K + 1,)` each.

    Kept per type and device: in eager mode they would be made by forty small kernels in every call.
    """
    key = (like.dtype, like.device)
    if not torch.compiler.is_compiling() and key in _CONSTANTS:
        return _CONSTANTS[key]
    with torch.inference_mode(False):
        t, w, last = (vector(a, like.dtype, like.device) for a in _TABLE)
        made = t, t * t, w, last
    if not torch.compiler.is_compiling():
        _CONSTANTS[key] = made
    return made


# Of S' / S, the derivative of log S(x) = x/6 - x²/180 + x³/2835 - ...
_LOG_SLOPE = [1 / 6, -1 / 90, 1 / 945, -1 / 9450, 1 / 93555, -691 / 638512875, 2 / 18243225, -3617 / 325641566250]


def _cosine_sine(x: Tensor) -> tuple[Tensor, Tensor]:
    """C and S of the module docstring, values only."""
    r = x.abs().sqrt().clamp_min(1e-18)  # sin(r) / r is 1 there, to the last bit
    elliptic = x < 0
    return torch.where(elliptic, r.cos(), r.cosh()), torch.where(elliptic, r.sin(), r.sinh()) / r


def _slope(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    """S' = (C - S) / 2x, for C and S with a common factor; by the power series of S' / S where this cancels."""
    near = x.abs() < 0.1
    series = s * horner(x, _LOG_SLOPE[: 4 if x.dtype == torch.float32 else None])
    return torch.where(near, series, (c - s) / torch.where(near, 1, 2 * x))


def _smooth(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """C, S and S' with finite derivatives of every order: power series where |x| < 1, so that no root is taken at 0."""
    near = x.abs() < 1
    small, large = torch.where(near, x, 0), torch.where(near, 1, x)
    c, s = _cosine_sine(large)
    far = c, s, (c - s) / (2 * large)
    factorial, terms = math.factorial, range(10)
    series = (
        horner(small, [1 / factorial(2 * k) for k in terms]),
        horner(small, [1 / factorial(2 * k + 1) for k in terms]),
        horner(small, [(k + 1) / factorial(2 * k + 3) for k in terms]),
    )
    c, s, slope = (torch.where(near, a, b) for a, b in zip(series, far, strict=True))
    return c, s, slope


def _far(det: Tensor) -> Tensor | None:
    """Where the determinant is large; None if it can be seen, without a synchronisation, that it is so nowhere."""
    if eager_on_cpu(det) and (det.numel() == 0 or float(det.detach().abs().amax()) <= LARGE):
        return None
    return det.abs() > LARGE


def _invariants(rows: Tensor) -> tuple[Tensor, ...]:
    """The six entries, m, the first entry n of N, delta, and the determinant of A."""
    a, b, x, c, d, y = rows.flatten(-2).unbind(-1)
    m, n = (a + d) * 0.5, (a - d) * 0.5
    delta = torch.addcmul(n * n, b, c)
    return a, b, x, c, d, y, m, n, delta, torch.addcmul(-delta, m, m)


class _AffineExp(Function):
    r"""The rows `(..., 2, 3)` of the exponential from those of the algebra, with an analytic backward.

    The translation is $\sum_k w_k X_k b$ with $X_k = e^{t_k A}$; where the determinant of A is large, and so nothing
    cancels, it is $A^{-1} (e^A - I) b$. The backward follows from the derivatives of C and S:

    $$ dX_k = t_k X_k\, dm + t_k^2 e^{t_k m} (\tfrac12 S I + t_k S' N)\, d\delta + t_k e^{t_k m} S\, dN $$

    The coefficients $e^{t_k m} C$ and $t_k e^{t_k m} S$ of I and N in $X_k$ are further results, kept for the backward.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        invariants = _invariants(rows)
        return _push(invariants, _far(invariants[-1]))[:3]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> Tensor:
        rows, out, xi, xn = ctx.saved_tensors
        invariants = _invariants(rows)
        far = _far(invariants[-1])
        if far is None:
            return _pull_near(invariants, xi, xn, grad)
        # The translation's gradient goes, solved by A, to e^A, to A and to b at once.
        a, b, _x, c, d, _y, _m, _n, _delta, det = invariants
        gx, gy, det = grad[..., 0, 2], grad[..., 1, 2], torch.where(far, det, 1)
        solved = torch.stack(((d * gx - c * gy) / det, (a * gy - b * gx) / det), -1)
        solved = torch.where(far.unsqueeze(-1), solved, 0).unsqueeze(-1)
        near = torch.where(far[..., None, None], 0, grad[..., 2:])
        result = _pull_near(invariants, xi, xn, torch.cat((grad[..., :2] + solved * rows[..., None, :, 2], near), -1))
        to_b = (out[..., :2] * solved).sum(-2).unsqueeze(-1) - solved
        return result + torch.cat((-solved * out[..., None, :, 2], to_b), -1)


class _NearAffineExp(Function):
    """The same in eager code where no determinant is large: the backward takes all it needs from the forward."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, *invariants: Tensor) -> Tensor:
        out, *kept = _push(invariants, None)
        ctx.save_for_backward(rows, *invariants, *kept)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, *invariants, xi, xn, p, q = ctx.saved_tensors
        # Higher derivatives need invariants that know their rows.
        known = _invariants(rows) if torch.is_grad_enabled() else tuple(invariants)
        return _pull_near(known, xi, xn, grad, (p, q)), *[None] * len(invariants)


def _push(invariants: Sequence[Tensor], far: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The rows of the exponential, the coefficients of I and N in each X_k, and those in the quadrature."""
    a, b, x, c, d, y, m, n, delta, det = invariants
    t, t2, w, _ = _constants(m)
    xi, xn = _cosine_sine(delta.unsqueeze(-1) * t2)
    scale = torch.exp(m.unsqueeze(-1) * t)
    xi, xn = xi * scale, xn * (scale * t)
    p, q, e, s = (xi * w).sum(-1), (xn * w).sum(-1), xi[..., -1], xn[..., -1]
    sn, qn = s * n, q * n
    e11, e12, e21, e22 = e + sn, s * b, s * c, e - sn
    to_x, to_y = torch.addcmul((p + qn) * x, q * b, y), torch.addcmul((p - qn) * y, q * c, x)
    if far is not None:
        u, v = torch.addcmul(e12 * y, e11 - 1, x), torch.addcmul(e21 * x, e22 - 1, y)
        det = torch.where(far, det, 1)
        to_x = torch.where(far, (d * u - b * v) / det, to_x)
        to_y = torch.where(far, (a * v - c * u) / det, to_y)
    return torch.stack((e11, e12, to_x, e21, e22, to_y), -1).unflatten(-1, (2, 3)), xi, xn, p, q


def _pull_near(
    invariants: tuple[Tensor, ...], xi: Tensor, xn: Tensor, grad: Tensor, sums: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """The gradient to the rows `(..., 2, 3)` of the algebra when the translation is the quadrature."""
    _, b, x, c, _, y, m, n, delta, _ = invariants
    g11, g12, gx, g21, g22, gy = grad.flatten(-2).unbind(-1)
    t, t2, w, end = _constants(grad)
    square = delta.unsqueeze(-1) * t2
    if torch.is_grad_enabled():  # asked for higher derivatives: nothing may be taken from the forward pass
        scale = torch.exp(m.unsqueeze(-1) * t)
        xi, xn, slope = (f * scale for f in _smooth(square))
        xn, slope, sums = xn * t, slope * t, None
    else:
        slope = _slope(square, t * xi, xn)
    # Inner products of the gradient of each X_k with I and with N.
    nx, ny, difference = torch.addcmul(n * x, b, y), torch.addcmul(c * x, -n, y), g11 - g22
    with_i = torch.addcmul((gx * x + gy * y).unsqueeze(-1) * w, (g11 + g22).unsqueeze(-1), end)
    moment = n * difference + b * g12 + c * g21
    with_n = torch.addcmul((gx * nx + gy * ny).unsqueeze(-1) * w, moment.unsqueeze(-1), end)
    g_m = (t * torch.addcmul(with_i * xi, with_n, xn)).sum(-1)
    g_delta = torch.addcmul(with_i * (0.5 * t * xn), with_n, t2 * slope).sum(-1)
    p, q = sums or ((xi * w).sum(-1), (xn * w).sum(-1))
    s, qx, qy = xn[..., -1], q * gx, q * gy
    g_n = torch.addcmul(s * difference, qx, x) + (2 * n * g_delta - qy * y)
    grads = (
        (g_m + g_n) * 0.5,
        torch.addcmul(torch.addcmul(s * g12, qx, y), c, g_delta),
        torch.addcmul(torch.addcmul(p * gx, n, qx), c, qy),
        torch.addcmul(torch.addcmul(s * g21, qy, x), b, g_delta),
        (g_m - g_n) * 0.5,
        torch.addcmul(torch.addcmul(p * gy, b, qx), -n, qy),
    )
    return torch.stack(grads, -1).unflatten(-1, (2, 3))


class _CosineSine(Function):
    """C and S of the module docstring, with C' = S / 2: no root is taken at 0."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return _cosine_sine(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, grad_c: Tensor, grad_s: Tensor) -> Tensor:
        x, c, s = ctx.saved_tensors
        if torch.is_grad_enabled():  # asked for higher derivatives: nothing may be taken from the forward pass
            _, s, slope = _smooth(x)
        else:
            slope = _slope(x, c, s)
        return grad_c * s / 2 + grad_s * slope


def linear_exp(a: Tensor) -> Tensor:
    r"""The exponential of matrices, $e^m (C(\delta) I + S(\delta) N)$: `affine_exp` where nothing is translated.

    Shape:
        a: `(..., 2, 2)`; result: `(..., 2, 2)`.
    """
    a, b, c, d = a.flatten(-2).unbind(-1)
    m, n = (a + d) * 0.5, (a - d) * 0.5
    even, odd = _CosineSine.apply(torch.addcmul(n * n, b, c))  # pyright: ignore[reportGeneralTypeIssues]
    scale = m.exp()
    even, odd = even * scale, odd * scale
    return torch.stack((even + odd * n, odd * b, odd * c, even - odd * n), -1).unflatten(-1, (2, 2))


def affine_exp(m: Tensor) -> Tensor:
    r"""The exponential of affine matrices, $\exp \begin{bmatrix} A & b \\ 0 & 0 \end{bmatrix}$.

    One autograd function with an analytic backward, elementwise, differentiable any number of times, capturable in a
    CUDA graph. Differs from the paper: LTT Eq. 20 prints a 1 in the corner, whose exponential would not be affine.

    Shape:
        m: `(..., 2, 3)`, the rows above the zeros; result: `(..., 3, 3)`.
    """
    m = check_tensor("m", m, "matrices (..., 2, 3)", isinstance(m, Tensor) and m.shape[-2:] == (2, 3))
    if eager_on_cpu(m):
        with torch.no_grad():
            invariants = _invariants(m)
            near = _far(invariants[-1]) is None
        if near:
            return with_last_row(_NearAffineExp.apply(m, *invariants))  # pyright: ignore[reportArgumentType]
    return with_last_row(_AffineExp.apply(m)[0])


def with_last_row(rows: Tensor) -> Tensor:
    """Appends the row (0, ..., 0, 1) to affine matrices `(..., n, n + 1)`."""
    n = rows.shape[-2]
    last = torch.eye(n + 1, dtype=rows.dtype, device=rows.device)[n:]
    return torch.cat((rows, last.expand(*rows.shape[:-2], 1, n + 1)), -2)


def affine_log(g: Tensor) -> Tensor:
    r"""The principal logarithm of affine matrices; the inverse of `affine_exp`.

    With $h$ half the trace and $D$ the determinant of the linear part $E$, $\log E = \tfrac12 \log D\, I + \kappa (E
    - h I)$, where $\kappa = \mathrm{artanh}(\rho / h) / \rho$ for real eigenvalues $h \pm \rho$ and
    $\mathrm{atan2}(\rho, h) / \rho$ for complex ones $h \pm i\rho$.

    Shape:
        g: `(..., 3, 3)`; result: `(..., 2, 3)`.

    Raises:
        ValueError: where an eigenvalue of the linear part lies on the closed negative axis.
    """
    g = check_tensor("g", g, "matrices (..., 3, 3)", isinstance(g, Tensor) and g.shape[-2:] == (3, 3))
    a, b, x, c, d, y = g[..., :2, :].flatten(-2).unbind(-1)
    h, n = (a + d) / 2, (a - d) / 2
    square = n * n + b * c  # rho², negative for complex eigenvalues
    det = a * d - b * c
    # On the negative axis to rounding, the sign of the angle would be noise.
    rounding = 4 * torch.finfo(g.dtype).eps * h
    ok = (det > 0) & ((h > 0) | (square < -rounding * rounding))
    accepted = "matrices none of whose eigenvalues lies on the closed negative axis (for others no logarithm is real)"
    check_true("g", ok, f"{describe(g)} with such eigenvalues", accepted)
    kappa = _log_slope(h, square)
    m = det.log() / 2
    linear = (m + kappa * n, kappa * b, kappa * c, m - kappa * n)
    # phi(A) from the exponential itself: the images of the two unit translations.
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    units = [torch.stack((*linear[:2], e, *linear[2:], 1 - e), -1).unflatten(-1, (2, 3)) for e in (one, zero)]
    ux, vx = _AffineExp.apply(units[0])[0][..., 2].unbind(-1)
    uy, vy = _AffineExp.apply(units[1])[0][..., 2].unbind(-1)
    scale = ux * vy - uy * vx
    shift = ((vy * x - uy * y) / scale, (ux * y - vx * x) / scale)
    return torch.stack((*linear[:2], shift[0], *linear[2:], shift[1]), -1).unflatten(-1, (2, 3))


def polar_log(g: Tensor) -> tuple[Tensor, Tensor]:
    r"""The angle of R and the logarithm of P in the polar decomposition $A = R P$, without squares of A.

    Twice A is a turn by the angle, stretched by the sum $s = \sigma_1 + \sigma_2$ of its singular values, and a
    reflection, stretched by their difference d. So

    $$ \log P = \tfrac12 \log \det A\, I + \frac{\mathrm{artanh}(d / s)}{d s} \begin{bmatrix} x & y \\ y & -x
    \end{bmatrix}, $$

    with (x, y) the product of both as complex numbers.

    Shape:
        g: `(..., 2, 2)` with positive determinants; result: `(...)`, in radians, and symmetric `(..., 2, 2)`.
    """
    a, b, c, d = g.flatten(-2).unbind(-1)
    check_true("g", a * d - b * c > 0, f"{describe(g)} with other determinants", "matrices with a positive determinant")
    even, turn, along, across = a + d, b - c, a - d, b + c
    total = even.square() + turn.square()
    slope = _log_slope(total, total * (along.square() + across.square()))
    x, y = slope * (even * along - turn * across), slope * (even * across + turn * along)
    m = (a * d - b * c).log() / 2
    return torch.atan2(turn, even), torch.stack((m + x, y, y, m - x), -1).unflatten(-1, (2, 2))


def _log_slope(h: Tensor, square: Tensor) -> Tensor:
    """The factor kappa of `affine_log`, by a power series in rho²/h² where that is below 1/50."""
    near = (square.abs() < 0.02 * h * h) & (h > 0)
    base = torch.where(near, h, 1)
    ratio = torch.where(near, square, 0) / base**2
    series = torch.zeros_like(h)
    for k in reversed(range(10)):
        series = series * ratio + 1 / (2 * k + 1)
    real = ~near & (square > 0)
    rho = torch.where(near, 1, square).abs().sqrt()
    hyperbolic = torch.atanh(torch.where(real, rho / torch.where(real, h, 1), 0)) / rho
    elliptic = torch.atan2(torch.where(real, 0, rho), torch.where(real, 1, h)) / rho
    return torch.where(near, series / base, torch.where(real, hyperbolic, elliptic))
