"""What the experiments on genuine invariance do of their own: the split, the network, and how it is measured."""

import dataclasses

import pytest
import torch
from torch import nn

from erlangen.data import DataSet
from erlangen.papers.genuine import common
from erlangen.papers.genuine.common import Training, accuracy, averaged, build, group_of, part, perceptron
from erlangen.papers.genuine.figure2 import spread
from erlangen.papers.genuine.tsne import affinities, tsne
from erlangen.transforms import Rotations, Shifts

SMALL = Training(source="drawn", sizes=(64, 32, 16), epochs=1, batch=16)


@pytest.fixture(autouse=True)
def single():
    torch.set_default_dtype(torch.float32)


def test_parts_are_of_the_sizes_asked_and_disjoint(monkeypatch):
    """Every image has a value of its own, by which it is told from others."""
    x = torch.arange(112)[:, None, None, None].to(torch.uint8).expand(-1, 1, 28, 28).contiguous()
    whole = DataSet(x, torch.arange(112) % 9, tuple("012345678"), "numbered")
    monkeypatch.setattr(common, "images", lambda source: whole)
    seen = [set(part(SMALL, name).x[:, 0, 0, 0].tolist()) for name in ("train", "test", "held")]
    assert [len(values) for values in seen] == [64, 32, 16]
    assert len(set.union(*seen)) == 112


def test_images_are_padded_and_the_last_class_is_left_out():
    data = common.images("drawn")
    assert data.x.shape[1:] == (1, 36, 36)
    assert data.classes == tuple("012345678")
    assert not data.x[..., :4].any()
    assert not data.x[..., 32:, :].any()
    assert data.x[..., 4:32, 4:32].any()
    assert len(data.y.unique()) == 9


def test_every_seed_has_the_same_parts():
    a, b = (part(dataclasses.replace(SMALL, seed=seed), "test") for seed in (0, 1))
    assert torch.equal(a.x, b.x)


def test_the_network_has_the_paper_s_parameters():
    assert sum(p.numel() for p in perceptron(SMALL).parameters()) == 233_225
    tied = perceptron(dataclasses.replace(SMALL, method="wt"))
    assert sum(p.numel() for p in tied.parameters()) == 233_225


def test_groups_are_the_paper_s():
    x = torch.rand(1, 1, 36, 36)
    turn, shift = (group_of(dataclasses.replace(SMALL, group=name)) for name in ("R4", "T3"))
    assert isinstance(turn, Rotations)
    assert isinstance(shift, Shifts)
    assert torch.equal(turn.act(torch.tensor([1]), x), x.rot90(1, (-2, -1)))
    assert torch.equal(shift.act(torch.tensor([1]), x), x.roll(12, -1))


@pytest.mark.parametrize("group", common.GROUPS)
@pytest.mark.parametrize("method", ["wt", "wt-mean", "averaged"])
def test_tied_and_averaged_networks_are_invariant(method, group):
    config = dataclasses.replace(SMALL, method=method, group=group)
    moves, model = group_of(config), perceptron(config)
    model = averaged(model, moves).eval() if method == "averaged" else model
    x = part(config, "test").x / 255
    moved = moves.act(torch.ones(len(x), dtype=torch.long), x)
    one, other = (getattr(y, "log_probs", y) for y in (model(x), model(moved)))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_augmentation_draws_all_elements_alike_and_trains_nothing_else():
    objective = build(SMALL)
    assert set(objective.parameter_groups()) == {"classifier"}
    torch.manual_seed(0)
    v = torch.cat([objective.averaged(part(SMALL, "train").x).v.flatten() for _ in range(50)])
    share = torch.bincount(v.long(), minlength=4) / len(v)
    assert (share - 0.25).abs().max() < 0.04  # 3200 draws: five standard deviations


def test_learned_elements_begin_near_the_identity_and_data_come_transformed():
    objective = build(dataclasses.replace(SMALL, method="learned"))
    data = part(SMALL, "train")
    assert torch.allclose(objective.q(data.x / 255).log_probs.exp()[:, 0], torch.tensor(0.9))
    seen = []
    objective.distribution.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    for training in (True, False):
        objective.train(training)((data.x, data.y))
    upright, turned = data.x / 255, group_of(SMALL).act(torch.arange(4)[:, None], data.x)
    still = (seen[0] == upright).flatten(1).all(1).float().mean()
    assert 0.02 < still < 0.55  # a quarter, of 64 inputs
    assert (seen[0] == turned).flatten(2).all(2).any(0).all()
    assert torch.equal(seen[1], upright)


