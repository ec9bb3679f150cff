r"""How sensitive a model is to any change of its input: the largest singular value of its Jacobian."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from ..transforms.warp import as_signal
from ..utils.seeds import generator
from ..utils.shapes import check_count, compute_dtype
from .measured import BOOTSTRAP, Bootstrap, Measured, measured
from .outputs import Model, check_data, check_differentiable, check_gradients, classify, measuring, reached

__all__ = ["jacobian_norm"]

Method = Literal["auto", "exact", "power"]
FEW = 64  # logits, up to which all rows of the Jacobian cost less than an iteration that converges
STEPS = 1000  # of the power iteration, at most


def jacobian_norm(
    model: Model,
    x: Tensor,
    *,
    y: Tensor | None = None,
    method: Method = "auto",
    batch_size: int = 256,
    bootstrap: Bootstrap = BOOTSTRAP,
    seed: int = 0,
) -> Measured:
    r"""$\sigma_{\max}(J)$ with $J = \partial f(x) / \partial x$, at each input (Moskalev et al., section 4.4).

    Args:
        model: any callable from inputs to logits `(B, K)`, inputs independent of each other; a module is in evaluation
            mode while it is measured.
        x: inputs, before normalisation, which belongs into the model and counts.
        y: the classes of the inputs, for the mean of each class.
        method: "exact" makes all K rows of J, K backward passes; "power" iterates $u \mapsto J J^\top u$, which needs
            a second derivative of the model and approaches the value from below; "auto" is exact up to 64 logits.
        batch_size: the greatest number of inputs that the model sees at a time.
        bootstrap: how the confidence interval is made.
        seed: of the start of the iteration, and of whatever is random in the model.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; y: `(B,)`.

    References:
        | A. Moskalev et al. On genuine invariance learning without weight-tying (2023).
    """
    if method not in get_args(Method):
        raise ValueError(f"method: received {method!r}; accepted are {', '.join(map(repr, get_args(Method)))}")
    y, source = check_data(x, y), generator(seed)
    found, classes = [], 1
    with measuring(seed, model), torch.enable_grad():
        for part in x.split(check_count("batch_size", batch_size)):
            inputs = as_signal(part, "bilinear").detach().requires_grad_()
            logits = classify(model, inputs)
            check_differentiable(logits)
            reached(torch.autograd.grad(logits.sum(), inputs, retain_graph=True, allow_unused=True)[0], logits, inputs)
            classes = logits.shape[1]
            # Drawn on the CPU, input by input: the same on every device and for every batch size.
            start = torch.stack([torch.randn(classes, generator=source, dtype=torch.float64) for _ in part])
            exact = method == "exact" or (method == "auto" and classes <= FEW)
            found.append(_exact(logits, inputs) if exact else _power(logits, inputs, start.to(logits)))
    return measured(torch.cat(found), y, classes=classes, bootstrap=bootstrap)


def _exact(logits: Tensor, x: Tensor) -> Tensor:
    """The spectral norm of all rows, each summed over the batch: no input changes the logits of another, `(b,)`."""
    rows = [torch.autograd.grad(f.sum(), x, retain_graph=True, materialize_grads=True)[0] for f in logits.unbind(1)]
    jacobian = torch.stack([row.flatten(1) for row in rows], 1)
    check_gradients(jacobian)
    return torch.linalg.matrix_norm(jacobian.to(compute_dtype(jacobian)), 2)


def _power(logits: Tensor, x: Tensor, u: Tensor) -> Tensor:
    r"""The power iteration, `(b,)`. An input whose value has settled rests, so that others cannot change it."""
    # J v as the derivative of J^T w in w, which is linear: the graph is made once, and no forward mode is needed.
    w = torch.zeros_like(logits, requires_grad=True)
    (transposed,) = torch.autograd.grad(logits, x, w, create_graph=True, materialize_grads=True)
    norm, settled = u.new_zeros(len(u)), torch.zeros(len(u), dtype=torch.bool, device=u.device)
    tolerance = torch.finfo(u.dtype).eps ** 0.75
    for _ in range(STEPS):
        u = u / u.norm(dim=1, keepdim=True).clamp_min(torch.finfo(u.dtype).tiny)
        (v,) = torch.autograd.grad(logits, x, u, retain_graph=True, materialize_grads=True)
        check_gradients(v)
        longer = torch.where(settled, norm, v.flatten(1).to(norm).norm(dim=1))
        settled = settled | ((longer - norm).abs() <= tolerance * longer)
        norm = longer
        if bool(settled.all()) or not transposed.requires_grad:
            break
        (u,) = torch.autograd.grad(transposed, w, v, retain_graph=True, materialize_grads=True)
    return norm.detach()
