"""The Kronecker-factored determinant: exact where the curvature has its form, and of a whole set from few inputs."""

import pytest
import torch
from torch import nn

from erlangen.objectives import curvature as module
from erlangen.objectives.curvature import Kronecker
from erlangen.objectives.marginal_likelihood import gradients

torch_rng = torch.Generator().manual_seed(0)
PRECISION = torch.tensor(0.7, dtype=torch.float64)


def draw(*size):
    return torch.randn(*size, dtype=torch.float64, generator=torch_rng)


def of_products(a=3, b=4):
    """Gradients of a matrix whose curvature is a Kronecker product: all products of some vectors with some others."""
    return torch.einsum("ri,sj->rsij", draw(5, a), draw(6, b)).flatten(0, 1)


def exact(g, weight, precision, size):
    """Half the logarithm of the determinant, over the size, from the whole matrix."""
    g = g.flatten(1)
    whole = torch.eye(g.shape[1], dtype=g.dtype) + size * weight * g.T @ g / precision
    return torch.linalg.slogdet(whole)[1] / (2 * size)


def remembered(g, weight=0.25, memory=1, steps=1):
    own = Kronecker(g[0], memory)
    for _ in range(steps):
        own.add(g, weight)
    own.refresh()
    return own


@pytest.mark.parametrize("g", [of_products(), draw(6, 5), draw(8, 1), of_products(3, 4).unflatten(2, (2, 2))])
def test_the_determinant_and_its_gradients(g):
    """Of Kronecker products, of vectors: the value, and the gradients of precision and rows."""
    own, precision = remembered(g), PRECISION.clone().requires_grad_()
    g = g.requires_grad_()
    ours, true = own.complexity(g, 0.25, precision, 50), exact(g, 0.25, precision, 50)
    torch.testing.assert_close(ours, true)
    for mine, its in zip(*(torch.autograd.grad(v, (precision, g)) for v in (ours, true)), strict=True):
        torch.testing.assert_close(mine, its)


def test_the_trace_is_exact():
    """Of any gradients: with a great precision the determinant is the trace."""
    g = draw(9, 3, 4)
    ours, true = remembered(g).complexity(g, 0.25, torch.tensor(1e9), 50), 0.25 * g.square().sum() / 2e9
    torch.testing.assert_close(ours, true, rtol=1e-6, atol=0)


def test_the_mean_is_over_steps():
    """From the first step on, whatever the memory; and old ones are forgotten."""
    g = of_products()
    for memory, steps in ((20, 1), (20, 3), (5, 4)):
        torch.testing.assert_close(remembered(g, memory=memory, steps=steps).values, remembered(g).values)
    own = Kronecker(g[0], 4)
    own.add(100 * g, 0.25)
    for _ in range(200):
        own.add(g, 0.25)
    own.refresh()
    torch.testing.assert_close(own.values, remembered(g).values)


def test_a_long_side_has_a_diagonal(monkeypatch):
    """Exact where inputs are: unit vectors times anything."""
    monkeypatch.setattr(module, "LARGEST", 3)
    g = torch.einsum("ri,sj->rsij", draw(5, 3), torch.diag(draw(4))).flatten(0, 1)
    own = remembered(g)
    assert own.right.shape == (4,)
    torch.testing.assert_close(own.complexity(g, 0.25, PRECISION, 50), exact(g, 0.25, PRECISION, 50))


def test_of_a_whole_set_from_few_inputs_and_outputs():
    """In a logistic regression of 2,000 inputs; a determinant of 32 alone, made larger, is ten times as much."""
    x, weights = draw(2000, 20), {"w": draw(2, 20) / 2}
    whole, weight = gradients(lambda w, x: w["w"] @ x, weights, (x,))
    precision = PRECISION.clone().requires_grad_()
    true = torch.autograd.grad(exact(whole["w"], weight, precision, 2000), precision)[0]
    own, found = Kronecker(weights["w"], 100), []
    for step in range(300):
        part = x[torch.randint(2000, (32,), generator=torch_rng)]
        rows, weight = gradients(lambda w, x: w["w"] @ x, weights, (part,), outputs=1)
        own.add(rows["w"], weight)
        if step >= 200 and step % 20 == 0:
            own.refresh()
            value = own.complexity(rows["w"], weight, precision, 2000)
            found.append(torch.autograd.grad(value, precision)[0])
    torch.testing.assert_close(torch.stack(found).mean(), true, rtol=0.02, atol=0)
    assert torch.autograd.grad(exact(rows["w"], weight, precision, 32), precision)[0] / true > 5


def test_of_many_classes_the_drawn_ones_say_what_all_do():
    """Few of 50 count for an input. Were all as likely, memory would miss many, and say a fifth less."""
    x, weights = 3 * draw(200, 10), {"w": draw(50, 10)}
    own, found = Kronecker(weights["w"], 20), []
    rows, weight = gradients(lambda w, x: w["w"] @ x, weights, (x,))
    true = remembered(rows["w"], weight).complexity(rows["w"], weight, PRECISION, 200)
    for step in range(120):
        part = x[torch.randint(200, (32,), generator=torch_rng)]
        rows, weight = gradients(lambda w, x: w["w"] @ x, weights, (part,), outputs=1)
        own.add(rows["w"], weight)
        if step >= 40 and step % 20 == 0:
            own.refresh()
            found.append(own.complexity(rows["w"], weight, PRECISION, 200))
    torch.testing.assert_close(torch.stack(found).mean(), true, rtol=0.03, atol=0)


def test_what_is_not_finite_is_no_error_here():
    """The loss says that the run diverges."""
    own = remembered(draw(4, 3, 2) * float("nan"))
    assert own.values.isfinite().all()


def test_steps_between_loss_and_gradient():
    """What is remembered may change before the gradient is asked for."""
    g, precision = draw(4, 3, 2).requires_grad_(), PRECISION.clone().requires_grad_()
    own = remembered(g)
    value = own.complexity(g, 0.25, precision, 50)
    own.add(2 * g, 0.25)
    own.refresh()
    before = torch.autograd.grad(value, (g, precision))
    after = torch.autograd.grad(remembered(g).complexity(g, 0.25, precision, 50), (g, precision))
    torch.testing.assert_close(before, after)


def test_one_number():
    weights = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    own, g = Kronecker(weights, 1), draw(5)
    own.add(g, 0.25)
    own.refresh()
    torch.testing.assert_close(own.complexity(g, 0.25, PRECISION, 50), exact(g.unsqueeze(1), 0.25, PRECISION, 50))
