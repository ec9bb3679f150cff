r"""Several conditionals side by side, for a product of transforms: $q(v \mid x) = \prod_i q_i(v_i \mid x)$."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.distributions import Distribution, constraints
from torch.distributions.constraints import Constraint

from ..utils.shapes import describe
from .base import Conditional
from .density import Density, Points, check_density
from .noise import Noise

__all__ = ["Joint", "JointDensity"]


class _Blocks(Constraint):
    """Consecutive coordinates, each block in a support of its own."""

    is_discrete = True
    event_dim = 1

    def __init__(self, supports: Sequence[Constraint], sizes: Sequence[int]) -> None:
        self.supports, self.sizes = supports, sizes

    def check(self, value: Tensor) -> Tensor:
        """Which values have every block where it belongs."""
        blocks = zip(self.supports, value.split(list(self.sizes), -1), strict=True)
        return torch.stack([support.check(block) for support, block in blocks]).all(0)


class JointDensity(Density):
    r"""Independent blocks of coordinates, $\log q(v) = \sum_i \log q_i(v_i)$.

    Each block is drawn with its own numbers and has log-weights that sum to 1 over n samples. The k blocks of a sample
    are chosen together, so the sample has the weight $n^{k-1} \prod_i w_i$: its value is 1/n if theirs are, and its
    gradient is that of every choice, $\sum_i \nabla \log w_i$.

    Args:
        parts: densities for the same batch. One that is a point (`Dirac`) has no density, so it can only be beside
            finite supports, which are enumerated with it.
    """

    def __init__(self, parts: Sequence[Density]) -> None:
        self.parts = tuple(check_density(part) for part in parts)
        first = self.parts[0]
        if other := [p for p in self.parts if p.batch_shape != first.batch_shape]:
            raise ValueError(f"parts: received {other[0]!r} beside {first!r}; accepted are parts for the same batch")
        finite = all(p.has_enumerate_support for p in self.parts)
        if not finite and any(p.degenerate for p in self.parts):
            received = ", ".join(type(p).__name__ for p in self.parts)
            raise ValueError(f"parts: received a Dirac among {received}; accepted is one beside finite supports only")
        super().__init__(first.batch_shape, [kind for p in self.parts for kind in p.periodic], first.like)
        self.has_rsample, self.has_enumerate_support = all(p.has_rsample for p in self.parts), finite
        self.degenerate = all(p.degenerate for p in self.parts)

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The ends of every part's coordinates."""
        lows, highs = zip(*(p.ends for p in self.parts), strict=True)
        return torch.cat(lows), torch.cat(highs)

    @property
    def support(self) -> Constraint:
        """The box that holds every sample; with a part whose support is finite, each part's own."""
        supports = [p.support for p in self.parts]
        if any(s.is_discrete for s in supports):
            return _Blocks(supports, self._sizes)
        boxes = [s.base_constraint for s in supports]  # pyright: ignore[reportAttributeAccessIssue]
        ends = ([b.lower_bound for b in boxes], [b.upper_bound for b in boxes])
        low, high = (_join([e.expand(*self.batch_shape, -1) for e in each]) for each in ends)
        return constraints.independent(constraints.interval(low, high), 1)

    @property
    def mean(self) -> Tensor:
        """The parts' means, where all of them have one in closed form."""
        return _join([p.mean for p in self.parts])

    @property
    def mode(self) -> Tensor:
        """The parts' modes, where all of them have one in closed form."""
        return _join([p.mode for p in self.parts])

    @property
    def variance(self) -> Tensor:
        """The parts' variances, where all of them have one in closed form."""
        return _join([p.variance for p in self.parts])

    def entropy(self) -> Tensor:
        """The sum of the parts' entropies, where all of them have one in closed form."""
        return _sum([p.entropy() for p in self.parts])

    def rsample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Samples of every part through which the gradient flows; a part with a finite support has none."""
        return _join([p.rsample(sample_shape, generator) for p in self.parts])

    def sample(self, sample_shape: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Samples of every part, without a gradient."""
        return _join([p.sample(sample_shape, generator) for p in self.parts])

    def draw(self, noise: Noise, *, pathwise: bool = True) -> Points:
        """Samples of every part, each with its own numbers of the same noise."""
        points = (_point(p, noise) if p.degenerate else p.draw(noise, pathwise=pathwise) for p in self.parts)
        v, log_weights, log_q = zip(*points, strict=True)
        return Points(_join(v), _sum(log_weights) - (len(v) - 1) * noise.equal_weights(), _sum(log_q))

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of the parts' log-densities, `(*S, *B)`."""
        blocks = self.coordinates(value).split(self._sizes, -1)
        return _sum([p.log_prob(block) for p, block in zip(self.parts, blocks, strict=True)])

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All combinations of the parts' points, the last part's changing fastest, `(n, *B, d)`."""
        return _join(_combinations([p.enumerate_support(expand) for p in self.parts]))

    def enumerated(self) -> Points:
        """All combinations of the parts' points, whose probabilities are products."""
        v, log_weights, log_q = (_combinations(t) for t in zip(*(p.enumerated() for p in self.parts), strict=True))
        return Points(_join(v), _sum(log_weights), _sum(log_q))

    def expand(self, batch_shape: Sequence[int], _instance: Distribution | None = None) -> Self:
        """The same density for a larger batch, without copying."""
        new = super().expand(batch_shape)
        new.parts = tuple(p.expand(batch_shape) for p in self.parts)
        return new

    @property
    def _sizes(self) -> list[int]:
        return [len(p.periodic) for p in self.parts]


