import pytest
import torch

from erlangen.utils.cpu import short_floats


@pytest.mark.parametrize(
    ("says", "has"),
    [({"avx512_bf16": True}, True), ({"amx_bf16": True, "avx512_bf16": False}, True), ({"avx512_f": True}, False)],
)
def test_a_processor_has_what_torch_says_of_it(monkeypatch, says, has):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: says, raising=False)
    assert short_floats() is has


def test_an_older_torch_says_nothing(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert short_floats() is False
