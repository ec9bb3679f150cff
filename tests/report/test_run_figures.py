"""The figures of a run's report: what they call a class, and the shape of the pictures in them."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from erlangen.report import run_figures
from erlangen.report.run_figures import (
    Coordinate,
    Example,
    class_words,
    curves_figure,
    distribution_figure,
    ranges_figure,
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cat", "cat"),
        ("x" * 24, "x" * 24),
        ("a rather long name of class 17", "a rather lon…of class 17"),
        ("猫", "class 3"),
    ],
)
def test_names_of_classes(name, words):
    assert class_words(2, name) == words
    assert len(words) <= 24


@pytest.mark.parametrize("shape", [(30, 60), (60, 30), (30, 30)])
def test_a_picture_in_a_ring_keeps_its_shape(shape, monkeypatch):
    drawn: list[Figure] = []
    monkeypatch.setattr(run_figures, "png", lambda figure: drawn.append(figure))
    example = Example(np.zeros((*shape, 3), np.uint8), "a", "a", 1.0, np.zeros((10, 1)))
    distribution_figure(example, [Coordinate("angle", -np.pi, np.pi, periodic=True)])
    left, right, bottom, top = drawn[0].axes[0].images[0].get_extent()
    assert (top - bottom) / (right - left) == pytest.approx(shape[0] / shape[1], rel=1e-12)


@pytest.mark.parametrize(
    ("coordinate", "line", "ticks"),
    [
        (Coordinate("tx", -0.5, 1.0), 0.0, [-0.5, 0.0, 1.0]),
        (Coordinate("tx", 0.0, 1.0), 0.0, [0.0, 1.0]),
        (Coordinate("tx", -0.1, 1.0), 0.0, [-0.1, 1.0]),
        (Coordinate("width", 0.25, 1.0, origin=1.0), 1.0, [0.25, 1.0]),
    ],
)
def test_the_input_as_it_is_has_its_line_in_every_histogram(coordinate, line, ticks, monkeypatch):
    drawn: list[Figure] = []
    monkeypatch.setattr(run_figures, "png", lambda figure: drawn.append(figure))
    example = Example(np.zeros((8, 8, 3), np.uint8), "a", "a", 1.0, np.full((10, 1), 0.5))
    distribution_figure(example, [coordinate])
    axes = drawn[0].axes[1]
    assert [list(found.get_xdata()) for found in axes.lines] == [[line, line]]
    assert axes.get_xticks().tolist() == ticks


@pytest.mark.filterwarnings("error")
def test_curves_of_a_weight_that_is_zero():
    rows = [{"kind": "train", "step": 5, "loss": 1.0, "alpha": 0.0}]
    with matplotlib.rc_context():
        figure = Image.open(io.BytesIO(curves_figure(rows)))
    assert figure.size == (2320, 500)


@pytest.mark.filterwarnings("error")
def test_curves_of_a_weight_that_training_never_had():
    """As of a run that ends with its burn-in: only a validation has one."""
    rows = [{"kind": "train", "step": 5, "loss": 1.0}, {"kind": "validation", "step": 5, "loss": 1.0, "alpha": 0.1}]
    with matplotlib.rc_context():
        assert Image.open(io.BytesIO(curves_figure(rows))).size == (2320, 500)


def test_a_length_is_not_said_to_lie_about_the_input(monkeypatch):
    drawn: list[Figure] = []
    monkeypatch.setattr(run_figures, "png", lambda figure: drawn.append(figure))
    coordinates = [Coordinate("angle", -np.pi / 18, np.pi / 4), Coordinate("tx", 0.0, 0.3)]
    ranges_figure(np.array([[np.pi / 18, 0.1], [np.pi / 18, 0.1]]), np.zeros(2, int), ["a"], coordinates)
    angle, tx = drawn[0].axes
    assert [axes.texts[0].get_text() for axes in (angle, tx)] == ["10°", "0.1"]
    assert angle.get_title(loc="left") == "angle, half the length"