class Corner(nn.Module):
    """Says class 0 if the first pixel is bright, else 1."""

    def forward(self, x):
        bright = x[:, 0, 0, 0]
        return torch.stack((bright, 0.5 - bright), 1)


def test_accuracy_is_over_whole_orbits():
    x = torch.zeros(2, 1, 36, 36)
    x[0, 0, 0, 0] = 1
    data = DataSet(x, torch.tensor([0, 1]), ("bright", "dark"), "corners")
    assert accuracy(Corner(), data, Rotations(4)) == pytest.approx(100 * 5 / 8)


def test_ours_costs_one_forward_pass_of_the_paper_s_network():
    model = build(dataclasses.replace(SMALL, method="ours")).posed
    rows = []
    model.model.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    model(part(SMALL, "test").x)
    assert rows == [32]
    assert sum(p.numel() for p in model.model.parameters()) == 233_225
    assert sum(p.numel() for p in model.conditional.parameters()) == 4 * (36 * 36 + 1)


@pytest.mark.parametrize("group", common.GROUPS)
def test_a_pose_that_is_learned_over_orbits_is_equivariant_without_ties(group):
    """Rows that nothing ties stay in one orbit, and the trained network is invariant."""
    config = dataclasses.replace(SMALL, method="ours", group=group, epochs=5)
    objective = build(config)
    common.teach(objective, config, "cpu")
    model, moves, x = objective.posed.eval(), group_of(config), part(config, "test").x / 255
    rows = model.conditional.head.last.weight.detach().unflatten(1, (1, 36, 36))
    orbit = moves.act(moves.elements().unsqueeze(1), rows[:1]).squeeze(1)
    assert rows.abs().max() > 0.01
    torch.testing.assert_close(rows, orbit, rtol=0, atol=1e-5)
    for g in moves.elements():
        assert torch.equal(model(x), model(moves.act(g.expand(len(x)), x)))


def test_a_pose_of_single_copies_is_a_broken_twin():
    """What keeps the rows in one orbit are whole orbits: moved at random, they drift apart."""
    config = dataclasses.replace(SMALL, method="ours")
    model, moves, x = build(config).posed, group_of(config), part(config, "train").x / 255
    torch.manual_seed(0)
    optimiser = torch.optim.SGD(model.conditional.parameters(), lr=0.1)
    for _ in range(20):
        g = torch.randint(4, (len(x),))
        nn.functional.cross_entropy(model.conditional(moves.act(g, x)).logits, g).backward()
        optimiser.step()
        optimiser.zero_grad()
    rows = model.conditional.head.last.weight.detach().unflatten(1, (1, 36, 36))
    orbit = moves.act(moves.elements().unsqueeze(1), rows[:1]).squeeze(1)
    assert (rows - orbit).abs().max() > 1e-3


def test_affinities_have_the_perplexity_that_is_asked():
    """On a ring all points have the same neighbours: those of one sum to 1 / N, with the entropy asked."""
    angle = torch.arange(60, dtype=torch.float64) * (torch.pi / 30)
    p = affinities(torch.stack((angle.cos(), angle.sin()), 1), 10.0)
    torch.testing.assert_close(p, p.mT)
    torch.testing.assert_close(p.sum(1), torch.full((60,), 1 / 60, dtype=torch.float64))
    row = 60 * p[0][p[0] > 0]
    assert (-(row * row.log()).sum()).exp().item() == pytest.approx(10, rel=1e-3)


def test_clusters_stay_apart_in_the_plane():
    torch.manual_seed(0)
    centres = 10 * torch.eye(3, 8).repeat_interleave(30, 0)
    y = tsne(centres + torch.randn(90, 8), perplexity=8.0, steps=300).unflatten(0, (3, 30))
    middle = y.mean(1)
    assert torch.pdist(middle).min() > 2 * (y - middle[:, None]).norm(dim=-1).max()
    with pytest.raises(ValueError, match=r"perplexity: received 40\.0 for 90 points"):
        tsne(centres, perplexity=40.0)


def test_spread_of_an_invariant_and_of_a_random_representation():
    torch.manual_seed(0)
    features, y = torch.randn(4, 50, 6), torch.arange(50) % 2
    assert spread(features[:1].expand(4, -1, -1), y) == pytest.approx(0, abs=1e-3)
    assert spread(features, y) == pytest.approx(1, abs=0.05)
