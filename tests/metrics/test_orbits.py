import math

import pytest
import scipy.stats
import torch

from erlangen.metrics import orbit_spread, wasserstein


def test_the_spread_is_the_mean_of_pairs():
    views = torch.randn(5, 3, 2, 4, 4)
    flat = views.flatten(2).transpose(0, 1)
    expected = torch.cdist(flat, flat).square().sum((1, 2)) / (5 * 4)
    torch.testing.assert_close(orbit_spread(views), expected)
    torch.testing.assert_close(orbit_spread(views[:1].expand(5, -1, -1, -1, -1)), torch.zeros(3))


def test_wasserstein_on_the_line():
    a, b = torch.randn(50), torch.randn(71) * 2 + 1
    assert wasserstein(a, b).item() == pytest.approx(scipy.stats.wasserstein_distance(a, b))
    assert wasserstein(a, a + 0.3).item() == pytest.approx(0.3)


def test_wasserstein_on_the_circle():
    a = torch.rand(200) * 2 * math.pi
    b = torch.rand(120) * 3
    for turn in (0.0, 1.0, 5.0):  # wherever the seam is
        assert wasserstein(a + turn, b + turn, 2 * math.pi).item() == pytest.approx(
            wasserstein(a, b, 2 * math.pi).item()
        )
    near = torch.tensor([0.1]), torch.tensor([2 * math.pi - 0.1])
    assert wasserstein(*near, 2 * math.pi).item() == pytest.approx(0.2)
    assert wasserstein(*near).item() > 6  # the twin without a circle
    shifts = [wasserstein(a, torch.remainder(b + s, 1), 1.0).item() for s in (0.0, 1.0)]
    assert shifts[0] == pytest.approx(shifts[1])


def test_wasserstein_on_the_circle_is_the_best_cut():
    """The least over all cuts of the circle, by hand."""
    a, b = torch.rand(9), torch.rand(9) * 0.4
    cuts = torch.linspace(0, 1, 2001)[:-1]
    best = min(wasserstein(torch.remainder(a - c, 1), torch.remainder(b - c, 1)).item() for c in cuts)
    found = wasserstein(a, b, 1.0).item()
    assert found <= best + 1e-9
    assert found > 0.5 * best


def test_bad_input_is_refused():
    for views in (torch.rand(1, 2, 3), torch.zeros(3, 2, 4, dtype=torch.uint8)):
        with pytest.raises(ValueError, match="views: received"):
            orbit_spread(views)
    with pytest.raises(ValueError, match="b: received"):
        wasserstein(torch.rand(3), torch.rand(3, 2))
    with pytest.raises(ValueError, match="period: received"):
        wasserstein(torch.rand(3), torch.rand(3), -1)
