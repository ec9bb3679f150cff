"""What trains a classifier to be invariant."""

import math
import statistics

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical as Discrete
from torch.distributions import Independent, Normal, Uniform, VonMises

from erlangen.distributions import Categorical, Dirac, EntropyController, Gaussian, RealNVP
from erlangen.models import GroupTied, Normalise
from erlangen.objectives import REGULARISERS, InvarianceController, InvarianceRegularised
from erlangen.train import Config, Optimiser, TensorLoader, fit
from erlangen.transforms import Affine, Crop, Flips, Rotations, Shifts

X = torch.rand(6, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def net(hidden=None):
    if hidden is None:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    return nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 3))


def encoder():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 5))


def flow(transform):
    return RealNVP.over(transform, 5, encoder=encoder(), layers=2, width=8)


def still(*args, **kwargs):
    """An objective that does not augment: what it is made of is the inputs as they are."""
    return InvarianceRegularised(*args, augment=False, **kwargs)


CLOSED = {  # two logits (a, b), which a flip exchanges; the identity is half of the group
    "logit": lambda a, b: (a - b) ** 2 / 2,
    "distribution": lambda a, b: math.tanh((a - b) / 2) * (a - b) / 2,
    "normalised": lambda a, b: (a - b) ** 2 / (a**2 + b**2),
}


@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize(("a", "b"), [(1.0, 0.0), (0.3, -1.2), (2.0, 2.0)])
def test_closed_forms(regulariser, a, b):
    """An image of two pixels, whose logits are its pixels."""
    losses = still(nn.Flatten(), Flips(), regulariser=regulariser, nu=0.7)((torch.tensor([[[[a, b]]]]), Y[:1]))
    expected = CLOSED[regulariser](a, b)
    assert losses["invariance"].item() == pytest.approx(expected, abs=1e-15)
    assert losses["logit_invariance"].item() == pytest.approx((a - b) ** 2 / 2, abs=1e-15)
    cross_entropy = math.log1p(math.exp(b - a))
    assert losses["cross_entropy"].item() == pytest.approx(cross_entropy)
    assert losses["loss"].item() == pytest.approx(cross_entropy + 0.7 * expected)


TERMS = {  # as the paper writes them, for one input and one element
    "logit": lambda f, m: (f - m).norm() ** 2 / 2,
    "distribution": lambda f, m: (f.softmax(0) * (f.softmax(0) / m.softmax(0)).log()).sum(),
    "normalised": lambda f, m: (f - m).norm() ** 2 / f.norm() ** 2,
}


@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("group", [Rotations(4), Shifts(4), Flips()], ids=lambda g: type(g).__name__)
def test_a_whole_orbit_is_the_mean_over_all_elements(regulariser, group):
    objective = still(net(), group, regulariser=regulariser, nu=2.0)
    losses, logits = objective((X, Y)), objective.model(X)
    moved = [objective.model(group.act(g.expand(len(X)), X)) for g in group.elements()]
    terms = [TERMS[regulariser](f, m) for element in moved for f, m in zip(logits, element, strict=True)]
    assert losses["invariance"].item() == pytest.approx(torch.stack(terms).mean().item())
    torch.testing.assert_close(losses["cross_entropy"], F.cross_entropy(logits, Y))
    torch.testing.assert_close(losses["loss"], losses["cross_entropy"] + 2 * losses["invariance"])


@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("augment", [True, False])
@pytest.mark.parametrize("samples", [None, 3])
def test_zero_for_a_model_that_is_invariant(regulariser, augment, samples):
    group = Rotations(4)
    model = GroupTied(nn.Linear(64, 9), group, nn.Sequential(nn.BatchNorm1d(9), nn.Linear(9, 3)))
    own = {"regulariser": regulariser, "augment": augment, "samples": samples}
    losses = InvarianceRegularised(model, group, **own)((X, Y))
    assert abs(losses["invariance"].item()) < 1e-14
    assert InvarianceRegularised(net(), group, **own)((X, Y))["invariance"].item() > 1e-4


