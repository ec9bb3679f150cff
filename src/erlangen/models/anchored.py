r"""Poses that start from moments: where the mass of an image lies and how far it spreads, which need not be learned."""

from __future__ import annotations

import torch
from torch import Tensor

from ..distributions import Conditional, Density
from ..distributions.gaussian import GaussianDensity
from ..transforms import Affine
from ..transforms.matrix import with_last_row
from ..transforms.spatial import pixel_centres
from ..transforms.warp import signal_like
from ..utils.shapes import check_finite, check_positive, compute_dtype, describe

__all__ = ["ANCHORED", "Anchored", "anchorable", "moments"]

ANCHORED = "an Affine with factored=True and both translations"


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    r"""The centre of mass of $|x|$, and the covariance of the mass around it.

    An affine map $p \mapsto A p + t$ takes the centre c to $A c + t$ and the covariance $\Sigma$ to $A \Sigma A^\top$:
    exactly, but for resampling, while nothing leaves the frame and outside is black. Images without mass have the
    centre 0 and a covariance of ½.

    Shape:
        x: `(B, C, H, W)`; result: `(B, 2)` and `(B, 2, 2)`.
    """
    x = x.to(compute_dtype(x))  # the sum over an image may be more than half precision holds
    mass = x.abs().sum(1)
    total = mass.sum((-1, -2))
    empty = total <= torch.finfo(x.dtype).tiny
    share = mass / torch.where(empty, 1, total)[:, None, None]
    px, py = pixel_centres(tuple(x.shape[2:]), x)
    columns, rows = share.sum(-2), share.sum(-1)
    cx, cy = (columns * px).sum(-1), (rows * py).sum(-1)
    # A single pixel is not a point: it has the spread of a pixel.
    least = (2 / max(x.shape[2:])) ** 2 / 12
    xx = ((columns * px.square()).sum(-1) - cx.square()).clamp(min=least)
    yy = ((rows * py.square()).sum(-1) - cy.square()).clamp(min=least)
    xy = ((share * px).sum(-1) * py).sum(-1) - cx * cy
    covariance = torch.stack((xx, xy, xy, yy), -1)
    half = 0.5 * torch.eye(2, dtype=x.dtype, device=x.device)
    covariance = torch.where(empty[:, None, None], half, covariance.unflatten(-1, (2, 2)))
    return torch.stack((cx, cy), -1), covariance


def root(square: Tensor, least: float) -> Tensor:
    r"""The symmetric root of symmetric matrices, $(\Sigma + \sqrt{d} I) / \sqrt{\mathrm{tr} \Sigma + 2 \sqrt d}$.

    Args:
        square: $\Sigma$, `(..., 2, 2)`.
        least: d is its determinant, and at least the square of this: a line has no inverse.
    """
    a, b, c, d = square.flatten(-2).unbind(-1)
    side = (a * d - b * c).clamp(min=least**2).sqrt()
    eye = torch.eye(2, dtype=square.dtype, device=square.device)
    return (square + side[..., None, None] * eye) / (a + d + 2 * side).sqrt()[..., None, None]


def anchorable(transform: object) -> bool:
    """Whether poses of a transform can start from moments."""
    return isinstance(transform, Affine) and transform.factored and {"tx", "ty"} <= set(transform.names)


