"""Where the images of a run come from: what counts as one, and on what ground it lies."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from PIL import Image

from erlangen.audit.case import as_data
from erlangen.cli.audit import Audit
from erlangen.data import DataSet
from erlangen.estimators import RunConfig
from erlangen.estimators.runs import DATA, write_record
from erlangen.estimators.sources import check_parts, describe_data, load_images, load_parts


def squares(folder, n=3, size=16):
    folder.mkdir(parents=True)
    for k in range(n):
        Image.fromarray(np.full((size, size), 40 * k, np.uint8)).save(folder / f"{k}.png")
    return folder


@pytest.mark.parametrize("name", ["a/.hidden.png", "__MACOSX/0.png", ".cache/0.png"])
def test_pictures_that_are_not_read_do_not_change_the_size_of_others(tmp_path, name):
    for label in ("a", "b"):
        squares(tmp_path / label)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    Image.new("L", (20, 20)).save(tmp_path / name)
    assert load_images(str(tmp_path)).x.shape == (6, 1, 16, 16)
    train, _, size = load_parts(RunConfig(data=str(tmp_path)))
    assert size is None
    assert train.x.shape == (6, 1, 16, 16)


@pytest.mark.parametrize("name", [".ipynb_checkpoints", "__MACOSX"])
def test_folders_that_are_not_read_are_neither_classes_nor_make_parts(tmp_path, name):
    for place in ("mine/train/a", "mine/train/b", "mine/test/a", "vehicles/train", "vehicles/test"):
        squares(tmp_path / place)
        (tmp_path / place).parent.joinpath(name).mkdir(exist_ok=True)
        (tmp_path / place / name).mkdir()
    _, test, _ = load_parts(RunConfig(data=str(tmp_path / "mine")))
    assert test.classes == ("a", "b")
    assert as_data(tmp_path / "mine").classes == ("a", "b")
    train, test, _ = load_parts(RunConfig(data=str(tmp_path / "vehicles")))
    assert train.classes == as_data(tmp_path / "vehicles").classes == ("test", "train")
    assert test is None


def test_a_grey_test_part_of_pictures_in_colour_has_their_channels(tmp_path):
    for label in ("a", "b"):
        squares(tmp_path / "train" / label)
        squares(tmp_path / "test" / label)
    Image.new("RGB", (16, 16), (255, 0, 0)).save(tmp_path / "train" / "a" / "red.png")
    train, test, _ = load_parts(RunConfig(data=str(tmp_path)))
    assert train.x.shape[1:] == test.x.shape[1:] == (3, 16, 16)
    assert test.x[1, :, 0, 0].tolist() == [40, 40, 40]
    assert test.files[1].name == "1.png"


@pytest.mark.parametrize(("most", "said"), [(0, True), (1, None), (2, True), (16, True), (17, False)])
def test_bytes_that_are_all_but_black_are_refused_or_mentioned(most, said, caplog):
    """Masks of 0 and 1 are divided by 255, and 12 bits in files of 16 come to 16 of it."""
    x = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    x[0, 0, 0, 0] = most
    data = DataSet(x, torch.tensor([0, 1, 0, 1]), ("a", "b"), "mine")
    words = f"data: received images in uint8 in which no level is more than {most} of 255"
    with nullcontext() if said is not None else pytest.raises(ValueError, match=f"{words}; accepted .* 255 [*] x"):
        check_parts(data, None)
    assert caplog.text.count(f"{words}, nearly black") == bool(said)


def drawing(folder, name, level, alpha=255):
    """A square of one level in a frame that nothing covers."""
    folder.mkdir(exist_ok=True)
    pixels = np.zeros((16, 16, 4), np.uint8)
    pixels[4:12, 4:12] = (level, level, level, alpha)
    Image.fromarray(pixels).save(folder / name)


def test_transparent_pictures_lie_where_they_can_be_seen(tmp_path):
    """On white if they are dark, on black if they are bright, and all of a folder on one."""
    for name, levels, ground in (("dark", (0, 10), 255), ("bright", (255, 240), 0), ("both", (0, 250, 240), 0)):
        for k, level in enumerate(levels):
            drawing(tmp_path / name, f"{k}.png", level)
        x = load_images(str(tmp_path / name)).x
        assert x[..., 0, 0].eq(ground).all()
        assert x[:, 0, 8, 8].tolist() == list(levels)
        for word, grey in (("black", 0), ("white", 255)):
            assert load_images(str(tmp_path / name), background=word).x[..., 0, 0].eq(grey).all()


def test_both_parts_of_labelled_pictures_lie_on_the_ground_of_the_first(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    for part, level in (("train", 0), ("test", 255)):
        for name in ("a", "b"):
            drawing(tmp_path / part / name, "0.png", level)
    train, test, _ = load_parts(RunConfig(data=str(tmp_path)))
    assert test is not None
    for x, level in ((train.x, 0), (test.x, 255), (as_data(tmp_path).x, 255)):
        assert x[..., 0, 0].eq(255).all()
        assert x[..., 8, 8].eq(level).all()


def test_a_run_says_what_its_pictures_lie_on(tmp_path):
    for name in ("a", "b"):
        drawing(tmp_path / name, "0.png", 0)
        drawing(tmp_path / name, "1.png", 9)
    for word, grey in (("auto", 255), ("white", 255), ("black", 0)):
        train, _, _ = load_parts(RunConfig(data=str(tmp_path), background=word))
        assert train.x[..., 0, 0].eq(grey).all()
        parts = {"train": train, "validation": None, "test": None}
        assert describe_data(train, parts)["background"] == [grey]
    with pytest.raises(ValueError, match="background: received 'grey'; accepted are 'auto', 'black' and 'white'"):
        RunConfig(data=str(tmp_path), background="grey")
    with pytest.raises(ValueError, match="background: received white for the named set 'glyphs'; accepted for"):
        load_parts(RunConfig(data="glyphs", background="white"))


def reading_of(monkeypatch, *words, **options):
    """How an audit reads a folder of pictures."""
    seen = []

    def read(data, **how):
        seen.append(how)
        raise ValueError("data: enough")

    monkeypatch.setattr("erlangen.audit.case.as_data", read)
    with pytest.raises(ValueError, match="enough"):
        Audit(*words, **options)._run()
    return seen.pop()


def test_an_audit_is_told_what_pictures_lie_on(tmp_path, monkeypatch):
    told = reading_of(monkeypatch, "model.pt", str(tmp_path), background="white")
    assert told == {"size": None, "unreadable": "raise", "background": "white"}


def test_an_audit_of_a_run_reads_pictures_as_the_run_did(tmp_path, monkeypatch):
    run, data = tmp_path / "run", dict.fromkeys(DATA)
    run.mkdir()
    where = (str(run), str(tmp_path))
    write_record(run, {"config": {"size": 24}, "data": data | {"background": [255]}})
    assert reading_of(monkeypatch, *where) == {"size": 24, "unreadable": "raise", "background": 255}
    asked = reading_of(monkeypatch, *where, size=12, background="black")
    assert asked == {"size": 12, "unreadable": "raise", "background": "black"}
    write_record(run, {"config": {"size": None}, "data": data | {"background": []}})  # of a file or a named set
    assert reading_of(monkeypatch, *where) == {"size": None, "unreadable": "raise", "background": "auto"}


def test_a_part_lies_on_its_own_ground_where_the_first_says_nothing(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "train" / name).mkdir(parents=True)
        Image.new("L", (16, 16), 200).save(tmp_path / "train" / name / "0.png")
        (tmp_path / "test").mkdir(exist_ok=True)
        drawing(tmp_path / "test" / name, "0.png", 0)
    _, test, _ = load_parts(RunConfig(data=str(tmp_path)))
    assert test is not None
    assert test.x[:, 0, [0, 8], [0, 8]].tolist() == [[255, 0], [255, 0]]


def test_only_pictures_with_transparent_and_opaque_pixels_decide_on_the_ground(tmp_path):
    drawing(tmp_path, "bright.png", 200)
    drawing(tmp_path, "nothing.png", 0, alpha=0)
    for k in range(3):
        Image.new("RGBA", (16, 16), (0, 0, 0, 255)).save(tmp_path / f"covered{k}.png")
        Image.new("L", (16, 16)).save(tmp_path / f"grey{k}.png")
    (tmp_path / "broken.png").touch()
    x = load_images(str(tmp_path), unreadable="skip").x
    assert len(x) == 8
    assert x[0, 0, [0, 8], [0, 8]].tolist() == [0, 200]


def test_a_background_and_what_is_unreadable_are_for_folders(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 9, 9), np.uint8))
    for source in (str(tmp_path / "mine.npz"), "glyphs"):
        with pytest.raises(
            ValueError, match=r"background: received white for the .*; accepted for folders of pictures"
        ):
            load_images(source, background="white")
        with pytest.raises(ValueError, match=r"unreadable: received skip for the .*; accepted for folders of pictures"):
            load_images(source, unreadable="skip")
    with pytest.raises(ValueError, match="background: received 'grey'; accepted are 'auto', 'black' and 'white'"):
        load_images(str(tmp_path), background="grey")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "which does not exist"),
        ("nowhere.npz", "which does not exist"),
        ("one.PNG", "which is a single picture"),
        ("rows.csv", "which is no file of images"),
        ("array.npy", r"which holds an array without a name \(np.savez\('images.npz', x=array\) gives it one\)"),
    ],
)
def test_a_file_without_images_is_refused_in_the_words_of_images(tmp_path, name, words):
    if not name.startswith("nowhere"):
        (tmp_path / name).touch()
    accepted = "accepted is a folder of pictures, with or without sub-folders, a .npz file, or a named set .*glyphs"
    with pytest.raises(ValueError, match=f"data: received '.*{name}', {words}; {accepted}") as error:
        load_images(str(tmp_path / name))
    assert "class" not in str(error.value).replace(str(tmp_path), "")


def test_the_training_part_is_read_alone_and_that_is_said(tmp_path, caplog):
    for part, n in (("train", 2), ("test", 3)):
        squares(tmp_path / "mine" / part / "a", n=n)
    assert len(load_images(str(tmp_path / "mine"))) == 2
    assert f"has a training part: the images in {tmp_path / 'mine' / 'train'} are read, and no others." in caplog.text
    caplog.clear()
    assert len(load_images(str(tmp_path / "mine" / "test"))) == 3
    assert not caplog.text
    train, test = (np.zeros((n, 3, 8, 8), np.uint8) for n in (2, 3))
    np.savez(tmp_path / "mine.npz", x_train=train, x_test=test)
    assert len(load_images(str(tmp_path / "mine.npz"))) == 2
    assert "mine.npz has a training and a test part: the images of the first are read, and no others." in caplog.text


@pytest.mark.parametrize("size", [0, 4, 7, 8.5])
def test_a_side_of_a_few_pixels_is_refused_by_its_name(tmp_path, size):
    squares(tmp_path / "mine" / "a", n=2)
    with pytest.raises(ValueError, match=f"size: received {size}; accepted is a number of pixels, at least 8"):
        load_images(str(tmp_path / "mine"), size=size)
    if isinstance(size, int) and size > 0:
        with pytest.raises(ValueError, match=f"size: received {size}; accepted"):
            load_parts(RunConfig(data=str(tmp_path / "mine"), size=size))


def stripes(folder, *sizes, mode="L"):
    """Pictures, given as width and height, whose left and right ends tell what is seen of them."""
    folder.mkdir(parents=True)
    for k, (width, height) in enumerate(sizes):
        pixels = np.full((height, width), 100, np.uint8)
        pixels[:, : width // 5], pixels[:, -(width // 5) :] = 0, 255
        Image.fromarray(pixels).convert(mode).save(folder / f"{k}.png")


@pytest.mark.parametrize(
    ("size", "given", "shape"),
    [
        ((100, 30), None, (19, 64)),
        ((30, 100), None, (64, 19)),
        ((200, 200), None, 64),
        ((60, 30), None, None),
        ((100, 30), (16, 53), (16, 53)),
    ],
)
def test_large_pictures_of_one_size_keep_their_shape_and_their_ends(tmp_path, caplog, size, given, shape):
    for name in ("a", "b"):
        stripes(tmp_path / name, size, size)
    train, _, kept = load_parts(RunConfig(data=str(tmp_path), size=given))
    sides = (size[1], size[0]) if shape is None else (shape, shape) if isinstance(shape, int) else shape
    assert kept == shape
    assert tuple(train.x.shape[2:]) == sides
    levels = train.x[0, 0, sides[0] // 2]
    assert levels[0] < 20
    assert levels[-1] > 235
    assert not caplog.text
    stored = json.loads(json.dumps(vars(RunConfig(size=kept, transform="tx"))))  # which has no pairs
    assert RunConfig.read(stored).size == kept
    assert as_data(tmp_path, size=kept).x.shape == train.x.shape


@pytest.mark.parametrize(
    ("sizes", "options", "lost"),
    [
        ([(100, 30), (30, 90)], {}, "64×64, pictures lose 68 % on average and at most 70 %"),
        ([(100, 30), (100, 30)], {"size": 32}, "32×32, pictures lose 70 % on average and at most 70 %"),
        ([(100, 30), (100, 30)], {"net": "small-cnn"}, "64×64, pictures lose 70 %"),
        ([(100, 30), (100, 30), (100, 31)], {}, "is given. 4 of 6 are 30×100; 2.png is not."),
        ([(100, 95), (64, 64)], {}, None),
    ],
)
def test_what_is_cropped_away_is_said(tmp_path, caplog, sizes, options, lost):
    for name in ("a", "b"):
        stripes(tmp_path / name, *sizes)
    train, _, size = load_parts(RunConfig(data=str(tmp_path), **options))
    assert size == options.get("size", 64)
    assert train.x.shape[2:] == (size, size)
    assert (lost in caplog.text) if lost else not caplog.text
    caplog.clear()
    if "net" not in options:  # which has no say where nothing is classified
        load_images(str(tmp_path), **options)
        assert (lost in caplog.text) if lost else not caplog.text


def test_the_size_is_one_of_both_parts(tmp_path):
    for name in ("a", "b"):
        stripes(tmp_path / "train" / name, (16, 16))
        stripes(tmp_path / "test" / name, (20, 20))
    train, test, size = load_parts(RunConfig(data=str(tmp_path)))
    assert size == 64
    assert train.x.shape[1:] == test.x.shape[1:] == (1, 64, 64)


def test_a_grey_training_part_of_a_test_part_in_colour_has_its_channels(tmp_path):
    for name in ("a", "b"):
        stripes(tmp_path / "train" / name, (16, 16))
        stripes(tmp_path / "test" / name, (16, 16), mode="RGB")
    train, test, _ = load_parts(RunConfig(data=str(tmp_path)))
    assert train.x.shape[1:] == test.x.shape[1:] == (3, 16, 16)
    assert train.x[0, :, 0, -1].tolist() == [255, 255, 255]


@pytest.mark.parametrize("name", ["val", "valid", "validation"])
def test_a_part_for_validation_is_left_alone_and_that_is_said(tmp_path, caplog, name):
    for part in ("train", "test", name):
        for label in ("a", "b"):
            squares(tmp_path / "mine" / part / label)
    arrays = {"x": np.zeros((4, 9, 9), np.uint8), "y": np.arange(4) % 2}
    parts = {f"{key}_{part}": value for part in ("train", name) for key, value in arrays.items()}
    np.savez(tmp_path / "mine.npz", **parts)
    load_parts(RunConfig(data=str(tmp_path / "mine")))
    load_parts(RunConfig(data=str(tmp_path / "mine.npz"), validation=0.0))
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"{tmp_path / 'mine' / name} is not read: for validation, 0.1 of the training part is held out.",
        f"x_{name} in {tmp_path / 'mine.npz'} is not read: for validation, nothing is held out.",
    ]
