"""What a transform of one's own is made of."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import constraints

from erlangen.transforms import FiniteGroup, Rotations, Transform

RANGE = torch.tensor([[-1.0, 0.0], [1.0, 2.0]])
NAMES = ("shift", "gain")


@pytest.mark.parametrize("bounds", [RANGE, RANGE.tolist(), RANGE.numpy()])
def test_bounds_may_be_any_numbers(bounds):
    made = Transform(NAMES, bounds, origin=torch.tensor([0.0, 1.0]), periods=[2.0, 0.0])
    assert torch.equal(made.bounds, RANGE)
    assert made.origin.tolist() == [0.0, 1.0]
    assert made.periodic == (True, False)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"names": "xy"}, "names: received str 'xy'; accepted are different names"),
        ({"names": ()}, r"names: received tuple \(\); accepted"),
        ({"names": ("a", "a")}, "names: received tuple .*; accepted are different names"),
        ({"names": (1, 2)}, "names: received tuple"),
        ({"bounds": {"shift": 1.0}}, "bounds: received dict .*; accepted is a finite low <= high for each of 2 coord"),
        ({"bounds": RANGE[:, :1]}, r"bounds: received \[\[-1.0\], \[1.0\]\]; accepted is .*, \(2, 2\)"),
        ({"bounds": RANGE.flip(0)}, "bounds: received .*; accepted is a finite low <= high"),
        ({"bounds": RANGE * math.inf}, "bounds: received .*; accepted is a finite low <= high"),
        ({"bounds": np.full((2, 2), math.nan)}, "bounds: received .*; accepted is a finite low <= high"),
        ({"origin": [0.0]}, r"origin: received list \[0.0\]; accepted is one for each of shift, gain, or None"),
        ({"periods": [1.0]}, "periods: received list"),
        ({"supports": [constraints.real]}, "supports: received list"),
    ],
)
def test_what_does_not_fit_is_named(change, match):
    with pytest.raises(ValueError, match=f"^{match}"):
        Transform(**{"names": NAMES, "bounds": RANGE, **change})


@pytest.mark.parametrize(
    "table",
    [
        [[0, 1], [1, 0]],
        torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
        torch.tensor([[0, 1], [1, 1]]),
        torch.tensor([[1, 0], [0, 1]]),
        torch.tensor([[0, 1]]),
    ],
)
def test_a_table_that_is_not_of_a_group_is_refused(table):
    with pytest.raises(ValueError, match=r"^table: received .*; accepted is whole numbers \(n, n\), each of 0, "):
        FiniteGroup(table)


def test_a_group_may_have_one_element():
    assert Rotations(1).bounds.tolist() == [[0.0], [0.0]]
