"""Whether there is a GPU is a constant to a compiler, and how exactly it multiplies is put back."""

import torch

from erlangen.utils.gpu import quick_products, runs_triton


def test_it_is_a_constant_in_compiled_code():
    compiled = torch.compile(lambda x: x + 1 if runs_triton() else x - 1, fullgraph=True, backend="eager")
    expected = 1.0 if runs_triton() else -1.0
    assert compiled(torch.zeros(())).item() == expected
    assert runs_triton() <= torch.cuda.is_available()


def test_products_are_as_exact_as_before_after_the_block():
    before = torch.get_float32_matmul_precision()
    with quick_products("cuda"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    with quick_products("cpu"):
        assert torch.get_float32_matmul_precision() == before
