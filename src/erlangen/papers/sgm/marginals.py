"""What figures 10, 15 and 16 share: for some images the prototype and the marginal density of every coordinate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ...metrics import occupied_arcs
from ...models import SymmetryModel
from ...report.style import COLOURS
from ...utils.seeds import generator
from ..base import Row, Rows
from ..draw import picture, sheet
from ..store import as_bytes
from .common import on_device

__all__ = ["marginal_figure", "marginal_rows"]


@torch.no_grad()
def marginal_rows(
    model: SymmetryModel, x: Tensor, about: Row, *, samples: int, spans: dict[str, tuple[float, float]]
) -> list[Row]:
    """A row for each image: its prototype, marginals over `spans`, and how many arcs the first circle has."""
    x = on_device(model, x)
    v = model.density(x).sample((samples,), generator(about["seed"], x.device)).cpu()
    prototypes, names = as_bytes(model.prototype(x)), model.group.names
    low, high = model.group.bounds.cpu()
    rows: list[Row] = []
    for k in range(len(x)):
        row: Row = {**about, "image": k, "input": as_bytes(x[k]), "prototype": prototypes[k]}
        for i, name in enumerate(names):
            density = np.histogram(v[:, k, i].double().numpy(), 60, spans[name], density=True)[0]
            row[f"density_{name}"] = density.astype(np.float32)
            if model.group.periodic[i]:
                number, share = occupied_arcs(v[:, k, i] * (2 * torch.pi / (high[i] - low[i])))
                row |= {"arcs": int(number), "share": 100 * share.item()}
        rows.append(row)
    return rows


def marginal_figure(rows: Rows, names: Sequence[str], spans: dict[str, tuple[float, float]]) -> Figure:
    """A line for each image of the first seed: image, prototype, and the marginal of each coordinate."""
    mine = [row for row in rows if row["seed"] == min(r["seed"] for r in rows)]
    figure, axes = sheet(len(mine), 2 + len(names), (1.5 * (2 + len(names)), 0.85 * len(mine) + 0.4))
    for line, row in enumerate(mine):
        panels: list[Any] = axes[line * (2 + len(names)) :]
        picture(panels[0], row["input"])
        picture(panels[1], row["prototype"])
        for panel, name, colour in zip(panels[2:], names, COLOURS * 2, strict=False):
            _density(panel, row[f"density_{name}"], spans[name], colour)
            if line == 0:
                panel.set_title(name, fontsize=9)
            if line < len(mine) - 1:
                panel.set_xticks([])
    return figure


def _density(panel: Axes, density: np.ndarray, span: tuple[float, float], colour: str) -> None:
    edges = np.linspace(*span, len(density) + 1)
    places = (edges[1:] + edges[:-1]) / 2
    panel.fill_between(places, density, color=colour, alpha=0.35, linewidth=0)
    panel.plot(places, density, color=colour, linewidth=1)
    panel.set(yticks=[], xlim=span)
    panel.tick_params(labelsize=7)