class Anchored(Conditional):
    r"""A pose in the frame of moments: $f(x) = a(x)\, \phi(a(x)^{-1} x)$ with $a(x) = T(c)\, L$.

    c is the centre of mass, and L follows from the coordinates of the transform:

    * one scale: $L = e^s$ is the ratio of the mean radius to `radius`;
    * scales along the axes and no angle: one such ratio for each axis (of a stretch alone, what differs between them);
    * an angle and two scales: a symmetric root of the covariance, in the same unit (see `moments`);
    * otherwise the identity.

    The inner conditional then sees every image at one place, in one size and round: of all affine maps only turns are
    left, and these are for `Voted`. So the pose is equivariant by construction. Coordinates that are not closed under
    composition, as an angle and two scales without the shear, leave out the shear of f(x) (`Affine.project`); $\phi$
    has it nevertheless, to tell upright inputs from slanted ones. An `Anchored` is for images whose subject stands on
    black; a photograph's mass says nothing of its pose.

    Args:
        transform: an `Affine` with `factored=True` that has both translations.
        inner: $\phi$, a Gaussian without bounds (`Voted` with `bounded=False`, or `Gaussian`) over `Anchored.within`.
        radius: the mean radius of what the inner conditional sees, in half sides.

    Shape:
        input: `(B, C, H, W)`; result: batch_shape `(B,)`, event_shape `(d,)`.
    """

    def __init__(self, transform: Affine, inner: Conditional, *, radius: float = 0.4) -> None:
        within = self.within(transform)
        if not isinstance(inner, Conditional) or inner.features != within.features or inner.bounds is not None:
            accepted = f"a Conditional without bounds over {', '.join(within.names)}"
            raise ValueError(f"inner: received {describe(inner)}; accepted is {accepted}")
        super().__init__(transform.features, inner.context, periodic=transform.periodic)
        self.inner, self.radius = inner, check_positive("radius", radius)
        self.whole, self.part = within, transform
        self.round = "shear" in within.names
        names = set(transform.names)
        self.axes = "angle" not in names and bool({"sx", "sy", "stretch"} & names)
        self.scaled = "scale" in names

    @staticmethod
    def within(transform: Affine) -> Affine:
        """The transform of the inner conditional: this one, with the shear if it has an angle and two scales."""
        if not anchorable(transform):
            raise ValueError(f"transform: received {type(transform).__name__}; accepted is {ANCHORED}")
        names = set(transform.names)
        unlike = "angle" in names and ("stretch" in names or {"sx", "sy"} <= names)
        if not unlike or "shear" in names:
            return transform
        return Affine(*transform.names, "shear", factored=True)

    def anchor(self, x: Tensor) -> Tensor:
        """The element a(x), `(B, 3, 3)`."""
        centre, covariance = moments(x)
        eye = torch.eye(2, dtype=covariance.dtype, device=x.device).expand_as(covariance)
        if self.round:
            linear = root(covariance, (2 / max(x.shape[2:])) ** 2 / 12) * (2**0.5 / self.radius)
        elif self.axes:
            linear = torch.diag_embed(self._along(covariance.diagonal(dim1=-2, dim2=-1)))
        elif self.scaled:
            radius = covariance.diagonal(dim1=-2, dim2=-1).sum(-1).sqrt()
            linear = eye * (radius / self.radius)[:, None, None]
        else:
            linear = eye
        return with_last_row(torch.cat((linear, centre[..., None]), -1))

    def _along(self, variance: Tensor) -> Tensor:
        """The scales of images along x and y, as far as the coordinates can express them, `(B, 2)`."""
        names, ratio = self.part.names, (2 * variance).sqrt() / self.radius
        if "stretch" in names:
            return ratio if "scale" in names else (ratio / ratio.flip(-1)).sqrt()
        free = zip(("sx", "sy"), ratio.unbind(-1), strict=True)
        return torch.stack([each if name in names else torch.ones_like(each) for name, each in free], -1)

    def forward(self, x: Tensor) -> Density:
        """A normal for each input, around its moments."""
        x = signal_like(x, self.origin)
        check_finite("x", x)
        with torch.no_grad():
            a = self.anchor(x)
            x = self.whole.act(self.whole.inverse(a), x)
        q = self.inner(x)
        if not isinstance(q, GaussianDensity):
            raise ValueError(f"inner: received the density {type(q).__name__}; accepted is a GaussianDensity")
        loc = self.part.project(self.whole.compose(a, self.whole.element(q.loc)))
        return GaussianDensity(loc, q.scale[..., : self.features], self.periodic)
