"""Series: time that shifts, stretches, flows and turns around."""

from __future__ import annotations

import torch
from torch import Tensor

from ...data import series
from ...transforms import CPAB, Flips, Shifts, TimeAffine
from ..panels import Panel, Row, act_row, number
from .base import Exhibit, finite

__all__ = ["flips", "shifts", "time_affine", "time_cpab"]

THREE = (-1.0, 0.0, 1.0)


def _batch(length: int) -> Tensor:
    return series(length).unsqueeze(0)


def time_affine(length: int) -> Exhibit:
    """Shift and stretch, in the factored form."""
    x, transform = _batch(length), TimeAffine(factored=True)
    rows = []
    for k, (name, most) in enumerate({"shift": 0.25, "stretch": 0.5}.items()):
        v = torch.tensor(THREE)[:, None, None] * torch.eye(2)[k] * most
        rows.append(act_row(name, transform, x, v, [number(most * s) for s in THREE]))
    text = "Time stretched (slower for stretch > 0, a log-factor), then shifted (later for shift > 0)."
    code = """\
from erlangen.transforms import TimeAffine

time = TimeAffine(factored=True)
v = torch.tensor([[-0.25, 0.0], [0.0, 0.0], [0.25, 0.0]])  # shift, stretch
y = time(x, v.unsqueeze(1))"""
    return Exhibit("TimeAffine(factored=True)", text, transform, code, tuple(rows), x)


def time_cpab(length: int) -> Exhibit:
    """Time that flows unevenly."""
    x, transform = _batch(length), CPAB((10,))
    theta = 0.15 * torch.randn(9, generator=torch.Generator().manual_seed(2))
    v = torch.tensor(THREE)[:, None, None] * theta
    captions = ["−θ", "0", "θ"]
    row = act_row("θ", transform, x, v, captions)
    time = torch.linspace(-1, 1, 201)
    maps = transform.act_points(transform.element(v), time.reshape(1, -1, 1))[:, 0, :, 0]
    panels = [Panel(maps[k : k + 1], f"φ(t) of {captions[k]}", "map", identity=k == 1) for k in range(3)]
    text = "Time flows along a piecewise-affine velocity, in closed form; below, where each moment t goes, φ(t)."
    code = """\
from erlangen.transforms import CPAB

warp = CPAB((10,))
theta = 0.15 * torch.randn(9, generator=torch.Generator().manual_seed(2))
y = warp(x, torch.linspace(-1, 1, 3).reshape(3, 1, 1) * theta)"""
    return Exhibit("CPAB of time", text, transform, code, (row, Row("φ(t)", tuple(panels))), x)


def shifts(length: int) -> Exhibit:
    """Cyclic shifts of time."""
    text = "Cyclic shifts of time: exact."
    return finite("Shifts(4)", text, Shifts(4), _batch(length), ["0", "1/4", "1/2", "3/4"])


def flips(length: int) -> Exhibit:
    """Time reversed."""
    return finite("Flips()", "Time forwards and backwards: exact.", Flips(), _batch(length), ["0", "flip"])
