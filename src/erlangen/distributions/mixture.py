r"""Mixtures of normals, with gradients to weights, means and scales that are unbiased.

A sample chooses its component, $c \sim \pi$, then $z = \mu_c + \sigma_c \varepsilon$. Given the choice, $z$ is a smooth
function of means and scales, and differentiating it gives their part of $\nabla \mathbb{E}\, h(z)$ exactly. The choice
itself has no derivative, and the weights get theirs in one of two ways, both unbiased:

* *implicitly*, in `rsample`: $z$ moves so that its conditional distribution functions $F_i(z_i \mid z_{<i})$ keep
  their values, $\partial z / \partial \ell = -(\partial F / \partial z)^{-1}\, \partial F / \partial \ell$ for
  $\ell = \log \pi$ (for first derivatives: second ones, mixed with means and scales, are not right);
* *in the log-weights* of the points of `quadrature`, as $\log \pi_c - \mathrm{stop}(\log \pi_c)$, or, where it takes
  points of every component in turn, as $\log \pi_c$, which is their weight.

The first needs no weights, but its variance grows exponentially with the distance of components: beyond some five
scales no affordable number of samples shows its mean. To train, use `quadrature`.

Differs from the published code of LTT: a straight-through or soft Gumbel sample, whose gradient is biased.

References:
    | M. Figurnov, S. Mohamed, A. Mnih. Implicit reparameterization gradients (2018), sections 3 and 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..utils.shapes import check_count, check_tensor, expands
from .base import Conditional
from .circle import (
    LOG_TURN,
    by_kind,
    log_normal,
    log_wrapped_normal,
    normal_cdf,
    normal_score,
    wrap_periodic,
    wrapped_normal_cdf,
    wrapped_normal_score,
)
from .density import Density, Points, columns
from .heads import Head, check_scale, inverse_positive, positive
from .noise import Noise

__all__ = ["Mixture", "MixtureDensity"]


class MixtureDensity(Density):
    r"""$q(z) = \sum_k \pi_k \prod_i \mathcal{N}(z_i; \mu_{ki}, \sigma_{ki}^2)$, wrapped around the circle if periodic.

    Args:
        logits: $\log \pi$ up to a constant, `(*B, K)`.
        loc: the means, `(*B, K, d)`.
        scale: the standard deviations, `(*B, K, d)`; for a periodic coordinate those before wrapping.
        periodic: which coordinates live on a circle; none if None.
    """

    batched = ("logits", "loc", "scale")

    def __init__(self, logits: Tensor, loc: Tensor, scale: Tensor, periodic: Sequence[bool] | None = None) -> None:
        periodic = periodic or (False,) * loc.shape[-1]
        accepted = f"means (*B, K, {len(periodic)}) for logits (*B, K)"
        check_tensor("loc", loc, accepted, loc.shape == (*logits.shape, len(periodic)))
        check_tensor("scale", scale, f"scales {tuple(loc.shape)}, or fewer that expand", expands(scale, loc))
        check_scale(scale, scale > 0)
        super().__init__(logits.shape[:-1], periodic, loc)
        # A mean that went round many times would have no digits left for the angle.
        self.logits, self.loc, self.scale = logits, wrap_periodic(periodic, loc), scale.expand_as(loc)

    @property
    def mean(self) -> Tensor:
        """The mean; on the circle, the direction of the mean of the points."""

        def line(loc: Tensor, scale: Tensor) -> Tensor:
            return (weights * loc).sum(-2)

        def circle(loc: Tensor, scale: Tensor) -> Tensor:
            length = weights * torch.exp(-0.5 * scale.square())
            return torch.atan2((length * loc.sin()).sum(-2), (length * loc.cos()).sum(-2))

        weights = self.logits.softmax(-1).unsqueeze(-1)
        return by_kind(self.periodic, line, circle, self.loc, self.scale)

    @property
    def variance(self) -> Tensor:
        """The variance within components plus that between them, unless a coordinate is periodic."""
        if any(self.periodic):
            raise NotImplementedError("a wrapped normal has no variance in closed form: use stddev_estimate(n)")
        gap = self.loc - self.mean.unsqueeze(-2)
        return (self.logits.softmax(-1).unsqueeze(-1) * (self.scale.square() + gap.square())).sum(-2)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Chooses a component, then a point of it."""
        log_pi = self.logits.log_softmax(-1)
        chosen, log_weights = noise.choose(log_pi)
        centre, spread = _pick(chosen, torch.cat((self.loc, self.scale), -1)).chunk(2, -1)
        z = wrap_periodic(self.periodic, centre + spread * noise.normal(len(self.periodic)))
        if pathwise:
            rows, log_pi, loc, scale = self._rows(z)
            rows: Tensor = _MovedByWeights.apply(rows, log_pi, loc, scale, self.periodic)  # pyright: ignore[reportAssignmentType]
            log_q = _log_density(rows, log_pi, loc, scale, self.periodic).reshape(z.shape[:-1])
            return Points(rows.movedim(0, -1).reshape(z.shape), noise.equal_weights(), log_q)
        return Points(z, log_weights, self.log_prob(z))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density, `(*S, *B)`."""
        value = self.coordinates(value)
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        return _log_density(*self._rows(value), self.periodic).reshape(shape)

    def _rows(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Samples `(d, n, m)`, log-weights `(K, 1, m)`, means and scales `(K, d, 1, m)`: sums then run along rows."""
        m, (k, d) = math.prod(self.batch_shape), self.loc.shape[-2:]
        log_pi = self.logits.log_softmax(-1).reshape(m, k).t().unsqueeze(1)
        loc, scale = (t.reshape(m, k, d).permute(1, 2, 0).unsqueeze(2).contiguous() for t in (self.loc, self.scale))
        return torch.stack(columns(z, self.batch_shape)), log_pi, loc, scale


