r"""The first stage of a generative model of symmetry transformations: one prototype for all of an orbit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models import SymmetryModel
from ..transforms import HSV, Group
from ..transforms.base import Bounds
from ..utils.compiling import uncompiled
from ..utils.shapes import check_count, check_kind, check_weight, describe
from .base import Counted
from .moves import moves_within

__all__ = ["Blur", "PrototypeInference", "on_lines", "trained_of"]


CELLS = 8  # along a side, of the grid on which content is compared


class Blur(nn.Module):
    r"""A Gaussian filter of 5 × 5 whose $\sigma$ falls from its first value to 0, linearly (SGM appendix B).

    What lies outside the frame is black, as for warps.

    Args:
        sigma: the first value, in pixels.
        steps: for how many steps it blurs.
    """

    def __init__(self, sigma: float = 3.0, steps: int = 100) -> None:
        super().__init__()
        self.sigma, self.steps = check_weight("sigma", sigma), check_count("steps", steps)

    def active(self, step: int) -> bool:
        """Whether it blurs in a step, which counts from 0."""
        return self.sigma > 0 and step < self.steps

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        """Signals `(B, C, H, W)` or `(B, C, L)` as they are seen in a step, which is on the device."""
        if not self.sigma:
            return x
        sigma = self.sigma * (1 - step / self.steps).clamp(min=1e-3)
        t = torch.arange(-2, 3, dtype=x.dtype, device=x.device)
        kernel = (-(t / sigma.to(x.dtype)).square() / 2).softmax(0)
        for dim in range(2, x.ndim):
            rows = x.movedim(dim, -1)
            padded = F.pad(rows.reshape(-1, 1, rows.shape[-1]), (2, 2))
            with torch.autocast(x.device.type, enabled=False):  # what is compared later must not be rounded
                x = F.conv1d(padded, kernel.view(1, 1, -1)).reshape(rows.shape).movedim(-1, dim)
        return x


class PrototypeInference(Counted):
    r"""The self-supervised loss of the inference network (SGM equations 6, 7 and 24).

    Two random transformations of an input, $x_i = \mathcal{T}_{\eta_i}(x)$, should have one prototype. Brought from the
    pose of one to that of the other (equation 24, with $\eta_2$ the identity equation 6),

    $$ \bigl\| \mathcal{T}_{f(x_2)} \circ \mathcal{T}_{f(x_1)}^{-1}(x_1) - x_2 \bigr\|^2
       \;\to\; \bigl\| \mathcal{T}_{\eta_2}^{-1} \mathcal{T}_{f(x_2)} \mathcal{T}_{f(x_1)}^{-1} \mathcal{T}_{\eta_1}
       (x) - x \bigr\|^2, $$

    where on the right all four elements are composed, and the original is warped once, as in the published code: no
    interpolation blurs what is compared, and nothing that left the frame is missed. Poses are samples of
    $q_\omega(\eta \mid x)$ (appendix B).

    The right-hand side cannot tell when the prototype of an orbit lies out of the frame, so a price is put on what a
    prototype loses (equation 7), and the share that is left, at 8 × 8 means, is logged as `content`:

    $$ \mathrm{mse}\bigl(x_1, \mathcal{T}_{f(x_1)}(\mathcal{T}_{f(x_1)}^{-1}(x_1))\bigr), \qquad \mathrm{content} =
       1 - \frac{\|x_1 - \mathcal{T}_{f(x_1)}(\mathcal{T}_{f(x_1)}^{-1}(x_1))\|^2}{\|x_1 - \bar x_1\|^2}, $$

    with $\bar x_1$ the mean of each channel over the batch, from which images of a single colour differ, too.

    Differs from the paper: equation 7 is of inputs as they are, here it is of the first random transformation of each,
    as in the published code; and it has the transformation before its inverse, where here the prototype comes first,
    since that is what must not be empty.

    Args:
        model: whose `inference` is trained.
        ranges: of the random transformations, by coordinate: (low, high), or b for (-b, b); those not named have the
            bounds of the group. Inputs have moved already: where poses are bounded, bounds should leave room for both.
        symmetric: equation 24 (True) or 6 (False: better where transformations lose much, as small sprites do).
        samples: random transformations for each input.
        invertibility: the weight of equation 7; 0.1 for MNIST.
        centred: the weight of $|\bar v|^2$, with $\bar v$ the mean of the linear coordinates of the poses of all first
            random transformations in a batch, from the identity. Differs from the paper: the other terms hardly say
            which image of an orbit is its prototype, and it drifts to the largest, which loses least, or to clipped
            colours. This term makes it an average one. Equivariance is not affected, as only the mean pose is moved.
        blur: what inputs go through in the first steps; nothing if None.
    """

    linear: Tensor

    def __init__(
        self,
        model: SymmetryModel,
        *,
        ranges: Bounds | None = None,
        symmetric: bool = True,
        samples: int = 5,
        invertibility: float = 0.1,
        centred: float = 0.0,
        blur: Blur | None = None,
    ) -> None:
        super().__init__()
        check_kind("model", model, SymmetryModel)
        self.invertibility = check_weight("invertibility", invertibility)
        self.centred = check_weight("centred", centred)
        if blur is not None and not isinstance(blur, Blur):
            raise ValueError(f"blur: received {describe(blur)}; accepted is a Blur, or None")
        self.model, self.symmetric = model, symmetric
        self.samples, self.blur = check_count("samples", samples), blur
        self.moves = moves_within(model.group, ranges)
        _check_followed(self.moves.ranges, model)
        self.register_buffer("linear", on_lines(model.group), persistent=False)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The inference network's parameters."""
        return {"inference": trained_of("inference", self.model.inference)}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss and its parts; labels are not looked at."""
        group = self.model.group
        x, priced = self._begin(self.model.signal(batch[0]))
        moved = self.moves(self.samples, len(x))
        seen, v = self._pose(x, moved)
        first = group.element(v)
        if self.symmetric:
            other = self.moves(self.samples, len(x))
            second = group.compose(group.inverse(other), group.element(self._pose(x, other)[1]))
        else:
            second = group.element(self.model.pose(x).rsample())
        whole = group.compose(second, group.compose(group.inverse(first), moved))
        equivariance = (group.act(whole, x) - x).square().mean()
        # Without a price on it, its backward pass would be for nothing.
        with torch.set_grad_enabled(torch.is_grad_enabled() and priced):
            lost, content = self._lost(seen, first[0])
        loss = equivariance + self.invertibility * lost
        if self.centred:
            loss = loss + self.centred * ((v.mean((0, 1)) - group.origin) * self.linear).square().sum()
        return {"loss": loss, "equivariance": equivariance, "lost": lost, "content": content}

    def restart(self) -> None:
        """Counts steps from the first again."""
        self.step.zero_()
        self._steps = None

    def remedy(self, steps: int) -> None:
        """Changes what helps if prototypes lose their images: blur in the first steps, and a price on what is lost.

        Where colours change there is no greater price: once they are clipped, its gradient has the wrong sign.

        Args:
            steps: of the training, of which a twentieth is blurred.
        """
        sigma = 3.0 if self.blur is None else max(3.0, 2 * self.blur.sigma)
        self.blur = Blur(sigma, max(1, steps // 20))
        if not _colours(self.model.group):
            self.invertibility = max(1.0, 10 * self.invertibility)

    def branch(self) -> bool:
        """Whether the next step is blurred."""
        return self.blur is not None and self.blur.active(self.taken())

    @uncompiled
    def _begin(self, x: Tensor) -> tuple[Tensor, bool]:
        """Inputs as they are seen in this step, which is counted in training; and whether there is a price on losses.

        It is not compiled, since compiled code could not branch on the step, nor on a price that a remedy changes.
        """
        if self.training:
            if self.blur is not None and self.branch():
                x = self.blur(x, self.step)
            self.count()
        return x, self.invertibility > 0

    def _pose(self, x: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
        """The first moved copy of each input, `(B, ...)`, and sampled poses of all copies, `(S, B, d)`."""
        views = self.model.group.act(moved, x)
        return views[0], self.model.pose(views.flatten(0, 1)).rsample().unflatten(0, views.shape[:2])

    def _lost(self, x: Tensor, pose: Tensor) -> tuple[Tensor, Tensor]:
        """What the way to the prototype and back loses, and the share of the content that is left."""
        group = self.model.group
        back = group.act(pose, group.act(group.inverse(pose), x))
        lost = (back - x).square().mean()
        with torch.no_grad():
            away = x - x.mean((0, *range(2, x.ndim)), keepdim=True)
            share = _coarse(back - x).square().mean() / _coarse(away).square().mean().clamp_min(1e-12)
        return lost, 1 - share.clamp(0, 1)


def _coarse(x: Tensor) -> Tensor:
    """Means over an eighth of each side, which do not see how interpolation blurs texture, but see what is empty."""
    return F.adaptive_avg_pool2d(x, CELLS) if x.ndim == 4 else F.adaptive_avg_pool1d(x, CELLS)


def _colours(group: Group) -> bool:
    """Whether it changes colours, which are clipped."""
    return any(isinstance(part, HSV) for part in getattr(group, "factors", (group,)))


def _check_followed(ranges: Tensor, model: SymmetryModel) -> None:
    """Raises a `ValueError` unless poses can follow random transformations: beyond their bounds they all look alike."""
    group, bounds = model.group, model.inference.bounds
    if bounds is None:
        return
    room = 1e-6 * (bounds[1] - bounds[0])
    past = ((ranges[0] < bounds[0] - room) | (ranges[1] > bounds[1] + room)) & on_lines(group)
    for k in past.nonzero().flatten().tolist():
        (a, b), (c, d) = ranges[:, k].tolist(), bounds[:, k].tolist()
        got = f"{group.names[k]} within [{a:.4g}, {b:.4g}], where poses end at [{c:.4g}, {d:.4g}]"
        raise ValueError(f"ranges: received {got}; accepted are ranges within these, or a group of wider bounds")


def trained_of(name: str, part: nn.Module) -> list[nn.Parameter]:
    """The parameters of a part; a `ValueError` if it is frozen, as by `SymmetryModel.averaged`."""
    parameters = list(part.parameters())
    if not any(p.requires_grad for p in parameters):
        accepted = "one that can be trained: model.requires_grad_()"
        raise ValueError(f"model: received one whose {name} is frozen; accepted is {accepted}")
    return parameters


def on_lines(group: Group) -> Tensor:
    """Which coordinates are on a line, `(d,)`."""
    return torch.tensor([not p for p in group.periodic], device=group.bounds.device)
