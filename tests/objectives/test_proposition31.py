"""Invariance-induced spectral decay: Proposition 3.1 of genuine invariance, on linear networks h(x) = Wx."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from erlangen.objectives import REGULARISERS, InvarianceRegularised
from erlangen.transforms import Flips, Rotations, Shifts

SIZE, CLASSES = 4, 5
INPUTS = SIZE * SIZE
ONE = torch.zeros(1, dtype=torch.long)


def setting(group=None):
    """Weights W(0), an input x and the input moved by one element, Gx."""
    group = Rotations(4) if group is None else group
    x = torch.randn(1, 1, SIZE, SIZE)
    moved = group.act(torch.tensor([1]), x)
    return torch.randn(CLASSES, INPUTS), x.flatten(1), moved.flatten(1)


def gradient(w, x, moved):
    """Of the logit invariance error, by autograd."""
    w = w.clone().requires_grad_()
    error = REGULARISERS["logit"](x @ w.mT, (moved @ w.mT).unsqueeze(0)).sum()
    return torch.autograd.grad(error, w)[0]


def descend(w, x, moved, rate, steps):
    """The weights along a descent, the first included, `(steps + 1, K, D)`."""
    path = [w]
    for _ in range(steps):
        path.append(path[-1] - rate * gradient(path[-1], x, moved))
    return torch.stack(path)


def sigma_max(w):
    return torch.linalg.matrix_norm(w, 2)


@pytest.mark.parametrize("group", [Rotations(4), Shifts(2), Flips()], ids=lambda g: type(g).__name__)
def test_the_gradient_is_w_sigma(group):
    w, x, moved = setting(group)
    epsilon = (x - moved).squeeze(0)
    torch.testing.assert_close(gradient(w, x, moved), w @ torch.outer(epsilon, epsilon))


def test_descent_follows_the_flow_of_equation_6():
    """Euler steps of size a to time t: their distance to W(0) exp(-Σt) falls in proportion to a."""
    w, x, moved = setting()
    epsilon = (x - moved).squeeze(0)
    time = 1 / (epsilon @ epsilon)
    flow = w @ torch.linalg.matrix_exp(-torch.outer(epsilon, epsilon) * time)
    gaps = [(descend(w, x, moved, time / n, n)[-1] - flow).norm() for n in (50, 100, 200)]
    for coarse, fine in pairwise(gaps):
        assert coarse / fine == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize("group", [Rotations(4), Shifts(2), Flips()], ids=lambda g: type(g).__name__)
def test_the_greatest_singular_value_never_grows(group):
    w, x, moved = setting(group)
    squared = (x - moved).square().sum()
    path = descend(w, x, moved, 0.1 / squared, 300)
    sigma = sigma_max(path)
    assert (sigma.diff() <= 1e-12 * sigma[0]).all()
    assert sigma[-1] < (1 - 1e-6) * sigma[0]
    torch.testing.assert_close(path[-1] @ x.mT, path[-1] @ moved.mT, rtol=0, atol=1e-9)  # and it is invariant


def test_the_bound_is_reached_where_the_network_ignores_the_change():
    """Weights that are great only where x and Gx agree keep their norm: the proposition says no more than at most."""
    w, x, moved = setting()
    epsilon = nn.functional.normalize((x - moved).squeeze(0), dim=0)
    w = w - torch.outer(w @ epsilon, epsilon) * 0.9
    kept = w - torch.outer(w @ epsilon, epsilon)
    path = descend(w, x, moved, 0.1 / (x - moved).square().sum(), 300)
    torch.testing.assert_close(path[-1], kept, rtol=0, atol=1e-9)
    assert sigma_max(kept) <= sigma_max(w)
    torch.testing.assert_close(sigma_max(descend(kept, x, moved, 0.01, 50)), sigma_max(kept).expand(51))


@pytest.mark.parametrize("rate", [-0.1, 2.5], ids=["ascent", "steps too long"])
def test_a_broken_twin_grows(rate):
    """The flow is that of small steps: at 2 / εᵀε and beyond, the part of W along ε grows."""
    w, x, moved = setting()
    sigma = sigma_max(descend(w, x, moved, rate / (x - moved).square().sum(), 30))
    assert sigma[-1] > 1.5 * sigma[0]


@pytest.mark.parametrize("group", [Rotations(4), Shifts(2), Flips()], ids=lambda g: type(g).__name__)
def test_a_whole_orbit_and_many_inputs_leave_the_invariant_part(group):
    """Enough inputs span all that the group changes: W(∞) is the mean of W(0)G over the group."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(INPUTS, CLASSES, bias=False))
    weight = net[1].weight
    objective = InvarianceRegularised(net, group, augment=False)
    x = torch.randn(40, 1, SIZE, SIZE)
    images = weight.detach().clone().view(CLASSES, 1, SIZE, SIZE)
    symmetric = group.act(group.elements().unsqueeze(1), images).mean(0).flatten(1)
    sigma = [sigma_max(weight.detach())]
    for _ in range(400):
        (grad,) = torch.autograd.grad(objective((x, ONE.expand(40)))["invariance"], weight)
        with torch.no_grad():
            weight -= 0.3 * grad
        sigma.append(sigma_max(weight.detach()))
    assert (torch.stack(sigma).diff() <= 1e-12).all()
    torch.testing.assert_close(weight.detach(), symmetric, rtol=0, atol=1e-6)
