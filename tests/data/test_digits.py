import pytest
import torch

from erlangen.data import digits


def test_drawn_digits_are_labelled_in_the_order_that_is_asked_for():
    every, some = digits("drawn"), digits("drawn", which=(4, 1), n=30)
    assert every.x.shape == (2000, 1, 28, 28)
    assert every.counts() == [200] * 10
    assert some.classes == ("4", "1")
    assert len(some) == 30
    pictures = [{image.numpy().tobytes() for image in every.x[every.y == digit]} for digit in (4, 1)]
    for image, label in zip(some.x, some.y.tolist(), strict=True):
        assert image.numpy().tobytes() in pictures[label] - pictures[1 - label]
    assert not torch.equal(digits("drawn", "test").x, every.x)


@pytest.mark.parametrize(("source", "split"), [("font", "train"), ("drawn", "all")])
def test_other_sources_and_parts_are_refused(source, split):
    with pytest.raises(ValueError, match="received"):
        digits(source, split)
