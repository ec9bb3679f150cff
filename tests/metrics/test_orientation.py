import math

import pytest
import torch

from erlangen.metrics import (
    arc_masses,
    binned_total_variation,
    central_span,
    circle_histogram,
    distance_to_rotation,
    half_range,
    occupied_arcs,
    occupied_mass,
    pairwise_gap,
    share_within,
)

EVEN = torch.linspace(-1, 1, 10_001, dtype=torch.float64)  # of which the central 98 % are 1.96 long


def test_an_even_arc_has_the_spans_of_closed_form():
    angle = EVEN * (math.pi / 2)
    assert share_within(angle, math.pi / 4).item() == pytest.approx(0.5, abs=1e-3)
    assert central_span(angle).item() == pytest.approx(0.98 * math.pi, abs=1e-3)
    assert half_range(angle).item() == pytest.approx(0.98 * math.pi / 2, abs=1e-3)


def test_the_half_range_does_not_mind_where_the_circle_is_cut():
    for shift in (0.0, 1.0, math.pi, 5.0):
        assert half_range(EVEN * 0.5 + shift).item() == pytest.approx(0.49, abs=1e-3)


def test_the_whole_circle_is_half_of_it_both_ways():
    assert half_range(EVEN * math.pi).item() == pytest.approx(0.98 * math.pi, abs=2e-3)


def test_metrics_are_taken_for_each_input():
    angle = torch.stack((EVEN, EVEN / 2), 1)
    for metric in (central_span, half_range, lambda a: share_within(a, 0.3)):
        both = metric(angle)
        assert both.shape == (2,)
        assert torch.equal(both, torch.stack([metric(angle[:, i]) for i in range(2)]))


def test_the_histogram_counts_every_sample_once_the_end_included():
    angle = torch.tensor([-math.pi, math.pi, 0.1, math.pi - 1e-12, -0.1])
    assert circle_histogram(angle, 4).tolist() == pytest.approx([0.4, 0.2, 0.2, 0.2])


def test_the_total_variation_of_bins():
    a, b = torch.zeros(10), torch.tensor([0.0] * 5 + [2.0] * 5)
    assert binned_total_variation(a, a).item() == 0
    assert binned_total_variation(a, b).item() == pytest.approx(0.5)
    assert binned_total_variation(a, b + 1).item() == pytest.approx(1)


def test_samples_of_one_density_differ_by_as_much_as_is_said():
    chance = torch.Generator().manual_seed(0)
    a, b = (torch.rand(10_000, 200, generator=chance, dtype=torch.float64) * math.pi for _ in range(2))
    assert binned_total_variation(a, b).mean().item() == pytest.approx(math.sqrt(18 / (math.pi * 10_000)), rel=0.05)


def test_arcs_hold_their_share():
    angle = torch.cat((torch.zeros(6), torch.full((3,), 2 * math.pi / 3 + 0.5), torch.full((1,), math.pi)))
    assert arc_masses(angle, 3, math.pi / 6).tolist() == pytest.approx([0.6, 0.3, 0])


def test_the_distance_to_a_rotation_against_singular_values():
    matrix = torch.randn(200, 2, 2)
    u, _, vh = torch.linalg.svd(matrix)
    sign = torch.linalg.det(u @ vh).sign()
    nearest = u @ torch.diag_embed(torch.stack((torch.ones(200), sign), -1)) @ vh
    expected = (matrix - nearest).norm(dim=(-2, -1)) / matrix.norm(dim=(-2, -1))
    assert torch.allclose(distance_to_rotation(matrix), expected)
    padded = torch.zeros(200, 3, 3)
    padded[:, :2, :2] = matrix
    assert torch.equal(distance_to_rotation(padded), distance_to_rotation(matrix))


def test_a_rotation_has_no_distance_and_a_scaling_its_own():
    c, s = math.cos(2.0), math.sin(2.0)
    rotation = torch.tensor([[c, s], [-s, c]])
    assert distance_to_rotation(rotation).item() == pytest.approx(0, abs=1e-15)
    assert distance_to_rotation(4 * rotation).item() == pytest.approx(0.75)


def test_the_gap_of_pairs_goes_the_short_way():
    assert pairwise_gap(torch.tensor([3.1, -3.1])).item() == pytest.approx(2 * math.pi - 6.2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: share_within(torch.zeros(0), 1.0),
        lambda: circle_histogram(torch.zeros(3), 0),
        lambda: distance_to_rotation(torch.zeros(3, 4)),
        lambda: distance_to_rotation([[1.0, 0.0], [0.0, 1.0]]),
        lambda: pairwise_gap(torch.zeros(1)),
        lambda: pairwise_gap([0.1, 0.2]),
    ],
)
def test_what_cannot_be_measured_is_refused(call):
    with pytest.raises(ValueError, match="accepted"):
        call()


def test_arcs_are_counted_around_the_circle():
    one = torch.rand(4000) + 3  # across the seam
    two = torch.cat((one[:2000], one[2000:] + math.pi))
    whole = torch.rand(4000) * 2 * math.pi
    number, share = occupied_arcs(torch.stack((one, two, whole), -1))
    assert number.tolist() == [1, 2, 1]
    assert (share - torch.tensor([1 / (2 * math.pi), 1 / math.pi, 1.0])).abs().max() < 2 / 36


def test_the_mass_of_arcs_is_what_lies_in_them():
    bins = (torch.arange(36) + 0.5) * (2 * math.pi / 36) - math.pi
    rare, often = bins[[0, 9, 20]], bins[[3, 4, 30]]
    angle = torch.cat((rare, often.repeat(5), often[:2]))
    assert occupied_mass(angle).item() == pytest.approx(17 / 20)
    assert occupied_mass(angle[:, None].repeat(1, 2), level=0.1).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("share", [0, -1, 2, math.nan, "all"])
def test_refuses_what_is_no_share(share):
    for metric in (half_range, central_span):
        with pytest.raises(ValueError, match=r"^share: received"):
            metric(torch.rand(10), share)


@pytest.mark.parametrize("metric", [circle_histogram, occupied_arcs, occupied_mass, half_range, central_span])
def test_angles_that_are_no_numbers_are_refused(metric):
    """They would all lie in the first arc."""
    angle = torch.rand(10)
    angle[3] = math.nan
    for bad in (angle, [0.1, 0.2]):
        with pytest.raises(ValueError, match=r"^angle: received"):
            metric(bad)
