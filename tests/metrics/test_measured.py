"""Means, intervals that hold what they promise, and calls of the model that leave no trace."""

import sys

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn
from torch.distributions import Exponential, Normal

from erlangen.metrics import Bootstrap, measured
from erlangen.metrics.outputs import check_data, classify, measuring

TRIALS, N = 400, 200


def covered(law, mean, level=0.95):
    """How many of the intervals hold the true mean."""
    bootstrap = Bootstrap(level, resamples=300)
    low, high = torch.stack([measured(v, bootstrap=bootstrap).interval for v in law.sample((TRIALS, N))]).T
    return int(((low <= mean) & (mean <= high)).sum())


@pytest.mark.parametrize(("law", "mean"), [(Normal(3.0, 2.0), 3.0), (Exponential(1.0), 1.0)])
def test_the_interval_holds_the_mean_about_as_often_as_it_says(law, mean):
    # The percentile bootstrap of 200 values covers between 93 % and 95.5 %; at most 1e-5 of seeds fail on each side.
    assert binom.ppf(1e-5, TRIALS, 0.93) <= covered(law, mean) <= binom.ppf(1 - 1e-5, TRIALS, 0.955)


def test_an_interval_that_is_too_narrow_does_not():
    assert covered(Normal(3.0, 2.0), 3.0, level=0.8) < binom.ppf(1e-5, TRIALS, 0.93)


def test_the_interval_is_that_of_the_normal_law():
    values = torch.randn(4000)
    low, high = measured(values, bootstrap=Bootstrap(resamples=4000)).interval
    error = values.std() / 4000**0.5
    # A quantile of 4000 resamples has a standard error of about 0.04 standard errors of the mean.
    torch.testing.assert_close(
        torch.stack((low, high)), values.mean() + error * torch.tensor([-1.96, 1.96]), atol=0.004, rtol=0
    )


def test_means_of_classes():
    found = measured(torch.tensor([1.0, 3.0, 5.0, 9.0]), torch.tensor([0, 0, 3, 3]), classes=5)
    torch.testing.assert_close(found.classes, torch.tensor([2.0, torch.nan, torch.nan, 7.0, torch.nan]), equal_nan=True)
    assert found.mean == 4.5
    assert measured(torch.ones(3)).classes is None
    assert measured(torch.ones(3)).interval.tolist() == [1, 1]


def test_what_is_infinite_has_an_interval():
    """A model that rules the true class of an input out: of resamples, most hold it, and some do not."""
    found = measured(torch.tensor([1.0, torch.inf, 1.0, 1.0]))
    assert found.interval.tolist() == [1, torch.inf]
    assert measured(torch.full((4,), torch.inf)).interval.tolist() == [torch.inf, torch.inf]
    assert measured(torch.tensor([1.0, torch.nan])).interval.isnan().all()


def test_a_level_is_any_number():
    values = torch.randn(50)
    other = measured(values, bootstrap=Bootstrap(level=np.float32(0.95))).interval
    torch.testing.assert_close(other, measured(values).interval)


def test_the_seed_decides_and_the_parts_do_not(monkeypatch):
    values = torch.randn(50)
    first = measured(values).interval
    assert torch.equal(first, measured(values).interval)
    assert not torch.equal(first, measured(values, bootstrap=Bootstrap(seed=1)).interval)
    monkeypatch.setattr(sys.modules[measured.__module__], "LARGEST", 120)
    assert torch.equal(first, measured(values).interval)


def test_a_module_is_evaluated_and_gets_its_modes_back():
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[1].eval()
    modes = [part.training for part in model.modules()]
    state = {k: v.clone() for k, v in model.state_dict().items()}
    x, before = torch.rand(3, 1, 2, 2), torch.get_rng_state()
    with measuring(0, model):
        assert not any(part.training for part in model.modules())
        assert torch.equal(classify(model, x), classify(model, x))
        torch.rand(3)
    assert [part.training for part in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


def test_inputs_of_another_type_than_the_model_are_named():
    model, x = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).bfloat16(), torch.rand(3, 1, 2, 2)
    with pytest.raises(
        ValueError, match=r"^x: received a float32 .* a model in torch.bfloat16, .*x.to\(torch.bfloat16"
    ):
        classify(model, x.float())
    assert classify(model, x.bfloat16()).dtype == torch.float32
    assert torch.equal(classify(Own(model), x), classify(model, x.bfloat16()))
    with pytest.raises(RuntimeError, match="shapes"):  # which is another matter
        classify(model, torch.rand(3, 1, 2, 3).bfloat16())


class Own(nn.Module):
    """A model that knows its type."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x.bfloat16())


def test_modes_come_back_after_an_error():
    model = nn.Dropout(0.5)
    with pytest.raises(ValueError, match=r"^model: received"), measuring(0, model):
        classify(model, torch.rand(3, 1, 2, 2))
    assert model.training


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("inputs", lambda: measured(torch.zeros(0))),
        ("inputs", lambda: measured(torch.zeros(2, 2))),
        ("y", lambda: measured(torch.zeros(2), torch.tensor([0, 3]), classes=3)),
        ("y", lambda: measured(torch.zeros(2), torch.tensor([0, -1]), classes=3)),
        ("y", lambda: measured(torch.zeros(2), torch.tensor([0.0, 1.0]), classes=3)),
        ("y", lambda: check_data(torch.rand(2, 1, 4, 4), torch.tensor([0, 1, 2]))),
        ("x", lambda: check_data(torch.rand(4, 4), None)),
        ("x", lambda: check_data(None, torch.tensor([0]))),  # pyright: ignore
        ("bootstrap", lambda: measured(torch.zeros(2), bootstrap=Bootstrap(level=1.0))),
        ("bootstrap.resamples", lambda: measured(torch.zeros(2), bootstrap=Bootstrap(resamples=0))),
        ("model", lambda: classify(lambda x: x, torch.rand(2, 1, 4, 4))),
        ("model", lambda: classify(lambda x: "logits", torch.rand(2, 1, 4, 4))),
        ("model", lambda: classify(lambda x: torch.zeros(3, 2), torch.rand(2, 1, 4, 4))),
        ("model", lambda: classify(lambda x: x.flatten(1) * torch.nan, torch.rand(2, 1, 4, 4))),
        ("model", lambda: classify(lambda x: 1 / (0 * x.flatten(1)), torch.rand(2, 1, 4, 4))),
        ("model", lambda: classify(lambda x: (0 * x.flatten(1)).log(), torch.rand(2, 1, 4, 4))),
        ("bootstrap", lambda: measured(torch.zeros(2), bootstrap=0.9)),  # pyright: ignore
        ("model", lambda: measuring(0, 3).__enter__()),
    ],
)
def test_bad_input_is_named(name, make):
    with pytest.raises(ValueError, match=f"^{name}: received"):
        make()
