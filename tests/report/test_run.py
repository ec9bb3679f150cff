"""The report of a run."""

import pytest

from erlangen.report.run import Findings, run_page
from erlangen.report.run_figures import Accuracy


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([Accuracy("test", 8, 0.5, 0.75), Accuracy("training", 9, 1.0)], "Test 50.0 % as they are, 75.0 % averaged; "),
        ([Accuracy("validation", 8, 0.1234)], "Validation 12.3 % as they are."),
    ],
)
def test_accuracies_can_be_read_where_the_figure_is_cut(rows, words):
    page = run_page(Findings("a run", "", {"seed": "0"}, rows, ()))
    assert f'<p class="note">{words}' in page
