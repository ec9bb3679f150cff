"""Glyphs: two figures drawn in code, each upright or upside down, turned at random within known arcs.

The geometry is that of the Mario-Iggy set (LTT section 4, after Benton et al. 2020), whose pictures are other people's:
four classes, two figures × upright or upside down, every sample turned away from its class prototype by at most
`spread`. No rotation maps a figure to itself or to the other one, so that the invariance of each sample is known
exactly: it may be turned until it reaches the arcs of the other class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..distributions.circle import wrap
from ..transforms import Affine, warp
from ..utils.seeds import generator
from ..utils.shapes import check_count, describe
from .drawing import Layer, circle, ellipse, gradient, paint, polygon, rgb, segment, union
from .sets import PosedSet

__all__ = ["figures", "from_prototype", "glyphs", "nearest"]

FINE = 256  # pixels along a side of the figures as they are drawn
CHUNK = 1024  # samples turned at once, to bound memory
NAMES = ("parrot", "snail")


def _parrot(x: Tensor, y: Tensor) -> Iterator[Layer]:
    """Looks to the right; red and blue, with a yellow beak and a green tail."""
    for foot in (-0.06, 0.20):
        yield Layer(segment(x, y, ((foot, 0.45), (foot + 0.03, 0.78)), 0.09), rgb("f28c28"))
        yield Layer(segment(x, y, ((foot - 0.05, 0.80), (foot + 0.16, 0.80)), 0.09), rgb("f28c28"))
    yield Layer(polygon(x, y, ((-0.30, 0.10), (-0.05, 0.42), (-0.66, 0.62), (-0.80, 0.38))), rgb("1fa84f"))
    yield Layer(polygon(x, y, ((-0.40, 0.36), (-0.20, 0.46), (-0.62, 0.68), (-0.70, 0.56))), rgb("f5d327"))
    for top in ((0.02, -0.86), (-0.14, -0.72), (-0.16, -0.52)):
        yield Layer(polygon(x, y, (top, (0.34, -0.58), (0.14, -0.38))), rgb("f5d327"))
    yield Layer(ellipse(x, y, (0.02, 0.12), (0.52, 0.38), 0.75), gradient(y, (-0.3, "f0383a"), (0.5, "c81e3c")))
    yield Layer(circle(x, y, (0.30, -0.42), 0.29), rgb("f0383a"))
    yield Layer(polygon(x, y, ((0.50, -0.60), (0.88, -0.34), (0.80, -0.12), (0.50, -0.26))), rgb("ffc928"))
    yield Layer(polygon(x, y, ((0.50, -0.30), (0.76, -0.20), (0.54, -0.14))), rgb("b56a12"))
    yield Layer(circle(x, y, (0.36, -0.46), 0.135), rgb("ffffff"))
    yield Layer(circle(x, y, (0.40, -0.45), 0.07), rgb("10131c"))
    wing = ellipse(x, y, (-0.14, 0.16), (0.40, 0.21), 0.75)
    yield Layer(wing, gradient(y, (-0.2, "36b5f5"), (0.5, "1747b8")))


def _snail(x: Tensor, y: Tensor) -> Iterator[Layer]:
    """Looks to the left; green, with a pink and violet shell."""
    x, y = x / 0.88 + 0.04, y / 0.88
    for eye in ((-0.80, -0.42), (-0.44, -0.52)):
        yield Layer(segment(x, y, ((-0.60, 0.06), eye), 0.085), rgb("8fd14a"))
        yield Layer(circle(x, y, eye, 0.125), rgb("ffffff"))
        yield Layer(circle(x, y, (eye[0] - 0.03, eye[1]), 0.06), rgb("10131c"))
    foot = segment(x, y, ((-0.56, 0.56), (0.30, 0.60)), 0.30)
    tail = polygon(x, y, ((0.20, 0.44), (0.88, 0.70), (0.20, 0.75)))
    neck = segment(x, y, ((-0.58, 0.12), (-0.54, 0.54)), 0.32)
    yield Layer(union(foot, tail, neck), gradient(y, (0.0, "a6e05a"), (0.75, "5fae2e")))
    yield Layer(segment(x, y, ((-0.72, 0.20), (-0.60, 0.23)), 0.05), rgb("2c5a18"))
    dx, dy = x - 0.16, y - 0.02
    radius = torch.hypot(dx, dy)
    shell = radius - 0.56
    yield Layer(shell, gradient(x, (-0.4, "ff9ad0"), (0.7, "d6399a")))
    winding = radius / 0.25 - torch.atan2(dy, dx) / (2 * math.pi)
    groove = ((winding - winding.round()).abs() - 0.20) * 0.25
    yield Layer(torch.maximum(groove, shell), rgb("5b2a9d"))


@cache
def _drawn() -> Tensor:
    samples = 2
    n = FINE * samples
    x = (torch.arange(n, dtype=torch.float64) - (n - 1) / 2) * (2 / n)
    both = torch.stack([paint(figure(x, x[:, None]), (n, n), edge=2 / n) for figure in (_parrot, _snail)])
    return F.avg_pool2d(both, samples).clamp(0, 1)


def figures() -> Tensor:
    """The two figures, upright on black: a parrot that looks to the right and a snail that looks to the left.

    Each lies within the circle that the frame encloses, so that no rotation cuts it.

    Shape:
        result: `(2, 3, 256, 256)`, in torch's default type, within [0, 1].
    """
    return _drawn().to(torch.get_default_dtype())


def _image(figure: object, place: int) -> Tensor:
    """A figure of the user's as `(3, H, W)` in [0, 1]: a tensor, or anything that numpy reads as `(H, W, 3)`."""
    accepted = "an RGB image: a tensor (3, H, W), or a picture or array (H, W, 3), in uint8 or within [0, 1]"
    try:
        image = figure if isinstance(figure, Tensor) else torch.as_tensor(np.array(figure)).movedim(-1, 0)
        image = image.to(torch.float64) / 255 if image.dtype == torch.uint8 else image.to(torch.float64)
    except (IndexError, RuntimeError, TypeError, ValueError):
        raise ValueError(f"figures[{place}]: received {type(figure).__name__}; accepted is {accepted}") from None
    ok = image.ndim == 3 and len(image) == 3 and image.numel() > 0
    if not ok or not bool(((image >= 0) & (image <= 1)).all()):
        raise ValueError(f"figures[{place}]: received {describe(image)} as read; accepted is {accepted}")
    return image.cpu()


