"""Integrated gradients in closed form and against captum; maps that follow their input, and those that don't."""

from itertools import pairwise

import pytest
import torch
from captum.attr import IntegratedGradients
from torch import nn
from torch.distributions import Independent, Uniform

from erlangen.metrics import Orbit, Saliency, integrated_gradients, saliency_map, saliency_similarity, there_and_back
from erlangen.metrics import saliency as saliency_module
from erlangen.metrics.saliency import smooth
from erlangen.transforms import HSV, Affine, Crop, Dihedral, Product, Rotations, Shifts

from .classifiers import Symmetric, linear, network

QUICK = Saliency(steps=8)
GROUPS = [Rotations(4), Shifts(3), Shifts(6), Dihedral(4)]


def law(d=1, width=0.3):
    return Independent(Uniform(torch.full((d,), -width), torch.full((d,), width)), 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_long_path_in_half_precision_is_summed_in_single(dtype):
    """Of a linear model they are the weight times the input, whatever the number of steps."""
    model, x, target = linear().to(dtype), torch.rand(3, 1, 6, 6).to(dtype), torch.tensor([0, 1, 3])
    found = integrated_gradients(model, x, target, steps=1000)
    assert found.dtype == dtype
    expected = x.double() * model[1].weight[target].double().view_as(x)
    torch.testing.assert_close(found.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-5)


def test_of_a_linear_map_they_are_its_weights_times_the_input():
    model, x, target = (
        nn.Sequential(nn.Flatten(), nn.Linear(72, 3)),
        torch.rand(5, 2, 6, 6),
        torch.tensor([0, 1, 2, 2, 0]),
    )
    weights = model[1].weight[target].reshape(5, 2, 6, 6).detach()
    for steps in (1, 7):
        torch.testing.assert_close(integrated_gradients(model, x, target, steps=steps), weights * x)
        found = integrated_gradients(model, x, target, baseline=0.3, steps=steps)
        torch.testing.assert_close(found, weights * (x - 0.3))


def test_they_add_up_to_the_change_of_the_logit():
    """Completeness, to the second order in the number of steps."""
    model, x, target = network(), torch.rand(5, 1, 6, 6), torch.tensor([0, 1, 2, 3, 0])
    change = (model(x) - model(torch.zeros_like(x))).gather(1, target[:, None])[:, 0].detach()
    errors = [
        (integrated_gradients(model, x, target, steps=n).sum((1, 2, 3)) - change).abs().max() for n in (10, 20, 40)
    ]
    assert errors[2] < 1e-4
    for coarse, fine in pairwise(errors):
        assert 3.5 < coarse / fine < 4.5


@pytest.mark.parametrize("baseline", [0.0, 0.4, "image"])
def test_they_are_those_of_captum(baseline):
    model, x, target = network(), torch.rand(5, 1, 6, 6), torch.tensor([0, 1, 2, 3, 0])
    baseline = torch.rand(1, 6, 6) if baseline == "image" else baseline
    start = baseline.expand_as(x) if isinstance(baseline, torch.Tensor) else baseline
    theirs = IntegratedGradients(model).attribute(x, start, target, n_steps=9, method="riemann_middle")
    torch.testing.assert_close(integrated_gradients(model, x, target, baseline=baseline, steps=9), theirs)


def test_smoothing_is_a_convolution_with_the_gaussian():
    maps = torch.rand(2, 1, 6, 7)
    weights = torch.exp(-torch.tensor([1.0, 0.0, 1.0]) / 2)
    kernel = weights[:, None] * weights / weights.sum() ** 2
    expected = nn.functional.conv2d(maps, kernel[None, None], padding=1)
    torch.testing.assert_close(smooth(maps), expected)
    torch.testing.assert_close(smooth(maps, padding="circular").sum(), maps.sum())
    series = torch.zeros(1, 1, 5)
    series[..., 0] = 1
    torch.testing.assert_close(smooth(series)[0, 0, :2], weights[1:] / weights.sum())
    assert smooth(series)[0, 0, -1] == 0
    torch.testing.assert_close(smooth(series, padding="circular")[0, 0, -1], weights[0] / weights.sum())


def test_a_map_keeps_what_is_near_its_maximum():
    weights = torch.tensor([0.1, -1.0, 0.89, 0.2, 0.91, 0.0])
    x = torch.ones(2, 2, 6)
    x[1] *= 100

    def model(x):
        return (x * weights).sum((1, 2))[:, None] * torch.tensor([0.5, 0.0])

    found = saliency_map(model, x, torch.tensor([0, 0]), Saliency(width=1))
    expected = torch.tensor([0, 1.0, 0, 0, 0.91, 0])
    torch.testing.assert_close(found, torch.stack((expected, 100 * expected))[:, None])


def test_channels_of_opposite_sign_add_up():
    weights = torch.tensor([[1.0, 0.5, 0.0], [-1.0, 0.5, 0.0]])
    found = saliency_map(
        lambda x: (x * weights).sum((1, 2))[:, None], torch.ones(1, 2, 3), torch.tensor([0]), Saliency(width=1)
    )
    torch.testing.assert_close(found, torch.tensor([[[2.0, 0, 0]]]))


def test_which_class_is_explained(monkeypatch):
    """A model that says where the brightest pixel is: its copies are shifted, and so are its decisions."""
    asked = []
    original = saliency_module.saliency_map
    monkeypatch.setattr(
        saliency_module, "saliency_map", lambda m, x, t, s: (asked.append(t.tolist()), original(m, x, t, s))[1]
    )
    x, y = torch.eye(3)[:2, None], torch.tensor([2, 0])
    expected = {"predicted": [[0, 1], [0, 1, 0, 1]], "own": [[0, 1], [1, 2, 2, 0]], "true": [[2, 0], [2, 0, 2, 0]]}
    for target, classes in expected.items():
        saliency_similarity(lambda x: x[:, 0], x, Shifts(3), y=y, saliency=Saliency(target=target, steps=1))
        assert asked == classes
        asked.clear()


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{type(g).__name__}{len(g)}")
@pytest.mark.parametrize("target", ["predicted", "own", "true"])
def test_an_invariant_model_looks_at_the_same_and_its_network_does_not(group, target):
    model, x, y = Symmetric(group), torch.rand(6, 1, 6, 6), torch.tensor([0, 1, 2, 3, 0, 1])
    found = saliency_similarity(model, x, group, y=y, saliency=Saliency(target=target, steps=8))
    torch.testing.assert_close(found.inputs, torch.ones(6))
    assert saliency_similarity(model.net, x, group, y=y, saliency=QUICK).mean < 0.9


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{type(g).__name__}{len(g)}")
def test_without_realignment_it_would_be_less(group, monkeypatch):
    model, x = Symmetric(group), torch.rand(6, 1, 6, 6)
    monkeypatch.setattr(Orbit, "realign", lambda self, g, maps: maps)
    assert saliency_similarity(model, x, group, saliency=QUICK).mean < 0.8


def test_zeros_around_maps_would_not_commute_with_shifts():
    """The saliency of a bright column at the edge is cut off there, but not in the middle."""
    group = Shifts(6)
    x = 0.01 * torch.rand(4, 1, 6, 6)
    x[..., 0] += 1
    model = Symmetric(group)
    exact = saliency_similarity(model, x, group, saliency=QUICK)
    torch.testing.assert_close(exact.inputs, torch.ones(4))
    assert saliency_similarity(model, x, group, saliency=Saliency(steps=8, padding="zeros")).mean < 0.999


def test_of_a_linear_map_in_closed_form():
    """Weights on one pixel: the map is one bump, at the same place for all copies, so elsewhere once realigned."""
    weights = torch.zeros(1, 8, 8)
    weights[0, 1, 2] = 1.0

    def model(x):
        return (x * weights).sum((1, 2, 3))[:, None].expand(-1, 2) * torch.tensor([2.0, 1.0])

    x = torch.rand(3, 1, 8, 8) + 0.1
    apart = saliency_similarity(model, x, Rotations(4), saliency=QUICK)
    torch.testing.assert_close(apart.inputs, torch.zeros(3))
    # Shifted by a pixel of a kernel (a, b, a), bumps overlap: twice ab of a² + b² + a², one of seven times each way.
    a, b = torch.exp(torch.tensor(-0.5)), torch.tensor(1.0)
    norm = 2 * a**2 + b**2
    one, two = 2 * a * b / norm, a**2 / norm
    found = saliency_similarity(model, x, Shifts(8), saliency=QUICK)
    torch.testing.assert_close(found.inputs, ((2 * one + 2 * two) / 7).expand(3))


def test_maps_of_nothing():
    constant = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    nn.init.zeros_(constant[1].weight)
    x = torch.rand(3, 1, 6, 6)
    assert saliency_similarity(constant, x, Rotations(4), saliency=QUICK).inputs.tolist() == [1, 1, 1]

    def upper(x):  # blind to the lower half, in which all of the input lies
        return x[:, 0, :3].sum((1, 2))[:, None] * torch.tensor([1.0, 0.5])

    x[:, :, :3] = 0
    found = saliency_similarity(upper, x, Rotations(2), saliency=QUICK)
    assert found.inputs.tolist() == [0, 0, 0]


def test_maps_of_gradients_that_are_no_numbers_are_not_alike():
    """A root has none at zero, which the second input is, and every copy of the third that leaves the frame."""
    x = torch.rand(3, 1, 6, 6)

    def root(x):
        return x.square().sum((1, 2, 3))[:, None].sqrt() * torch.tensor([1.0, 2.0])

    saliency_similarity(root, x, Rotations(4), saliency=QUICK)
    x[1] = 0.0
    assert saliency_map(root, x, torch.zeros(3).long(), QUICK).isnan().any((1, 2, 3)).tolist() == [False, True, False]
    with pytest.raises(ValueError, match=r"^model: received NaN or infinite gradients for 1 of 3 inputs"):
        saliency_similarity(root, x, Rotations(4), saliency=QUICK)
    away = Orbit(Affine("tx"), Independent(Uniform(torch.tensor([4.0]), torch.tensor([5.0])), 1), samples=2)
    with pytest.raises(ValueError, match=r"^model: received NaN or infinite gradients for 2 of 2 inputs"):
        saliency_similarity(root, x[2:], away, saliency=QUICK)


def test_batch_size_changes_nothing_and_the_seed_decides():
    model, x, y = network(), torch.rand(5, 1, 6, 6), torch.tensor([0, 1, 2, 2, 0])
    orbit = Orbit(Affine("angle"), law(width=3.0), samples=3)
    first = saliency_similarity(model, x, orbit, y=y, saliency=QUICK)
    for size in (1, 2, 7):
        torch.testing.assert_close(
            saliency_similarity(model, x, orbit, y=y, saliency=QUICK, batch_size=size), first, equal_nan=True
        )
    other = Orbit(Affine("angle"), law(width=3.0), samples=3, seed=1)
    assert not torch.equal(saliency_similarity(model, x, other, saliency=QUICK).inputs, first.inputs)
    torch.testing.assert_close(first.classes[2], first.inputs[2:4].mean())
    assert first.classes[3].isnan()


def test_there_and_back_and_the_disc():
    model, x = Symmetric(Rotations(4), 144), torch.rand(3, 1, 12, 12)
    exact = saliency_similarity(model, x, there_and_back(Rotations(4)), saliency=QUICK)
    torch.testing.assert_close(exact.inputs, torch.ones(3))
    disc = saliency_similarity(model, x, Orbit(Rotations(4), disc=True), saliency=QUICK)
    torch.testing.assert_close(disc.inputs, torch.ones(3))
    orbit = there_and_back(Orbit(Affine("angle"), law(), samples=3, disc=True))
    assert saliency_similarity(model, x, orbit, saliency=QUICK).mean < 0.999


def test_colours_and_series():
    colour = nn.Sequential(nn.Flatten(), nn.Linear(108, 4))
    found = saliency_similarity(colour, torch.rand(3, 3, 6, 6), Orbit(HSV("hue"), law(), samples=2), saliency=QUICK)
    assert ((found.inputs > 0) & (found.inputs <= 1)).all()
    series = Symmetric(Shifts(4), 12)
    found = saliency_similarity(series, torch.rand(3, 1, 12), Shifts(4), saliency=QUICK)
    torch.testing.assert_close(found.inputs, torch.ones(3))


def test_the_model_is_left_as_it_was():
    model = nn.Sequential(network(), nn.Dropout(0.5))
    x = torch.rand(3, 1, 6, 6)
    with torch.no_grad():
        first = saliency_similarity(model, x, Rotations(4), saliency=QUICK)
    assert torch.equal(saliency_similarity(model, x, Rotations(4), saliency=QUICK).inputs, first.inputs)
    assert model.training
    assert not first.inputs.requires_grad
    assert all(p.grad is None for p in model.parameters())
    one, two = (integrated_gradients(model, x, torch.tensor([0, 1, 2])) for _ in range(2))
    assert torch.equal(one, two)
    assert model.training


X = torch.rand(2, 3, 6, 6, dtype=torch.float64)


def frozen(x):
    """Weights have a gradient, and logits differ, but none reaches the inputs: maps of zeros would all be alike."""
    return x.detach().mean((2, 3)) * torch.ones(3, dtype=x.dtype, requires_grad=True)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("target", lambda: Saliency(target="best")),  # pyright: ignore
        ("padding", lambda: Saliency(padding="reflect")),  # pyright: ignore
        ("threshold", lambda: Saliency(threshold=1.1)),
        ("steps", lambda: Saliency(steps=0)),
        ("baseline", lambda: Saliency(baseline="black")),  # pyright: ignore
        ("saliency", lambda: saliency_similarity(network(108), X, Rotations(4), saliency=5)),  # pyright: ignore
        ("width", lambda: smooth(X, width=2)),
        ("sigma", lambda: smooth(X, sigma=0.0)),
        (
            "baseline",
            lambda: integrated_gradients(network(108), X, torch.zeros(2).long(), baseline=torch.rand(2, 2, 3, 6, 6)),
        ),
        (
            "baseline",
            lambda: integrated_gradients(network(108), X, torch.zeros(2).long(), baseline=torch.rand(2, 6, 6)),
        ),
        ("target", lambda: integrated_gradients(network(108), X, torch.zeros(3).long())),
        ("target", lambda: integrated_gradients(network(108), X, torch.full((2,), 4))),
        ("model", lambda: integrated_gradients(lambda x: torch.zeros(len(x), 2), X, torch.zeros(2).long())),
        ("model", lambda: saliency_similarity(frozen, X, Rotations(4))),
        ("y", lambda: saliency_similarity(network(108), X, Rotations(4), saliency=Saliency(target="true"))),
        ("y", lambda: saliency_similarity(network(108), X, Rotations(4), y=torch.tensor([0, 4]))),
        ("orbit", lambda: saliency_similarity(network(108), X, Orbit(Crop(), law(4)))),
        ("orbit", lambda: saliency_similarity(network(108), X, Orbit(Product(Affine("tx"), HSV("hue")), law(2)))),
        ("x", lambda: saliency_similarity(network(108), X[0, 0], Rotations(4))),
    ],
)
def test_bad_input_is_named(name, make):
    with pytest.raises(ValueError, match=f"^{name}: received"):
        make()
