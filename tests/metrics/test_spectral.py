"""The largest singular value of the Jacobian, by linear algebra and by iteration."""

import sys

import pytest
import torch
from torch import nn

from erlangen.metrics import jacobian_norm

METHODS = ["exact", "power"]


def network(classes=5):
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten())
    return nn.Sequential(*net, nn.Linear(16, classes))


@pytest.mark.parametrize("method", METHODS)
def test_of_a_linear_map_it_is_that_of_its_matrix(method):
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 7))
    found = jacobian_norm(model, torch.rand(3, 1, 6, 6), method=method)
    expected = torch.linalg.svdvals(model[1].weight)[0].detach()
    torch.testing.assert_close(found.inputs, expected.expand(3))
    # The Frobenius norm, the cheap mistake, is something else.
    assert model[1].weight.norm() > 1.2 * expected


@pytest.mark.parametrize("method", METHODS)
def test_of_a_network_it_is_that_of_the_autograd_jacobian(method):
    model, x = network().eval(), torch.rand(4, 1, 6, 6)
    each = [torch.autograd.functional.jacobian(model, x[i : i + 1])[0, :, 0].flatten(1) for i in range(4)]  # pyright: ignore
    expected = torch.linalg.svdvals(torch.stack(each))[:, 0]
    assert expected.max() > 1.01 * expected.min()
    for size in (1, 3, 100):
        found = jacobian_norm(model, x, method=method, batch_size=size, y=torch.tensor([0, 1, 1, 4]))
        torch.testing.assert_close(found.inputs, expected)
        torch.testing.assert_close(found.classes[1], expected[1:3].mean())


# Equal values don't hinder; of values so close, a thousand steps leave the part (2.999 / 3)^4000 = 0.26 of the gap.
@pytest.mark.parametrize(("third", "error"), [(1.0, 1e-9), (2.999, 3e-4)])
def test_close_singular_values(third, error):
    q, _ = torch.linalg.qr(torch.randn(36, 6))
    values = torch.tensor([3.0, 3.0, third, 1.0, 0.0, 0.0])
    matrix = torch.linalg.qr(torch.randn(6, 6))[0] @ torch.diag(values) @ q.T
    found = jacobian_norm(lambda x: x.flatten(1) @ matrix.T, torch.rand(2, 1, 6, 6), method="power")
    torch.testing.assert_close(found.inputs, torch.full((2,), 3.0), atol=error, rtol=0)


def test_many_logits_are_iterated_and_few_are_exact(monkeypatch):
    called = []
    module = sys.modules[jacobian_norm.__module__]
    for name in ("_exact", "_power"):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, f=original, n=name: (called.append(n), f(*a))[1])
    x = torch.rand(2, 1, 6, 6)
    for classes in (64, 65):
        jacobian_norm(nn.Sequential(nn.Flatten(), nn.Linear(36, classes)), x)
    assert called == ["_exact", "_power"]


@pytest.mark.parametrize("method", METHODS)
def test_a_model_that_ignores_its_input_has_none(method):
    weight = torch.ones(3, requires_grad=True)
    found = jacobian_norm(
        lambda x: weight.expand(len(x), 3) + 0 * x.sum((1, 2, 3))[:, None], torch.rand(2, 1, 6, 6), method=method
    )
    assert (found.inputs == 0).all()
    found = jacobian_norm(lambda x: weight.expand(len(x), 3), torch.rand(2, 1, 6, 6), method=method)
    assert (found.inputs == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_it_is_measured_in_evaluation_mode_and_leaves_no_gradient(method):
    model = nn.Sequential(network(), nn.Dropout(0.5))
    x = torch.rand(3, 1, 6, 6)
    with torch.no_grad():
        first = jacobian_norm(model, x, method=method)
    assert torch.equal(first.inputs, jacobian_norm(model, x, method=method).inputs)
    assert model.training
    assert not first.inputs.requires_grad
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_that_does_not_reach_the_inputs_is_not_zero(method):
    head = nn.Linear(36, 3)
    with pytest.raises(ValueError, match=r"^model: received logits that depend on the inputs, but whose gradient"):
        jacobian_norm(lambda x: head(x.detach().flatten(1)), torch.rand(3, 1, 6, 6), method=method)


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_that_is_no_number_is_a_sentence(method):
    """That of a root at zero; the decomposition of a matrix with it fails in words of its own."""
    x = torch.rand(3, 1, 6, 6)
    x[1] = 0.0
    with pytest.raises(ValueError, match=r"^model: received NaN or infinite gradients for 1 of 3 inputs"):
        jacobian_norm(lambda x: x.square().sum(3).sum(2).sqrt() * torch.tensor([1.0, 2.0]), x, method=method)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("method", lambda: jacobian_norm(network(), torch.rand(2, 1, 6, 6), method="other")),  # pyright: ignore
        ("model", lambda: jacobian_norm(lambda x: torch.zeros(len(x), 2), torch.rand(2, 1, 6, 6))),
        ("batch_size", lambda: jacobian_norm(network(), torch.rand(2, 1, 6, 6), batch_size=0)),
        ("x", lambda: jacobian_norm(network(), torch.rand(6, 6))),
    ],
)
def test_bad_input_is_named(name, make):
    with pytest.raises(ValueError, match=f"^{name}: received"):
        make()
