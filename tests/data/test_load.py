import numpy as np
import pytest
from PIL import Image

from erlangen.data import FolderSet, PosedSet, glyphs, load, named_sets


def draw(path, seed):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (5, 5, 3), np.uint8)).save(path)


@pytest.mark.parametrize(
    ("name", "split", "n"), [("glyphs", "train", 12_000), ("glyphs-90", "test", 600), ("glyphs-3-modes", "test", 600)]
)
def test_glyphs_need_no_files(name, split, n):
    data = load(name, split)
    assert isinstance(data, PosedSet)
    assert len(data) == n
    assert data.name == name


def test_test_glyphs_are_others():
    assert not np.array_equal(load("glyphs", "test").angle, glyphs(600).angle)


def test_folders(tmp_path):
    for name in ("b/1.png", "a/2.png"):
        draw(tmp_path / "plain" / name, 0)
    data = load(tmp_path / "plain")
    assert isinstance(data, FolderSet)
    assert data.classes == ("a", "b")
    assert load(str(tmp_path / "plain"), size=3).x.shape == (2, 3, 3, 3)
    with pytest.raises(ValueError, match=r"split: received 'test', but .*plain' has no part of that name"):
        load(tmp_path / "plain", "test")


def test_paths_may_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    draw(tmp_path / "plain" / "a" / "1.png", 0)
    assert load("~/plain").classes == ("a",)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").rename(tmp_path / "~plain")
    assert load("~plain").classes == ("a",)


def test_folders_with_parts(tmp_path):
    for i, name in enumerate(("train/a/1.png", "train/b/1.png", "train/c/1.png", "test/c/1.png", "test/a/2.png")):
        draw(tmp_path / "parts" / name, i)
    assert load(tmp_path / "parts").counts() == [1, 1, 1]
    test = load(tmp_path / "parts", "test")
    assert test.classes == ("a", "b", "c")
    assert test.counts() == [1, 0, 1]
    assert test.name == "parts"
    draw(tmp_path / "parts" / "test" / "z" / "1.png", 9)
    with pytest.raises(ValueError, match="the sub-folders 'z'; accepted are 'a', 'b', 'c'"):
        load(tmp_path / "parts", "test")


def test_parts_whose_classes_read_alike_have_them_in_the_same_order(tmp_path):
    """An umlaut of two characters comes before all others, one of one character after them."""
    for name in ("train/A\N{COMBINING DIAERESIS}/1.png", "train/dog/1.png", "test/Ä/1.png", "test/Ä/2.png"):
        draw(tmp_path / name, 0)
    train, test = load(tmp_path), load(tmp_path, "test")
    assert train.classes == test.classes == ("dog", "Ä")
    assert test.counts() == [0, 2]


def test_a_class_may_be_called_train(tmp_path):
    for name in ("train/1.png", "plane/1.png"):
        draw(tmp_path / name, 0)
    assert load(tmp_path).classes == ("plane", "train")


def test_npz(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((2, 4, 4), np.uint8), y=np.arange(2))
    assert load(tmp_path / "mine.npz").name == "mine"


@pytest.mark.parametrize("source", ["no-such-set", "nowhere/at/all", "file.csv"])
def test_unknown_sources_are_refused(source):
    with pytest.raises(
        ValueError, match=f"source: received '{source}'; accepted is a named set \\(glyphs, .*a .npz file"
    ):
        load(source)


def test_other_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="split: received 'val'"):
        load("glyphs", "val")
    with pytest.raises(ValueError, match="size: received for the named set 'glyphs'"):
        load("glyphs", size=3)
    np.savez(tmp_path / "mine.npz", x=np.zeros((2, 4, 4), np.uint8), y=np.arange(2))
    with pytest.raises(ValueError, match="exif: received for the file"):
        load(tmp_path / "mine.npz", exif=False)
    assert "glyphs" in named_sets()
