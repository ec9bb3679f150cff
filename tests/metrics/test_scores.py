"""Scores of a model, against those of its predictions, and intervals of them."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Independent, Uniform

from erlangen.metrics import Bootstrap, Orbit, brier, controlled, ece, nll, scores, there_and_back
from erlangen.metrics.scores import bin_gaps, calibration_error
from erlangen.transforms import Affine, Rotations

from .classifiers import linear, network

FEW = Bootstrap(resamples=50)


def images(n=12):
    return torch.rand(n, 1, 6, 6), torch.arange(n) % 3


def turned(x):
    """The copies under R4 but the identity, one after another."""
    return torch.cat([x.rot90(k, (-2, -1)) for k in (1, 2, 3)])


@pytest.mark.parametrize("orbit", [None, Rotations(4)])
def test_scores_of_a_model_are_those_of_its_predictions(orbit):
    (x, y), model = images(), linear()
    asked, labels = (x, y) if orbit is None else (turned(x), y.repeat(3))
    log_probs = model(asked).detach().log_softmax(-1)
    found = scores(model, x, orbit, y=y, bootstrap=FEW, batch_size=5)
    right = (log_probs.argmax(-1) == labels).double()
    torch.testing.assert_close(found.accuracy.mean, right.mean())
    torch.testing.assert_close(found.accuracy.inputs, right.view(-1, 12).mean(0))
    for value, score in ((found.nll, nll), (found.brier, brier), (found.ece, ece)):
        torch.testing.assert_close(value.mean, score(log_probs, labels))
        torch.testing.assert_close(value.inputs.mean(), value.mean)
        parts = torch.stack([score(log_probs[labels == k], labels[labels == k]) for k in range(3)])
        torch.testing.assert_close(value.classes[:3], parts)
        assert value.classes[3].isnan()
        assert value.interval[0] < value.interval[1]
    assert found.nll.interval[0] < found.nll.mean < found.nll.interval[1]


def test_bytes_bins_and_the_size_of_batches():
    (x, y), model = images(), network().float()
    levels = (255 * x).byte()
    found, same = scores(model, levels, y=y, batch_size=5, bins=4), scores(model, levels.float() / 255, y=y, bins=4)
    for one, other in zip(found, same, strict=True):
        torch.testing.assert_close(one.mean, other.mean)
    log_probs = model(levels.float() / 255).detach().log_softmax(-1)
    torch.testing.assert_close(found.ece.mean, ece(log_probs, y, bins=4))


def test_the_seed_decides_about_a_random_model_and_leaves_no_trace():
    (x, y), before = images(), torch.get_rng_state()

    def model(x):
        return torch.randn(len(x), 3)

    one, two, other = (scores(model, x, y=y, bootstrap=FEW, seed=seed).nll.mean for seed in (0, 0, 1))
    assert one == two != other
    orbits = [Orbit(Rotations(4), seed=seed) for seed in (0, 0, 1)]
    one, two, other = (scores(model, x, orbit, y=y, bootstrap=FEW).nll.mean for orbit in orbits)
    assert one == two != other
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_is_in_evaluation_mode():
    (x, y), model = images(), nn.Sequential(nn.Dropout(0.5), linear())
    assert scores(model, x, y=y).nll.mean == scores(model[1], x, y=y).nll.mean
    assert model.training


def test_the_interval_of_calibration_holds_the_truth():
    """A calibrated model of two classes: the interval is not above zero, though every resample is."""
    p = 0.5 + 0.5 * torch.rand(400)
    log_probs, y = torch.stack((p, 1 - p), -1).log(), (torch.rand(400) > p).long()
    found = calibration_error(bin_gaps(log_probs[None], y), y, classes=2)
    torch.testing.assert_close(found.mean, ece(log_probs, y))
    assert found.interval[0] < 0.02
    ones = torch.ones_like(y)
    wrong = calibration_error(bin_gaps(log_probs[None], ones), ones, classes=2)
    assert 0.3 < wrong.interval[0] < wrong.mean < wrong.interval[1]


def test_sure_predictions_in_closed_form():
    x, y = torch.tensor([0.0, 0.0, 1.0, 1.0]).view(4, 1, 1, 1), torch.tensor([0, 1, 1, 1])
    found = scores(lambda x: torch.cat((1 - x, x), 1).flatten(1).log(), x, y=y)
    assert found.accuracy.classes.tolist() == [1, pytest.approx(2 / 3)]
    assert found.nll.classes.tolist() == [0, math.inf]
    assert found.brier.inputs.tolist() == [0, 2, 0, 0]
    assert found.ece.mean == 0.25
    assert found.ece.classes.tolist() == [0, pytest.approx(1 / 3)]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", {"x": torch.rand(12, 36)}),
        ("y", {"y": None}),
        ("y", {"y": torch.zeros(11, dtype=torch.long)}),
        ("y", {"y": torch.full((12,), 4)}),
        ("orbit", {"orbit": Affine("angle")}),
        ("bins", {"bins": 0}),
        ("batch_size", {"batch_size": 0}),
        ("bootstrap", {"bootstrap": 0.9}),
        ("model", {"model": None}),
        ("model", {"model": lambda x: x[:, 0, 0, :1]}),
        ("model", {"model": lambda x: x[:, 0, 0].softmax(-1)}),
        ("model", {"model": lambda x: x[:, 0, 0].softmax(-1).bfloat16(), "batch_size": 1}),
    ],
)
def test_bad_input_is_named(name, change):
    x, y = images()
    given = {"model": linear(), "x": x, "y": y, **change}
    with pytest.raises(ValueError, match=f"^{name}: received"):
        scores(**given)


def test_scores_have_a_null_control():
    (x, y), model = images(), linear()
    angles = Independent(Uniform(torch.tensor([-0.5]), torch.tensor([0.5])), 1)
    orbit = Orbit(Affine("angle"), angles, samples=2)
    found = controlled(scores, model, x, orbit, y=y, bootstrap=FEW)
    assert found.measured.nll.mean == scores(model, x, orbit, y=y).nll.mean
    assert found.null.nll.mean == scores(model, x, there_and_back(orbit), y=y).nll.mean
    exact = controlled(scores, model, x, Rotations(4), y=y, bootstrap=FEW).null
    torch.testing.assert_close(exact.ece.classes, scores(model, x, y=y).ece.classes, equal_nan=True)
