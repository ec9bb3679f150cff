"""Poses that do not move with their images, and densities that know little of them, are found out."""

import json

import numpy as np
import pytest
import torch

from erlangen.data import glyphs
from erlangen.estimators import SymmetryFinder
from erlangen.estimators.symmetry_errors import by_chance, density_errors, density_moves, following, pose_errors, untold
from erlangen.models import SymmetryModel
from erlangen.objectives.moves import moves_within
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
        moved = group.element_log(moves_within(model.group, ranges)(len(x)))
    torch.testing.assert_close(error, moved)


def test_coordinates_that_are_not_closed_have_errors_too():
    group = Affine("tx", "ty", "angle", "sx", "sy", factored=True)
    model = SymmetryModel.over(group, (1, 16, 16), copies=4, **SMALL).eval()
    assert pose_errors(model, {}, squares(3)).isfinite().all()


def test_an_error_is_too_large_beside_what_counts_and_what_is_found():
    found, least, none = np.array([[1.0, 0.01, 1.0, 0.01]] * 25), np.full(4, 0.1), np.zeros(4)
    small, large = np.array([0.19, 0.04, 0.19, 0.04]), np.array([0.19, 0.04, 0.21, 0.06])
    late = [False, False, True, True]
    assert [which.tolist() for which in untold(found, least, large, small, none)] == [late, [False] * 4]
    assert [which.tolist() for which in untold(found, least, small, large, none)] == [[False] * 4, late]
    assert not untold(found, least, large, large, none)[1].any()  # one reason is enough
    assert not untold(found, least, small, large, large)[1].any()  # by chance


@pytest.mark.parametrize("wraps", [False, True])
def test_few_poses_lie_anywhere_by_chance_but_not_all_alike(wraps):
    """Five draws of a normal density, five that are nearly equal, and one alone; across the seam of a circle, too."""
    drawn = torch.randn(1000, 6, 1, generator=torch.Generator().manual_seed(0))
    v, poses = drawn[:, :1].expand(-1, 5, -1), drawn[:5, 1]  # of equal images: with equal samples

    def chance(v, poses):
        home = torch.remainder(v + 10, 20) - 10, torch.remainder(poses + 10, 20) - 10
        return by_chance(*(home if wraps else (v, poses)), [20.0], [wraps]).item()

    for away in (0.0, 9.9):
        # A mean of five deviates by 0.45, and the furthest of a hundred is about 2.6 times as far.
        assert 0.8 < chance(v + away, poses + away) < 2.0
        assert chance(v + away, 0.01 * poses + away) == 0
        assert chance(v[:, :1] + away, poses[:1] + away) > 2  # the furthest of a hundred draws


def test_the_error_of_densities_is_how_far_poses_lie_from_them():
    """Poses are a quarter of what their densities have, on a line and on a circle, and lie across its seam."""
    wide = torch.linspace(-1, 1, 1001)[:, None, None].repeat(1, 500, 2)
    poses = torch.linspace(-0.25, 0.25, 500)[:, None].repeat(1, 2)
    for each in (wide, poses):
        each[..., 1] = torch.remainder(each[..., 1] + 4, 4) - 2
    far = density_errors(wide, poses, [4.0, 4.0], [False, True])
    np.testing.assert_allclose(far, 0.375, atol=1e-3)  # the mean of |x - x / 4| for x up to 1
    away = 3 * torch.arange(500.0)[:, None]  # prototypes are arbitrary
    assert density_errors(wide + away, away.repeat(1, 2), [1.0, 1.0], [False, False])[0] == pytest.approx(0.5, abs=1e-3)


def test_what_a_network_without_training_finds_is_not_told(tmp_path):
    """Its poses are all the same: nothing seems to occur, whatever does."""
    torch.set_default_dtype(torch.float32)
    x = glyphs(40).x
    settings = {"steps": (1, 1), "lr": (1e-9, 1e-9), "batch_size": 8, "progress": False, "device": "cpu", **SMALL}
    found = SymmetryFinder(("tx", "ty"), anchored=False, **settings).fit(x).report(x, samples=50, shown=1)
    tx, _ = found.rows()
    assert tx["occurs"] is None
    assert tx["error"] == pytest.approx(0.125, rel=0.4)  # the median of what is uniform up to 0.25
    assert str(found).startswith("tx: cannot be determined (found: ±")
    assert f"are wrong by {tx['error']:.2g} or more)." in str(found)
    page, content = found.save(tmp_path)
    assert "tx</dt><dd>cannot be determined" in page.read_text()
    assert json.loads(content.read_text())["coordinates"][0]["occurs"] is None


