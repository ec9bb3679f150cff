"""LILA's objective: Laplace's approximation of the marginal likelihood, and what of it a part of the data gives."""

import math
from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, jacrev

from erlangen.distributions import Categorical, Dirac, GlobalUniform, MeanFieldUniform, RealNVP
from erlangen.models import Averaged, Mirror
from erlangen.objectives import METHODS, MarginalLikelihood, Terms, marginal_likelihood
from erlangen.objectives.marginal_likelihood import gradients
from erlangen.train import Config, Optimiser, TensorLoader, fit, fit_many
from erlangen.transforms import Affine, Flips

X = torch.rand(6, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, 3)).double()


def averaged(conditional=GlobalUniform, net=None, transform=None, **kwargs):
    transform = transform or Affine("angle", "tx").double()
    encoder = None if conditional is GlobalUniform else nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    own = {"layers": 2, "width": 8} if conditional is RealNVP else {}
    q = conditional.over(transform, 5, encoder=encoder, **own).double()
    return Averaged(net or classifier(), transform, q, **{"samples": 4, "space": "logit"} | kwargs)


def setting(views=3):
    """A classifier of averaged logits, its weights, and inputs with views."""
    net, torch_rng = classifier(), torch.Generator().manual_seed(1)
    inputs = torch.rand(5, views, 1, 8, 8, dtype=torch.float64, generator=torch_rng)

    def scores(w, x):
        return functional_call(net, dict(w), (x,)).mean(0)

    return scores, dict(net.named_parameters()), inputs


def curvature_of(scores, weights, inputs, curvature=lambda p: p.diag() - p.outer(p)):
    """The mean over inputs, from whole Jacobians, of all weights together."""
    total = 0
    for x in inputs:
        jacobian = jacrev(lambda w, x=x: scores(w, x))(dict(weights))
        j = torch.cat([jacobian[n].flatten(1) for n in weights], 1)
        total = total + j.T @ curvature(scores(weights, x).softmax(-1)) @ j / len(inputs)
    return total


def together(rows, weight):
    rows = torch.cat([r.flatten(1) for r in rows.values()], 1)
    return weight * rows.T @ rows


def test_rows_are_of_the_curvature():
    scores, weights, inputs = setting()
    ours = together(*gradients(scores, weights, (inputs,)))
    torch.testing.assert_close(ours, curvature_of(scores, weights, inputs), rtol=1e-10, atol=1e-14)
    wrong = curvature_of(scores, weights, inputs, curvature=torch.diag)  # outputs as if they were independent
    assert not torch.allclose(ours, wrong, rtol=1e-3)


def test_few_outputs_are_right_on_average():
    """Each is drawn as often as its row of L weighs: p_k (1 - 2 p_k + |p|^2) of 1 - |p|^2."""
    scores, weights, inputs = setting()
    torch.manual_seed(0)
    drawn = [together(*gradients(scores, weights, (inputs[:1],), outputs=1)) for _ in range(60)]
    kinds = sorted({round(one.trace().item(), 9): one for one in drawn}.items())
    assert len(kinds) == 3  # one for each output
    p = scores(weights, inputs[0]).softmax(-1)
    chances = p * (1 - 2 * p + p.square().sum()) / (1 - p.square().sum())
    true = curvature_of(scores, weights, inputs[:1])
    known = [sum(c * one for c, (_, one) in zip(chances[list(o)], kinds, strict=True)) for o in permutations(range(3))]
    assert min((one - true).norm() for one in known) < 1e-12
    every = together(*gradients(scores, weights, (inputs,), outputs=99))
    torch.testing.assert_close(every, curvature_of(scores, weights, inputs))
    several = sum(together(*gradients(scores, weights, (inputs,), outputs=2)) for _ in range(400)) / 400
    torch.testing.assert_close(several.trace(), curvature_of(scores, weights, inputs).trace(), rtol=0.02, atol=0)


def test_rows_have_gradients_of_views_and_none_of_weights():
    scores, weights, inputs = setting()

    def trace(x):
        return together(*gradients(scores, weights, (x,))).trace()

    assert torch.autograd.gradcheck(trace, (inputs[:2].requires_grad_(),))
    assert not trace(inputs).requires_grad  # though the weights do


def test_where_a_class_is_certain_gradients_are_finite():
    x = torch.tensor([[400.0, -400.0, 0.0]], requires_grad=True)
    for outputs in (None, 1):
        rows, _ = gradients(lambda w, x: w["w"] * x, {"w": torch.ones(3)}, (x,), outputs)
        assert torch.autograd.grad(rows["w"].square().sum(), x)[0].isfinite().all()


