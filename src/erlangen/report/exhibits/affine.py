"""Affine maps: their coordinates, and what they carry along."""

from __future__ import annotations

import torch

from ...data import landmarks, picture_mask
from ...transforms import Affine, AffineMatrix, Similarity
from ..panels import Line, Panel, Row, act_row, multiple, number
from ..style import ACCENT, LABEL_COLOURS
from .base import STEPS, Exhibit, along, batch, one_by_one

__all__ = ["affine", "affine_matrix", "factored", "labels", "log_scales", "padding", "similarity"]


def affine(size: int) -> Exhibit:
    """The six coordinates of the exponential form."""
    x, transform = batch(size), Affine()
    reach = {"tx": 0.4, "ty": 0.4, "angle": 1.2, "scale": 0.6, "stretch": 0.5, "shear": 0.5}
    text = "Affine maps of the plane that keep the orientation, A = exp(Σ vᵢ Gᵢ): any of six generators, in any order."
    code = """\
from erlangen.transforms import Affine

rotate = Affine("angle")
v = torch.linspace(-1.2, 1.2, 5).reshape(5, 1, 1)
y = rotate(x, v)"""
    return Exhibit("Affine", text, transform, code, one_by_one(transform, x, reach), x)


def log_scales(size: int) -> Exhibit:
    """Separate log-scales."""
    x, transform = batch(size), Affine("sx", "sy")
    text = "Log-scales along each axis, in place of scale and stretch: +0.69 doubles, −0.69 halves."
    code = """\
from erlangen.transforms import Affine

scales = Affine("sx", "sy")
v = torch.tensor([[0.7, 0.0]])
y = scales(x, torch.linspace(-1, 1, 5).reshape(5, 1, 1) * v)"""
    return Exhibit('Affine("sx", "sy")', text, transform, code, one_by_one(transform, x, {"sx": 0.7, "sy": 0.7}), x)


def factored(size: int) -> Exhibit:
    """The factored form."""
    x, transform = batch(size), Affine("tx", "angle", "stretch", factored=True)
    row = act_row("tx, angle, stretch", transform, x, along((0.3, 1.0, 0.4)), [multiple(s, "v") for s in STEPS])
    text = "First exp(scale, stretch, shear), then rotation, then translation: a global chart with a periodic angle."
    code = """\
from erlangen.transforms import Affine

affine = Affine("tx", "angle", "stretch", factored=True)
v = torch.tensor([[0.3, 1.0, 0.4]])
y = affine(x, torch.linspace(-1, 1, 5).reshape(5, 1, 1) * v)"""
    return Exhibit("Affine(factored=True)", text, transform, code, (row,), x)


def similarity(size: int) -> Exhibit:
    """Similarities."""
    x, transform = batch(size), Similarity()
    row = act_row("all four", transform, x, along((0.7, -0.4, 0.25, -0.1)), [multiple(s, "v") for s in STEPS])
    text = "Rotation, one log-scale and a translation: angles and proportions stay."
    code = """\
from erlangen.transforms import Similarity

similarity = Similarity()
v = torch.tensor([[0.7, -0.4, 0.25, -0.1]])  # angle, scale, tx, ty
y = similarity(x, torch.linspace(-1, 1, 5).reshape(5, 1, 1) * v)"""
    return Exhibit("Similarity", text, transform, code, (row,), x)


def affine_matrix(size: int) -> Exhibit:
    """The six free entries of a matrix."""
    x, transform = batch(size), AffineMatrix()
    row = act_row("b", transform, x, along((0, 0.7, 0, 0, 0, 0)), [number(0.7 * s) for s in STEPS])
    text = "The same group by the six free entries of the matrix that is exponentiated, [a b c; d e f; 0 0 0]."
    code = """\
from erlangen.transforms import AffineMatrix

matrix = AffineMatrix()
v = torch.tensor([[0.0, 0.7, 0.0, 0.0, 0.0, 0.0]])  # a, b, c, d, e, f
y = matrix(x, torch.linspace(-1, 1, 5).reshape(5, 1, 1) * v)"""
    return Exhibit("AffineMatrix", text, transform, code, (row,), x)


def padding(size: int) -> Exhibit:
    """What lies outside the frame."""
    x, v = batch(size), torch.tensor([[[0.35, -0.6]]])
    options = {
        "zeros": Affine("angle", "scale"),
        "fill=0.9": Affine("angle", "scale", fill=0.9),
        "border": Affine("angle", "scale", padding="border"),
        "reflection": Affine("angle", "scale", padding="reflection"),
    }
    panels = [Panel(transform(x, v)[0, 0], name) for name, transform in options.items()]
    row = Row("outside", (Panel(x[0], "whole", identity=True), *panels))
    text = "Outside the frame: zeros (black, the default), a constant fill, the border continued, or a reflection."
    code = """\
from erlangen.transforms import Affine

smaller = Affine("angle", "scale", padding="reflection")
v = torch.tensor([[[0.35, -0.6]]])
y = smaller(x, v)"""
    return Exhibit("Padding", text, options["reflection"], code, (row,), x)


def labels(size: int) -> Exhibit:
    """Points and masks that move along."""
    x, transform = batch(size), Affine("angle", "scale", "shear")
    v = along((0.6, -0.25, 0.3))
    captions = [multiple(s, "v") for s in STEPS]
    g, marks = transform.element(v), landmarks((size, size))
    box, corners = marks["boat"], torch.cat((marks["sail"], marks["jib"], marks["sun"]))
    boxes = transform.act_points(g, torch.cat((box, box[:1])).unsqueeze(0))[:, 0]
    points = transform.act_points(g, corners.unsqueeze(0))[:, 0]
    lines = [(Line(b, "#ffffff", 1.6), Line(p, ACCENT, 1.7, dots=True)) for b, p in zip(boxes, points, strict=True)]
    moved = act_row("points", transform, x, v, captions).with_lines(lines)
    masks = transform.act_mask(g, picture_mask((size, size)).unsqueeze(0))[:, 0]
    palette = torch.tensor([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in LABEL_COLOURS])
    inside = transform.act_mask(g, torch.ones(1, 1, size, size, dtype=torch.long))[:, 0].to(palette.dtype)
    painted = palette[masks[:, 0]].movedim(-1, 1) * inside
    regions = [Panel(painted[k], captions[k], alpha=inside[k], identity=k == 2) for k in range(5)]
    text = "Key points and box corners move by act_points, label masks by act_mask; inverse carries predictions back."
    code = """\
from erlangen.data import landmarks, picture_mask
from erlangen.transforms import Affine

affine = Affine("angle", "scale", "shear")
v = torch.linspace(-1, 1, 5).reshape(5, 1, 1) * torch.tensor([[0.6, -0.25, 0.3]])
g = affine.element(v)
y = affine.act(g, x)
m = affine.act_mask(g, picture_mask().unsqueeze(0))
p = affine.act_points(g, landmarks()["boat"].unsqueeze(0))"""
    return Exhibit("Points and masks", text, transform, code, (moved, Row("masks", tuple(regions))), x)
