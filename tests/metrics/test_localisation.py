"""Errors of angles and of boxes."""

import math

import pytest
import torch

from erlangen.metrics import angle_error, box_overlap


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
        (lambda: box_overlap(torch.zeros(3), torch.zeros(4)), r"^box: received .*\(\.\.\., 4\)"),
        (lambda: box_overlap(torch.tensor([1.0, 0, 0, 1]), torch.tensor([0.0, 0, 1, 1])), "^box: .*without an area"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()
