r"""Transformations at growing strength: what is done to images, how much of it, and how to say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Distribution, constraints

from ..metrics import Orbit
from ..transforms import HSV, Affine, Flips, Transform
from ..transforms.warp import as_signal
from ..utils.shapes import describe

__all__ = ["LADDERS", "Blur", "Each", "Ladder", "Step", "ladders_of"]


class Each(Distribution):
    """A law that gives each of its points once, in order: all draws together are all points, so nothing is random.

    Args:
        points: coordinates.

    Shape:
        points: `(S, d)`.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}  # nothing to check

    def __init__(self, points: Tensor) -> None:
        self.points = points
        super().__init__(torch.Size(), points.shape[1:], validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """The points for every input, `(S, B)` to `(S, B, d)`."""
        many, inputs = sample_shape
        if many != len(self.points):
            raise ValueError(f"samples: received {many}; accepted is {len(self.points)}, the number of points")
        return self.points[:, None].expand(-1, inputs, -1)


class Blur(Transform):
    r"""A Gaussian filter of standard deviation $\sigma$ pixels; at the border pixels repeat. It cannot be undone.

    Shape:
        x: `(B, C, H, W)`; v and elements: `(*S, B, 1)`.
    """

    element_shape = (1,)
    acts_on = "detail"

    def __init__(self) -> None:
        bounds = torch.tensor([[0.0], [4.0]], dtype=torch.float64)
        super().__init__(("sigma",), bounds, supports=(constraints.nonnegative,))

    def element(self, v: Tensor) -> Tensor:
        """The standard deviation itself."""
        return self.coordinates(v)

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Filters along rows, then along columns, with a kernel of three standard deviations to either side."""
        g, x = self.elements_like(g), as_signal(x, "bilinear", g)
        reach = math.ceil(3 * float(g.max()))
        place = torch.arange(-reach, reach + 1, dtype=g.dtype, device=g.device)
        kernel = (-(place / g.clamp_min(1e-3)).square() / 2).softmax(-1)
        # As matrices: windows of all pixels would be copied, as many times the images as the kernel is long.
        rows = torch.einsum("bchw,...bvw->...bchv", x, _filter(kernel, x.shape[-1]))
        return torch.einsum("...bchw,...bgh->...bcgw", rows, _filter(kernel, x.shape[-2]))


def _filter(kernel: Tensor, n: int) -> Tensor:
    """The matrix of a filter of n pixels, of which the first and the last repeat outside.

    Shape:
        kernel: `(..., 2 r + 1)`; result: `(..., n, n)`.
    """
    reach = kernel.shape[-1] // 2
    wide = F.pad(kernel, (n - 1, n - 1)).unfold(-1, n + 2 * reach, 1).flip(-2)
    if n == 1:
        return wide.sum(-1, keepdim=True)
    before, inside, after = wide.split((reach + 1, n - 2, reach + 1), -1)
    return torch.cat((before.sum(-1, keepdim=True), inside, after.sum(-1, keepdim=True)), -1)


@dataclass(frozen=True)
class Step:
    """One strength of one transformation.

    Attributes:
        transform: the name of the transformation.
        strength: how much of it, in the unit of its ladder.
        label: the same in words.
        orbit: the copies that images are compared with.
    """

    transform: str
    strength: float
    label: str
    orbit: Orbit


@dataclass(frozen=True)
class Ladder:
    """A transformation and the strengths at which it is measured.

    Args:
        make: makes the transform.
        strengths: growing, in the unit of people: degrees, shares of the side, factors.
        points: from a strength to the coordinates of the copies, both directions of everything; None for all elements
            of a finite group.
        label: how to write a strength.
        colours: whether it needs images in colour.
        least: the smallest strength, for factors, of which both directions are measured.
        most: the greatest strength, as far as single precision and memory go.
    """

    make: Callable[[], Transform]
    strengths: Sequence[float]
    points: Callable[[float], Sequence[Sequence[float]]] | None = None
    label: Callable[[float], str] = str
    colours: bool = False
    least: float = 0.0
    most: float = math.inf

    def steps(self, name: str, like: Tensor, strengths: Sequence[float] | None = None) -> list[Step]:
        """The steps, on the device and in the type of a tensor."""
        transform = self.make().to(like)
        found = []
        for strength in self.strengths if strengths is None else strengths:
            if self.points is None:
                orbit = Orbit(transform)
            else:
                v = torch.tensor(self.points(strength), dtype=like.dtype, device=like.device)
                orbit = Orbit(transform, Each(v), samples=len(v))
            found.append(Step(name, float(strength), self.label(strength), orbit))
        _check_labels(name, found)
        return found


def _check_labels(name: str, steps: Sequence[Step]) -> None:
    """Raises a `ValueError` for strengths that read alike, since audits are compared by their labels."""
    first: dict[str, float] = {}
    for step in steps:
        if step.label in first:
            got = f"{first[step.label]!r} and {step.strength!r}, which both are {step.label!r} in words"
            raise ValueError(f"transforms[{name!r}]: received {got}; accepted are strengths that can be told apart")
        first[step.label] = step.strength


def _both(scale: Callable[[float], float], period: float | None = None) -> Callable[[float], list[list[float]]]:
    """A coordinate in both directions; one of them where they meet, half a period away."""

    def points(strength: float) -> list[list[float]]:
        v = scale(strength)
        meet = period is not None and math.isclose(v, period / 2)
        return [[v]] if meet else [[v], [-v]]

    return points


def _four(share: float) -> list[list[float]]:
    """Right, left, down and up by a share of the longer side, two units long."""
    v = 2 * share
    return [[v, 0.0], [-v, 0.0], [0.0, v], [0.0, -v]]


def _degrees(s: float) -> str:
    return f"{s:g}°"


def _factor(s: float) -> str:
    return f"×{s:g}"


LADDERS: dict[str, Ladder] = {
    "rotation": Ladder(
        lambda: Affine("angle"), (15, 30, 60, 90, 180), _both(math.radians, 2 * math.pi), _degrees, most=360
    ),
    "translation": Ladder(
        lambda: Affine("tx", "ty"), (0.0625, 0.125, 0.25), _four, lambda s: f"{100 * s:.4g} % of the side", most=10
    ),
    "scale": Ladder(lambda: Affine("scale"), (1.1, 1.25, 1.5), _both(math.log), _factor, least=0.05, most=20),
    "shear": Ladder(lambda: Affine("shear"), (0.1, 0.2, 0.4), _both(float), lambda s: f"{s:g}", most=3),
    "flip": Ladder(Flips, (1,), None, lambda s: "left to right"),
    "hue": Ladder(lambda: HSV("hue"), (30, 90, 180), _both(lambda s: s / 360, 1.0), _degrees, True, most=360),
    "saturation": Ladder(
        lambda: HSV("saturation"), (1.25, 1.5, 2), _both(math.log), _factor, True, least=0.0025, most=400
    ),
    "blur": Ladder(Blur, (0.5, 1, 2), lambda s: [[s]], lambda s: f"{s:g} pixel{'' if s == 1 else 's'}", most=100),
}


def ladders_of(
    wanted: Sequence[str] | Mapping[str, Sequence[float] | Ladder | None] | None, x: Tensor
) -> tuple[list[Step], list[str]]:
    """The steps of the transformations that are wanted, and a line for each that the images do not allow.

    Args:
        wanted: names of `LADDERS`, or names with strengths (None for those of the ladder) or ladders of one's own;
            all of them, if None.
        x: the images, `(B, C, H, W)`: their channels decide, and the steps are on their device and of their type.
    """
    if isinstance(wanted, str):
        raise ValueError(f"transforms: received {wanted!r}; accepted are names in a list, or a mapping to strengths")
    asked: Mapping[str, Any] = (
        wanted if isinstance(wanted, Mapping) else dict.fromkeys(LADDERS if wanted is None else wanted)
    )
    steps, notes, grey = [], [], []
    for name, strengths in asked.items():
        ladder = strengths if isinstance(strengths, Ladder) else LADDERS.get(name)
        if ladder is None:
            raise ValueError(f"transforms: received {name!r}; accepted are {', '.join(LADDERS)}, or a Ladder")
        if ladder.colours and x.shape[1] != 3:
            grey.append(name)
            continue
        if isinstance(strengths, Ladder) or strengths is None:
            steps += ladder.steps(name, x)
        else:
            steps += ladder.steps(name, x, _checked(name, strengths))
    if grey:
        notes.append(f"Not measured, since the images have no colours: {', '.join(grey)}.")
    if not steps:
        raise ValueError(
            f"transforms: received {list(asked)} for images of {x.shape[1]} channels; none applies to them"
        )
    return steps, notes


def _checked(name: str, strengths: Sequence[float]) -> Sequence[float]:
    numbers = isinstance(strengths, Sequence) and all(isinstance(s, int | float) for s in strengths)
    if not numbers or not strengths or not all(0 < s < math.inf for s in strengths):
        raise ValueError(f"transforms[{name!r}]: received {describe(strengths)}; accepted are finite numbers > 0")
    least, most = LADDERS[name].least, LADDERS[name].most
    if far := [s for s in strengths if not least <= s <= most]:
        raise ValueError(
            f"transforms[{name!r}]: received {far[0]:g}; accepted are strengths from {least:g} to {most:g}"
        )
    if LADDERS[name].points is None and list(strengths) != list(LADDERS[name].strengths):
        raise ValueError(f"transforms[{name!r}]: received {describe(strengths)}; accepted is none, it has no strengths")
    return sorted(set(strengths))
