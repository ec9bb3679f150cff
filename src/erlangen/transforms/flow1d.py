r"""Flows of continuous piecewise-affine velocity fields on [-1, 1]: closed form, and gradient in closed form.

All is in units of the cells: n of them lie between the nodes 1 to n + 1, and beyond each border one more, which has no
end, up to the nodes 0 and n + 2, where the velocity counts as zero. A cell has the number of the node to its right.

In a cell with velocity v where the point enters, slope a, and $\varphi(z) = (e^z - 1) / z$, after time t

$$ x(t) = x_0 + v t \varphi(at), \quad dx = dx_0 + \alpha\, dv + \beta\, da + x'(t)\, dt, \quad
   \alpha = t \varphi(at), \quad \beta = v t^2 \varphi'(at), \quad x'(t) = v e^{at} $$

With dx = 0 at the node where the point leaves, this is also the differential of the time to get there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad

from .special import growth, growth_slope

__all__ = ["flow", "velocity"]


def velocity(theta: Tensor, x: Tensor, cells: int, zero_boundary: bool) -> Tensor:
    """Velocity at the points.

    Shape:
        theta `(*N, features)`, x `(*N, P)` or broadcastable to it -> `(*N, P)`.
    """
    return _start(theta, x, cells, zero_boundary).v * (2 / cells)


def flow(theta: Tensor, x: Tensor, cells: int, zero_boundary: bool) -> Tensor:
    """Positions after unit time; shapes as for `velocity`.

    In eager code an autograd function takes a third of the operations. Compilers and function transforms get plain
    code, which they differentiate themselves, and so do higher derivatives.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or _transformed(x):
        return _path(theta, x, cells, zero_boundary)[0]
    return _Flow.apply(theta, x, cells, zero_boundary)


def _transformed(x: Tensor) -> bool:
    # The second, without the first, is how autograd computes many gradients at once.
    core: Any = torch._C
    return core._are_functorch_transforms_active() or core._functorch.is_legacy_batchedtensor(x)


def _slowest(dtype: torch.dtype) -> float:
    # Slower points count as resting. The third power, met in second derivatives, does not underflow.
    return torch.finfo(dtype).tiny ** 0.25


class _Start(NamedTuple):
    """Velocities of nodes and slopes of cells; of points the node behind, as a number, cell, place in it, velocity."""

    nodal: Tensor
    slopes: Tensor
    behind: Tensor
    cell: Tensor
    place: Tensor
    v: Tensor


def _start(theta: Tensor, x: Tensor, cells: int, zero_boundary: bool) -> _Start:
    nodal = pad(theta * (cells / 2), (2, 2) if zero_boundary else (1, 1))
    slopes = pad(nodal[..., 1:-1].diff(dim=-1), (2, 1))
    # An index made from NaN would abort a CUDA process.
    scaled, shift = x * (cells / 2), cells / 2 + 1
    behind = (scaled.detach() + shift).floor()
    # The sum may round up to a node that the point lies before, and what moves left would then skip a whole cell.
    behind = behind - (scaled.detach() < behind - shift).to(behind.dtype)
    behind = behind.clamp(0, cells + 1).nan_to_num(0)
    place = scaled - (behind - shift)
    node, cell = (n.long().expand(*theta.shape[:-1], -1) for n in (behind.clamp(min=1), behind + 1))
    v = torch.addcmul(nodal.gather(-1, node), slopes.gather(-1, cell), place)
    return _Start(nodal, slopes, behind, cell, place, v)


class _Ways(NamedTuple):
    """Ways with a velocity affine in position: those at both ends, a t, its growth, the way over the first, and t."""

    start: Tensor
    end: Tensor
    exponent: Tensor
    growth: Tensor
    reach: Tensor
    time: Tensor


