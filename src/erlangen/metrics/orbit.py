r"""Which transformed copies an input is compared with, and how much of a change is caused by resampling alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from ..distributions import Conditional
from ..transforms import FiniteGroup, Transform
from ..transforms.spatial import pixel_centres
from ..transforms.warp import as_signal
from ..utils.shapes import check_count, check_kind, check_tensor, compute_dtype, describe

__all__ = ["Batch", "Orbit", "as_orbit", "inscribed_disc", "there_and_back"]

CHUNK = 256  # inputs that a conditional sees at a time: not `batch_size`, on which the draws would then depend


class Batch(NamedTuple):
    """Some inputs, and the elements that move them.

    Attributes:
        rows: which of all inputs.
        x: the inputs, `(b, C, H, W)` or `(b, C, L)`.
        elements: parts of the orbit, `(S', b, *element_shape)` each.
    """

    rows: slice
    x: Tensor
    elements: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Orbit:
    r"""A transform with a law over its coordinates: the copies $gx$ that an input is compared with.

    Args:
        transform: what is done to inputs. It acts on them before any normalisation, which belongs into the model.
        law: which of it. None for a finite group: all its elements but the identity, each once. Otherwise a
            `Distribution` over coordinates with event_shape `(d,)` and batch_shape `()` or `(B,)`, or a `Conditional`,
            which is called with the inputs.
        samples: the number of draws per input from the law.
        seed: of these draws, and of whatever else is random while a model is measured.
        disc: whether only the inscribed disc counts: images are zero outside it before and after they are moved, so
            that what a rotation brings in at the corners cannot change a prediction.
        back: whether inputs are moved there and back, $g^{-1} (g x)$, as two warps: see `there_and_back`.
    """

    transform: Transform
    law: Distribution | Conditional | None = None
    samples: int = 16
    seed: int = 0
    disc: bool = False
    back: bool = False

    def __post_init__(self) -> None:
        transform, law = self.transform, self.law
        check_kind("transform", transform, Transform)
        check_count("samples", self.samples)
        if law is None and (not isinstance(transform, FiniteGroup) or len(transform) < 2):
            got = f"None for {type(transform).__name__}"
            raise ValueError(f"law: received {got}; accepted is None only for a finite group of two elements or more")
        d = transform.features
        over = law.features if isinstance(law, Conditional) else None
        over = law.event_shape.numel() if isinstance(law, Distribution) and len(law.event_shape) == 1 else over
        if law is not None and over != d:
            accepted = (
                f"a Conditional over {d} coordinates, or a Distribution with event_shape ({d},) (see Independent)"
            )
            raise ValueError(f"law: received {describe(law)}; accepted is {accepted}")
        if self.back:
            self.check_invertible()

    def check_invertible(self) -> None:
        """Raises a `ValueError` unless what is done can be undone."""
        if not self.transform.invertible:
            got = type(self.transform).__name__
            raise ValueError(f"orbit: received {got}, which is not invertible; accepted is an invertible transform")

    def elements(self, x: Tensor) -> Tensor:
        """The elements for each input; those of a law are drawn from the global generators.

        Shape:
            x: `(B, C, H, W)` or `(B, C, L)`; result: `(S, B, *element_shape)`.
        """
        if isinstance(self.transform, FiniteGroup) and self.law is None:
            return self.transform.elements()[1:, None].expand(-1, len(x))
        dtype = compute_dtype(x if x.is_floating_point() else self.transform.bounds)
        return self.transform.element(self._draw(x).to(dtype))

    def _draw(self, x: Tensor) -> Tensor:
        """Coordinates from the law, `(S, B, d)`."""
        shape = torch.Size([self.samples])
        if isinstance(self.law, Conditional):
            return torch.cat([self.law(self.frame(part)).sample(shape) for part in x.split(CHUNK)], 1)
        law = self.law
        if not isinstance(law, Distribution) or tuple(law.batch_shape) not in ((), (len(x),)):
            shapes = f"() or ({len(x)},)"
            raise ValueError(f"law: received {describe(law)} for {len(x)} inputs; accepted is batch_shape {shapes}")
        return law.sample(shape if law.batch_shape else torch.Size([self.samples, len(x)]))

    def batches(self, x: Tensor, batch_size: int) -> Iterator[Batch]:
        """Inputs with their elements, in parts such that there are at most `batch_size` copies of inputs in one."""
        check_count("batch_size", batch_size)
        g = self.elements(x)
        for start in range(0, len(x), batch_size):
            rows = slice(start, min(start + batch_size, len(x)))
            many = max(1, batch_size // (rows.stop - rows.start))
            yield Batch(rows, self.frame(x[rows]), g[:, rows].split(many))

    def frame(self, x: Tensor) -> Tensor:
        """Inputs as they are compared: bytes in [0, 1], and zero outside the disc if only that counts."""
        x = as_signal(x, "bilinear", self.transform.bounds)
        return x * inscribed_disc(x) if self.disc else x

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """The copies of framed inputs, `(S, b, *element_shape)` and `(b, ...)` to `(S, b, ...)`."""
        moved = self.transform.act(g, x)
        moved = self._each(self.transform.inverse(g), moved) if self.back else moved
        return moved * inscribed_disc(moved) if self.disc else moved

    def realign(self, g: Tensor, maps: Tensor) -> Tensor:
        r"""Maps of copies brought back to where the inputs are, $g^{-1} m$; a change of colours moves no map.

        There and back, $(g^{-1} g)^{-1} m = g^{-1} (g m)$.

        Shape:
            g: `(S, b, *element_shape)`; maps: `(S, b, 1, H, W)` or `(S, b, 1, L)`; result: as maps.
        """
        if self.transform.acts_on == "positions":
            maps = self._linear(g, maps) if self.back else maps
            maps = self._linear(self.transform.inverse(g), maps)
        return maps * inscribed_disc(maps) if self.disc else maps

    def _linear(self, g: Tensor, maps: Tensor) -> Tensor:
        """The action without what it fills in from outside, which is no part of a map."""
        return self._each(g, maps) - self._each(g, torch.zeros_like(maps))

    def _each(self, g: Tensor, moved: Tensor) -> Tensor:
        """One element for each copy: `(S, b, *element_shape)` acts on `(S, b, ...)`."""
        return self.transform.act(g.flatten(0, 1), moved.flatten(0, 1)).unflatten(0, moved.shape[:2])


def as_orbit(orbit: Orbit | FiniteGroup) -> Orbit:
    """An orbit; that of a finite group if it is one."""
    if isinstance(orbit, FiniteGroup):
        return Orbit(orbit)
    if not isinstance(orbit, Orbit):
        raise ValueError(f"orbit: received {describe(orbit)}; accepted is an Orbit, or a FiniteGroup for all of it")
    return orbit


def there_and_back(orbit: Orbit | FiniteGroup) -> Orbit:
    r"""The null control of a measurement: the same draws, but inputs are moved by $g^{-1} g$, as two warps.

    Nothing but resampling, and what leaves the frame on the way, is left: a metric that changes as much under this
    orbit as under the given one has measured interpolation. Two warps blur more than the one of the measurement (and
    saliency maps are moved there and back too), so this rather overstates the part of resampling. Under a group that
    moves pixels to pixels it is exactly nothing.

    Example:
        >>> from erlangen.transforms import Rotations
        >>> x = torch.rand(2, 1, 6, 6)
        >>> null = there_and_back(Rotations(4))
        >>> torch.equal(null.act(null.elements(x), x), x.expand(3, -1, -1, -1, -1))
        True
    """
    return replace(as_orbit(orbit), back=True)


def inscribed_disc(x: Tensor) -> Tensor:
    """One at the pixels of images whose centres lie in the inscribed disc, zero at the others.

    Shape:
        x: `(..., H, W)`, with the batch and the channels before; result: `(H, W)`.
    """
    check_tensor("x", x, "images (B, C, H, W): a series has no disc", x.ndim >= 4)
    height, width = x.shape[-2:]
    columns, rows = pixel_centres((height, width), x)
    inside = rows[:, None].square() + columns.square() <= (min(height, width) / max(height, width)) ** 2
    return inside.to(x.dtype)
