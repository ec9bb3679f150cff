"""Compiled gradients have the types of the forward pass: what runs in float32 on purpose is not rounded."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config

from erlangen.train.engine import _eagerly


def products(how):
    """The types of the matrix products in the backward pass of a float32 layer within autocast."""
    found = []

    def look(graph, inputs):
        found.extend(node.meta["val"].dtype for node in graph.graph.nodes if "mm" in str(node.target))
        return make_boxed_func(graph.forward)

    layer = nn.Linear(3, 3, dtype=torch.float32)

    def forward(x):
        with torch.autocast("cpu", enabled=False):
            return layer(x).square().sum()

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward), bw_compiler=look)
    compiled = torch.compile(forward, backend=backend)
    with how, torch.autocast("cpu", torch.bfloat16):
        loss = compiled(torch.randn(4, 3, dtype=torch.float32))
    loss.backward()
    return set(found)


@pytest.mark.skipif(not hasattr(config, "backward_pass_autocast"), reason="needs a torch that has the setting")
def test_autocast_does_not_reach_into_the_backward_pass():
    assert products(_eagerly()) == {torch.float32}
    assert torch.bfloat16 in products(config.patch(backward_pass_autocast="same_as_forward"))
