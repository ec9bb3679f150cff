r"""Continuous piecewise-affine velocity fields and their flows.

Theta is the velocity at the nodes of a tessellation of the frame; in each cell the velocity is affine. Unit time
along it is a diffeomorphism, $\phi^\theta(x; 1) = x + \int_0^1 v^\theta(\phi(x; \tau)) d\tau$, with the flow of
$-\theta$ as its inverse (Freifeld et al. 2017; section 3 of Schwöbel et al. 2022). Coordinates are those of the frame,
[-1, 1] per axis, x (right) before y (down). Types below float32 are computed in float32, and no operation here is one
that autocast or TF32 degrades.

Differs from the published code: theta is nodal velocities, an exact and sparse basis, not coordinates in a numerical
null space; and without zero boundary the field beyond the frame is that of the nearest border point.

References:
    Freifeld, Hauberg, Batmanghelich, Fisher: Transformations based on continuous piecewise-affine velocity fields.
    IEEE TPAMI 39(12), 2017. Schwöbel, Warburg, Jørgensen, Madsen, Hauberg: Probabilistic spatial transformer
    networks. UAI 2022.
"""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn.functional import pad

from ..utils.shapes import check_count, check_tensor, compute_dtype, describe
from . import flow1d
from .special import horner

__all__ = ["Field1d", "Field2d"]


def _match(theta: Tensor, points: Tensor, features: int, axes: int) -> tuple[Tensor, Tensor, torch.Size]:
    """Checks the sizes and brings both to the type of the computation; also gives the common batch shape."""
    check_tensor("theta", theta, f"a tensor (*N, {features})", theta.dim() > 0 and theta.shape[-1] == features)
    check_tensor("points", points, f"a tensor (*N, P, {axes})", points.dim() > 1 and points.shape[-1] == axes)
    dtype = torch.promote_types(compute_dtype(theta), compute_dtype(points))
    return theta.to(dtype), points.to(dtype), torch.broadcast_shapes(theta.shape[:-1], points.shape[:-2])


