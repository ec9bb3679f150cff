"""Objectives that are trained together come out as each would alone."""

import copy
import logging
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import constraints

from erlangen.distributions import Dirac, RealNVP, StudentT
from erlangen.models import Averaged
from erlangen.objectives import PSTN, LearningToTransform, Objective
from erlangen.train import Config, Cosine, Diverged, Optimiser, TensorLoader, fit, fit_many
from erlangen.train.engine import launch
from erlangen.train.joined import Joined
from erlangen.train.many import StackEngine
from erlangen.train.noise import MemberNoise, seed_noise
from erlangen.train.stack import Stack
from erlangen.transforms import CPAB, Similarity
from erlangen.utils.io import read_jsonl

from .tiny import Tiny, data

DOUBLE = torch.float64


def config(seed=0, **fields):
    return Config(**{"accelerator": "cpu", "steps": 7, "log_every": 3, "seed": seed, **fields})


def tinies(n=3):
    made = []
    for k in range(n):
        torch.manual_seed(k)
        made.append(Tiny().to(DOUBLE))
    return made


def pictures(seed, shape=(1, 8, 8), n=10):
    chance = torch.Generator().manual_seed(seed)
    x = torch.rand(n, *shape, dtype=DOUBLE, generator=chance)
    return TensorLoader(x, torch.randint(3, (n,), generator=chance), batch_size=4, seed=seed)


def transformer(seed, conditional=StudentT, weight=1e-3, **kwargs):
    """A small spatial transformer with dropout and batch normalisation."""
    torch.manual_seed(seed)
    move = Similarity()
    q = conditional.over(move, 6, encoder=nn.Sequential(nn.Flatten(), nn.Linear(64, 6)), **kwargs)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3))
    averaged = Averaged(net.append(nn.Linear(27, 3)), move, q, samples=2).to(DOUBLE)
    if conditional is RealNVP:
        return LearningToTransform(averaged, weight, burn_in=3).to(DOUBLE)
    return PSTN(averaged, weight, burn_in=2).to(DOUBLE)


def warper(seed, cells=4):
    """A series whose time is warped."""
    torch.manual_seed(seed)
    move = CPAB((cells,))
    q = StudentT.over(move, 6, encoder=nn.Sequential(nn.Flatten(), nn.Linear(24, 6)))
    net = nn.Sequential(nn.Conv1d(2, 3, 3), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(30, 3))
    return PSTN(Averaged(net, move, q, samples=3).to(DOUBLE), 1e-2).to(DOUBLE)


def close(one, other, tolerance=1e-8):
    for (name, a), b in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(b, a, rtol=tolerance, atol=tolerance, msg=lambda m, name=name: f"{name}: {m}")


def both(objectives, loaders, configs, **kwargs):
    """Trained one after another, and together."""
    alone = [copy.deepcopy(o) for o in objectives]
    held = kwargs.get("validation") or [None] * len(alone)
    told = [fit(o, d, c, validation=v) for o, d, c, v in zip(alone, loaders, configs, held, strict=True)]
    histories = fit_many(objectives, loaders, configs, **kwargs)
    for one, other in zip(alone, objectives, strict=True):
        close(one, other)
    for one, other in zip(told, histories, strict=True):
        assert [row.keys() for row in one.rows] == [row.keys() for row in other.rows]
        for a, b in zip(one.rows, other.rows, strict=True):
            for name in a.keys() - {"seconds", "rate", "message"}:
                assert b[name] == (a[name] if isinstance(a[name], str) else pytest.approx(a[name], rel=1e-9, abs=1e-9))
        assert (one.stopped, one.best and one.best["step"]) == (other.stopped, other.best and other.best["step"])
    return histories


