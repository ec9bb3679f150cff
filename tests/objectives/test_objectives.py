"""What trains an averaged classifier."""

import math
import statistics

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from erlangen.distributions import (
    Categorical,
    Dirac,
    EntropyController,
    Gaussian,
    GlobalUniform,
    MeanFieldUniform,
    RealNVP,
)
from erlangen.models import Averaged
from erlangen.objectives import (
    Augerino,
    EntropyBand,
    Equivariance,
    HandMade,
    InstaAug,
    InvarianceRegularised,
    LearningToTransform,
    Plain,
)
from erlangen.train import Config, TensorLoader, fit
from erlangen.transforms import Affine, Flips

X = torch.rand(6, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def model(conditional=RealNVP, **kwargs):
    transform = Affine("angle", "tx")
    encoder = None if conditional is GlobalUniform else nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    own = {"layers": 2, "width": 8} if conditional is RealNVP else {}
    q = conditional.over(transform, 5, encoder=encoder, **own)
    return Averaged(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), transform, q, **{"samples": 4} | kwargs)


def test_equations_10_and_18():
    objective = LearningToTransform(model(), alpha=0.3)
    torch.manual_seed(3)
    losses = objective((X, Y))
    torch.manual_seed(3)
    prediction = objective.averaged(X)
    each = torch.stack([F.cross_entropy(view, Y) for view in prediction.views])
    torch.testing.assert_close(losses["cross_entropy"], each.mean())
    torch.testing.assert_close(losses["entropy"], -prediction.log_q.mean())
    torch.testing.assert_close(losses["loss"], each.mean() + 0.3 * prediction.log_q.mean())


def test_together_is_the_loss_of_the_average():
    objective = LearningToTransform(model(space="logit"), together=True)
    torch.manual_seed(3)
    losses = objective((X, Y))
    torch.manual_seed(3)
    torch.testing.assert_close(
        losses["cross_entropy"], F.cross_entropy(objective.averaged(X).views.mean(0), Y), rtol=1e-9, atol=0
    )


def choosing(samples, *, exact):
    """A classifier of flipped inputs, and probabilities of a flip that depend on the input."""
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    q = Categorical.over(Flips(), 5, spread=0.3, encoder=encoder)
    nn.init.normal_(q.head.last.weight)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    return LearningToTransform(Averaged(net, Flips(), q, samples=samples, exact=exact), alpha=0.3)


def slopes(objective, part):
    parameters = objective.parameter_groups()["conditional"]
    return torch.cat([g.flatten() for g in torch.autograd.grad(objective((X, Y))[part], parameters)])


def test_the_gradient_of_choices_is_unbiased_and_less_noisy_than_the_score():
    exact = slopes(choosing(1, exact=True), "cross_entropy")
    objective = choosing(1, exact=False)
    draws = torch.stack([slopes(objective, "cross_entropy") for _ in range(1500)])
    error = draws.std(0) / math.sqrt(len(draws))
    assert (
        (draws.mean(0) - exact).abs() <= 5 * error + 1e-12
    ).all()  # of some 300 numbers, one in 5,000 runs would not

    def score():
        """The plain score function: cross-entropies times the gradient of the log-probability."""
        prediction = objective.averaged(X)
        each = F.cross_entropy(prediction.views[0], Y, reduction="none").detach()
        parameters = objective.parameter_groups()["conditional"]
        return torch.cat([g.flatten() for g in torch.autograd.grad((each * prediction.log_q[0]).mean(), parameters)])

    plain = torch.stack([score() for _ in range(500)])
    assert draws.var(0).sum() < 0.5 * plain.var(0).sum()


def test_the_entropy_of_choices_is_exact():
    objective = choosing(1, exact=False)
    losses = objective((X, Y))
    q = objective.averaged.conditional(X)
    torch.testing.assert_close(losses["entropy"], q.entropy().mean())
    torch.testing.assert_close(slopes(objective, "entropy"), slopes(choosing(1, exact=True), "entropy"))


def test_every_parameter_is_trained_by_one_of_two_groups():
    objective = LearningToTransform(model())
    groups = objective.parameter_groups()
    assert set(groups) == {"classifier", "conditional"}
    assert sum(len(g) for g in groups.values()) == len(list(objective.parameters()))
    assert set(LearningToTransform(model(frozen=["model"])).parameter_groups()) == {"conditional"}