@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_gradient_reaches_every_parameter(regulariser):
    objective = InvarianceRegularised(net(7), Rotations(4), regulariser=regulariser)
    objective((X, Y))["invariance"].backward()
    for name, p in objective.model.named_parameters():
        # One bias moves all logits of an orbit alike, which is a change only in proportion to them.
        if name != "3.bias" or regulariser != "logit":
            assert p.grad.abs().max() > 0, name
    assert objective.parameter_groups().keys() == {"classifier"}


def test_augmentation_trains_on_one_random_element_of_each_input():
    group = Rotations(4)
    objective = InvarianceRegularised(net(), group)
    x, y = X[:1].expand(400, -1, -1, -1), Y[:1].expand(400)
    seen = []
    objective.model.register_forward_hook(lambda module, args, out: seen.append(args[0][:400]))
    objective((x, y))
    orbit = group.act(group.elements().unsqueeze(1), X[:1]).squeeze(1)
    counts = (seen[0].unsqueeze(1) == orbit).flatten(2).all(-1).sum(0)
    assert counts.sum() == 400
    assert (counts - 100).abs().max() < 5 * math.sqrt(400 * 3 / 16)  # fails by chance less than once in 10⁵
    objective.eval()((x, y))
    assert torch.equal(seen[1], x)


def test_the_augmented_input_is_what_others_are_compared_with():
    group = Flips()
    objective = InvarianceRegularised(nn.Flatten(), group, regulariser="normalised")
    a, b = 3.0, 1.0
    losses = objective((torch.tensor([[[[a, b]]]]).expand(50, -1, -1, -1), torch.zeros(50, dtype=torch.long)))
    assert losses["invariance"].item() == pytest.approx((a - b) ** 2 / (a**2 + b**2))
    assert 0.2 < losses["accuracy"].item() < 0.8  # those that were flipped have the other label


def test_sampled_elements_are_an_unbiased_estimate():
    objective = still(net(), Rotations(4))
    whole = objective((X, Y))["invariance"].item()
    sampled = still(objective.model, Rotations(4), samples=2)
    values = [sampled((X, Y))["invariance"].item() for _ in range(400)]
    error = statistics.stdev(values) / math.sqrt(400)
    assert error > 0
    assert statistics.fmean(values) == pytest.approx(whole, abs=4 * error)  # fails by chance once in 10⁴


def test_a_given_distribution():
    """Shifts by a whole pixel to the right or none at all, of an image with a black last column."""
    transform = Affine("tx", bounds={"tx": 0.5})
    x = X.clone()
    x[..., -1] = 0
    always = Independent(Uniform(torch.tensor([0.25 - 1e-9]), torch.tensor([0.25 + 1e-9])), 1)
    objective = still(net(), transform, always, samples=3)
    moved = objective.model(F.pad(x, (1, -1)))
    expected = (objective.model(x) - moved).square().sum(-1).mean() / 2
    torch.testing.assert_close(objective((x, Y))["invariance"], expected, rtol=1e-6, atol=0)
    assert set(objective.parameter_groups()) == {"classifier"}
    wide = InvarianceRegularised(
        net(), transform, Independent(Normal(torch.zeros(1), 0.2 * torch.ones(1)), 1), samples=3
    )
    assert wide((x, Y))["loss"].isfinite()


def test_a_given_distribution_needs_neither_rsample_nor_the_type_of_inputs():
    """One quarter turn always, as a law over elements; a concentrated angle, in single precision."""
    quarter = Independent(Discrete(torch.tensor([[0.0, 1.0, 0.0, 0.0]])), 1)
    objective = still(net(), Rotations(4), quarter, samples=2)
    expected = (objective.model(X) - objective.model(X.rot90(1, (-2, -1)))).square().sum(-1).mean() / 2
    torch.testing.assert_close(objective((X, Y))["invariance"], expected)
    angle = Independent(VonMises(torch.tensor([0.0]), torch.tensor([1e6])).expand((1,)), 1)
    around = still(net(), Affine("angle"), angle, samples=2)((X, Y))["invariance"]
    assert 0 < around < expected / 100