def _travel(distance: Tensor, start: Tensor, end: Tensor, never: Tensor) -> _Ways:
    r"""The times that given distances take; at most never.

    $$ t = \frac{d \log(e / s)}{e - s} = \frac{d}{s \varphi(\log(e / s))} $$

    Distance, start and end have one sign, to the right or to the left. Otherwise the point stops on its way, and both
    velocities are given as 1.
    """
    # Masks are numbers, and lerp picks: exact, at a quarter of the time of booleans and where.
    slowest, one = (start.new_full((), c) for c in (-_slowest(start.dtype), 1))
    moves = torch.addcmul(slowest, start.detach(), end.detach()).relu_().sign_()
    start, end = torch.lerp(one, start, moves), torch.lerp(one, end, moves)
    exponent = (end / start).log_()
    grown, reach = growth(exponent), distance / start
    time = torch.minimum(torch.lerp(never, reach / grown, moves), never)
    return _Ways(start, end, exponent, grown, reach, time)


class _Path(NamedTuple):
    """Of each point: direction, 1 if it changes cells, place, first and last cell, nodes in between, its last way."""

    sign: Tensor
    moved: Tensor
    place: Tensor
    cell: Tensor
    last: Tensor
    leave: Tensor
    enter: Tensor
    v: Tensor
    time: Tensor
    exponent: Tensor
    growth: Tensor
    reach: Tensor


def _path(theta: Tensor, x: Tensor, cells: int, zero_boundary: bool) -> tuple[Tensor, _Ways, _Path]:
    r"""Positions after unit time, in closed form and without a loop, with what led there.

    A point moves monotonically. It leaves its cell after a travel time known in closed form, and so is the crossing
    time of every whole cell; the clock that sums these tells in which cell unit time runs out. The ways are those
    through all cells, then those of the points to the nodes ahead.
    """
    nodal, slopes, behind, cell, place, v = _start(theta, x, cells, zero_boundary)
    sign = v.detach().sign()
    right = sign.relu()
    leave, left = (right + behind).long(), nodal[..., :-1]
    distance = torch.cat([left.detach().sign(), right - place], -1)
    # Longer than all the time by more than the rounding of the clock.
    one, never = (v.new_full((), c) for c in (1, 1 + 8 * cells * torch.finfo(v.dtype).eps))
    ends = torch.cat([nodal[..., 1:], nodal.gather(-1, leave)], -1)
    ways = _travel(distance, torch.cat([left, v], -1), ends, never)
    clock = pad(ways.time[..., : cells + 2].cumsum(-1), (1, 0))
    begin, rest = clock.gather(-1, leave), one - ways.time[..., cells + 2 :]
    stop = torch.addcmul(begin.detach(), sign, rest.detach())
    last = torch.searchsorted(clock.detach(), stop, right=True).clamp(max=cells + 2)
    final = last.to(v.dtype)
    moved, entry = (final - (behind + 1)).sign_().abs_(), final - right
    enter = entry.long()
    time = torch.lerp(one, torch.addcmul(rest, sign, begin - clock.gather(-1, enter)), moved)
    v = torch.lerp(v, nodal.gather(-1, enter), moved)
    # No speed above `_slowest` grows further than this in one cell; without the limit 0 * inf is NaN at rest.
    exponent = (slopes.gather(-1, last) * time).clamp(max=-math.log(_slowest(v.dtype)))
    grown = growth(exponent)
    reach = time * grown
    # Node 1 is at -1.
    entry = torch.add(x.new_full((), -1 - 2 / cells), entry, alpha=2 / cells)
    y = torch.lerp(x, entry, moved).add_(v * reach, alpha=2 / cells)
    return y, ways, _Path(sign, moved, place, cell, last, leave, enter, v, time, exponent, grown, reach)


