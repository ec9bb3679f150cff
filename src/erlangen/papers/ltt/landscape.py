"""Three inputs, each with a set of transformations that cost nothing, and what families make of them (figure 3a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...distributions import Conditional, GlobalUniform, MeanFieldUniform, RealNVP
from ...objectives import Objective
from ...train import Config, Cosine, Optimiser, TensorLoader, fit
from ...utils.seeds import generator, seeded
from ..cache import kept
from .common import Method

__all__ = ["GRID", "OUTLINES", "SETS", "Landscape", "Toy", "beyond", "coverage", "sampled"]

SETS = ("large square", "diagonal strip", "small square")
OUTLINES = {  # the corners of each set, see `beyond`
    "large square": ((0.85, 0.85), (0.85, -0.85), (-0.85, -0.85), (-0.85, 0.85)),
    "diagonal strip": ((0.85, -0.64), (0.85, -0.85), (0.64, -0.85), (-0.85, 0.64), (-0.85, 0.85), (-0.64, 0.85)),
    "small square": ((0.2, 0.2), (0.2, -0.2), (-0.2, -0.2), (-0.2, 0.2)),
}
GRID = 20  # cells along a side, in which coverage is counted
EDGE = 0.02  # over this distance beyond its set a transformation costs one nat


@dataclass(frozen=True)
class Toy:
    """How a family is fitted to the three sets."""

    method: Method = "flow"
    steps: int = 1500
    batch: int = 96
    samples: int = 8
    layers: int = 8
    seed: int = 0


def beyond(v: Tensor) -> Tensor:
    """How far coordinates in [-1, 1]² lie beyond the set of each input, `(..., 3, 2)` to `(..., 3)`."""
    far = v.abs().amax(-1)
    strip = torch.maximum((v[..., 0] + v[..., 1]).abs() / 2**0.5 - 0.15, far - 0.85)
    return torch.stack((far[..., 0] - 0.85, strip[..., 1], far[..., 2] - 0.2), -1).clamp_min(0)


def coverage(v: Tensor) -> tuple[Tensor, Tensor]:
    """The share of samples within each set, and of each set's cells with at least a tenth of their even share.

    Shape:
        v: `(S, 3, 2)`; results: `(3,)` each.
    """
    t = (torch.arange(GRID) + 0.5) * 2 / GRID - 1
    belongs = beyond(torch.cartesian_prod(t, t)[:, None].expand(-1, 3, -1)).T <= 0
    x, y = ((v + 1) / 2 * GRID).long().clamp(0, GRID - 1).unbind(-1)
    shares = torch.stack([torch.bincount(cell, minlength=GRID**2) for cell in (x * GRID + y).T]) / len(v)
    filled = (shares * belongs.sum(1, keepdim=True) >= 0.1) & belongs
    return (beyond(v) <= 0).double().mean(0), filled.sum(1) / belongs.sum(1)


class Landscape(Objective):
    r"""$\mathbb{E}_{v \sim q} \bigl[ d(v) / \epsilon + \log q(v) \bigr]$ with d the distance beyond the set.

    It is LTT equation 18 with a loss that is known: least for the density that is uniform on the set, but for its edge.
    """

    def __init__(self, conditional: Conditional, samples: int) -> None:
        super().__init__()
        self.conditional, self.samples = conditional, samples

    def parameter_groups(self) -> dict[str, list[torch.nn.Parameter]]:
        """All there is."""
        return {"conditional": list(self.conditional.parameters())}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss; the batch is copies of the three inputs, one after the other."""
        v, log_q = self.conditional(batch[0].flatten(0, 1)).rsample_and_log_prob((self.samples,))
        cost = beyond(v.unflatten(1, (-1, 3))).mean() / EDGE
        return {"loss": cost + log_q.mean(), "cost": cost, "entropy": -log_q.mean()}


def _build(config: Toy) -> Landscape:
    kinds: dict[str, Any] = {"bounds": (-1.0, 1.0)}
    with seeded(config.seed):
        if config.method == "augerino":
            conditional: Conditional = GlobalUniform(2, **kinds)
        elif config.method == "instaaug":
            conditional = MeanFieldUniform(2, 3, **kinds)
        else:
            conditional = RealNVP(2, 3, layers=config.layers, width=32, scatter=0.3, **kinds)
    return Landscape(conditional, config.samples)


def _train(objective: Landscape, config: Toy, device: str, **going: Any) -> dict[str, Tensor]:
    inputs = torch.eye(3, dtype=torch.get_default_dtype()).repeat(config.batch // 3, 1, 1)
    rate = 5e-3 if config.method == "flow" else 2e-2  # a box has few numbers, and far to go
    settings = Optimiser("adamw", lr=rate, clip=5.0, schedule=Cosine(0.05))
    loader = TensorLoader(inputs, batch_size=len(inputs), shuffle=False)
    place = torch.device(device).type
    how = Config(steps=config.steps, optimiser=settings, accelerator=place, log_every=500, **going)
    fit(objective, loader, how)
    return {}


def sampled(config: Toy, samples: int, device: str = "cpu") -> Tensor:
    """Samples for each of the three inputs from the fitted family, `(S, 3, 2)`, on the CPU."""
    objective, _ = kept(config, device, _build, _train, code=(__file__,))
    inputs = torch.eye(3, dtype=torch.get_default_dtype(), device=device)
    return objective.conditional(inputs).sample((samples,), generator(0, device)).cpu()
