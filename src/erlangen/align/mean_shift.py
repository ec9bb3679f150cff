r"""Mean-shift: move an input step by step to where its own distribution of transformations is centred."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.distributions import Distribution

from ..distributions import Conditional, check_over, mean_of, quadrature
from ..distributions.circle import shortest
from ..distributions.density import check_density
from ..metrics.outputs import evaluating
from ..transforms import Group, Transform
from ..transforms.warp import signal_for
from ..utils.seeds import generator
from ..utils.shapes import check_count, check_kind, check_positive, check_weight
from ..utils.words import percent

__all__ = ["Alignment", "calibrate_gate", "mean_shift"]

Rule = Literal["compose", "additive"]


class Alignment(NamedTuple):
    """Where inputs were moved to.

    Attributes:
        g: the elements that move each input to its mode, the identity where a gate kept it, `(B, ...)`.
        x: the inputs moved there, in one warp of the original.
        path: the elements after each step, the identity first, `(steps + 1, B, ...)`, or fewer if all came to rest.
        converged: which inputs came to rest, `(B,)`.
    """

    g: Tensor
    x: Tensor
    path: Tensor
    converged: Tensor


@torch.no_grad()
def mean_shift(
    x: Tensor,
    transform: Transform,
    conditional: Conditional,
    *,
    steps: int = 50,
    samples: int = 128,
    step_size: float = 0.5,
    tolerance: float = 1e-3,
    rule: Rule = "compose",
    along: Collection[str] | str | None = None,
    gate: float | None = None,
    seed: int = 0,
) -> Alignment:
    r"""Moves inputs to a mode of the distribution that they induce, warping each original once per step.

    $$g_k = \exp\bigl(\gamma \, \mathbb{E}_{v \sim q(\cdot \mid I_{k-1})} v\bigr) \circ g_{k-1}, \qquad
      I_k = \mathcal{A}_{g_k} I_0,$$

    with the circular mean for periodic coordinates. The mean is taken over Sobol points, the same at every step and for
    every input, so that a fixed point is one to rounding, and the result is the same on every run and in every batch.

    Differs from the paper: LTT section 3 (mean-shift) adds coordinates, $T_k = T_{k-1} + \gamma \mathbb{E}[T]$, which
    is not what moving an image twice does unless the coordinates commute; `rule="additive"` does that.

    Args:
        x: inputs; bytes become [0, 1].
        transform: a group; any transform if additive.
        conditional: the distribution, given an input; in evaluation mode, whatever its own is.
        steps: the greatest number of steps.
        samples: the number of points for a mean.
        step_size: $\gamma$.
        tolerance: an input has come to rest when the mean lies within this fraction of half of each coordinate's range
            of the identity.
        rule: "compose" or "additive".
        along: the names of the coordinates that move inputs, or one name; all if None. Leave out coordinates in which q
            does not follow its input: the mean then stays where it is, and inputs drift away.
        gate: an input is moved only if that makes the identity likelier by so many nats,
            $\log q(e \mid g x) - \log q(e \mid x)$, and otherwise stays where it is; if None all are moved. Where most
            inputs are as they should be, moving one of them costs more than leaving another one wrong:
            `objectives.PoseLikelihood` trains such a q, and `calibrate_gate` finds the gate.
        seed: of the points.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`.
    """
    check_count("steps", steps)
    check_count("samples", samples)
    check_positive("step_size", step_size)
    check_weight("tolerance", tolerance)
    if rule not in get_args(Rule):
        raise ValueError(f"rule: received {rule!r}; accepted is one of {', '.join(get_args(Rule))}")
    x = _checked(x, transform, conditional)
    along = transform.names if along is None else [along] if isinstance(along, str) else along
    if unknown := [name for name in along if name not in transform.names]:
        raise ValueError(f"along: received {unknown}; accepted are the coordinates {list(transform.names)}")
    if gate is not None and (not isinstance(gate, Real) or math.isnan(gate)):
        raise ValueError(f"gate: received {gate!r}; accepted is a difference of log-densities, or None")
    if gate is not None:
        _check_density("gate", f"{gate!r}", conditional, x)
    free = torch.tensor([name in along for name in transform.names], device=x.device)
    advance = _adder(transform, len(x)) if rule == "additive" else _composer(transform)
    (low, high), origin = transform.bounds, transform.origin.expand(len(x), -1)
    g, moved = transform.element(origin), x
    path, resting = [g], torch.zeros(len(x), dtype=torch.bool, device=x.device)
    with evaluating(conditional):
        for _ in range(steps):
            pull = torch.where(free, _pull(transform, conditional(moved), samples, seed), 0.0)
            g = advance(g, torch.where(resting[:, None], 0.0, step_size * pull))
            moved = transform.act(g, x)
            path.append(g)
            resting = resting | (pull.abs() <= tolerance * (high - low) / 2).all(-1)
            if bool(resting.all()):
                break
    if gate is not None:
        goes = (_gain(conditional, origin, x, moved) > gate).view(-1, *(1 for _ in g.shape[1:]))
        g = torch.where(goes, g, path[0])
        moved = transform.act(g, x)
    return Alignment(g, moved, torch.stack(path), resting)


@torch.no_grad()
def calibrate_gate(
    x: Tensor, transform: Transform, conditional: Conditional, *, share: float = 0.005, batch: int = 256, **how: Any
) -> float:
    """The least gate at which `mean_shift` moves no more than a share of the inputs that are already where they belong.

    If N is large, about the same share of other such inputs will be moved: where k of N are moved here, the expected
    share of others is (k + 1) / (N + 1). So N should be many times 1/share.

    Args:
        x: such inputs, on which q was not trained.
        transform: as in `mean_shift`.
        conditional: as in `mean_shift`.
        share: the share of them that may be moved.
        batch: how many are processed at once.
        **how: other options of `mean_shift`; use the gate with the same.

    Shape:
        x: `(N, C, H, W)` or `(N, C, L)`.
    """
    if not (isinstance(share, Real) and 0 <= share < 1):
        raise ValueError(f"share: received {share!r}; accepted is a share, 0 <= share < 1")
    if "gate" in how:
        raise ValueError(f"gate: received {how['gate']!r}; accepted is none: it is what is looked for")
    check_count("batch", batch)
    x = _checked(x, transform, conditional)
    if not len(x):
        raise ValueError("x: received no inputs; accepted is at least one")
    _check_density("conditional", "one", conditional, x)
    may = math.floor(share * len(x) + 1e-9)  # 0.07 * 100 is more than 7, 0.29 * 100 less than 29
    if share and not may:
        others = f"of others about {percent(1 / (len(x) + 1), 1)} will move"
        warnings.warn(f"x: received {len(x)}, too few for a share of {share:g}: none moves, {others}", stacklevel=3)
    gains = []
    for part in x.split(batch):
        moved = mean_shift(part, transform, conditional, **how).x
        gains.append(_gain(conditional, transform.origin.expand(len(part), -1), part, moved))
    return torch.cat(gains).sort().values[len(x) - 1 - may].item()


def _checked(x: Tensor, transform: Transform, conditional: Conditional) -> Tensor:
    """Inputs in the type of the network that sees them; a `ValueError` unless transform and conditional match."""
    check_kind("transform", transform, Transform)
    if transform.support.is_discrete:
        got = f"{type(transform).__name__}, whose coordinates are indices"
        raise ValueError(f"transform: received {got}; accepted is one with continuous coordinates, which have a mean")
    check_over(conditional, transform)
    return signal_for(x, getattr(conditional, "encoder", None), transform.bounds)


def _check_density(name: str, got: str, conditional: Conditional, x: Tensor) -> None:
    """Raises a `ValueError` for points without a density: there is none to compare before and after a move."""
    with evaluating(conditional):
        if check_density(conditional(x[:1])).degenerate:
            where = f"{got} of points without a density (a Dirac)"
            raise ValueError(
                f"{name}: received {where}; accepted is a gate of a conditional with one, such as Gaussian"
            )


def _gain(conditional: Conditional, origin: Tensor, x: Tensor, moved: Tensor) -> Tensor:
    """By how many nats a move makes the identity likelier, `(B,)`; where it is impossible after it, by none at all."""
    with evaluating(conditional):
        before, after = (conditional(each).log_prob(origin) for each in (x, moved))
    return torch.where(after == -math.inf, after, after - before)  # it may have been impossible before, too


def _pull(transform: Transform, q: Distribution, samples: int, seed: int) -> Tensor:
    """From the identity to the mean of a distribution, on a circle the shortest way."""
    q = check_density(q)
    source = generator(seed, q.like.device)
    mean, _ = mean_of(quadrature(q, samples, points="common", generator=source), q.periodic, q.ends)
    return shortest(mean - transform.origin, q.periodic, q.ends)


def _composer(transform: Transform) -> Callable[[Tensor, Tensor], Tensor]:
    if not isinstance(transform, Group):
        got = f"{type(transform).__name__}, which is no group"
        raise ValueError(f"transform: received {got}; accepted is a Group, or any Transform with rule='additive'")

    def compose(g: Tensor, shift: Tensor) -> Tensor:
        return transform.compose(transform.element(transform.origin + shift), g)

    return compose


def _adder(transform: Transform, batch: int) -> Callable[[Tensor, Tensor], Tensor]:
    total = transform.origin.expand(batch, -1)

    def add(g: Tensor, shift: Tensor) -> Tensor:
        nonlocal total
        total = total + shift
        return transform.element(total)

    return add
