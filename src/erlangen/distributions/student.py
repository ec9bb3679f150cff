"""Student's t from a Gamma posterior over the precision: the probabilistic spatial transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Gamma, Independent
from torch.distributions.constraints import Constraint

from ..utils.shapes import check_positive, check_tensor, check_true, expands
from .base import Conditional
from .bounded import BoundedDensity
from .circle import by_kind, wrap, wrap_periodic
from .density import Density, Points
from .heads import FLOOR, Head, check_scale
from .noise import Noise
from .standard_t import LEAST_DOF, WIDEST, StandardT

__all__ = ["BoundedStudentDensity", "StudentDensity", "StudentT"]


class StudentDensity(Density):
    r"""Independent coordinates $z_i = \mu_i + \sigma_i t_i$ with $t_i$ of Student's t, wrapped if periodic.

    A truncation holds for linear coordinates; on a circle nothing is far away, and it has no effect.

    Args:
        loc: the centres, `(*B, d)`.
        scale: the scales, `(*B, d)`; for a periodic coordinate those before wrapping, at most $2\pi$.
        standard: Student's t with its degrees of freedom and truncation (in units of the scale).
        periodic: which coordinates live on a circle; none if None.
    """

    batched = ("loc", "scale")

    def __init__(self, loc: Tensor, scale: Tensor, standard: StandardT, periodic: Sequence[bool] | None = None) -> None:
        periodic = periodic or (False,) * loc.shape[-1]
        check_tensor("loc", loc, f"centres (*B, {len(periodic)})", loc.shape[-1] == len(periodic))
        check_tensor("scale", scale, f"a tensor that expands to {tuple(loc.shape)}", expands(scale, loc))
        scale = scale.expand_as(loc)
        widest = WIDEST * (1 + 4 * torch.finfo(scale.dtype).eps)
        ok = by_kind(periodic, lambda s: s > 0, lambda s: (s > 0) & (s <= widest), scale)
        check_scale(
            scale, ok, "zero, negative, NaN or too great", "scales > 0, and at most 2 pi for a periodic coordinate"
        )
        super().__init__(loc.shape[:-1], periodic, loc)
        self.loc, self.scale, self.standard = loc, scale, standard

    @property
    def support(self) -> Constraint:
        """The box that holds every sample: of a truncated coordinate, up to the truncation."""
        if self.standard.truncation is None:
            return super().support
        reach = self.standard.truncation * self.scale
        return self._box(self.loc - reach, self.loc + reach)

    @property
    def precision(self) -> Independent:
        r"""The posterior of each coordinate's precision, $q(\lambda) = \Gamma(\alpha, \beta)$ with rate β.

        P-STN, section 4.2. By Equation (14), $\alpha = \nu/2$ and $\beta = \alpha \sigma^2$.
        """
        alpha = self.standard.dof / 2
        rate = alpha * self.scale.square()
        gamma = Gamma(torch.full_like(rate, alpha), rate, validate_args=False)
        return Independent(gamma, 1, validate_args=False)

    def precision_kl(self, alpha0: float = 1.0, beta0: float = 1.0) -> Tensor:
        r"""The divergence of `precision` from the prior $p(\lambda) = \Gamma(\alpha_0, \beta_0)$: P-STN, Equation (10).

        $$\mathrm{KL}(q \,\|\, p) = \alpha_0 \log\frac{\beta}{\beta_0} - \log\frac{\Gamma(\alpha)}{\Gamma(\alpha_0)}
            + (\alpha - \alpha_0)\, \psi(\alpha) - (\beta - \beta_0) \frac{\alpha}{\beta},$$

        the sum over coordinates. The paper's prior, Equation (6), has $\alpha_0 = \beta_0 = 1$.

        Differs from the published code: that takes the mean over coordinates (and over the batch).

        Args:
            alpha0: the shape of the prior.
            beta0: its rate.

        Shape:
            result: `(*B,)`.
        """
        prior, ours = check_positive("alpha0", alpha0), self.standard.dof / 2
        ratio = check_positive("beta0", beta0) / (ours * self.scale.square())  # the rate of the prior over ours
        shape, prior_shape = (self.scale.new_full((), a) for a in (ours, prior))
        const = prior_shape.lgamma() - shape.lgamma() + (ours - prior) * shape.digamma()
        return (const - prior * ratio.log() + ours * (ratio - 1)).sum(-1)

    @property
    def mean(self) -> Tensor:
        """The centres (on the circle, the centre of symmetry)."""
        nu = self.standard.dof
        if nu <= 1 and self.standard.truncation is None and not all(self.periodic):
            raise NotImplementedError(f"a t with {nu} degrees of freedom has no mean: it needs more than one")
        return self.mode

    @property
    def variance(self) -> Tensor:
        r"""$\sigma^2 \nu / (\nu - 2)$, unless there is a truncation or a coordinate is periodic."""
        nu = self.standard.dof
        if any(self.periodic) or self.standard.truncation is not None:
            return super().variance
        if nu <= 2:
            raise NotImplementedError(f"a t with {nu} degrees of freedom has no variance: it needs more than two")
        return self.scale.square() * (nu / (nu - 2))

    @property
    def median(self) -> Tensor:
        """The centres (on the circle, the centre of symmetry)."""
        return self.mode

    @property
    def mode(self) -> Tensor:
        """The centres."""
        return wrap_periodic(self.periodic, self.loc)

    def entropy(self) -> Tensor:
        """The entropy, unless there is a truncation or a coordinate is periodic."""
        if any(self.periodic) or self.standard.truncation is not None:
            return super().entropy()
        return (self.scale.log() + self.standard.entropy).sum(-1)

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Quantiles of uniform noise, scaled and shifted."""
        u = noise.uniform(len(self.periodic))
        scale = self.scale.expand_as(u)
        delta = by_kind(self.periodic, self._line, self._circle, u, scale)
        z = wrap_periodic(self.periodic, self.loc + delta)
        return Points(z, noise.equal_weights(), self._log_prob(delta))

    def _line(self, u: Tensor, scale: Tensor) -> Tensor:
        return scale * self.standard.truncated_quantile(u)

    def _circle(self, u: Tensor, scale: Tensor) -> Tensor:
        fixed = scale.detach()
        # Wrapped before the location is added: a far sample has no digits left for the angle, and must not lose them
        # in another way when its density is computed again.
        delta = wrap(fixed * self.standard.quantile(u))
        return delta + (scale - fixed) * self.standard.expected(delta, fixed)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-density, `(*S, *B)`; minus infinity beyond the truncation."""
        return self._log_prob(self.coordinates(value) - self.loc)

    def _log_prob(self, delta: Tensor) -> Tensor:
        def line(delta: Tensor, scale: Tensor, loc: Tensor) -> Tensor:
            return self.standard.log_truncated(delta / scale, (loc / scale).abs()) - scale.log()

        def circle(delta: Tensor, scale: Tensor, loc: Tensor) -> Tensor:
            return self.standard.log_wrapped(delta, scale)

        return by_kind(self.periodic, line, circle, delta, self.scale, self.loc).sum(-1)


class BoundedStudentDensity(BoundedDensity):
    """A `StudentDensity` within bounds, which leave the precision as it is."""

    base: StudentDensity

    @property
    def precision(self) -> Independent:
        """The posterior of the precision, see `StudentDensity.precision`."""
        return self.base.precision

    def precision_kl(self, alpha0: float = 1.0, beta0: float = 1.0) -> Tensor:
        """Its divergence from the prior, see `StudentDensity.precision_kl`."""
        return self.base.precision_kl(alpha0, beta0)


class StudentT(Conditional):
    r"""Student's t with centre and scale from the input (P-STN, Equation 14).

    $$q(\theta \mid I) = t_{2\alpha}\Bigl(\theta \Bigm| \mu(I), \frac{\beta(I)}{\alpha}\Bigr)
        = \int \mathcal{N}(\theta \mid \mu(I), 1/\lambda)\, \Gamma(\lambda \mid \alpha, \beta(I))\, d\lambda,$$

    with $2\alpha$ degrees of freedom and the *squared* scale $\beta/\alpha$. The gradient goes to μ and β; α is fixed.
    `StudentDensity.precision_kl` is the other term of the bound, Equation (10).

    Within bounds, a sample from the far tails lies on a bound to rounding, and `log_prob` cannot know from where: with
    α = 1 and the default spread 1 in 10 000 does (float64; 5 in float32). A truncation at 20 leaves none.

    Args:
        features: the number of coordinates.
        context: the number of features of an input.
        alpha: the shape of the Gamma posterior, at least 0.25; the paper's is 1, where the t has no variance.
        spread: the initial scale, one or one for each coordinate, see the convention in `erlangen.distributions.base`;
            below $2\pi$ on a circle.
        truncation: the farthest that a linear coordinate may be from the centre, in units of the scale; None: any.
        hidden: the widths of hidden layers in each head.
        **kwargs: encoder, periodic, bounds and origin, see `Conditional`.

    Differs from the paper: each coordinate has a precision of its own, as in the published code, and the coordinates
    are independent. The paper has one λ for each observation (section 4.1), which makes the coordinates dependent.

    Differs from the published code: a truncation, if wanted; a periodic coordinate lives on its circle, where its scale
    ends at $2\pi$ (almost the uniform density) and its gradient is averaged over all turns, which holds for first
    derivatives only.

    References:
        | P. Schwöbel et al. Probabilistic spatial transformer networks (2022).

    Example:
        >>> q = StudentT(3, 8)(torch.zeros(5, 8))
        >>> q.rsample((2,)).shape, q.precision_kl().shape
        (torch.Size([2, 5, 3]), torch.Size([5]))
    """

    within = BoundedStudentDensity

    def __init__(
        self,
        features: int,
        context: int,
        *,
        alpha: float = 1.0,
        spread: float | Sequence[float] = 0.1,
        truncation: float | None = None,
        hidden: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(features, context, **kwargs)
        if 2 * check_positive("alpha", alpha) < LEAST_DOF:
            raise ValueError(f"alpha: received {alpha}; accepted is a number >= {LEAST_DOF / 2}")
        self.standard = StandardT(2 * alpha, truncation)
        self.loc = Head(context, self.start, hidden)
        scale = self.spreads("spread", spread)
        narrow = by_kind(self.periodic, torch.isfinite, lambda s: s < WIDEST, scale)
        check_true("spread", narrow, str(spread), "a scale below 2 pi for a periodic coordinate")
        least, most = self._limits
        rate = (alpha * scale.square() - least).clamp(min=least)
        raw = by_kind(self.periodic, lambda b: b + torch.log(-torch.expm1(-b)), lambda b: torch.logit(b / most), rate)
        self.beta = Head(context, raw, hidden)

    @property
    def _limits(self) -> tuple[float, float]:
        """The least β, and the greatest for a periodic coordinate."""
        alpha = self.standard.dof / 2
        return alpha * FLOOR**2, alpha * (WIDEST**2 - FLOOR**2)

    def density(self, h: Tensor) -> StudentDensity:
        """A t for each input."""
        least, most = self._limits
        rate = by_kind(self.periodic, F.softplus, lambda raw: most * raw.sigmoid(), self.beta(h)) + least
        return StudentDensity(self.loc(h), (rate / (self.standard.dof / 2)).sqrt(), self.standard, self.periodic)
