"""Every test runs in float64 and from the same seed; examples drawn by hypothesis are the same in every run."""

import os
import signal

import hypothesis
import pytest
import torch

from erlangen.utils.seeds import seeded

hypothesis.settings.register_profile("erlangen", deadline=None, derandomize=True)
hypothesis.settings.load_profile("erlangen")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # the workers share the cores among themselves
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it in the background: tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _reproducible():
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with seeded(0):
        yield
    torch.set_default_dtype(dtype)
