r"""Poses that turn with their inputs by construction: copies of an input, turned in equal steps, vote on its pose."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..distributions import Conditional
from ..distributions.gaussian import GaussianDensity
from ..distributions.heads import inverse_positive, positive
from ..transforms import HSV, Affine, Group, Product, Transform
from ..transforms.warp import signal_like
from ..utils.shapes import check_count, check_finite, check_tensor

__all__ = ["Voted", "check_copies", "check_unbounded", "direction"]

SMALL = 1e-4  # squared length of a vote below which its direction says little


def direction(u: Tensor) -> Tensor:
    """The angle of vectors, with a gradient that fades where they vanish, as those of inputs without a pose do.

    Shape:
        u: `(..., 2)`; result: `(...)`, in radians.
    """
    x, y = u.unbind(-1)
    with torch.no_grad():
        angle, slope = torch.atan2(y, x), u.detach() / (u.square().sum(-1, keepdim=True) + SMALL)
    return angle + (slope[..., 0] * y - slope[..., 1] * x)


class Voted(Conditional):
    r"""A Gaussian pose, $q(\eta \mid x)$, whose angle is voted over turned copies of the input.

    With $r_k$ the turns by $2\pi k / K$, an encoder and a linear layer $\phi$ see the copies $r_k^{-1} x$. In its own
    frame, each copy votes for a vector $u_k$ and other coordinates $c_k$, with a score $s_k$; then

    $$ \mathrm{angle} = \arg \sum_k r_k u_k, \qquad c = \sum_k \mathrm{softmax}(s)_k \; r_k c_k, $$

    where $r_k$ turns translations and leaves the rest. Turned by $r_j$, an input has the same copies in another order:
    its angle is greater by $2\pi j / K$, to rounding where turns move pixels to pixels (K = 4) and to the error of
    resampling otherwise; turns in between are learned. The paper has no such thing, and says that a natively invariant
    architecture might help (SGM section 4.1).

    The scale is one for all inputs, a free parameter (SGM appendix B). Other periodic coordinates are directions too.

    Args:
        transform: a group in whose coordinates turns add: an `Affine` whose angle is periodic (`factored=True`), `HSV`,
            or a product of them.
        context: the number of features of a copy.
        encoder: from images to features `(B, context)`.
        copies: K.
        name: the periodic coordinate that is voted on; "angle" if there is one, else the first.
        spread: the initial scale, see the convention in `erlangen.distributions.base`.
        bounded: whether linear coordinates are held within the bounds of the transform, by tanh. Translations that are
            bounded turn before tanh, in their own units, so that they are equivariant to its first order only. False is
            for coordinates that live on lines and angles in radians.

    Shape:
        input: images `(B, C, H, W)`; result: batch_shape `(B,)`, event_shape `(d,)`.
    """

    turns: Tensor
    units: Tensor

    def __init__(
        self,
        transform: Transform,
        context: int,
        *,
        encoder: nn.Module,
        copies: int = 8,
        name: str | None = None,
        spread: float = 0.03,
        bounded: bool = True,
    ) -> None:
        name = _voted(transform, name)
        kinds: Any = {"periodic": transform.periodic, "origin": transform.origin}
        bounds = transform.bounds if bounded else check_unbounded(transform)
        super().__init__(transform.features, context, encoder=encoder, bounds=bounds, **kinds)
        self.names, self.name, self.copies = transform.names, name, check_count("copies", copies)
        self.turn: Transform = Affine("angle") if name == "angle" else HSV("hue")
        turns = torch.arange(self.copies) * (2 * math.pi / self.copies)
        self.register_buffer("turns", turns.to(self.origin), persistent=False)
        self.register_buffer("units", self._units(), persistent=False)
        sizes = [2 if p else 1 for p in self.periodic]
        self.last = nn.Linear(context, sum(sizes) + 1)
        with torch.no_grad():  # lines start at the identity; directions must start somewhere
            line = torch.tensor([not p for p in self.periodic for _ in range(2 if p else 1)] + [True])
            self.last.weight[line] = 0
            self.last.bias[line] = torch.cat((self.start[[not p for p in self.periodic]], torch.zeros(1)))
        self.scale = nn.Parameter(inverse_positive(self.spreads("spread", spread)))

    @classmethod
    def over(cls, transform: Any, context: int, **kwargs: Any) -> Self:
        """The same as the constructor."""
        return cls(transform, context, **kwargs)

    def extra_repr(self) -> str:
        """What is voted on."""
        return f"{self.copies} copies vote on {self.name!r}, {super().extra_repr()}"

    def encode(self, x: Tensor) -> Tensor:
        """The features of all copies, `(B, K * context)`."""
        x = signal_like(x, self.origin)
        check_finite("x", x)
        if self.encoder is None:
            raise ValueError("encoder: received None; accepted is a module from images to features")
        back = -self.turns / (1.0 if self.name == "angle" else 2 * math.pi)
        copies = self.turn(x, back[:, None, None]) if self.copies > 1 else x.unsqueeze(0)
        h = self.encoder(copies.flatten(0, 1))
        ok = isinstance(h, Tensor) and tuple(h.shape) == (self.copies * len(x), self.context)
        check_tensor("encoder(x)", h, f"floating-point features (B, {self.context})", ok)
        check_finite("encoder(x)", h)
        return h.unflatten(0, (self.copies, len(x))).transpose(0, 1).flatten(1).to(self.origin.dtype)

    def density(self, h: Tensor) -> GaussianDensity:
        """A normal for each input, around what the copies voted for."""
        said = self.last(h.unflatten(1, (self.copies, self.context)))
        *parts, score = said.split([2 if p else 1 for p in self.periodic] + [1], -1)
        weight = score.softmax(1)
        votes = dict(zip(self.names, parts, strict=True))
        votes[self.name] = _turned(votes[self.name], self.turns)
        if self.name == "angle" and "tx" in votes:
            # The turn takes x to the right towards minus y, which is up: see the conventions.
            (ox, sx), (oy, sy) = (self.units[:, self.names.index(name)].unbind() for name in ("tx", "ty"))
            moved = _turned(torch.cat((sx * (votes["tx"] - ox), sy * (oy - votes["ty"])), -1), self.turns)
            votes["tx"], votes["ty"] = ox + moved[..., :1] / sx, oy - moved[..., 1:] / sy
        loc = []
        for name, periodic in zip(self.names, self.periodic, strict=True):
            total = (votes[name] if name == self.name else weight * votes[name]).sum(1)
            loc.append(direction(total) if periodic else total.squeeze(-1))
        return GaussianDensity(torch.stack(loc, -1), positive(self.scale), self.periodic)

    def _units(self) -> Tensor:
        """The identity in standard coordinates, and how far a small step from it goes in each one's own, `(2, d)`."""
        start = self.start
        if self.bounds is None:
            return torch.stack((start, torch.ones_like(start)))
        return torch.stack((start, (self.bounds[1] - self.bounds[0]) / 2 / start.cosh().square()))


