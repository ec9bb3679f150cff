"""Finding the symmetries of images without labels, from Python and from the command line."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone

from erlangen import cli
from erlangen.cli.symmetries import Symmetries
from erlangen.data import glyphs, loose_images
from erlangen.estimators import SymmetryFinder, sources, symmetry, symmetry_report
from erlangen.estimators.sources import load_images
from erlangen.estimators.symmetry_report import recentred
from erlangen.models import Anchored, Voted
from erlangen.report.symmetries import middle_of
from erlangen.train import Collapsed, fit_symmetry
from erlangen.transforms import Affine

TINY = {"steps": (2, 2), "batch_size": 8, "samples": 1, "inference": (8,), "generative": (8,), "progress": False}


@pytest.fixture(autouse=True)
def _single():
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def finder():
    torch.set_default_dtype(torch.float32)
    return SymmetryFinder(("tx", "ty", "angle", "scale"), device="cpu", **TINY).fit(glyphs(24))


def test_what_is_learned_can_be_used(finder):
    x = glyphs(5, seed=1).x
    assert finder.prototypes_.shape == (24, 3, 32, 32)
    assert finder.predict(x).shape == x.shape
    assert finder.poses(x).shape == (5, 4)
    assert finder.score_samples(x).isfinite().all()
    made = finder.resample(x, 2, seed=3)
    assert made.shape == (2, *x.shape)
    assert torch.equal(made, finder.resample(x, 2, seed=3))
    assert not torch.equal(made, finder.resample(x, 2, seed=4))


def test_variations_of_an_image_depend_on_no_other(finder, monkeypatch):
    x = glyphs(5, seed=1).x
    made, ranges = finder.resample(x, 3), finder.report(x, samples=50).half_ranges
    monkeypatch.setattr(symmetry, "BATCH", 2)
    close = {"atol": 1e-4, "rtol": 0}  # a product of another size rounds otherwise
    torch.testing.assert_close(finder.resample(x.flip(0), 3), made.flip(1), **close)
    torch.testing.assert_close(finder.resample(x[2:3] / 255, 3), made[:, 2:3], **close)
    np.testing.assert_allclose(finder.report(x[2:3], samples=50).half_ranges, ranges[2:3], atol=1e-4)
    poses = finder.poses(finder.resample(x[:1].repeat(2, 1, 1, 1), 1)[0])
    assert torch.equal(poses[0], poses[1])  # images that are equal have equal ones


def test_the_same_seed_finds_the_same(finder):
    again = SymmetryFinder(("tx", "ty", "angle", "scale"), device="cpu", **TINY).fit(glyphs(24))
    assert torch.equal(again.prototypes_, finder.prototypes_)


def patterns(n):
    """Discs of soft random patterns, each turned by an angle of its own, `(n, 1, 16, 16)` in bytes."""
    x = torch.nn.functional.interpolate(torch.rand(n, 1, 4, 4), 16, mode="bicubic").clamp(0, 1)
    axis = (torch.arange(16) + 0.5) / 8 - 1
    return (Affine("angle")(x * (axis[:, None] ** 2 + axis**2 < 0.7), 2 * math.pi * torch.rand(n, 1)) * 255).byte()


def test_few_images_are_not_learned_by_heart():
    """Each is known at one angle, and all occur: the log-density of others is near that of the circle, -log 2π.

    Twin: without images set aside a density that has seen 60 often enough is sure of the angle of any other, and wrong.
    """
    torch.manual_seed(0)
    x, others = patterns(60), patterns(60)
    settings = {**TINY, "steps": (50, 150), "batch_size": 32, "copies": 4, "inference": (32,), "generative": (64,)}
    found = {}
    for held in (0.0, 0.2):
        finder = SymmetryFinder(("angle",), device="cpu", held=held, **settings).fit(x)
        found[held] = finder.score_samples(others).mean().item()
    assert finder.history_.stopped == "patience"
    assert "from 48 images, 12 were set aside to judge by" in finder.facts_["training"]
    assert found[0.2] > -2.4
    assert found[0.0] < found[0.2] - 1


@pytest.mark.parametrize("held", [-0.1, 1.0, math.nan, "some"])
def test_a_share_is_less_than_all(held):
    with pytest.raises(ValueError, match="held: received"):
        SymmetryFinder(("angle",), held=held, **TINY).fit(glyphs(4))


def test_images_in_float_or_numpy_are_the_same(finder):
    x = glyphs(3, seed=1).x
    torch.testing.assert_close(finder.predict(x.float() / 255), finder.predict(x))
    torch.testing.assert_close(finder.predict(x.numpy()), finder.predict(x))


@pytest.mark.filterwarnings("error")
def test_arrays_may_lie_in_memory_as_they_like(finder):
    level = glyphs(3, seed=1).x.float() / 255
    reversed_, foreign, fixed = (level.numpy()[..., ::-1], level.numpy().astype(">f4"), level.numpy().copy())
    fixed.flags.writeable = False
    assert torch.equal(finder.predict(reversed_), finder.predict(level.flip(-1)))
    assert torch.equal(finder.predict(foreign), finder.predict(level))
    assert torch.equal(finder.predict(fixed), finder.predict(level))
    assert torch.equal(finder.predict(level.numpy().astype(np.longdouble)), finder.predict(level))


def test_the_report_says_for_every_coordinate_how_far(finder, tmp_path):
    found = finder.report(glyphs(10, seed=1), samples=50, shown=2)
    assert found.half_ranges.shape == (10, 4)
    rows = {row["name"]: row for row in found.rows()}
    assert list(rows) == ["tx", "ty", "angle", "scale"]
    assert rows["angle"]["looked"] == pytest.approx(math.pi)
    for row in rows.values():
        assert row["low"] <= row["half_range"] <= row["high"]
        little = min(0.05 * row["looked"], 5 * row["error"])  # a twentieth of it, or several times the error,
        assert row["least"] == max(little, 1 / 32)  # or half a pixel
        mean = found.half_ranges[:, list(rows).index(row["name"])].mean()
        sure = row["error"] <= max(0.5 * row["least"], 0.2 * row["half_range"])
        sure &= row["gap"] <= max(0.5 * row["least"], 0.2 * mean, row["chance"])
        assert row["occurs"] == ((row["half_range"] > row["least"]) if sure else None)
    assert str(found).count("\n") == 4  # and that these images are few
    page, content = found.save(tmp_path)
    text = page.read_text()
    assert text.count("<img") == 1 + 2 * 5 + 2  # ranges; images, prototypes, three variations; distributions
    assert "://" not in text.replace("http://www.w3.org", "")  # which encoded pictures cannot have
    stored = json.loads(content.read_text())
    assert [row["name"] for row in stored["coordinates"]] == list(rows)


def test_a_report_is_about_what_was_fitted_unless_other_images_are_given(tmp_path):
    data = loose_images(folder_of(tmp_path / "pictures"), size=16)
    finder = SymmetryFinder(("tx", "ty"), device="cpu", folder=tmp_path / "run", **TINY).fit(data)
    found, same = finder.report(samples=50, shown=1), finder.report(data, samples=50, shown=1)
    assert np.array_equal(found.half_ranges, same.half_ranges)
    assert found.images == same.images == tuple((tmp_path / "pictures" / f"{k}.png").as_posix() for k in range(9))
    with pytest.raises(ValueError, match="X: received none for a finder that was loaded, which has no images"):
        SymmetryFinder.load(tmp_path / "run").report()
    with pytest.raises(ValueError, match="received no images yet; accepted is a call of fit first"):
        SymmetryFinder().report()


def test_a_range_is_half_of_what_holds_most(finder, monkeypatch):
    """Known distributions: uniform within ±60° and nothing else."""

    def known(x, n, seed):
        v = torch.zeros(n, len(x), 4)
        v[..., 2] = (2 * torch.rand(n, len(x)) - 1) * math.pi / 3 + 3  # across the seam
        return v

    monkeypatch.setattr(finder, "_drawn", known)
    monkeypatch.setattr(finder, "_errors", lambda x: np.zeros(4))
    monkeypatch.setattr(finder, "poses", lambda x: known(x, 1, 0)[0])
    found = finder.report(glyphs(6), samples=4000, shown=2)
    rows = {row["name"]: row for row in found.rows()}
    assert rows["angle"]["half_range"] == pytest.approx(0.98 * math.pi / 3, rel=0.01)
    assert not rows["tx"]["occurs"]
    assert "tx: hardly occurs" in str(found)
    assert "angle: one arc, 33 % of the circle, holds 98 %; 98 % lie within ±5" in str(found)


def test_turning_around_another_point_is_no_translation():
    """Points of images that were turned about the middle, as seen from prototypes that lie elsewhere."""
    group = Affine("tx", "ty", "angle", "scale", factored=True)
    v = torch.zeros(400, 3, 4)
    v[..., 2] = (2 * torch.rand(400, 3) - 1) * 2
    v[..., 3] = 0.2 * torch.randn(400, 3)
    shift = group.element(torch.tensor([[[0.1, -0.2, 0.0, 0.0]]]))
    seen = group.element_log(group.compose(group.element(v), shift))
    assert seen[..., :2].std() > 0.1
    left = recentred(seen, group.names)
    assert left[..., :2].abs().max() < 0.01
    assert torch.equal(left[..., 2:], seen[..., 2:])
    true = seen.clone()
    true[..., 0] += torch.rand(400, 3)  # what is translated for its own sake stays
    assert recentred(true, group.names)[..., 0].std() == pytest.approx(0.29, abs=0.03)
    still = torch.zeros(50, 2, 4)
    still[..., 0] = torch.rand(50, 2)
    torch.testing.assert_close(recentred(still, group.names), still)


def test_turns_of_small_subjects_explain_their_translations_too():
    """Half as large and turned by up to 29° about a point aside: little is left of what moves them."""
    group = Affine("tx", "ty", "angle", "scale", factored=True)
    v = torch.zeros(500, 3, 4)
    v[..., 2], v[..., 3] = (2 * torch.rand(500, 3) - 1) * math.radians(29), -0.7
    shift = group.element(torch.tensor([[[0.7, 0.0, 0.0, 0.0]]]))
    seen = group.element_log(group.compose(group.element(v), shift))
    left = recentred(seen, group.names)
    assert left[..., 1].std() < 0.03 * seen[..., 1].std()


def test_poses_start_from_moments_where_the_ground_is_even():
    even, uneven = glyphs(8).x, torch.rand(8, 3, 32, 32)
    kinds = [
        SymmetryFinder(("tx", "ty", "angle"), device="cpu", **TINY).fit(x).model_.inference for x in (even, uneven)
    ]
    assert isinstance(kinds[0], Anchored)
    assert isinstance(kinds[1], Voted)


def test_images_on_paper_of_any_colour_are_those_on_black(tmp_path):
    """What a turn brings into the frame is paper, not black, and nothing else changes."""
    level, paper = glyphs(12).x.double() / 510, torch.tensor([0.5, 0.25, 0.375], dtype=torch.float64).view(3, 1, 1)
    settings = {**TINY, "device": "cpu"}
    black = SymmetryFinder(("tx", "ty", "angle"), **settings).fit(level)
    coloured = SymmetryFinder(("tx", "ty", "angle"), folder=tmp_path, **settings).fit(level + paper)
    assert coloured.ground_ == [0.5, 0.25, 0.375]
    again = SymmetryFinder.load(tmp_path)
    paper = paper.float()
    torch.testing.assert_close(coloured.prototypes_, black.prototypes_ + paper, atol=1e-4, rtol=0)
    for finder in (coloured, again):
        views = finder.resample((level + paper)[:2], 3)
        torch.testing.assert_close(views, black.resample(level[:2], 3) + paper, atol=1e-4, rtol=0)
        torch.testing.assert_close(views[..., 0, 0], paper.view(3).expand(3, 2, 3), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("level", "noise"), [(0.0, 0.03), (0.03, 0.0), (0.5, 0.01), (0.5, 0.055)])
def test_noise_and_the_level_of_a_ground_are_no_mass(level, noise, tmp_path):
    """Centres of mass move as far as their subject, and not less for what stays where it is."""
    torch.manual_seed(0)
    x, shift = torch.zeros(100, 1, 32, 32), 0.4 * torch.rand(100, 2) - 0.2
    x[..., 11:21, 13:19] = 0.4
    moved = (Affine("tx", "ty")(x, shift) + level + noise * torch.randn_like(x)).clamp(0, 1)
    finder = SymmetryFinder(("tx", "ty"), device="cpu", folder=tmp_path, **{**TINY, "lr": (1e-9, 1e-9)}).fit(moved)
    assert finder.ground_ == [pytest.approx(level, abs=0.01)]
    for each in (finder, SymmetryFinder.load(tmp_path)):
        poses = each.poses(moved)
        slope = ((poses - poses.mean(0)) * shift).sum(0) / shift.square().sum(0)
        torch.testing.assert_close(slope, torch.ones(2), atol=0.06, rtol=0)


@pytest.mark.parametrize("names", [("hue", "saturation"), ("tx", "ty"), ("angle", "hue"), {"sx": 0.1, "sy": 0.1}])
def test_other_coordinates(names):
    finder = SymmetryFinder(names, device="cpu", **TINY).fit(glyphs(16))
    assert finder.model_.group.names == tuple(names)
    assert finder.prototypes_.isfinite().all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 5}, "steps: received int 5; accepted are two numbers"),
        ({"steps": (2, 0)}, "steps: received int 0"),
        ({"lr": 0.1}, "lr: received float 0.1; accepted are two rates"),
        ({"batch_size": "8"}, "batch_size: received str '8'"),
        ({"device": "abacus"}, "device: received 'abacus', which this machine does not have"),
        ({"transform": ("warp",)}, "transform: received 'warp', which is for series"),
        ({"transform": "tx,angle"}, "transform: received tx, angle; accepted are tx and ty beside angle, or neither"),
        ({"transform": "angle", "anchored": True}, "anchored: received True for angle"),
        ({"inference": ()}, "inference: received tuple"),
        ({"generative": (0,)}, "generative: received int 0"),
        ({"copies": 0}, "copies: received int 0"),
        (
            {"transform": {"angle": 0.3}},
            r"transform: received angle from -0.3 to 0.3 \(-17.19° to 17.19°\); accepted is angle without a range",
        ),
    ],
)
def test_settings_are_refused_before_anything_is_written(change, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        SymmetryFinder(**{**TINY, "device": "cpu", "folder": tmp_path / "run", **change}).fit(glyphs(8))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ("pictures", "X: received str 'pictures'; accepted are images"),
        (np.full((2, 1, 8, 8), 200.0), "X: received images from 200 to 200; accepted"),
        (np.full((2, 1, 8, 8), np.nan), "X: received images from nan to nan; accepted"),
        (np.zeros((2, 8, 8, 3), np.uint8), "whose channels seem to come last"),
        (np.zeros((2, 1, 8, 8), np.uint16), "X: received a uint16 tensor"),
        (255 * np.eye(8, dtype=np.uint8)[None, None], "transform: received hue for images of 1 channels"),
        (np.eye(8, dtype=np.uint8)[None, None], "X: received images in uint8 in which no level is more than 1 of 255;"),
        (np.eye(8, 7, dtype=np.uint8)[None, None], "X: received images of 8×7 pixels; accepted are at least 8"),
        (np.full((2, 3, 8, 8), 7, np.uint8), "X: received 2 images in which every pixel is 7; accepted are images"),
        (np.full((2, 3, 8, 8), 0.25), "X: received 2 images in which every pixel is 0.25; accepted are images"),
    ],
)
def test_images_that_are_none_are_refused(x, words):
    with pytest.raises(ValueError, match=words):
        SymmetryFinder(("hue",), device="cpu", **TINY).fit(x)


def test_what_was_learned_answers_for_empty_images(finder):
    assert finder.predict(torch.zeros(2, 3, 32, 32)).eq(0).all()


def test_levels_that_rounding_moved_are_in_range_for_colours_too():
    x = glyphs(16).x / 255
    x[:, :, 0, 0], x[:, :, 0, 1] = 1.0005, -0.0005
    found = SymmetryFinder(("hue",), device="cpu", **TINY).fit(x)
    assert torch.equal(found.poses(x), found.poses(x.clamp(0, 1)))


def test_images_must_be_those_of_fit(finder):
    with pytest.raises(ValueError, match=r"X: received .*; accepted is images \(N, 3, 32, 32\), as in fit"):
        finder.predict(torch.rand(2, 3, 16, 16))
    for name in ("shown", "samples", "images"):
        with pytest.raises(ValueError, match=f"{name}: received int 0"):
            finder.report(glyphs(2), **{name: 0})
    with pytest.raises(ValueError, match="samples: received 20; accepted are at least 50"):
        finder.report(glyphs(2), samples=20)


def test_it_is_an_estimator_of_scikit_learn():
    finder = SymmetryFinder(("tx",), seed=3)
    assert repr(clone(finder)) == "SymmetryFinder(seed=3, transform=('tx',))"


def test_a_folder_keeps_what_was_learned(tmp_path):
    settings = {**TINY, "device": "cpu", "folder": tmp_path}
    finder = SymmetryFinder(("tx", "ty"), **settings).fit(glyphs(12))
    again = SymmetryFinder.load(tmp_path)
    x = glyphs(3, seed=1).x
    assert torch.equal(again.predict(x), finder.predict(x))
    assert torch.equal(again.resample(x, 2), finder.resample(x, 2))
    assert again.report(x, samples=50).findings.facts == finder.facts_
    assert f"SymmetryFinder.load({tmp_path.as_posix()!r})" in finder.report(x, samples=50).findings.code
    SymmetryFinder(("tx",), **settings).fit(glyphs(12))  # a run that was finished is replaced
    assert SymmetryFinder.load(tmp_path).model_.group.names == ("tx",)
    with pytest.raises(ValueError, match="which holds no run"):
        SymmetryFinder.load(tmp_path / "elsewhere")
    record = json.loads((tmp_path / "config.json").read_text())
    for change, words in (
        ({"network": {"layers": 2}}, "with the network .*; accepted by this version is"),
        ({"shape": None}, "lacks shape"),
        ({"format": 1}, "is not that of a SymmetryFinder"),
    ):
        kept = {name: value for name, value in {**record, **change}.items() if value is not None}
        (tmp_path / "config.json").write_text(json.dumps(kept))
        with pytest.raises(ValueError, match=words):
            SymmetryFinder.load(tmp_path)


def test_a_fit_that_fails_leaves_nothing_that_answers(monkeypatch):
    again = SymmetryFinder(("angle",), steps=(1, 1), batch_size=4, inference=(4,), generative=(4,)).fit(glyphs(4))

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(symmetry, "fit_symmetry", stop)
    with pytest.raises(KeyboardInterrupt):
        again.fit(glyphs(4, seed=1))
    with pytest.raises(ValueError, match="accepted is a call of fit first"):
        again.predict(glyphs(4))


def test_a_report_does_not_outlast_its_run(tmp_path, monkeypatch):
    """A run that replaces another and is stopped leaves no page that says what the other found."""
    finder = SymmetryFinder(("tx",), device="cpu", folder=tmp_path, **TINY)
    paths = finder.fit(glyphs(8)).report(glyphs(8), samples=50, shown=1).save(tmp_path)
    (tmp_path / "mine.txt").touch()

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(symmetry, "fit_symmetry", stop)
    with pytest.raises(KeyboardInterrupt):
        finder.fit(glyphs(8, seed=1))
    assert not any(path.exists() for path in paths)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "mine.txt"]


def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch):
    """It ends as the run that nothing stopped, to the bit, and nothing is lost on the way."""

    class Stop(Exception):
        pass

    def stopping(objective, loader, config, **kwargs):
        def on_step(step, losses):
            if step == 3:
                raise Stop

        return fit_symmetry(objective, loader, replace(config, checkpoint_every=1), on_step=on_step, **kwargs)

    settings, data = {**TINY, "steps": (2, 3), "device": "cpu"}, glyphs(12).x[..., ::2, ::2]
    whole = SymmetryFinder(("tx", "ty"), **settings).fit(data)
    finder = SymmetryFinder(("tx", "ty"), folder=tmp_path, **settings)
    monkeypatch.setattr(symmetry, "fit_symmetry", stopping)
    with pytest.raises(Stop):
        finder.fit(data)
    monkeypatch.undo()
    with pytest.raises(FileExistsError, match=r"holds a run that was not finished; .* resume=True"):
        finder.fit(data)
    with pytest.raises(ValueError, match=r"which has no model\.safetensors: it was not finished"):
        SymmetryFinder.load(tmp_path)
    for wrong, words in (({"batch_size": 4}, "batch_size: received 4"), ({"seed": 1}, "seed: received 1, but the run")):
        with pytest.raises(ValueError, match=words):
            SymmetryFinder(("tx", "ty"), folder=tmp_path, resume=True, **{**settings, **wrong}).fit(data)
    resumed = SymmetryFinder(("tx", "ty"), folder=tmp_path, resume=True, **settings)
    with pytest.raises(ValueError, match="X: received other images than the run"):
        resumed.fit(data.flip(0))
    resumed.fit(data)
    assert torch.equal(resumed.prototypes_, whole.prototypes_)
    assert all(torch.equal(a, b) for a, b in zip(resumed.model_.parameters(), whole.model_.parameters(), strict=True))


def test_other_channels_are_shown_as_their_mean():
    x = torch.rand(8, 4, 8, 8)
    found = SymmetryFinder(("tx",), device="cpu", **TINY).fit(x).report(x, samples=50, shown=2)
    grey = (x[0].mean(0) * 255).round().byte().numpy()
    assert np.array_equal(found.findings.inputs[0], np.repeat(grey[..., None], 3, -1))


def test_images_are_measured_in_all_parts_of_a_set(finder):
    """Folders are sorted, so that the first images would be those of the first sub-folder."""
    found = finder.report(glyphs(24), samples=50, images=5, shown=2)
    assert len(found.images) == len(found.half_ranges) == 5
    assert int(found.images[-1]) > 12
    assert "24 images of 32×32 pixels; no labels were used. Ranges are those of 5 of them" in found.findings.lead
    one = finder.report(glyphs(1), samples=50)
    assert "from image to image" not in str(one)


def test_the_median_is_the_range_of_some_image():
    low, middle, high = middle_of(np.array([[1.0], [1.1], [3.0], [3.1]]))
    assert (low, middle, high) == (1.0, 1.1, 3.1)


def test_what_is_wrong_is_refused():
    with pytest.raises(ValueError, match="call of fit first"):
        SymmetryFinder().predict(glyphs(2))
    with pytest.raises(ValueError, match="X: received"):
        SymmetryFinder().fit(torch.rand(3, 8, 8))
    with pytest.raises(ValueError, match="transform: received 'crop'"):
        SymmetryFinder(("crop",)).fit(glyphs(2))
    with pytest.raises(ValueError, match="transform: received 'sheer'"):
        SymmetryFinder(("sheer",)).fit(glyphs(2))


def folder_of(path, n=9, size=16):
    path.mkdir(parents=True)
    for k in range(n):
        Image.fromarray(np.random.default_rng(k).integers(0, 256, (size, size, 3), np.uint8)).save(path / f"{k}.png")
    return path


def test_a_folder_of_loose_pictures(tmp_path):
    data = loose_images(folder_of(tmp_path / "mine"), size=8)
    assert data.x.shape == (9, 3, 8, 8)
    assert data.counts() == [9]
    assert data.files[0].name == "0.png"
    with pytest.raises(ValueError, match="has no pictures of its own"):
        loose_images(tmp_path)
    with pytest.raises(ValueError, match="is no folder"):
        loose_images(tmp_path / "nowhere")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "0.png").touch()
    with pytest.raises(ValueError, match="in which no picture can be read; accepted is at least one"):
        loose_images(tmp_path / "broken", unreadable="skip")


def test_folders_with_and_without_sub_folders(tmp_path):
    folder_of(tmp_path / "mine" / "a" / "deep", n=2)
    folder_of(tmp_path / "mine" / "empty", n=0)
    folder_of(tmp_path / "loose", n=3)
    (tmp_path / "mine" / "a" / "up").symlink_to(tmp_path / "mine")
    Image.new("L", (16, 16)).save(tmp_path / "mine" / "one.png")
    for name, n in (("mine", 3), ("loose", 3)):
        assert load_images(str(tmp_path / name), size=8).x.shape == (n, 3, 8, 8)
    with pytest.raises(ValueError, match="has no pictures in it or below it"):
        load_images(str(tmp_path / "mine" / "empty"))


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        *(([(20, 12)] * 2, (20, 12)), ([(200, 50)] * 2, (64, 16)), ([(20, 12), (12, 20)], (64, 64))),
        *(
            ([(8, 1000)] * 2, (8, 1000)),
            ([(20, 1000)] * 2, (8, 400)),
            ([(4, 100)] * 2, (4, 100)),
        ),  # to be seen, or told
    ],
)
def test_pictures_keep_their_form_where_they_have_one(tmp_path, sizes, shape):
    for k, (height, width) in enumerate(sizes):
        Image.new("RGB", (width, height)).save(tmp_path / f"{k}.png")
    assert load_images(str(tmp_path)).x.shape[2:] == shape


def test_a_file_needs_no_labels(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((4, 9, 7), np.uint8))
    assert load_images(str(path)).x.shape == (4, 1, 9, 7)
    np.savez(path, z=np.zeros(3))
    with pytest.raises(ValueError, match="with z; accepted for 'train' are x, or x_train"):
        load_images(str(path))
    for source in (str(path), "glyphs"):
        with pytest.raises(ValueError, match="size: received 8 for the"):
            load_images(source, size=8)
    with pytest.raises(ValueError, match="data: received 'nowhere', which does not exist; accepted is a folder"):
        load_images("nowhere")


def test_a_small_run_keeps_what_is_asked_for():
    small = Symmetries(small=True)._settings()
    assert (small["steps"], small["batch_size"], small["samples"]) == ((250, 1500), 64, 1)
    own = Symmetries(small=True, steps=(7, 8))._settings()
    assert (own["steps"], own["batch_size"], own["samples"]) == ((7, 8), 64, 1)
    assert "samples" not in Symmetries()._settings()


def test_the_command(tmp_path, capsys):
    folder_of(tmp_path / "mine", n=2)
    out = tmp_path / "out"
    arguments = ["--steps", "2", "2", "--batch-size", "2", "--size", "16", "--device", "cpu", "--output", str(out)]
    assert cli.main(["symmetries", str(tmp_path / "mine"), "--transform", "tx,ty", *arguments]) == 0
    said = capsys.readouterr().out.split("\n")
    assert said[0].startswith("tx: ")
    assert said[2].startswith("These images fill their frames.")  # they are noise
    assert said[3:5] == [str(out / "symmetries.html"), str(out / "symmetries.json")]
    assert (out / "symmetries.html").is_file()


def test_the_command_leaves_out_what_it_cannot_read_and_goes_on(tmp_path, capsys, monkeypatch):
    facts = []  # of the page, which takes longest
    monkeypatch.setattr(symmetry_report, "symmetries_page", lambda found: facts.append(found.facts) or "")
    (folder_of(tmp_path / "mine", n=2) / "broken.png").touch()
    out = tmp_path / "out"
    arguments = ["--steps", "1", "1", "--batch-size", "2", "--device", "cpu", "--output", str(out)]
    command = ["symmetries", str(tmp_path / "mine"), "--transform", "tx", *arguments]
    assert cli.main(command) == 2
    assert "or leave them out with --unreadable skip." in capsys.readouterr().err
    assert cli.main([*command, "--unreadable", "skip"]) == 0
    assert "left out: 1 file that cannot be read; named in " in capsys.readouterr().out
    assert facts[0]["unreadable files"] == "1, left out"
    stored = json.loads((out / "symmetries.json").read_text())
    assert [Path(name).name for name in stored["images"]] == ["0.png", "1.png"]
    assert [Path(name).name for name in stored["left_out"]] == ["broken.png"]
    (out / "model.safetensors").unlink()
    assert cli.main([*command, "--unreadable", "skip"]) == 2
    assert "--output: received" in (said := capsys.readouterr().err)
    assert "the same with --resume to go on." in said
    assert cli.main([*command, "--unreadable", "skip", "--resume"]) == 0


def test_the_command_refuses_in_a_sentence(tmp_path, capsys):
    assert cli.main(["symmetries", str(tmp_path / "nowhere"), "--output", str(tmp_path / "out")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert cli.main(["symmetries", "glyphs", "--transform", "crop", "--small", "--output", str(tmp_path / "out")]) == 2
    assert "transform: received 'crop'" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [("--steps", "0", "1"), ("--batch-size", "0"), ("--transform", "tx,angle")])
def test_the_command_refuses_settings_before_it_reads_images(wrong, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sources, "load_images", lambda *args, **kwargs: pytest.fail("images were read"))
    assert cli.main(["symmetries", "glyphs", *wrong, "--output", str(tmp_path / "out")]) == 2
    assert f"{wrong[0]}: received" in capsys.readouterr().err


def test_a_whole_circle_may_be_said_with_a_rounded_number():
    assert SymmetryFinder({"angle": 3.1416}).looked_for() == {"angle": (-math.pi, math.pi)}


def test_prototypes_that_stay_empty_are_said_in_a_sentence(tmp_path, capsys, monkeypatch):
    def collapse(self, X):
        raise Collapsed("only 3 % of the content is left. Try a blur.")

    monkeypatch.setattr(SymmetryFinder, "fit", collapse)
    folder_of(tmp_path / "mine", n=2)
    assert cli.main(["symmetries", str(tmp_path / "mine"), "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "erlangen: only 3 % of the content is left. Try a blur.\n"


def test_a_fitted_finder_does_not_depend_on_the_default_type():
    torch.set_default_dtype(torch.float32)
    x = torch.rand(6, 1, 10, 10)
    finder = SymmetryFinder(("tx", "ty"), steps=(2, 2), batch_size=8, progress=False).fit(x)
    before = finder.predict(x)
    torch.set_default_dtype(torch.float64)
    assert torch.equal(finder.predict(x).float(), before)


def test_images_of_one_colour_are_refused():
    x = torch.zeros(6, 3, 12, 12)
    x[:, 0] = 0.5
    with pytest.raises(ValueError, match=r"6 images in which every pixel is 0.5, 0; accepted are images"):
        SymmetryFinder(("tx", "ty"), steps=(2, 2), progress=False).fit(x)


def test_numbers_of_numpy_are_ranges_and_seeds():
    x = torch.rand(6, 1, 10, 10)
    own = {"steps": (1, 1), "batch_size": 4, "progress": False}
    found = [
        SymmetryFinder({"tx": range_}, seed=seed, **own).fit(x)
        for range_, seed in ((np.float32(0.25), np.int64(3)), (0.25, 3))
    ]
    assert torch.equal(found[0].prototypes_, found[1].prototypes_)