@pytest.mark.parametrize("learned", [True, False])
def test_a_density_that_has_learned_little_is_found_out(learned, monkeypatch):
    """Centres of mass are right without training, and images lie within ±0.1; so does what is drawn, or anywhere."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    x = Affine("tx", "ty")(squares(60), 0.2 * torch.rand(60, 2) - 0.1)
    settings = {"steps": (1, 1), "batch_size": 8, "progress": False, "device": "cpu", **SMALL}
    finder = SymmetryFinder(("tx", "ty"), **settings).fit(x)
    if learned:
        monkeypatch.setattr(finder, "_drawn", lambda x, n, seed: finder.model_.pose(x).median.mean(0) + uniform(n, x))
    found = finder.report(x, samples=200, shown=1)
    tx, _ = found.rows()
    assert tx["error"] < 1e-3
    assert tx["occurs"] is (True if learned else None)
    assert (tx["gap"] < 0.02) == learned
    assert ("tx: cannot be determined (found: ±" in str(found)) != learned
    assert (f"on average {tx['gap']:.2g} from where their density puts them" in str(found)) != learned
    assert found.findings.untold == ([] if learned else ["tx", "ty"])
    assert found.findings.rough == []  # poses are right


def test_a_range_of_equal_images_is_not_told():
    """Their poses are right without training, and equal; those of a density that has learned little are anywhere."""
    torch.set_default_dtype(torch.float32)
    settings = {"steps": (3, 3), "batch_size": 8, "progress": False, "device": "cpu", **SMALL}
    x = glyphs(1).x.repeat(5, 1, 1, 1)
    found = SymmetryFinder(("tx", "ty"), **settings).fit(x).report(x, samples=200, shown=1)
    assert [row["occurs"] for row in found.rows()] == [None, None]
    assert [row["chance"] for row in found.rows()] == [0, 0]


def uniform(n, x):
    return 0.2 * torch.rand(n, len(x), 2) - 0.1


class Told:
    """A density at a place that is a share of the centre of mass of its image, as one that knows how it was moved."""

    def __init__(self, x, share):
        place = torch.linspace(-1, 1, x.shape[-1] + 1, dtype=x.dtype).unfold(0, 2, 1).mean(-1)
        self.centre = share * (x * place).sum((1, 2, 3)) / x.sum((1, 2, 3))

    def sample(self, shape):
        middle = torch.stack((self.centre, torch.zeros_like(self.centre)), -1)
        return middle + 0.05 * torch.randn(*shape, *middle.shape)


@pytest.mark.parametrize(("share", "known"), [(1.0, True), (0.3, True), (0.0, False), (0.05, False)])
def test_a_density_that_moves_with_its_image_is_found_out(share, known, monkeypatch):
    """Along x, as far as is said; along y, never."""
    model = SymmetryModel.over(Affine("tx", "ty", factored=True), (1, 16, 16), anchored=True, **SMALL).eval()
    monkeypatch.setattr(model, "density", lambda x: Told(x, share))
    with seeded(0):
        moves = density_moves(model, REACH, squares(200))
    assert moves.shape == (200, 2, 2)
    assert moves[:, 0].abs().max() <= 0.125  # copies stay near: further away nothing was learned
    assert following(moves, [False, False]).tolist() == [known, False]
    assert not following(moves, [True, True]).any()
    assert not following(moves[:2], [False, False]).any()


def test_noise_of_a_few_images_is_not_taken_for_a_density_that_follows():
    """A slope of 0.2 with a standard error of about 0.2."""
    given = torch.linspace(-1, 1, 6)
    noise = torch.tensor([0.5, -0.5, -0.5, 0.5, 0.5, -0.5])
    assert not following(torch.stack((given, 0.2 * given + noise), -1)[..., None], [False]).any()
    assert following(torch.stack((given, 0.2 * given + 0.01 * noise), -1)[..., None], [False]).all()


def test_what_densities_follow_is_in_the_report(monkeypatch):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    x = Affine("tx", "ty")(squares(60), 0.2 * torch.rand(60, 2) - 0.1)
    settings = {"steps": (1, 1), "batch_size": 8, "progress": False, "device": "cpu", **SMALL}
    finder = SymmetryFinder(("tx", "ty"), **settings).fit(x)
    monkeypatch.setattr(finder, "_drawn", lambda x, n, seed: finder.model_.pose(x).median.mean(0) + uniform(n, x))
    assert finder.report(x, samples=200, shown=1).findings.caution == ""
    monkeypatch.setattr(finder.model_, "density", lambda x: Told(x, 1.0))
    said = finder.report(x, samples=200, shown=1)
    assert "In tx the density of an image follows the image" in str(said)
    assert [row["occurs"] for row in said.rows()] == [True, True]
