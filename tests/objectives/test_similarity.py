"""The weight that is found so that saliency maps become similar."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Independent, Uniform

from erlangen.distributions import Categorical
from erlangen.metrics import Saliency, saliency_similarity
from erlangen.models import GroupTied, Normalise
from erlangen.objectives import InvarianceRegularised, SimilarityController, watch_similarity
from erlangen.train import Config, Optimiser, TensorLoader, fit
from erlangen.transforms import Affine, Rotations

X = torch.rand(6, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])
QUICK = Saliency(steps=2)


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Dropout(0.5), nn.GELU(), nn.Linear(8, 3))


def regularised(model, **kwargs):
    return InvarianceRegularised(model, Rotations(4), nu=SimilarityController(0.9, nu=2.0, **kwargs))


def test_the_controller():
    control = SimilarityController(0.9, nu=2.0, low=0.5, high=8.0, proportional=0.2, integral=0.1, smoothing=0.0)
    # log ν grows by k_i e, and then by k_i e + k_p (e - e'), where e = log((1 - SI) / (1 - target)).
    control.observe(torch.tensor(1 - 0.1 * math.e))
    assert control(torch.tensor(1e9)).item() == pytest.approx(2 * math.exp(0.1))  # whatever LI is
    control.observe(torch.tensor(0.9))
    assert control(torch.tensor(0.0)).item() == pytest.approx(2 * math.exp(0.1 - 0.2))
    control.eval().observe(torch.tensor(0.0))
    assert control(torch.tensor(0.0)).item() == pytest.approx(2 * math.exp(0.1 - 0.2))  # evaluation looks only
    control.train().observe(torch.tensor(1.0))
    assert control(torch.tensor(0.0)).item() == pytest.approx(0.5)


@pytest.mark.parametrize("normalise", [None, Normalise([0.3], [0.2])])
def test_it_follows_the_similarity_of_the_objectives_classifier(normalise):
    objective = regularised(net(), integral=0.1, smoothing=0.0)
    objective.normalise = normalise
    model = objective.model if normalise is None else nn.Sequential(normalise, objective.model)
    similar = saliency_similarity(model, X, Rotations(4), saliency=QUICK).mean.item()
    on_step = watch_similarity(objective, X, every=3, saliency=QUICK)
    for step, error in ((1, 0.0), (2, 0.0), (3, math.log((1 - similar) / 0.1))):
        on_step(step, {})
        assert objective((X, Y))["nu"].item() == pytest.approx(2 * math.exp(0.1 * error))
    assert objective.model.training


def test_in_training_it_rises_until_maps_are_similar_and_falls_where_they_are():
    config = Config(accelerator="cpu", steps=6, optimiser=Optimiser("adam", 1e-3), log_every=6, progress=False)
    tied = GroupTied(nn.Linear(36, 8), Rotations(4), nn.Linear(8, 3))
    for model, rises in ((net(), True), (tied, False)):
        objective = regularised(model)
        watch = watch_similarity(objective, X, every=2, saliency=QUICK)
        fit(objective, TensorLoader(X, Y, batch_size=3), config, on_step=watch)
        found = objective.nu(torch.zeros(())).item()
        assert found > 2 if rises else found == pytest.approx(1e-4)


@pytest.mark.parametrize("kind", ["given", "learned"])
def test_over_other_transformations(kind):
    angle = Affine("angle")
    given = Independent(Uniform(torch.tensor([-0.5]), torch.tensor([0.5])), 1)
    learned = Categorical.over(Rotations(4), 36, encoder=nn.Flatten())
    transform, law = (angle, given) if kind == "given" else (Rotations(4), learned)
    objective = InvarianceRegularised(net(), transform, law, nu=SimilarityController(nu=2.0), samples=2)
    state = torch.get_rng_state()
    watch_similarity(objective, X, every=1, saliency=QUICK)(1, {})
    assert torch.equal(torch.get_rng_state(), state)
    assert objective((X, Y))["nu"] > 2


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("target", lambda: SimilarityController(1.0)),
        ("target", lambda: SimilarityController("high")),  # pyright: ignore
        ("objective", lambda: watch_similarity(InvarianceRegularised(net(), Rotations(4)), X)),
        ("every", lambda: watch_similarity(regularised(net()), X, every=0)),
    ],
)
def test_bad_input_is_named(name, make):
    with pytest.raises(ValueError, match=f"^{name}: received"):
        make()
