"""The page of SymmetryFinder says what was found, also where that lies beyond what was looked for."""

import numpy as np

from erlangen.report import symmetries
from erlangen.report.run_figures import Coordinate
from erlangen.report.symmetries import SymmetryFindings, spans_figure, symmetries_page

COORDINATES = [Coordinate("tx", -0.25, 0.25), Coordinate("scale", -0.5, 0.5), Coordinate("angle", -np.pi, np.pi, True)]


def test_a_range_beyond_what_was_looked_for_is_said_in_full(monkeypatch):
    said = []
    monkeypatch.setattr(symmetries, "png", lambda figure: said.extend(t.get_text() for t in figure.axes[0].texts))
    spans_figure(np.array([[0.3, 0.1, 1.0]] * 3), COORDINATES)
    assert said == ["±0.3", "±0.1", "±57.3°"]


def test_what_cannot_be_told_has_no_number(monkeypatch):
    said, inside = [], []

    def look(figure):
        said.extend(t.get_text() for t in figure.axes[0].texts)
        inside.extend(t.get_window_extent().x1 <= figure.bbox.x1 for t in figure.axes[0].texts)

    monkeypatch.setattr(symmetries, "png", look)
    spans_figure(np.array([[0.3, 0.1, 1.0]] * 3), COORDINATES, ["scale"])
    assert said == ["±0.3", "cannot be determined", "±57.3°"]
    assert all(inside)


def test_distributions_are_shown_wherever_they_lie(monkeypatch):
    """Prototypes are arbitrary: a small subject has a pose far from the middle of what was looked for."""
    shown = []
    monkeypatch.setattr(
        symmetries, "distribution_figure", lambda example, coordinates: shown.append(coordinates) or b""
    )
    v = np.random.default_rng(0).normal([0.0, -1.4, 0.0], 0.05, (200, 3))
    pixel = np.zeros((2, 2, 3), np.uint8)
    words = ["tx: hardly occurs.", "scale: ±0.1.", "angle: one arc."]
    found = SymmetryFindings(
        "", "", words, COORDINATES, np.ones((1, 3)), [pixel], [pixel], [[pixel]], [v], {"seed": "0"}
    )
    text = symmetries_page(found)
    tx, scale, angle = shown[0]
    assert (tx, angle) == (COORDINATES[0], COORDINATES[2])
    assert scale.low < -1.45
    assert scale.high == 0.5
    assert "<dt>scale</dt><dd>±0.1.</dd>" in text
    assert "<dt>seed</dt><dd>0</dd>" in text


def test_prototypes_of_copies_differ_where_poses_err():
    pixel = np.zeros((2, 2, 3), np.uint8)
    rest = [np.ones((1, 3)), [pixel], [pixel], [[pixel]], [np.zeros((50, 3))], {}]
    words = ["tx: hardly occurs.", "scale: ±0.1.", "angle: cannot be determined."]
    same, other = (SymmetryFindings("", "", words, COORDINATES, *rest, rough=rough) for rough in ([], ["tx", "angle"]))
    assert "prototypes (the same for all transformed copies of an image)," in symmetries_page(same)
    assert "copies of an image, except in tx, angle, where poses are wrong)," in symmetries_page(other)


def test_where_translations_begin_is_said_where_something_turns_or_scales():
    pixel = np.zeros((2, 2, 3), np.uint8)
    for names, said in ((("tx", "ty", "scale"), True), (("tx", "ty"), False), (("hue", "angle"), False)):
        coordinates = [Coordinate(name, -0.5, 0.5) for name in names]
        rest = [np.ones((1, len(names))), [pixel], [pixel], [[pixel]], [np.zeros((50, len(names)))], {}]
        page = symmetries_page(SymmetryFindings("", "", [f"{name}: ±0.1." for name in names], coordinates, *rest))
        assert "only widths and shapes say something, not where they lie." in page
        assert ("Translations are relative to the point about which rotations and scalings" in page) == said
