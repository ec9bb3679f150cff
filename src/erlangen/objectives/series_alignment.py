"""Aligning series that are the same but for their time: the warps with which one mean explains them all."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..distributions import Conditional, check_over
from ..transforms import CPAB
from ..transforms.warp import signal_like
from ..utils.shapes import check_tensor, check_weight, compute_dtype
from .base import Objective, trainable

__all__ = ["SeriesAlignment", "variance_about_mean"]


def variance_about_mean(x: Tensor, y: Tensor | None = None) -> Tensor:
    r"""The variance of series about the mean of their class, averaged over channels and time.

    $$ \frac{1}{CL} \sum_{c, t} \frac{1}{N - K} \sum_i \bigl(x_{ict} - \bar x_{y_i ct}\bigr)^2, $$

    with K the number of classes that occur; with one series to each class it is zero. Memory grows with N, not with its
    square.

    Shape:
        x: `(N, C, L)`, floating-point; y: `(N,)`, or None for one class; result: `()`, in single precision at least.
    """
    ok = isinstance(x, Tensor) and x.ndim == 3 and x.is_floating_point()
    x = check_tensor("x", x, "floating-point series (N, C, L)", ok)
    x, y = x.to(compute_dtype(x)), torch.zeros(len(x), device=x.device) if y is None else y
    check_tensor("y", y, f"a class for each, ({len(x)},)", isinstance(y, Tensor) and y.shape == x.shape[:1])
    _, place, size = y.unique(return_inverse=True, return_counts=True)
    sums = x.new_zeros(len(size), *x.shape[1:]).index_add(0, place, x)
    means = sums / size[:, None, None]
    return (x - means[place]).square().mean((1, 2)).sum() / max(len(x) - len(size), 1)


def _means(x: Tensor, y: Tensor | None) -> Tensor:
    """For each series of a batch the mean of its class, `(N, C, L)`, without a wait for the device."""
    y = torch.zeros(len(x), device=x.device) if y is None else y
    same = (y == y[:, None]).to(x.dtype)
    with torch.autocast(x.device.type, enabled=False):  # as for warps, whose results are averaged here
        return ((same / same.sum(1, keepdim=True)) @ x.flatten(1)).view_as(x)


class SeriesAlignment(Objective):
    r"""Warps of time that make series alike, predicted from each series by itself.

    $$ \mathcal{L} = \frac{1}{NCL} \sum_i \bigl\| x_i - T_{-\theta_i} m_{y_i} \bigr\|^2
        + \lambda\, \frac{1}{N} \sum_i \sum_k \bigl(\theta_{i,k+1} - \theta_{i,k}\bigr)^2
        + \gamma\, \Bigl\| \frac{1}{N} \sum_i \theta_i \Bigr\|^2, \qquad
        m_y = \operatorname{mean}_{y_j = y} T_{\theta_j} x_j. $$

    The mean of the aligned series of each class, in the time of each series, has to explain it. This is the variance
    of aligned series about their mean, in which a moment counts as long as it took: the variance as such, the loss of
    Shapira Weber et al., becomes small where time is squeezed until nothing is left of what differs. θ are velocities
    at the ends of cells, zero at the border, and the second term is the work of stretching. The third keeps the mean in
    the time of the series, for otherwise all of them could be warped alike.

    Args:
        transform: a `CPAB` of series.
        conditional: from a series to its warp, the mode of what it returns.
        smoothness: λ.
        centring: γ.

    Shape:
        batch: x `(B, C, L)`, and y `(B,)` where there are classes.

    References:
        | R. Shapira Weber et al. Diffeomorphic temporal alignment nets (2019).
    """

    def __init__(
        self, transform: CPAB, conditional: Conditional, *, smoothness: float = 0.003, centring: float = 0.1
    ) -> None:
        super().__init__()
        if not isinstance(transform, CPAB) or transform.dims != 1:
            raise ValueError(f"transform: received {transform!r}; accepted is a CPAB of series, such as CPAB((10,))")
        check_over(conditional, transform)
        self.transform, self.conditional = transform, conditional
        self.smoothness, self.centring = check_weight("smoothness", smoothness), check_weight("centring", centring)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The conditional's."""
        return {"conditional": trainable(self.conditional.parameters())}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss and its parts."""
        x, y = batch[0], batch[1] if len(batch) > 1 else None
        check_tensor("batch", x, "series (B, C, L)", isinstance(x, Tensor) and x.ndim == 3)
        if y is not None:
            check_tensor("batch", y, f"a class for each, ({len(x)},)", isinstance(y, Tensor) and y.shape == x.shape[:1])
        x = signal_like(x, self.transform.bounds)
        theta = self.conditional(x).mode
        means = _means(self.transform(x, theta), y)
        error = (x - self.transform(means, -theta)).square().mean()
        velocity = self.transform.element(theta)
        ends = F.pad(velocity, (1, 1)) if self.transform.field.zero_boundary else velocity
        stretch = ends.diff(dim=-1).square().sum(-1).mean()
        centre = velocity.mean(0).square().sum()
        loss = error + self.smoothness * stretch + self.centring * centre
        return {"loss": loss, "error": error, "stretch": stretch}
