r"""Congealing: align the inputs of each class with one another, and find the prototypes that they are copies of."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..distributions import Conditional, check_over
from ..metrics import sharpness
from ..transforms import Group, Transform
from ..transforms.warp import as_signal
from ..utils.seeds import generator
from ..utils.shapes import check_count, check_finite, check_tensor, compute_dtype
from .clusters import CHUNK, Cluster, move
from .mean_shift import mean_shift
from .templates import Matcher

__all__ = ["Congealed", "congeal"]

STEPS = 2  # of the fine search, per round
CENTRAL = 512  # members among which the most central one is sought


class Congealed(NamedTuple):
    """A data set aligned.

    Attributes:
        g: the elements that move each input to the pose of its prototype, `(B, ...)`.
        x: the inputs moved there, in one warp of the original.
        prototypes: the trimmed means of their members, `(P, C, H, W)` or `(P, C, L)`: the classes in order, of each
            class the largest prototype first.
        labels: the class of each prototype, `(P,)`.
        weights: the share of its class that each prototype has, `(P,)`.
        member: the prototype that each input belongs to, `(B,)`.
        residual: the share of each input's variance that its prototype, moved to it, leaves unexplained, `(B,)`.
        before: for each prototype, the `sharpness` of the mean of its members as they came, `(P,)`.
        after: the same of the mean of its members moved, against the inputs as they came, `(P,)`.
    """

    g: Tensor
    x: Tensor
    prototypes: Tensor
    labels: Tensor
    weights: Tensor
    member: Tensor
    residual: Tensor
    before: Tensor
    after: Tensor


@torch.no_grad()
def congeal(
    x: Tensor,
    y: Tensor | None,
    transform: Transform,
    conditional: Conditional | None = None,
    *,
    prototypes: int = 4,
    gain: float = 0.1,
    poses: int = 512,
    seed: int = 0,
) -> Congealed:
    r"""Aligns the inputs of each class with one another; where a class has several shapes, it gets several prototypes.

    With a conditional, mean-shift first brings every input to its own mode. Then, per class, the sum over the inputs of
    the variance that the best prototype in the best pose leaves unexplained,

    $$\min_{k, g} \; \bigl(1 - \rho(x_i, \mathcal{A}_{g^{-1}} p_k)^2\bigr),$$

    is lowered in turns: the pose is sought over the whole range of the transform, so that an input that lies at another
    mode finds its way back, and refined by Gauss–Newton steps; a prototype becomes the mean of its members, moved,
    without the tenth that is least like it. Prototypes are added one at a time, each from the input that helps most,
    and the class gets the number K with the least

    $$\log \max(R_K, 0.02) - K \log(1 - \mathrm{gain}),$$

    where $R_K$ is the mean residual with each input left out of its own prototype. That is, every further prototype has
    to lower what is left by the fraction `gain`, down to the 2 % that resampling leaves; two that are moved copies of
    one another explain no more than one, and are not kept.

    A pose has no zero: each prototype takes that of its most central member as it came, which is not moved at all.

    Differs from the paper: LTT section 4 only applies mean-shift, each input by itself, and takes one average per
    class, which fails where inputs of a class rest at several modes (4 and 6 in figure 7d).

    Args:
        x: inputs.
        y: their classes; all are of one class if None.
        transform: a group; the poses that are sought lie within its bounds (after mean-shift, if any). Inputs on a
            level other than 0 need its `padding="border"`, or `fill`: zeros from outside would count as contrast.
        conditional: a distribution that has learned where inputs belong.
        prototypes: the greatest number of prototypes of a class.
        gain: between 0 and 1, see above.
        poses: the greatest number of poses that the first search tries for a pair of input and prototype.
        seed: of the choice of inputs from which prototypes begin.

    Shape:
        x: `(B, C, H, W)` or `(B, C, L)`; y: `(B,)`, integers.

    References:
        Miller, Matsakis and Viola, Learning from one example through shared densities on transforms (2000); Frey and
        Jojic, Transformation-invariant clustering using the EM algorithm (2003).

    Example:
        >>> from erlangen.transforms import TimeAffine
        >>> time = torch.linspace(-1, 1, 64)
        >>> late = torch.tensor([[-0.2], [-0.1], [0.0], [0.1], [0.2]])
        >>> found = congeal(torch.exp(-((time - late) / 0.1) ** 2)[:, None], None, TimeAffine("shift"))
        >>> len(found.prototypes), bool((found.after > 0.9).all())
        (1, True)
    """
    group, x, y = _checked(x, y, transform, conditional)
    check_count("prototypes", prototypes)
    if not isinstance(gain, int | float) or not 0 < gain < 1:
        raise ValueError(f"gain: received {gain!r}; accepted is a number between 0 and 1, both excluded")
    matcher = Matcher(group, x, poses=check_count("poses", poses), steps=STEPS)
    start = _start(x, group, conditional, seed)
    g, member, residual = start.clone(), torch.zeros_like(y), x.new_zeros(len(x))
    means, labels = [], []
    for label in y.unique().tolist():
        index = (y == label).nonzero().flatten()
        cluster = Cluster(x[index], start[index], matcher, generator(seed))
        fit = cluster.fit(prototypes, gain)
        residual[index] = fit.residual
        for k in fit.by_size():
            mine, core = fit.members(k), fit.core(k)
            g[index[mine]] = _centred(group, cluster.elements(fit.v[mine, k], mine), x)
            means.append(cluster.mean(g[index[core]], core))
            member[index[mine]] = len(labels)
            labels.append(label)
    moved = move(group, g, x)
    of = torch.tensor(labels, device=x.device)
    weights = torch.bincount(member).to(x.dtype) / (of[:, None] == y).sum(1)
    before, after = (_sharpness(signals, x, member) for signals in (x, moved))
    return Congealed(g, moved, torch.stack(means), of, weights, member, residual, before, after)


def _checked(
    x: Tensor, y: Tensor | None, transform: Transform, conditional: Conditional | None
) -> tuple[Group, Tensor, Tensor]:
    if not isinstance(transform, Group):
        got = f"{type(transform).__name__}, which is no group"
        raise ValueError(f"transform: received {got}; accepted is a Group: poses are composed and undone")
    if conditional is not None:
        check_over(conditional, transform)
    x = as_signal(x, "bilinear", transform.bounds)
    check_tensor("x", x, "at least one signal", len(x) > 0)
    check_finite("x", x)
    y = torch.zeros(len(x), dtype=torch.long, device=x.device) if y is None else y
    whole = isinstance(y, Tensor) and not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool)
    ok = whole and y.shape == x.shape[:1] and y.device == x.device
    check_tensor("y", y, f"one integer label for each of {len(x)} inputs, on {x.device}, or None", ok)
    x = x.to(compute_dtype(x))
    transform.act(_unmoved(x[:1], transform), x[:1])  # raises an error if it does not act on such signals
    return transform, x, y.long()


def _unmoved(x: Tensor, group: Group) -> Tensor:
    return group.element(group.origin.to(x.dtype).expand(len(x), -1)).clone()


def _start(x: Tensor, group: Group, conditional: Conditional | None, seed: int) -> Tensor:
    """Where the search begins: at the inputs as they came, or where mean-shift moves them."""
    if conditional is None:
        return _unmoved(x, group)
    return torch.cat([mean_shift(part, group, conditional, seed=seed).g for part in x.split(CHUNK)])


def _centred(group: Group, g: Tensor, x: Tensor) -> Tensor:
    """The elements, relative to that of the most central member: the one whose frame is nearest to all others'."""
    ends = [(-n / max(x.shape[2:]), n / max(x.shape[2:])) for n in reversed(x.shape[2:])]
    corners = torch.cartesian_prod(*(torch.tensor(e, dtype=x.dtype, device=x.device) for e in ends))
    some = g[:: -(-len(g) // CENTRAL)]
    places = group.act_points(some[:, None], corners.view(1, -1, len(ends)), tuple(x.shape[2:]))[:, 0]
    apart = torch.cdist(places.movedim(1, 0), places.movedim(1, 0)).sum((0, 1))
    return group.compose(group.inverse(some[apart.argmin()][None]), g)


def _sharpness(signals: Tensor, x: Tensor, member: Tensor) -> Tensor:
    """The sharpness of the mean of each prototype's members, against these as they came."""
    groups = [(member == k).nonzero().flatten() for k in range(int(member.max()) + 1)]
    return torch.stack([sharpness(signals[index].mean(0), x[index]) for index in groups])