@pytest.mark.parametrize("transform", [Affine("angle", "tx"), Crop(square=True)], ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("regulariser", REGULARISERS)
def test_a_learned_conditional_is_trained_with_a_price_on_entropy(transform, regulariser):
    objective = InvarianceRegularised(
        net(), transform, flow(transform), samples=4, regulariser=regulariser, nu=0.5, alpha=0.3
    )
    losses = objective((X, Y))
    expected = losses["cross_entropy"] + 0.5 * losses["invariance"] - 0.3 * losses["entropy"]
    torch.testing.assert_close(losses["loss"], expected)
    groups = objective.parameter_groups()
    assert set(groups) == {"classifier", "conditional"}
    assert sum(map(len, groups.values())) == len(list(objective.parameters()))
    losses["invariance"].backward()
    assert sum(p.grad.abs().sum().item() for p in groups["conditional"] if p.grad is not None) > 0


@pytest.mark.parametrize("samples", [None, 4000])
def test_a_learned_choice_of_elements(samples):
    """Enumerated, the gradient is exact: that of Σ_g p(g) (LI(g) + α log p(g)); sampled, it is unbiased."""
    group = Rotations(4)
    objective = still(net(), group, Categorical.over(group, 5, encoder=encoder()), alpha=0.2, samples=samples)
    losses = objective((X, Y))
    bias = objective.distribution.head.last.bias
    (found,) = torch.autograd.grad(losses["loss"] - losses["cross_entropy"], bias)
    log_p = objective.distribution(X).log_probs
    orbit = group.act(group.elements().unsqueeze(1), X)
    errors = torch.stack([(objective.model(X) - objective.model(m)).square().sum(-1) / 2 for m in orbit], -1)
    value = (log_p.exp() * (errors + 0.2 * log_p)).sum(-1).mean()
    (exact,) = torch.autograd.grad(value, bias)
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-12 if samples is None else 0.02)
    assert exact.abs().max() > 0.05


def test_augmentation_with_a_learned_choice_has_the_gradient_of_the_choice():
    """Over many equal inputs the sampled h is a mean over choices: Σ_h p(h) (CE(hx) + Σ_g p(g) LI(hx, gx))."""
    conditional = Categorical.over(Flips(), 5, spread=0.3, encoder=nn.Sequential(nn.Flatten(), nn.Linear(2, 5)))
    objective = InvarianceRegularised(nn.Flatten(), Flips(), conditional, nu=1.0, alpha=0.0)
    x, bias = torch.tensor([[[[1.0, -0.5]]]]), conditional.head.last.bias
    losses = objective((x.expand(20000, -1, -1, -1), torch.zeros(20000, dtype=torch.long)))
    (found,) = torch.autograd.grad(losses["loss"], bias)
    p = conditional(x).log_probs[0].exp()
    cross_entropies = torch.tensor([-1.5, 1.5]).exp().log1p()
    (exact,) = torch.autograd.grad(p @ cross_entropies + 2 * p[0] * p[1] * 1.5**2, bias)
    torch.testing.assert_close(found, exact, rtol=0, atol=0.05)  # five standard errors


def test_the_entropy_of_a_conditional_can_be_controlled():
    transform = Affine("angle")
    conditional = Gaussian.over(transform, 5, encoder=encoder())
    objective = InvarianceRegularised(
        net(), transform, conditional, samples=2, alpha=EntropyController(0.5, alpha=0.05)
    )
    first, second = (objective((X, Y))["alpha"].item() for _ in range(2))
    assert second > first  # it starts narrow


