import numpy as np
import pytest
import torch

from erlangen.data import npz

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 5, 4), np.uint8)
COLOUR = RNG.integers(0, 256, (6, 3, 5, 4), np.uint8)
Y = np.array([2, 0, 1, 2, 0, 1])


@pytest.fixture
def write(tmp_path):
    def save(**arrays):
        np.savez(tmp_path / "mine.npz", **arrays)
        return tmp_path / "mine.npz"

    return save


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (GREY, (6, 1, 5, 4)),
        (COLOUR, (6, 3, 5, 4)),
        (np.moveaxis(COLOUR, 1, 3), (6, 3, 5, 4)),
        (GREY[..., None], (6, 1, 5, 4)),
        (COLOUR / 255, (6, 3, 5, 4)),
        (COLOUR / 255 * (1 + 1e-6), (6, 3, 5, 4)),  # rounded
        (RNG.normal(size=(6, 9)), (6, 1, 9)),
        (RNG.normal(size=(6, 2, 9)).astype(np.float16), (6, 2, 9)),
    ],
)
def test_signals(write, x, shape):
    data = npz(write(x=x, y=Y))
    assert data.x.shape == shape
    assert data.x.dtype == (torch.uint8 if x.dtype == np.uint8 else torch.float32)
    assert data.y.tolist() == Y.tolist()
    assert data.name == "mine"
    assert data.classes == ("0", "1", "2")
    flat = np.moveaxis(x, 3, 1) if x.ndim == 4 and x.shape[1] not in (1, 3) else x
    assert np.allclose(data.x.numpy().ravel(), flat.ravel())
    assert x.ndim < 4 or data.x.max() <= (255 if x.dtype == np.uint8 else 1)


def test_square_series_that_may_be_images_are_mentioned(write, caplog):
    levels = RNG.random((6, 5, 5))
    assert npz(write(x_train=levels, y_train=Y, x_test=levels, y_test=Y)).x.shape == (6, 5, 5)
    assert "x of shape (6, 5, 5) in floating-point are read as series of 5 channels; as grey images" in caplog.text
    caplog.clear()
    for x in (levels[:, :4], levels - 1, levels[..., None]):
        npz(write(x=x, y=Y))
    npz(write(x_train=levels, y_train=Y, x_test=levels, y_test=Y), split="test")  # once is enough
    assert caplog.text == ""


def test_series_with_more_channels_than_moments_are_mentioned(write, caplog):
    """Other libraries have time before channels."""
    assert npz(write(x=RNG.normal(size=(6, 9, 3)), y=Y)).x.shape == (6, 9, 3)
    read = "x of shape (6, 9, 3) in floating-point are read as series of 9 channels and 3 moments; np.swapaxes(x, 1, 2)"
    assert read in caplog.text


def test_labels_of_every_kind(write):
    assert npz(write(x=GREY, y=Y * 10 - 7)).classes == ("-7", "3", "13")
    assert npz(write(x=GREY, y=Y * 10 - 7)).y.tolist() == Y.tolist()
    named = npz(write(x=GREY, y=np.array(["c", "a", "b"])[Y]))
    assert named.classes == ("a", "b", "c")
    assert named.y.tolist() == [1, 2, 0, 1, 2, 0]  # b, c, a, b, c, a
    given = npz(write(x=GREY, y=Y, classes=np.array(["cat", "dog", "eel", "fox"])))
    assert given.classes == ("cat", "dog", "eel", "fox")
    assert given.y.tolist() == Y.tolist()
    ordered = npz(write(x=GREY, y=np.array(["fox", "cat"])[Y % 2], classes=np.array(["fox", "eel", "cat"])))
    assert ordered.classes == ("fox", "eel", "cat")
    assert ordered.y.tolist() == (2 * (Y % 2)).tolist()


def test_parts_share_their_classes(write):
    path = write(x_train=GREY, y_train=Y, x_test=GREY[:2], y_test=np.array([3, 2]))
    assert npz(path).classes == npz(path, split="test").classes == ("0", "1", "2", "3")
    assert npz(path, split="test").y.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": GREY}, "with x; accepted for 'train' are x and y, or x_train and y_train"),
        ({}, "with no arrays"),
        ({"x": GREY, "y": Y[:5]}, r"received y of shape \(5,\) for 6 signals"),
        ({"x": GREY, "y": Y[:, None]}, r"received y of shape \(6, 1\)"),
        ({"x": GREY, "y": Y / 1}, "received y of the type float64; accepted are integers or strings"),
        ({"x": GREY, "y": Y, "classes": np.array(["a", "b"])}, "labels 0 to 2 and 2 classes"),
        ({"x": GREY, "y": Y, "classes": np.array([1, 2, 3])}, "classes of the type int64"),
        ({"x": GREY, "y": np.array(list("abcabd")), "classes": np.array(list("abc"))}, r"the labels \['d'\]"),
        ({"x": GREY, "y": Y, "classes": np.array(list("aba"))}, "classes with the same name"),
        ({"x": GREY.astype(np.int64), "y": Y}, "received x of the type int64"),
        ({"x": GREY[:0], "y": Y[:0]}, r"shape \(0, 5, 4\)"),
        ({"x": np.zeros((6, 5, 4, 2)), "y": Y}, "accepted are images of 1 or 3 channels"),
        ({"x": COLOUR / 1.0, "y": Y}, r"accepted are images within \[0, 1\] or in uint8"),
        ({"x": np.full((6, 1, 4, 4), np.nan), "y": Y}, "received images from nan"),
        ({"x": np.full((6, 9), np.nan), "y": Y}, r"mine.npz: series\[0\]: received no values at all"),
        ({"x": np.full((6, 9), np.inf), "y": Y}, r"series\[0\]: received infinite values"),
        ({"x": np.zeros(6), "y": Y}, r"shape \(6,\)"),
    ],
)
def test_bad_files_are_refused(write, arrays, message):
    with pytest.raises(ValueError, match=message):
        npz(write(**arrays))


def test_pickles_are_refused(write):
    with pytest.raises(ValueError, match=r"accepted is a .npz file without pickles"):
        npz(write(x=GREY, y=np.array([{}] * 6)))


def test_broken_and_missing_files_are_refused(write, tmp_path):
    path = write(x=GREY, y=Y)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"accepted is a .npz file without pickles"):
        npz(path)
    np.savez_compressed(path, x=np.arange(3000), y=Y)
    path.write_bytes(path.read_bytes()[:60] + bytes(90) + path.read_bytes()[150:])  # an error of zlib's own
    with pytest.raises(ValueError, match=r"accepted is a .npz file without pickles"):
        npz(path)
    path.write_bytes(b"<!doctype html>")
    with pytest.raises(ValueError, match=r"without pickles \(it begins as no such file does\)"):
        npz(path)
    np.save(tmp_path / "one.npy", GREY)
    with pytest.raises(ValueError, match="it holds a single array"):
        npz(tmp_path / "one.npy")
    with pytest.raises(ValueError, match=r"path: received '.*none.npz', which is no file"):
        npz(tmp_path / "none.npz")


def test_a_file_without_parts_has_no_test_part(write):
    with pytest.raises(ValueError, match="accepted for 'test' are x_test and y_test"):
        npz(write(x=GREY, y=Y), split="test")
