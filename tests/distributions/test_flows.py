"""Couplings: what they share, what they keep, and that the circle has no seam."""

import math

import pytest
import torch
import torch._inductor.config
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from erlangen.distributions import Gaussian, MeanFieldUniform, RealNVP, SplineFlow, StudentT, quadrature
from erlangen.testing import check_conditional

FLOWS = [RealNVP, SplineFlow]


def jitter(flow, size=0.1):
    with torch.no_grad():
        for p in flow.parameters():
            p.add_(size * torch.randn_like(p))
    return flow


def small(cls, features=3, context=4, **kwargs):
    return jitter(cls(features, context, **{"layers": 4, "width": 8} | kwargs))


@pytest.mark.parametrize("cls", FLOWS)
def test_the_work_per_sample_does_not_depend_on_the_context(cls):
    """From 1 sample to 20, exactly as many operations are added for 300 features of context as for 10."""

    def operations(context, samples):
        flow = small(cls, context=context)
        counter = FlopCounterMode(display=False)
        with counter:
            v, log_q = flow(torch.randn(2, context)).rsample_and_log_prob((samples,))
            (v.sum() + log_q.sum()).backward()
        return counter.get_total_flops()

    added = [operations(context, 20) - operations(context, 1) for context in (10, 300)]
    assert added[0] == added[1] > 0


@pytest.mark.parametrize("cls", FLOWS)
def test_the_memory_per_sample_does_not_depend_on_the_context(cls):
    """What autograd keeps for 20 samples and for 1 differs by as many numbers for 300 features as for 10."""

    def kept(context, samples):
        storages, held = {}, []

        def pack(t):
            held.append(t)  # or what is kept for a moment only would leave its address to another
            storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        torch.manual_seed(0)
        flow, h = small(cls, context=context), torch.randn(2, context)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            result = flow(h).rsample_and_log_prob((samples,))
        assert result[0].requires_grad
        return sum(storages.values())

    added = [kept(context, 20) - kept(context, 1) for context in (10, 300)]
    assert added[0] == added[1] > 0


def test_the_encoder_sees_each_input_once():
    class Counting(nn.Linear):
        seen = 0

        def forward(self, x):
            Counting.seen += len(x)
            return super().forward(x)

    flow = RealNVP(2, 4, encoder=Counting(6, 4), layers=2, width=8)
    quadrature(flow(torch.randn(5, 6)), 20)
    assert Counting.seen == 5


@pytest.mark.parametrize("cls", FLOWS)
@pytest.mark.parametrize("bounded", [False, True])
def test_the_circle_has_no_seam(cls, bounded):
    """Density and its slope are the same on both sides of ±π, where much of the mass lies."""
    bounds = {"bounds": ((-math.pi, -1.0), (math.pi, 1.0))} if bounded else {}
    flow = small(cls, 2, periodic=(True, False), origin=[math.pi, 0.0], spread=0.3, **bounds)
    q = flow(torch.randn(1, 4))
    edge = torch.tensor([[math.pi - 1e-9, 0.1], [-math.pi + 1e-9, 0.1]])[:, None].requires_grad_()
    log_q = q.log_prob(edge)
    (slope,) = torch.autograd.grad(log_q.sum(), edge)
    torch.testing.assert_close(log_q[0], log_q[1], rtol=0, atol=1e-6)
    if cls is RealNVP:  # a spline has a slope everywhere, but the slope of its slope jumps at its knots
        torch.testing.assert_close(slope[0], slope[1], rtol=1e-5, atol=1e-5)
    angle = q.sample((4000,))[:, 0, 0]
    assert 0.05 < (angle > 0).double().mean() < 0.95
    mean = q.mean_estimate(4000)[0][0, 0]
    assert mean.abs() > math.pi / 2  # the arithmetic mean would lie near 0


@pytest.mark.parametrize("cls", FLOWS)
@pytest.mark.parametrize("base", [Gaussian, StudentT])
def test_any_base(cls, base):
    def build():
        return cls(2, 4, base=base(2, 4, periodic=(True, False)), periodic=(True, False), layers=2, width=8)

    check_conditional(build(), build=build)


def test_a_uniform_base():
    """What the published code uses for its toy data: the density ends where the box does."""
    flow = small(RealNVP, 2, base=MeanFieldUniform(2, 4, spread=0.5))
    q = flow(torch.randn(3, 4))
    v, log_q = q.rsample_and_log_prob((50,))
    torch.testing.assert_close(q.log_prob(v), log_q)
    assert (q.log_prob(v + 100) == -math.inf).all()