def test_the_three_terms():
    objective = MarginalLikelihood(averaged(), 100, precision=2.0)
    torch.manual_seed(3)
    losses = objective((X, Y))
    torch.manual_seed(3)
    likelihood = F.cross_entropy(objective.averaged(X).views.mean(0), Y)
    price = MarginalLikelihood(objective.averaged, 100, precision=2.0).complexity(X)  # one that remembers nothing yet
    weights = torch.cat([w.flatten() for w in objective.averaged.model.parameters()])
    torch.testing.assert_close(losses["cross_entropy"], likelihood)
    torch.testing.assert_close(losses["prior"], 2 * weights.square().sum() / 200)
    torch.testing.assert_close(losses["complexity"], price)
    torch.testing.assert_close(losses["loss"], likelihood + losses["prior"] + price)
    losses = objective.eval()((X, Y))
    torch.testing.assert_close(losses["loss"], losses["cross_entropy"])


def test_averages_over_more_are_simpler():
    """For a network of random weights, and inputs that are all turned."""
    narrow, wide = (
        MarginalLikelihood(averaged(), 100, inputs=6, outputs=3, views=200).requires_grad_(False) for _ in range(2)
    )
    wide.averaged.conditional.raw.fill_(3.0)
    narrow.averaged.conditional.raw.fill_(-5.0)
    torch.manual_seed(0)
    assert wide.complexity(X) < 0.9 * narrow.complexity(X)


def test_what_is_trained():
    objective = MarginalLikelihood(averaged(), 100, burn_in=1)
    groups = objective.parameter_groups()
    assert {name: len(group) for name, group in groups.items()} == {"classifier": 4, "conditional": 1, "prior": 1}
    for step in range(2):
        objective.zero_grad()
        objective((X, Y))["loss"].backward()
        trained = {name: any(p.grad is not None for p in group) for name, group in groups.items()}
        assert trained == {"classifier": True, "conditional": step == 1, "prior": step == 1}


def test_steps_that_find_eigenvectors_are_of_kinds_of_their_own():
    """They are not recorded: to find them waits for the device."""
    objective, kinds = MarginalLikelihood(averaged(), 100, burn_in=2), []
    for _ in range(62):
        kinds.append(objective.branch())
        objective.counted()
    usual = max(kinds, key=kinds.count)
    assert kinds[0] == kinds[1] != usual
    assert [i - 2 for i, kind in enumerate(kinds) if i > 1 and kind != usual] == [*range(10), 20, 40]
    assert len(set(kinds)) == 2 + 12


@pytest.mark.parametrize("conditional", [MeanFieldUniform, RealNVP])
def test_distributions_of_each_input(conditional):
    objective = MarginalLikelihood(averaged(conditional), 100)
    objective((X, Y))["loss"].backward()
    assert all(p.grad.isfinite().all() for p in objective.averaged.conditional.parameters() if p.grad is not None)


def test_finitely_many_transformations_have_their_weights():
    objective = MarginalLikelihood(averaged(Categorical, transform=Flips().double()), 100)
    objective.complexity(X).backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in objective.averaged.conditional.parameters())


def test_layers_that_look_at_a_batch_or_draw():
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(144, 3))
    objective = MarginalLikelihood(averaged(net=net.double()), 100)
    losses = objective((X, Y))
    losses["loss"].backward()
    assert losses["complexity"].isfinite()
    assert all(part.training for part in net.modules())
    assert int(net[1].num_batches_tracked) == 1


def test_normalisation_that_draws_or_looks_at_a_batch():
    normalise = nn.Sequential(Mirror(), nn.BatchNorm2d(1).double())
    losses = MarginalLikelihood(averaged(normalise=normalise), 100)((X, Y))
    assert losses["complexity"].isfinite()
    assert normalise.training
    assert int(normalise[1].num_batches_tracked) == 1


def test_attention():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    net = nn.Sequential(nn.Flatten(1, 2), layer, nn.Flatten(), nn.Linear(64, 3)).double()
    objective = MarginalLikelihood(averaged(net=net), 100)
    objective((X, Y))["loss"].backward()
    assert objective.averaged.conditional.raw.grad.isfinite().all()


