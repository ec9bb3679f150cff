import os
import signal
import sys
import time
from multiprocessing import active_children, get_context

import pytest
import torch

from erlangen.utils.processes import processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a fork is quick to start, a spawn takes seconds")
def test_an_interrupt_ends_processes_that_do_not_heed_it(monkeypatch):
    """The terminal sends it to all of them."""
    monkeypatch.setattr(sys.modules[processes.__module__], "get_context", lambda kind: get_context("fork"))

    def work():
        with processes(1, threads=1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 1
            os.kill(pool.submit(os.getpid).result(), signal.SIGINT)
            waiting = pool.submit(time.sleep, 60)
            time.sleep(0.05)
            assert not waiting.done()
            raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - start < 30
    assert not active_children()
