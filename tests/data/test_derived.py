import colorsys
import math

import pytest
import torch

from erlangen.data import DataSet, coloured, long_tail, long_tail_counts, rotated

TAIL = [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500]


def even(n=50_000, classes=10, size=1):
    x = torch.arange(n, dtype=torch.float32).reshape(n, 1, 1, 1).expand(n, 1, size, size)
    return DataSet(x, torch.arange(n) % classes, tuple(map(str, range(classes))), "even")


def test_counts_are_those_of_the_published_long_tail():
    assert long_tail_counts(5000, 10) == TAIL
    assert sum(TAIL) == 20_431
    assert long_tail_counts(100, 3, 0.01) == [100, 10, 1]
    assert long_tail_counts(7, 1) == [7]
    assert long_tail_counts(100, 2, 0.29) == [100, 29]  # in floating-point the product is less
    assert long_tail_counts(49, 2, 1 / 49) == [49, 1]


def test_the_first_of_each_class_are_kept_in_order():
    data = long_tail(even())
    assert data.counts() == TAIL
    assert data.name == "even-lt"
    places = data.x.flatten().long()
    assert torch.equal(places, places.sort().values)
    for c, n in enumerate(TAIL):
        assert torch.equal(places[data.y == c], c + 10 * torch.arange(n))


def test_the_largest_class_is_the_smallest_that_there_is_unless_said():
    data = even(100).subset(torch.arange(95))
    assert long_tail(data, 0.5).counts()[0] == 9
    assert long_tail(data, 0.5, largest=6).counts()[0] == 6
    with pytest.raises(ValueError, match="largest: received 12, but '0' has 10, not 12"):
        long_tail(data, 0.5, largest=12)


@pytest.mark.parametrize(
    ("factor", "message"), [(0, "0; accepted"), (1.5, "1.5"), (0.001, "leaves the last class empty")]
)
def test_bad_factors_are_refused(factor, message):
    with pytest.raises(ValueError, match=f"factor: received.*{message}"):
        long_tail_counts(100, 10, factor)


def picture_set(n=64):
    x = torch.randint(0, 256, (n, 3, 9, 9)).to(torch.uint8)
    return DataSet(x, torch.arange(n) % 2, ("a", "b"), "pictures")


def test_rotated_turns_by_the_angles_that_it_returns():
    data = picture_set()
    turned = rotated(data, math.pi / 2, seed=1)
    assert turned.x.dtype == torch.uint8
    assert torch.equal(turned.y, data.y)
    assert turned.angle.abs().max() <= math.pi / 2
    assert turned.angle.min() < -1
    assert turned.angle.max() > 1
    assert torch.equal(rotated(data, 0.0, seed=1).x, data.x)
    assert torch.equal(rotated(data, math.pi / 2, seed=1).x, turned.x)
    assert not torch.equal(rotated(data, math.pi / 2, seed=2).x, turned.x)


def test_turning_a_quarter_is_rot90(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda n, **_: torch.full((n,), 0.75, dtype=torch.float64))
    data = picture_set()
    assert torch.equal(rotated(data, math.pi, seed=0).x, torch.rot90(data.x, 1, (-2, -1)))


def test_angles_add_up():
    once = rotated(picture_set(), math.pi, seed=1)
    twice = rotated(once, 1.0, seed=2)
    assert twice.angle.abs().max() <= math.pi
    more = torch.remainder(twice.angle - once.angle + math.pi, 2 * math.pi) - math.pi
    assert more.abs().max() <= 1


def test_floats_stay_what_they_are():
    data = even(4, 2, size=5)
    assert rotated(data, 1.0, seed=0).x.dtype == torch.float32


def test_bad_arguments_are_refused():
    series = DataSet(torch.zeros(2, 1, 5), torch.zeros(2).long(), ("a",), "series")
    with pytest.raises(ValueError, match=r"data: received a float64 tensor .*; accepted is a DataSet of images"):
        rotated(torch.rand(2, 1, 4, 4), seed=0)
    with pytest.raises(ValueError, match=r"data: received DataSet 'series'.*accepted are images"):
        rotated(series, 1.0, seed=0)
    with pytest.raises(ValueError, match="spread: received 180"):
        rotated(picture_set(), 180, seed=0)


def test_colours_are_those_that_are_said():
    grey = DataSet(torch.randint(1, 256, (50, 1, 4, 4), dtype=torch.uint8), torch.zeros(50).long(), ("a",), "grey")
    data = coloured(grey, seed=3)
    assert data.x.shape == (50, 3, 4, 4)
    assert data.name == "grey-coloured"
    hue, saturation = data.factors.unbind(-1)
    assert ((hue >= 0) & (hue <= 0.6 * math.pi)).all()
    assert ((saturation >= 0.6) & (saturation <= 0.9)).all()
    for i in range(5):
        pixel = data.x[i].flatten(1)[:, grey.x[i].flatten().argmax()].double() / 255
        h, s, _ = colorsys.rgb_to_hsv(*pixel.tolist())
        assert abs(h * 2 * math.pi - hue[i]) < 0.05
        assert abs(s - saturation[i]) < 0.02
    torch.testing.assert_close(data.x.amax(1), grey.x[:, 0])  # the value stays
    assert torch.equal(coloured(grey, seed=3).x, data.x)


def test_only_grey_images_are_coloured():
    colour = DataSet(torch.zeros(2, 3, 4, 4), torch.zeros(2).long(), ("a",), "colour")
    with pytest.raises(ValueError, match="accepted are grey images"):
        coloured(colour, seed=0)
    grey = DataSet(torch.zeros(2, 1, 4, 4), torch.zeros(2).long(), ("a",), "grey")
    with pytest.raises(ValueError, match="saturation: received"):
        coloured(grey, saturation=(0.5, 1.2), seed=0)


@pytest.mark.parametrize("ends", [0.3, (0, 1, 2), (0.0, math.inf), (math.nan, 1.0), (1.0, 0.5), "01", ("a", "b")])
@pytest.mark.parametrize("name", ["hue", "saturation"])
def test_colours_have_a_lowest_and_a_highest(name, ends):
    grey = DataSet(torch.rand(2, 1, 8, 8), torch.zeros(2).long(), ("a",), "grey")
    with pytest.raises(ValueError, match=rf"{name}: received .*; accepted is two .*numbers, low <= high"):
        coloured(grey, **{name: ends}, seed=0)
