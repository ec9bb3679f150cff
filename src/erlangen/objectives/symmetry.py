r"""A generative model of symmetry transformations in two stages: prototypes, then how these are transformed.

Appendix A of the paper relates both to a lower bound of $\log p(x)$; see `docs/sgm.md`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor, nn

from ..distributions import Density
from ..models import SymmetryModel
from ..transforms import Group
from ..transforms.base import Bounds
from ..utils.compiling import uncompiled
from ..utils.shapes import check_count, check_kind, check_weight
from .base import Objective
from .moves import moves_within
from .prototypes import PrototypeInference, on_lines, trained_of

__all__ = ["KnownPoses", "TransformLikelihood", "TwoStages"]


class TransformLikelihood(Objective):
    r"""The likelihood of poses given prototypes (SGM algorithm 1, line 8, made robust as in section 3.1).

    $$ -\frac1S \sum_s \log p_\psi(f_\omega(x) \mid \hat x_s), \qquad
       \hat x_s = \mathcal{T}_{f_\omega(\mathcal{T}_{\eta_s}(x))}^{-1}(\mathcal{T}_{\eta_s}(x)), $$

    with random $\eta_s$, so that the density does not rely on what an imperfect inference leaves in a prototype. Each
    prototype is one warp of the original. The inference network is not trained.

    What an imperfect inference leaves there may depend on $\eta_s$: prototypes of sprites that were shrunk are less
    exact, so the density learns that exact ones belong to large sprites. Later it is asked about prototypes of the
    inputs themselves, which are all exact. With these among the $\hat x_s$ (`own`) it learns what holds for them.

    Args:
        model: whose `conditional` is trained.
        ranges: of the random transformations, see `PrototypeInference`.
        samples: prototypes for each input.
        own: whether the first of them is that of the input as it is. Differs from the paper, where all are of
            transformed inputs.
        grain: the standard deviation of noise on poses, one for all coordinates or one for each. Differs from the
            paper, which has none: where a coordinate does not vary in the data, poses differ by errors of inference
            alone, and a density that follows these to the last digit gains more likelihood than it could by learning
            the other coordinates. Noise of a fraction of a pixel, below which nothing counts, ends that.
        consistency: the weight of $\mathrm{mean}_{s<t} |\log p_s - \log p_t|$ over the prototypes of an input. Differs
            from the paper, whose text has no such loss: the published code has it, with the weight 1.
    """

    grain: Tensor | None
    linear: Tensor

    def __init__(
        self,
        model: SymmetryModel,
        *,
        ranges: Bounds | None = None,
        samples: int = 5,
        own: bool = False,
        grain: float | Sequence[float] = 0.0,
        consistency: float = 0.0,
    ) -> None:
        super().__init__()
        check_kind("model", model, SymmetryModel)
        self.model, self.own, self.consistency = model, own, check_weight("consistency", consistency)
        self.samples, self.moves = check_count("samples", samples), moves_within(model.group, ranges)
        if self.consistency and self.samples == 1:
            got, accepted = f"{consistency} with samples=1", "0, or more samples, whose densities it compares"
            raise ValueError(f"consistency: received {got}; accepted is {accepted}")
        self.register_buffer("grain", _grain(grain, model.group), persistent=False)
        self.register_buffer("linear", on_lines(model.group), persistent=False)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The density's parameters."""
        return {"density": trained_of("conditional", self.model.conditional)}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss and its parts; labels are not looked at."""
        pose, prototypes = self.pairs(batch)
        q: Density = self.model.conditional(prototypes.flatten(0, 1))
        # Consistency compares densities at one and the same noisy pose, so that noise alone is no inconsistency.
        alike, times = (self.samples, 1) if self.consistency else (1, self.samples)
        v = self._blurred(pose.repeat(times, 1), q).repeat(alike, 1)
        log_p = q.log_prob(v).unflatten(0, (self.samples, len(pose)))
        losses = {"nll": -log_p.mean()}
        loss = losses["nll"]
        if self.consistency:
            apart = (log_p - log_p.unsqueeze(1)).abs().sum((0, 1)) / (self.samples * (self.samples - 1))
            losses["consistency"] = apart.mean()
            loss = loss + self.consistency * losses["consistency"]
        return {"loss": loss, **losses}

    def _blurred(self, pose: Tensor, q: Density) -> Tensor:
        """Poses with noise; none goes beyond the ends of a line, and circles have none."""
        if self.grain is None:
            return pose
        noisy, (low, high) = pose + self.grain * torch.randn_like(pose), q.ends
        kept = (noisy > low) & (noisy < high) | ~self.linear
        return torch.where(kept, noisy, pose)

    def pairs(self, batch: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Poses `(B, d)`, and prototypes `(S, B, ...)`."""
        x = self.model.signal(batch[0])
        pose, back = self.inferred(x, self.samples)
        return pose, self.model.group.act(back, x)

    @torch.no_grad()
    def inferred(self, x: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Poses of inputs, `(B, d)`, and n elements for each that take it to its prototype, `(n, B, ...)`."""
        group, pose = self.model.group, self.model.pose(x).median
        back = [group.inverse(group.element(pose))[None]] if self.own else []
        if rest := n - len(back):
            moved = self.moves(rest, len(x))
            found = self.model.element(group.act(moved, x).flatten(0, 1)).unflatten(0, (rest, len(x)))
            back.append(group.compose(group.inverse(found), moved))
        return pose, torch.cat(back)


class KnownPoses(TransformLikelihood):
    """The same for inputs whose poses and prototypes were inferred before: the inference network is not asked again.

    A batch has some rows of what `known` returns; for each input one of its elements, at random, makes the prototype.
    This is much faster where inputs are seen many times, that is, unless there are very many of them.
    """

    def pairs(self, batch: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Poses `(B, d)`, and prototypes `(S, B, ...)`."""
        x, pose, back = batch
        x = self.model.signal(x)
        chosen = torch.randint(back.shape[1], (self.samples, len(x)), device=x.device)
        return pose, self.model.group.act(back[torch.arange(len(x), device=x.device), chosen], x)

    @torch.no_grad()
    def known(self, x: Tensor, n: int, *, rows: int = 256) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, their poses `(B, d)`, and n elements for each that take it to its prototype, `(B, n, ...)`.

        Args:
            x: inputs, on any device.
            n: elements.
            rows: inputs at a time.
        """
        home = self.model.group.bounds.device
        parts = [self.inferred(self.model.signal(part.to(home)), n) for part in x.split(rows)]
        poses, backs = zip(*parts, strict=True)
        pose, back = torch.cat(poses).to(x.device), torch.cat(backs, 1).to(x.device)
        return x, pose, back.transpose(0, 1).contiguous()


class TwoStages(Objective):
    """Both stages of a model in one objective: first its prototypes, then how these are transformed.

    Args:
        prototypes: the first stage.
        density: the second, of the same model.
        steps: how many the first stage has.
    """

    def __init__(self, prototypes: PrototypeInference, density: TransformLikelihood, steps: int) -> None:
        super().__init__()
        for name, part, kind in (
            ("prototypes", prototypes, PrototypeInference),
            ("density", density, TransformLikelihood),
        ):
            check_kind(name, part, kind)
        if prototypes.model is not density.model:
            raise ValueError("density: received the objective of another model; accepted is one of the same model")
        self.prototypes, self.density, self.burn_in = prototypes, density, check_count("steps", steps)

    @property
    def model(self) -> SymmetryModel:
        """The model."""
        return self.prototypes.model

    @property
    @uncompiled
    def second(self) -> bool:
        """Whether the first stage is over."""
        return self.prototypes.taken() >= self.burn_in

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The groups of both stages."""
        return {**self.prototypes.parameter_groups(), **self.density.parameter_groups()}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss of the stage."""
        return self.density(batch) if self.second else self.prototypes(batch)

    def branch(self) -> Hashable:
        """The stage, and what it decides."""
        return self.second, self.prototypes.branch()

    def judged(self) -> bool:
        """Only in the second stage."""
        return self.second

    def counted(self) -> None:
        """Counts a step of the first stage."""
        if not self.second:
            self.prototypes.counted()


def _grain(grain: object, group: Group) -> Tensor | None:
    """One standard deviation for each coordinate, `(d,)`; None if there is no noise."""
    each = list(grain) if isinstance(grain, Sequence) else [grain] * group.features
    if len(each) != group.features:
        accepted = f"a number, or one for each of {', '.join(group.names)}"
        raise ValueError(f"grain: received {len(each)} numbers; accepted is {accepted}")
    sizes = [check_weight("grain", one) for one in each]
    return torch.tensor(sizes).to(group.bounds) if any(sizes) else None
