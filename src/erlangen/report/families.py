r"""Every family fitted to densities with a known answer, by the objective of Learning to Transform.

The objective is LTT's equation 14 with the target of equation 12 at a temperature $\lambda$, up to the normaliser:

$$\mathbb{E}_{q(v)} [\log q(v) - \lambda \log p(v)],$$

where $\lambda$ rises from 0 to 1 over the first half of the steps, so that a distribution sees all modes before it
settles. Every family has the same budget and starts as it does by default, with two exceptions that are stated in
`FAMILIES`. Each is trained with three learning rates, and the run with the lowest objective counts.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..distributions import (
    Categorical,
    Conditional,
    Density,
    Dirac,
    Gaussian,
    GlobalUniform,
    MeanFieldUniform,
    Mixture,
    RealNVP,
    SplineFlow,
    StudentT,
    quadrature,
)
from ..utils.io import provenance, write_json, write_npz
from ..utils.processes import processes
from ..utils.seeds import seeded
from .canvas import Progress
from .targets import FINE, PROBLEMS, Problem, box_grid

__all__ = ["FAMILIES", "Budget", "compute_families", "divergence", "fit", "objective"]

TABLE = {1: 36, 2: 16}  # cells per side of the table of a Categorical
IMAGE = {1: 720, 2: 96}  # cells per side of a stored density
SCATTER = 0.8  # as the published code of LTT has it where there are three modes


@dataclass(frozen=True)
class Budget:
    """What each fit may use.

    Args:
        steps: steps of Adam.
        samples: Sobol points in each.
        rates: learning rates at the start, which fall to a hundredth; the run with the lowest objective counts.
        seeds: one row each.
    """

    steps: int = 500
    samples: int = 128
    rates: tuple[float, ...] = (3e-2, 1e-2, 3e-3)
    seeds: tuple[int, ...] = (0, 1, 2)


def _coordinates(problem: Problem) -> dict[str, Any]:
    return {"periodic": [problem.periodic] * problem.features, "bounds": (problem.low, problem.high)}


def _plain(family: type[Conditional], **changes: Any) -> Callable[[Problem], Conditional]:
    def build(problem: Problem) -> Conditional:
        return family(problem.features, 1, origin=problem.origin, **_coordinates(problem), **changes)

    return build


def _categorical(problem: Problem) -> Conditional:
    """Over the midpoints of a coarse grid, starting at the one that is nearest to the identity."""
    table, _ = problem.grid(TABLE[problem.features])
    start = int((table - torch.tensor(problem.origin)).square().sum(-1).argmin())
    return Categorical(table, 1, start=start, **_coordinates(problem))


FAMILIES: dict[str, Callable[[Problem], Conditional]] = {
    "Dirac": _plain(Dirac),
    "GlobalUniform": _plain(GlobalUniform),
    "MeanFieldUniform": _plain(MeanFieldUniform),
    "Gaussian": _plain(Gaussian),
    "StudentT": _plain(StudentT),
    "Categorical": _categorical,
    "Mixture": _plain(Mixture, scatter=SCATTER),
    "RealNVP": _plain(RealNVP, scatter=SCATTER),
    "SplineFlow": _plain(SplineFlow),
}


def objective(q: Density, problem: Problem, n: int, temperature: float = 1.0) -> Tensor:
    """The reverse KL divergence up to the logarithm of the normaliser, by n Sobol points."""
    v, log_weights, log_q = quadrature(q, n, points="sobol")
    return (log_weights.exp() * (log_q - temperature * problem.log_density(v))).sum(0).mean()


def fit(conditional: Conditional, problem: Problem, budget: Budget, rate: float) -> float:
    """Trains a conditional on one constant input, in place, and returns the objective that it reached."""
    x = torch.ones(1, 1, dtype=conditional.origin.dtype)
    adam = torch.optim.Adam(conditional.parameters(), rate)
    decay = torch.optim.lr_scheduler.ExponentialLR(adam, 0.01 ** (1 / budget.steps))
    with warnings.catch_warnings():
        # A rate that is too great for a flow drives it into the bounds; its objective then loses to the others'.
        warnings.simplefilter("ignore", RuntimeWarning)
        for step in range(budget.steps):
            adam.zero_grad()
            objective(conditional(x), problem, budget.samples, min(1.0, 2 * step / budget.steps)).backward()
            adam.step()
            decay.step()
        with torch.no_grad():
            return float(objective(conditional(x), problem, 32 * budget.samples))


class Divergence(NamedTuple):
    """How far a density is from a target.

    Attributes:
        kl: the divergence KL(q‖p) in nats; NaN without a density.
        tv: the total variation distance.
        mass: what the grid makes of the integral of q, which is 1.
    """

    kl: float
    tv: float
    mass: float


def divergence(q: Density, problem: Problem) -> Divergence:
    """KL(q‖p) and total variation by sums over fine grids, for a batch of one in float64.

    The first grid fills the support of q, so that the edges of a box are exact. A finite support is compared with the
    target restricted to it; a point has no density.
    """
    if q.degenerate:
        return Divergence(math.nan, 1.0, 1.0)
    if q.has_enumerate_support:
        points = q.enumerated()
        log_p, log_q = problem.log_density(points.v[:, 0]).log_softmax(0), points.log_q[:, 0]
        share = log_q.exp()
        return Divergence(
            float((share * (log_q - log_p)).sum()), float((share - log_p.exp()).abs().sum() / 2), float(share.sum())
        )
    log_normaliser = problem.log_normaliser()
    points, cell = box_grid(*_box(q), FINE[problem.features])
    log_q = q.log_prob(points.unsqueeze(1))[:, 0]
    share = log_q.exp() * cell
    kl = float((share * (log_q - problem.log_density(points) + log_normaliser)).sum())
    points, cell = problem.grid()
    p = (problem.log_density(points) - log_normaliser).exp()
    tv = float((q.log_prob(points.unsqueeze(1))[:, 0].exp() - p).abs().sum() * cell / 2)
    return Divergence(kl, tv, float(share.sum()))


def _box(q: Density) -> tuple[list[float], list[float]]:
    """The ends of the support of a batch of one."""
    box: Any = q.support
    ends = (box.base_constraint.lower_bound, box.base_constraint.upper_bound)
    low, high = (end.reshape(-1, len(q.periodic))[0].tolist() for end in ends)
    return low, high


def density_image(q: Density, problem: Problem) -> np.ndarray:
    """The density on a grid (for a finite support the probability over the volume of its cell), or the one point."""
    n, d = IMAGE[problem.features], problem.features
    if q.degenerate:
        return q.mean[0].numpy().astype(np.float16)
    if q.has_enumerate_support:
        _, cell = problem.grid(TABLE[d])
        coarse = (q.enumerated().log_q[:, 0].exp() / cell).reshape([TABLE[d]] * d)
        for dim in range(d):
            coarse = coarse.repeat_interleave(n // TABLE[d], dim)
        return coarse.numpy().astype(np.float16)
    points, _ = problem.grid(n)
    return q.log_prob(points.unsqueeze(1))[:, 0].exp().reshape([n] * d).numpy().astype(np.float16)


def target_image(problem: Problem) -> np.ndarray:
    """The density of the target on the same grid."""
    n, d = IMAGE[problem.features], problem.features
    points, _ = problem.grid(n)
    return (problem.log_density(points) - problem.log_normaliser()).exp().reshape([n] * d).numpy().astype(np.float16)


def fitted(family: str, name: str, seed: int, budget: Budget) -> tuple[dict[str, Any], np.ndarray]:
    """One row, of the run with the lowest objective, and the density that it found."""
    problem, start = PROBLEMS[name], time.perf_counter()
    runs = []
    for rate in budget.rates:
        with seeded(seed):
            conditional = FAMILIES[family](problem)
            reached = fit(conditional, problem, budget, rate)
        runs.append((reached if math.isfinite(reached) else math.inf, rate, conditional))
    reached, rate, conditional = min(runs, key=lambda run: run[:2])
    with torch.no_grad():
        q = conditional.double()(torch.ones(1, 1, dtype=torch.float64))
        row = {"family": family, "problem": name, "seed": seed, **divergence(q, problem)._asdict()}
        row |= {"objective": reached, "rate": rate, "seconds": round(time.perf_counter() - start, 2)}
        return row, density_image(q, problem)


def _all_fitted(jobs: list[tuple[Any, ...]], workers: int) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    if workers == 1:
        yield from (fitted(*job) for job in jobs)
        return
    with processes(workers) as pool:
        for done in as_completed([pool.submit(fitted, *job) for job in jobs]):
            yield done.result()


def compute_families(
    folder: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    budget: Budget | None = None,
    workers: int | None = None,
) -> list[Path]:
    """Fits every family to every problem and stores rows (`families.json`) and densities (`families.npz`).

    Args:
        folder: where to; made if it is missing.
        progress: called with the share done, from 0 to 1, and what was done last.
        budget: of each fit; the default one if None.
        workers: the number of processes; as many as there are processors if None.

    Returns:
        The two files. Of each family and problem the density of the seed with the median divergence is stored.
    """
    tell, budget, start = progress or (lambda share, what: None), budget or Budget(), time.perf_counter()
    jobs = [(f, p, seed, budget) for f in reversed(FAMILIES) for p in PROBLEMS for seed in budget.seeds]
    rows, images = [], {}
    for row, image in _all_fitted(jobs, workers or os.cpu_count() or 1):
        rows.append(row)
        images[row["family"], row["problem"], row["seed"]] = image
        tell(len(rows) / len(jobs), f"{row['family']} on {row['problem']}")
    rows.sort(key=lambda r: (list(FAMILIES).index(r["family"]), list(PROBLEMS).index(r["problem"]), r["seed"]))
    kept = {f"target/{name}": target_image(problem) for name, problem in PROBLEMS.items()}
    for family in FAMILIES:
        for name in PROBLEMS:
            ranked = sorted((r for r in rows if (r["family"], r["problem"]) == (family, name)), key=lambda r: r["kl"])
            kept[f"{family}/{name}"] = images[family, name, ranked[len(ranked) // 2]["seed"]]
    folder = Path(folder)
    paths = [folder / "families.json", folder / "families.npz"]
    write_json(paths[0], {"provenance": provenance(budget, seconds=time.perf_counter() - start), "rows": rows})
    write_npz(paths[1], kept)
    return paths
