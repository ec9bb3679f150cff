"""A figure measured in pixels: text, pictures, curves and arrows at exact places, and its PNG."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.transforms import IdentityTransform
from PIL import Image as Pillow
from torch import Tensor

from ..utils.io import write_bytes
from .style import HAIRLINE, INK, PAPER, RC

__all__ = ["Canvas", "Progress", "drawn", "encode", "pixels", "write_figures"]

DPI = 100
Progress = Callable[[float, str], object]


def pixels(image: Tensor, alpha: Tensor | None = None, paper: str | None = PAPER) -> np.ndarray:
    """An image as bytes for display: over paper where `alpha` leaves it bare, or with transparency if paper is None.

    Outside the frame warps give zero, so colours come multiplied by their share of the frame, which is `alpha`.

    Shape:
        image: `(3, H, W)`, or of other channels, whose mean is shown in grey; alpha: `(1, H, W)`; result: `(H, W, 3)`
            or `(H, W, 4)`.
    """
    colour = image.detach().cpu().double().clamp(0, 1)
    colour = colour if len(colour) == 3 else colour.mean(0, keepdim=True).expand(3, -1, -1)
    share = colour.new_ones(1, *colour.shape[1:]) if alpha is None else alpha.detach().cpu().double().clamp(0, 1)
    if paper is None:
        colour = np.concatenate(((colour / share.clamp_min(1e-6)).clamp(0, 1).numpy(), share.numpy()))
    else:
        ground = np.array(to_rgb(paper)).reshape(3, 1, 1)
        colour = colour.numpy() + (1 - share.numpy()) * ground
    return (np.moveaxis(colour, 0, -1) * 255).round().clip(0, 255).astype(np.uint8)


def encode(array: np.ndarray, colours: int | None = None) -> bytes:
    """A PNG of bytes `(H, W, 3 or 4)`; with at most `colours` colours if given, which makes it a lot smaller."""
    image = Pillow.fromarray(np.ascontiguousarray(array))
    if colours:
        opaque = array.shape[-1] == 3 or bool((array[..., 3] == 255).all())
        if opaque:  # Pillow dithers towards a palette that is given, and only without transparency
            image = image.convert("RGB")
            image = image.quantize(palette=image.quantize(colours), dither=Pillow.Dither.FLOYDSTEINBERG)
        else:
            image = image.quantize(colours, method=Pillow.Quantize.FASTOCTREE)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()


def drawn(figure: Figure) -> np.ndarray:
    """The pixels of a figure, `(H, W, 4)` bytes."""
    with matplotlib.rc_context(RC):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba()).copy()


def write_figures(
    folder: str | os.PathLike[str], figures: Mapping[str, Callable[[], bytes]], progress: Progress | None = None
) -> list[Path]:
    """Draws figures one after another and writes each to a file of its name; returns the files.

    Args:
        folder: where to; made if it is missing.
        figures: what draws each, as a PNG.
        progress: called with the share done, from 0 to 1, and what is being drawn.
    """
    tell, folder, paths = progress or (lambda share, what: None), Path(os.path.expanduser(folder)), []
    for k, (name, draw) in enumerate(figures.items()):
        tell(k / len(figures), name)
        paths.append(folder / f"{name}.png")
        write_bytes(paths[-1], draw())
    tell(1.0, "done")
    return paths


class Canvas:
    """A figure of a given size in pixels; places are pixels from the upper left corner.

    Args:
        width: in pixels.
        height: in pixels.
        paper: the background; transparent if None.
    """

    def __init__(self, width: float, height: float, paper: str | None = PAPER) -> None:
        self.width, self.height = round(width), round(height)
        with matplotlib.rc_context(RC):
            self.figure = Figure(figsize=(self.width / DPI, self.height / DPI), dpi=DPI, facecolor=paper or "none")
        FigureCanvasAgg(self.figure)

    def text(self, x: float, y: float, words: str, size: float = 13, **kwargs: Any) -> float:
        """Writes words with their baseline at y, `size` pixels high, and returns where they end."""
        options: dict[str, Any] = {"color": INK, "va": "baseline", "ha": "left"} | kwargs
        with matplotlib.rc_context(RC):
            artist = self.figure.text(x / self.width, 1 - y / self.height, words, fontsize=size * 72 / DPI, **options)
        box = artist.get_window_extent(self.figure.canvas.get_renderer())  # pyright: ignore[reportAttributeAccessIssue]
        return box.x1

    def image(self, x: float, y: float, array: np.ndarray) -> None:
        """Puts an image there, pixel for pixel."""
        top = self.height - round(y) - array.shape[0]
        self.figure.figimage(array, xo=round(x), yo=top, origin="upper", zorder=1)

    def box(self, x: float, y: float, width: float, height: float, **kwargs: Any) -> None:
        """Draws a rectangle, by default a hairline."""
        options = {"facecolor": "none", "edgecolor": HAIRLINE, "linewidth": 0.72, "zorder": 2} | kwargs
        corner = (round(x), self.height - round(y) - height)
        self.figure.add_artist(Rectangle(corner, width, height, transform=IdentityTransform(), **options))

    def axes(self, x: float, y: float, width: float, height: float, limits: Sequence[float]) -> Axes:
        """Bare axes over a rectangle, with limits left, right, bottom, top."""
        place = (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        with matplotlib.rc_context(RC):
            axes = self.figure.add_axes(place, facecolor="none", zorder=3)
        axes.set_axis_off()
        axes.set_xlim(limits[0], limits[1])
        axes.set_ylim(limits[2], limits[3])
        return axes

    def png(self, colours: int | None = None) -> bytes:
        """The figure as a PNG; opaque where the paper is."""
        array = drawn(self.figure)
        return encode(array[..., :3] if (array[..., 3] == 255).all() else array, colours)
