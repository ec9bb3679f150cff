"""Errors of angles and of boxes."""

import math

import pytest
import torch

from erlangen.metrics import angle_error, box_overlap

UNIT = torch.tensor([0.0, 0.0, 1.0, 1.0])


def test_of_nothing_there_is_no_error():
    assert angle_error(torch.zeros(0), torch.zeros(0)).printed.shape == (0,)
    assert box_overlap(torch.zeros(0, 4), UNIT).shape == (0,)
    assert box_overlap(UNIT.expand(2, 1, 4), UNIT.expand(3, 4)).shape == (2, 3)


def test_equation_18_forgives_half_a_turn_and_the_circle_does_not():
    truth = torch.tensor([0.0, 3.0, -3.0, 1.0])
    found = truth + torch.tensor([0.5, math.pi, 2 * math.pi, -0.5])
    error = angle_error(found, truth)
    torch.testing.assert_close(error.circular, torch.tensor([0.5, math.pi, 0.0, 0.5]))
    expected = torch.tensor([0.5, 0.0, 0.0, 0.5])
    gap = (error.printed - expected).abs()
    assert torch.minimum(gap, math.pi - gap).max() < 1e-6  # rounding decides on which side of π
    assert (error.printed >= 0).all()


def test_what_chance_gives():
    truth, found = (math.pi * (2 * torch.rand(2, 200_000) - 1)).unbind()
    error = angle_error(found, truth)
    # The standard deviation of a mean is at most 0.91 / sqrt(200000) = 0.002.
    assert error.printed.mean().item() == pytest.approx(5 * math.pi / 12, abs=0.012)
    assert error.circular.mean().item() == pytest.approx(math.pi / 2, abs=0.012)


def test_boxes():
    unit = torch.tensor([0.0, 0.0, 1.0, 1.0])
    others = torch.tensor(
        [[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0], [0.0, 0.0, 2.0, 1.0], [0.5, 0.5, 1.5, 1.5], [1.0, 0.0, 2.0, 1.0]]
    )
    torch.testing.assert_close(box_overlap(others, unit), torch.tensor([1, 0, 1 / 2, 1 / 7, 0]))
    torch.testing.assert_close(box_overlap(unit, others), box_overlap(others, unit))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: angle_error(torch.zeros(3), torch.zeros(2)), "^truth"),
        (lambda: angle_error(torch.zeros(3, dtype=torch.long), torch.zeros(3)), "^angle"),
        (lambda: angle_error([0.1], torch.zeros(1)), r"^angle: received list \[0.1\]"),
        (lambda: angle_error(torch.zeros(1), [0.1]), r"^truth: received list \[0.1\]"),
        (lambda: box_overlap([0, 0, 1, 1], UNIT), r"^box: received list"),
        (lambda: box_overlap(UNIT.expand(3, 4), UNIT.expand(2, 4)), r"^truth: .* that broadcast with \(3, 4\)"),
        (lambda: box_overlap(torch.tensor([0, 0, math.inf, 1]), UNIT), "^box: .*without an end"),
        (lambda: box_overlap(torch.tensor([0, 0, math.nan, 1]), UNIT), "^box: received boxes without an area"),
        (lambda: box_overlap(torch.zeros(3), torch.zeros(4)), r"^box: received .*\(\.\.\., 4\)"),
        (lambda: box_overlap(torch.tensor([1.0, 0, 0, 1]), torch.tensor([0.0, 0, 1, 1])), "^box: .*without an area"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float16])
def test_boxes_of_pixels(dtype):
    """Whole numbers, and half precision, in which the area of 300 × 200 pixels is infinite."""
    far = box_overlap(torch.tensor([0, 0, 10, 10], dtype=dtype), torch.tensor([20, 20, 30, 30], dtype=dtype))
    wide = torch.tensor([0, 0, 240, 250], dtype=dtype)
    assert far == 0
    assert box_overlap(wide, wide) == 1
    assert box_overlap(wide.to(torch.float64), wide.to(torch.float64)).dtype == torch.float64
