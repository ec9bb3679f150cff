"""The closed-form exponential and logarithm against scipy, finite differences and identities."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from erlangen.transforms import affine_exp, affine_log
from erlangen.transforms.matrix import affine_inverse, compose_matrices, linear_exp, polar_log


def by_scipy(rows, function=scipy.linalg.expm):
    full = np.zeros((len(rows), 3, 3))
    full[:, :2] = rows.double().numpy()
    return torch.from_numpy(np.stack([function(a) for a in full]))


def relative(a, b):
    return ((a - b).abs().amax((-1, -2)) / b.abs().amax((-1, -2))).max().item()


def special():
    """Vanishing and coincident eigenvalues, exactly and nearly, of all signs."""
    rows = []
    for a in (0.0, 1e-9, 1e-4, 0.1, 1.0, 3.0, 7.0):
        for tiny in (0.0, 1e-12, 1e-7, 1e-3):
            rows += [
                [[a, 0, 1], [0, tiny, 2]],
                [[-a, 0, 1], [0, tiny, 2]],
                [[a, 1, 1], [tiny, a, 2]],
                [[a, 1, 1], [-tiny, a, 2]],
                [[a, tiny, 1], [-tiny, a, 2]],
                [[tiny, a, 1], [-a, tiny, -1]],
                [[a, 0.5, 1], [0.5, -a + tiny, 3]],
            ]
    return torch.tensor(rows)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 2e-11), (torch.float32, 3e-6)])
@pytest.mark.parametrize("scale", [1e-8, 1e-4, 0.1, 1.0, 3.0, 8.0])
def test_exp_equals_scipy(scale, dtype, bound):
    rows = scale * torch.randn(200, 2, 3)
    assert relative(affine_exp(rows.to(dtype)).double(), by_scipy(rows.to(dtype))) < bound


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 2e-11), (torch.float32, 3e-6)])
def test_exp_at_singular_and_coincident_eigenvalues(dtype, bound):
    """Against torch: scipy is itself off by 1e-4 on triangular matrices with nearly coincident eigenvalues."""
    rows = special().to(dtype)
    full = torch.cat((rows.double(), torch.zeros(len(rows), 1, 3)), 1)
    assert relative(affine_exp(rows).double(), torch.matrix_exp(full)) < bound


@pytest.mark.parametrize("angle", [1.0, 10.0, 40.0, 300.0])
def test_exp_of_many_turns(angle):
    rows = torch.tensor([[[0.0, angle, 1.0], [-angle, 0.0, 2.0]]])
    assert relative(affine_exp(rows), by_scipy(rows)) < 1e-11


def test_exp_gradients():
    small = special()[special().abs().amax((-1, -2)) <= 3][::5]
    turning = torch.tensor([[[0.1, 30.0, 1.0], [-30.0, 0.0, 2.0]], [[-9.0, 0.3, 1.0], [0.2, -10.0, 2.0]]])
    rows = torch.cat((small, torch.randn(5, 2, 3), turning)).requires_grad_()
    assert torch.autograd.gradcheck(affine_exp, rows, atol=1e-6, rtol=1e-4)
    assert torch.autograd.gradgradcheck(affine_exp, rows, atol=1e-5, rtol=1e-4)


def test_second_derivatives_where_no_determinant_is_large():
    """Eager code takes another way there."""
    rows = torch.cat((torch.zeros(1, 2, 3), torch.randn(4, 2, 3))).requires_grad_()
    assert torch.autograd.gradcheck(affine_exp, rows)
    assert torch.autograd.gradgradcheck(affine_exp, rows)


def test_exp_gradients_in_float32():
    rows = torch.cat((special()[special().abs().amax((-1, -2)) <= 3], torch.randn(200, 2, 3)))
    weight = torch.rand(len(rows), 3, 3)
    exact, single = rows.clone().requires_grad_(), rows.float().requires_grad_()
    (affine_exp(exact) * weight).sum().backward()
    (affine_exp(single) * weight.float()).sum().backward()
    assert relative(single.grad.double(), exact.grad) < 1e-5


def test_exp_maps_and_compiles():
    rows = torch.randn(7, 2, 3)
    assert torch.allclose(torch.vmap(affine_exp)(rows), affine_exp(rows), atol=1e-14)
    jacobian = torch.func.jacrev(affine_exp)(rows[0])
    assert jacobian.shape == (3, 3, 2, 3)
    compiled = torch.compile(affine_exp, fullgraph=True)
    ours, theirs = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    compiled(ours).square().sum().backward()
    affine_exp(theirs).square().sum().backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-12)


def test_log_equals_scipy():
    g = affine_exp(0.8 * torch.randn(200, 2, 3))
    logs = by_scipy(g[:, :2], lambda a: scipy.linalg.logm(np.vstack([a[:2], [0, 0, 1]])).real)
    assert (affine_log(g) - logs[:, :2]).abs().max() < 1e-9


def test_log_inverts_exp_near_the_identity_and_coincident_eigenvalues():
    rows = special()
    rows = rows[rows[:, :, :2].abs().amax((-1, -2)) <= 3]
    assert (affine_log(affine_exp(rows)) - rows).abs().max() < 1e-7
    single = affine_log(affine_exp(0.5 * torch.randn(300, 2, 3).float()))
    assert (affine_exp(single) - affine_exp(single.double())).abs().max() < 1e-4


def test_log_close_to_half_a_turn():
    rows = torch.tensor([[[0.2, 3.14, 1.0], [-3.14, 0.2, -2.0]], [[0.0, -3.1, 0.0], [3.1, 0.0, 1.0]]])
    assert (affine_log(affine_exp(rows)) - rows).abs().max() < 1e-9


def test_log_gradients():
    g = torch.cat((affine_exp(0.7 * torch.randn(8, 2, 3)), torch.eye(3)[None])).requires_grad_()
    assert torch.autograd.gradcheck(affine_log, g)
    assert torch.autograd.gradgradcheck(affine_log, g)


def untranslated(linear):
    return torch.cat((linear, torch.zeros_like(linear[..., :1])), -1)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-13), (torch.float32, 1e-6)])
def test_linear_exp_is_that_of_affine_maps_that_stay(dtype, bound):
    linear = torch.cat((special()[..., :2], torch.randn(200, 2, 2))).to(dtype)
    assert relative(linear_exp(linear).double(), affine_exp(untranslated(linear))[..., :2, :2].double()) < bound


def test_linear_exp_gradients():
    linear = torch.cat((special()[special().abs().amax((-1, -2)) <= 3][::3, :, :2], torch.zeros(1, 2, 2)))
    linear = linear.requires_grad_()
    assert torch.autograd.gradcheck(linear_exp, linear, atol=1e-6, rtol=1e-4)
    assert torch.autograd.gradgradcheck(linear_exp, linear, atol=1e-5, rtol=1e-4)
    assert torch.allclose(torch.vmap(linear_exp)(linear), linear_exp(linear))


def turn_by(angle):
    c, s = angle.cos(), angle.sin()
    return torch.stack((c, s, -s, c), -1).unflatten(-1, (2, 2))


def test_polar_log_equals_scipy():
    linear = linear_exp(torch.randn(100, 2, 2))
    angle, symmetric = polar_log(linear)
    for own, turn, log in zip(linear.numpy(), turn_by(angle).numpy(), symmetric.numpy(), strict=True):
        rotation, stretch = scipy.linalg.polar(own)
        assert np.abs(rotation - turn).max() < 1e-12
        assert np.abs(scipy.linalg.logm(stretch) - log).max() < 1e-11


def test_polar_log_of_thin_things_in_float32():
    """Of AᵀA, from which it could be had as well, nothing would be left: the square of 10,000 has no digits there."""
    angle = torch.rand(200) * 6 - 3
    log = torch.stack((torch.full((200,), 4.6), torch.zeros(200), torch.zeros(200), torch.full((200,), -4.6)), -1)
    linear = turn_by(angle) @ linear_exp(log.unflatten(-1, (2, 2)))
    found, symmetric = polar_log(linear.float())
    assert (torch.sin(found.double() - angle)).abs().max() < 1e-5
    assert (symmetric.double() - log.unflatten(-1, (2, 2))).abs().max() < 0.02


def test_polar_log_gradients():
    linear = torch.cat((linear_exp(torch.randn(8, 2, 2)), torch.eye(2)[None], turn_by(torch.tensor([2.0]))))
    linear = linear.requires_grad_()
    assert torch.autograd.gradcheck(polar_log, linear)
    assert torch.autograd.gradgradcheck(polar_log, linear)


@pytest.mark.parametrize(
    "linear",
    [
        [[-1.0, 0.0], [0.0, -1.0]],
        [[-1.0, 0.0], [0.0, -2.0]],
        [[1.0, 0.0], [0.0, -1.0]],
        [[0.0, 0.0], [0.0, 1.0]],
        [[-1.0, 1.0], [0.0, -1.0]],
    ],
)
def test_log_refuses_the_negative_axis(linear):
    g = torch.eye(3)
    g[:2, :2] = torch.tensor(linear)
    with pytest.raises(ValueError, match="negative axis"):
        affine_log(torch.stack((torch.eye(3), g)))


def test_bad_shapes():
    with pytest.raises(ValueError, match=r"m: received .*\(3, 3\)"):
        affine_exp(torch.zeros(3, 3))
    with pytest.raises(ValueError, match=r"g: received .*\(2, 2\)"):
        affine_log(torch.eye(2))


def test_inverse_and_product():
    g, h = affine_exp(torch.randn(2, 50, 2, 3))
    assert (compose_matrices(g, affine_inverse(g)) - torch.eye(3)).abs().max() < 1e-10
    assert torch.allclose(compose_matrices(g, h), g @ h, atol=1e-12)


def test_products_stay_precise_under_autocast():
    g, h = affine_exp(torch.randn(2, 50, 2, 3).float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        product = compose_matrices(g, h)
        again = affine_exp(torch.zeros(1, 2, 3, dtype=torch.float32) + math.pi)
    assert product.dtype == torch.float32
    assert torch.equal(product, compose_matrices(g, h))
    assert torch.equal(again, affine_exp(torch.zeros(1, 2, 3, dtype=torch.float32) + math.pi))
