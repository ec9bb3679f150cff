r"""LILA: a distribution of transformations, and priors of weights, by the marginal likelihood of the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..distributions import quadrature
from ..metrics.outputs import evaluating
from ..models import Averaged, Prediction
from ..utils.compiling import uncompiled
from ..utils.errors import is_memory, reason
from ..utils.shapes import check_count, check_positive, check_tensor
from .base import AveragedObjective, labelled
from .learning_to_transform import entropy_of

__all__ = ["MarginalLikelihood"]


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

    Differs from LILA, whose determinant is Kronecker-factored and made anew over the whole training set after each
    epoch: ours is the stochastic bound that its authors found later, of a few inputs in each step (`complexity`). It
    takes all layers that `torch.func.vmap` and `vjp` do, and any distribution, not one range alone. Of a part of the
    inputs the last term is too large, so that precisions come out too great: in logistic regressions of 2,000 inputs
    and 20 weights by about ten times with 32 inputs. Batch normalisation has its running statistics there, which mean
    nothing without a burn-in.

    Args:
        averaged: the model, with `space="logit"`.
        size: the number of inputs of the training set.
        inputs: so many of each batch are in the determinant (of several processes in that of each); more make the bound
            tighter.
        views: of each of these. The scatter of few, as of the model's samples, counts against wide ranges.
            inputs × views images, and inputs × outputs gradients of all weights, are in memory at a time.
        outputs: so many of the classifier's are in the determinant, drawn anew in each step; more make it tighter.
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
        start = torch.full((len(self.names),), check_positive("precision", precision)).log()
        self.log_precision = nn.Parameter(start.to(averaged.transform.bounds))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """As of every classifier, and the precisions as "prior"."""
        return {**super().parameter_groups(), "prior": [self.log_precision]}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """In training all terms, divided by the size; in evaluation the cross-entropy."""
        x, _ = labelled(batch)
        losses = super().forward(batch)
        if not self.training:
            return losses
        burns = "cross_entropy" not in losses  # those of inputs as they are
        precision = self.log_precision.detach().exp() if burns else self.log_precision.exp()
        squares = torch.stack([w.square().sum() for w in self._weights().values()])
        extra = {"prior": (precision * squares).sum() / (2 * self.size)}
        if not burns:
            extra["complexity"] = self.complexity(x)
        return {**losses, "loss": losses["loss"] + sum(extra.values()), **{k: v.detach() for k, v in extra.items()}}

    def width(self, prediction: Prediction) -> tuple[Tensor, dict[str, Tensor]]:
        """Nothing is added; the entropy is logged, of what is no point."""
        point = getattr(prediction.q, "degenerate", False)
        return prediction.log_probs.new_zeros(()), {} if point else {"entropy": entropy_of(prediction).detach()}

    @uncompiled
    def complexity(self, x: Tensor) -> Tensor:
        """The last term, from some of a batch, `()`, see `complexity`."""
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
                return complexity(scores, self._weights(), self.log_precision.exp(), inputs, self.outputs)
            except RuntimeError as error:
                # The same classifier has just classified the batch: what fails is that it is mapped, in many words.
                if is_memory(error) or "CUDA error" in str(error):
                    raise
                got = f"a classifier with an operation that torch cannot map over inputs ({reason(error)})"
                raise ValueError(f"averaged: received {got}; accepted are others") from error

    def _weights(self) -> dict[str, Tensor]:
        """The classifier's weights with a prior, by name."""
        weights = dict(self.averaged.model.named_parameters())
        return {name: weights[name] for name in self.names}


def complexity(
    scores: Callable[..., Tensor],
    weights: Mapping[str, Tensor],
    precision: Tensor,
    inputs: Sequence[Tensor],
    outputs: int | None = None,
) -> Tensor:
    r"""$\frac{1}{2 B} \log \lvert I + \sum_l G_l G_l^T / \delta_l \rvert$: what a classifier could say of B inputs.

    The rows of $G_l$ are those of $L^T J$ in the weights of tensor l, for all inputs and outputs, where
    $L = \mathrm{diag}(\sqrt p) - p \sqrt p^T$, so that $L L^T = \mathrm{diag}(p) - p p^T$. Of the whole training set it
    is the determinant of Laplace's approximation, taken over inputs, not weights. Of a part of inputs or outputs it is
    at least that in expectation, divided by the share of the outputs that is in it (Han's inequality).

    Args:
        scores: from weights by name, and what there is of one input, to its logits `(K,)`.
        weights: tensors by name; the result has no gradient of them.
        precision: of the prior of each, $\delta$, `(L,)`.
        inputs: tensors `(B, ...)`.
        outputs: so many of the K are in it, drawn at random; all if None.

    Shape:
        result: `()`.

    Example:
        >>> x, weights = torch.randn(5, 3), {"w": torch.zeros(2, 3)}
        >>> alone = complexity(lambda w, x: w["w"] @ x, weights, torch.ones(1), (x[:1],))
        >>> torch.allclose(alone, (1 + x[0] @ x[0] / 2).log() / 2)
        True
    """
    count = len(weights)
    check_tensor("precision", precision, f"a ({count},) tensor", getattr(precision, "shape", None) == (count,))
    for x in inputs:
        check_tensor("inputs", x, "tensors (B, ...) with B > 0", x.ndim > 0 and len(x) == len(inputs[0]) > 0)
    held = {name: w.detach() for name, w in weights.items()}
    few = None if outputs is None else check_count("outputs", outputs)

    def jacobian(*one: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        logits, pull, *_ = vjp(lambda w: scores(w, *one), held)
        root = (logits.log_softmax(-1) / 2).exp()  # its gradient is finite where a probability is 0
        factor = root.diag() - root.unsqueeze(-1) * root.square()
        if few is not None and few < len(logits):
            factor = factor[torch.rand(len(logits), device=logits.device).topk(few).indices]
        return vmap(lambda row: pull(row)[0])(factor), logits

    jacobians, logits = vmap(jacobian, randomness="same")(*inputs)  # the same outputs of all
    kernel: Any = 0.0
    for name, inverse in zip(weights, precision.reciprocal(), strict=True):
        rows = jacobians[name].flatten(0, 1).unsqueeze(-1).flatten(1)
        # Beside the squares of great Jacobians single precision loses the identity, and is not positive definite.
        rows = rows if rows.device.type == "mps" else rows.double()
        kernel = kernel + inverse * rows @ rows.T
    share = len(kernel) / logits.numel()
    identity = torch.eye(len(kernel), dtype=kernel.dtype, device=kernel.device)
    triangle = torch.linalg.cholesky_ex(identity + kernel).L  # to look at its errors would wait for the device
    return triangle.diagonal().log().sum().to(logits.dtype) / (share * len(logits))
