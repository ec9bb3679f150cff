"""The gradient in closed form against automatic differentiation; the flows themselves are tested in test_velocity."""

import pytest
import torch

from erlangen.transforms import flow1d

CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def uniform(*shape, scale=1.0):
    return (torch.rand(*shape) * 2 - 1) * scale


def features(cells, zero_boundary):
    return cells - 1 if zero_boundary else cells + 1


def plain(theta, x, cells, zero_boundary):
    return flow1d._path(theta, x, cells, zero_boundary)[0]


def gradients(flow, theta, x, cells, zero_boundary, **kwargs):
    theta, x = (a.clone().requires_grad_() for a in (theta, x))
    y = flow(theta.expand(*torch.broadcast_shapes(theta.shape[:-1], x.shape[:-1]), -1), x, cells, zero_boundary)
    weights = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape)
    return y, *torch.autograd.grad((y * weights).sum(), (theta, x), **kwargs)


def check(theta, x, cells, zero_boundary):
    results = [gradients(flow, theta, x, cells, zero_boundary) for flow in (flow1d.flow, plain)]
    assert "_Flow" in results[0][0].grad_fn.name()
    assert "_Flow" not in results[1][0].grad_fn.name()
    for ours, expected in zip(*results, strict=True):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.parametrize("zero_boundary", [True, False])
@pytest.mark.parametrize("cells", [2, 5, 10])
@pytest.mark.parametrize("scale", [1e-9, 0.3, 1.0, 5.0])
def test_gradient_at_random_points(cells, zero_boundary, scale):
    theta = uniform(20, features(cells, zero_boundary), scale=scale)
    check(theta, uniform(20, 50, scale=1.3), cells, zero_boundary)


@pytest.mark.parametrize("zero_boundary", [True, False])
def test_gradient_without_motion_and_on_nodes(zero_boundary):
    # All ends of cells are points, also those where the velocity is zero, and so are points of rest inside cells.
    size = features(8, zero_boundary)
    theta = torch.cat([torch.zeros(1, size), uniform(9, size), uniform(9, size).round(), torch.ones(2, size)])
    theta[-1] *= -1
    check(theta, torch.linspace(-1, 1, 17), 8, zero_boundary)
    alternating = torch.tensor([0.5, -0.5]).repeat(size)[:size]
    check(alternating * torch.tensor([[1.0], [-1.0], [4.0]]), torch.linspace(-1.5, 1.5, 25), 8, zero_boundary)


def test_gradient_is_the_ratio_of_velocities():
    # dy/dx = v(y) / v(x), wherever a point moves to.
    theta, x = uniform(30, 9), uniform(30, 40)
    x.requires_grad_()
    y = flow1d.flow(theta, x, 10, True)
    (slope,) = torch.autograd.grad(y.sum(), x)
    before, after = (flow1d.velocity(theta, p, 10, True) for p in (x, y))
    torch.testing.assert_close(slope * before, after, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (3, 7), (2, 1, 7), (2, 3, 7), (5, 1, 1, 7)])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_gradient_of_what_is_shared(batch, shape):
    check(uniform(*batch, 4), uniform(*shape), 5, True)


def test_either_may_be_constant():
    theta, x = uniform(4, 4), uniform(1, 6)
    both = gradients(flow1d.flow, theta, x, 5, True)
    for k in range(2):
        inputs = [theta.clone(), x.clone()]
        inputs[k].requires_grad_()
        y = flow1d.flow(*inputs, 5, True)
        y.backward(torch.linspace(-1, 2, y.numel()).reshape(y.shape))
        assert torch.equal(inputs[k].grad, both[1 + k])
        assert inputs[1 - k].grad is None
        assert torch.autograd.gradgradcheck(
            lambda a, k=k: flow1d.flow(*((a, x) if k == 0 else (theta, a)), 5, True), inputs[k]
        )
    assert not flow1d.flow(theta, x, 5, True).requires_grad


