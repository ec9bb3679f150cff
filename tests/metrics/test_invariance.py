"""The bound of section 3 of the paper, on cases that are computed exactly."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from erlangen.distributions import Categorical
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.metrics import invariance_bound, prediction_change, shifted_total_variation, total_variation
from erlangen.models import Averaged
from erlangen.transforms import Rotations


@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 4.0])
def test_total_variation_of_two_normals(distance):
    n = 40_000
    p, q = Normal(0.0, 1.0), Normal(distance, 1.0)
    v = torch.cat((p.sample((n,)), q.sample((n,)))).double()
    exact = math.erf(distance / 2 / math.sqrt(2))
    # Terms lie within [0, 1]: six standard errors of at most 1 / (2 √2n).
    assert total_variation(p.log_prob(v), q.log_prob(v)).item() == pytest.approx(exact, abs=3 / math.sqrt(2 * n))


def test_total_variation_without_overlap():
    inf = math.inf
    assert total_variation(torch.tensor([0.0, -inf]), torch.tensor([-inf, 0.0])).item() == 1
    assert total_variation(torch.tensor([0.0, -inf]), torch.tensor([0.0, -inf])).item() == 0


def test_an_equivariant_distribution_has_no_variation():
    loc, scale, shift = torch.randn(3, 2), torch.rand(3, 2) + 0.1, torch.randn(3, 2)
    q, moved = GaussianDensity(loc, scale), GaussianDensity(loc - shift, scale)
    torch.testing.assert_close(shifted_total_variation(q, moved, shift, 100), torch.zeros(3))
    assert (shifted_total_variation(q, moved, -shift, 100) > 0.01).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds_exactly_on_a_finite_group(seed):
    """Turned by a quarter, everything is a sum of four terms: change, variation, and the range of the classifier."""
    torch.manual_seed(seed)
    group = Rotations(4)
    conditional = Categorical.over(group, 4, encoder=nn.Sequential(nn.Flatten(), nn.Linear(36, 4)))
    with torch.no_grad():
        conditional.head.last.weight.normal_()
    model = Averaged(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), group, conditional)
    x = torch.rand(5, 1, 6, 6)
    for k in range(1, 4):
        turned = group.act(torch.full((5,), k), x)
        change = prediction_change(model(x).log_probs, model(turned).log_probs)
        p, moved = conditional(x).log_probs.exp(), conditional(turned).log_probs.exp()
        # The image turned by k and then by j is the image turned by j + k.
        variation = (p - moved.roll(k, -1)).abs().sum(-1) / 2
        bound = invariance_bound(model(x).views.log_softmax(-1), variation)
        assert (change <= bound + 1e-12).all()
        assert (bound <= 2).all()


def test_shapes_that_do_not_match():
    with pytest.raises(ValueError, match="moved_log_probs"):
        prediction_change(torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="log_q"):
        total_variation(torch.zeros(3), torch.zeros(4))
