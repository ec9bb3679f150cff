r"""InstaAug: an entropy that is held within a band."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from ..distributions import Categorical, Conditional, Dirac, Joint
from ..models import Averaged, Prediction
from ..utils.shapes import check_count, check_positive, describe
from .base import AveragedObjective, check_spread, over_processes
from .learning_to_transform import entropy_of

__all__ = ["EntropyBand", "InstaAug"]


class EntropyBand(nn.Module):
    """A weight that is raised when the mean entropy of some steps lies below a band, and lowered when it lies above.

    Steps whose entropy is not finite are not counted.

    Args:
        low: the lower end of the band, in nats.
        high: the upper end.
        alpha: the weight at the start.
        factor: what it is multiplied with or divided by, more than 1.
        every: the number of steps from one such change to the next.
    """

    alpha: Tensor
    total: Tensor
    steps: Tensor

    def __init__(self, low: float, high: float, *, alpha: float = 0.2, factor: float = 1.2, every: int = 100) -> None:
        super().__init__()
        if not (isinstance(low, Real) and isinstance(high, Real) and -math.inf < low <= high < math.inf):
            raise ValueError(f"low, high: received {low!r}, {high!r}; accepted is a finite band, low <= high")
        if check_positive("factor", factor) <= 1:
            raise ValueError(f"factor: received {factor}; accepted is a number > 1")
        self.low, self.high, self.factor = low, high, float(factor)
        self.every = check_count("every", every)
        # Not of shape (): compiled code (torch 2.13) forgets what it writes into a float64 scalar on the CPU.
        self.register_buffer("alpha", torch.tensor([check_positive("alpha", alpha)]))
        self.register_buffer("total", torch.zeros(1))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, entropy: Tensor) -> Tensor:
        """The weight, after a step in training mode; entropy: `()`, result: `()`."""
        if self.training:
            with torch.no_grad():
                usable = entropy.isfinite()
                self.total += torch.where(usable, entropy, 0.0)
                self.steps += usable.to(self.steps)
                due = self.steps >= self.every
                mean = self.total / self.steps
                change = torch.where(mean < self.low, self.factor, torch.where(mean > self.high, 1 / self.factor, 1.0))
                self.alpha *= torch.where(due, change, 1.0)
                for count in (self.total, self.steps):
                    count.copy_(torch.where(due, 0.0, count))
        return self.alpha.squeeze(0).clone()


def greatest_entropy(conditional: Conditional) -> float:
    """The entropy of the uniform distribution over all that a conditional can reach; infinite where that is not known.

    Example:
        >>> from erlangen.transforms import Rotations
        >>> greatest_entropy(Categorical.over(Rotations(4), 8)) == math.log(4)
        True
    """
    if isinstance(conditional, Joint):
        return sum(greatest_entropy(part) for part in conditional.parts)  # pyright: ignore[reportArgumentType]
    if isinstance(conditional, Categorical):
        return math.log(len(conditional.table))
    if conditional.bounds is None or conditional.discrete or isinstance(conditional, Dirac):
        return math.inf
    low, high = conditional.bounds.tolist()
    return sum(math.log(b - a) for a, b in zip(low, high, strict=True))


class InstaAug(AveragedObjective):
    r"""$\mathcal{L} = \mathbb{E}_v[-\log f(C; \mathcal{A}_v I)] - \alpha H[q]$, with $\alpha$ such that H is in a band.

    With a `Categorical` the gradient is exact where its support is enumerated, and a score-function term with true
    samples otherwise. Differs from the published code: the band is checked on training batches, not on the test set,
    and H is the entropy of ranges, too.

    Args:
        averaged: the model; its conditional is a `MeanFieldUniform` or a `Categorical` in the paper, and any other with
            a density may be taken.
        band: the ends of the band, in nats (the published 3.0 to 3.5 are for 321 crops); it begins below what the
            conditional can reach.
        alpha: the weight at the start.
        factor: by how much it changes.
        every: after how many steps.
        **kwargs: burn_in, original, together and equivariance, see `AveragedObjective`.

    References:
        | N. Miao et al. Learning instance-specific augmentations by capturing local invariances (2023).
    """

    def __init__(
        self,
        averaged: Averaged,
        band: tuple[float, float] = (3.0, 3.5),
        *,
        alpha: float = 0.2,
        factor: float = 1.2,
        every: int = 100,
        **kwargs: Any,
    ) -> None:
        super().__init__(averaged, **kwargs)
        if not (isinstance(band, tuple | list) and len(band) == 2):
            raise ValueError(f"band: received {describe(band)}; accepted are its two ends, (low, high)")
        self.weight = EntropyBand(*band, alpha=alpha, factor=factor, every=every)
        if band[0] >= (greatest := greatest_entropy(averaged.conditional)):  # else the weight would grow without end
            accepted = f"one that begins below the greatest entropy that it can have, {greatest:.3g} nats"
            raise ValueError(
                f"band: received {describe(band)} for a {type(averaged.conditional).__name__}; accepted is {accepted}"
            )

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """Minus the weighted entropy, in closed form or, where there is none, estimated from the views' points."""
        check_spread(prediction.q)
        try:
            entropy = prediction.q.entropy().mean()
        except NotImplementedError:
            entropy = entropy_of(prediction)
        alpha = self.weight(over_processes(entropy))
        return -alpha * entropy, {"entropy": entropy, "alpha": alpha}
