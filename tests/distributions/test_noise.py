"""Where randomness comes from."""

import torch

from erlangen.distributions import SplineFlow
from erlangen.distributions.noise import Own
from erlangen.utils.seeds import generator


def test_own_noise_is_that_of_the_generator_whatever_the_batch():
    noise = Own(torch.Size([3]), [generator(1), generator(2)], torch.zeros(()))
    normal, choice = noise.normal(4), noise.choice()
    assert (normal.shape, choice.shape) == ((3, 2, 4), (3, 2))
    for k, each in enumerate((generator(1), generator(2))):
        assert torch.equal(normal[:, k], torch.randn(3, 4, generator=each))
        assert torch.equal(choice[:, k], torch.rand(3, generator=each))


def test_samples_of_a_flow_with_own_noise_depend_on_no_other_input():
    flow, h = SplineFlow(2, 3, layers=2, width=8, periodic=(False, True)), torch.randn(4, 3)
    v = flow(h).draw(Own(torch.Size([5]), [generator(k) for k in range(4)], h), pathwise=False).v
    for k in range(4):
        one = flow(h[k : k + 1]).draw(Own(torch.Size([5]), [generator(k)], h), pathwise=False).v
        torch.testing.assert_close(one, v[:, k : k + 1])
