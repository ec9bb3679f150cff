r"""LILA: a distribution of transformations, and priors of weights, by the marginal likelihood of the labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parameter import is_lazy

from ..distributions import quadrature
from ..metrics.outputs import evaluating
from ..models import Averaged, Prediction
from ..utils.compiling import uncompiled
from ..utils.errors import is_memory, reason
from ..utils.shapes import check_count, check_positive
from .base import AveragedObjective, labelled, summed
from .curvature import Kronecker
from .learning_to_transform import entropy_of

__all__ = ["MarginalLikelihood"]

EVERY = 20  # every so many steps the eigenvectors of the curvature are found anew


class MarginalLikelihood(AveragedObjective):
    r"""Minus Laplace's approximation of the log-marginal likelihood, for each input (LILA).

    The classifier averages logits, $\bar f_\theta(x) = \mathbb{E}_{v \sim q} f_\theta(\mathcal{A}_v x)$. The weights
    $\theta_l$ of each tensor have a prior $\mathcal{N}(0, I / \delta_l)$. With $J_n = \partial \bar f_\theta(x_n) /
    \partial \theta$, probabilities p and $\Lambda_n = \mathrm{diag}(p) - p p^T$,

    $$-\log p(\mathcal{D}) \approx -\sum_n \log p(y_n \mid \bar f_\theta(x_n)) + \frac12 \sum_l \delta_l
    \lVert \theta_l \rVert^2 + \frac12 \log \Bigl| I + \sum_n \delta^{-1/2} J_n^T \Lambda_n J_n \delta^{-1/2} \Bigr|.$$

    The first two terms train the weights. All three train the distribution and the precisions, so that no weight has to
    be chosen and no input to be set aside. Fewer functions are left by averages over a wider range, and the last term
    falls; where meaning changes, the first one rises. Gradients of the distribution are those at the weights as they
    are, which may shrink a range although a classifier trained with a wider one has the greater marginal likelihood.

    The determinant is that of all inputs, Kronecker-factored for each tensor of weights (`Kronecker`). As in LILA, its
    gradient is that of a few inputs, at the curvature of all. Differs from LILA, which computes the curvature anew over
    the whole training set after each epoch, from activations of linear layers and convolutions, and moves the range
    then: here it is a mean over past steps, from Jacobians. So all layers are accepted that `torch.func.vmap` and `vjp`
    accept, and any distribution, not one range alone. Batch normalisation uses its running statistics in the
    determinant, which mean nothing without a burn-in.

    Args:
        averaged: the model, with `space="logit"`.
        size: the number of inputs of the training set.
        inputs: how many inputs of a batch are in the determinant of a step; each of several processes takes as many of
            its own.
        views: how many transformations of each of these inputs. With few, such as the model's samples, their scatter
            counts against wide ranges. In memory at a time are inputs × views images, and inputs × outputs gradients of
            all weights.
        outputs: how many of the classifier's outputs are in the determinant of a step. They are drawn anew for each of
            these inputs, and the more one counts, the likelier it is drawn.
        memory: over how many steps the curvature is a mean; over fewer it has more noise, over more it is older.
        precision: the initial $\delta$.
        **kwargs: burn_in, original and equivariance, see `AveragedObjective`. Precisions are kept in the burn-in.

    References:
        | A. Immer et al. Invariance learning in deep neural networks with differentiable Laplace approximations (2022).
        | A. Immer et al. Stochastic marginal likelihood gradients using neural tangent kernels (2023).
    """

    def __init__(
        self,
        averaged: Averaged,
        size: int,
        *,
        inputs: int = 32,
        views: int = 16,
        outputs: int = 1,
        memory: int = 20,
        precision: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(averaged, together=True, **kwargs)
        if averaged.space != "logit" or averaged.identity is True:
            got = f"one with space={averaged.space!r} and identity={averaged.identity!r}"
            raise ValueError(f"averaged: received {got}; accepted is space='logit' without the identity in training")
        self.size, self.inputs = check_count("size", size), check_count("inputs", inputs)
        self.views, self.outputs = check_count("views", views), check_count("outputs", outputs)
        named = getattr(averaged.model, "named_parameters", tuple)()  # a function has none
        self.names = tuple(name for name, w in named if w.requires_grad)
        if not self.names:
            raise ValueError("averaged: received a classifier without weights to train; accepted is one with some")
        if any(map(is_lazy, self._weights().values())):
            got = "a classifier with weights that have no shape yet, of a lazy module"
            raise ValueError(f"averaged: received {got}; accepted is one that has seen a batch, averaged(x)")
        start = torch.full((len(self.names),), check_positive("precision", precision)).log()
        self.log_precision = nn.Parameter(start.to(averaged.transform.bounds))
        count = check_count("memory", memory)
        self.curvatures = nn.ModuleList(Kronecker(w, count) for w in self._weights().values())

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The classifier's parameters and the conditional's, and the precisions as "prior"."""
        return {**super().parameter_groups(), "prior": [self.log_precision]}

    def branch(self) -> Hashable:
        """Whether the next step belongs to the burn-in; and its number, if it finds eigenvectors."""
        return super().branch(), self.taken() if self._anew() else None

    @uncompiled
    def _anew(self) -> bool:
        """Whether the next step finds the eigenvectors of the curvature, which takes long: at first every step does."""
        after = self.taken() - self.burn_in
        return after >= 0 and (after < EVERY // 2 or after % EVERY == 0)

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """In training all terms, divided by the size; in evaluation the cross-entropy."""
        x, _ = labelled(batch)
        anew = self._anew()
        losses = super().forward(batch)
        if not self.training:
            return losses
        burns = "cross_entropy" not in losses  # those of inputs as they are
        precision = self.log_precision.detach().exp() if burns else self.log_precision.exp()
        squares = torch.stack([w.square().sum() for w in self._weights().values()])
        extra = {"prior": (precision * squares).sum() / (2 * self.size)}
        if not burns:
            extra["complexity"] = self.complexity(x, anew)
        return {**losses, "loss": losses["loss"] + sum(extra.values()), **{k: v.detach() for k, v in extra.items()}}

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """Nothing is added; the entropy is logged where there is one."""
        point = getattr(prediction.q, "degenerate", False)
        return prediction.log_probs.new_zeros(()), {} if point else {"entropy": entropy_of(prediction).detach()}

    @uncompiled
    def complexity(self, x: Tensor, anew: bool = True) -> Tensor:
        """The last term, `()`, with the gradient of some inputs of a batch.

        Args:
            x: the inputs of the batch.
            anew: whether eigenvectors of the curvature are found anew; otherwise they are those of an earlier step.
        """
        averaged = self.averaged
        x = averaged.signal(x[: self.inputs])
        points = quadrature(averaged.conditional(x), self.views, points=averaged.points, exact=averaged.exact)

        def scores(weights: Mapping[str, Tensor], views: Tensor, shares: Tensor) -> Tensor:
            return shares @ averaged.classify(views, weights)

        inputs = averaged.transform(x, points.v).transpose(0, 1), points.log_weights.exp().T
        # In evaluation mode: with noise, or with layers that look at the whole batch, one input has no Jacobian. And
        # with plain attention, for the others cannot be differentiated twice.
        with (
            evaluating(averaged),
            torch.autocast(x.device.type, enabled=False),
            sdpa_kernel(SDPBackend.MATH),
        ):
            try:
                found, weight = gradients(scores, self._weights(), inputs, self.outputs)
            except RuntimeError as error:
                # The same classifier has just classified the batch, so what fails is mapping it over inputs.
                if is_memory(error) or "CUDA error" in str(error):
                    raise
                got = f"a classifier with an operation that torch cannot map over inputs ({reason(error)})"
                raise ValueError(f"averaged: received {got}; accepted are others") from error
            return self._determinant(found, weight, anew)

    def _determinant(self, found: Mapping[str, Tensor], weight: float, anew: bool) -> Tensor:
        """Half the logarithm of the determinant, divided by the size, after the gradients of a step were added."""
        total, curvatures = self.log_precision.new_zeros(()), cast("list[Kronecker]", list(self.curvatures))
        share = 1 / summed(total + 1 / weight)  # of an input, among those of all processes
        for name, curvature, precision in zip(self.names, curvatures, self.log_precision.exp(), strict=True):
            curvature.add(found[name], share)
            if anew:
                curvature.refresh()
            total = total + curvature.complexity(found[name], weight, precision, self.size)
        return total

    def _weights(self) -> dict[str, Tensor]:
        """The classifier's weights with a prior, by name."""
        weights = dict(self.averaged.model.named_parameters())
        return {name: weights[name] for name in self.names}


def gradients(
    scores: Callable[..., Tensor], weights: Mapping[str, Tensor], inputs: Sequence[Tensor], outputs: int | None = None
) -> tuple[dict[str, Tensor], float]:
    r"""The rows of $L^T J$ of B inputs, where $L = \mathrm{diag}(\sqrt p) - p \sqrt p^T$.

    As $L L^T = \mathrm{diag}(p) - p p^T$, the sum of their outer products, times the weight, is the mean of
    $J^T \Lambda J$ over inputs, and in expectation is so of a part of the inputs and of rows.

    Args:
        scores: from weights by name, and what there is of one input, to its logits `(K,)`.
        weights: tensors by name; the result has no gradient of them.
        inputs: tensors `(B, ...)`.
        outputs: how many rows of each input are drawn, see `_drawn`; all K if None, or if there are no more.

    Returns:
        rows, `(B * outputs, ...)` for each tensor, and the weight of each.

    Example:
        >>> x, weights = torch.randn(5, 3), {"w": torch.zeros(2, 3)}
        >>> rows, weight = gradients(lambda w, x: w["w"] @ x, weights, (x,))
        >>> rows["w"].shape, weight
        (torch.Size([10, 2, 3]), 0.2)
    """
    held = {name: w.detach() for name, w in weights.items()}

    def jacobian(*one: Tensor) -> dict[str, Tensor]:
        logits, pull, *_ = vjp(lambda w: scores(w, *one), held)
        root = (logits.log_softmax(-1) / 2).exp()  # its gradient is finite where a probability is 0
        factor = root.diag() - root.unsqueeze(-1) * root.square()
        if outputs is not None and outputs < len(logits):
            factor = _drawn(factor, outputs)
        return vmap(lambda row: pull(row)[0])(factor)

    jacobians = vmap(jacobian, randomness="different")(*inputs)
    return {name: rows.flatten(0, 1) for name, rows in jacobians.items()}, 1 / len(inputs[0])


def _drawn(factor: Tensor, count: int) -> Tensor:
    """Some rows, drawn in proportion to their squares and made longer: $L L^T$ is the same in expectation.

    Most rows of a confident classifier are nearly zero. Were all as likely, a few steps would miss what counts.
    """
    squares = factor.detach().square().sum(-1).clamp(min=torch.finfo(factor.dtype).tiny)
    chances = squares / squares.sum()
    below = chances.cumsum(-1) < torch.rand(count, 1, dtype=factor.dtype, device=factor.device)
    rows = below.sum(-1).clamp(max=len(chances) - 1)
    return factor[rows] / (count * chances[rows]).sqrt().unsqueeze(-1)
