r"""A generative model of symmetry transformations: a prototype, and a distribution of how it is transformed."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from inspect import signature
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from ..distributions import Conditional, Density, Gaussian, SplineFlow
from ..nets import MLP
from ..transforms import Group
from ..transforms.warp import signal_like
from ..utils.shapes import check_count, check_tensor, describe
from .anchored import ANCHORED, Anchored, anchorable
from .averaged import Averaged
from .voted import Voted, check_copies, check_unbounded

__all__ = ["Marginals", "SymmetryModel"]


class Marginals(NamedTuple):
    """Marginal densities of coordinates, as histograms.

    Attributes:
        edges: of the bins, `(d, n + 1)`.
        density: of each input, `(B, d, n)`.
    """

    edges: Tensor
    density: Tensor


class Noisy(nn.Module):
    """Adds normal noise in training, so that nothing is learned from differences that are smaller.

    Args:
        scale: its standard deviation.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        if not 0 <= scale < math.inf:
            raise ValueError(f"noise: received {scale!r}; accepted is a finite number >= 0")
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Inputs with noise, or as they are in evaluation."""
        return x + self.scale * torch.randn_like(x) if self.training and self.scale else x


class SymmetryModel(nn.Module):
    r"""The symmetry-aware generative model (SGM equations 1 to 3), without a model of prototypes.

    $$ \hat x \sim p(\hat x), \qquad \eta \sim p_\psi(\eta \mid \hat x), \qquad x = \mathcal{T}_\eta(\hat x). $$

    An inference network finds the pose of an input, $\eta = f_\omega(x)$, and so its prototype $\hat x =
    \mathcal{T}_{f_\omega(x)}^{-1}(x)$, which is the same for all of an orbit (equation 4) when it has been trained by
    `erlangen.objectives.PrototypeInference`. The density, trained by `TransformLikelihood`, then says which
    transformations of that prototype occur in the data, and how often.

    Whatever moves an input more than once composes elements and warps the original once.

    Args:
        group: the transformations; any `Group` with continuous coordinates.
        inference: $q_\omega(\eta \mid x)$, which sees inputs. Its medians are the poses.
        conditional: $p_\psi(\eta \mid \hat x)$, which sees prototypes.

    Shape:
        inputs: `(B, C, H, W)` or `(B, C, L)`, in floating point, or uint8 images.

    References:
        | J. U. Allingham et al. A generative model of symmetry transformations (2024).
    """

    def __init__(self, group: Group, inference: Conditional, conditional: Conditional) -> None:
        super().__init__()
        _check_group(group)
        for name, part in {"inference": inference, "conditional": conditional}.items():
            if not _over(part, group):
                accepted = f"a Conditional over {', '.join(group.names)}, periodic where they are, on circles as long"
                raise ValueError(f"{name}: received {type(part).__name__}; accepted is {accepted}")
        self.group, self.inference, self.conditional = group, inference, conditional
        self.shape: torch.Size | None = None  # the shape of one signal, if the networks take no other

    @classmethod
    def over(
        cls,
        group: Group,
        shape: Sequence[int],
        *,
        copies: int | None = None,
        bounded: bool = True,
        anchored: bool = False,
        inference: Sequence[int] = (512, 256),
        generative: Sequence[int] = (256, 128),
        pool: int = 1,
        noise: float = 0.0,
        dropout: float = 0.0,
        **flow: Any,
    ) -> Self:
        """A model with perceptrons, those of the paper (appendix C) at other widths, for signals of a shape.

        Args:
            group: the transformations, of which the model has a copy; their type and device are those of the model.
            shape: of one signal, `(C, H, W)` or `(C, L)`.
            copies: how many turned copies vote on the pose (see `Voted`); None for the paper's plain network.
            bounded: whether coordinates are held within the bounds of the group; otherwise on lines (appendix C.1).
            anchored: whether poses start from moments (see `Anchored`), without bounds.
            inference: the widths of the inference network; the paper's are (2048, 1024, 512, 256).
            generative: the widths of the density's encoder; the paper's are (1024, 512, 512).
            pool: how many pixels along a side (samples, of a series) that encoder sees as one. Differs from the paper:
                a prototype that was enlarged is smoother than one that was not, so that its own scale can be read off
                it, and the density becomes that of one image instead of all that have its prototype. Means of a few
                pixels, with noise, hide most of it.
            noise: the standard deviation of noise that is added to these means in training.
            dropout: in that encoder.
            **flow: changes to `SplineFlow`, such as `layers`, `width`, `bins`.
        """
        _check_group(group)
        if not isinstance(shape, Sequence) or len(shape) not in (2, 3):
            raise ValueError(f"shape: received {describe(shape)}; accepted is (C, H, W) or (C, L), of one signal")
        pixels = math.prod(check_count("shape", n) for n in shape)
        group = copy.deepcopy(group)  # a model that is moved or converted takes its group with it
        _check_anchored(group, anchored)
        if copies is not None:
            check_copies(group, copies)
        _check_acts(group, shape)
        _check_flow(flow)
        see, bounded = MLP(pixels, _widths("inference", inference)), bounded and not anchored
        freed: Any = ("anchored", True) if anchored else ("bounded", False)
        bounds = {} if bounded else {"bounds": check_unbounded(group, *freed)}
        own: Any = Anchored.within(group) if anchored else group  # pyright: ignore[reportArgumentType]
        if copies is None:
            pose: Conditional = Gaussian.over(own, see.features, encoder=see, homoscedastic=True, spread=0.03, **bounds)
        else:
            pose = Voted(own, see.features, encoder=see, copies=copies, bounded=bounded)
        if anchored:
            pose = Anchored(group, pose)  # pyright: ignore[reportArgumentType]
        pooled = [max(1, n // check_count("pool", pool)) for n in shape[1:]]
        read = MLP(shape[0] * math.prod(pooled), _widths("generative", generative), dropout=dropout)
        settings: Any = {"spread": 0.3, "hidden": (128, 128), **bounds, **flow}
        means = nn.AdaptiveAvgPool2d((pooled[0], pooled[1])) if len(pooled) == 2 else nn.AdaptiveAvgPool1d(pooled[0])
        encoder = nn.Sequential(means if pool > 1 else nn.Identity(), Noisy(noise), read)
        made = cls(group, pose, SplineFlow.over(group, read.features, encoder=encoder, **settings))
        made.shape = torch.Size(shape)
        return made.to(group.bounds)

    def signal(self, x: Tensor) -> Tensor:
        """Inputs in floating point; uint8 images become [0, 1]."""
        x = signal_like(x, self.group.bounds)
        if self.shape is not None and x.shape[1:] != self.shape:
            accepted = f"signals {('B', *self.shape)}, for which the model was made"
            raise ValueError(f"x: received {describe(x)}; accepted are {accepted}")
        return x

    def pose(self, x: Tensor) -> Density:
        r"""$q_\omega(\eta \mid x)$: which transformation of its prototype an input is, and how sure that is."""
        return self.inference(self.signal(x))  # pyright: ignore[reportReturnType]

    def element(self, x: Tensor) -> Tensor:
        """The element of the pose, which takes the prototype to the input, `(B, *element_shape)`."""
        return self.group.element(self.pose(x).median)

    def prototype(self, x: Tensor) -> Tensor:
        r"""$\hat x = \mathcal{T}_{f_\omega(x)}^{-1}(x)$, by one warp, of the shape of x."""
        x = self.signal(x)
        return self.group.act(self.group.inverse(self.element(x)), x)

    def density(self, x: Tensor) -> Density:
        r"""$p_\psi(\eta \mid \hat x)$ for the prototype of each input: sample it, or ask for its `log_prob`."""
        return self.conditional(self.prototype(x))

    def log_prob(self, x: Tensor) -> Tensor:
        r"""$\log p_\psi(f_\omega(x) \mid \hat x)$: how natural the pose of each input is, `(B,)`."""
        x = self.signal(x)
        v = self.pose(x).median
        return self.conditional(self.group.act(self.group.inverse(self.group.element(v)), x)).log_prob(v)

    def transform(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$\mathcal{T}_v(\hat x)$, each by one warp of the input, `(*S, B, C, H, W)`.

        Shape:
            v: `(*S, B, d)`.
        """
        x = self.signal(x)
        ends = (self.group.features, len(x))
        ok = isinstance(v, Tensor) and v.ndim > 1 and v.shape[-1] == ends[0] and v.shape[-2] in (1, ends[1])
        check_tensor("v", v, f"coordinates (*S, {ends[1]}, {ends[0]}), one for each input", ok)
        back = self.group.inverse(self.element(x))
        return self.group.act(self.group.compose(self.group.element(v), back), x)

    def resample(self, x: Tensor, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        r"""Natural variations of inputs: $\mathcal{T}_\eta(\hat x)$ with $\eta \sim p_\psi(\eta \mid \hat x)$.

        Args:
            x: inputs.
            n: how many for each.
            generator: where the noise comes from; the global generator if None.

        Shape:
            result: `(n, B, C, H, W)` or `(n, B, C, L)`.
        """
        x = self.signal(x)
        back = self.group.inverse(self.element(x))
        v = self.conditional(self.group.act(back, x)).sample((check_count("n", n),), generator)
        return self.group.act(self.group.compose(self.group.element(v), back), x)

    def averaged(self, model: nn.Module, **kwargs: Any) -> Averaged:
        r"""A classifier averaged over natural variations of its inputs.

        $$p(C \mid x) = \mathbb{E}_{\eta \sim p_\psi(\eta \mid \hat x)} f(C; \mathcal{T}_\eta \hat x)$$

        Trained by `erlangen.objectives.HandMade` the variations are augmentation, and the classifier predicts alone.

        Args:
            model: the classifier.
            **kwargs: of `Averaged`, such as `samples`. The model of symmetries is frozen.
        """
        from .natural import FromPrototype, Natural

        return Averaged(model, FromPrototype(self), Natural(self), frozen=("conditional",), **kwargs)

    @torch.no_grad()
    def marginals(
        self, x: Tensor, *, samples: int = 1000, bins: int = 50, generator: torch.Generator | None = None
    ) -> Marginals:
        r"""The density of each coordinate of $p_\psi(\eta \mid \hat x)$, from samples.

        Bins fill the group's bounds, and reach further where samples do, as those of a model without bounds may: they
        are the same for all inputs, and every density integrates to 1.
        """
        v = self.density(x).sample((check_count("samples", samples),), generator)
        low, high = self.group.bounds.to(v)
        reached = torch.cat((torch.stack((low, high)), v.flatten(0, 1)))
        low, high = reached.amin(0), reached.amax(0)
        place = ((v - low) / (high - low) * check_count("bins", bins)).floor()
        index = place.clamp(0, bins - 1).long().movedim(0, -1)  # the last edge belongs to the last bin
        counts = v.new_zeros(*v.shape[1:], bins).scatter_add_(-1, index, torch.ones_like(index, dtype=v.dtype))
        steps = torch.linspace(0, 1, bins + 1, dtype=v.dtype, device=v.device)
        return Marginals(low[:, None] + (high - low)[:, None] * steps, counts / samples * bins / (high - low)[:, None])


def _check_group(group: object) -> None:
    if not isinstance(group, Group) or group.support.is_discrete:
        accepted = "a Group with continuous coordinates (prototypes need inverses); a Product is one if its factors "
        accepted += "are groups that commute, as Affine and HSV do"
        raise ValueError(f"group: received {type(group).__name__}; accepted is {accepted}")


def _over(part: object, group: Group) -> bool:
    """Whether it is a conditional over the coordinates of a group; one without bounds has circles of 2π."""
    if not isinstance(part, Conditional) or part.features != group.features or part.periodic != group.periodic:
        return False
    own = [(-math.pi, math.pi)] * group.features if part.bounds is None else part.bounds.T.tolist()
    circles = (ends for *ends, wraps in zip(own, group.bounds.T.tolist(), group.periodic, strict=True) if wraps)
    return all(math.isclose(b - a, d - c, rel_tol=1e-5) for (a, b), (c, d) in circles)


def _check_acts(group: Group, shape: Sequence[int]) -> None:
    """Raises a `ValueError` unless a group acts on signals of a shape: colours are of three channels."""
    try:
        group(group.bounds.new_zeros(1, *shape), group.origin.unsqueeze(0))
    except ValueError as error:
        got = f"{tuple(shape)}, on which {', '.join(group.names)} does not act"
        raise ValueError(f"shape: received {got} ({error}); accepted is one on which the group acts") from None


def _check_flow(flow: dict[str, Any]) -> None:
    known = [name for name, p in signature(SplineFlow.__init__).parameters.items() if p.kind is p.KEYWORD_ONLY]
    if unknown := [name for name in flow if name not in known]:
        raise ValueError(f"flow: received {unknown}; accepted are settings of a SplineFlow, {known}")


def _check_anchored(group: Group, anchored: object) -> None:
    if anchored not in (True, False):
        raise ValueError(f"anchored: received {describe(anchored)}; accepted is True or False")
    if anchored and not anchorable(group):
        raise ValueError(f"anchored: received True for {', '.join(group.names)}; accepted is {ANCHORED}")


def _widths(name: str, widths: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(widths, Sequence) or not widths:
        raise ValueError(f"{name}: received {describe(widths)}; accepted is a sequence of widths, such as (64, 32)")
    return tuple(check_count(name, width) for width in widths)