@pytest.mark.parametrize(
    "optimiser",
    [
        Optimiser("adam", 0.01, weight_decay=0.1),
        Optimiser("adamw", 0.01, weight_decay=0.1, schedule=Cosine()),
        Optimiser("sgd", 0.1, momentum=0.9, clip=0.3),
    ],
)
def test_as_alone_with_seeds_and_rates_of_their_own(optimiser):
    configs = [config(k, optimiser=replace(optimiser, lr=optimiser.lr / (k + 1))) for k in range(3)]
    both(tinies(), [data(seed=k) for k in range(3)], configs, validation=[data(seed=9)] * 3)


@pytest.mark.parametrize(
    "made",
    [
        lambda k: transformer(k, weight=10.0**-k),
        lambda k: transformer(k, Dirac),
        lambda k: transformer(k, RealNVP, layers=2, width=4, weight=0.1 * (k + 1)),
    ],
    ids=["pstn", "stn", "flow"],
)
def test_transformers_as_alone_whatever_their_weights(made):
    groups = {"conditional": Optimiser("adam", 1e-4)}
    configs = [config(k, groups=groups) for k in range(3)]
    both([made(k) for k in range(3)], [pictures(k) for k in range(3)], configs)


def test_series_as_alone():
    loaders = [pictures(k, (2, 12)) for k in range(2)]
    both([warper(k) for k in range(2)], loaders, [config(k) for k in range(2)])


def test_a_frozen_classifier_stays():
    objectives = [transformer(k) for k in range(2)]
    for objective in objectives:
        objective.burn_in = 0
        objective.averaged.frozen = frozenset(["model"])
        objective.averaged.model.requires_grad_(False).eval()
    before = [copy.deepcopy(o.averaged.model) for o in objectives]
    both(objectives, [pictures(k) for k in range(2)], [config(k) for k in range(2)])
    for old, objective in zip(before, objectives, strict=True):
        close(old, objective.averaged.model, 0)


def test_noise_of_its_own():
    seeds, place = [3, 8], (0, 5)
    draws = torch.func.vmap(
        lambda x: (torch.rand(2), torch.randn_like(x), torch.dropout(x, 0.5, True)), randomness="different"
    )
    x = torch.ones(2, 4)
    with MemberNoise(seeds, place, torch.device("cpu")):
        together = draws(x)
    for k, seed in enumerate(seeds):
        with MemberNoise([seed], place, torch.device("cpu")):
            alone = draws(x[:1])
        assert all(torch.equal(a[k], b[0]) for a, b in zip(together, alone, strict=True))
    assert not torch.equal(together[0][0], together[0][1])


ONE = torch.tensor([1.0, 5.0, 9.0, 20.0], dtype=DOUBLE)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x[torch.randperm(4)] + torch.rand(()) * x[torch.randperm(len(x))] + torch.randn(4),
        lambda x: torch.normal(ONE, x),
        lambda x: torch.normal(x, ONE),
        lambda x: torch.normal(ONE.expand(2, 4), x),
        lambda x: torch.binomial(ONE, x),
    ],
)
def test_permutations_and_tensors_that_all_share_are_as_alone(draw):
    x, place, cpu = torch.linspace(0.1, 0.9, 12, dtype=DOUBLE).view(3, 4), (0, 5), torch.device("cpu")
    with MemberNoise([3, 8, 9], place, cpu):
        together = torch.func.vmap(draw, randomness="different")(x)
    for k, seed in enumerate([3, 8, 9]):
        seed_noise(seed, *place, device=cpu)
        assert torch.equal(together[k], draw(x[k]))


