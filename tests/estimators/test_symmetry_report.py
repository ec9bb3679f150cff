"""What `SymmetryFinder.report` says of coordinates, in numbers."""

import json
import math

import numpy as np
import pytest
import torch

from erlangen.estimators import SymmetryFinder
from erlangen.estimators.symmetry_report import Scales, at_the_end, least_of, recentred, spoken_of
from erlangen.estimators.symmetry_words import words
from erlangen.transforms import Affine

TINY = {"batch_size": 32, "samples": 1, "inference": (32,), "generative": (8,), "progress": False, "device": "cpu"}


@pytest.fixture(autouse=True)
def _single():
    torch.set_default_dtype(torch.float32)


def shifted(n, reach):
    """A square that is shifted along x, uniformly, `(n, 1, 16, 16)`."""
    torch.manual_seed(0)
    x = torch.zeros(n, 1, 16, 16)
    x[..., 6:10, 6:10] = 1.0
    return Affine("tx")(x, reach * (2 * torch.rand(n, 1) - 1)).clamp(0, 1)


def test_small_turns_count_where_poses_are_exact():
    """A twentieth of the circle is more than four pixels at the edge of 64; of colours it stays what counts."""
    names, looked = ("tx", "angle", "hue"), np.array([0.25, math.pi, 0.5])
    small = {error: least_of(names, looked, 64, np.full(3, error)) for error in (0.0, 0.01, 1.0)}
    np.testing.assert_allclose(small[0.0], [1 / 64, 1 / 64, 0.025])  # half a pixel
    np.testing.assert_allclose(small[0.01], [1 / 64, 0.05, 0.025])  # where poses err by a fifth of it
    np.testing.assert_allclose(small[1.0], [1 / 64, math.pi / 20, 0.025])


def test_ranges_about_what_counts_are_of_one_kind():
    """Twin: those that go four times as far as the others are of another kind."""
    least, near = np.array([1.0]), np.linspace(0.7, 0.9, 6)
    assert spoken_of(np.concatenate((near, 3.9 * near))[:, None], least).all()
    far = np.concatenate((near, 4.1 * near))[:, None]
    assert np.array_equal(spoken_of(far, least), far > 1)
    assert spoken_of(far, 5 * least).all()  # nothing counts


def test_images_that_hardly_move_are_told_from_those_that_go_far():
    """Keys turn and houses do not, but for a few of these the density is a little wider than what counts."""
    least, still = np.ones(1), np.linspace(0.5, 1.4, 50)
    kinds = np.concatenate((still, np.linspace(4, 13, 50)))[:, None]
    assert np.array_equal(spoken_of(kinds, least)[:, 0], np.arange(100) >= 50)
    above = np.concatenate((0.9 * np.ones(10), 2 * np.ones(50), 13 * np.ones(40)))[:, None]
    assert np.array_equal(spoken_of(above, least), above > 2)
    (said,) = words(["shear"], above, Scales(20 * least, least, *np.zeros((3, 1))), {}, {})
    assert said == "shear: in 40 % of the images, ±13 (±13 to ±13 from image to image); in the others ±2."


@pytest.mark.parametrize(("reach", "far"), [(0.15, False), (0.7, True)])
def test_images_that_move_further_than_was_looked_for(reach, far, tmp_path):
    x = shifted(200, reach)
    found = SymmetryFinder(("tx",), steps=(150, 2), lr=(1e-2, 1e-3), **TINY).fit(x).report(x, samples=50, shown=1)
    (row,) = found.rows()
    assert (row["at_the_end"] > 0.1) == far
    assert str(found).endswith("; poses reach the end of the searched range: search further, tx:0.5.") == far
    stored = json.loads(found.save(tmp_path)[1].read_text())
    assert stored["coordinates"][0]["at_the_end"] == row["at_the_end"]


def test_ends_are_those_of_lines_with_bounds():
    poses = torch.tensor([[-0.99, 3.14], [0.97, 0.0], [2.97, -3.14], [1.0, 0.0]])
    bounds = torch.tensor([[-1.0, -math.pi], [3.0, math.pi]])
    assert np.array_equal(at_the_end(poses, bounds, (False, True)), [0.5, 0.0])
    assert np.array_equal(at_the_end(poses, None, (False, True)), [0.0, 0.0])


@pytest.mark.parametrize("names", [("scale",), ("sx",), ("sx", "sy"), ("scale", "stretch")])
@pytest.mark.parametrize("reach", [0.1, 0.3])
def test_sizes_explain_the_translations_of_what_was_scaled_about_a_point_aside(names, reach):
    """Scaled about the centre of the frame, with prototypes that are centred on their mass, beside it."""
    group = Affine("tx", "ty", *names, factored=True)
    torch.manual_seed(0)
    v, shift = torch.zeros(500, 3, len(group.names)), torch.zeros(1, 1, len(group.names))
    v[..., 2:] = reach * (2 * torch.rand(500, 3, len(names)) - 1)
    shift[..., :2] = torch.tensor([0.2, -0.3])
    seen = group.element_log(group.compose(group.element(v), group.element(shift)))
    assert seen[..., 0].std() > 0.1 * reach
    left = recentred(seen, group.names)
    assert (left - left.mean(0))[..., :2].abs().max() < 0.01  # the ridge leaves a few per cent
    torch.testing.assert_close(left[..., 2:], seen[..., 2:])
    moved = seen.clone()
    moved[..., 0] += torch.rand(500, 3)  # what is translated for its own sake stays
    stays = recentred(moved, group.names)[..., 0].std(0)  # of each image: where its prototype lies is arbitrary
    assert stays.tolist() == pytest.approx([0.29] * 3, abs=0.03)


def test_translations_that_are_looked_for_alone_stay_as_they_are():
    v = torch.rand(50, 2, 3)
    for names in (("tx", "ty", "shear"), ("tx", "scale", "angle"), ("tx", "ty", "hue")):
        assert recentred(v, names) is v