def _smoothed(image: Tensor, size: int) -> Tensor:
    """The figure without what `size` pixels cannot show, by a Gaussian, which commutes with every rotation."""
    sigma = (max(image.shape[1:]) / size - 1) / 2
    if sigma <= 0:
        return image
    reach = math.ceil(4 * sigma)
    t = torch.arange(-reach, reach + 1, dtype=image.dtype)
    kernel = torch.exp(-(t / sigma).square() / 2)
    kernel = (kernel / kernel.sum()).expand(3, 1, 1, -1)
    rows = F.conv2d(image[None], kernel, padding=(0, reach), groups=3)
    return F.conv2d(rows, kernel.mT, padding=(reach, 0), groups=3)[0].clamp(0, 1)


def _turned(image: Tensor, angle: Tensor, size: int) -> Tensor:
    """A fine figure, turned and read at the centres of `size` × `size` pixels: `(N, 3, size, size)`, uint8."""
    rotate = Affine("angle").to(image)
    source = _smoothed(image, size)[None]
    out = torch.empty(len(angle), 3, size, size, dtype=torch.uint8)
    for part, v in zip(out.split(CHUNK), angle.to(image.dtype).split(CHUNK), strict=True):
        grid = rotate.grid(rotate.element(v[:, None, None]), (size, size))
        part.copy_((warp(source, grid)[:, 0] * 255).round())
    return out


