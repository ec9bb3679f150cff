"""The figures of docs/conventions.md, drawn by the transforms themselves."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from matplotlib.axes import Axes
from torch import Tensor

from ..data import landmarks, picture, series
from ..transforms import CPAB, HSV, Affine, Crop, TimeAffine
from .canvas import Canvas, Progress, write_figures
from .gallery import gallery_picture
from .panels import Line, Panel, act_row, number, paint
from .style import ACCENT, COLOURS, HAIRLINE, INK, MUTED, WINDOWS

__all__ = ["figures"]

SIDE = 192
FRAME = ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0))
PAD = 34
SIGNS = {"tx": 0.4, "ty": 0.4, "angle": 0.5, "scale": 0.4, "stretch": 0.35, "shear": 0.35, "sx": 0.5, "sy": 0.5}


def figures(folder: str | os.PathLike[str], progress: Progress | None = None) -> list[Path]:
    """Draws all figures of the documentation into a folder, which is made if it is missing.

    Args:
        folder: where to.
        progress: called with the share done, from 0 to 1, and what is being drawn.

    Returns:
        The files.
    """
    return write_figures(folder, FIGURES, progress)


def _arrow(axes: Axes, start: Sequence[float], end: Sequence[float], colour: str = ACCENT, bend: float = 0.0) -> None:
    style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "mutation_scale": 11, "shrinkA": 0, "shrinkB": 0}
    axes.annotate(
        "",
        (end[0], end[1]),
        (start[0], start[1]),
        arrowprops=style | {"connectionstyle": f"arc3,rad={bend}"},
        annotation_clip=False,
    )


def _over(canvas: Canvas, x: float, y: float, size: tuple[int, int], room: float = 0.0) -> Axes:
    """Axes in our coordinates over an image of height and width `size`, and `room` units around it."""
    height, width = size
    unit = max(size) / 2
    right, bottom = width / 2 / unit + room, height / 2 / unit + room
    place = (x - room * unit, y - room * unit, 2 * right * unit, 2 * bottom * unit)
    return canvas.axes(*place, limits=(-right, right, bottom, -bottom))


def _picture(canvas: Canvas, x: float, y: float, panel: Panel, title: str = "") -> None:
    """A picture with a title above it."""
    height, width = panel.signal.shape[1:]
    paint(canvas, panel, (x, y, width, height))
    canvas.text(x + width / 2, y - 12, title, 14, ha="center")


def frame() -> bytes:
    """Axes, units and edges on a square and on a wide image."""
    sizes = ((SIDE, SIDE), (SIDE, 2 * SIDE))
    canvas = Canvas(3 * SIDE + 3 * 72, SIDE + 92)
    left = 72
    for size in sizes:
        height, width = size
        _picture(canvas, left, 48, Panel(picture(size)))
        axes = _over(canvas, left, 48, size, room=0.42)
        right, bottom = width / max(size), height / max(size)
        beyond = 30 / max(size)
        axes.plot((-right, right), (0, 0), color="white", linewidth=1.6)
        axes.plot((0, 0), (-bottom, bottom), color="white", linewidth=1.6)
        _arrow(axes, (right, 0), (right + beyond, 0), INK)
        _arrow(axes, (0, bottom), (0, bottom + beyond), INK)
        axes.plot(0, 0, "o", color=ACCENT, markersize=6, markeredgecolor="white")
        middle = left + width / 2
        canvas.text(left + width + 20, 48 + height / 2 + 5, "x", 16, style="italic")
        canvas.text(middle + 10, 48 + height + 26, "y", 16, style="italic")
        for value, place in ((f"−{right:g}", left), (f"{right:g}", left + width)):
            canvas.text(place, 48 + height + 20, value, 13, ha="center", color=ACCENT, weight="bold")
        for value, place in ((f"−{bottom:g}", 48), (f"{bottom:g}", 48 + height)):
            canvas.text(left - 10, place + 5, value, 13, ha="right", color=ACCENT, weight="bold")
        canvas.text(middle, 30, f"{height} × {width} pixels", 14, ha="center", color=MUTED)
        left += width + 72
    return canvas.png()


def signs() -> bytes:
    """Each coordinate at one positive value: where the frame and five points go."""
    step = SIDE + PAD
    canvas = Canvas(4 * step + PAD, 2 * (SIDE + 64) + 12)
    x = picture((SIDE, SIDE)).unsqueeze(0)
    points = 0.55 * torch.tensor([[-1.0, -1.0], [1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [-1.0, 1.0]])
    for k, (name, value) in enumerate(SIGNS.items()):
        transform = Affine(name)
        v = torch.tensor([[[value]]])
        panel = act_row(name, transform, x, v, [""]).panels[0]
        left, top = PAD + (k % 4) * step, 46 + (k // 4) * (SIDE + 64)
        _picture(canvas, left, top, panel, f"{name} = {number(value)}")
        axes = _over(canvas, left, top, (SIDE, SIDE))
        moved = transform.act_points(transform.element(v[0]), points.unsqueeze(0))[0]
        for start, end in zip(points.tolist(), moved.tolist(), strict=True):
            if math.dist(start, end) > 0.02:
                _arrow(axes, start, end, bend=0.22 if name == "angle" else 0.0)
            axes.plot(*start, "o", color="white", markersize=4, markeredgecolor=ACCENT)
    return canvas.png(256)


def action() -> bytes:
    """The value at p comes from g⁻¹ p."""
    canvas = Canvas(2 * SIDE + 200, SIDE + 84)
    transform = Affine("tx", "angle", "scale")
    v = torch.tensor([[[0.15, 0.5, -0.2]]])
    x = picture((SIDE, SIDE)).unsqueeze(0)
    start = landmarks((SIDE, SIDE))["sail"][:1]
    end = transform.act_points(transform.element(v[0]), start.unsqueeze(0))[0]
    moved = act_row("", transform, x, v, [""]).panels[0]
    _picture(canvas, 30, 46, Panel(x[0], lines=(Line(start, dots=True, width=3.4),)), "x")
    _picture(
        canvas,
        SIDE + 170,
        46,
        Panel(moved.signal, alpha=moved.alpha, lines=(Line(end, dots=True, width=3.4),)),
        "act(g, x)",
    )
    whole = canvas.axes(0, 0, canvas.width, canvas.height, (0, canvas.width, canvas.height, 0))
    ends = [
        (left + (p[0] + 1) * SIDE / 2, 46 + (p[1] + 1) * SIDE / 2) for left, p in ((30, start[0]), (SIDE + 170, end[0]))
    ]
    (ax, ay), (bx, by) = ((float(a), float(b)) for a, b in ends)
    _arrow(whole, (ax + 8, ay), (bx - 8, by), bend=-0.25)
    canvas.text(SIDE + 100, 92, "g", 20, style="italic", ha="center", color=ACCENT)
    canvas.text(30 + SIDE / 2, SIDE + 72, "the content at g⁻¹ p …", 14, ha="center", color=MUTED)
    canvas.text(SIDE * 1.5 + 170, SIDE + 72, "… is found at p", 14, ha="center", color=MUTED)
    return canvas.png()


def compose() -> bytes:
    """The right factor acts first."""
    step = SIDE + PAD
    canvas = Canvas(4 * step + PAD, SIDE + 84)
    transform = Affine("tx", "angle")
    x = picture((SIDE, SIDE)).unsqueeze(0)
    g, h = (transform.element(torch.tensor([[[a, b]]])) for a, b in ((0.5, 0.0), (0.0, 0.7)))
    shown = {
        "x": (transform.identity()[None, None], "g: tx = 0.5,  h: angle = 0.7"),
        "act(h, x)": (h, "h first"),
        "act(compose(g, h), x)": (transform.compose(g, h), "… and then g"),
        "act(compose(h, g), x)": (transform.compose(h, g), "g first, and then h"),
    }
    inside = torch.cat((x, torch.ones_like(x[:, :1])), 1)
    for k, (title, (element, note)) in enumerate(shown.items()):
        y = transform.act(element, inside)[0, 0]
        _picture(canvas, PAD + k * step, 46, Panel(y[:3], alpha=y[3:], identity=k == 0), title)
        canvas.text(PAD + k * step + SIDE / 2, SIDE + 72, note, 13, ha="center", color=MUTED)
    return canvas.png()


def crop() -> bytes:
    """A centre at ±1 touches the edge, whatever the size."""
    step = SIDE + PAD
    canvas = Canvas(4 * step + PAD, SIDE + 84)
    transform = Crop()
    x = picture((SIDE, SIDE)).unsqueeze(0)
    v = torch.tensor([[[-1.0, -1.0, 0.4, 0.6]], [[0.0, 1.0, 0.5, 0.5]], [[1.0, 0.0, 0.6, 0.8]]])
    windows = transform.source(transform.element(v[:, 0]), torch.tensor(FRAME), (SIDE, SIDE))
    lines = tuple(Line(w * 0.985, colour, 2.6) for w, colour in zip(windows, WINDOWS, strict=False))
    _picture(canvas, PAD, 46, Panel(x[0], identity=True, lines=lines), "x")
    y = transform(x, v)[:, 0]
    for k, values in enumerate(v[:, 0].tolist()):
        left = PAD + (k + 1) * step
        cx, cy, width, height = (f"{value:g}".replace("-", "−") for value in values)
        _picture(canvas, left, 46, Panel(y[k], frame=WINDOWS[k]), f"cx = {cx}, cy = {cy}")
        canvas.text(left + SIDE / 2, SIDE + 72, f"width = {width}, height = {height}", 13, ha="center", color=MUTED)
    return canvas.png()


def hue() -> bytes:
    """Hue in turns: red, green, blue and red again."""
    side, step = 144, 144 + 22
    canvas = Canvas(5 * step + 22, side + 116)
    transform = HSV("hue")
    x = picture((side, side)).unsqueeze(0)
    values = (-1 / 3, -1 / 6, 0.0, 1 / 6, 1 / 3)
    titles = ("−1/3", "−1/6", "0", "+1/6", "+1/3")
    v = torch.tensor(values).reshape(5, 1, 1)
    ramp = transform.act(torch.stack((torch.arange(144) / 144, *[torch.zeros(144)] * 2), -1), _red(144))
    for k, panel in enumerate(act_row("hue", transform, x, v, titles).panels):
        left = 22 + k * step
        _picture(canvas, left, 46, panel, f"hue = {titles[k]}")
        strip = transform(ramp[..., 0, 0].T[None, :, None].expand(1, 3, 24, 144), v[k])[0]
        _picture(canvas, left, side + 64, Panel(strip))
    return canvas.png()


def _red(n: int) -> Tensor:
    return torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1).expand(n, 3, 1, 1)


def cpab() -> bytes:
    """A velocity field, what it does to straight lines, and to the picture."""
    step = SIDE + PAD
    canvas = Canvas(3 * step + PAD, SIDE + 64)
    transform = CPAB((3, 3))
    theta = 0.2 * torch.randn(1, 34, generator=torch.Generator().manual_seed(21))
    ticks = torch.linspace(-0.92, 0.92, 13)
    starts = torch.cartesian_prod(ticks, ticks)
    # For a short time a flow is its velocity.
    velocity = (transform.act_points(theta * 0.01, starts.unsqueeze(0))[0] - starts) * 100
    canvas.box(PAD, 46, SIDE, SIDE)
    axes = _over(canvas, PAD, 46, (SIDE, SIDE))
    for edge in (-1 / 3, 1 / 3):
        axes.axvline(edge, color=HAIRLINE, linewidth=1)
        axes.axhline(edge, color=HAIRLINE, linewidth=1)
    axes.quiver(
        *starts.T.numpy(), *velocity.T.numpy(), color=COLOURS[0], angles="xy", scale_units="xy", scale=2.2, width=0.008
    )
    canvas.text(PAD + SIDE / 2, 34, "velocity", 14, ha="center")
    canvas.box(PAD + step, 46, SIDE, SIDE)
    axes = _over(canvas, PAD + step, 46, (SIDE, SIDE))
    fine, coarse = torch.linspace(-1, 1, 61), torch.linspace(-1, 1, 13)[1:-1]
    across = torch.stack(torch.meshgrid(coarse, fine, indexing="ij"), -1)
    grid = torch.cat((across, across.flip(-1)))
    for line in transform.act_points(theta, grid.reshape(1, -1, 2)).reshape(grid.shape):
        axes.plot(*line.T.numpy(), color=COLOURS[0], linewidth=1.2)
    canvas.text(PAD + step + SIDE / 2, 34, "flow, after unit time", 14, ha="center")
    y = transform(picture((SIDE, SIDE)).unsqueeze(0), theta)[0]
    _picture(canvas, PAD + 2 * step, 46, Panel(y), "act(θ, x)")
    return canvas.png()


def time() -> bytes:
    """Later and slower."""
    width, height, gap = 250, 120, 30
    canvas = Canvas(3 * width + 4 * gap, height + 70)
    x = series(512).unsqueeze(0)
    shown = (("original", TimeAffine("shift"), 0.0), ("shift = +0.4: later", TimeAffine("shift"), 0.4))
    shown = (*shown, ("stretch = +0.5: slower", TimeAffine("stretch"), 0.5))
    for k, (title, transform, value) in enumerate(shown):
        panel = act_row("", transform, x, torch.tensor([[[value]]]), [""]).panels[0]
        left = gap + k * (width + gap)
        paint(canvas, panel, (left, 42, width, height))
        canvas.text(left + width / 2, 30, title, 14, ha="center")
        for text, place in (("−1", 0), ("0", 0.5), ("1", 1)):
            canvas.text(left + place * width, height + 60, text, 12, ha="center", color=MUTED)
    return canvas.png()


def forms() -> bytes:
    """The same coordinates in the exponential and in the factored form, at growing multiples."""
    step = SIDE + 70
    canvas = Canvas(2 * step + 70, SIDE + 110)
    flag = torch.tensor([[-0.2, -0.2], [0.2, -0.2], [0.2, 0.2], [-0.2, 0.2], [-0.2, -0.2]])
    for k, (title, factored) in enumerate((("exponential", False), ("factored", True))):
        transform = Affine("tx", "angle", factored=factored)
        left = 70 + k * step
        canvas.box(left, 60, SIDE, SIDE)
        axes = _over(canvas, left, 60, (SIDE, SIDE), room=0.3)
        shares = torch.linspace(0, 1, 41)[:, None, None] * torch.tensor([1.0, math.pi / 2])
        g = transform.element(shares)
        path = transform.act_points(g, torch.zeros(1, 1, 2))[:, 0, 0]
        axes.plot(*path.T.numpy(), color=ACCENT, linewidth=1.6, zorder=4)
        for j in range(0, 41, 10):
            square = transform.act_points(g[j], flag.unsqueeze(0))[0]
            axes.fill(*square.T.numpy(), facecolor=COLOURS[0] + "22", edgecolor=COLOURS[0], linewidth=1.3)
            axes.plot(*square[:2].T.numpy(), color=COLOURS[1], linewidth=2.6)
            axes.plot(*path[j].numpy(), "o", color=ACCENT, markersize=4, zorder=5)
        canvas.text(left + SIDE / 2, 34, title, 14, ha="center")
    canvas.text(
        canvas.width / 2, SIDE + 98, "s · (tx = 1, angle = π/2),  s = 0, 1/4, …, 1", 13, ha="center", color=MUTED
    )
    return canvas.png()


FIGURES: dict[str, Callable[[], bytes]] = {
    "frame": frame,
    "signs": signs,
    "action": action,
    "compose": compose,
    "crop": crop,
    "hue": hue,
    "cpab": cpab,
    "time": time,
    "forms": forms,
    "gallery": gallery_picture,
}
