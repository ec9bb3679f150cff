"""What holds for every network: shapes, gradients, layouts, compilation, half precision, seeds."""

import copy

import pytest
import torch

from erlangen.utils.seeds import seeded

from .cases import IMAGES, SMALL


def made(name: str, batch: int = 3):
    """A network away from its initial zeros, and inputs."""
    make, shape, _ = SMALL[name]
    net = make()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return net, torch.randn(batch, *shape)


@pytest.mark.parametrize("name", SMALL)
def test_shapes(name):
    net, x = made(name)
    assert net(x).shape == (3, SMALL[name][2])
    assert getattr(net, "features", SMALL[name][2]) == SMALL[name][2]


@pytest.mark.parametrize("name", SMALL)
def test_an_empty_batch_gives_an_empty_result(name):
    net, x = made(name)
    assert net.eval()(x[:0]).shape == (0, SMALL[name][2])


@pytest.mark.parametrize("name", SMALL)
def test_gradients_reach_every_parameter(name):
    net, x = made(name, batch=8)
    net(x).square().sum().backward()
    missing = [n for n, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert missing == []


@pytest.mark.parametrize("name", SMALL)
def test_gradients_are_right(name):
    net, x = made(name, batch=2)
    torch.autograd.gradcheck(net.eval(), x.requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("name", SMALL)
def test_evaluation_treats_each_input_alone(name):
    net, x = made(name)
    net(x)  # moves the statistics
    whole = net.eval()(x)
    torch.testing.assert_close(torch.cat([net(row[None]) for row in x]), whole)


@pytest.mark.parametrize("name", IMAGES)
def test_channels_last_gives_the_same(name):
    net, x = made(name)
    expected = net.eval()(x)
    other = copy.deepcopy(net).to(memory_format=torch.channels_last)
    torch.testing.assert_close(other(x.to(memory_format=torch.channels_last)), expected)


@pytest.mark.parametrize("name", ["embedding", "fixup", "conv13", "preact18", "crops"])
def test_channels_last_stays(name):
    net, x = made(name)
    net.to(memory_format=torch.channels_last)
    layouts = []

    def look(_, inputs):
        layouts.append(inputs[0].is_contiguous(memory_format=torch.channels_last))

    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_pre_hook(look)
    net(x.to(memory_format=torch.channels_last))
    assert len(layouts) >= 4
    assert all(layouts)


@pytest.mark.parametrize("name", [name for name in SMALL if name != "fixup, 14 layers"])
def test_compiles_to_one_graph(name):
    net, x = made(name)
    net.eval()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), net(x))


@pytest.mark.parametrize("name", ["fixup", "conv13"])
def test_a_training_step_compiles_to_one_graph(name):
    net, x = made(name)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    compiled(x).square().sum().backward()
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.parametrize("name", SMALL)
def test_bfloat16_autocast(name):
    net, x = made(name)
    net, x = net.float().eval(), x.float()
    expected = net(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = net(x)
    # A dozen layers of relative error 2⁻⁸ each, on outputs of the size of the largest
    assert (y.float() - expected).abs().max() <= 0.1 * expected.abs().max()
    y.float().sum().backward()
    assert all(p.dtype == torch.float32 and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("name", SMALL)
def test_the_seed_decides_the_weights_and_the_result(name):
    make, shape, _ = SMALL[name]
    runs = []
    for seed in (7, 7, 8):
        with seeded(seed):
            net = make()
            loss = net(torch.randn(3, *shape)).square().sum()
            loss.backward()
        runs.append((torch.cat([p.flatten() for p in net.parameters()]).detach(), loss.detach()))
    assert all(torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not torch.equal(runs[0][0], runs[2][0])


@pytest.mark.parametrize("name", SMALL)
def test_the_state_can_be_loaded(name):
    net, x = made(name)
    other = SMALL[name][0]()
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.eval()(x), net.eval()(x))
