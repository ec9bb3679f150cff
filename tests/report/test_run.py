"""The report of a run."""

import re

import numpy as np
import pytest

from erlangen.report.run import Findings, run_page
from erlangen.report.run_figures import Accuracy, Coordinate, Example, class_labels


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([Accuracy("test", 8, 0.5, 0.75), Accuracy("training", 9, 1.0)], "Test 50.0 % as they are, 75.0 % averaged; "),
        ([Accuracy("validation", 8, 0.1234)], "Validation 12.3 % as they are."),
    ],
)
def test_accuracies_can_be_read_where_the_figure_is_cut(rows, words):
    page = run_page(Findings("a run", "", {"seed": "0"}, rows, ()))
    assert f'<p class="note">{words}' in page.replace("\xa0", " ")


@pytest.mark.parametrize(
    ("names", "width", "rings", "histograms"),
    [(["angle"], 242, True, False), (["tx"], 432, False, True), (["angle", "tx", "ty", "scale"], 720, True, True)],
)
def test_distributions_are_as_large_as_drawn_and_explained_as_far_as_shown(names, width, rings, histograms):
    coordinates = [Coordinate(name, -np.pi, np.pi, periodic=name == "angle") for name in names]
    example = Example(np.zeros((8, 8, 3), np.uint8), "a", "a", 1.0, np.zeros((10, len(names))))
    found = Findings("a run", "", {"seed": "0"}, [Accuracy("test", 8, 0.5)], (), coordinates, True, [example])
    page = run_page(found)
    section = page[page.index('id="learned-distributions"') : page.index('id="views"')]
    assert re.search(r"minmax\(0, (\d+)px\)", section)[1] == str(width)
    text = re.sub("<img[^>]+>", "", section)
    assert (("ring" in text), ("histogram" in text)) == (rings, histograms)
    assert f"What lies {'far out around a ring' if rings else 'high in a histogram'} " in text
    assert ", is likely" not in text


def test_classes_with_names_that_shorten_to_the_same_are_told_apart():
    classes = [f"a class of many words {k} and of more after it" for k in range(3)] + [
        "short",
        "another long name of a class",
    ]
    labels, shown = np.array([0, 2, 3, 4]), [f"{k}. a class of m…re after it" for k in (1, 3)]
    assert class_labels(labels.tolist(), classes) == [*shown, "short", "another long… of a class"]
    found = Findings(
        *("a run", "", {"seed": "0"}, [Accuracy("test", 4, 0.5)], (), [Coordinate("tx", -1.0, 1.0)], True),
        examples=[Example(np.zeros((8, 8, 3), np.uint8), "short", "short", 1.0, np.zeros((10, 1)))],
        half_ranges=np.ones((4, 1)),
        labels=labels,
        classes=classes,
    )
    said = f"4 images, the first 4 of 5 classes. {shown[0]} is {classes[0]}; {shown[1]} is {classes[2]}</p>"
    assert said in run_page(found)