class Decides(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else -super().forward(x)


class Fills(nn.Linear):
    def forward(self, x):
        return torch.zeros_like(self.bias).repeat(len(x), 1).add_(super().forward(x))


@pytest.mark.parametrize("kind", [Decides, Fills])
def test_what_cannot_be_mapped_over_is_said(kind):
    """Torch says it in many words, of which few are its own."""
    objective = MarginalLikelihood(averaged(net=nn.Sequential(nn.Flatten(), kind(64, 3)).double()), 100)
    with pytest.raises(ValueError, match="averaged: received a classifier with an operation that torch cannot map"):
        objective((X, Y))


def test_no_memory_is_no_fault_of_the_classifier(monkeypatch):
    def full(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(marginal_likelihood, "gradients", full)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        MarginalLikelihood(averaged(), 100)((X, Y))


def test_how_wide_the_distribution_is_is_logged():
    for objective in (MarginalLikelihood(averaged(), 100), MarginalLikelihood(averaged(), 100).eval()):
        widths = objective.averaged.conditional.half_width.detach()
        torch.testing.assert_close(objective((X, Y))["entropy"], (2 * widths).log().sum())
    assert "entropy" not in MarginalLikelihood(averaged(Dirac), 100)((X, Y))


def blobs(n, *, seed=0, turned=True):
    """Spots near the centre or far from it, at any angle; or right and left of it, whose angle is their class."""
    noise = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (n,), generator=noise)
    angle = 2 * math.pi * torch.rand(n, generator=noise) if turned else math.pi * y
    radius = torch.where(y == 0, 0.25, 0.6) if turned else torch.full((n,), 0.5)
    grid = torch.linspace(-1, 1, 12)
    gap = (grid - (radius * angle.cos())[:, None])[:, None, :] ** 2 + (grid - (radius * angle.sin())[:, None])[
        ..., None
    ] ** 2
    return (-gap / 0.03).exp().unsqueeze(1), y


def learned(x, y, steps=100):
    """The half-width of the angle after training."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 16), nn.Tanh(), nn.Linear(16, 2))
    transform = Affine("angle")
    model = Averaged(net, transform, GlobalUniform.over(transform, 1), samples=4, space="logit")
    rates = dict.fromkeys(("conditional", "prior"), Optimiser("adam", lr=0.05))
    how = Config(steps=steps, optimiser=Optimiser("adam", lr=0.01), groups=rates, accelerator="cpu", progress=False)
    fit(MarginalLikelihood(model, len(x), burn_in=25), TensorLoader(x, y, batch_size=64), how)
    return model.conditional.half_width.item()


def test_the_data_say_how_far():
    """Without a weight to choose: turned inputs give a wide range, inputs whose angle is their class a narrow one."""
    wide, narrow = (learned(*blobs(256, turned=turned)) for turned in (True, False))
    assert wide > 1.8
    assert narrow < 0.2


def test_many_are_trained_as_one():
    torch.manual_seed(0)
    x, y = blobs(32)

    def objective(seed):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(144, 2))
        transform = Affine("angle")
        model = Averaged(net, transform, GlobalUniform.over(transform, 1), samples=2, space="logit")
        return MarginalLikelihood(model, 32, burn_in=1, inputs=4, views=2)

    def loader():
        return TensorLoader(x, y, batch_size=8, shuffle=False)

    how = Config(steps=3, optimiser=Optimiser("sgd", lr=0.1), accelerator="cpu", progress=False)
    alone, together = objective(0), [objective(0), objective(1)]
    fit(alone, loader(), how)
    fit_many(together, [loader(), loader()], how)
    for own, same in zip(alone.parameters(), together[0].parameters(), strict=True):
        torch.testing.assert_close(own, same, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: MarginalLikelihood(averaged(space="prob"), 10), r"averaged: received one with space='prob'"),
        (lambda: MarginalLikelihood(averaged(identity=True), 10), r"averaged: received .* identity=True"),
        (
            lambda: MarginalLikelihood(averaged(frozen=["model"]), 10),
            r"averaged: received a classifier without weights",
        ),
        (
            lambda: MarginalLikelihood(averaged(net=lambda x: x.flatten(1)), 10),
            r"averaged: received a classifier without weights",
        ),
        (
            lambda: MarginalLikelihood(averaged(net=nn.Sequential(nn.Flatten(), nn.LazyLinear(3))), 10),
            "averaged: received a classifier with weights that have no shape yet",
        ),
        (lambda: MarginalLikelihood(averaged(), 0), "size: received int 0"),
        (lambda: MarginalLikelihood(averaged(), 10, views=0), "views: received int 0"),
        (lambda: MarginalLikelihood(averaged(), 10, outputs=0), "outputs: received int 0"),
        (lambda: MarginalLikelihood(averaged(), 10, inputs=1.5), "inputs: received float 1.5"),
        (lambda: MarginalLikelihood(averaged(), 10, precision=0.0), "precision: received float 0"),
        (lambda: METHODS["lila"].objective(averaged(), Terms()), "size: received int 0"),
        (lambda: MarginalLikelihood(averaged(), 10, memory=0), "memory: received int 0"),
    ],
)
def test_bad_arguments(make, match):
    with pytest.raises(ValueError, match=match):
        make()