def _turned(u: Tensor, turns: Tensor) -> Tensor:
    """Vectors of copies, turned counter-clockwise by the turn of their copy, `(B, K, 2)`."""
    c, s = turns.cos(), turns.sin()
    x, y = u.unbind(-1)
    return torch.stack((c * x - s * y, s * x + c * y), -1)


def _voted(transform: Transform, name: str | None) -> str:
    """The coordinate that is voted on; a `ValueError` unless turns of the input change it and translations alone."""
    parts = transform.factors if isinstance(transform, Product) else [transform]
    if not isinstance(transform, Group) or not all(isinstance(part, Affine | HSV) for part in parts):
        accepted = "an Affine with a periodic angle, HSV, or a product of both"
        raise ValueError(f"transform: received {type(transform).__name__}; accepted is {accepted}")
    circles = [n for n, p in zip(transform.names, transform.periodic, strict=True) if p]
    if not circles or (name is not None and name not in circles):
        accepted = "a periodic coordinate (of Affine, with factored=True and the whole circle as its range)"
        raise ValueError(f"name: received {name!r} for {transform!r}; accepted is {accepted}")
    name = name or ("angle" if "angle" in circles else circles[0])
    if name == "angle" and ("tx" in transform.names) != ("ty" in transform.names):
        raise ValueError(f"transform: received {transform!r}; accepted has both translations, or none: turns mix them")
    return name


def check_copies(transform: Transform, copies: object) -> None:
    """Raises a `ValueError` about `copies`, the setting of a model, where they have no coordinate to vote on."""
    check_count("copies", copies)
    try:
        _voted(transform, None)
    except ValueError as error:
        accepted = "None, or an Affine with factored=True, angle, and both translations or none, HSV, or a product"
        raise ValueError(
            f"copies: received {copies} for {', '.join(transform.names)}; accepted is {accepted}"
        ) from error


def check_unbounded(transform: Transform, name: str = "bounded", value: bool = False) -> None:
    """Raises a `ValueError` where no bounds would mean another circle: without them, every circle is 2π round.

    Args:
        transform: whose bounds are left out.
        name: the argument that leaves them out, for the message.
        value: what was received for it.
    """
    low, high = transform.bounds.tolist()
    for circle, periodic, a, b in zip(transform.names, transform.periodic, low, high, strict=True):
        if periodic and not (math.isclose(a, -math.pi, rel_tol=1e-6) and math.isclose(b, math.pi, rel_tol=1e-6)):
            got = f"{name}: received {value} for {circle} within [{a:.4g}, {b:.4g}]"
            raise ValueError(f"{got}; accepted is {not value}")