class Mixed(Tiny):
    """Batches are mixed with a permutation of themselves, by a weight that is drawn on the host or not."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, batch):
        weight, order = self.weight(), torch.randperm(len(batch[0]))
        return super().forward([weight * part + (1 - weight) * part[order] for part in batch])


def mixed(weight, n=3):
    return [Mixed(weight).to(DOUBLE) for _ in range(n)]


def one_weight():
    return torch.rand(())


def test_mixed_batches_as_alone():
    both(mixed(one_weight), [data(seed=k) for k in range(3)], [config(k) for k in range(3)])


@pytest.mark.parametrize("weight", [lambda: random.random(), lambda: np.random.rand()])  # noqa: NPY002
def test_numbers_of_the_host_are_refused_where_each_would_have_its_own(weight):
    with pytest.raises(
        ValueError, match=r"^objectives\[0\]: received one that draws from random or numpy\.random, .*3"
    ):
        fit_many(mixed(weight, 2), [data()] * 2, [config(2), config(3)])
    both(mixed(weight, 2), [data()] * 2, [config(2), config(2)])


def test_what_cannot_be_mapped_over_is_refused():
    objectives = tinies(2)
    for objective in objectives:
        objective.net[1] = nn.RReLU()
    with pytest.raises(
        ValueError, match=r"^objectives: received some with .*aten::rrelu.*; accepted are others, or each"
    ):
        fit_many(objectives, [data()] * 2, config())


def test_other_noise_is_noticed():
    """The twin: with one generator for all, objectives do not come out as alone."""

    class Shared(StackEngine):
        def _seed(self, *place):
            super()._seed(*place)
            self.noise = None

    objectives, alone = tinies(2), tinies(2)
    stack = Stack(objectives)
    configs = [config(k, steps=1, optimiser=Optimiser("sgd", 0.1)) for k in range(2)]
    engine = Shared(stack, configs, launch(stack, configs[0]))
    batch = tuple(torch.stack([t, t]) for t in next(data().epoch(0, torch.device("cpu"))))
    engine.step(batch, 0, {"net": 1.0, "scale": 1.0})
    for k, objective in enumerate(alone):
        fit(objective, data(), configs[k])
    assert not torch.allclose(stack.member(1)["net.0.weight"], alone[1].net[0].weight, atol=1e-9)


def test_resumed_as_never_stopped(tmp_path):
    configs = [config(k, checkpoint_every=2, folder=tmp_path / "a", steps=9) for k in range(2)]
    loaders = [data(seed=k) for k in range(2)]
    whole = tinies(2)
    fit_many(whole, loaders, configs)

    class Killed(Exception):
        pass

    def kill(step, _):
        if step == 5:
            raise Killed

    cut = [config(k, checkpoint_every=2, folder=tmp_path / "b", steps=9) for k in range(2)]
    with pytest.raises(Killed):
        fit_many(tinies(2), loaders, cut, on_step=kill)
    with pytest.raises(FileExistsError, match="holds a run already"):
        fit_many(tinies(2), loaders, cut)
    resumed = tinies(2)
    again = [config(k, checkpoint_every=2, folder=tmp_path / "b", steps=9, resume=True) for k in range(2)]
    histories = fit_many(resumed, loaders, again)
    for one, other in zip(whole, resumed, strict=True):
        close(one, other, 0)
    for k, history in enumerate(histories):
        assert history.column("step") == [3, 6, 9]
        assert read_jsonl(tmp_path / "b" / f"{k:02d}" / "log.jsonl") == history.rows
    with pytest.raises(ValueError, match=r"^seed: received \[5, 6\]"):
        fit_many(tinies(2), loaders, [config(k, folder=tmp_path / "b", resume=True) for k in (5, 6)])
    with pytest.raises(ValueError, match=r"^objectives: received 1; the run in .* was started with 2"):
        fit_many(tinies(1), loaders[:1], again[:1])
    faster = [again[0], replace(again[1], optimiser=replace(again[1].optimiser, lr=0.3))]
    with pytest.raises(ValueError, match=r"^groups\['net'\].lr: received \[.*, 0.3\]; .* was started with"):
        fit_many(tinies(2), loaders, faster)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda x, y: (x, y + 1), r"^loaders\[1\]: .*labels"),
        (lambda x, y: (x.index_fill(0, torch.tensor([2]), math.nan), y), r"^loaders\[1\]: .*NaN"),
    ],
)
def test_what_an_objective_refuses_alone_it_refuses_with_others(spoil, match):
    """Mapped over, it cannot look at values: labels would be an IndexError, and NaN a loss that diverges."""
    x, y = torch.randn(12, 2, 12, dtype=DOUBLE), torch.arange(12) % 3
    loaders = [TensorLoader(*part, batch_size=12) for part in ((x, y), spoil(x, y))]
    objectives = [warper(0), warper(1)]
    before = copy.deepcopy(objectives[0])
    with pytest.raises(ValueError, match=match):
        fit_many(objectives, loaders, [config(0), config(1)])
    close(before, objectives[0], 0)


def warper_but(what):
    """A warper, and what is not as it was."""
    objective = warper(0, 5 if what == "cells" else 4)
    if what == "weight":
        objective.weight.fill_(5.0)
    if what == "samples":
        objective.averaged.samples = 7
    return objective


@pytest.mark.parametrize(
    ("what", "match"),
    [
        ("weight", r"^objective\.weight: received .*5\.0.*; the run in .* was started with .*0\.01"),
        ("samples", r"^objective\.averaged\.samples: received 7; .* was started with 3"),
        ("cells", r"^objective\.averaged\.(transform|conditional).*: received"),
    ],
)
@pytest.mark.parametrize("together", [False, True])
def test_a_run_does_not_go_on_as_another(tmp_path, what, match, together):
    """What is trained may be as it likes, all else is as it was."""
    torch.manual_seed(0)
    loader = TensorLoader(torch.randn(12, 2, 12, dtype=DOUBLE), torch.arange(12) % 3, batch_size=4)

    def train(objective, **kwargs):
        how = config(folder=tmp_path / "run", **kwargs)
        return fit_many([objective], [loader], [how]) if together else fit(objective, loader, how)

    train(warper(0), steps=3)
    with pytest.raises(ValueError, match=match):
        train(warper_but(what), steps=6, resume=True)
    train(warper(1), steps=6, resume=True)


class Valley(Objective):
    """The loss is w, and is judged by its distance to where an objective should stop."""

    def __init__(self, bottom, cliff=math.inf):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(()))
        self.register_buffer("bottom", torch.tensor(float(bottom)))
        self.register_buffer("cliff", torch.tensor(float(cliff)))

    def parameter_groups(self):
        return {"w": [self.w]}

    def forward(self, batch):
        loss = torch.where(-self.w < self.cliff, self.w, math.nan)
        return {"loss": loss if self.training else (self.w + self.bottom).square()}


def one():
    return TensorLoader(torch.zeros(1), batch_size=1)


def test_a_limit_of_gradients_that_a_burn_in_does_not_have():
    objectives, loaders = [transformer(k) for k in range(2)], [pictures(k) for k in range(2)]
    both(objectives, loaders, [config(k, steps=4, optimiser=Optimiser("sgd", 0.1, clip=0.3)) for k in range(2)])


def test_each_has_its_own_patience():
    objectives = [Valley(2), Valley(5), Valley(99)]
    how = config(steps=12, optimiser=Optimiser("sgd", 1.0), validate_every=1, patience=2)
    histories = fit_many(objectives, [one()] * 3, how, validation=[one()] * 3)
    assert [h.stopped for h in histories] == ["patience", "patience", "finished"]
    assert [o.w.item() for o in objectives] == [-2, -5, -12]
    assert [h.rows[-1]["step"] for h in histories] == [4, 7, 12]


def test_one_that_diverges_does_not_stop_the_others(caplog):
    objectives = [Valley(1), Valley(1, cliff=3)]
    how = config(steps=8, log_every=2, optimiser=Optimiser("sgd", 1.0))
    with caplog.at_level(logging.WARNING, "erlangen.train"):
        histories = fit_many(objectives, [one()] * 2, how)
    assert [h.stopped for h in histories] == ["finished", "diverged"]
    assert objectives[0].w.item() == -8
    assert "objective 1: the loss is nan at step 4" in caplog.text
    with pytest.raises(Diverged):
        fit_many([Valley(1, cliff=3), Valley(1, cliff=5)], [one()] * 2, how)


def test_a_weight_that_is_one_number_is_saved_and_clipped(tmp_path):
    objectives = [Valley(1), Valley(1)]
    fit_many(objectives, [one()] * 2, config(steps=3, optimiser=Optimiser("sgd", 1.0, clip=0.5), folder=tmp_path))
    assert [o.w.item() for o in objectives] == pytest.approx([-1.5, -1.5], abs=1e-5)  # of 1e-6 beside the norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # of the data, which are as they are for `fit`
def test_double_precision_is_handed_back(dtype):
    objectives = [o.float() for o in tinies(2)]
    loaders = [TensorLoader(*(t.to(dtype) for t in data().tensors), batch_size=8)] * 2
    fit_many(objectives, loaders, config(steps=1, precision="64-true"))
    assert objectives[1].scale.dtype == DOUBLE


class Plain:
    """A loader of another kind, with the same batches."""

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return len(self.loader)

    def epoch(self, number, device, start=0):
        return self.loader.epoch(number, device, start)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_batches_side_by_side_are_those_of_each(start):
    same = data()
    other = TensorLoader(*same.tensors, batch_size=8, seed=3)
    third = TensorLoader(*(t + 1 for t in same.tensors), batch_size=8, seed=4, shuffle=False)
    device, loaders = torch.device("cpu"), [same, other, third]
    pooled = list(Joined("loaders", loaders).epoch(2, device, start))
    stacked = list(Joined("loaders", [Plain(loader) for loader in loaders]).epoch(2, device, start))
    alone = zip(*(loader.epoch(2, device, start) for loader in loaders), strict=True)
    for a, b, batches in zip(pooled, stacked, alone, strict=True):
        for x, y, parts in zip(a, b, zip(*batches, strict=True), strict=True):
            assert torch.equal(x, y)
            assert torch.equal(x, torch.stack(parts))
    assert len(pooled) == 3 - start


class Tied(Objective):
    """Two layers that share a weight."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight

    def parameter_groups(self):
        return {"all": list(self.parameters())}

    def forward(self, batch):
        return {"loss": (self.two(self.one(batch[0]).tanh()).sum(-1) - batch[1]).square().mean()}