def test_shared_layers_are_the_classifiers():
    averaged = model()
    averaged.model = nn.Sequential(averaged.conditional.encoder, nn.Linear(5, 3)).to(X)
    objective = LearningToTransform(averaged)
    groups = objective.parameter_groups()
    assert len(groups["classifier"]) == 4
    assert not {id(p) for p in groups["classifier"]} & {id(p) for p in groups["conditional"]}
    before = [p.clone() for p in averaged.parameters()]
    fit(objective, TensorLoader(X, Y, batch_size=3), Config(steps=1, accelerator="cpu"))
    changed = sum(not torch.equal(p, old) for p, old in zip(averaged.parameters(), before, strict=True))
    assert changed > 4


def test_burn_in_trains_the_classifier_alone():
    objective = LearningToTransform(model(), burn_in=2)
    for step in range(3):
        objective.zero_grad()
        losses = objective((X, Y))
        losses["loss"].backward()
        trained = {name: any(p.grad is not None for p in g) for name, g in objective.parameter_groups().items()}
        assert trained == {"classifier": True, "conditional": step == 2}
        if step < 2:
            torch.testing.assert_close(losses["loss"], F.cross_entropy(objective.averaged.model(X), Y))


def test_burn_in_is_resumed():
    first, second = (LearningToTransform(model(), burn_in=3) for _ in range(2))
    for _ in range(2):
        first((X, Y))
    second((X, Y))
    second.load_state_dict(first.state_dict())
    assert "entropy" not in second((X, Y))
    assert "entropy" in second((X, Y))
    assert "entropy" in LearningToTransform(model(), burn_in=3).eval()((X, Y))  # evaluation never burns in


def test_the_untransformed_input_can_be_added():
    objective = LearningToTransform(model(), original=0.5)
    losses = objective((X, Y))
    expected = losses["cross_entropy"] + 0.5 * losses["original"] - losses["alpha"] * losses["entropy"]
    torch.testing.assert_close(losses["loss"], expected)
    torch.testing.assert_close(losses["original"], F.cross_entropy(objective.averaged.model(X), Y))


def test_the_entropy_is_controlled():
    """A classifier that doesn't mind any transformation: the controller finds the weight that holds the target."""
    transform = Affine("angle", "tx")
    averaged = Averaged(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), transform, Gaussian.over(transform, 64, encoder=nn.Flatten())
    )
    control = EntropyController(-1.5, alpha=0.01, low=1e-4, high=1.0)
    objective = LearningToTransform(averaged, alpha=control)
    optimiser = torch.optim.Adam(averaged.parameters(), 0.01)
    entropies = []
    for _ in range(300):
        losses = objective((X, Y))
        optimiser.zero_grad()
        losses["loss"].backward()
        optimiser.step()
        entropies.append(losses["entropy"].item())
    assert statistics.fmean(entropies[-20:]) == pytest.approx(-1.5, abs=0.15)
    assert "weight.log_alpha" in objective.state_dict()


def test_augerino():
    objective = Augerino(model(GlobalUniform), bonus=0.1)
    torch.manual_seed(3)
    losses = objective((X, Y))
    width = objective.averaged.conditional.half_width.norm()
    torch.testing.assert_close(losses["loss"], losses["cross_entropy"] - 0.1 * width)
    shares = Augerino(model(GlobalUniform), shares=True)((X, Y))["width"].item()
    assert shares == pytest.approx(0.1 * len(objective.averaged.transform.names))  # each begins with a tenth
    safe = Augerino(model(GlobalUniform), bonus=0.1, widest=1e-3)((X, Y))
    torch.testing.assert_close(safe["loss"], safe["cross_entropy"])
    with pytest.raises(ValueError, match="GlobalUniform"):
        Augerino(model())


def test_instaaug_weighs_the_entropy():
    objective = InstaAug(model(MeanFieldUniform), band=(-1.0, 0.0), alpha=0.2)
    losses = objective((X, Y))
    torch.testing.assert_close(losses["loss"], losses["cross_entropy"] - 0.2 * losses["entropy"])
    torch.testing.assert_close(losses["entropy"], objective.averaged.conditional(X).entropy().mean())


