"""Which output of a model is which class of the data."""

import pytest
import torch

from erlangen.audit import Settings, audit
from erlangen.audit.labels import labels_of
from erlangen.data import DataSet, npz

from .cases import Halves, halves


def data(*classes):
    y = torch.arange(2 * len(classes)) % len(classes)
    return DataSet(torch.zeros(len(y), 1, 2, 2, dtype=torch.uint8), y, classes, "some")


@pytest.mark.parametrize(
    ("classes", "outputs", "options", "expected", "note"),
    [
        (("0", "1", "2"), 3, {}, [0, 1, 2], None),
        (("0", "1"), 3, {}, [0, 1], None),
        (("cat", "dog"), 2, {}, [0, 1], None),
        (("6",), 10, {}, [6], "Labels are taken for the numbers of outputs"),
        (("2", "7"), 10, {}, [2, 7], "numbers of outputs"),
        (("1", "2", "3"), 3, {}, [0, 1, 2], "classes 1, 2, 3 are taken for outputs 0 to 2, in this order"),
        (("0", "1", "10", "2"), 4, {}, [0, 1, 2, 3], "classes 0, 1, 10, 2 are taken for outputs 0 to 3"),
        (("dog",), 3, {}, [0], "The class dog is output 0"),
        (("dog", "cat"), 3, {"wanted": ("ant", "cat", "dog")}, [2, 1], None),
        (("dog", "cat"), 3, {"known": ("ant", "cat", "dog")}, [2, 1], None),
        (("1", "0"), 2, {"known": ("0", "1")}, [1, 0], None),
        (("dog", "cow"), 2, {"known": ("ant", "cat"), "wanted": ("cow", "dog")}, [1, 0], None),
        (("0", "1"), 2, {"known": ("ant", "cat"), "named": False}, [0, 1], None),
        (("1", "0"), 2, {"known": ("0", "1"), "named": False}, [1, 0], None),
    ],
)
def test_outputs_of_classes(classes, outputs, options, expected, note):
    found = labels_of(data(*classes), outputs, **{"wanted": None, "known": None, **options})
    assert found.y.tolist() == expected * 2
    assert len(found.names) == outputs
    assert (found.note is None) if note is None else (note in found.note)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("cat", "dog"), "received 2 names"),
        (("a", "b", "c"), "received no dog, which the data have"),
        (("dog", "dog", "cat"), "3 different names"),
    ],
)
def test_names_that_do_not_fit_are_a_sentence(wanted, words):
    with pytest.raises(ValueError, match=words):
        labels_of(data("dog"), 3, wanted=wanted, known=None)
    with pytest.raises(ValueError, match="labels up to 3; accepted are 0 to 2"):
        labels_of(data("a", "b", "c", "d"), 3, wanted=None, known=None)


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (
            ("cat", "cow"),
            "the class cow, which the model does not have .it has ant, cat, dog.; accepted are its classes",
        ),
        (("0", "1", "2"), "the classes 0, 1, 2, which the model does not have"),
        (("0",), "the class 0, which"),
    ],
)
def test_classes_that_a_model_with_names_does_not_have_are_refused(classes, words):
    with pytest.raises(ValueError, match=words):
        labels_of(data(*classes), 3, wanted=None, known=("ant", "cat", "dog"))


def test_a_file_with_some_of_the_classes_is_measured_by_their_numbers(tmp_path):
    """Its classes are those that occur; the outputs of the model are more."""
    import numpy as np

    x, y = halves(30)
    some = y != 0
    np.savez(tmp_path / "some.npz", x=(x[some] * 255).byte().numpy(), y=y[some].numpy())
    found = audit(Halves(), npz(tmp_path / "some.npz"), ["flip"], settings=Settings(saliency=0))
    assert found.plain["accuracy"].mean == 1
    assert "Labels are taken for the numbers of outputs." in found.notes
    named = Settings(saliency=0, classes=("1", "2", "else"))
    assert audit(Halves(), npz(tmp_path / "some.npz"), ["flip"], settings=named).plain["accuracy"].mean < 0.5
