import pytest
import torch

from erlangen.data import DataSet, folds


def numbered(n=60, classes=3):
    x = torch.arange(n, dtype=torch.float32).reshape(n, 1, 1).expand(n, 1, 2).contiguous()
    return DataSet(x, torch.arange(n) % classes, tuple("abc"[:classes]), "letters")


def places(data):
    return data.x[:, 0, 0].long().tolist()


def test_folds_are_even_and_share_nothing():
    parts = folds(numbered(), 6, count=4, seed=1, validation=6)
    assert len(parts) == 4
    seen = []
    for train, validation in parts:
        assert train.counts() == validation.counts() == [2, 2, 2]
        assert places(train) == sorted(places(train))
        seen += places(train) + places(validation)
    assert len(seen) == len(set(seen)) == 48
    assert parts[0].train.name == "letters-6"


def test_training_folds_do_not_depend_on_validation():
    with_, without = folds(numbered(), 9, seed=3, count=2, validation=12), folds(numbered(), 9, seed=3, count=2)
    assert [places(a.train) for a in with_] == [places(b.train) for b in without]
    assert all(fold.validation is None for fold in without)
    assert places(folds(numbered(), 9, seed=4, count=2)[0].train) != places(without[0].train)


def test_an_uneven_size_gives_the_first_classes_one_more():
    assert folds(numbered(), 8, count=1)[0].train.counts() == [3, 3, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 2}, "size: received 2; accepted is at least 3, one signal of each class"),
        ({"size": 30}, "size: received 5 folds of 30 and 0 for validation, but 'a' has 20, not 50"),
        ({"size": 6, "count": 0}, "count: received int 0"),
        ({"size": 6, "validation": -1}, "validation: received -1"),
        ({"size": 6, "count": 3, "validation": 18}, "'a' has 20, not 24"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        folds(numbered(), **arguments)
