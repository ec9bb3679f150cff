"""Poses that do not move with their images are found out, and nothing is said from them."""

import json

import numpy as np
import pytest
import torch

from erlangen.data import glyphs
from erlangen.estimators import SymmetryFinder
from erlangen.estimators.symmetry_errors import pose_errors, untold
from erlangen.models import SymmetryModel
from erlangen.objectives.prototypes import Chance
from erlangen.transforms import HSV, Affine, Product
from erlangen.utils.seeds import seeded

SMALL = {"inference": (4,), "generative": (4,)}
REACH = {"tx": (-0.25, 0.25), "ty": (-0.25, 0.25)}


def squares(n):
    x = torch.zeros(n, 1, 16, 16)
    x[..., 6:10, 7:9] = 1.0
    return x


def test_centres_of_mass_move_with_their_images():
    """A shift by bilinear interpolation moves the centre of mass by just as much, while nothing leaves the frame."""
    group = Affine("tx", "ty", factored=True)
    model = SymmetryModel.over(group, (1, 16, 16), anchored=True, **SMALL).eval()
    error = pose_errors(model, REACH, squares(20))
    assert error.shape == (20, 2)
    torch.testing.assert_close(error, torch.zeros(20, 2), atol=1e-12, rtol=0)


@pytest.mark.parametrize("group", [Affine("tx", "ty", factored=True), Product(Affine("tx", "ty"), HSV("value"))])
def test_a_pose_that_stays_errs_by_all_of_the_transformation(group):
    """A network starts with the same pose for all inputs, the identity."""
    model = SymmetryModel.over(group.double(), (3, 16, 16), **SMALL).eval()
    ranges = {**REACH, "value": (-0.1, 0.1)}
    ranges = {name: ranges[name] for name in group.names}
    x = squares(20).repeat(1, 3, 1, 1)
    with seeded(0):
        error = pose_errors(model, ranges, x)
    with seeded(0):
        moved = group.element_log(Chance(model.group, ranges)(1, x)[0])
    torch.testing.assert_close(error, moved)


def test_coordinates_that_are_not_closed_have_errors_too():
    group = Affine("tx", "ty", "angle", "sx", "sy", factored=True)
    model = SymmetryModel.over(group, (1, 16, 16), copies=4, **SMALL).eval()
    assert pose_errors(model, {}, squares(3)).isfinite().all()


def test_an_error_is_too_large_beside_what_counts_and_what_is_found():
    found, least = np.array([[1.0, 0.01, 1.0, 0.01]] * 3), np.full(4, 0.1)
    assert untold(found, least, np.array([0.19, 0.04, 0.21, 0.06])).tolist() == [False, False, True, True]


def test_what_a_network_without_training_finds_is_not_told(tmp_path):
    """Its poses are all the same: nothing seems to occur, whatever does."""
    torch.set_default_dtype(torch.float32)
    x = glyphs(40).x
    settings = {"steps": (1, 1), "lr": (1e-9, 1e-9), "batch_size": 8, "progress": False, "device": "cpu", **SMALL}
    found = SymmetryFinder(("tx", "ty"), anchored=False, **settings).fit(x).report(x, samples=50, shown=1)
    tx, _ = found.rows()
    assert tx["occurs"] is None
    assert tx["error"] == pytest.approx(0.125, rel=0.4)  # the median of what is uniform up to 0.25
    assert str(found).startswith("tx: cannot be told (±")
    assert f"err by {tx['error']:.2g} and more)." in str(found)
    page, content = found.save(tmp_path)
    assert "tx</dt><dd>cannot be told" in page.read_text()
    assert json.loads(content.read_text())["coordinates"][0]["occurs"] is None
