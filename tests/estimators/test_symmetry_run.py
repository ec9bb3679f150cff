"""The folder of a `SymmetryFinder`: what it keeps, and what may go on in it."""

import json

import pytest
import torch
from sklearn.base import clone

from erlangen.data import glyphs
from erlangen.estimators import SymmetryFinder, resolve_ranges, symmetry

TINY = {"steps": (2, 2), "batch_size": 8, "samples": 1, "inference": (8,), "generative": (8,), "progress": False}


@pytest.fixture(autouse=True)
def _single():
    torch.set_default_dtype(torch.float32)


def test_a_run_goes_on_with_its_coordinates_in_their_order(tmp_path, monkeypatch):
    """Killed before its first checkpoint, so that nothing but the settings can tell."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    settings, x = {**TINY, "device": "cpu", "folder": tmp_path}, glyphs(8).x
    monkeypatch.setattr(symmetry, "fit_symmetry", stop)
    with pytest.raises(KeyboardInterrupt):
        SymmetryFinder({"tx": 0.2, "ty": 0.3}, **settings).fit(x)
    monkeypatch.undo()
    words = "transform: received ty:-0.3:0.3, tx:-0.2:0.2, but the run in .* began with tx:-0.2:0.2, ty:-0.3:0.3"
    with pytest.raises(ValueError, match=words):
        SymmetryFinder({"ty": 0.3, "tx": 0.2}, resume=True, **settings).fit(x)
    whole = SymmetryFinder({"tx": 0.2, "ty": 0.3}, resume=True, **settings).fit(x)
    assert torch.equal(SymmetryFinder.load(tmp_path).poses(x), whole.poses(x))


def test_a_run_goes_on_with_the_noise_of_its_ground(tmp_path, monkeypatch):
    """One of before noise was looked for has seen images as they are, and so does what is loaded."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    settings, x = {**TINY, "device": "cpu", "folder": tmp_path}, torch.zeros(8, 1, 16, 16)
    x[..., 6:10, 7:9] = 1.0
    x = (x + 0.02 * torch.rand(x.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 1)
    monkeypatch.setattr(symmetry, "fit_symmetry", stop)
    with pytest.raises(KeyboardInterrupt):
        SymmetryFinder(("tx", "ty"), **settings).fit(x)
    monkeypatch.undo()
    record = json.loads((tmp_path / "config.json").read_text())
    assert record.pop("noise") > 0.01
    (tmp_path / "config.json").write_text(json.dumps(record))
    whole = SymmetryFinder(("tx", "ty"), resume=True, **settings).fit(x)
    assert whole.noise_ == json.loads((tmp_path / "config.json").read_text())["noise"] == 0
    assert torch.equal(SymmetryFinder.load(tmp_path).poses(x), whole.poses(x))


def test_a_finder_that_is_loaded_is_the_one_that_was_fitted(tmp_path):
    """Its settings, also where moments were asked for or not; and its report says how to load it."""
    x, own = glyphs(8).x, {**TINY, "device": "cpu"}
    finder = SymmetryFinder(("tx", "ty"), anchored=False, folder=tmp_path, **own).fit(x)
    again = SymmetryFinder.load(tmp_path)
    assert again.anchored is False
    assert torch.equal(clone(again).set_params(device="cpu", progress=False).fit(x).prototypes_, finder.prototypes_)
    assert again.report(x, samples=50).findings.code == finder.report(x, samples=50).findings.code
    assert again.folder is None  # what was loaded is not replaced by the next fit
    for device in ("auto", "tpu", None):
        with pytest.raises(ValueError, match=r"device: received .*; accepted"):
            SymmetryFinder.load(tmp_path, device=device)


def test_a_folder_may_lie_at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    SymmetryFinder(("tx",), device="cpu", folder="~/run", **TINY).fit(glyphs(8))
    report = SymmetryFinder.load("~/run").report(glyphs(8), samples=50)
    assert [path.parent for path in report.save("~/run")] == [tmp_path / "me" / "run"] * 2
    assert (tmp_path / "me" / "run" / "log.jsonl").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["me"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"facts": None}, r"whose config\.json lacks facts; accepted is one not damaged"),
        ({"settings": {"pace": 3}}, r"whose config\.json has the settings pace; accepted by this version are steps"),
        ({"settings": []}, r"whose config\.json lacks settings; accepted"),
        ({"ranges": "tx"}, r"whose config\.json lacks ranges; accepted"),
    ],
)
def test_a_damaged_folder_is_said_in_a_sentence(change, words, tmp_path):
    SymmetryFinder(("tx",), device="cpu", folder=tmp_path, **TINY).fit(glyphs(8))
    record = json.loads((tmp_path / "config.json").read_text())
    kept = {name: value for name, value in {**record, **change}.items() if value is not None}
    (tmp_path / "config.json").write_text(json.dumps(kept))
    with pytest.raises(ValueError, match=f"folder: received .*, {words}"):
        SymmetryFinder.load(tmp_path)


def test_there_is_nothing_to_go_on_with_without_a_folder():
    with pytest.raises(ValueError, match="resume: received True without a folder; accepted with the folder of the run"):
        SymmetryFinder(("tx",), resume=True, **TINY).fit(glyphs(8))


def test_a_fit_that_fails_leaves_nothing_of_the_one_before(monkeypatch):
    finder = SymmetryFinder(("tx",), device="cpu", **TINY).fit(glyphs(8))

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(symmetry, "fit_symmetry", stop)
    with pytest.raises(KeyboardInterrupt):
        finder.fit(glyphs(8, seed=1))
    assert not {"model_", "prototypes_", "history_", "facts_"} & set(vars(finder))


@pytest.mark.parametrize("kind", ["bytes", "levels"])
def test_it_learns_where_gradients_are_off(kind):
    def found():
        x = glyphs(8).x.clone()
        return SymmetryFinder(("tx",), device="cpu", **TINY).fit(x if kind == "bytes" else x / 255).prototypes_

    with torch.inference_mode():
        inside = found()
    assert torch.equal(inside, found())


@pytest.mark.parametrize("wanted", [{"tx": True}, {"tx": (False, True)}, {"warp": True}])
def test_true_is_no_range(wanted):
    with pytest.raises(ValueError, match=r"transform: received .* with .*True"):
        resolve_ranges(wanted)
