"""A point and a Gaussian: the spatial transformer, and the simplest density around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..utils.shapes import check_tensor, expands
from .base import Conditional
from .circle import LOG_TURN, by_kind, log_normal, log_wrapped_normal, wrap_periodic
from .density import Density, Points
from .heads import Head, check_scale, inverse_positive, positive
from .noise import Noise

__all__ = ["Atom", "Dirac", "Gaussian", "GaussianDensity"]


class Atom(Density):
    """All the mass on one point for each input: it can be sampled and enumerated, and has no density.

    Args:
        loc: the points, `(*B, d)`.
        periodic: which coordinates live on a circle.
    """

    batched = ("loc",)
    has_enumerate_support = True
    degenerate = True

    def __init__(self, loc: Tensor, periodic: Sequence[bool]) -> None:
        super().__init__(loc.shape[:-1], periodic, loc)
        self.loc = wrap_periodic(periodic, loc)

    @property
    def mean(self) -> Tensor:
        """The point."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The point."""
        return self.loc

    @property
    def median(self) -> Tensor:
        """The point."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Zero."""
        return torch.zeros_like(self.loc)

    def rsample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """The point, again and again."""
        return self.loc.expand(*self._noise(sample_shape, generator).samples, *self.loc.shape)

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """The point, again and again, without a gradient."""
        return self.rsample(sample_shape, generator).detach()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The point, `(1, *B, d)`."""
        return self.loc.unsqueeze(0)

    def enumerated(self) -> Points:
        """The point, of probability 1."""
        certain = self.loc.new_zeros(1, *self.batch_shape)
        return Points(self.enumerate_support(), certain, certain)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """There is no density, so no points with one can be drawn."""
        raise NotImplementedError("a Dirac has no density: use rsample, or quadrature for its one point of mass 1")

    def log_prob(self, value: Tensor) -> Tensor:
        """There is no density."""
        raise NotImplementedError("a Dirac has no density, so there is no log_prob")

    def entropy(self) -> Tensor:
        """There is no density."""
        raise NotImplementedError("a Dirac has no density, so it has no differential entropy (minus infinity)")


class Dirac(Conditional):
    """One transformation per input: the spatial transformer.

    Args:
        features: the number of coordinates.
        context: the number of features of an input.
        hidden: the widths of hidden layers in the head.
        **kwargs: encoder, periodic, bounds and origin, see `Conditional`.

    References:
        | M. Jaderberg et al. Spatial transformer networks (2015).
    """

    def __init__(self, features: int, context: int, *, hidden: Sequence[int] = (), **kwargs: Any) -> None:
        super().__init__(features, context, **kwargs)
        self.loc = Head(context, self.start, hidden)

    def density(self, h: Tensor) -> Atom:
        """A point for each input."""
        return Atom(self.loc(h), self.periodic)


class GaussianDensity(Density):
    r"""Independent normals, $z_i \sim \mathcal{N}(\mu_i, \sigma_i^2)$, wrapped around the circle if periodic.

    Args:
        loc: the means, `(*B, d)`.
        scale: the standard deviations, `(*B, d)`; for a periodic coordinate those before wrapping.
        periodic: which coordinates live on a circle; none if None.
    """

    batched = ("loc", "scale")

    def __init__(self, loc: Tensor, scale: Tensor, periodic: Sequence[bool] | None = None) -> None:
        periodic = periodic or (False,) * loc.shape[-1]
        check_tensor("loc", loc, f"means (*B, {len(periodic)})", loc.shape[-1] == len(periodic))
        check_tensor("scale", scale, f"a tensor that expands to {tuple(loc.shape)}", expands(scale, loc))
        check_scale(scale, scale > 0)
        super().__init__(loc.shape[:-1], periodic, loc)
        self.loc, self.scale = loc, scale.expand_as(loc)

    @property
    def mean(self) -> Tensor:
        """The means (on the circle, the centre of symmetry)."""
        return wrap_periodic(self.periodic, self.loc)

    @property
    def mode(self) -> Tensor:
        """The same as the mean."""
        return self.mean

    @property
    def median(self) -> Tensor:
        """The same as the mean."""
        return self.mean

    @property
    def variance(self) -> Tensor:
        """The squares of the scales, unless a coordinate is periodic."""
        if any(self.periodic):
            raise NotImplementedError("a wrapped normal has no variance in closed form: use stddev_estimate(n)")
        return self.scale.square()

    def entropy(self) -> Tensor:
        """The entropy, unless a coordinate is periodic."""
        if any(self.periodic):
            raise NotImplementedError("a wrapped normal has no entropy in closed form: use entropy_estimate(n)")
        return (self.scale.log() + 0.5 * (1 + LOG_TURN)).sum(-1)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Standard normal noise, scaled and shifted."""
        delta = self.scale * noise.normal(len(self.periodic))
        z = wrap_periodic(self.periodic, self.loc + delta)
        log_q = self._log_prob(delta).sum(-1)
        return Points(z, noise.equal_weights(), log_q)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density, `(*S, *B)`."""
        return self._log_prob(self.coordinates(value) - self.loc).sum(-1)

    def _log_prob(self, delta: Tensor) -> Tensor:
        return by_kind(self.periodic, log_normal, log_wrapped_normal, delta, self.scale)


class Gaussian(Conditional):
    """Independent normal coordinates with mean and scale from the input.

    Args:
        features: the number of coordinates.
        context: the number of features of an input.
        spread: the initial standard deviation, one or one for each coordinate, see the convention in
            `erlangen.distributions.base`.
        hidden: the widths of hidden layers in each head.
        homoscedastic: one scale for all inputs, a free parameter (SGM appendix B).
        **kwargs: encoder, periodic, bounds and origin, see `Conditional`.
    """

    def __init__(
        self,
        features: int,
        context: int,
        *,
        spread: float | Sequence[float] | Tensor = 0.1,
        hidden: Sequence[int] = (),
        homoscedastic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(features, context, **kwargs)
        self.loc = Head(context, self.start, hidden)
        raw = inverse_positive(self.spreads("spread", spread))
        self.scale = nn.ParameterList([raw]) if homoscedastic else Head(context, raw, hidden)

    def density(self, h: Tensor) -> GaussianDensity:
        """A normal for each input."""
        raw = self.scale(h) if isinstance(self.scale, Head) else self.scale[0]
        return GaussianDensity(self.loc(h), positive(raw), self.periodic)
