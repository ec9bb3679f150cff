"""What every `Transform`, `Group` and `FiniteGroup` must satisfy.

Signals are smooth, fade out before the edge of the frame and have one colour each, so that neither the frame, nor
clipping, nor interpolation hides a mistake in the algebra. Everything runs in float64.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from ..transforms.base import FiniteGroup, Group, Transform
from ..transforms.spatial import Spatial
from ..utils import seeds
from ..utils.shapes import describe
from .masks import check_masks
from .requirements import gap, require
from .resampling import APART, interpolations, remain, ties, within
from .signals import Size, blob, differences, middle, positions, sized, texture

__all__ = ["check_finite_group", "check_group", "check_transform"]

T = TypeVar("T", bound=Transform)
FEWEST = 24  # pixels along the longer side: on fewer, interpolation alone would hide the signal


def unfilled(transform: T) -> T:
    """A copy in float64 that fills with zeros, as signals end: what is checked is the same with any other fill.

    What is mirrored at the edges of the frame is content where no point is: it is left out too.
    """
    transform = copy.deepcopy(transform).double()
    for part in transform.modules():
        if isinstance(part, Spatial):
            part.fill = 0.0
            part.padding = "zeros" if part.padding == "reflection" else part.padding
    return transform


def draw(transform: Transform, shape: Sequence[int], share: float, generator: torch.Generator) -> Tensor:
    """Coordinates within `share` of the way from the origin to the bounds; whole numbers where these are meant.

    Shape:
        result: `(*shape, d)`.
    """
    low, high = transform.bounds
    noise = torch.rand(*shape, transform.features, generator=generator, dtype=torch.float64)
    v = transform.origin + share * (low + (high - low) * noise - transform.origin)
    whole = torch.tensor([s.is_discrete for s in transform.supports])
    return torch.where(whole, (low + (high - low + 1) * noise).floor().minimum(high), v)


def check_transform(
    transform: Transform, *, v: Tensor | None = None, size: Size | None = None, seed: int = 0, tolerance: float = 1e-4
) -> None:
    """Checks that a class keeps the contract of `Transform`.

    Identity at the origin, shapes with any sample dimensions, samples that agree with one at a time, rows that depend
    on their own input only, no state, gradients to coordinates and signal against finite differences, points that
    move with the content, masks that move with the points and keep their values, inverses that undo (or a
    `ValueError`), types, and `ValueError`s for bad input.

    Args:
        transform: an instance.
        v: coordinates to try, `(B, d)`; drawn from the bounds if None.
        size: `(H, W)` of images that it accepts, or `(L,)` of series, 24 each if None; multiples of it are tried too.
        seed: of the coordinates that are drawn.
        tolerance: of points there and back, for transforms that integrate numerically.

    Raises:
        AssertionError: with what is wrong.
    """
    if not isinstance(transform, Transform):
        require(False, f"{describe(transform)} is not a Transform")
    transform = unfilled(transform)
    generator = seeds.generator(seed)
    v = draw(transform, (3,), 0.4, generator) if v is None else v.double()
    size = sized(size, transform, FEWEST)
    x = texture(size, len(v))
    _declares(transform)
    _identity(transform, x)
    _shapes(transform, v, x)
    _state(transform, v, x)
    _samples(transform, v, x, generator)
    _rows(transform, v, x, generator)
    _periods(transform, v, x)
    _gradients(transform, v, x, generator)
    _points(transform, v, size)
    check_masks(transform, v, x)
    _inverse(transform, v, x, tolerance)
    _types(transform, v, x)
    _refuses(transform, v, x)


def _declares(transform: Transform) -> None:
    d = len(transform.names)
    require(len(set(transform.names)) == d, f"names are not unique: {transform.names}")
    require(transform.bounds.shape == (2, d), f"bounds have shape {tuple(transform.bounds.shape)}, not (2, {d})")
    require(transform.origin.shape == (d,), f"origin has shape {tuple(transform.origin.shape)}, not ({d},)")
    require(len(transform.periodic) == d, f"periodic has {len(transform.periodic)} entries for {d} coordinates")
    require((transform.bounds[0] <= transform.bounds[1]).all(), "bounds are out of order")
    require(transform.support.check(transform.origin), "the origin lies outside the support")
    require(not list(transform.parameters()), "a transform has no learned parameters; this one has some")
    shape = tuple(transform.element(transform.origin.expand(2, 3, -1)).shape[2:])
    require(shape == transform.element_shape, f"elements have shape {shape}, not {transform.element_shape} as declared")


def _identity(transform: Transform, x: Tensor) -> None:
    error = gap(transform(x, transform.origin.expand(len(x), -1)), x)
    require(error < 1e-9, f"the origin does not leave the signal unchanged: off by {error:.1e}")


def _shapes(transform: Transform, v: Tensor, x: Tensor) -> None:
    batch = len(x)
    for samples in ((), (2,), (2, 3)):
        for b in (batch, 1):
            got = tuple(transform(x, v[:b].expand(*samples, b, -1)).shape)
            require(got == (*samples, *x.shape), f"coordinates ({samples}, {b}, d) gave a result of shape {got}")
    for samples in ((), (2,)):
        got = tuple(transform(x[:0], v[:0].expand(*samples, 0, -1)).shape)
        require(got == (*samples, 0, *x.shape[1:]), f"an empty batch gave a result of shape {got}")
    g = transform.element(v)
    require(gap(transform(x, v), transform.act(g, x)) < 1e-12, "forward(x, v) is not act(element(v), x)")


def _periods(transform: Transform, v: Tensor, x: Tensor) -> None:
    turn = (transform.bounds[1] - transform.bounds[0]) * torch.tensor(transform.periodic)
    off = (transform(x, v + turn) - transform(x, v)).abs().mean().item() if turn.any() else 0.0
    require(
        off < 1e-3 + ties(transform, x),
        f"a whole turn of a periodic coordinate changes the result by {off:.1e} on average",
    )


def _samples(transform: Transform, v: Tensor, x: Tensor, generator: torch.Generator) -> None:
    more = torch.stack((v, draw(transform, (len(v),), 0.4, generator)))
    together, alone = transform(x, more), torch.stack([transform(x, w) for w in more])
    require(gap(together, alone) < 1e-12, "samples taken together differ from samples taken one at a time")
    shared = transform(x, more[:, :1])
    require(
        gap(shared, transform(x, more[:, :1].expand_as(more))) < 1e-12, "shared coordinates differ from repeated ones"
    )


def _rows(transform: Transform, v: Tensor, x: Tensor, generator: torch.Generator) -> None:
    other_x, other_v = x.clone(), v.clone()
    other_x[-1], other_v[-1] = 0.5 * x[-1], draw(transform, (1,), 0.4, generator)[0]
    before, after = transform(x, v), transform(other_x, other_v)
    require(gap(before[:-1], after[:-1]) == 0, "a row of the result depends on another row's input")
    require(gap(before[-1], after[-1]) > 0, "the result does not depend on its input")


def _state(transform: Transform, v: Tensor, x: Tensor) -> None:
    kept = {name: value.clone() for name, value in transform.named_buffers()}
    x_before, v_before = x.clone(), v.clone()
    first, second = transform(x, v), transform(x, v)
    require(gap(first, second) == 0, "two calls with the same input differ")
    require(torch.equal(x, x_before) and torch.equal(v, v_before), "an argument was changed in place")
    same = all(torch.equal(value, kept[name]) for name, value in transform.named_buffers())
    require(same, "a call changed the transform's own buffers")


def _gradients(transform: Transform, v: Tensor, x: Tensor, generator: torch.Generator) -> None:
    """Directional derivatives against central differences."""
    flat = blob(x.shape[2:], torch.zeros(len(x), x.ndim - 2, dtype=torch.float64), 100.0)
    x = 0.8 * x + 0.1 * flat  # black has no hue, and so no derivative in colour
    weight = torch.rand(x.shape, generator=generator, dtype=torch.float64)
    moves = torch.tensor([not s.is_discrete for s in transform.supports])
    # Off the pixel grid, where interpolation has kinks: at the identity itself it has no derivative.
    v = torch.where(moves, 0.9 * v + 0.1 * draw(transform, v.shape[:-1], 0.4, generator), v)
    dv = torch.randn(v.shape, generator=generator, dtype=torch.float64) * moves
    dx = torch.randn(x.shape, generator=generator, dtype=torch.float64) * x
    if any(getattr(part, "levels", False) for part in transform.modules()):  # their clips may pass gradients through
        weight = weight * ((transform(x, v) - 0.5).abs() < 0.5).all(1, keepdim=True)

    def along(step: Tensor) -> Tensor:
        return (transform(x + step[1] * dx, v + step[0] * dv) * weight).sum()

    step = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(along(step), step, allow_unused=True)
    require(slope is not None, "no gradient reaches the coordinates or the signal")
    for k, name in enumerate(("coordinates", "signal")):
        with torch.no_grad():
            h = 1e-7 * torch.eye(2, dtype=torch.float64)[k]
            numeric = ((along(h) - along(-h)) / 2e-7).item()
        exact = slope[k].item() if slope is not None else math.nan
        close = abs(exact - numeric) <= 1e-3 * (abs(numeric) + 0.01 * x.numel() ** 0.5)
        require(close, f"the gradient to the {name} is {exact:.5g}, finite differences say {numeric:.5g}")


def _points(transform: Transform, v: Tensor, size: Size) -> None:
    """The middle of a spot moves where `act_points` sends it, to a fraction of a pixel and what space bends there."""
    size, axes, width = [4 * n for n in size], len(size), 0.05
    centre = torch.tensor([[0.21, -0.13]], dtype=torch.float64)[:, :axes].expand(len(v), -1)
    ends = width * torch.cat([share * torch.eye(axes, dtype=torch.float64) for share in (0.5, 1, 2)])
    g, p = transform.element(v), torch.stack([centre + end for end in (0 * ends[0], *ends, *-ends)], 1)
    spot = blob(size, centre, width)
    # Against what becomes of black, which a change of colours may make bright.
    where, whole = middle((transform.act(g, spot) - transform.act(g, 0 * spot)).abs().sum(1))
    moved = transform.act_points(g, p, size)
    shape = tuple(transform.act_points(g.expand(4, *g.shape), p, size).shape)
    require(shape == (4, *p.shape), f"act_points gave a result of shape {shape}")
    require(moved.isfinite().all(), "act_points gave numbers that are not finite")
    ahead, behind = moved[:, 1:].chunk(2, 1)
    expected, bend = moved[:, 0], (ahead + behind) / 2 - moved[:, :1]
    inside = within(expected, size) & remain(transform, g, p, size).all(-1)
    require(inside.any(), "no point stayed inside the frame: draw smaller coordinates")
    nearest = "nearest" in interpolations(transform)
    # The nearest pixel is up to half of one away, small spots are measured less well, and bends at a few places only.
    shrunk = torch.linalg.svdvals((ahead - behind)[:, :axes] / width)[:, -1].clamp(1e-3, 0.7)
    fine = 0.07 / shrunk + 0.5 * nearest + 1.5 * bend.abs().amax((1, 2)) * max(size) / 2
    off = (where - expected).abs().amax(-1) * max(size) / 2
    ok = off < torch.where(whole, fine, 5.0)
    require(ok[inside].all(), f"points do not move with the content: off by {off[inside].max().item():.2f} pixels")


def _inverse(transform: Transform, v: Tensor, x: Tensor, tolerance: float) -> None:
    g = transform.element(v)
    if not transform.invertible:
        _raises(lambda: transform.inverse(g), "inverse of a transform that is not invertible")
        return
    p = torch.tensor([[0.1, 0.2], [-0.3, 0.15]], dtype=torch.float64)[:, : x.ndim - 2].expand(len(x), -1, -1)
    size = x.shape[2:]
    back = transform.act_points(transform.inverse(g), transform.act_points(g, p, size), size)
    require(gap(back, p) < tolerance, f"points there and back are off by {gap(back, p):.1e}")
    x = texture([2 * n for n in size], len(x))  # interpolation alone loses a quarter of a smaller one
    size, p = x.shape[2:], positions(x.shape[2:]).flatten(0, -2).expand(len(x), -1, -1)
    kept = within(transform.act_points(g, p, size), size) & remain(transform, g, p, size)
    moved = transform.act(g, x)
    if any(getattr(part, "levels", False) for part in transform.modules()):
        moved = moved.clamp(0, 1)  # cubics overshoot
    restored = transform.act(transform.inverse(g), moved)
    off, whole = ((kept * part.abs().sum(1).flatten(1)).sum() for part in (restored - x, x))
    error = off / whole.clamp_min(1e-9)
    require(error < 0.25, f"a signal there and back differs by {100 * error:.0f} %")


def _types(transform: Transform, v: Tensor, x: Tensor) -> None:
    exact = transform(x, v)
    single = copy.deepcopy(transform).float()(x.float(), v.float())
    require(single.dtype == torch.float32, f"float32 came back as {single.dtype}")
    error = (single - exact).abs().mean().item()
    require(error < 1e-4 + ties(transform, x), f"float32 differs from float64 by {error:.1e} on average")
    levels = (255 * x).round()
    eight = transform(levels.to(torch.uint8), v)
    if transform.acts_on == "positions" and set(interpolations(transform)) == {"nearest"}:
        require(eight.dtype == torch.uint8, f"nearest neighbours made {eight.dtype} of uint8")
        return
    require(eight.is_floating_point(), f"uint8 came back as {eight.dtype}")
    require(gap(eight, transform(levels / 255, v)) < 1e-9, "uint8 is not read as levels of 1/255")


def _refuses(transform: Transform, v: Tensor, x: Tensor) -> None:
    _raises(lambda: transform(x, torch.cat((v, v[:, :1]), 1)), "coordinates with one column too many")
    _raises(lambda: transform(x, v[0]), "coordinates without a batch dimension")
    _raises(lambda: transform(x, v * math.nan), "coordinates that are NaN")
    _raises(lambda: transform(x, v[:1].expand(len(x) + 1, -1)), "more coordinates than inputs")
    _raises(lambda: transform(x[0, 0], v), "a signal without batch and channels")
    _raises(lambda: transform(x, v.float()), "float32 coordinates for a float64 signal")


def _raises(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except ValueError:
        return
    except Exception as error:
        raise AssertionError(f"{what}: raised {type(error).__name__}, not a ValueError") from error
    raise AssertionError(f"{what}: accepted, but it should be a ValueError")


def check_group(
    group: Group, *, v: Tensor | None = None, size: Size | None = None, seed: int = 0, order: float = 1.5
) -> None:
    """Checks the group axioms on elements, the logarithm, and that the action is a homomorphism.

    On points the homomorphism is exact; on signals the error must vanish, stay below what interpolation explains, or
    fall at least as the given power of the pixel size.

    Args:
        group: an instance.
        v: coordinates of three elements to try, `(3, d)`; drawn from the bounds if None.
        size: `(H, W)` of images that it accepts, or `(L,)` of series; 24 each if None.
        seed: of the coordinates that are drawn.
        order: the least order of convergence. Bilinear interpolation and splines have 2; torch's bicubic only 1, since
            with a = −0.75 it does not reproduce straight lines.

    Raises:
        AssertionError: with what is wrong.
    """
    require(isinstance(group, Group), f"{type(group).__name__} is not a Group")
    require(group.invertible, "a group is invertible; this one says that it is not")
    group = unfilled(group)
    generator = seeds.generator(seed)
    v = draw(group, (3,), 0.25, generator) if v is None else v.double()
    require(len(v) == 3, f"v has {len(v)} rows, not 3: the coordinates of three elements")
    g = group.element(v)
    _axioms(group, g)
    _logarithm(group, v, g)
    _homomorphism(group, g[:1], g[1:2], sized(size, group), order)


def _axioms(group: Group, g: Tensor) -> None:
    identity = group.identity()
    require(tuple(identity.shape) == group.element_shape, f"the identity has shape {tuple(identity.shape)}")
    scale = 1 + float(g.abs().max())

    def same(a: Tensor, b: Tensor, what: str) -> None:
        require(gap(a, b) <= 1e-10 * scale**3, f"{what}: off by {gap(a, b):.1e}")

    same(group.element(group.origin.expand(1, -1))[0], identity, "the origin is not the identity")
    same(group.compose(identity.expand_as(g), g), g, "e∘g is not g")
    same(group.compose(g, identity.expand_as(g)), g, "g∘e is not g")
    same(group.compose(g, group.inverse(g)), identity.expand_as(g), "g∘g⁻¹ is not e")
    same(group.compose(group.inverse(g), g), identity.expand_as(g), "g⁻¹∘g is not e")
    a, b, c = g
    left, right = group.compose(group.compose(a, b), c), group.compose(a, group.compose(b, c))
    same(left, right, "composition is not associative")


def _logarithm(group: Group, v: Tensor, g: Tensor) -> None:
    error = gap(group.element(group.element_log(g)), g)
    require(error <= 1e-9 * (1 + float(g.abs().max())), f"element(element_log(g)) is not g: off by {error:.1e}")
    error = gap(group.element_log(g), v)
    require(error <= 1e-8, f"element_log(element(v)) is not v: off by {error:.1e}")


def _homomorphism(group: Group, g: Tensor, h: Tensor, size: Size, order: float) -> None:
    p = torch.tensor([[[0.1, 0.2], [-0.3, 0.15]]], dtype=torch.float64)[..., : len(size)]
    both, turns = (
        group.act_points(group.compose(g, h), p, size),
        group.act_points(g, group.act_points(h, p, size), size),
    )
    require(gap(both, turns) < 1e-9, f"points: act(g∘h) is not act(g) after act(h): off by {gap(both, turns):.1e}")

    def error(x: Tensor) -> Tensor:
        return group.act(group.compose(g, h), x) - group.act(g, group.act(h, x))

    if "nearest" in interpolations(group):
        size = [2 * n for n in size]  # rounding hides more
    _vanishes(group, error, size, "signals: act(g∘h) is not act(g) after act(h)", order)


def _vanishes(group: Group, error: Callable[[Tensor], Tensor], size: Size, what: str, least: float = 1.5) -> None:
    """Requires that an error vanishes, or falls at least as this power of the pixel size.

    Where the content moves by about a pixel or less, the error depends on the fraction of a pixel more than on the
    size of one. It need not fall while it stays below what interpolation explains: an eighth of the second differences
    of the signal for each of three warps, and the first differences where not even straight lines are reproduced.
    """
    signals = [texture([k * n for n in size], 1) for k in (2, 4)]
    coarse, fine = (error(x).abs().mean().item() for x in signals)
    order = math.log2(coarse / fine) if coarse > 0 and fine > 0 else math.inf if fine == 0 else -math.inf
    slope, bend = (differences(signals[1], n) for n in (1, 2))
    apart = max((APART.get(kind, 0.0) for kind in interpolations(group)), default=0.0)
    ok = fine < 1e-12 or order > least or fine < apart * slope + 3 / 8 * bend
    require(ok, f"{what}: off by {coarse:.1e}, and by {fine:.1e} with pixels half as large (order {order:.1f})")


def check_finite_group(group: FiniteGroup, *, size: Size | None = None) -> None:
    """Checks a finite group: its table, its enumeration, and that averaging over it is invariant.

    Args:
        group: an instance.
        size: `(H, W)` of images that it accepts, or `(L,)` of series; 24 each if None.

    Raises:
        AssertionError: with what is wrong.
    """
    require(isinstance(group, FiniteGroup), f"{type(group).__name__} is not a FiniteGroup")
    group = unfilled(group)
    every = group.elements()
    n = len(every)
    require(len({tuple(e.flatten().tolist()) for e in every}) == n, "elements() repeats an element")
    coordinates = torch.arange(n, dtype=torch.float64)[:, None]
    require(gap(group.element(coordinates), every) == 0, "element(k) is not elements()[k]")
    table = group.compose(every[:, None], every)
    whole = every.sort().values
    latin = all(torch.equal(line.sort().values, whole) for line in (*table, *table.T))
    require(latin, "the table of the group does not hold every element once in each row and column")
    left, right = table[table[:, :, None], every], table[every[:, None, None], table]
    require(torch.equal(left, right), "composition is not associative")
    require(torch.equal(group.compose(every, group.inverse(every)), group.identity().expand(n)), "g∘g⁻¹ is not e")

    def product(x: Tensor) -> Tensor:
        images = group.act(every[:, None], x)
        turns = torch.stack([group.act(every[:, None], image) for image in images], 1)
        return turns - images[table]

    def average(x: Tensor) -> Tensor:
        mean = group.act(every[:, None], x).mean(0)
        return group.act(every[:, None], mean) - mean

    _vanishes(group, product, sized(size, group), "act(g∘h) is not act(g) after act(h)")
    _vanishes(group, average, sized(size, group), "the average over the group is not invariant")
