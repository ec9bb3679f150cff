"""Panels: one picture, series or time map each, with what lies over it, and how they are painted on a canvas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ..transforms import Transform
from .canvas import Canvas, pixels
from .style import ACCENT, COLOURS, HAIRLINE, MUTED, PAPER

__all__ = ["Line", "Panel", "Row", "act_row", "multiple", "number", "paint"]


@dataclass(frozen=True)
class Line:
    """A line or points over a picture, in our coordinates: `points` is `(N, 2)`."""

    points: Tensor
    colour: str = ACCENT
    width: float = 1.5
    dots: bool = False


@dataclass(frozen=True)
class Panel:
    """One cell of a row.

    Args:
        signal: `(3, H, W)`, `(C, L)`, or `(1, L)` values of a time map.
        caption: a few characters.
        kind: what the signal is.
        alpha: the share of each pixel that comes from inside the frame, `(1, H, W)`; all of it if None.
        identity: whether this is the unchanged signal, which is highlighted.
        behind: a series that is drawn faintly behind.
        lines: what lies over a picture.
        frame: colour of the frame, if it is to stand out.
    """

    signal: Tensor
    caption: str = ""
    kind: Literal["picture", "series", "map"] = "picture"
    alpha: Tensor | None = None
    identity: bool = False
    behind: Tensor | None = None
    lines: tuple[Line, ...] = ()
    frame: str | None = None


@dataclass(frozen=True)
class Row:
    """Panels side by side, with a label."""

    label: str
    panels: tuple[Panel, ...]

    def with_lines(self, lines: Sequence[tuple[Line, ...]]) -> Row:
        """The same row with lines over its panels."""
        return Row(self.label, tuple(replace(p, lines=over) for p, over in zip(self.panels, lines, strict=True)))


def number(value: float) -> str:
    """A signed number for a caption, with a true minus sign."""
    return "0" if abs(value) < 1e-9 else f"{value:+.2g}".replace("-", "−")


def multiple(share: float, name: str) -> str:
    """A multiple of something, for a caption."""
    if share == 0:
        return "0"
    return {1.0: name, -1.0: f"−{name}"}.get(share, f"{number(share).lstrip('+')} {name}")


def act_row(label: str, transform: Transform, x: Tensor, v: Tensor, captions: Sequence[str]) -> Row:
    """The transform along coordinates, the panel at its origin highlighted.

    Shape:
        x: `(1, C, H, W)` or `(1, C, L)`; v: `(S, 1, d)`.
    """
    kind, behind = ("picture", None) if x.ndim == 4 else ("series", x[0])
    if x.ndim == 4 and transform.acts_on == "positions":
        # One more channel tells what comes from inside the frame.
        y, shares = transform(torch.cat((x, torch.ones_like(x[:, :1])), 1), v).split((x.shape[1], 1), 2)
    else:
        y, shares = transform(x, v), None
    panels = []
    for k, caption in enumerate(captions):
        same = bool(torch.equal(v[k, 0], transform.origin.to(v.dtype)))
        share = None if shares is None else shares[k, 0]
        panels.append(Panel(y[k, 0], caption, kind, share, same, behind))
    return Row(label, tuple(panels))


def paint(canvas: Canvas, panel: Panel, place: tuple[float, float, float, float], paper: str | None = PAPER) -> None:
    """Draws a panel into the rectangle x, y, width, height; pictures keep their pixels."""
    x, y, width, height = place
    if panel.kind == "picture":
        canvas.image(x, y, pixels(panel.signal, panel.alpha, paper))
        if panel.lines:
            _paint_lines(canvas, panel, place)
    elif panel.kind == "series":
        _paint_series(canvas, panel, place)
    else:
        _paint_map(canvas, panel, place)
    edge = ACCENT if panel.identity else panel.frame
    if edge:
        canvas.box(x - 2, y - 2, width + 4, height + 4, edgecolor=edge, linewidth=1.9)
    elif paper is not None:
        canvas.box(x, y, width, height)


def _paint_lines(canvas: Canvas, panel: Panel, place: tuple[float, float, float, float]) -> None:
    height, width = panel.signal.shape[1:]
    right, bottom = width / max(height, width), height / max(height, width)
    axes = canvas.axes(*place, limits=(-right, right, bottom, -bottom))
    for line in panel.lines:
        x, y = line.points.detach().double().numpy().T
        if line.dots:
            axes.plot(
                x, y, "o", color=line.colour, markersize=line.width * 2.4, markeredgecolor="white", markeredgewidth=0.8
            )
        else:
            axes.plot(x, y, color=line.colour, linewidth=line.width)


def _paint_series(canvas: Canvas, panel: Panel, place: tuple[float, float, float, float]) -> None:
    axes = canvas.axes(*place, limits=(-1, 1, -1.08, 1.08))
    axes.axhline(0, color=HAIRLINE, linewidth=0.8, zorder=0)
    length = panel.signal.shape[-1]
    time = (torch.arange(length) - (length - 1) / 2).double().numpy() * 2 / length
    if panel.behind is not None and not panel.identity:
        for curve in panel.behind.double().numpy():
            axes.plot(time, curve, color=MUTED, alpha=0.45, linewidth=0.9)
    for curve, colour in zip(panel.signal.detach().double().numpy(), COLOURS, strict=False):
        axes.plot(time, curve, color=colour, linewidth=1.5)


def _paint_map(canvas: Canvas, panel: Panel, place: tuple[float, float, float, float]) -> None:
    axes = canvas.axes(*place, limits=(-1, 1, -1, 1))
    time = torch.linspace(-1, 1, panel.signal.shape[-1]).double().numpy()
    axes.plot((-1, 1), (-1, 1), color=MUTED, alpha=0.5, linewidth=0.9, dashes=(4, 3))
    axes.plot(time, panel.signal[0].detach().double().numpy(), color=COLOURS[2], linewidth=1.7)