def _log_parts(z: Tensor, loc: Tensor, scale: Tensor, periodic: Sequence[bool]) -> Tensor:
    """The log-densities of coordinates under each component, `(K, d, n, m)`."""
    return by_kind(periodic, log_normal, log_wrapped_normal, z - loc, scale, dim=1)


def _log_density(z: Tensor, log_pi: Tensor, loc: Tensor, scale: Tensor, periodic: Sequence[bool]) -> Tensor:
    """The log-density of the mixture, `(n, m)`."""
    if any(periodic):
        return (log_pi + _log_parts(z, loc, scale, periodic).sum(1)).logsumexp(0)
    # The same in fewer passes over samples times components: what doesn't depend on z is summed before.
    constant = log_pi - scale.log().sum(1) - 0.5 * len(z) * LOG_TURN
    return torch.add(constant, ((z - loc) * scale.reciprocal()).square().sum(1), alpha=-0.5).logsumexp(0)


class _MovedByWeights(torch.autograd.Function):
    r"""The identity of z, whose gradient also reaches the log-weights, implicitly.

    With $w_{ki}$ the weight of component k given $z_{<i}$, $\Phi_{ki}$ its distribution function at $z_i$ and $s_{ki}$
    its score there, and with $\lambda_{ki} = w_{ki} (\Phi_{ki} - \sum_l w_{li} \Phi_{li})$,

    $$\frac{\partial F_i}{\partial \ell_k} = \lambda_{ki}, \qquad
      \frac{\partial F_i}{\partial z_j} = \sum_k \lambda_{ki} s_{kj} \;\; (j < i), \qquad
      \frac{\partial F_i}{\partial z_i} = \sum_k w_{ki} \mathcal{N}_{ki}(z_i) = f_i.$$

    A gradient g to z is solved backwards through this triangle: $y_i = (g_i - \sum_k s_{ki} a_k) / f_i$ with
    $a_k = \sum_{j > i} \lambda_{kj} y_j$, which at the end is minus the gradient to $\ell_k$.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor, log_pi: Tensor, loc: Tensor, scale: Tensor, periodic: Sequence[bool]) -> Tensor:
        """The samples."""
        return z.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Keeps the samples that come out: they move with the weights, which second derivatives need to know."""
        _, *parameters, ctx.periodic = inputs
        ctx.save_for_backward(output, *parameters)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient to z as it is, and to the log-weights."""
        (g,), (z, log_pi, loc, scale) = grads, ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            return g, None, None, None, None
        parts = _log_parts(z, loc, scale, ctx.periodic)
        w = (log_pi.unsqueeze(1) + parts.cumsum(1) - parts).softmax(0)
        slope = (w * parts.exp()).sum(0)
        cdf = by_kind(ctx.periodic, normal_cdf, wrapped_normal_cdf, z.expand_as(parts), loc, scale, dim=1)
        lever = w * (cdf - (w * cdf).sum(0))
        score = by_kind(ctx.periodic, normal_score, wrapped_normal_score, z - loc, scale, dim=1)
        a = torch.zeros_like(lever[:, 0])
        for i in reversed(range(len(z))):
            y = (g[i] - (score[:, i] * a).sum(0)) / slope[i]
            a = a + lever[:, i] * y
        return g, -a.sum(1, keepdim=True), None, None, None


def _pick(chosen: Tensor, parameters: Tensor) -> Tensor:
    """The parameters of the chosen components; parameters: `(*B, K, n)`, result: `(*S, *B, n)`.

    One product of matrices per input: its gradient never has the size of samples times components.
    """
    shape, (k, n) = chosen.shape[:-1], parameters.shape[-2:]
    batch = parameters.shape[:-2]
    s, m = math.prod(shape[: len(shape) - len(batch)]), math.prod(batch)
    with torch.autocast(parameters.device.type, enabled=False):
        picked = chosen.reshape(s, m, k).transpose(0, 1) @ parameters.reshape(m, k, n)
    return picked.transpose(0, 1).reshape(*shape, n)


class Mixture(Conditional):
    """A mixture of normals with weights, means and scales from the input (the base of LTT's flow).

    Args:
        features: the number of coordinates.
        context: the number of features of an input.
        components: the number of components, K.
        spread: the initial scale of each component, one number or one for each coordinate, see the convention in
            `erlangen.distributions.base`.
        scatter: the initial means are uniform within this distance of the origin, in the same units.
        hidden: the widths of hidden layers in the head.
        **kwargs: encoder, periodic, bounds and origin, see `Conditional`.
    """

    def __init__(
        self,
        features: int,
        context: int,
        *,
        components: int = 10,
        spread: float | Sequence[float] | Tensor = 0.1,
        scatter: float | Sequence[float] | Tensor = 0.2,
        hidden: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(features, context, **kwargs)
        self.components = check_count("components", components)
        jitter = 2 * torch.rand(components, features) - 1
        loc = self.start + self.spreads("scatter", scatter, zero=True) * jitter
        raw = inverse_positive(self.spreads("spread", spread)).expand(components, -1)
        start = torch.cat((torch.zeros(components, 1), loc, raw), -1)
        self.head = Head(context, start.flatten(), hidden)

    def density(self, h: Tensor) -> MixtureDensity:
        """A mixture for each input."""
        rows = self.head(h).unflatten(-1, (self.components, 1 + 2 * self.features))
        # Copies: a compiler that is asked for this density loses track of views of one tensor among its outputs.
        logits, loc, raw = (part.contiguous() for part in rows.split((1, self.features, self.features), -1))
        return MixtureDensity(logits.squeeze(-1), loc, positive(raw), self.periodic)
