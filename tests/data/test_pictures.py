import pytest
import torch
import torch.nn.functional as F

from erlangen.data import LABELS, landmarks, picture, picture_mask, series
from erlangen.transforms import HSV, Affine, Dihedral, Flips, Shifts, to_pixels

SIZES = [(128, 128), (64, 128), (96, 40), (7, 5), (1, 1)]


@pytest.mark.parametrize("size", SIZES)
def test_picture_has_its_size_and_range(size):
    x = picture(size)
    assert x.shape == (3, *size)
    assert x.dtype == torch.float64
    assert x.min() >= 0
    assert x.max() <= 1
    assert picture_mask(size).shape == (1, *size)


def test_everything_is_the_same_every_time():
    assert torch.equal(picture((40, 50)), picture((40, 50)))
    assert torch.equal(picture_mask((40, 50)), picture_mask((40, 50)))
    assert torch.equal(series(100), series(100))


def test_types_follow_the_default():
    torch.set_default_dtype(torch.float32)
    assert picture((8, 8)).dtype == series(8).dtype == landmarks()["sun"].dtype == torch.float32


@pytest.mark.parametrize("size", [(64, 64), (48, 96)])
def test_sizes_agree(size):
    """A large picture, averaged down, is the small one: hard edges would be off by up to 1."""
    large = picture([4 * n for n in size])
    assert (F.avg_pool2d(large.unsqueeze(0), 4)[0] - picture(size)).abs().max() < 0.05


def test_no_symmetry():
    x = picture((64, 64)).unsqueeze(0)
    group = Dihedral(4)
    moved = group.act(group.elements()[1:, None], x)
    assert (moved - x).abs().mean((1, 2, 3, 4)).min() > 0.05
    assert (Shifts(4).act(torch.tensor([[1], [2], [3]]), x) - x).abs().mean((1, 2, 3, 4)).min() > 0.05


def test_small_changes_show():
    x = picture((64, 64)).unsqueeze(0)
    for transform in (Affine("shear"), Affine("stretch"), HSV("hue"), HSV("saturation")):
        assert (transform(x, torch.tensor([[0.15]])) - x).abs().mean() > 0.02


@pytest.mark.parametrize("size", [(128, 128), (96, 192), (200, 120)])
def test_landmarks_lie_on_their_regions(size):
    mask = picture_mask(size)[0]
    marks = landmarks(size)
    # Corners lie on the boundary: a quarter of the way to the middle is inside.
    for name in ("sail", "jib"):
        inside = marks[name].lerp(marks[name].mean(0), 0.25)
        columns, rows = to_pixels(inside, size).round().long().T
        assert (mask[rows, columns] == LABELS.index(name)).all()
    column, row = to_pixels(marks["sun"], size).round().long()[0]
    assert mask[row, column] == LABELS.index("sun")


@pytest.mark.parametrize("size", [(128, 128), (96, 192)])
def test_the_box_holds_the_boat(size):
    mask = picture_mask(size)[0]
    boat = sum(mask == LABELS.index(name) for name in ("hull", "sail", "jib"))
    rows, columns = boat.nonzero().T
    left, top = to_pixels(landmarks(size)["boat"], size).amin(0)
    right, bottom = to_pixels(landmarks(size)["boat"], size).amax(0)
    assert left <= columns.min()
    assert columns.max() <= right
    assert top <= rows.min()
    assert rows.max() <= bottom


def test_every_label_occurs():
    assert picture_mask((64, 64)).unique().tolist() == list(range(len(LABELS)))


def test_series():
    t = series(256)
    assert t.shape == (2, 256)
    assert t.abs().max() <= 1
    assert (Flips().act(torch.tensor([1]), t.unsqueeze(0)) - t).abs().mean((0, 2)).min() > 0.05
    coarse = F.avg_pool1d(series(1024).unsqueeze(0), 4)[0]
    assert (coarse - t).abs().max() < 0.05


@pytest.mark.parametrize("call", [lambda: picture((0, 4)), lambda: picture_mask((4,)), lambda: landmarks((4, -1))])
def test_bad_sizes_are_refused(call):
    with pytest.raises(ValueError, match="size: received"):
        call()


def test_a_bad_length_is_refused():
    with pytest.raises(ValueError, match="length: received 0"):
        series(0)