def test_tied_weights_stay_tied():
    objectives = [Tied(k) for k in range(2)]
    both(objectives, [data(seed=k) for k in range(2)], [config(k) for k in range(2)])
    assert objectives[1].two.weight is objectives[1].one.weight


def changed(objective, **attributes):
    for name, value in attributes.items():
        setattr(objective, name, value)
    return objective


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: fit_many([], [], config()), "objectives: received none"),
        (lambda: fit_many(tinies(1)[0], [data()], config()), "objectives: received Tiny.*; accepted is a sequence"),
        (lambda: fit_many(tinies(1), data(), config()), "loaders: received TensorLoader.*; accepted is a sequence"),
        (lambda: fit_many([*tinies(1), 3], [data()] * 2, config()), r"objectives\[1\]: received int 3"),
        (
            lambda: fit_many(tinies(1) * 2, [data()] * 2, config()),
            r"objectives\[1\]: received the same .*objectives\[0\]",
        ),
        (lambda: fit_many(tinies(2), [data()], config()), "loaders: received 1 for 2"),
        (lambda: fit_many(tinies(2), [data()] * 2, [config()]), "config: received 1 for 2"),
        (lambda: fit_many(tinies(2), [data(), data(rows=40)], config()), "loaders of .3, 5. batches"),
        (lambda: fit_many(tinies(2), [data(), data(rows=23)], config()), "loaders: received batches with"),
        (lambda: fit_many(tinies(2), [data()] * 2, [config(), config(steps=8)]), r"config\[1\].steps: received 8"),
        (lambda: fit_many(tinies(2), [data()] * 2, config(compile=True)), "compile: received True"),
        (lambda: fit_many(tinies(2), [data()] * 2, config(devices=2)), "devices: received 2 on 1 machines"),
        (lambda: fit_many(tinies(2), [data()] * 2, config(patience=2)), "patience"),
        (
            lambda: fit_many([tinies(1)[0], changed(tinies(1)[0], burn_in=4)], [data()] * 2, config()),
            r"objectives\[1\].burn_in: received 4, the first has 0",
        ),
        (lambda: fit_many([tinies(1)[0], tinies(1)[0].float()], [data()] * 2, config()), r"objectives\[1\].scale"),
        (lambda: fit_many([tinies(1)[0], Valley(1)], [data()] * 2, config()), "differs from the first in 'net'"),
    ],
)
def test_bad_arguments(build, match):
    with pytest.raises(ValueError, match=match):
        build()


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (torch.sin, torch.cos),
        (lambda x: x, lambda x: x),
        ([1, 2], [1, 3]),
        ({"a": 1}, {"a": 2}),
        (torch.zeros(2), torch.ones(2)),
        (torch.zeros(2), [0, 0]),
        (np.zeros(2), np.zeros(2)),
        (constraints.interval(0, 1), constraints.interval(0, 2)),
        (torch.sin, None),
    ],
)
def test_what_cannot_be_stacked_must_be_the_same(one, two):
    """Or all would be trained with that of the first."""
    with pytest.raises(ValueError, match=r"objectives\[1\].net.0.extra: received .*, the first has "):
        Stack([extra(one), extra(two)])
    Stack([extra(one), extra(one)])


