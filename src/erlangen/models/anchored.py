r"""Poses that start from moments: where the mass of an image lies and how far it spreads, which need not be learned."""

from __future__ import annotations

import torch
from torch import Tensor

from ..distributions import Conditional, Density
from ..distributions.gaussian import GaussianDensity
from ..transforms import Affine
from ..transforms.spatial import pixel_centres
from ..transforms.warp import as_signal
from ..utils.shapes import check_positive, describe

__all__ = ["Anchored", "moments"]

SCALES = {"scale", "sx", "sy"}


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    r"""The centre of mass of $|x|$, and the root of the mean squared distance from it.

    Affine maps move the centre as they move points, similarities multiply the radius by their scale: exactly, but for
    resampling, while nothing leaves the frame and outside is black. Images without mass have the centre 0, radius 1.

    Shape:
        x: `(B, C, H, W)`; result: `(B, 2)` and `(B,)`.
    """
    mass = x.abs().sum(1)
    total = mass.sum((-1, -2))
    empty = total <= torch.finfo(x.dtype).tiny
    share = mass / torch.where(empty, 1, total)[:, None, None]
    px, py = pixel_centres(tuple(x.shape[2:]), x)
    columns, rows = share.sum(-2), share.sum(-1)
    centre = torch.stack(((columns * px).sum(-1), (rows * py).sum(-1)), -1)
    square = (columns * px.square()).sum(-1) + (rows * py.square()).sum(-1) - centre.square().sum(-1)
    # A single pixel is not a point: it has the spread of a pixel.
    least = (2 / max(x.shape[2:])) ** 2 / 6
    return centre, torch.where(empty, 1, square.clamp(min=least).sqrt())


class Anchored(Conditional):
    r"""A pose in the frame of moments: $f(x) = a(x)\, \phi(a(x)^{-1} x)$ with $a(x) = T(c)\, e^s$.

    c is the centre of mass and $e^s$ the ratio of its mean radius to `radius` (see `moments`). Translations and scales
    are thereby equivariant by construction, as turns are by `Voted`, and the inner conditional sees every image at one
    place and in one size. In the factored coordinates of `Affine` the product is closed: $t = c + e^s t'$, and s is
    added to the scales. It is for images whose subject stands on black; a photograph's mass says nothing of its pose.

    Args:
        transform: an `Affine` with `factored=True` that has both translations, on which the inner conditional is.
        inner: $\phi$, a Gaussian without bounds (`Voted` with `bounded=False`, or `Gaussian`).
        radius: the mean radius of a prototype, in half sides.

    Shape:
        input: `(B, C, H, W)`; result: batch_shape `(B,)`, event_shape `(d,)`.
    """

    def __init__(self, transform: Affine, inner: Conditional, *, radius: float = 0.4) -> None:
        ok = isinstance(transform, Affine) and transform.factored and {"tx", "ty"} <= set(transform.names)
        if not ok:
            accepted = "an Affine with factored=True and both translations"
            raise ValueError(f"transform: received {type(transform).__name__}; accepted is {accepted}")
        if not isinstance(inner, Conditional) or inner.features != transform.features or inner.bounds is not None:
            accepted = f"a Conditional without bounds over {', '.join(transform.names)}"
            raise ValueError(f"inner: received {describe(inner)}; accepted is {accepted}")
        super().__init__(inner.features, inner.context, periodic=inner.periodic)
        self.names, self.inner, self.radius = transform.names, inner, check_positive("radius", radius)
        scaled = len({"sx", "sy"} & set(self.names)) == 2 or "scale" in self.names
        self.scaled = [n for n in self.names if n in SCALES] if scaled else []
        self.move = Affine("tx", "ty", "scale", factored=True)

    def anchor(self, x: Tensor) -> Tensor:
        """Translation and log-scale of $a(x)$, `(B, 3)`."""
        centre, radius = moments(x)
        size = (radius / self.radius).log() if self.scaled else torch.zeros_like(radius)
        return torch.cat((centre, size[:, None]), -1)

    def forward(self, x: Tensor) -> Density:
        """A normal for each input, around its moments."""
        x = as_signal(x, "bilinear", self.origin)
        with torch.no_grad():
            a = self.anchor(x)
            x = self.move.act(self.move.inverse(self.move.element(a)), x)
        q = self.inner(x)
        if not isinstance(q, GaussianDensity):
            raise ValueError(f"inner: received the density {type(q).__name__}; accepted is a GaussianDensity")
        size = a[:, 2]
        loc = dict(zip(self.names, q.loc.unbind(-1), strict=True))
        for k, name in enumerate(("tx", "ty")):
            loc[name] = a[:, k] + size.exp() * loc[name]
        for name in self.scaled:
            loc[name] = loc[name] + size
        return GaussianDensity(torch.stack(list(loc.values()), -1), q.scale, self.periodic)
