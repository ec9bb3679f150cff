r"""Augerino: a bonus for the width of one range that all inputs share."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..distributions import GlobalUniform
from ..models import Averaged, Prediction
from ..utils.shapes import check_positive, check_weight
from .base import AveragedObjective

__all__ = ["Augerino"]


class Augerino(AveragedObjective):
    r"""$\mathcal{L} = \mathbb{E}_v[-\log f(C; \mathcal{A}_v I)] - \lambda \lVert w \rVert_2$ with the half-widths w.

    Differs from the published code: w is the half-width, not the width, so the same $\lambda$ weighs half as much.

    Args:
        averaged: the model; its conditional is a `GlobalUniform`.
        bonus: $\lambda$.
        widest: the bonus stops when a half-width reaches this (the published "safe" variant); never if None.
        shares: whether the bonus is for the sum of half-widths, each as a share of half of its range. A norm has nearly
            no slope along what is small in it, such as translations beside an angle in radians, and forgets them.
        **kwargs: burn_in, original, together and equivariance, see `AveragedObjective`.

    References:
        | G. Benton et al. Learning invariances in neural networks (2020), equation 5.
    """

    def __init__(
        self,
        averaged: Averaged,
        bonus: float = 0.01,
        widest: float | None = None,
        *,
        shares: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(averaged, **kwargs)
        if not isinstance(averaged.conditional, GlobalUniform):
            got = type(averaged.conditional).__name__
            raise ValueError(f"averaged: received one with a {got}; accepted is one with a GlobalUniform")
        self.bonus = check_weight("bonus", bonus)
        self.widest = None if widest is None else check_positive("widest", widest)
        self.shares = shares

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """Minus the weighted norm, or sum, of the half-widths."""
        conditional = self.averaged.conditional
        widths: Tensor = conditional.half_width  # pyright: ignore[reportAssignmentType, reportAttributeAccessIssue]
        low, high = self.averaged.transform.bounds
        total = (2 * widths / (high - low)).sum() if self.shares else widths.norm()
        allowed = 1.0 if self.widest is None else (widths.amax() < self.widest).to(total)
        return -self.bonus * allowed * total, {"width": total.detach()}
