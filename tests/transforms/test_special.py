"""Elementwise functions near their removable singularities."""

import math

import torch

from erlangen.transforms.special import growth, horner


def test_growth_and_its_derivatives():
    z = torch.tensor([0.0, 1e-300, 1e-9, -1e-5, 0.06, -0.0625, 0.07, 1.0, -3.0, 20.0, -40.0], requires_grad=True)
    assert torch.allclose(growth(z)[:3], torch.ones(3))
    assert torch.allclose(growth(z)[7:9], torch.tensor([math.e - 1, (1 - math.exp(-3)) / 3]))
    assert torch.autograd.gradcheck(growth, z, rtol=1e-6)
    assert torch.autograd.gradgradcheck(growth, z, rtol=1e-5)


def test_growth_at_zero_has_the_derivatives_one_half_and_one_third():
    z = torch.zeros((), requires_grad=True)
    (first,) = torch.autograd.grad(growth(z), z, create_graph=True)
    (second,) = torch.autograd.grad(first, z)
    assert (first.item(), second.item()) == (0.5, 1 / 3)


def test_growth_in_float32_and_mapped():
    z = torch.linspace(-4, 4, 1001)
    single, double = z.float().requires_grad_(), z.clone().requires_grad_()
    growth(single).sum().backward()
    growth(double).sum().backward()
    assert ((single.grad - double.grad) / double.grad).abs().max() < 1e-5
    assert torch.equal(torch.vmap(growth)(z), growth(z))


def test_horner():
    assert torch.equal(horner(torch.tensor([0.0, 2.0]), [1.0, 3.0, 5.0]), torch.tensor([1.0, 27.0]))
