import random

import numpy as np
import pytest
import torch

from erlangen.utils.seeds import generator, seeded


def draw():
    return random.random(), np.random.rand(), torch.rand(3).tolist()  # noqa: NPY002


def test_the_same_seed_draws_the_same_from_every_generator():
    with seeded(7):
        first = draw()
    draw()
    with seeded(7):
        assert draw() == first
    with seeded(8):
        other = draw()
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_the_previous_states_come_back():
    with seeded(1):
        expected = [draw(), draw()]
    with seeded(1):
        assert draw() == expected[0]
        with seeded(2):
            draw()
        assert draw() == expected[1]


def test_the_previous_states_come_back_after_an_error():
    with seeded(1):
        expected = draw()
    with seeded(1):
        with pytest.raises(ZeroDivisionError), seeded(2):
            draw()[0] / 0
        assert draw() == expected


def test_the_seed_of_torch_comes_back():
    torch.manual_seed(11)
    with seeded(2):
        assert torch.initial_seed() == 2
    assert torch.initial_seed() == 11


def test_tests_run_in_float64_from_one_seed():
    assert torch.get_default_dtype() == torch.float64
    assert torch.initial_seed() == 0


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "0"])
def test_other_seeds_are_refused_and_change_nothing(seed):
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match=r"seed: received .*; accepted is an integer from 0 to"), seeded(seed):
        pass
    assert torch.equal(torch.get_rng_state(), before)


def test_the_largest_seed_is_accepted():
    with seeded(2**32 - 1):
        assert torch.initial_seed() == 2**32 - 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_is_seeded_and_restored():
    torch.rand(1, device="cuda")
    before = torch.cuda.get_rng_state()
    with seeded(3):
        a = torch.rand(3, device="cuda")
    assert torch.equal(torch.cuda.get_rng_state(), before)
    with seeded(3):
        assert torch.equal(torch.rand(3, device="cuda"), a)


def test_a_generator_is_seeded_and_leaves_the_global_one_alone():
    before = torch.get_rng_state()
    a, b, c = (torch.rand(5, generator=generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_lives_on_its_device():
    assert generator(0, "cpu").device == torch.device("cpu")


def test_integers_of_numpy_are_seeds():
    drawn = torch.rand(3, generator=generator(np.int64(3)))
    assert torch.equal(drawn, torch.rand(3, generator=generator(3)))
    with seeded(np.uint32(3)):
        one = torch.rand(2), random.random()
    with seeded(3):
        assert torch.equal(one[0], torch.rand(2))
        assert one[1] == random.random()
