"""Every test runs in float64 and from the same seed.

Hypothesis draws the same examples in every run of the same tests, but some of its numbers are constants of the modules
that are loaded, which other tests may load: it is for properties that hold of every example, exactly.
"""

import os
import signal

import hypothesis
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from erlangen.utils.seeds import seeded

hypothesis.settings.register_profile("erlangen", deadline=None, derandomize=True)
hypothesis.settings.load_profile("erlangen")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # the workers share the cores among themselves
    os.environ["OMP_NUM_THREADS"] = "1"  # and so do the commands that they run
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it in the background: tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _reproducible():
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with seeded(0):
        yield
    torch.set_default_dtype(dtype)


class Largest(TorchDispatchMode):
    """The size of the largest tensor that is made inside of it, in numbers."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for part in made if isinstance(made, tuple | list) else [made]:
            if isinstance(part, torch.Tensor):
                self.most = max(self.most, part.untyped_storage().nbytes() // part.element_size())
        return made


@pytest.fixture
def largest():
    return Largest()