class Field1d(nn.Module):
    r"""A continuous piecewise-affine velocity field on [-1, 1], with its flow in closed form.

    Theta is the velocity at the interior ends of equal cells, left to right; without zero boundary, at all ends, and
    beyond the frame the velocity keeps its value at the border. With it, points beyond the frame stay.

    Args:
        cells: Number of cells, at least 1; at least 2 with zero boundary, where one cell has no freedom.
        zero_boundary: Whether the velocity vanishes at both ends, so that the flow maps the frame onto itself.

    Attributes:
        features: Size of theta: cells - 1 with zero boundary, cells + 1 without.

    Shape:
        theta `(*N, features)`, points `(*N, P, 1)` or broadcastable to it -> velocity or position `(*N, P, 1)`.
    """

    def __init__(self, cells: int, *, zero_boundary: bool = True) -> None:
        super().__init__()
        self.cells, self.zero_boundary = check_count("cells", cells), zero_boundary
        self.features = cells - 1 if zero_boundary else cells + 1
        if self.features == 0:
            raise ValueError("cells: received 1; accepted with zero_boundary=True is an integer of at least 2")

    def velocity(self, theta: Tensor, points: Tensor) -> Tensor:
        """Velocity at the points."""
        return flow1d.velocity(*self._prepare(theta, points), self.cells, self.zero_boundary).unsqueeze(-1)

    def flow(self, theta: Tensor, points: Tensor) -> Tensor:
        """Positions after unit time, in closed form."""
        return flow1d.flow(*self._prepare(theta, points), self.cells, self.zero_boundary).unsqueeze(-1)

    def _prepare(self, theta: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        theta, points, batch = _match(theta, points, self.features, 1)
        return theta.expand(*batch, -1), points.squeeze(-1)


def _null_space(equations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Jordan elimination, last unknowns first: a basis of the solutions, in columns, and the free unknowns.

    Elementwise operations only, so that every machine finds the same; exact on the small dyadic numbers met here.
    """
    rows, pivots = equations.copy(), []
    for column in reversed(range(rows.shape[1])):
        rank, candidates = len(pivots), np.abs(rows[len(pivots) :, column])
        if candidates.max(initial=0) < 1e-9:
            continue
        rows[[rank, rank + candidates.argmax()]] = rows[[rank + candidates.argmax(), rank]]
        rows[rank] /= rows[rank, column]
        rows -= np.where(np.arange(len(rows)) == rank, 0, rows[:, column])[:, None] * rows[rank]
        pivots.append(column)
    free = np.setdiff1d(np.arange(rows.shape[1]), pivots)
    basis = np.eye(rows.shape[1])[:, free]
    basis[pivots] = 0 - rows[: len(pivots), free]
    return basis, free


def _triangles(nodal: Tensor, cells: tuple[int, int]) -> Tensor:
    """Affine fields of the triangles: value at the centre of the rectangle, derivative along x and along y.

    Shape:
        nodal `(2, *N, vertices + centres)`, in rectangles per unit time -> `(3, 2, *N, 4 n m)`; of each rectangle the
        left, bottom, top and right triangle.
    """
    n, m = cells
    vertices, centre = nodal.split([(m + 1) * (n + 1), m * n], dim=-1)
    vertices, centre = vertices.unflatten(-1, (m + 1, n + 1)), centre.unflatten(-1, (m, n))
    top, bottom, twice = vertices[..., :-1, :], vertices[..., 1:, :], 2 * centre
    tl, tr, bl, br = top[..., :-1], top[..., 1:], bottom[..., :-1], bottom[..., 1:]
    along_x = torch.stack([twice - (tl + bl), br - bl, tr - tl, (tr + br) - twice], -1)
    along_y = torch.stack([bl - tl, (bl + br) - twice, twice - (tl + tr), br - tr], -1)
    return torch.stack([centre.unsqueeze(-1).expand(along_x.shape), along_x, along_y]).flatten(-3)


def _affine(table: Tensor, u: Tensor, size: Tensor) -> tuple[Tensor, ...]:
    """Value and derivatives of the field at each point, its place between `_lines`, and on which axes it is inside."""
    corner = u.detach().floor()
    nearest = torch.minimum(corner.clamp(min=0), size - 1)
    inside = ((u >= 0) & (u <= size)).to(u.dtype)
    position = u - torch.lerp(corner, nearest, inside) - 0.5
    clamped = torch.lerp((corner - nearest).clamp(-0.5, 0.5), position, inside)
    diagonal = torch.stack([clamped[0] + clamped[1], clamped[0] - clamped[1]]).detach()
    side = (diagonal > 0).to(u.dtype)
    triangle = (4 * (nearest[1] * size[0] + nearest[0]) + side[0] + 2 * side[1]).long()
    # The clamp does nothing to finite points, but an index made from NaN would abort a CUDA process.
    triangle = triangle.clamp(0, table.shape[-1] - 1).expand(*table.shape[:-1], -1)
    value, along_x, along_y = table.gather(-1, triangle)
    value = value + along_x * clamped[0] + along_y * clamped[1]
    place = torch.cat([position.detach(), diagonal + 0.5 - side])
    return value, along_x * inside[0], along_y * inside[1], place, inside


def _lines(w: Tensor, inside: Tensor) -> Tensor:
    """A vector across the four families of unit-spaced lines that bound the triangles: of equal x, y, x + y, x - y."""
    # Beyond the frame the diagonals end: the nearest border point, whose field it is, does not move along that axis.
    diagonal = w * inside
    return torch.stack([w[0], w[1], diagonal[0] + diagonal[1], diagonal[0] - diagonal[1]])


@torch.no_grad()
def _exit(x: Tensor, v: Tensor, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """First time at which an x + v t + a t² / 2 leaves ±1/2, 1 for the one that does so, and how far each has to go."""
    # The margin puts the next step clearly into the next triangle, and a point that rests on a line or slides along
    # it is not stopped again and again.
    half = 0.5 + torch.finfo(x.dtype).eps ** (2 / 3)
    sign = torch.ones_like(v).copysign(v)
    speed, push, ahead = v.abs(), a * sign, half - x * sign
    turns = (speed.square() + 2 * push * ahead < 0).to(x.dtype)
    ahead = ahead - 2 * half * turns
    twice = speed + (speed.square() + 2 * push * ahead).sqrt()
    times = torch.lerp(2 * ahead, twice, turns) / torch.lerp(twice, -push, turns)
    time = times.amin(0)
    return time, (times == time).to(x.dtype), sign * ahead


def _advance(table: Tensor, u: Tensor, left: Tensor, size: Tensor, plan: Tensor) -> tuple[Tensor, Tensor]:
    r"""Takes one step in one triangle: for the planned share of the time left, or to the triangle's end if sooner.

    There the step is $\sum_k t^k A^{k-1} v / k!$, to fifth order. The time of the exit comes from the second order and
    a Newton step on all. The flow does not depend on it to first order, as the field is continuous, but its second
    derivatives do, and have it from the Newton step. A point that is late by the plan goes straight on.
    """
    v, along_x, along_y, place, inside = _affine(table, u, size)
    terms = [v]
    for k in range(2, 6):
        terms.append((along_x * terms[-1][0] + along_y * terms[-1][1]) / k)
    # Fifth order serves while time times the norm of A is about 1.
    longest = torch.minimum(left * plan[0], 1.5 / (along_x.abs() + along_y.abs()).detach().amax(0))
    time, first, gap = _exit(place, _lines(v, inside), 2 * _lines(terms[1], inside))
    ends, time = time < longest, torch.minimum(time, longest)
    step = horner(time, terms) * time
    slope = (first * _lines(v + along_x * step[0] + along_y * step[1], inside).detach()).sum(0)
    miss = (first * (_lines(u - u.detach() + step, inside) - gap)).sum(0)
    ends = (ends & (slope.abs() > 1 / 64)).to(u.dtype)
    newton = time - ends * miss / (ends * slope + 1 - ends)
    time = torch.minimum(torch.maximum(newton, time / 2), longest)
    step = horner(time, terms) * time
    late = (left - time - plan[1]).clamp(min=0)
    return u + step + late * (v + along_x * step[0] + along_y * step[1]), left - time - late


class _Step(torch.autograd.Function):
    """`_advance` that remembers only its start: the backward pass, itself differentiable, does the step again."""

    # In contrast to torch.utils.checkpoint, this allows torch.func.grad and its like.
    forward = staticmethod(_advance)
    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: BackwardCFunction, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        moving, fixed = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        return *torch.func.vjp(lambda *moving: _advance(*moving, *fixed), *moving)[1](gradients), None, None


def _run(table: Tensor, u: Tensor, size: Tensor, schedule: Tensor) -> Tensor:
    left = torch.ones_like(u[0])
    for plan in schedule:
        u, left = _Step.apply(table, u, left, size, plan)
    return u.contiguous()


def _pull(gradient: Tensor, table: Tensor, u: Tensor, size: Tensor, schedule: Tensor) -> tuple[Tensor, Tensor]:
    gradients = torch.func.vjp(lambda table, u: _run(table, u, size, schedule), table, u)[1](gradient)
    return gradients[0].contiguous(), gradients[1].contiguous()


# For torch.compile the flow is one opaque operation: its steps, unrolled, take many minutes to compile.
_opaque = torch.library.custom_op("erlangen::flow2d", _run, mutates_args=())
_opaque_pull = torch.library.custom_op("erlangen::flow2d_backward", _pull, mutates_args=())
_opaque.register_fake(lambda table, u, size, schedule: u.new_empty(u.shape))
_opaque_pull.register_fake(lambda _, table, u, *rest: (table.new_empty(table.shape), u.new_empty(u.shape)))
_opaque.register_autograd(
    lambda ctx, gradient: (*_opaque_pull(gradient, *ctx.saved_tensors), None, None),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class Field2d(nn.Module):
    r"""A continuous piecewise-affine velocity field on [-1, 1]², with its flow by steps that stop at the kinks.

    Each rectangle is cut into four triangles by its centre. Theta is the velocity at the vertices, then at the
    centres, both row by row: of each node x before y, less the components that are fixed. Beyond the frame the velocity
    is that of the nearest border point.

    Where a path crosses an edge, a one-step method drops to second order: RK4 needs 200 steps for errors of 1e-4. Here
    a step ends where its triangle does. Steps get shorter towards the end, since the last one may not stop early.

    Args:
        cells: Number of rectangles along x and along y.
        zero_boundary: Whether the velocity across the border vanishes: points slide along it, corners stay.
        volume_preserving: Whether the divergence is zero in every triangle. Theta is then those of the velocities above
            that an elimination leaves free, scaled by a power of two so that no velocity varies more than theta does.
        steps: Number of steps; each crossing of an edge takes one. By default ten for each rectangle across, at least
            40: for velocities up to 1 (half the frame) errors then stay below 1e-4 of the frame. Much faster fields
            need more.

    Attributes:
        features: Size of theta: 2 (n + 1) (m + 1) + 2 n m, less 2 (n + m + 2) with zero boundary, if areas may change.

    Shape:
        theta `(*N, features)`, points `(*N, P, 2)` or broadcastable to it -> velocity or position `(*N, P, 2)`.
    """

    slots: Tensor
    size: Tensor
    schedule: Tensor
    basis: Tensor | None

    def __init__(
        self,
        cells: tuple[int, int],
        *,
        zero_boundary: bool = True,
        volume_preserving: bool = False,
        steps: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(cells, tuple | list) or len(cells) != 2:
            raise ValueError(f"cells: received {describe(cells)}; accepted is a pair of integers of at least 1")
        n, m = self.cells = check_count("cells", cells[0]), check_count("cells", cells[1])
        inner = np.ones((m + 1, n + 1, 2), dtype=bool)
        if zero_boundary:
            inner[:, [0, n], 0] = inner[[0, m], :, 1] = False
        free = np.concatenate([inner.ravel(), np.ones(2 * m * n, dtype=bool)])
        self.features = int(free.sum())
        # Fixed components read the zero that `_prepare` puts behind theta.
        slots = torch.from_numpy(np.where(free, free.cumsum() - 1, self.features))
        basis = None
        if volume_preserving:
            basis = self._divergence_free(slots, np.tile([n, m], len(free) // 2)[free])
            basis = basis / 2.0 ** math.ceil(math.log2(basis.norm(dim=-1).max()))
            self.features = basis.shape[-1]
        steps = 10 * max(4, n, m) if steps is None else check_count("steps", steps)
        ahead = torch.arange(steps, 0, -1, dtype=torch.float64)
        schedule = torch.stack([1 - (1 - 1 / ahead) ** 2, (1.5 * (ahead - 1) / steps).clamp(max=1)], -1)
        self.register_buffer("slots", slots, persistent=False)
        self.register_buffer("size", torch.tensor([n, m]), persistent=False)
        self.register_buffer("schedule", schedule, persistent=False)
        self.register_buffer("basis", basis, persistent=False)

    def velocity(self, theta: Tensor, points: Tensor) -> Tensor:
        """Velocity at the points."""
        table, u, size = self._prepare(theta, points)
        return (_affine(table, u, size)[0] * 2 / size).movedim(0, -1)

    def flow(self, theta: Tensor, points: Tensor) -> Tensor:
        """Positions after unit time. For the backward pass, memory holds three numbers per point and step."""
        table, u, size = self._prepare(theta, points)
        run = _opaque if torch.compiler.is_dynamo_compiling() else _run
        return points + ((run(table, u, size, self.schedule.to(u.dtype)) - u) * 2 / size).movedim(0, -1)

    def _prepare(self, theta: Tensor, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Fields of the triangles; points, axis first, in units of the rectangles; and their number per axis."""
        theta, points, batch = _match(theta, points, self.features, 2)
        points = points.expand(*batch, -1, -1).movedim(-1, 0).contiguous()
        size = self.size.to(theta.dtype).reshape(2, *[1] * (points.dim() - 1))
        if self.basis is not None:
            # Not a matrix product: autocast and TF32 would round it.
            theta = (theta.unsqueeze(-2) * self.basis.to(theta.dtype)).sum(-1)
        nodal = pad(theta, (0, 1)).index_select(-1, self.slots).expand(*batch, -1)
        nodal = nodal.unflatten(-1, (-1, 2)).movedim(-1, 0)
        return _triangles(nodal * size / 2, self.cells), (points + 1) * size / 2, size

    def _divergence_free(self, slots: Tensor, scale: np.ndarray) -> Tensor:
        """Basis of the fields without divergence; scale: rectangles along the axis of each component of theta."""
        nodal = pad(torch.eye(self.features, dtype=torch.float64), (0, 1))[:, slots]
        table = _triangles(nodal.unflatten(-1, (-1, 2)).movedim(-1, 0), self.cells)
        # In units of the rectangles the coefficients are small integers, however many rectangles there are.
        basis, free = _null_space((table[1, 0] + table[2, 1]).T.numpy())
        if len(free) == 0:
            raise ValueError(f"cells: received {self.cells}; accepted with volume_preserving=True are more: none free")
        return torch.from_numpy(basis * scale[free] / scale[:, None])
