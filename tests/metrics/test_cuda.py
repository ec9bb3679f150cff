"""On a GPU: the numbers of the CPU."""

import pytest
import torch
from torch.distributions import Independent, Uniform

from erlangen.metrics import (
    Orbit,
    Saliency,
    consistency,
    distribution_invariance,
    expected_divergence,
    jacobian_norm,
    logit_invariance,
    saliency_similarity,
    scores,
)
from erlangen.transforms import Affine, Rotations

from .classifiers import network

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
Y = torch.tensor([0, 1, 2, 2, 0])


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)
        assert a.is_cuda


@pytest.mark.parametrize("metric", [logit_invariance, distribution_invariance, consistency, saliency_similarity])
def test_an_orbit(metric):
    kwargs = {"saliency": Saliency(steps=5)} if metric is saliency_similarity else {}
    model, x = network(), torch.rand(5, 1, 6, 6)
    expected = metric(model, x, Rotations(4), y=Y, **kwargs)
    close(metric(model.cuda(), x.cuda(), Rotations(4).cuda(), y=Y, **kwargs), expected)


@pytest.mark.parametrize("metric", [scores, expected_divergence])
def test_several_at_once(metric):
    model, x = network(), torch.rand(5, 1, 6, 6)
    expected = metric(model, x, Rotations(4), y=Y)
    for found, other in zip(metric(model.cuda(), x.cuda(), Rotations(4).cuda(), y=Y), expected, strict=True):
        close(found, other)


@pytest.mark.parametrize("method", ["exact", "power"])
def test_the_jacobian(method):
    model, x = network(), torch.rand(5, 1, 6, 6)
    expected = jacobian_norm(model, x, y=Y, method=method)
    close(jacobian_norm(model.cuda(), x.cuda(), y=Y, method=method), expected)


def test_a_law_is_drawn_on_the_device_and_again_the_same():
    model, x, transform = network().cuda(), torch.rand(5, 1, 6, 6).cuda(), Affine("angle").cuda()
    law = Independent(Uniform(torch.full((1,), -3.0).cuda(), torch.full((1,), 3.0).cuda()), 1)
    first, second = (logit_invariance(model, x, Orbit(transform, law)) for _ in range(2))
    assert torch.equal(first.inputs, second.inputs)