def test_dropout_is_drawn_once_per_call():
    torch.manual_seed(0)
    flow = small(RealNVP, dropout=0.5).train()
    h = torch.randn(2, 4)
    q = flow(h)
    v, log_q = q.rsample_and_log_prob((5,))
    torch.testing.assert_close(q.log_prob(v), log_q)
    torch.testing.assert_close(q.expand((3, 2)).log_prob(v[:, None])[:, 0], log_q)
    assert not torch.allclose(flow(h).log_prob(v), log_q)
    flow.eval()
    torch.testing.assert_close(flow(h).log_prob(v), flow(h).log_prob(v))


def test_the_scale_of_a_coupling_is_limited():
    flow = small(RealNVP, 2, layers=1, limit=0.5)
    with torch.no_grad():
        flow.conditioners.bias.fill_(100.0)
    q = flow(torch.zeros(1, 4))
    v, log_q = q.rsample_and_log_prob((20,), torch.Generator().manual_seed(0))
    z, log_base = q.base.rsample_and_log_prob((20,), torch.Generator().manual_seed(0))
    torch.testing.assert_close(log_base - log_q, torch.full_like(log_q, 0.5))
    moved = (v != z).any(0).squeeze()
    assert moved.sum() == 1  # and half of the coordinates stay, to the bit


@pytest.mark.parametrize(("layers", "features"), [(3, 3), (4, 4), (6, 5), (6, 6), (8, 9)])
def test_any_two_coordinates_see_each_other(layers, features):
    """Those that always move together would be independent, whatever they should be: one draw of three at (4, 4)."""
    for seed in range(8):
        torch.manual_seed(seed)
        moves = small(SplineFlow, features, layers=layers).conditioners.reads[:, :features] == 0
        together = (moves[:, :, None] == moves[:, None]).all(0)
        assert torch.equal(together, torch.eye(features, dtype=torch.bool))


def test_few_layers_leave_few_pairs_together():
    for seed in range(4):
        torch.manual_seed(seed)
        moves = small(SplineFlow, 6, layers=4).conditioners.reads[:, :6] == 0
        assert (moves[:, :, None] == moves[:, None]).all(0).sum() == 6 + 2 * 2


def test_every_coordinate_moves():
    flow = small(RealNVP, 5, layers=2)
    q = flow(torch.randn(1, 4))
    v, z = (d.rsample((), torch.Generator().manual_seed(0)) for d in (q, q.base))
    assert (v != z).all()


@pytest.mark.parametrize("cls", FLOWS)
def test_half_precision_outside_leaves_densities_alone(cls):
    flow = small(cls, encoder=nn.Linear(6, 4)).float()
    with torch.autocast("cpu", torch.bfloat16):
        v, log_q = flow(torch.randn(3, 6, dtype=torch.float32)).rsample_and_log_prob((5,))
    assert v.dtype == log_q.dtype == torch.float32


def test_compiles_with_the_real_compiler():
    torch._dynamo.reset()
    flow = small(RealNVP, 2, bounds=(-1, 1), layers=2, components=2)

    def loss(h):
        v, log_weights, log_q = quadrature(flow(h), 4)
        return (log_weights.exp() * (v.square().sum(-1) + log_q)).sum()

    h = torch.randn(3, 4)
    values = []
    for function in (loss, torch.compile(loss, fullgraph=True)):
        flow.zero_grad()
        torch.manual_seed(0)
        with torch._inductor.config.patch(fallback_random=True):  # the numbers that eager mode draws
            function(h).backward()
        values.append([p.grad for p in flow.parameters()])
    torch.testing.assert_close(*values)


def test_states_load_across_masks():
    a, b = (small(RealNVP, 6) for _ in range(2))
    assert not torch.equal(a.conditioners.reads, b.conditioners.reads)
    b.load_state_dict(a.state_dict())
    h, v = torch.randn(2, 4), torch.randn(7, 2, 6)
    assert torch.equal(a(h).log_prob(v), b(h).log_prob(v))


@pytest.mark.parametrize("cls", FLOWS)
@pytest.mark.parametrize("samples", [(0,), (2, 0)])
def test_no_samples_of_a_flow_are_an_empty_tensor(cls, samples):
    q = small(cls)(torch.randn(2, 4))
    v, log_q = q.rsample_and_log_prob(samples)
    assert v.shape == q.sample(samples).shape == (*samples, 2, 3)
    assert log_q.shape == q.log_prob(v).shape == (*samples, 2)
