"""What `SymmetryFinder.report` says of coordinates, in words."""

import ast
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from erlangen.data import glyphs
from erlangen.estimators import SymmetryFinder
from erlangen.estimators.symmetry_images import ground_of, specks
from erlangen.estimators.symmetry_report import Scales
from erlangen.estimators.symmetry_words import arcs, caution, further, usage, words

TINY = {"batch_size": 32, "samples": 1, "inference": (32,), "generative": (8,), "progress": False, "device": "cpu"}


@pytest.fixture(autouse=True)
def _single():
    torch.set_default_dtype(torch.float32)


def test_the_code_of_a_report_loads_a_finder_whatever_its_folder_is_called():
    folder = Path("a \"b\" 'c' \\ d")
    call = ast.parse(usage(folder)).body[1].value
    assert ast.literal_eval(call.args[0]) == str(folder)


def test_few_that_are_upside_down_do_not_hide_what_is_usual():
    """Of an image that is upright within ±18° but for a tenth, the range of nearly all says little."""
    upright = torch.linspace(-0.314, 0.314, 900)
    angle = torch.cat((upright, torch.linspace(-2, 2, 100) + math.pi))
    said = arcs(angle[:, None, None].repeat(1, 3, 1), ["angle"], [2 * math.pi], [True], np.ones((3, 1), bool))
    assert said == {"angle": "one arc, 11 % of the circle, holds 90 %; 98 % lie within "}
    both = torch.cat((upright, upright + math.pi))
    said = arcs(both[:, None, None], ["angle"], [2 * math.pi], [True], np.ones((1, 1), bool))
    assert said == {"angle": "2 arcs, 22 % of the circle, hold 100 %; 98 % lie within "}


@pytest.mark.parametrize("turning", [3, 7])
def test_what_some_images_do_is_said_however_few_they_are(turning, monkeypatch):
    """Of ten images some turn within ±60°, others not at all: a median would speak of one kind alone."""

    def known(x, n, seed):
        v = torch.zeros(n, len(x), 1)
        v[:, :turning, 0] = torch.linspace(-1, 1, n)[:, None] * math.pi / 3
        return v

    finder = SymmetryFinder(("angle",), steps=(1, 1), **TINY).fit(glyphs(10))
    monkeypatch.setattr(finder, "_drawn", known)
    monkeypatch.setattr(finder, "_errors", lambda x: np.zeros(1))
    evenly = torch.linspace(1 / turning - 1, 1 - 1 / turning, turning)
    poses = torch.cat((evenly * math.pi / 3, torch.zeros(10 - turning)))
    monkeypatch.setattr(finder, "poses", lambda x: poses[:, None])
    found = finder.report(glyphs(10), samples=100, shown=1)
    (row,) = found.rows()
    assert row["occurs"] is True
    assert row["share"] == turning / 10
    circle = "one arc, 33 % of the circle, holds 99 %; 98 % lie within ±58.8° (±58.8° to ±58.8° from image to image)"
    said = f"angle: in {10 * turning} % of the images, {circle}; in the others it hardly occurs (±0°)."
    assert str(found).splitlines()[0] == said


def test_ranges_are_said_in_units_that_need_no_convention():
    """Translations are in halves of the longer side, sizes and colours are logarithms."""
    names, one = ("tx", "ty", "angle", "scale", "stretch", "value"), np.ones(6)
    found = np.array([[0.3, 0.05, math.pi / 6, math.log(2), 0.2, 0.1]] * 2)
    said = words(names, found, Scales(one, 0.01 * one, 0 * one, 0 * one, 0 * one), {}, {})
    assert [line.partition(" (")[0] for line in said] == [
        "tx: ±0.3, 15 % of the longer side",
        "ty: ±0.05, 2.5 % of the longer side",
        "angle: ±30°",
        "scale: ±0.693, ×0.50 to ×2.00",
        "stretch: ±0.2",
        "value: ±0.1, ×0.90 to ×1.11",
    ]


def test_where_to_look_is_said_as_it_is_typed():
    ranges = {"tx": (-0.25, 0.25), "scale": (-0.5, 0.2), "value": (-1.0, 0.1), "ty": (-0.25, 0.25)}
    said = further(ranges, {"tx": 0.02, "scale": 0.5, "value": 0.3, "ty": 0.005})
    assert list(said) == ["tx", "scale", "value"]
    assert [words.rpartition(" ")[2] for words in said.values()] == ["tx:0.5", "scale:-1:0.4", "range"]


def test_ranges_of_photographs_come_with_a_caution(tmp_path):
    """Of CIFAR-10, where all stand upright, ±166° are found: poses move with their images, but no two are alike."""
    filled, even = torch.rand(8, 1, 16, 16), glyphs(8).x
    said = []
    for x, names in ((filled, ("tx",)), (even, ("tx",)), (filled.repeat(1, 3, 1, 1), ("hue",))):
        found = SymmetryFinder(names, steps=(1, 1), **TINY).fit(x).report(x, samples=50, shown=1)
        page, numbers = (path.read_text() for path in found.save(tmp_path))
        said.append(["fill their frames" in text for text in (str(found), page, json.loads(numbers)["caution"])])
    assert said == [[True] * 3, [False] * 3, [False] * 3]


@pytest.mark.parametrize(("images", "few"), [(1, True), (39, True), (40, False)])
def test_few_images_come_with_a_caution(images, few):
    x = glyphs(images).x
    assert ("Fewer than 40 images say little" in caution(x, ("tx",))) == few


def test_densities_that_follow_their_images_come_with_a_caution():
    x = glyphs(40).x
    said = caution(x, ("tx", "ty", "scale"), ["tx", "scale"])
    assert said.startswith("In tx and scale the density of an image follows the image: ")
    assert caution(x, ("tx", "ty", "scale")) == ""


@pytest.mark.parametrize(("contrast", "faint"), [(0.3, False), (0.05, True), (0.0, True)])
@pytest.mark.parametrize("width", [1, 6])
def test_subjects_as_faint_as_the_noise_of_their_ground_come_with_a_caution(contrast, faint, width):
    """They are mistaken for it, and taken away; a line of one pixel that stands out is not."""
    torch.manual_seed(0)
    x = torch.full((50, 1, 24, 24), 0.5)
    x[..., 9 : 9 + width, 6:18] += contrast
    assert not specks(x, ground_of(x))
    x = (x + 0.02 * torch.randn_like(x)).clamp(0, 1)
    assert specks(x, ground_of(x)) == faint
    said = caution(x, ("tx", "ty"), ground=ground_of(x))
    assert said.startswith("Subjects hardly stand out from the noise of their ground") == faint


def test_a_report_says_that_subjects_are_faint():
    torch.manual_seed(0)
    x = (0.5 + 0.02 * torch.randn(50, 1, 16, 16)).clamp(0, 1)
    finder = SymmetryFinder(("tx", "ty"), steps=(1, 1), **TINY).fit(x)
    assert "Subjects hardly stand out" in str(finder.report(samples=50, images=50, shown=1))
