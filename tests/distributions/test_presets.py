"""Presets: each builds over a fitting transform, samples, and has the published numbers."""

import math

import pytest
import torch
from torch import nn

from erlangen.distributions import PRESETS, RealNVP, preset, quadrature
from erlangen.transforms import Affine, Crop


def build(name, **changes):
    transform = Crop() if name == "instaaug-crops" else Affine("angle", "scale")
    return preset(name, transform, 5, **changes), transform


@pytest.mark.parametrize("name", PRESETS)
def test_it_builds_and_samples(name):
    net, transform = build(name)
    assert type(net) is PRESETS[name].family
    q = net(torch.randn(4, 5))
    assert q.batch_shape == (4,)
    assert q.event_shape == (transform.features,)
    v, log_weights, _ = quadrature(q, 6)
    assert v.shape[1:] == (4, transform.features)
    assert torch.allclose(log_weights.logsumexp(0), torch.zeros(4))
    low, high = transform.bounds
    assert name.startswith("pstn") or ((v >= low) & (v <= high)).all()  # P-STN has no bounds
    assert transform(torch.rand(4, 1, 6, 6), v).shape == (len(v), 4, 1, 6, 6)
    assert PRESETS[name].source


@pytest.mark.parametrize("name", PRESETS)
def test_it_starts_around_the_identity(name):
    net, transform = build(name)
    points = quadrature(net(torch.zeros(1, 5)), 1000)
    near = ((points.v - transform.origin).abs() / (transform.bounds[1] - transform.bounds[0]) < 0.25).all(-1)
    # LTT's means for rotations with three modes are scattered over most of the circle; 321 crops have many sizes.
    scattered = name in ("ltt-code-modes", "ltt-code-mnist", "instaaug-crops")
    assert near.double().mul(points.log_weights.exp()).sum() > (0.02 if scattered else 0.5)


def softplus(x):
    return math.log1p(math.exp(x))


def start_scale(net):
    return net.density(torch.zeros(1, 5)).scale[0]


def test_spatial_transformer():
    net, transform = build("stn")
    assert torch.allclose(net(torch.randn(2, 5)).mean, transform.origin)


@pytest.mark.parametrize(("name", "bias"), [("pstn-code", -5), ("pstn-code-rotated", -3)])
def test_probabilistic_spatial_transformer(name, bias):
    net, _ = build(name)
    assert net.standard.dof == build("pstn-paper")[0].standard.dof == 2.0
    # The published bias gives the squared scale, in the coordinates' own units.
    assert torch.allclose(start_scale(net), torch.tensor(math.sqrt(softplus(bias))))


def test_augerino_and_lila():
    assert torch.allclose(build("augerino-code")[0].half_width, torch.tensor(math.log(2) / 2))
    assert torch.allclose(build("lila-code")[0].half_width, torch.tensor(1e-3))


def test_instaaug():
    net, transform = build("instaaug-rotation")
    q = net(torch.zeros(1, 5))
    assert torch.allclose(q.high[0], transform.bounds[1] / (1 + math.exp(2)))
    assert torch.allclose(q.low[0], -q.high[0])
    crops, _ = build("instaaug-crops")
    assert crops.table.shape == (321, 4)
    q = crops(torch.zeros(1, 5))
    assert torch.equal(q.mode, torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    assert torch.allclose(q.log_probs[0, -1] - q.log_probs[0, 0], torch.tensor(3 + 2 * math.log(16)))


@pytest.mark.parametrize(
    ("name", "width", "components", "limit", "squash"),
    [
        ("ltt-paper", 64, 10, 3.0, None),
        ("ltt-code", 32, 10, None, 6.0),
        ("ltt-code-mnist", 32, 10, None, 6.0),
        ("ltt-code-modes", 32, 90, None, 6.0),
    ],
)
def test_learning_to_transform(name, width, components, limit, squash):
    net, _ = build(name)
    assert net.conditioners.width == width
    assert len(net.conditioners.reads) == 12
    assert net.base.components == components
    assert (net.limit, net.squash) == (limit, squash)
    q = net.base.density(torch.zeros(1, 5))
    assert torch.allclose(q.scale, torch.tensor([0.1 * math.pi, 0.1]))
    assert torch.allclose(q.logits, torch.zeros(1, components))


@pytest.mark.parametrize(("name", "scatter"), [("ltt-code", 0.2), ("ltt-code-mnist", 0.5), ("ltt-code-modes", 0.8)])
def test_the_scatter_of_means(name, scatter):
    net, _ = build(name)
    loc = net.base.density(torch.zeros(1, 5)).loc[0] / torch.tensor([math.pi, 1.0])
    # The greatest of 20 uniform numbers is below half of their range once in 1e6.
    assert scatter / 2 < loc.abs().max() <= scatter


@pytest.mark.parametrize(("name", "hidden"), [("sgm-paper", 256), ("sgm-code", 128)])
def test_symmetries_by_a_generative_model(name, hidden):
    net, _ = build(name)
    assert (net.bins, net.ends) == (6, 3.0)
    assert (len(net.conditioners.reads), net.conditioners.width, net.conditioners.dropout) == (6, 256, 0.1)
    assert [m.out_features for m in net.base.loc.modules() if isinstance(m, nn.Linear)] == [hidden, hidden, 2]
    inference, _ = build("sgm-inference")
    assert torch.allclose(start_scale(inference), 0.01 * torch.tensor([math.pi, 1.0]))
    assert len(inference.scale) == 1  # one scale for all inputs


def test_every_argument_can_be_changed():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(36, 5))
    net, _ = build("ltt-paper", width=16, components=3, dropout=0.2, encoder=encoder)
    assert isinstance(net, RealNVP)
    assert (net.conditioners.width, net.base.components, net.conditioners.dropout) == (16, 3, 0.2)
    assert net(torch.randn(4, 1, 6, 6)).rsample().shape == (4, 2)
    assert PRESETS["ltt-paper"].arguments["width"] == 64
