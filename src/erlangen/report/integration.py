"""How the error of an expectation falls with the number of points, for each kind of points."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..distributions import Conditional, Density, Gaussian, Mixture, RealNVP, quadrature
from ..utils.io import provenance, write_json
from ..utils.seeds import seeded
from .canvas import Progress
from .targets import box_grid

__all__ = ["KINDS", "compute_quadrature", "estimates", "truth"]

KINDS = ("random", "antithetic", "sobol")
COUNTS = tuple(2**k for k in range(3, 11))
REPEATS = 400
DENSITIES: dict[str, Callable[..., Conditional]] = {"Gaussian": Gaussian, "Mixture": Mixture, "RealNVP": RealNVP}


def function(v: Tensor) -> Tensor:
    """A smooth function of two coordinates, neither odd nor even."""
    return torch.exp(v[..., 0] + v[..., 1] / 2)


def density(name: str, batch: int = 1) -> Density:
    """A density on [-1, 1]², the same for each input, from parameters that were moved at random."""
    scatter = {} if name == "Gaussian" else {"scatter": 0.5}
    with seeded(0), torch.no_grad():
        conditional = DENSITIES[name](2, 1, spread=0.3, bounds=(-1, 1), **scatter).double()
        for parameter in conditional.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
        return conditional(torch.ones(batch, 1, dtype=torch.float64))


def truth(name: str, n: int = 300) -> float:
    """The expectation, by a sum over n² cells."""
    points, cell = box_grid((-1.0, -1.0), (1.0, 1.0), n)
    with torch.no_grad():
        return float((density(name).log_prob(points.unsqueeze(1))[:, 0].exp() * function(points)).sum() * cell)


def estimates(name: str, kind: str, n: int, repeats: int, generator: torch.Generator | None = None) -> Tensor:
    """Independent estimates of the expectation from n points each, `(repeats,)`."""
    with torch.no_grad():
        # Inputs of a batch have noise of their own.
        v, log_weights, _ = quadrature(density(name, repeats), n, points=kind, generator=generator)
        return (log_weights.exp() * function(v)).sum(0)


def compute_quadrature(
    folder: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    counts: tuple[int, ...] = COUNTS,
    repeats: int = REPEATS,
) -> list[Path]:
    """Measures the errors and stores them (`quadrature.json`).

    Args:
        folder: where to; made if it is missing.
        progress: called with the share done, from 0 to 1, and what was done last.
        counts: numbers of points.
        repeats: independent estimates for each.
    """
    tell, start, rows = progress or (lambda share, what: None), time.perf_counter(), []
    generator = torch.Generator().manual_seed(0)
    total = len(DENSITIES) * len(KINDS) * len(counts)
    for name in DENSITIES:
        expected = truth(name)
        for kind in KINDS:
            for n in counts:
                found = [estimates(name, kind, n, size, generator) for size in _parts(repeats, 25)]  # for memory
                rms = float((torch.cat(found) - expected).square().mean().sqrt())
                rows.append({"density": name, "points": kind, "n": n, "rms": rms, "repeats": repeats})
                tell(len(rows) / total, f"{kind} points of a {name}")
    path = Path(folder) / "quadrature.json"
    config: dict[str, Any] = {"function": "exp(v1 + v2 / 2)", "repeats": repeats}
    write_json(path, {"provenance": provenance(config, seconds=time.perf_counter() - start), "rows": rows})
    return [path]


def _parts(n: int, size: int) -> list[int]:
    return [min(size, n - k) for k in range(0, n, size)]