def train(objective, batch, steps, rate):
    optimiser = torch.optim.Adam(objective.parameters(), rate)
    rows = []
    for _ in range(steps):
        losses = objective(batch)
        optimiser.zero_grad()
        losses["loss"].backward()
        optimiser.step()
        rows.append({name: value.item() for name, value in losses.items()})
    return rows


@pytest.mark.parametrize("nu", [1e-3, 5.0])
def test_the_weight_is_found(nu):
    """From too little and from too much, where the answer is known.

    Two images that a flip exchanges have label 0 and label 1 in four of five cases. With a gap s between the logits of
    one image LI is s²/2, and the slopes of the cross-entropy and of ν LI balance where σ(s) - 4/5 + ν s = 0.
    """
    s = 0.5
    expected = (0.8 - 1 / (1 + math.exp(-s))) / s
    x = torch.eye(2).repeat_interleave(5, 0).view(10, 1, 1, 2)
    y = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    objective = still(nn.Sequential(nn.Flatten(), nn.Linear(2, 2)), Flips(), nu=InvarianceController(s * s / 2, nu=nu))
    last = train(objective, (x, y), 1000, 0.02)[-1]
    assert last["logit_invariance"] == pytest.approx(s * s / 2, rel=0.02)
    assert last["nu"] == pytest.approx(expected, rel=0.02)


def test_the_controller():
    control = InvarianceController(0.1, nu=2.0, low=0.5, high=4.0, proportional=0.2, integral=0.1, smoothing=0.0)
    # log ν grows by k_i e, and then by k_i e + k_p (e - e'), where e = log(LI / target).
    assert control(torch.tensor(0.1 * math.e)).item() == pytest.approx(2 * math.exp(0.1))
    assert control(torch.tensor(0.1)).item() == pytest.approx(2 * math.exp(0.1 - 0.2))
    assert control(torch.tensor(1e9)).item() == pytest.approx(4)
    assert control(torch.tensor(0.0)).item() == pytest.approx(0.5)  # invariant: as little as there may be
    assert control(torch.tensor(math.nan)).item() == pytest.approx(0.5)
    other = InvarianceController(0.1, nu=1.0, low=0.5, high=4.0)
    other.load_state_dict(control.state_dict())
    assert other.eval()(torch.tensor(1e9)).item() == pytest.approx(0.5)  # evaluation looks only
    assert not other.train()(torch.tensor(0.2)).requires_grad


def test_regularisation_makes_a_network_invariant():
    plain, held = (
        train(InvarianceRegularised(net(16), Rotations(4), nu=nu), (X, Y), 200, 0.01)[-1] for nu in (0.0, 10.0)
    )
    assert held["logit_invariance"] < plain["logit_invariance"] / 20


def test_it_is_an_objective_of_fit():
    objective = InvarianceRegularised(
        net(4), Rotations(4), nu=InvarianceController(0.1), normalise=Normalise([0.5], [0.2])
    )
    loader = TensorLoader(X, Y, batch_size=3)
    config = Config(accelerator="cpu", epochs=3, optimiser=Optimiser("adam", 0.01), log_every=6, progress=False)
    history = fit(objective, loader, config, validation=loader)
    names = {"loss", "cross_entropy", "accuracy", "invariance", "logit_invariance", "nu"}
    assert names <= set(history.rows[-1])


def test_normalisation_comes_after_the_transformation():
    seen = []

    def look(x):
        seen.append(x)
        return (x - 0.5) / 0.25

    transform = Affine("tx", bounds={"tx": 3.0})
    q = Independent(Uniform(torch.tensor([2.9]), torch.tensor([2.95])), 1)
    objective = still(net(), transform, q, samples=1, normalise=look)
    losses = objective((X, Y))
    torch.testing.assert_close(seen[0], torch.cat((X, torch.zeros_like(X))))
    torch.testing.assert_close(losses["cross_entropy"], F.cross_entropy(objective.model(look(X)), Y))
    bytes_ = (X * 255).to(torch.uint8)
    still(net(), Flips(), normalise=look)((bytes_, Y))
    assert seen[-1].max() <= 1


