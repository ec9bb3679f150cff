"""Whether there is a GPU is a constant to a compiler."""

import torch

from erlangen.utils.gpu import runs_triton


def test_it_is_a_constant_in_compiled_code():
    compiled = torch.compile(lambda x: x + 1 if runs_triton() else x - 1, fullgraph=True, backend="eager")
    expected = 1.0 if runs_triton() else -1.0
    assert compiled(torch.zeros(())).item() == expected
    assert runs_triton() <= torch.cuda.is_available()
