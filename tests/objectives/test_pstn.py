"""The bound of the probabilistic spatial transformer, its deterministic case, and its collapse."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Gamma, kl_divergence

from erlangen.distributions import Dirac, Gaussian, StudentT, preset
from erlangen.models import Averaged
from erlangen.nets import Localiser, SmallCNN
from erlangen.objectives import METHODS, PSTN, Terms
from erlangen.train import Alarm, Config, Optimiser, TensorLoader, fit
from erlangen.train.alarm import Watch
from erlangen.transforms import Similarity

X = torch.rand(6, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def model(conditional=StudentT, *, samples=4, frozen=(), **kwargs):
    move = Similarity()
    q = conditional.over(move, 5, encoder=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), **kwargs)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    return Averaged(net, move, q, samples=samples, frozen=frozen)


@pytest.mark.parametrize("bounds", [{}, {"bounds": None}], ids=["bounded", "unbounded"])
def test_equation_17(bounds):
    objective = PSTN(model(alpha=1.5, **bounds), 0.2, alpha0=2.0, beta0=0.5)
    torch.manual_seed(3)
    losses = objective((X, Y))
    torch.manual_seed(3)
    prediction = objective.averaged(X)
    each = torch.stack([F.cross_entropy(view, Y) for view in prediction.views])
    rate = prediction.q.precision.base_dist.rate
    divergence = kl_divergence(Gamma(torch.full_like(rate, 1.5), rate), Gamma(torch.tensor(2.0), torch.tensor(0.5)))
    torch.testing.assert_close(losses["divergence"], divergence.mean())  # over inputs and coordinates
    torch.testing.assert_close(losses["loss"], each.mean() + 0.2 * divergence.mean())
    torch.testing.assert_close(losses["beta"], rate.mean())
    assert ("beyond" in losses) == bool(bounds)


def test_the_divergence_pulls_towards_the_prior_and_nowhere_else():
    objective = PSTN(model(spread=0.05, bounds=None), 1.0)
    objective.width(objective.averaged(X))[0].backward()
    head = objective.averaged.conditional.beta.last
    assert (head.bias.grad < 0).all()  # a greater β is nearer to the prior's 1
    assert objective.averaged.conditional.loc.last.bias.grad is None


def test_a_dirac_is_the_spatial_transformer():
    objective = PSTN(model(Dirac), 5.0)
    losses = objective((X, Y))
    prediction = objective.averaged(X)
    assert prediction.views.shape[0] == 1
    torch.testing.assert_close(losses["loss"], F.cross_entropy(prediction.views[0], Y))
    assert not {"divergence", "entropy", "beyond"} & losses.keys()


@pytest.mark.parametrize("conditional", [Dirac, StudentT])
def test_both_begin_at_the_identity(conditional):
    averaged = model(conditional)
    torch.testing.assert_close(averaged(X).localisation().centre, torch.zeros(6, 4), atol=1e-2, rtol=0)
    centre = averaged.conditional.density(torch.randn(6, 5)).mode
    assert not centre.any()  # whatever the features


def test_groups_and_a_frozen_classifier():
    assert set(PSTN(model()).parameter_groups()) == {"classifier", "conditional"}
    objective = PSTN(model(frozen=["model"]))
    assert set(objective.parameter_groups()) == {"conditional"}
    before = objective.averaged.model[1].weight.clone()
    fit(objective, TensorLoader(X, Y, batch_size=3), Config(steps=3, accelerator="cpu"))
    assert torch.equal(objective.averaged.model[1].weight, before)


def test_the_localiser_has_a_rate_of_its_own():
    objective, base = PSTN(model()), Optimiser("adam", 1e-3)
    history = fit(
        objective,
        TensorLoader(X, Y, batch_size=3),
        Config(steps=2, accelerator="cpu", optimiser=base, groups={"conditional": replace(base, lr=0.1 * base.lr)}),
    )
    assert history.rows[-1]["lr/conditional"] == pytest.approx(0.1 * history.rows[-1]["lr/classifier"])


def test_the_sizes_of_section_5():
    move = Similarity()
    sizes = {
        "cnn": [SmallCNN()],
        "stn": [SmallCNN(filters=(10, 20), hidden=50), preset("stn", move, 288, encoder=Localiser(filters=(12, 18)))],
        "pstn": [SmallCNN(filters=(10, 20), hidden=50), preset("pstn-code", move, 224, encoder=Localiser())],
    }
    count = {name: sum(p.numel() for part in parts for p in part.parameters()) for name, parts in sizes.items()}
    assert count == {"cnn": 28_086, "stn": 28_726, "pstn": 26_662}


def collapse(weight, **kwargs):
    torch.manual_seed(0)
    objective = PSTN(model(samples=2, **kwargs), weight)
    how = Config(steps=40, log_every=5, accelerator="cpu", optimiser=Optimiser("adam", 0.02))
    return fit(objective, TensorLoader(X, Y, batch_size=6), how)


def test_the_alarm_says_when_views_have_lost_their_inputs():
    history = collapse(1.0, bounds=None, truncation=5.0)
    assert len(history.alarms) == 1
    assert "of the sampled coordinates lie beyond the range of their transform by step" in history.alarms[0]
    assert "smaller weight of the divergence, a truncation, or bounds" in history.alarms[0]
    assert not collapse(1e-5, bounds=None, truncation=5.0).alarms


def test_a_rate_near_ten_is_beyond():
    """As seen on thirty digits with a great weight."""
    objective = PSTN(model(spread=math.sqrt(10.0), bounds=None, samples=100, periodic=[False] * 4))
    losses = objective((X, Y))
    assert losses["beta"].item() == pytest.approx(10)
    assert losses["beyond"] > 0.7
    healthy = PSTN(model(spread=0.1, bounds=None, samples=100))((X, Y))
    assert healthy["beyond"] < 0.2


def test_within_bounds_a_collapse_is_put_down_to_them():
    watch = Watch(Alarm(rows=1))
    assert not watch.look(0, {"loss": 1.0, "entropy": 0.0, "edge": 0.0})
    (said,) = watch.look(1, {"loss": 1.0, "entropy": -9.0, "edge": 0.35})
    assert "with 35 % of the sampled coordinates at their bounds" in said
    assert "greater weight" not in said


@pytest.mark.parametrize("method", ["stn", "pstn"])
def test_by_name(method):
    move = Similarity()
    averaged = Averaged(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)), move, METHODS[method].conditional(move, 3))
    objective = METHODS[method].objective(averaged, Terms(0.5))
    assert isinstance(objective, PSTN)
    assert objective.weight == 0.5
    assert objective((torch.rand(2, 3, 8, 8), Y[:2]))["loss"].isfinite()


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: PSTN(model(Gaussian)), "^averaged: received one with a Gaussian"),
        (lambda: PSTN(model(), -1.0), "^weight: received float -1.0; accepted is a finite number >= 0"),
        (lambda: PSTN(model(), math.inf), "^weight"),
        (lambda: PSTN(model(), alpha0=0.0), "^alpha0"),
    ],
)
def test_bad_arguments(build, match):
    with pytest.raises(ValueError, match=match):
        build()
