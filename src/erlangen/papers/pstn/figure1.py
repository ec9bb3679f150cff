r"""Figure 1: the loss over the place at which a crop is taken, of an STN and of a P-STN.

The paper shows that the loss of a crop, as a function of its place, has many local minima, and that the mean over crops
around that place, on which a P-STN is trained, is smoother and has fewer. Here it is computed for clothes on a canvas
(figure 7): the loss of the frozen classifier for windows of the true size whose middles lie on a grid, and its mean
over shifts drawn from Student's t with two degrees of freedom, of the scale 0.1.

Measured, for each of some test images: the number of local minima on the grid; the total variation of the loss as a
share of its range; and how far the lowest minimum is from the true place, in pixels of the canvas. Rows have the means.

Time: a minute on a CPU after the classifier of figure 7 was trained, which takes ten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib import colormaps
from matplotlib.figure import Figure
from torch import Tensor

from ...distributions.standard_t import StandardT
from ...models import Averaged
from ...report.style import ACCENT
from ...utils.seeds import generator
from ..base import Claim, Row, Rows, experiment
from ..draw import first, sheet
from . import figure7
from .draw import NAMES
from .frozen import CANVAS, Frozen, classifiers, data_set

METHODS = ("stn", "pstn")
SCALE = 0.1
LEVELS = colormaps["viridis"].resampled(32)  # few, so that a file of few colours has the mark of the place as well


@dataclass(frozen=True)
class Config:
    """The classifier, how many images are looked at, on which grid, with how many samples."""

    training: Frozen
    images: int = 20
    side: int = 33
    samples: int = 64
    device: str = "cpu"
    seed: int = 0


FULL = Config(figure7.FULL.training)
SMOKE = Config(figure7.SMOKE.training, images=2, side=9, samples=4)
PAPER = (
    Claim("minima", "local minima of the loss, STN", {"method": "stn"}, "many"),
    Claim("minima", "the same, P-STN", {"method": "pstn"}, "fewer"),
    Claim("fewer", "P-STN's as a share of STN's", {"method": "pstn"}, "–", None, 0.5),
    Claim("roughness", "total variation of the loss over its range, STN", {"method": "stn"}),
    Claim("roughness", "the same, P-STN", {"method": "pstn"}, "smaller"),
)


def build(config: Config) -> Frozen:
    """The classifier of figure 7."""
    return replace(config.training, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each method: means over images, and the landscape of the first."""
    training = build(config)
    (model,) = classifiers([training], config.device)
    data = data_set(training.task, training.source, "test", config.images)
    middle = (data.box[:, :2] + data.box[:, 2:]) / 2
    shifts = {"stn": torch.zeros(1, 2), "pstn": SCALE * noise(config.samples)}
    rows: list[Row] = []
    for method, shift in shifts.items():
        losses = torch.stack([landscape(model, x, y, shift, config.side) for x, y in zip(data.x, data.y, strict=True)])
        minima = torch.stack([local_minima(loss) for loss in losses]).double().mean().item()
        steps = [losses.diff(dim=d).abs().sum((-1, -2)) for d in (-1, -2)]
        rough = ((steps[0] + steps[1]) / (losses.amax((-1, -2)) - losses.amin((-1, -2))).clamp(min=1e-9)).mean().item()
        place = losses.flatten(1).argmin(1)
        found = torch.stack((place % config.side, place // config.side), -1) / (config.side - 1) - 0.5
        row: Row = {"method": method, "dataset": f"{training.source}-placed", "seed": config.seed, "scale": 1.0}
        row |= {"minima": minima, "roughness": rough}
        row["distance"] = (found - middle).norm(dim=-1).mean().item() * CANVAS / 2
        rows.append(row | {"loss": losses[0].float().numpy(), "place": middle[0].float().numpy()})
    return [row | {"fewer": row["minima"] / max(rows[0]["minima"], 1e-9)} for row in rows]


def noise(samples: int) -> Tensor:
    """Shifts from Student's t with two degrees of freedom, at most 20, `(S, 2)`."""
    return StandardT(2.0, 20.0).truncated_quantile(torch.rand(samples, 2, generator=generator(0)))


@torch.no_grad()
def landscape(model: Averaged, x: Tensor, y: Tensor, shift: Tensor, side: int) -> Tensor:
    """The mean loss over shifts of the middle, for windows of half the canvas with their middle on a grid."""
    device = model.transform.bounds.device
    axis = torch.linspace(-0.5, 0.5, side, device=device)
    points = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1).reshape(-1, 1, 2)
    image, label = x.to(device)[None] / 255, y.to(device)
    losses = []
    for part in points.split(max(1, 2048 // len(shift))):
        middles = (part + shift.to(device)).flatten(0, 1)
        # The window's middle moves to the origin, and what it shows becomes twice as large: log-scale, then shift.
        v = torch.cat((torch.full_like(middles[:, :1], np.log(2.0)), -2 * middles), -1)
        logits = model.classify(model.transform(image, v.unsqueeze(1)).flatten(0, 1))
        losses.append(F.cross_entropy(logits, label.expand(len(v)), reduction="none").unflatten(0, (len(part), -1)))
    return torch.cat(losses).mean(-1).view(side, side).cpu()


def local_minima(loss: Tensor) -> Tensor:
    """The number of points of a grid that lie below all of their neighbours."""
    padded = F.pad(loss[None, None], (1, 1, 1, 1), value=torch.inf)
    around = F.unfold(padded, 3)[0]
    return (around[4] < torch.cat((around[:4], around[5:])).amin(0)).sum()


def show(rows: Rows) -> Figure:
    """The landscape of an image for each method, in the same colours, with the true place."""
    figure, axes = sheet(1, 2, (8.8, 3.6))
    top = max((float(row["loss"].max()) for row in rows), default=1.0)
    for panel, method in zip(axes, METHODS, strict=True):
        row = first(rows, method=method)
        if row is not None:
            image = panel.imshow(row["loss"], extent=(-0.5, 0.5, 0.5, -0.5), cmap=LEVELS, vmin=0, vmax=top)
            panel.plot(*row["place"], "x", color=ACCENT, markersize=10, markeredgewidth=2)
            panel.set(
                title=f"{NAMES[method]}: {row['minima']:.1f} minima on average",
                xlabel="middle of the crop, x",
                ylabel="y",
            )
            figure.colorbar(image, ax=panel, label="loss")
    return figure


EXPERIMENT = experiment("pstn/figure1", run, show, full=FULL, smoke=SMOKE, paper=PAPER)
