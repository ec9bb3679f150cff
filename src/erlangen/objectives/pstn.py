r"""The probabilistic spatial transformer: the classification of samples, and a prior on how far they scatter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..distributions import Dirac, StudentT
from ..models import Averaged, Prediction
from ..utils.shapes import check_positive, check_weight
from .base import AveragedObjective
from .learning_to_transform import entropy_of

__all__ = ["PSTN"]


class PSTN(AveragedObjective):
    r"""Minus the evidence lower bound, with a weight on its second term (P-STN equation 17).

    $$\mathcal{L} = -\frac1S \sum_s \log p(y \mid I, \theta_s)
        + w\, \mathrm{KL}\bigl(\Gamma(\alpha, \beta(I)) \,\|\, \Gamma(\alpha_0, \beta_0)\bigr),
        \qquad \theta_s \sim t_{2\alpha}(\mu(I), \beta(I) / \alpha),$$

    the mean over inputs. With a `Dirac` there is nothing to keep wide: the first term alone is the spatial transformer.
    The localiser is the group "conditional": its learning rate, a tenth of the classifier's in the published code, is
    that of `Config(groups={"conditional": ...})`. A classifier that was trained before stays as it is in an `Averaged`
    with `frozen=["model"]`.

    With a great weight (from 0.003 on 30 digits) the t may grow until nothing of an input is left in its views, of
    which training warns (`Alarm.beyond`); `StudentT(truncation=...)` or bounds prevent it.

    Differs from the paper: the divergence is the mean over coordinates, which have a precision each (see `StudentT`);
    the published code has that too, so that its weights can be used.

    Args:
        averaged: the model; its conditional is a `StudentT` or a `Dirac`.
        weight: w, at least 0. It is a buffer, so that models with different weights can be trained together.
        alpha0: the shape of the prior.
        beta0: its rate.
        **kwargs: burn_in, original, together and equivariance, see `AveragedObjective`.

    References:
        | P. Schwöbel et al. Probabilistic spatial transformer networks (2022).
    """

    constants = ("weight",)
    weight: Tensor

    def __init__(
        self, averaged: Averaged, weight: float = 1e-4, *, alpha0: float = 1.0, beta0: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(averaged, **kwargs)
        if not isinstance(averaged.conditional, StudentT | Dirac):
            got = type(averaged.conditional).__name__
            raise ValueError(f"averaged: received one with a {got}; accepted is one with a StudentT, or a Dirac")
        self.alpha0, self.beta0 = check_positive("alpha0", alpha0), check_positive("beta0", beta0)
        self.register_buffer("weight", torch.tensor(check_weight("weight", weight)))

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """The weighted divergence; logged with it are the mean β, the entropy, and the share beyond the ranges."""
        q: Any = prediction.q
        if q.degenerate:
            return prediction.log_probs.new_zeros(()), {}
        divergence = q.precision_kl(self.alpha0, self.beta0).mean() / prediction.v.shape[-1]
        beta = q.precision.base_dist.rate.mean()
        parts = {"divergence": divergence, "beta": beta.detach(), "entropy": entropy_of(prediction).detach()}
        if self.averaged.conditional.bounds is None:
            parts["beyond"] = self.beyond(prediction.v)
        return self.weight * divergence, parts