def test_instaaug_estimates_an_entropy_without_closed_form():
    losses, prices = [], []
    for objective in (InstaAug(averaged := model(), (-1.0, 0.0), alpha=0.2), LearningToTransform(averaged, 0.2)):
        torch.manual_seed(3)
        losses.append(objective((X, Y)))
        prices.append(slopes(objective, "loss"))
    assert losses[0] == losses[1]
    assert prices[0].equal(prices[1])


@pytest.mark.parametrize("family", [RealNVP, MeanFieldUniform])
def test_a_band_beyond_reach_is_refused(family):
    greatest = math.log(2 * math.pi * 0.5)
    InstaAug(model(family), band=(greatest - 0.01, 4.0))
    with pytest.raises(ValueError, match=r"band: received tuple \(3.0, 3.5\) for a .*; accepted is .* 1.14 nats"):
        InstaAug(model(family))


def test_the_band():
    band = EntropyBand(3.0, 3.5, alpha=1.0, factor=2.0, every=3)

    def after(*entropies):
        return [band(torch.tensor(e)).item() for e in entropies]

    assert after(1.0, 1.0, 1.0) == [1, 1, 2]  # too little: worth more
    assert after(3.2, 3.2, 3.2) == [2, 2, 2]  # within
    assert after(9.0, 9.0, 9.0) == [2, 2, 1]
    assert after(1.0) == [1]
    state = band.state_dict()
    other = EntropyBand(3.0, 3.5, alpha=7.0, factor=2.0, every=3)
    other.load_state_dict(state)
    assert [other(torch.tensor(1.0)).item() for _ in range(2)] == [1, 2]
    assert band.eval()(torch.tensor(1.0)).item() == 1


def test_the_band_compiles_without_a_break():
    plain, same = (EntropyBand(3.0, 3.5, alpha=1.0, factor=2.0, every=2) for _ in range(2))
    compiled = torch.compile(same, fullgraph=True, backend="aot_eager")
    for entropy in torch.tensor([1.0, 1.0, 1.0, 9.0, 9.0, 9.0]):
        assert plain(entropy) == compiled(entropy)
    assert all(a.equal(b) for a, b in zip(plain.buffers(), same.buffers(), strict=True))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_band_does_not_count_what_is_not_finite(bad):
    band = EntropyBand(3.0, 3.5, alpha=1.0, factor=2.0, every=2)
    assert [band(torch.tensor(e)).item() for e in (bad, 1.0, bad, 1.0, 9.0, bad, 9.0)] == [1, 1, 1, 2, 2, 2, 1]
    band.total.fill_(math.nan)  # as a run that goes on may have it
    assert [band(torch.tensor(1.0)).item() for _ in range(4)] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: EntropyBand(3.0, 3.5, factor=1.0), "factor: received 1.0; accepted is a number > 1"),
        (lambda: EntropyBand(3.0, 3.5, factor=math.inf), "factor"),
        (lambda: LearningToTransform(model(), burn_in=-1), "burn_in"),
        (lambda: LearningToTransform(model(), original=math.nan), "original"),
        (lambda: LearningToTransform(model(), alpha=-1.0), "alpha"),
        (lambda: LearningToTransform(model(), alpha="a"), "alpha: received str 'a'; accepted is a finite number >= 0"),
        (lambda: LearningToTransform(model(), alpha=None), "alpha"),
        (lambda: LearningToTransform(model(), alpha=torch.ones(2)), "alpha"),
        (lambda: InvarianceRegularised(nn.Flatten(), Flips(), alpha="a"), "alpha"),
        (
            lambda: LearningToTransform(model(), equivariance=0.5),
            "equivariance: received float 0.5; accepted is an Equi",
        ),
        (lambda: Equivariance(Affine("angle", factored=True), "a"), "weight"),
        (lambda: Augerino(model(GlobalUniform), bonus=-1.0), "bonus"),
        (lambda: Augerino(model(GlobalUniform), bonus="a"), "bonus"),
        (lambda: Augerino(model(GlobalUniform), widest=math.nan), "widest: received float nan"),
        (lambda: Augerino(model(GlobalUniform), widest=-1), "widest: received int -1; accepted is a finite number > 0"),
        (lambda: Augerino(model(GlobalUniform), widest="a"), "widest"),
        (lambda: InstaAug(model(), band=(4.0, 3.0)), "low, high"),
        (lambda: InstaAug(model(), band=("3", "4")), "low, high: received '3', '4'; accepted is a finite band"),
        (lambda: InstaAug(model(), band=3.0), r"band: received float 3.0; accepted are its two ends, \(low, high\)"),
        (lambda: InstaAug(model(), band=(1.0, 2.0, 3.0)), "band: received tuple"),
        (lambda: LearningToTransform(model())((X, Y[:3])), "labels"),
        (lambda: LearningToTransform(model(Dirac))((X, Y)), r"points without a density \(a Dirac\); accepted is one"),
        (lambda: InstaAug(model(Dirac))((X, Y)), r"points without a density \(a Dirac\); accepted is one"),
    ],
)
def test_bad_arguments(build, match):
    with pytest.raises(ValueError, match=match):
        build()


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        ((X,), "batch: received 1 tensors; accepted are inputs and their labels"),
        ((X[:0], Y[:0]), "batch: received no inputs; accepted is at least one"),
        ((X, Y.float()), "accepted is integer labels"),
        ((X, Y[:-1]), "accepted is integer labels"),
        ((X, Y[:, None]), "accepted is integer labels"),
        ((X, Y + 9), r"batch: received labels that .* no score for \(.* entries\); accepted is labels from 0 to"),
        ((X, Y - 9), "accepted is labels from 0 to"),
        ({"x": X, "y": Y}, r"batch: received dict .*; accepted is \(x,\) or \(x, y\)"),
        (None, r"batch: received NoneType None; accepted is \(x,\) or \(x, y\)"),
        ((None, Y), "batch: received NoneType None; accepted is inputs"),
        (X[:2], r"batch: received a float64 tensor of shape \(2, 1, 8, 8\) .*; accepted is \(x,\) or \(x, y\)"),
    ],
)
@pytest.mark.parametrize(
    "build",
    [
        lambda: LearningToTransform(model(), 0.1),
        lambda: LearningToTransform(model(), 0.1, burn_in=1),
        lambda: Plain(model()),
        lambda: HandMade(model()),
        lambda: HandMade(model()).eval(),
    ],
)
def test_bad_batches(batch, match, build):
    with pytest.raises(ValueError, match=match):
        build()(batch)


