"""LeNet, whose layers compute in their own ways, is the published sequence."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from erlangen.nets import LeNet

SIZES = [(1, 28, 3), (3, 32, 5)]  # channels, size, the kernel in the middle


def published(channels, kernel):
    return nn.Sequential(
        *(nn.Conv2d(channels, 6, 5), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, kernel), nn.Tanh(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten()),
        *(nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )


def derivatives(net, x):
    """The result, its gradients, and the gradients of their squares."""
    y, variables = net(x), [x, *net.parameters()]
    first = torch.autograd.grad(y.square().sum(), variables, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), variables)
    return [y, *first, *second]


@pytest.mark.parametrize(("channels", "size", "kernel"), SIZES)
def test_it_starts_and_computes_as_the_published_sequence(channels, size, kernel):
    torch.manual_seed(1)
    net = LeNet(channels, size=size)
    torch.manual_seed(1)
    plain = published(channels, kernel)
    for name, value in plain.state_dict().items():
        assert torch.equal(net.state_dict()[f"layers.{name}"], value)
    assert len(net.state_dict()) == len(plain.state_dict())
    x = torch.randn(2, channels, size, size, requires_grad=True)
    torch.testing.assert_close(derivatives(net, x), derivatives(plain, x))


@pytest.mark.parametrize(("channels", "size", "kernel"), SIZES)
def test_it_is_mapped_over(channels, size, kernel):
    nets, x = [LeNet(channels, size=size) for _ in range(2)], torch.randn(2, 3, channels, size, size)
    tensors = stack_module_state(nets)
    found = vmap(lambda tensors, x: functional_call(nets[0], tensors, (x,)))(tensors, x)
    torch.testing.assert_close(found, torch.stack([net(one) for net, one in zip(nets, x, strict=True)]))


def test_it_is_exported():
    net = LeNet().eval()
    exported = torch.export.export(net, (torch.randn(2, 1, 28, 28),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    x = torch.randn(3, 1, 28, 28)
    torch.testing.assert_close(exported.module()(x), net(x))
