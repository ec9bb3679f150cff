import math

import pytest
import torch

from erlangen.data import DataSet, PosedSet


def images(n=30, classes=3, device="cpu"):
    x = torch.arange(n, dtype=torch.uint8).reshape(n, 1, 1, 1).expand(n, 1, 4, 4).contiguous()
    return DataSet(x, torch.arange(n) % classes, tuple("abcdef"[:classes]), "letters")


def posed(n=8):
    return PosedSet(torch.zeros(n, 3, 4, 4), torch.zeros(n).long(), ("a",), "turned", torch.linspace(-1, 1, n))


def test_a_set_is_plain():
    data = images()
    assert len(data) == 30
    assert data.counts() == [10, 10, 10]
    assert repr(data) == "DataSet 'letters': 30 of (1, 4, 4), uint8, 3 classes"
    series = DataSet(torch.zeros(2, 5, 7), torch.tensor([0, 0]), ("a", "b"), "series")
    assert series.counts() == [2, 0]


def test_subset_by_index_and_by_mask():
    data = images()
    assert data.subset(torch.tensor([4, 1])).x[:, 0, 0, 0].tolist() == [4, 1]
    mask = data.y == 2
    assert data.subset(mask, name="c").x[:, 0, 0, 0].tolist() == list(range(2, 30, 3))
    assert data.subset(mask, name="c").name == "c"
    assert posed().subset(torch.tensor([0, 7])).angle.tolist() == [-1, 1]


def test_to_moves_every_tensor():
    moved = posed().to("meta")
    assert {moved.x.device.type, moved.y.device.type, moved.angle.device.type} == {"meta"}


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.99])
def test_split_is_stratified_disjoint_and_whole(fraction):
    data = images(60)
    rest, aside = data.split(fraction, seed=1)
    assert aside.counts() == [min(max(round(20 * fraction), 1), 19)] * 3
    seen = torch.cat((rest.x, aside.x))[:, 0, 0, 0].tolist()
    assert sorted(seen) == list(range(60))
    for part in (rest, aside):
        places = part.x[:, 0, 0, 0].tolist()
        assert places == sorted(places)  # the order of the set is kept


def test_split_depends_on_its_seed_alone():
    data = images(60)
    torch.manual_seed(1)
    first = data.split(0.3, seed=5)[1].x
    torch.manual_seed(2)
    assert torch.equal(first, data.split(0.3, seed=5)[1].x)
    assert not torch.equal(first, data.split(0.3, seed=6)[1].x)


def test_both_sides_keep_every_class():
    data = DataSet(torch.zeros(12, 1, 2, 2), torch.tensor([0] * 10 + [2] * 2), ("many", "none", "two"), "tail")
    rest, aside = data.split(0.05, seed=0)
    assert rest.counts() == [9, 0, 1]
    assert aside.counts() == [1, 0, 1]


def test_a_class_of_one_is_named():
    data = DataSet(torch.zeros(4, 1, 2, 2), torch.tensor([0, 0, 0, 1]), ("cat", "dog"), "pets")
    with pytest.raises(ValueError, match=r"single signal of the class 'dog'.*at least two of each class: add some"):
        data.split(0.5, seed=0)


X, Y = torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.long)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[0, 0], Y, "x: received a float32 tensor of shape"),
        (X.long(), Y, "x: received a int64 tensor"),
        (X[:0], Y[:0], "x: received .* none empty"),
        (torch.zeros(4, 2, 2, dtype=torch.uint8), Y, "x: received a uint8 tensor"),
        (X.numpy(), Y, "x: received ndarray"),
        (X, Y[:3], "y: received a int64 tensor of shape \\(3,\\).*one int64 label for each of 4"),
        (X, Y.int(), "y: received a int32"),
        (X, Y + 2, "y: received labels without a class \\(4 of 4 entries\\); accepted is 0 to 1"),
        (X, Y - 1, "y: received labels without a class"),
        (X, Y.to("meta"), "but x is on cpu"),
    ],
)
def test_bad_sets_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        DataSet(x, y, ("a", "b"), "bad")


@pytest.mark.parametrize(
    "index",
    [torch.tensor([30]), torch.tensor([-1]), torch.tensor([1.0]), torch.zeros(30).bool(), torch.ones(29).bool()],
)
def test_bad_indices_are_refused(index):
    with pytest.raises(ValueError, match="index: received"):
        images().subset(index)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, math.nan, "half"])
def test_bad_fractions_are_refused(fraction):
    with pytest.raises(ValueError, match="fraction: received"):
        images().split(fraction, seed=0)


def test_angles_belong_to_signals():
    with pytest.raises(ValueError, match=r"angle: received .* one angle for each of 4"):
        PosedSet(X, Y, ("a",), "bad", torch.zeros(3))
