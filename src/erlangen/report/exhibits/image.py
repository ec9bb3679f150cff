"""Crops, colours, smooth deformations and products."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...transforms import CPAB, HSV, Affine, Crop, Product
from ..panels import Line, Panel, Row, act_row, multiple
from ..style import ACCENT, WINDOWS
from .base import STEPS, Exhibit, along, batch, one_by_one

__all__ = ["cpab", "cpab_volume", "crop", "hsv", "interpolation", "product", "square_crop"]


def _windows(label: str, transform: Crop, x: Tensor, v: Tensor, captions: Sequence[str]) -> Row:
    """The whole picture with its windows, then each window enlarged, framed in its colour."""
    crops = act_row(label, transform, x, v, captions)
    corners = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]])
    windows = transform.source(transform.element(v[:, 0]), corners, x.shape[2:])
    lines = tuple(Line(w, colour, 2.0) for w, colour in zip(windows, WINDOWS, strict=True))
    whole = Panel(x[0], "whole", identity=True, lines=lines)
    framed = [Panel(p.signal, p.caption, frame=c) for p, c in zip(crops.panels, WINDOWS, strict=True)]
    return Row(label, (whole, *framed))


def crop(size: int) -> Exhibit:
    """Crops of any shape."""
    x, transform = batch(size), Crop()
    v = torch.tensor(
        [[[-1.0, -0.5, 0.4, 0.7]], [[0.9, -0.2, 0.6, 0.75]], [[0.0, 1.0, 1.0, 0.6]], [[-0.2, -0.1, 0.3, 0.3]]]
    )
    captions = ["0.4 × 0.7", "0.6 × 0.75", "1 × 0.6", "0.3 × 0.3"]
    text = "A window inside the frame, enlarged to all of it. cx, cy = ±1 touch the edge, at any size. Not invertible."
    code = """\
from erlangen.transforms import Crop

crop = Crop()
v = torch.tensor([[-1.0, -0.5, 0.4, 0.7], [0.9, -0.2, 0.6, 0.75]])
y = crop(x, v.unsqueeze(1))  # cx, cy, width, height"""
    return Exhibit("Crop", text, transform, code, (_windows("window", transform, x, v, captions),), x)


def square_crop(size: int) -> Exhibit:
    """Crops that keep the aspect."""
    x, transform = batch(size), Crop(square=True)
    v = torch.tensor([[[-0.9, -0.4, 0.55]], [[1.0, 0.0, 0.65]], [[0.4, 0.8, 0.45]], [[-0.2, -0.1, 0.3]]])
    row = _windows("window", transform, x, v, ["0.55", "0.65", "0.45", "0.3"])
    text = "One size for both sides: the aspect is kept."
    code = """\
from erlangen.transforms import Crop

crop = Crop(square=True)
v = torch.tensor([[-0.9, -0.4, 0.55], [1.0, 0.0, 0.65]])
y = crop(x, v.unsqueeze(1))  # cx, cy, size"""
    return Exhibit("Crop(square=True)", text, transform, code, (row,), x)


def hsv(size: int) -> Exhibit:
    """Colours."""
    x, transform = batch(size), HSV()
    rows = one_by_one(transform, x, {"hue": 0.4, "saturation": 1.0, "value": 0.5})
    text = "Hue in turns; saturation and value are log-factors. Colours change, positions stay."
    code = """\
from erlangen.transforms import HSV

colour = HSV("hue")
v = torch.linspace(-0.4, 0.4, 5).reshape(5, 1, 1)
y = colour(x, v)"""
    return Exhibit("HSV", text, transform, code, rows, x)


def _grid_lines(transform: CPAB, v: Tensor) -> list[tuple[Line, ...]]:
    """Straight lines, carried along by each element."""
    fine, coarse = torch.linspace(-1, 1, 49), torch.linspace(-1, 1, 10)[1:-1]
    across = torch.stack(torch.meshgrid(coarse, fine, indexing="ij"), -1)
    straight = torch.cat((across, across.flip(-1)))
    moved = transform.act_points(transform.element(v), straight.reshape(1, -1, 2)).reshape(len(v), -1, 49, 2)
    return [tuple(Line(points, "#ffffffb0", 0.7) for points in lines) for lines in moved]