def _point(q: Density, noise: Noise) -> Points:
    """The one point of a density, as often as samples are drawn."""
    (v, _, log_q), log_weights = q.enumerated(), noise.equal_weights()
    return Points(v.expand(*log_weights.shape, -1), log_weights, log_q.expand_as(log_weights))


def _join(blocks: Sequence[Tensor]) -> Tensor:
    """Blocks of coordinates side by side."""
    shape = torch.broadcast_shapes(*(b.shape[:-1] for b in blocks))
    return torch.cat([b.expand(*shape, -1) for b in blocks], -1)


def _sum(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _combinations(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Every combination of the rows of tensors, the last one's changing fastest; `(n_i, ...)` to `(prod n_i, ...)`."""
    sizes, k = [len(t) for t in tensors], len(tensors)
    rows = [t.reshape(*[1] * i, -1, *[1] * (k - 1 - i), *t.shape[1:]) for i, t in enumerate(tensors)]
    return [r.expand(*sizes, *r.shape[k:]).flatten(0, k - 1) for r in rows]


class Joint(Conditional):
    """Independent conditionals over consecutive blocks of coordinates, as a `Product` of transforms joins them.

    All parts read the features of one encoder. Each keeps its bounds and its start. Where all of them are finite
    `quadrature` enumerates every combination; otherwise the finite ones are sampled, or with `points="enumerated"`
    taken in turn, together with the components of mixtures.

    Args:
        *parts: conditionals with the same `context`, in the order of the transform's factors, without an encoder of
            their own: there would be two to read the input.
        encoder: any module from an input to features `(B, context)`; None if the input is these features.

    Example:
        >>> from erlangen.distributions import Categorical, RealNVP, quadrature
        >>> from erlangen.transforms import Affine, Flips, Product
        >>> flips, affine = Flips(), Affine("angle", "scale")
        >>> q = Joint(Categorical.over(flips, 32), RealNVP.over(affine, 32))(torch.randn(4, 32))
        >>> Product(flips, affine)(torch.rand(4, 3, 8, 8), quadrature(q, 10).v).shape
        torch.Size([10, 4, 3, 8, 8])
    """

    def __init__(self, *parts: Conditional, encoder: nn.Module | None = None) -> None:
        _check_parts(parts)
        bounds = [p.bounds for p in parts if p.bounds is not None]
        super().__init__(
            sum(p.features for p in parts),
            parts[0].context,
            encoder=encoder,
            periodic=[kind for p in parts for kind in p.periodic],
            bounds=torch.cat(bounds, 1) if len(bounds) == len(parts) else None,
            origin=torch.cat([p.origin for p in parts]),
        )
        self.parts = nn.ModuleList(parts)
        self.discrete = any(p.discrete for p in parts)

    def bound(self, q: Density) -> Density:
        """The same: every part is within its own bounds."""
        return q

    def density(self, h: Tensor) -> JointDensity:
        """The parts' densities, within their bounds."""
        return JointDensity([p.bound(p.density(h)) for p in self.parts])  # pyright: ignore[reportCallIssue]


def _check_parts(parts: Sequence[Conditional]) -> None:
    if not parts:
        raise ValueError("parts: received none; accepted are one or more conditionals")
    for part in parts:
        if not isinstance(part, Conditional):
            raise ValueError(f"parts: received {describe(part)}; accepted are conditionals")
        if part.context != parts[0].context:
            received = " and ".join(f"{type(p).__name__} with context {p.context}" for p in (parts[0], part))
            raise ValueError(f"parts: received {received}; accepted is one context for all, the encoder's features")
        if any(m.encoder is not None for m in part.modules() if isinstance(m, Conditional)):
            received = f"a {type(part).__name__} with an encoder of its own"
            raise ValueError(f"parts: received {received}; accepted are parts without: give the encoder to Joint")