def _angles(flipped: Tensor, spread: float, modes: int, chance: torch.Generator) -> Tensor:
    """Angles of samples: a class has `modes` arcs of half-width `spread`, the other class's lie half-way between."""
    n = len(flipped)
    mode = torch.randint(modes, (n,), generator=chance)
    within = spread * (2 * torch.rand(n, generator=chance, dtype=torch.float64) - 1)
    return wrap(within + (2 * mode + flipped) * (math.pi / modes))


def glyphs(
    n: int = 12_000,
    *,
    spread: float | None = None,
    modes: int = 1,
    seed: int = 0,
    size: int = 32,
    figures: Sequence[object] | None = None,
) -> PosedSet:
    r"""Glyphs: figures turned by $U(-s, s) + 2 \pi k / m$, those upside down by $\pi / m$ more, k uniform below m.

    With one mode the two classes of a figure are upright and upside down. With an odd number of modes a further
    $\pi / m$ is a half turn, up to the choice of k: the published three-mode set has $m = 3$ and $s = \pi / 6$.

    Args:
        n: the number of samples; classes differ by at most one.
        spread: s in radians, at most π/(2m), where the arcs of the classes touch. If not given, π/4 for one mode and
            π/(2m) for several.
        modes: m, the number of arcs of each class.
        seed: of classes and angles.
        size: pixels along each side.
        figures: a pair of RGB images in place of ours: tensors `(3, H, W)`, pictures or arrays `(H, W, 3)`. No rotation
            should map one to itself or to the other.

    Returns:
        The set, with the true angle of each sample. Labels: 0 and 1 the first figure, 2 and 3 the second; odd: upside
        down.

    Shape:
        x: `(n, 3, size, size)`, uint8; angle: `(n,)`.

    Example:
        >>> data = glyphs(8, spread=math.pi / 2)
        >>> data
        PosedSet 'glyphs': 8 of (3, 32, 32), uint8, 4 classes
        >>> data.classes
        ('parrot', 'parrot, upside down', 'snail', 'snail, upside down')
    """
    for name, count in (("n", n), ("modes", modes), ("size", size)):
        check_count(name, count)
    widest = math.pi / (2 * modes)
    if spread is None:
        spread = math.pi / 4 if modes == 1 else widest
    if not isinstance(spread, int | float) or not 0 <= spread <= widest * (1 + 1e-9):
        raise ValueError(f"spread: received {spread!r}; accepted is 0 to {widest:.4f} radians, where the classes touch")
    if figures is not None and len(figures) != 2:
        raise ValueError(f"figures: received {len(figures)}; accepted are two")
    pair = list(_drawn()) if figures is None else [_image(figure, i) for i, figure in enumerate(figures)]
    chance = generator(seed)
    y = torch.randperm(n, generator=chance) % 4
    angle = _angles(y % 2, spread, modes, chance)
    x = torch.empty(n, 3, size, size, dtype=torch.uint8)
    for i, image in enumerate(pair):
        x[y // 2 == i] = _turned(image, angle[y // 2 == i], size)
    names = NAMES if figures is None else ("first", "second")
    classes = tuple(f"{name}{flip}" for name in names for flip in ("", ", upside down"))
    return PosedSet(x, y, classes, "glyphs", angle.to(torch.get_default_dtype()))


def from_prototype(data: PosedSet, modes: int = 1) -> Tensor:
    """The angle of each glyph from the prototype of its class, in [-π, π), `(N,)`; every other class is upside down."""
    return wrap(data.angle - (data.y % 2) * (math.pi / modes))


def nearest(data: PosedSet, labels: Sequence[int], angles: Sequence[float]) -> PosedSet:
    """For each pair of a class and an angle from its prototype, in radians, the glyph that is nearest to it."""
    far = (from_prototype(data) - torch.tensor(angles).to(data.angle)[:, None]).abs()
    return data.subset(far.where(data.y == torch.tensor(labels)[:, None], math.inf).argmin(1))
