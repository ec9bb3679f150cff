r"""Figure 10: what a P-STN has learned to do to a time series of FaceAll.

The paper shows a series and three warps of it that its model draws: time is warped more in some intervals than in
others. Section 5.2.2. Here the model is that of the first repetition of table 3, but with the paper's weight for
FaceAll, 1e-4, where 1e-5 was chosen. Beside it is shown how far each moment is moved: the deviation of the warped time
over many samples, for this series and, in the mean, for all of the test part. Even warps move moments in the middle
most, since both ends stay in place: the relative deviation is divided by what independent velocities of one scale would
give.

Measured: the mean and the greatest deviation over moments, in samples of the series, and the ratio of the greatest to
the least relative deviation.

Time: a minute on a GPU, to train the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from matplotlib.figure import Figure

from ...models import Averaged
from ...report.style import ACCENT, COLOURS, MUTED
from ...transforms.spatial import pixel_centres
from ...utils.seeds import seeded
from ..base import Claim, Row, Rows, experiment
from ..draw import sheet
from .series import Training, data_set, name_of, trained


@dataclass(frozen=True)
class Config:
    """How the model is trained, which series is shown, and from how many samples deviations are measured."""

    training: Training
    shown: int = 0
    samples: int = 500
    inputs: int = 100
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training(weight=1e-4))
SMOKE = Config(Training(dataset="bumps", epochs=1, samples=2, small=True), samples=20, inputs=4)
PAPER = (
    Claim("deviation", "how far moments are moved, in samples of the series", paper="visibly"),
    Claim("uneven", "moved most over moved least, relative to even warps", paper="more in some intervals", low=1.5),
)


def build(config: Config) -> Training:
    """The choice of the four nouns is in `series`."""
    return replace(config.training, seed=config.seed)


@torch.no_grad()
def deviations(model: Averaged, x: torch.Tensor, samples: int) -> torch.Tensor:
    """How far each moment of each series is moved, in samples: the deviation of warped time, `(N, L)`."""
    q, length = model.conditional(x), x.shape[-1]
    v = q.rsample(torch.Size([samples]))
    moments = pixel_centres((length,), x)[0].reshape(1, -1, 1).expand(len(x), -1, -1)
    return model.transform.act_points(v, moments)[..., 0].std(0) * (length / 2)


@torch.no_grad()
def even(model: Averaged, length: int, samples: int) -> torch.Tensor:
    """The `deviations` for velocities that are independent and alike, up to a factor, `(L,)`."""
    v = 0.02 * torch.randn(samples, 1, model.transform.features).to(model.transform.bounds)
    moments = pixel_centres((length,), v)[0].reshape(1, -1, 1)
    return model.transform.act_points(v, moments)[:, 0, :, 0].std(0) * (length / 2)


def run(config: Config) -> list[Row]:
    """One row, with curves."""
    training = build(config)
    model, _ = trained(training, config.device)
    x = data_set(training, "test").x[: config.inputs].to(model.transform.bounds)
    with seeded(config.seed), torch.no_grad():
        moved = deviations(model, x, config.samples)
        plain = even(model, x.shape[-1], config.samples)
        one = x[config.shown : config.shown + 1]
        views = model.transform(one, model.conditional(one).rsample(torch.Size([3])))[:, 0, 0]
    inner = slice(x.shape[-1] // 20, -(x.shape[-1] // 20) or None)  # at the ends both vanish
    relative = (moved.mean(0) / plain)[inner]
    row: Row = {"method": "pstn", "dataset": name_of(training.dataset), "seed": config.seed, "scale": training.scale}
    row |= {"weight": training.weight, "deviation": moved.mean().item(), "greatest": moved.mean(0).max().item()}
    row |= {"uneven": (relative.max() / relative.min()).item()}
    curves = {"series": one[0, 0], "views": views, "own": moved[config.shown], "mean": moved.mean(0), "even": plain}
    return [row | {name: value.float().cpu().numpy() for name, value in curves.items()}]


def show(rows: Rows) -> Figure:
    """The series, three warps of it, and how far each moment is moved."""
    row = rows[0]
    figure, axes = sheet(3, 1, (7, 6))
    time = np.arange(len(row["series"]))
    axes[0].plot(time, row["series"], color=MUTED)
    axes[0].set_title(f"a series of {row['dataset']}", fontsize=10)
    for view, colour in zip(row["views"], COLOURS, strict=False):
        axes[1].plot(time, view, color=colour, linewidth=1.2)
    axes[1].plot(time, row["series"], color=MUTED, linewidth=0.8)
    axes[1].set_title("three of its warps", fontsize=10)
    scale = row["mean"].mean() / row["even"].mean()
    axes[2].plot(time, row["own"], color=COLOURS[0], label="this series")
    axes[2].plot(time, row["mean"], color=ACCENT, label="all of the test part, mean")
    axes[2].plot(time, scale * row["even"], "--", color=MUTED, label="even warps, as large in the mean")
    axes[2].set(xlabel="time", ylabel="moved by, samples")
    axes[2].legend(frameon=False, fontsize=8)
    return figure


EXPERIMENT = experiment("pstn/figure10", run, show, full=FULL, smoke=SMOKE, paper=PAPER)
