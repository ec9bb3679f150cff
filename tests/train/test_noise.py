import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from erlangen.train import GlobalNoise
from erlangen.train.noise import Share, seed_noise

CPU = torch.device("cpu")
S, B = 3, 10

DRAWS = {
    "rand": (1, lambda b: torch.rand(S, b, 2)),
    "rand, one sample": (0, lambda b: torch.rand(b, 2)),
    "randn": (1, lambda b: torch.randn((S, b, 4))),
    "randn, as many samples as rows": (1, lambda b: torch.randn(5, b, 5)),
    "randint": (0, lambda b: torch.randint(9, (b,))),
    "rand_like": (0, lambda b: torch.rand_like(torch.empty(b, 7))),
    "normal": (0, lambda b: torch.normal(torch.zeros(b, 2), torch.ones(b, 2))),
    "bernoulli": (0, lambda b: torch.bernoulli(torch.full((b, 3), 0.4))),
    "in place": (0, lambda b: torch.empty(b, 3).uniform_(2, 3)),
    "exponential": (0, lambda b: torch.empty(b, 3).exponential_()),
    "dropout": (0, lambda b: F.dropout(torch.ones(b, 5), 0.3)),
    "dropout2d": (0, lambda b: F.dropout2d(torch.ones(b, 4, 2, 2), 0.3)),
    "shared": (None, lambda b: torch.rand(7)),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("world", [2, 3])
def test_shares_of_the_noise_are_the_noise_of_the_batch(name, world):
    dim, draw = DRAWS[name]
    seed_noise(0, 4, device=CPU)
    whole, after = draw(B), torch.rand(())
    for rank in range(world):
        share = Share.of(B, rank, world)
        seed_noise(0, 4, device=CPU)
        with GlobalNoise(share):
            own, then = draw(share.size), torch.rand(())
        assert torch.equal(own, whole if dim is None else whole.narrow(dim, share.start, share.size))
        assert then == after


def test_rows_of_samples_that_were_flattened():
    seed_noise(0, 0, device=CPU)
    whole = F.dropout(torch.ones(S * B, 5)).view(S, B, 5)
    share = Share.of(B, 1, 2)
    seed_noise(0, 0, device=CPU)
    with GlobalNoise(share):
        own = F.dropout(torch.ones(S * share.size, 5)).view(S, share.size, 5)
    assert torch.equal(own, whole[:, share.start :])


def test_gradients_pass_through_a_cut_draw():
    x = torch.ones(5, 3, requires_grad=True)
    with GlobalNoise(Share.of(B, 1, 2)):
        y = F.dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_draws_of_varying_length_differ_between_processes():
    def draw(rank):
        seed_noise(0, 0, device=CPU)
        with GlobalNoise(Share.of(B, rank, 2)):
            return torch._standard_gamma(torch.full((5, 2), 0.7))

    assert (draw(0) != draw(1)).all()


@pytest.mark.parametrize("total", [1, 2, 3, 7, 8])
def test_weighted_means_of_shares_are_the_mean_of_the_batch(total):
    x, world = torch.randn(total), 3
    shares = [Share.of(total, rank, world) for rank in range(world)]
    means = [share.weight * share.cut((x,))[0].mean() for share in shares]
    assert sum(means) / world == pytest.approx(x.mean().item())


def test_a_place_in_a_run_seeds_every_generator():
    def draw(*place):
        seed_noise(*place, device=CPU)
        return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002

    first = draw(0, 0, 1)
    assert draw(0, 0, 1) == first
    for other in ((0, 0, 2), (0, 1, 1), (1, 0, 1)):
        assert not set(draw(*other)) & set(first)