def extra(value):
    objective = tinies(1)[0]
    objective.net[0].extra = value
    return objective


def test_a_copy_can_be_stacked():
    one = transformer(0)
    one.averaged.normalise = torch.sin
    one.averaged.extra = {"list": [1, torch.ones(2)], "support": constraints.interval(0, 1)}
    Stack([one, copy.deepcopy(one)])


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@needs_cuda
def test_as_alone_on_cuda():
    objectives, loaders = [transformer(k) for k in range(3)], [pictures(k) for k in range(3)]
    both(objectives, loaders, [config(k, accelerator="cuda") for k in range(3)])


@needs_cuda
def test_graphs_of_all_are_steps_of_all():
    """With noise of its own in a graph, so that it is the losses without noise that can be compared."""
    trained = []
    for graph in (False, True):
        objectives = [transformer(k, Dirac) for k in range(3)]
        for objective in objectives:
            objective.averaged.model[4].p = 0.0  # no dropout
        fields = {"accelerator": "cuda", "graph": graph, "steps": 12}
        histories = fit_many(objectives, [pictures(k) for k in range(3)], [config(k, **fields) for k in range(3)])
        trained.append((objectives, histories))
    (plain, expected), (replayed, found) = trained
    for one, other in zip(plain, replayed, strict=True):
        close(one, other, 1e-6)
    for one, other in zip(expected, found, strict=True):
        assert other.column("loss") == pytest.approx(one.column("loss"), rel=1e-6)


def test_what_is_trained_in_two_objectives_is_refused():
    one = transformer(0)
    two = PSTN(one.averaged, 10.0).to(DOUBLE)
    with pytest.raises(ValueError, match=r"objectives\[1\]: received averaged.* also trained in objectives\[0\]"):
        fit_many([one, two], [pictures(0), pictures(1)], config())
    for objective in (one, other := transformer(1)):
        objective.averaged.model.requires_grad_(False)
        objective.burn_in = 0
    other.averaged.model = one.averaged.model  # which stays as it is
    fit_many([one, other], [pictures(0), pictures(1)], config(steps=1))
