r"""The weight of the invariance error, found while training so that saliency maps become similar.

References:
    | A. Moskalev et al. On genuine invariance learning without weight-tying (2023), section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from ..metrics import Orbit, Saliency, saliency_similarity
from ..metrics.outputs import evaluating
from ..utils.shapes import check_count, describe
from .invariance import InvarianceController, InvarianceRegularised

__all__ = ["SimilarityController", "watch_similarity"]


class SimilarityController(InvarianceController):
    r"""A weight $\nu$ that brings the saliency similarity SI (equation 3) to a target.

    The paper tunes $\nu$ until SI is at least 0.95 (section 4.1). Here $\log \nu$ follows $\log (1 - SI)$ as that of an
    `InvarianceController` follows $\log LI$. A step of training does not measure SI: `watch_similarity` does, every so
    many steps, on inputs that are held out, and until then the weight stays as it is.

    It begins with a great $\nu$. A network that has learned separate features for each copy keeps using them, even
    under a $\nu$ that would have kept it from learning them; so a $\nu$ that begins small and rises overshoots.

    $\nu$ moves all through a training. An early epoch has the better accuracy because it is less invariant, so that
    network weights chosen by accuracy alone (`patience`) would be those of a $\nu$ that was still too small.

    Args:
        target: the saliency similarity to reach, between 0 and 1.
        nu: the weight at the start.
        integral: by how much $\log \nu$ grows when SI is measured, per nat that 1 - SI is above what it should be.
        smoothing: the share of the moving average that a measurement keeps.
        **kwargs: low, high and proportional, see `InvarianceController`.
    """

    def __init__(
        self,
        target: float = 0.95,
        *,
        nu: float = 30.0,
        integral: float = 0.1,
        smoothing: float = 0.5,
        **kwargs: float,
    ) -> None:
        if not isinstance(target, int | float) or not 0 < target < 1:
            raise ValueError(f"target: received {describe(target)}; accepted is a similarity between 0 and 1")
        super().__init__(1 - target, nu=nu, integral=integral, smoothing=smoothing, **kwargs)
        self.similarity = float(target)

    def extra_repr(self) -> str:
        """The target."""
        return f"target={self.similarity}"

    def forward(self, error: Tensor) -> Tensor:
        """The weight as it is; the logit invariance error of a batch does not change it."""
        return self.control.log_alpha.exp().squeeze(0)

    def observe(self, similarity: Tensor) -> None:
        """Follows a measurement, in training mode.

        Shape:
            similarity: `()`.
        """
        super().forward(1 - similarity)


def watch_similarity(
    objective: InvarianceRegularised, x: Tensor, *, every: int = 50, saliency: Saliency | None = None
) -> Callable[[int, Mapping[str, Tensor]], None]:
    """What `train.fit` calls after each step so that the `SimilarityController` of an objective sees SI.

    Args:
        objective: whose `nu` is a `SimilarityController`.
        x: inputs on which SI is measured, held out from training; some hundred are enough.
        every: the number of steps between two measurements.
        saliency: how maps are made; `Saliency(steps=10)` if None.

    Returns:
        The `on_step` of `fit`.
    """
    nu = getattr(objective, "nu", None)
    if not isinstance(nu, SimilarityController):
        got = f"{type(objective).__name__} with nu {type(nu).__name__}"
        raise ValueError(f"objective: received {got}; accepted is one whose nu is a SimilarityController")
    check_count("every", every)
    orbit = Orbit(objective.transform, objective.distribution, samples=objective.samples or 4)
    how = saliency or Saliency(steps=10)

    def on_step(step: int, losses: Mapping[str, Tensor]) -> None:
        if step % every == 0:
            inputs = x.to(objective.transform.bounds.device)
            with evaluating(objective.model):
                nu.observe(saliency_similarity(objective.classify, inputs, orbit, saliency=how).mean)

    return on_step
