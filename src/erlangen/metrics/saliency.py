r"""Where a model looks, and whether it looks at the same when its input is transformed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from ..transforms import FiniteGroup, Shifts
from ..utils.shapes import check_count, check_kind, check_positive, check_tensor, compute_dtype, expands
from .measured import BOOTSTRAP, Bootstrap, Measured, measured
from .orbit import Batch, Orbit, as_orbit, inscribed_disc
from .outputs import (
    Model,
    check_data,
    check_differentiable,
    check_gradients,
    check_labels,
    classify,
    evaluating,
    measuring,
    reached,
)

__all__ = ["SALIENCY", "Saliency", "integrated_gradients", "saliency_map", "saliency_similarity", "smooth"]

Target = Literal["predicted", "own", "true"]
Padding = Literal["zeros", "circular"]


@dataclass(frozen=True)
class Saliency:
    """How a saliency map is made (Moskalev et al., section 4.1), and what the paper leaves open.

    Args:
        target: the class whose logit is explained. The paper says "the target class": by default the one that is
            predicted for an input, also for its copies, so that the same question is asked of all of them. "own" is
            the class that is predicted for each copy, "true" the label.
        baseline: where the path of the integrated gradients starts, a number or an image `(C, H, W)` that the
            transformations leave as it is. The paper names none; zero, which is black for inputs in [0, 1], and the
            mean for inputs that are normalised already, as the paper's are.
        steps: of the path, at the midpoints of equal parts. The paper names none; 50, as in captum.
        threshold: what is less than this share of a map's maximum becomes zero.
        width: the side of the Gaussian kernel, odd.
        sigma: its standard deviation.
        padding: what the kernel sees outside, "zeros" or "circular". It must commute with the transformations; None
            for what does: circular for `Shifts`, zeros for all others.
    """

    target: Target = "predicted"
    baseline: float | Tensor = 0.0
    steps: int = 50
    threshold: float = 0.9
    width: int = 3
    sigma: float = 1.0
    padding: Padding | None = None

    def __post_init__(self) -> None:
        for name, options in (("target", get_args(Target)), ("padding", (None, *get_args(Padding)))):
            if getattr(self, name) not in options:
                accepted = ", ".join(map(repr, options))
                raise ValueError(f"{name}: received {getattr(self, name)!r}; accepted are {accepted}")
        if not isinstance(self.threshold, int | float) or not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold: received {self.threshold!r}; accepted is a number from 0 to 1")
        if not isinstance(self.baseline, int | float | Tensor):
            raise ValueError(f"baseline: received {self.baseline!r}; accepted is a number or a tensor")
        check_count("steps", self.steps)


SALIENCY = Saliency()


def integrated_gradients(
    model: Model, x: Tensor, target: Tensor, *, baseline: float | Tensor = 0.0, steps: int = 50
) -> Tensor:
    r"""$(x - x') \odot \int_0^1 \nabla f_c(x' + \alpha (x - x')) \, d\alpha$, by the midpoint rule.

    Exact with any number of steps where f is linear or quadratic on the path. One call of the model per step.

    Args:
        model: from inputs to logits; a module is in evaluation mode meanwhile.
        x: inputs.
        target: the classes c.
        baseline: $x'$.
        steps: the number of points on the path.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; target: `(B,)`; baseline: what expands to x; result: as x.

    References:
        | M. Sundararajan, A. Taly, Q. Yan. Axiomatic attribution for deep networks (2017).
    """
    x = check_tensor("x", x, "a floating-point tensor of inputs", isinstance(x, Tensor) and x.is_floating_point())
    wide = x.detach().to(compute_dtype(x))  # half precision would lose the steps of a long path in their sum
    start = torch.as_tensor(baseline, dtype=wide.dtype, device=x.device)
    check_tensor("baseline", start, f"a number, or what expands to {tuple(x.shape)}", expands(start, x))
    path, total = wide - start, torch.zeros_like(wide)
    with evaluating(model), torch.enable_grad():
        for k in range(check_count("steps", steps)):
            point = (start + (k + 0.5) / steps * path).to(x.dtype).requires_grad_()
            logits = classify(model, point)
            check_differentiable(logits)
            chosen = logits.gather(1, check_labels("target", target, len(x), logits.shape[1]).unsqueeze(1)).sum()
            total += reached(torch.autograd.grad(chosen, point, allow_unused=True)[0], logits, point)
    return (path * total / steps).to(x.dtype)


def smooth(maps: Tensor, *, width: int = 3, sigma: float = 1.0, padding: Padding = "zeros") -> Tensor:
    """A Gaussian filter whose weights sum to one, along every side.

    Shape:
        maps: `(B, C, H, W)` or `(B, C, L)`; result: as maps.
    """
    if check_count("width", width) % 2 == 0:
        raise ValueError(f"width: received {width}; accepted is an odd number")
    r = width // 2
    place = torch.arange(-r, r + 1, dtype=maps.dtype, device=maps.device) / check_positive("sigma", sigma)
    kernel = (-place.square() / 2).softmax(0)
    mode = "circular" if padding == "circular" else "constant"
    for side in range(2, maps.ndim):
        rows = maps.movedim(side, -1)
        padded = F.pad(rows.flatten(0, -3), (r, r), mode)
        maps = (padded.unfold(-1, width, 1) @ kernel).reshape(rows.shape).movedim(-1, side)
    return maps


def saliency_map(model: Model, x: Tensor, target: Tensor, saliency: Saliency = SALIENCY) -> Tensor:
    r"""The map $m_f$ of Moskalev et al., section 4.1: integrated gradients, absolute, thresholded and smoothed.

    "We accumulate absolute values of integrated gradients" is read as: over channels.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; target: `(B,)`; result: `(B, 1, H, W)` or `(B, 1, L)`.
    """
    gradients = integrated_gradients(model, x, target, baseline=saliency.baseline, steps=saliency.steps)
    maps = gradients.to(compute_dtype(gradients)).abs().sum(1, keepdim=True)
    least = saliency.threshold * maps.flatten(1).amax(1)
    maps = torch.where(maps < least.reshape(-1, *[1] * (maps.ndim - 1)), 0.0, maps)  # NaN stays NaN
    return smooth(maps, width=saliency.width, sigma=saliency.sigma, padding=saliency.padding or "zeros")


def saliency_similarity(
    model: Model,
    x: Tensor,
    orbit: Orbit | FiniteGroup,
    *,
    y: Tensor | None = None,
    batch_size: int = 256,
    bootstrap: Bootstrap = BOOTSTRAP,
    saliency: Saliency = SALIENCY,
) -> Measured:
    r"""$SI_f = \cos(m_f(x),\, g^{-1} m_f(gx))$ (Moskalev et al., equation 3): 1 when the model looks at the same.

    Means take the place of the paper's sums. The similarity is 1 if both maps are zero everywhere, and 0 if one is.
    Arguments and shapes are those of `logit_invariance`, the transform must be invertible, and `saliency` says how maps
    are made.
    """
    orbit, y = as_orbit(orbit), check_data(x, y)
    saliency = _fitting(saliency, orbit, y)
    found, classes = [], 1
    with measuring(orbit.seed, model, orbit.law), torch.no_grad():
        for batch in orbit.batches(x, batch_size):
            logits = classify(model, batch.x)
            classes = logits.shape[1]
            labels = None if y is None else check_labels("y", y[batch.rows], len(logits), classes)
            target = labels if saliency.target == "true" and labels is not None else logits.argmax(1)
            found.append(_similarity(model, orbit, batch, target, saliency))
    return measured(torch.cat(found), y, classes=classes, bootstrap=bootstrap)


def _fitting(saliency: Saliency, orbit: Orbit, y: Tensor | None) -> Saliency:
    """The saliency with the padding that commutes; a `ValueError` where maps cannot be made or moved back."""
    check_kind("saliency", saliency, Saliency)
    orbit.check_invertible()
    if orbit.transform.acts_on not in ("positions", "colours"):
        got = f"a transform of {orbit.transform.acts_on}"
        raise ValueError(f"orbit: received {got}; accepted is one of either, by which a map can be moved")
    if y is None and saliency.target == "true":
        raise ValueError("y: received None; accepted are labels (B,), which the target 'true' needs")
    fitting = "circular" if isinstance(orbit.transform, Shifts) else "zeros"
    return replace(saliency, padding=saliency.padding or fitting)


def _similarity(model: Model, orbit: Orbit, batch: Batch, target: Tensor, saliency: Saliency) -> Tensor:
    """The mean over copies of the cosine between the map of an input and theirs, `(b,)`."""
    maps = saliency_map(model, batch.x, target, saliency)
    check_gradients(maps)  # two maps of NaN would count as alike
    maps = maps * inscribed_disc(maps) if orbit.disc else maps
    found = []
    for g in batch.elements:
        moved = orbit.act(g, batch.x)
        copies = moved.flatten(0, 1)
        classes = classify(model, copies).argmax(1) if saliency.target == "own" else target.repeat(len(moved))
        theirs = saliency_map(model, copies, classes, saliency)
        check_gradients(theirs)
        theirs = orbit.realign(g, theirs.unflatten(0, moved.shape[:2]))
        found.append(_cosine(maps.flatten(1), theirs.flatten(2)))
    return torch.cat(found).mean(0)


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    """The cosine over the last dimension: 1 between two zeros, 0 between a zero and anything else."""
    a, b = (v / v.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(v.dtype).tiny) for v in (a, b))
    norms = a.norm(dim=-1) * b.norm(dim=-1)
    both = (a.norm(dim=-1) == 0) & (b.norm(dim=-1) == 0)
    return torch.where(both, 1.0, (a * b).sum(-1) / torch.where(norms == 0, 1.0, norms))