class _Flow(Function):
    """The flow with its gradient in closed form; higher derivatives are those of the plain code."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, x: Tensor, cells: int, zero_boundary: bool) -> Tensor:
        y, ways, path = _path(theta, x, cells, zero_boundary)
        ctx.save_for_backward(theta, x, *ways, *path)
        ctx.settings = cells, zero_boundary
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        theta, x, *saved = ctx.saved_tensors
        cells, zero_boundary = ctx.settings
        if torch.is_grad_enabled() or _transformed(grad):
            return *_pull_plain((theta, x), ctx.settings, grad, ctx.needs_input_grad[:2]), None, None
        ways, path = _Ways(*saved[:6]), _Path(*saved[6:])
        # The gradient times e^(at), and that times the velocity at the entry of the last cell for those that moved.
        one = grad.new_ones(())
        grown = torch.addcmul(one, path.exponent, path.growth).mul_(grad)
        late = (grown * path.moved).mul_(path.v)
        to_theta = to_x = None
        if ctx.needs_input_grad[1]:
            to_x = torch.lerp(grown, late / ways.start[..., cells + 2 :], path.moved).sum_to_size(x.shape)
        if ctx.needs_input_grad[0]:
            nodal = _pull(ways, path, grad, late)
            to_theta = nodal[..., 1:-1] if zero_boundary else nodal
        return to_theta, to_x, None, None


def _pull_plain(
    inputs: tuple[Tensor, Tensor], settings: tuple[int, bool], grad: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, ...]:
    """The gradients to theta and x from the plain code: they can be differentiated again, or be many at once."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, so that the gradient to theta is without that through points which depend on it.
        theta, x = (a.view_as(a) if need else a.detach() for a, need in zip(inputs, needs, strict=True))
        y = _path(theta, x, *settings)[0]
        wanted = [a for a, need in zip((theta, x), needs, strict=True) if need]
        found = iter(torch.autograd.grad(y, wanted, grad, create_graph=again))
    return tuple(next(found) if need else None for need in needs)


def _pull(ways: _Ways, path: _Path, grad: Tensor, late: Tensor) -> Tensor:
    r"""The gradient to the velocities of the nodes, of all that lie in the frame.

    Late is the gradient times the velocity at the end, of points that change cells. They lose on the way what the
    others do not: $dy = \alpha\, dv + \beta\, da - y' dT$ where T sums the time to leave the first cell and the times
    to cross whole ones. These are summed over points before they meet the cells: late is added at the node where a
    point leaves its first cell, and taken away where it enters its last, and a sum from the left gives each cell the
    total of all the points that cross it.
    """
    cells = ways.time.shape[-1] - grad.shape[-1]
    bend = growth_slope(ways.exponent, ways.growth).mul_(ways.start).mul_(ways.time).mul_(ways.time)
    last_bend = growth_slope(path.exponent, path.growth).mul_(path.v).mul_(path.time).mul_(path.time)
    # Those that enter from the left do so at place 0, the others at 1.
    place = torch.lerp(path.place, (-path.sign).relu_(), path.moved)
    first, reach = late / ways.end[..., cells:], ways.reach[..., cells:]
    to_v, to_slope, to_leave, to_enter = grad.new_zeros(4, *grad.shape[:-1], cells + 1)
    to_v.scatter_add_(-1, path.cell, first * reach).scatter_add_(-1, path.last, grad * path.reach)
    to_slope.scatter_add_(-1, path.cell, torch.addcmul(bend[..., cells:], reach, path.place).mul_(first))
    to_slope.scatter_add_(-1, path.last, place.mul_(path.reach).add_(last_bend).mul_(grad))
    to_leave.scatter_add_(-1, path.leave, late)
    to_enter.scatter_add_(-1, path.enter, late)
    # No cell that takes longer is crossed: there, the sum is rounding, and the factor may be huge.
    crossed = (to_leave - to_enter).cumsum(-1)[..., :-1] * (ways.time[..., :cells] <= 1) / ways.end[..., :cells]
    to_slope = torch.addcmul(to_slope[..., 1:], crossed, bend[..., :cells])[..., 1:-1]
    nodal = to_v[..., 2:]
    nodal[..., 0] += to_v[..., 1]
    nodal[..., :-1] += (crossed / ways.start[..., :cells])[..., 1:-1] - to_slope
    nodal[..., 1:] += to_slope
    return nodal