AFFINE = Affine("angle", "tx")


def point():
    return Dirac.over(AFFINE, 5, encoder=encoder())


def test_points_that_are_not_learned_may_be_given():
    objective = InvarianceRegularised(net(), AFFINE, point().requires_grad_(False), samples=1)
    assert set(objective.parameter_groups()) == {"classifier"}


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: InvarianceRegularised(F.relu, Flips()), "model: received"),
        (lambda: InvarianceRegularised(net(), net()), "transform: received"),
        (lambda: InvarianceRegularised(net(), Flips(), nu=-1.0), "nu: received"),
        (lambda: InvarianceRegularised(net(), Flips(), nu="large"), "nu: received .* InvarianceController"),
        (lambda: InvarianceRegularised(net(), Flips(), regulariser="l1"), "regulariser: received 'l1'; .*'logit'"),
        (lambda: InvarianceRegularised(net(), Flips(), samples=0), "samples: received"),
        (lambda: InvarianceRegularised(net(), AFFINE), "distribution: received None for Affine"),
        (lambda: InvarianceRegularised(net(), AFFINE, flow(AFFINE)), "samples: received None"),
        (lambda: InvarianceRegularised(net(), AFFINE, flow(Affine("angle", "tx", "ty"))), "over 3 coordinates"),
        (lambda: InvarianceRegularised(net(), AFFINE, Normal(0.0, 1.0), samples=1), r"distribution: .*shape \(2,\)"),
        (lambda: InvarianceRegularised(net(), AFFINE, "all", samples=1), "distribution: received str"),
        (lambda: InvarianceRegularised(net(), AFFINE, point(), samples=1), "distribution: received a Dirac, .*frozen"),
        (lambda: InvarianceRegularised(net(), Flips(), alpha=-1.0), "alpha"),
        (lambda: InvarianceRegularised(net(), Flips())((X, Y[:3])), "labels"),
        (lambda: InvarianceRegularised(nn.Flatten(0), Flips())((X, Y)), "model: received"),
        (lambda: InvarianceController(0.0), "target: received"),
        (lambda: InvarianceController(1.0, nu=2.0, high=1.0), "nu: received"),
        (lambda: InvarianceController(1.0, low=0.0), "low: received"),
        (lambda: InvarianceController(1.0)(0.3), "error: received"),
    ],
)
def test_bad_input(build, match):
    with pytest.raises(ValueError, match=match):
        build()


@pytest.mark.parametrize("label", [-1, 4])
def test_labels_that_the_classifier_has_no_score_for_are_refused(label):
    objective = InvarianceRegularised(nn.Sequential(nn.Flatten(), nn.Linear(16, 4)), Rotations(4))
    with pytest.raises(ValueError, match=r"batch: received .*accepted .*labels from 0 to 3"):
        objective((torch.rand(2, 1, 4, 4), torch.tensor([0, label])))


def test_inputs_have_the_type_of_the_classifier():
    """Weights in half precision take images in single, and those in single take images in half."""
    for weights, inputs in ((torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)):
        objective = still(net().to(weights), Rotations(4))
        found, same = objective((X.to(inputs), Y)), objective((X.to(inputs).to(weights), Y))
        assert torch.equal(found["loss"], same["loss"])
    with pytest.raises(ValueError, match=r"^x: received a float64 .*, but the model is torch.bfloat16"):
        still(net().bfloat16(), Rotations(4))((X, Y))


@pytest.mark.parametrize("rest", [(), (nn.Flatten(0),)])
def test_a_classifier_with_one_logit_is_refused(rest):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 1), *rest)
    with pytest.raises(ValueError, match=r"^model: received a .* tensor .*; accepted is a classifier with logits \("):
        InvarianceRegularised(model, Flips())((X, torch.zeros_like(Y)))
