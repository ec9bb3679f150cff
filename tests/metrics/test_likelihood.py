import math

import pytest
import torch
from torch.distributions import Normal

from erlangen.metrics import iwlb
from erlangen.models import VAE

NOISE = 0.5


def linear(x, n, scale=1.0):
    """z ~ N(0, 1), x ~ N(z, NOISE²); the posterior is N(x / (1 + NOISE²), ...), as a proposal wider by a factor."""
    mean, spread = x / (1 + NOISE**2), math.sqrt(NOISE**2 / (1 + NOISE**2)) * scale
    q = Normal(mean, spread)
    z = q.sample((n,))
    return (Normal(0, 1).log_prob(z) + Normal(z, NOISE).log_prob(x) - q.log_prob(z)).sum(-1)


def exact(x):
    return Normal(0, math.sqrt(1 + NOISE**2)).log_prob(x).sum(-1)


def test_with_the_true_posterior_every_sample_says_the_same():
    x = torch.randn(7, 2)
    torch.testing.assert_close(iwlb(linear, x, 3), exact(x))


def test_it_is_a_bound_that_rises_with_samples():
    x = torch.randn(2000, 1)
    few, many = (iwlb(lambda y, n: linear(y, n, 2.0), x, k, batch_size=500).mean() for k in (1, 100))
    assert few < many < exact(x).mean() + 0.01
    assert exact(x).mean() - many < 0.05


def test_parts_make_the_whole():
    weights = torch.randn(10, 4)
    seen = []

    def given(x, n):
        seen.append(n)
        done = sum(seen[:-1])
        return weights[done : done + n]

    torch.testing.assert_close(iwlb(given, torch.rand(4, 2), 10, chunk=4), weights.logsumexp(0) - math.log(10))
    assert seen == [4, 4, 2]


def test_weights_must_fit():
    with pytest.raises(ValueError, match=r"log_weights: received .*accepted is a function to \(3, 4\)"):
        iwlb(lambda x, n: torch.rand(n), torch.rand(4, 2), 3)
    with pytest.raises(ValueError, match="samples: received"):
        iwlb(linear, torch.rand(4, 2), 0)
    with pytest.raises(ValueError, match=r"x: received .*accepted is inputs \(N, \.\.\.\), at least one"):
        iwlb(linear, torch.rand(0, 2), 3)
    with pytest.raises(ValueError, match="x: received ndarray"):
        iwlb(linear, torch.rand(4, 2).numpy(), 3)
    with pytest.raises(
        ValueError, match=r"log_weights: received VAE; accepted is a function .* its method log_weights"
    ):
        iwlb(VAE((1, 8, 8), latent=2, filters=(2, 2), hidden=4), torch.rand(4, 1, 8, 8), 3)
