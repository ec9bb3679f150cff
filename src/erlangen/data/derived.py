"""Sets made from other sets: with a long tail of rare classes, and turned."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch

from ..distributions.circle import wrap
from ..transforms import HSV, Affine
from ..utils.seeds import generator
from ..utils.shapes import check_count, describe
from .sets import DataSet, FactoredSet, PosedSet, check_images

__all__ = ["coloured", "long_tail", "long_tail_counts", "rotated"]

CHUNK = 1024  # images turned at once, to bound memory


def long_tail_counts(largest: int, classes: int, factor: float = 0.1) -> list[int]:
    r"""The sizes of the classes in a long tail, $n_c = \lfloor n_0\, f^{c / (K - 1)} \rfloor$.

    Args:
        largest: $n_0$.
        classes: K.
        factor: f, how many times as large the last class is as the first.

    Example:
        >>> long_tail_counts(5000, 10)
        [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500]
    """
    check_count("largest", largest)
    if not isinstance(factor, int | float) or not 0 < factor <= 1:
        raise ValueError(f"factor: received {factor!r}; accepted is a number above 0, at most 1")
    # Rounding must not take one from what is a whole number: 49 times 1/49 is a little less than 1.
    counts = [int(largest * factor ** (c / max(classes - 1, 1)) + 1e-9) for c in range(classes)]
    if 0 in counts:
        raise ValueError(
            f"factor: received {factor!r}, which leaves the last class empty; accepted is 1/{largest} or more"
        )
    return counts


def long_tail(data: DataSet, factor: float = 0.1, *, largest: int | None = None) -> DataSet:
    """The first signals of each class, fewer from class to class (see `long_tail_counts`), in the order of the set.

    CIFAR10-LT of LTT is `long_tail(cifar10())`: 20,431 pictures, and the whole test set. Nothing is drawn at random.

    Args:
        data: the set.
        factor: how many times as large the last class is as the first.
        largest: the size of the first class; that of the smallest class of the set if not given.
    """
    have = data.counts()
    counts = long_tail_counts(min(have) if largest is None else largest, len(have), factor)
    if short := [f"{data.classes[c]!r} has {n}, not {counts[c]}" for c, n in enumerate(have) if n < counts[c]]:
        raise ValueError(f"largest: received {largest}, but {', '.join(short)}; accepted is what every class can fill")
    y = data.y.cpu()
    keep = torch.zeros(len(y), dtype=torch.bool)
    for c, n in enumerate(counts):
        keep[(y == c).nonzero().flatten()[:n]] = True
    return data.subset(keep.to(data.y.device), name=f"{data.name}-lt")


def rotated(data: DataSet, spread: float = math.pi, *, seed: int) -> PosedSet:
    """The set with every image turned by an angle of its own, uniform within ±`spread`; outside the frame is black.

    Args:
        data: images.
        spread: in radians, at most π.
        seed: of the angles.

    Returns:
        The set, with the angle of each image: of a set that was turned before, the sum.
    """
    check_images("data", data)
    if not isinstance(spread, int | float) or not 0 <= spread <= math.pi:
        raise ValueError(f"spread: received {spread!r}; accepted is a number from 0 to π, in radians")
    chance = generator(seed)
    angle = spread * (2 * torch.rand(len(data), generator=chance, dtype=torch.float64) - 1)
    angle = angle.to(device=data.x.device, dtype=torch.get_default_dtype())
    rotate = Affine("angle").to(angle)
    x = torch.empty_like(data.x)
    for place, image, v in zip(x.split(CHUNK), data.x.split(CHUNK), angle.split(CHUNK), strict=True):
        turned = rotate(image if image.dtype == torch.uint8 else image.to(angle.dtype), v[:, None])
        place.copy_((turned * 255).round() if x.dtype == torch.uint8 else turned)
    total = angle + data.angle if isinstance(data, PosedSet) else angle
    return PosedSet(x, data.y, data.classes, f"{data.name}-rotated", wrap(total))


def coloured(
    data: DataSet,
    *,
    hue: tuple[float, float] = (0.0, 0.6 * math.pi),
    saturation: tuple[float, float] = (0.6, 0.9),
    seed: int,
) -> FactoredSet:
    """Grey images in one colour each: red, its hue turned and its saturation lowered at random (SGM section 4).

    Args:
        data: grey images.
        hue: the range of the hue that is added, in radians.
        saturation: the range of the factor of the saturation, above 0 and at most 1.
        seed: of both.

    Returns:
        The set, with the hue in radians and the saturation of each image.

    Shape:
        x: `(N, 3, H, W)`, as the images of `data` are.
    """
    check_images("data", data)
    if data.x.shape[1] != 1:
        raise ValueError(f"data: received {data!r}; accepted are grey images, of one channel")
    _check_ends("hue", hue, -math.inf, "two finite numbers, low <= high")
    _check_ends("saturation", saturation, 0.0, "two numbers, low <= high, above 0 and at most 1", 1.0)
    ends = torch.tensor((hue, saturation), dtype=torch.float64)
    u = torch.rand(len(data), 2, generator=generator(seed), dtype=torch.float64)
    factors = ends[:, 0] + (ends[:, 1] - ends[:, 0]) * u
    v = torch.stack((factors[:, 0] / (2 * math.pi), factors[:, 1].log()), -1).to(torch.get_default_dtype())
    tint, v = HSV("hue", "saturation").to(data.x.device), v.to(data.x.device)
    x = data.x.new_zeros(len(data), 3, *data.x.shape[2:])
    for place, image, turn in zip(x.split(CHUNK), data.x.split(CHUNK), v.split(CHUNK), strict=True):
        image = image / 255 if image.dtype == torch.uint8 else image
        red = torch.cat((image, torch.zeros_like(image).expand(-1, 2, -1, -1)), 1).to(v.dtype)
        made = tint(red, turn)
        place.copy_((made * 255).round() if x.dtype == torch.uint8 else made)
    names = ("hue", "saturation")
    return FactoredSet(x, data.y, data.classes, f"{data.name}-coloured", factors.to(v), names)


def _check_ends(name: str, ends: Any, above: float, accepted: str, most: float = math.inf) -> None:
    pair = isinstance(ends, tuple | list) and len(ends) == 2
    if not pair or not all(isinstance(end, Real) and math.isfinite(end) for end in ends):
        raise ValueError(f"{name}: received {describe(ends)}; accepted is {accepted}")
    low, high = ends
    if not above < low <= high <= most:
        raise ValueError(f"{name}: received {(low, high)}; accepted is {accepted}")
