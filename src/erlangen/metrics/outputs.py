"""Calls of a model that is measured: in evaluation mode, from a seed, and with logits as the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ..utils.seeds import seeded
from ..utils.shapes import check_tensor, compute_dtype, describe

__all__ = [
    "Model",
    "are_probabilities",
    "check_data",
    "check_differentiable",
    "check_gradients",
    "check_labels",
    "check_logits",
    "check_several",
    "classify",
    "classify_copies",
    "evaluating",
    "measuring",
    "reached",
]

Model: TypeAlias = Callable[[Tensor], Any]


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode inside a block, for a module; each of its parts has its own mode back after it."""
    if not isinstance(model, nn.Module):
        yield
        return
    modes = {part: part.training for part in model.modules()}
    model.eval()
    try:
        yield
    finally:
        model.train(modes[model])  # train() may do more than set the flag; parts may differ from the whole
        for part, mode in modes.items():
            part.training = mode


@contextmanager
def measuring(seed: int, *models: object) -> Iterator[None]:
    """Evaluation mode for all that are modules, and every global generator seeded, without a trace after the block."""
    if not callable(models[0]):
        raise ValueError(f"model: received {describe(models[0])}; accepted is a callable from inputs to logits (B, K)")
    with ExitStack() as stack:
        stack.enter_context(seeded(seed))
        for model in models:
            stack.enter_context(evaluating(model))
        yield


def classify(model: Model, x: Tensor) -> Tensor:
    """The logits of inputs, or the log-probabilities of a model that returns an object with `log_probs`.

    Logits that have no softmax are refused: NaN, plus infinity, or minus infinity for every class. A decision among
    them is always the same, and so would count as invariant. Minus infinity rules a class out.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; result: `(B, K)`, in single precision at least.
    """
    output = _asked(model, x.clone())  # some models change what they are given: the data, and what copies are made of
    logits = getattr(output, "log_probs", output)
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(x) or not logits.is_floating_point():
        raise ValueError(
            f"model: received the output {describe(output)} for {len(x)} inputs; "
            f"accepted are floating-point logits ({len(x)}, K), or an object with such log_probs; otherwise pass "
            "a module that makes logits of what the model gives"
        )
    bad = int((~logits.amax(1).isfinite()).sum())
    if bad:
        got = f"NaN or infinite logits for {bad} of {len(x)} inputs"
        raise ValueError(f"model: received {got}; accepted are finite logits")
    return logits.to(compute_dtype(logits))


def _asked(model: Model, x: Tensor) -> Any:
    """The output of a model; a `ValueError` if it fails for inputs of another type than its parameters."""
    try:
        return model(x)
    except RuntimeError as error:
        own = next((p.dtype for p in getattr(model, "parameters", tuple)() if p.is_floating_point()), x.dtype)
        if own == x.dtype:
            raise
        accepted = f"inputs in the type of the model, such as x.to({own})"
        raise ValueError(
            f"x: received {describe(x)} for a model in {own}, which fails; accepted are {accepted}"
        ) from error


def check_several(logits: Tensor) -> Tensor:
    """Returns logits, `(..., K)`; a `ValueError` if there is but one, whose probability is 1 whatever the input."""
    if logits.shape[-1] < 2:
        raise ValueError(
            f"model: received the logits {describe(logits)} of one class; accepted are logits of two classes or more "
            "(for a single logit z, those of 0 and z)"
        )
    return logits


def are_probabilities(outputs: Tensor) -> bool:
    """Whether all outputs of a model, `(..., K)`, are probabilities: of several inputs, logits hardly are by chance."""
    total = outputs.sum(-1)
    # Loose, for those in half precision: rounded to 8 bits they sum to one within 0.002.
    return bool((outputs >= 0).all()) and torch.allclose(total, torch.ones_like(total), atol=1e-2)


def check_logits(probable: bool) -> None:
    """Raises a `ValueError` for outputs that `are_probabilities`: their softmax would be nearly even."""
    if probable:
        raise ValueError("model: received probabilities of all inputs; accepted are logits, such as their logarithms")


def check_differentiable(logits: Tensor) -> None:
    """Raises a `ValueError` unless logits have a gradient."""
    if not logits.requires_grad:
        accepted = "a differentiable model, outside of torch.inference_mode"
        raise ValueError(f"model: received {describe(logits)} without a gradient; accepted is {accepted}")


def reached(gradient: Tensor | None, logits: Tensor, x: Tensor) -> Tensor:
    """A gradient from logits to inputs, `x`: zero if torch has none because the logits ignore these.

    Raises:
        ValueError: there is none although logits differ, as behind a part under `torch.no_grad`, or one that detaches.
    """
    if gradient is not None:
        return gradient
    if bool((logits != logits[:1]).any()):
        got = "logits that depend on the inputs, but whose gradient does not reach them"
        raise ValueError(f"model: received {got}; accepted is a model without no_grad, detach or integers in between")
    return torch.zeros_like(x)


def check_gradients(gradients: Tensor) -> None:
    """Raises a `ValueError` where gradients, `(B, ...)`, are no numbers, as that of a root at zero."""
    bad = int((~gradients.isfinite()).flatten(1).any(1).sum())
    if bad:
        accepted = "a model with finite ones (without saliency and sensitivity an audit needs none: saliency=0)"
        got = f"NaN or infinite gradients for {bad} of {len(gradients)} inputs"
        raise ValueError(f"model: received {got}; accepted is {accepted}")


def classify_copies(model: Model, moved: Tensor) -> Tensor:
    """The logits of copies of inputs.

    Shape:
        moved: `(S, B, C, H, W)` or `(S, B, C, L)`; result: `(S, B, K)`.
    """
    return classify(model, moved.flatten(0, 1)).unflatten(0, moved.shape[:2])


def check_labels(name: str, y: Tensor, inputs: int, classes: int | None = None) -> Tensor:
    """Returns the labels of inputs, `(B,)`; a `ValueError` unless they are integers from 0 on, below `classes`."""
    whole = isinstance(y, Tensor) and not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool)
    check_tensor(name, y, f"integer labels ({inputs},)", whole and tuple(y.shape) == (inputs,))
    low, high = int(y.min()), int(y.max())
    if low < 0 or (classes is not None and high >= classes):
        accepted = "labels from 0 on" if classes is None else f"labels from 0 to {classes - 1}"
        raise ValueError(f"{name}: received labels from {low} to {high}; accepted are {accepted}")
    return y.long()


def check_data(x: Tensor, y: Tensor | None) -> Tensor | None:
    """Checks inputs and their labels, and returns the labels on the device of the inputs."""
    ok = isinstance(x, Tensor) and x.ndim in (3, 4) and len(x) > 0
    check_tensor("x", x, "images (B, C, H, W) or series (B, C, L), at least one", ok)
    return None if y is None else check_labels("y", y, len(x)).to(x.device)
