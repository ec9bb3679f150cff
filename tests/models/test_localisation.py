"""Where a prediction looked, and how sure it was."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from erlangen.distributions import Categorical, Dirac, Gaussian, RealNVP, StudentT
from erlangen.models import Averaged, localisation
from erlangen.transforms import Rotations, Similarity

WITHIN = 0.6827


def test_a_normal_has_its_mean_and_standard_deviation():
    q = Gaussian(2, 3, spread=[0.5, 2.0], origin=[1.0, -4.0])(torch.randn(5, 3))
    centre, deviation = localisation(q)
    torch.testing.assert_close(centre, torch.tensor([1.0, -4.0]).expand(5, 2))
    torch.testing.assert_close(deviation, torch.tensor([0.5, 2.0]).expand(5, 2), rtol=0.02, atol=0)


def test_a_t_without_variance_has_a_deviation():
    q = StudentT(1, 3, spread=0.3)(torch.randn(4, 3))
    # The quantile of t with 2 degrees of freedom is (2p - 1) / sqrt(2 p (1 - p)).
    p = (1 + WITHIN) / 2
    expected = 0.3 * (2 * p - 1) / math.sqrt(2 * p * (1 - p))
    assert localisation(q, 2048).deviation.flatten().tolist() == pytest.approx([expected] * 4, rel=0.01)


def test_a_point_is_sure_and_nothing_is_left_behind():
    q = Dirac(2, 3, origin=[0.5, 0.25])(torch.randn(4, 3))
    torch.manual_seed(0)
    centre, deviation = localisation(q)
    before = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(3), before)  # its noise is its own
    assert torch.equal(centre, torch.tensor([0.5, 0.25]).expand(4, 2))
    assert not deviation.any()
    assert not deviation.requires_grad


def test_on_the_circle_and_within_bounds():
    near_the_cut = StudentT(1, 3, periodic=[True], spread=0.1, origin=[3.1])(torch.zeros(2, 3))
    centre, deviation = localisation(near_the_cut)
    assert centre.flatten().tolist() == pytest.approx([3.1, 3.1])
    assert deviation.max() < 0.15  # the way over the cut is short
    bounded = StudentT(1, 3, bounds=(-2.0, 2.0), spread=0.01)(torch.zeros(2, 3))
    assert localisation(bounded).centre.abs().max() < 1e-3
    assert localisation(bounded).deviation.flatten().tolist() == pytest.approx([0.0264] * 2, rel=0.02)


def test_finite_choices_count_by_their_probability():
    q = Categorical.over(Rotations(4), 3, spread=0.2)(torch.zeros(2, 3))
    assert localisation(q).deviation.max() == localisation(q).centre.max()  # the identity alone has more than 0.68


def test_it_is_part_of_the_prediction():
    move = Similarity()
    q = RealNVP.over(move, 16, encoder=nn.Flatten(), layers=2, width=4)
    model = Averaged(nn.Sequential(nn.Flatten(), nn.Linear(16, 3)), move, q, samples=2)
    found = model(torch.rand(5, 1, 4, 4)).localisation(64)
    assert found.centre.shape == found.deviation.shape == (5, 4)
    assert (found.deviation > 0).all()
    with pytest.raises(ValueError, match=r"^points: received int 0"):
        model(torch.rand(5, 1, 4, 4)).localisation(0)
    with pytest.raises(ValueError, match=r"^q: received Normal.*; accepted is a Density"):
        localisation(Normal(torch.zeros(2, 3), 1.0))


@pytest.mark.parametrize("alpha", [0.25, 0.5])
def test_a_t_without_mean_is_centred_at_its_median(alpha):
    q = StudentT(1, 3, alpha=alpha, spread=0.3, origin=[0.7])(torch.randn(6, 3))
    torch.testing.assert_close(localisation(q).centre, torch.full((6, 1), 0.7))
    torch.testing.assert_close(q.median, torch.full((6, 1), 0.7))
