"""Figure 8: the accuracies of table 2 against the size of the training set.

The paper plots the mean ± a standard deviation over five folds, of a classifier alone, an STN and a P-STN: P-STN gains
most where there is least to learn from. Here hand-made augmentation and the flow are added.

Time: that of table 2, whose rows it shows.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from ..base import Claim, Row, Rows, experiment
from . import table2
from .draw import by_size

Config = table2.Config
FULL = table2.FULL
SMOKE = table2.SMOKE
PAPER = tuple(
    Claim(
        "deviation",
        f"MNIST{size}: {method}, standard deviation over folds",
        {"method": method, "dataset": f"mnist{size}", "part": "folds"},
        table2.PRINTED[method][k].partition(" ± ")[2],
    )
    for k, size in enumerate(table2.SIZES)
    for method in table2.PRINTED
)


build = table2.build
run = table2.run


def compare(rows: list[Row]) -> list[Row]:
    """The rows that are of all folds."""
    return [row for row in rows if row["part"] == "folds"]


def show(rows: Rows) -> Figure:
    """Accuracy against size, a line for each method."""
    return by_size(rows, table2.METHODS)


EXPERIMENT = experiment(
    "pstn/figure8",
    run,
    show,
    full=FULL,
    smoke=SMOKE,
    paper=PAPER,
    keys=table2.KEYS,
    compare=compare,
    shows="pstn/table2",
)