@pytest.mark.parametrize("kind", [LearningToTransform, HandMade, Plain])
def test_a_classifier_with_one_logit_is_refused(kind):
    """Its softmax is 1: the loss would be 0 and the accuracy 1 for labels 0."""
    one = nn.Sequential(nn.Flatten(), nn.Linear(64, 1))
    objective = kind(Averaged(one, Affine("angle"), GlobalUniform.over(Affine("angle"), 1), samples=2))
    with pytest.raises(ValueError, match=r"^model: received .*; accepted is a classifier with logits \(N, K\) of two"):
        objective((X, torch.zeros_like(Y)))


@pytest.mark.parametrize("kind", [LearningToTransform, HandMade, Plain])
def test_labels_of_any_integer_type(kind):
    objective = kind(model(GlobalUniform)).eval()
    losses = []
    for dtype in (torch.long, torch.int32, torch.uint8):
        torch.manual_seed(0)
        losses.append(objective((X, Y.to(dtype)))["loss"])
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("alpha", [np.float32(0.5), np.int64(1), torch.tensor(0.5), torch.tensor(0.5).requires_grad_()])
def test_a_weight_of_any_type_of_number(alpha):
    for objective in (LearningToTransform(model(), alpha), InvarianceRegularised(nn.Flatten(), Flips(), alpha=alpha)):
        assert objective.weight.alpha.item() == alpha
    assert LearningToTransform(model(), alpha)((X, Y))["loss"].isfinite()


def test_the_share_at_the_bounds_is_reported():
    transform = Affine("angle", "tx", factored=True)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    objective = Augerino(Averaged(net, transform, GlobalUniform.over(transform, 1)))
    low, high = transform.bounds
    v = torch.stack((low, (low + high) / 2, high, high))[:, None]
    assert objective.edge(v).item() == 3 / 4  # of the shifts; an angle on its circle has no bounds
    assert 0 <= objective((X, Y))["edge"].item() <= 1
