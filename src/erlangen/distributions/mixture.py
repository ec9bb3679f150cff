r"""Mixtures of normals, with gradients to weights, means and scales that are unbiased.

A sample chooses its component, $c \sim \pi$, then $z = \mu_c + \sigma_c \varepsilon$. Given the choice, $z$ is a smooth
function of means and scales, and differentiating it gives their part of $\nabla \mathbb{E}\, h(z)$ exactly. The choice
itself has no derivative, and the weights get theirs in one of two ways, both unbiased:

* *implicitly*: $z$ moves so that its conditional distribution functions $F_i(z_i \mid z_{<i})$ keep their values,
  $\partial z / \partial \ell = -(\partial F / \partial z)^{-1}\, \partial F / \partial \ell$ for the logits $\ell$;
* *in the log-weights* of the points, as $\log \pi_c - \mathrm{stop}(\log \pi_c)$.

Differs from the published code of LTT: a straight-through or soft Gumbel sample, whose gradient is biased.

References:
    | M. Figurnov, S. Mohamed, A. Mnih. Implicit reparameterization gradients (2018), sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..utils.shapes import check_count, check_tensor, check_true
from .base import Conditional
from .circle import (
    by_kind,
    log_normal,
    log_wrapped_normal,
    normal_cdf,
    normal_score,
    wrap,
    wrapped_normal_cdf,
    wrapped_normal_score,
)
from .density import Density, Points
from .heads import Head, inverse_positive, positive
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
        check_true("scale", scale > 0, "scales that are zero, negative or NaN", "scales > 0")
        super().__init__(logits.shape[:-1], periodic, loc)
        self.logits, self.loc, self.scale = logits, loc, scale.expand_as(loc)

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

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Chooses a component, then a point of it."""
        log_pi = self.logits.log_softmax(-1)
        chosen = _one_hot(noise.choice(), log_pi)
        loc, scale = _pick(chosen, torch.cat((self.loc, self.scale), -1)).chunk(2, -1)
        z = by_kind(self.periodic, lambda z: z, wrap, loc + scale * noise.normal(len(self.periodic)))
        if not pathwise:
            choice = (chosen * log_pi).sum(-1)
            return Points(z, noise.equal_weights() + choice - choice.detach(), self.log_prob(z))
        if self.logits.requires_grad and torch.is_grad_enabled():
            z = z + self._moved_by_weights(z.detach(), log_pi)
        return Points(z, noise.equal_weights(), self.log_prob(z))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density, `(*S, *B)`."""
        return (self.logits.log_softmax(-1) + self._parts(value).sum(-1)).logsumexp(-1)

    def _parts(self, z: Tensor) -> Tensor:
        """The log-densities of coordinates under each component, `(*S, *B, K, d)`."""
        return by_kind(self.periodic, log_normal, log_wrapped_normal, z.unsqueeze(-2) - self.loc, self.scale)

    def _moved_by_weights(self, z: Tensor, log_pi: Tensor) -> Tensor:
        r"""Zero, with the derivative of z in the logits, `(*S, *B, d)`.

        With $w_{ki}$ the weight of component k given $z_{<i}$, $\Phi_{ki}$ its distribution function at $z_i$ and
        $s_{kj}$ its score in $z_j$, and centred with the weights w,

        $$\frac{\partial F_i}{\partial \ell_k} = w_{ki} (\Phi_{ki} - \bar\Phi_i), \qquad
          \frac{\partial F_i}{\partial z_j} = \sum_k w_{ki} \Phi_{ki} (s_{kj} - \bar s_{ij}) \;\; (j < i), \qquad
          \frac{\partial F_i}{\partial z_i} = \sum_k w_{ki} \mathcal{N}_{ki}(z_i).$$
        """
        with torch.no_grad():
            parts, point = self._parts(z), z.unsqueeze(-2)
            before = parts.cumsum(-1) - parts
            log_w = (log_pi.unsqueeze(-1) + before).log_softmax(-2)
            w, slope = log_w.exp(), (log_w + parts).logsumexp(-2)
            cdf = by_kind(self.periodic, normal_cdf, wrapped_normal_cdf, point.expand_as(parts), self.loc, self.scale)
            lever = w * (cdf - (w * cdf).sum(-2, keepdim=True))
            score = by_kind(self.periodic, normal_score, wrapped_normal_score, point - self.loc, self.scale)
            # Σ_k w Φ (s - s̄) = Σ_k w (Φ - Φ̄) s: both factors are centred by the same weights.
            jacobian = (lever.transpose(-1, -2) @ score).tril(-1) + torch.diag_embed(slope.exp())
        zero = (log_pi - log_pi.detach()).unsqueeze(-1)
        moved = -(lever.transpose(-1, -2) @ zero)
        return torch.linalg.solve_triangular(jacobian, moved, upper=False).squeeze(-1)


def _one_hot(u: Tensor, log_pi: Tensor) -> Tensor:
    """Which component a uniform number chooses, `(*S, *B, K)`: the last whose mass before it is at most u."""
    # The ends of all but the last, whose mass may miss 1 by rounding.
    ends = log_pi.detach().exp().cumsum(-1)[..., :-1]
    passed = (u.unsqueeze(-1) >= ends).to(log_pi.dtype)
    return pad(passed, (1, 0), value=1.0) - pad(passed, (0, 1))


def _pick(chosen: Tensor, parameters: Tensor) -> Tensor:
    """The parameters of the chosen components; parameters: `(*B, K, n)`, result: `(*S, *B, n)`.

    One product of matrices per input: its gradient never has the size of samples times components.
    """
    shape, (k, n) = chosen.shape[:-1], parameters.shape[-2:]
    batch = parameters.shape[:-2]
    s, m = shape[: len(shape) - len(batch)].numel(), batch.numel()
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
        logits, loc, raw = rows.split((1, self.features, self.features), -1)
        return MixtureDensity(logits.squeeze(-1), loc, positive(raw), self.periodic)
