"""The check of conditionals passes for what is right, whatever the seed and whatever the inputs are."""

import pytest
import torch
from torch import nn

from erlangen.distributions import Categorical, Dirac, Gaussian, GlobalUniform, Mixture, SplineFlow, StudentT
from erlangen.testing import check_conditional

FAMILIES = {
    "Dirac": lambda: Dirac(2, 3, periodic=(True, False), bounds=(-1.0, 1.0)),
    "Gaussian": lambda: Gaussian(2, 3, periodic=(True, False), bounds=(-1.0, 1.0)),
    "StudentT": lambda: StudentT(2, 3, bounds=(-1.0, 1.0)),
    "truncated": lambda: StudentT(2, 3, truncation=4.0, periodic=(False, True), bounds=(0.0, 1.0)),
    "GlobalUniform": lambda: GlobalUniform(2, 3, periodic=(True, False)),
    "Categorical": lambda: Categorical([[0.0], [1.0], [3.0]], 3),
    "Mixture": lambda: Mixture(2, 3, components=3, periodic=(True, False)),
    "SplineFlow": lambda: SplineFlow(1, 3, layers=3, width=8, periodic=(True,)),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_right_passes_whatever_the_seed(family, seed):
    check_conditional(FAMILIES[family](), build=FAMILIES[family], seed=seed)


def test_inputs_may_be_images():
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    check_conditional(Gaussian(2, 3, encoder=encoder), inputs=lambda n: torch.randn(n, 3, 2, 2))


def test_a_frozen_encoder_needs_no_gradient():
    encoder = nn.Sequential(nn.Linear(5, 3), nn.Tanh()).requires_grad_(False)
    check_conditional(Gaussian(2, 3, encoder=encoder), inputs=lambda n: torch.randn(n, 5))


def test_it_asks_for_a_conditional():
    for other in (nn.Linear(5, 3), Gaussian):
        with pytest.raises(AssertionError, match="is not a Conditional"):
            check_conditional(other)


def test_inputs_that_are_none_are_named():
    images = Gaussian(2, 3, encoder=nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten()))
    with pytest.raises(ValueError, match=r"inputs: received None, and features \(4, 3\) are not what .* takes"):
        check_conditional(images)
    for other in (torch.zeros(4, 3), lambda n: None, lambda n: torch.zeros(n + 1, 3)):
        with pytest.raises(ValueError, match=r"inputs: received .*; accepted is a function that makes a batch"):
            check_conditional(Gaussian(2, 3), inputs=other)
