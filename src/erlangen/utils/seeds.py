"""Seeds that leave no trace: a block of seeded code, and generators of one's own."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["apart", "check_seed", "generator", "seeded"]


def check_seed(seed: object) -> int:
    """Returns `seed` when it is an integer from 0 to 2**32 - 1, the range that numpy accepts; else a `ValueError`."""
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ValueError(f"seed: received {seed!r}; accepted is an integer from 0 to 2**32 - 1")
    return int(seed)


def apart(seed: int, *place: int) -> int:
    """A seed for each of many places, derived from one seed, so that no two places draw the same.

    Args:
        seed: from 0 to 2**32 - 1.
        *place: what tells places apart, as many numbers >= 0 for all of them.

    Examples:
        >>> len({apart(seed, place) for seed in range(10) for place in range(10)})
        100
    """
    return int(np.random.SeedSequence((check_seed(seed), *place)).generate_state(1)[0])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed every global generator inside a block, and put the previous states back after it.

    The generators are those of torch (CPU and every CUDA device), numpy and :mod:`random`.

    Args:
        seed: from 0 to 2**32 - 1, the range that numpy accepts.

    Raises:
        ValueError: the seed is no such integer.

    Examples:
        >>> with seeded(0):
        ...     a = torch.rand(3)
        >>> with seeded(0):
        ...     b = torch.rand(3)
        >>> torch.equal(a, b)
        True
    """
    seed = check_seed(seed)
    python, legacy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        torch.set_rng_state(cpu)
        if cuda is None:
            # CUDA was not in use yet, so there was no state: seed it as torch.manual_seed had, without starting it.
            torch.cuda.manual_seed_all(torch.initial_seed())
        else:
            torch.cuda.set_rng_state_all(cuda)


def generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Make a torch generator of its own, which neither reads nor moves the global one.

    Args:
        seed: any integer that torch accepts.
        device: where the generator draws; it must be that of the tensors it fills.

    Raises:
        ValueError: the seed is no integer.

    Examples:
        >>> a, b = (torch.rand(3, generator=generator(0)) for _ in range(2))
        >>> torch.equal(a, b)
        True
    """
    if not isinstance(seed, int | np.integer):
        raise ValueError(f"seed: received {seed!r}; accepted is an integer")
    return torch.Generator(device).manual_seed(int(seed))
