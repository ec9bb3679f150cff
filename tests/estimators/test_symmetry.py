"""Finding the symmetries of images without labels, from Python and from the command line."""

import json
import math
import signal
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from erlangen import cli
from erlangen.cli.symmetries import Symmetries
from erlangen.data import glyphs, loose_images
from erlangen.estimators import SymmetryFinder
from erlangen.estimators.symmetry import recentred
from erlangen.models import Anchored, Voted
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


def test_the_same_seed_finds_the_same(finder):
    again = SymmetryFinder(("tx", "ty", "angle", "scale"), device="cpu", **TINY).fit(glyphs(24))
    assert torch.equal(again.prototypes_, finder.prototypes_)


def test_images_in_float_or_numpy_are_the_same(finder):
    x = glyphs(3, seed=1).x
    torch.testing.assert_close(finder.predict(x.float() / 255), finder.predict(x))
    torch.testing.assert_close(finder.predict(x.numpy()), finder.predict(x))


def test_the_report_says_for_every_coordinate_how_far(finder, tmp_path):
    found = finder.report(glyphs(10, seed=1), samples=50, shown=2)
    assert found.half_ranges.shape == (10, 4)
    rows = {row["name"]: row for row in found.rows()}
    assert list(rows) == ["tx", "ty", "angle", "scale"]
    assert rows["angle"]["looked"] == pytest.approx(math.pi)
    for row in rows.values():
        assert row["low"] <= row["half_range"] <= row["high"]
        assert row["occurs"] == (row["half_range"] > 0.05 * row["looked"])
    assert str(found).count("\n") == 3
    page, content = found.save(tmp_path)
    text = page.read_text()
    assert text.count("<img") == 1 + 2 * 5 + 2  # ranges; images, prototypes, three variations; distributions
    assert "http" not in text.replace("http://www.w3.org", "")
    stored = json.loads(content.read_text())
    assert [row["name"] for row in stored["coordinates"]] == list(rows)


def test_a_range_is_half_of_what_holds_most(finder, monkeypatch):
    """Known distributions: uniform within ±60° and nothing else."""

    class Known:
        def sample(self, shape, generator=None):
            v = torch.zeros(*shape, 6, 4)
            v[..., 2] = (2 * torch.rand(*shape, 6) - 1) * math.pi / 3 + 3  # across the seam
            return v

    monkeypatch.setattr(finder.model_, "density", lambda x: Known())
    found = finder.report(glyphs(6), samples=4000, shown=2)
    rows = {row["name"]: row for row in found.rows()}
    assert rows["angle"]["half_range"] == pytest.approx(0.98 * math.pi / 3, rel=0.01)
    assert not rows["tx"]["occurs"]
    assert "tx: hardly occurs" in str(found)
    assert "angle: one arc, 33 % of the circle; the shortest range with nearly all of it is ±5" in str(found)


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


def test_poses_start_from_moments_where_the_ground_is_black():
    dark, bright = glyphs(8).x, 255 - glyphs(8).x
    kinds = [
        SymmetryFinder(("tx", "ty", "angle"), device="cpu", **TINY).fit(x).model_.inference for x in (dark, bright)
    ]
    assert isinstance(kinds[0], Anchored)
    assert isinstance(kinds[1], Voted)


@pytest.mark.parametrize("names", [("hue", "saturation"), ("tx", "ty"), ("angle", "hue"), {"sx": 0.1, "sy": 0.1}])
def test_other_coordinates(names):
    finder = SymmetryFinder(names, device="cpu", **TINY).fit(glyphs(16))
    assert finder.model_.group.names == tuple(names)
    assert finder.prototypes_.isfinite().all()


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


def test_the_command_takes_folders_with_and_without_classes(tmp_path):
    folder_of(tmp_path / "classes" / "a", n=2)
    folder_of(tmp_path / "loose", n=3)
    for name, n in (("classes", 2), ("loose", 3)):
        assert Symmetries(str(tmp_path / name), size=8)._data().x.shape == (n, 3, 8, 8)
    assert len(Symmetries("glyphs-90", small=True)._data()) == 4000


def test_the_command(tmp_path, capsys):
    folder_of(tmp_path / "mine", n=2)
    out = tmp_path / "out"
    arguments = ["--steps", "2", "2", "--batch-size", "2", "--size", "16", "--device", "cpu", "--output", str(out)]
    assert cli.main(["symmetries", str(tmp_path / "mine"), "--transform", "tx,ty", *arguments]) == 0
    said = capsys.readouterr().out.split("\n")
    assert said[0].startswith("tx: ")
    assert said[2:4] == [str(out / "symmetries.html"), str(out / "symmetries.json")]
    assert (out / "symmetries.html").is_file()


def test_the_command_goes_on_after_an_interrupt(tmp_path, capsys, monkeypatch):
    """Of either stage; with other settings it begins anew."""
    np.savez(tmp_path / "mine.npz", x=glyphs(8, size=8).x.numpy(), y=np.zeros(8, np.int64))
    models, steps = [], []

    def trained(objective, loader, config, *, at=0):
        def note(step, _):
            steps.append(step)
            if step == at:
                signal.raise_signal(signal.SIGINT)

        return fit_symmetry(objective, loader, config, on_step=note)

    def report(self, data):
        models.append(torch.cat([p.detach().flatten() for p in self.model_.parameters()]))
        return Found()

    class Found:
        def save(self, folder):
            return []

    def run(place, at, transform="tx,ty"):
        steps.clear()
        monkeypatch.setattr("erlangen.estimators.symmetry.fit_symmetry", partial(trained, at=at))
        arguments = ["--small", "--transform", transform, "--device", "cpu", "--output", str(place)]
        return cli.main(["symmetries", str(tmp_path / "mine.npz"), *arguments]), list(steps)

    monkeypatch.setattr(SymmetryFinder, "report", report)
    monkeypatch.setattr("erlangen.cli.symmetries.SMALL", {**TINY, "steps": (3, 3)})
    assert run(tmp_path / "whole", 0) == (0, [1, 2, 3, 4, 5, 6])
    out = tmp_path / "out"
    assert run(out, 2) == (130, [1, 2])
    assert capsys.readouterr().err == "erlangen: stopped; the same command goes on from here.\n"
    assert run(out, 3, "angle") == (130, [1, 2, 3])
    assert run(out, 5) == (130, [3, 4, 5])
    assert run(out, 0) == (0, [6])
    assert torch.equal(*models)
    assert list(out.iterdir()) == []


def test_the_command_refuses_in_a_sentence(tmp_path, capsys):
    assert cli.main(["symmetries", str(tmp_path / "nowhere"), "--output", str(tmp_path / "out")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert cli.main(["symmetries", "glyphs", "--transform", "crop", "--small", "--output", str(tmp_path / "out")]) == 2
    assert "transform: received 'crop'" in capsys.readouterr().err


def test_prototypes_that_stay_empty_are_said_in_a_sentence(tmp_path, capsys, monkeypatch):
    def collapse(self, X):
        raise Collapsed("only 3% of the content is left. Try a blur.")

    monkeypatch.setattr(SymmetryFinder, "fit", collapse)
    folder_of(tmp_path / "mine", n=2)
    assert cli.main(["symmetries", str(tmp_path / "mine"), "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "erlangen: only 3% of the content is left. Try a blur.\n"