def _flow(title: str, text: str, code: str, transform: CPAB, strength: float, size: int) -> Exhibit:
    x = batch(size)
    theta = strength * torch.randn(transform.features, generator=torch.Generator().manual_seed(21))
    v = along(theta.tolist())
    row = act_row("θ", transform, x, v, [multiple(s, "θ") for s in STEPS]).with_lines(_grid_lines(transform, v))
    return Exhibit(title, text, transform, code, (row,), x)


def cpab(size: int) -> Exhibit:
    """Smooth deformations."""
    text = (
        "The flow of a continuous, piecewise-affine velocity field: a diffeomorphism of the frame. Its inverse is −θ."
    )
    code = """\
from erlangen.transforms import CPAB

warp = CPAB((3, 3))
theta = 0.2 * torch.randn(34, generator=torch.Generator().manual_seed(21))
y = warp(x, torch.linspace(-1, 1, 5).reshape(5, 1, 1) * theta)"""
    return _flow("CPAB", text, code, CPAB((3, 3)), 0.2, size)


def cpab_volume(size: int) -> Exhibit:
    """Deformations that keep areas."""
    transform = CPAB((3, 3), volume_preserving=True)
    text = "The same with a velocity field of divergence zero: all areas stay the same."
    code = f"""\
from erlangen.transforms import CPAB

warp = CPAB((3, 3), volume_preserving=True)
theta = 0.8 * torch.randn({transform.features}, generator=torch.Generator().manual_seed(21))
y = warp(x, torch.linspace(-1, 1, 5).reshape(5, 1, 1) * theta)"""
    return _flow("CPAB(volume_preserving=True)", text, code, transform, 0.8, size)


def product(size: int) -> Exhibit:
    """Two transforms together."""
    x = batch(size)
    transform = Product(Affine(bounds={"angle": 0.8}), HSV("hue"))
    low, high = transform.bounds
    v = torch.lerp(low, high, torch.rand(5, 1, 7, generator=torch.Generator().manual_seed(3)))
    text = "Several transforms in turn, the first factor first; here drawn uniformly from its bounds."
    code = """\
from erlangen.transforms import HSV, Affine, Product

both = Product(Affine(bounds={"angle": 0.8}), HSV("hue"))
u = torch.rand(5, 1, 7, generator=torch.Generator().manual_seed(3))
y = both(x, torch.lerp(*both.bounds, u))"""
    y, shares = transform(x, v), transform.factors[0](torch.ones_like(x[:, :1]), v[..., :6])
    panels = tuple(Panel(y[k, 0], f"draw {k + 1}", alpha=shares[k, 0]) for k in range(5))
    return Exhibit("Product", text, transform, code, (Row("draws", panels),), x)


def interpolation(size: int) -> Exhibit:
    """How values between pixels are found."""
    x, v = batch(size), torch.tensor([[[0.64, 0.06, 0.16]]])
    names = ("nearest", "bilinear", "bicubic", "spline")
    crops = [Crop(square=True, smallest=0.1, interpolation=name) for name in names]
    parts = [
        _windows(name, crop, x, v.expand(4, 1, 3), [name] * 4).panels for crop, name in zip(crops, names, strict=True)
    ]
    whole = Panel(x[0], "whole", identity=True, lines=(Line(parts[0][0].lines[0].points, ACCENT, 2.0),))
    panels = (whole, *[Panel(part[1].signal, name) for part, name in zip(parts, names, strict=True)])
    text = "Between pixels: nearest (masks), bilinear (the default), bicubic, and cubic B-splines with prefilter."
    code = """\
from erlangen.transforms import Crop

crop = Crop(square=True, smallest=0.1, interpolation="spline")
v = torch.tensor([[[0.64, 0.06, 0.16]]])
y = crop(x, v)"""
    return Exhibit("Interpolation", text, crops[-1], code, (Row("enlarged", panels),), x)
