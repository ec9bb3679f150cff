r"""Proposition 3.1: minimising the logit invariance error of a linear network never raises its largest singular value.

For $h(x) = Wx$, one input and one element of the group the gradient is $W \Sigma$ with $\Sigma = \epsilon
\epsilon^\top$, $\epsilon = x - Gx$ (equation 5), and its flow is $W(t) = W(0) \exp(-\Sigma t)$ (equation 6), so that
$\sigma_{\max}(W(t)) \le \sigma_{\max}(W(0))$. Here a digit of Transforming-MNIST is x, and W starts as a layer of the
paper's network does.

Measured: the largest singular value along a descent in small steps, its greatest rise and its last value, both as a
share of the first; how far the last weights are from equation 6, as a share of W(0). *one*: one input, one element.
*orbits*: many inputs and the whole group, which the paper does not treat; $\Sigma$ is then the mean of their $\epsilon
\epsilon^\top$, which are positive semi-definite, and the same holds.

Time: some seconds on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from ...report.style import COLOURS
from ...utils.seeds import seeded
from ..base import Claim, Row, Rows, experiment
from ..draw import sheet
from .common import GROUPS, Training, group_of, part

METHODS = ("one", "orbits")


@dataclass(frozen=True)
class Config:
    """The data, and the descent: its steps and its time, in units of one over the greatest eigenvalue of Σ."""

    training: Training
    methods: tuple[str, ...] = METHODS
    inputs: int = 256
    steps: int = 2000
    time: float = 20.0
    classes: int = 9
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(Training(source="drawn", sizes=(64, 32, 16)), inputs=8, steps=200)
PAPER = tuple(
    Claim(metric, f"{group}: {what}, {method}", {"method": method, "group": group}, said, None, high)
    for group in GROUPS
    for method in METHODS
    for metric, what, said, high in (
        ("rise", "greatest rise of σ_max in a step", "0", 1e-6),
        ("sigma", "σ_max at the end, as a share of W(0)'s", "≤ 1", 1.0),
        ("gap", "distance from equation 6, as a share of W(0)", "0" if method == "one" else "–", 0.01),
    )
)


def build(config: Config, method: str, group: str) -> tuple[Tensor, Tensor]:
    r"""W(0) and $\Sigma$, the mean of $\epsilon \epsilon^\top$ over inputs and elements but the identity."""
    training = replace(config.training, group=group)
    x = part(training, "train").x[: 1 if method == "one" else config.inputs] / 255
    elements = group_of(training).elements()[1 : 2 if method == "one" else None]
    moved = group_of(training).act(elements.unsqueeze(1), x)
    epsilon = (x - moved).flatten(0, 1).flatten(1).to(config.device, torch.float64)
    with seeded(config.seed):
        w = nn.Linear(epsilon.shape[1], config.classes).weight.detach().to(epsilon)
    return w, epsilon.mT @ epsilon / len(epsilon)


def run(config: Config) -> list[Row]:
    """One row for each group and method."""
    rows: list[Row] = []
    for group in GROUPS:
        for method in config.methods:
            start, sigma = build(config, method, group)
            values, vectors = torch.linalg.eigh(sigma)
            end = config.time / values[-1]
            w, path = start, [start]
            for _ in range(config.steps):
                w = w - end / config.steps * w @ sigma
                path.append(w)
            flow = start @ vectors @ torch.diag((-values * end).exp()) @ vectors.mT
            norms = torch.linalg.matrix_norm(torch.stack(path), 2) / torch.linalg.matrix_norm(start, 2)
            row: Row = {"method": method, "group": group, "dataset": config.training.source, "seed": config.seed}
            found = {"rise": norms.diff().max().item(), "sigma": norms[-1].item()}
            found["gap"] = ((w - flow).norm() / start.norm()).item()
            curve = norms[:: max(1, config.steps // 100)].float().cpu().numpy()
            rows.append({**row, "scale": 1.0, **found, "time": config.time, "curve": curve})
    return rows


def show(rows: Rows) -> Figure:
    """The largest singular value against the time of the descent."""
    figure, axes = sheet(1, len(GROUPS), (8, 3.2))
    for panel, group in zip(axes, GROUPS, strict=True):
        for colour, method in zip(COLOURS, METHODS, strict=False):
            for row in (row for row in rows if (row["method"], row["group"]) == (method, group)):
                time = np.linspace(0, row["time"], len(row["curve"]))
                panel.plot(time, row["curve"], color=colour, label=method if row["seed"] == 0 else "")
        panel.set(title=group, xlabel="time, in units of 1/λ_max(Σ)", ylabel="σ_max(W(t)) / σ_max(W(0))")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


KEYS = ("method", "group", "dataset", "seed")
EXPERIMENT = experiment("genuine/proposition31", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