@pytest.mark.parametrize("zero_boundary", [True, False])
def test_higher_derivatives(zero_boundary):
    theta, x = uniform(6, features(5, zero_boundary)), uniform(6, 9)
    seconds = []
    for flow in (flow1d.flow, plain):
        t, p = theta.clone().requires_grad_(), x.clone().requires_grad_()
        first = torch.autograd.grad(flow(t, p, 5, zero_boundary).square().sum(), (t, p), create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), (t, p), create_graph=True)
        third = torch.autograd.grad(sum(g.square().sum() for g in second), (t, p))
        seconds.append((*first, *second, *third))
    for ours, expected in zip(*seconds, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-8)


def test_points_may_depend_on_theta():
    # Both gradients to theta count, each once; also in the second derivative.
    theta = uniform(3, 4).requires_grad_()
    results = []
    for flow in (flow1d.flow, plain):
        y = flow(theta, torch.tanh(theta), 5, True)
        (first,) = torch.autograd.grad(y.square().sum(), theta, create_graph=True)
        results.append((first, *torch.autograd.grad(first.sin().sum(), theta)))
    torch.testing.assert_close(*results, **CLOSE)


def test_many_gradients_at_once():
    theta, x = uniform(3, 4).requires_grad_(), uniform(3, 6).requires_grad_()
    y = flow1d.flow(theta, x, 5, True)
    weights = uniform(8, 3, 6)
    batched = torch.autograd.grad(y, (theta, x), weights, is_grads_batched=True, retain_graph=True)
    mapped = torch.vmap(lambda w: torch.autograd.grad(y, (theta, x), w, retain_graph=True))(weights)
    for k, w in enumerate(weights):
        single = torch.autograd.grad(y, (theta, x), w, retain_graph=True)
        for many in (batched, mapped):
            torch.testing.assert_close(tuple(g[k] for g in many), single, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("zero_boundary", [True, False])
def test_gradient_is_finite_everywhere(dtype, zero_boundary):
    size = features(5, zero_boundary)
    theta = torch.cat([uniform(3, size) * s for s in (0, 1e-38, 1e-20, 1e-8, 1, 10)])
    theta = torch.cat([theta, theta.round()]).to(dtype)
    x = torch.tensor([-1e30, -3.0, -1, -0.6, -0.5, 0, 0.2, 1 / 3, 0.6, 1, 3, 1e30], dtype=dtype)
    assert all(a.isfinite().all() for a in gradients(flow1d.flow, theta, x, 5, zero_boundary))


def test_no_rounding_leaks_into_slow_cells():
    # Nobody crosses the slow cell on the right, where the sensitivity of the crossing time is 1e5 times that elsewhere.
    theta, x = torch.tensor([[2.0, 1.9, 1.8, 1.9, 2.0, 1e-6, 0.0, 0.0, 0.0]]), torch.linspace(-0.9, -0.7, 200)
    single = gradients(flow1d.flow, theta.float(), x.float(), 10, True)
    double = gradients(flow1d.flow, theta, x, 10, True)
    assert (single[1] - double[1]).abs().max() < 1e-3 * double[1].abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cells", [6, 8, 10, 20])
@pytest.mark.parametrize("speed", [1e-4, 1e-3, 1e-2])
def test_slow_points_on_nodes_and_just_beside_them_stay_near(cells, speed, dtype):
    """Adding up rounds what lies just before a node to the node, from which the way to the left is a whole cell."""
    nodes = torch.linspace(-1, 1, cells + 1, dtype=dtype)
    up, down = (nodes.nextafter(torch.tensor(end, dtype=dtype)) for end in (2.0, -2.0))
    grids = [torch.linspace(-1, 1, n, dtype=dtype) for n in (25, 55, 82, 115, 135)]
    x = torch.cat((nodes, up, down, *grids)).sort().values
    for sign in (1, -1):
        theta = torch.full((1, cells - 1), sign * speed, dtype=dtype)
        y = flow1d.flow(theta, x[None], cells, True)[0]
        assert (y - x).abs().max() < 1.2 * speed
        assert y.diff().min() > -4 * torch.finfo(dtype).eps
        back = flow1d.flow(-theta, y[None], cells, True)[0]
        torch.testing.assert_close(back, x, rtol=0, atol=40 * torch.finfo(dtype).eps)
