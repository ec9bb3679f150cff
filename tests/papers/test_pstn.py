"""What the experiments of the P-STN paper do besides training: networks, choices, landscapes, windows."""

from dataclasses import replace

import pytest
import torch

from erlangen.distributions import EntropyController
from erlangen.papers.pstn import common, figure1, figure4, figure12, frozen, signs, table2


@pytest.fixture(autouse=True)
def single():
    torch.set_default_dtype(torch.float32)


def size(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("method", "parameters"), [("cnn", 28_086), ("stn", 28_726), ("pstn", 26_662), ("affine", 28_086), ("flow", 26_340)]
)
def test_networks_are_of_one_size_and_begin_at_the_identity(method, parameters):
    averaged = common.build(common.Training(method, "drawn")).averaged.eval()
    learned = size(averaged.model) + (size(averaged.conditional) if method in common.LOCALISED else 0)
    assert learned == parameters
    if method in ("stn", "pstn"):
        assert averaged(torch.rand(4, 1, 28, 28)).localisation(64).centre.abs().max() < 1e-6


def test_the_localisers_of_section_5_1():
    for task, method, least, most in [
        ("rotated", "stn", 70e3, 74e3),
        ("rotated", "pstn", 70e3, 74e3),
        ("rotated", "flow", 68e3, 76e3),
        ("placed", "stn", 190e3, 197e3),
        ("placed", "pstn", 190e3, 197e3),
    ]:
        objective = frozen._localiser(frozen.Frozen(method, task, weight=0.2))
        assert least < size(objective.averaged.conditional) < most
        assert size(objective.averaged.model) == 28_086
        assert set(objective.parameter_groups()) == {"conditional"}


def test_folds_and_validation_share_no_digit():
    configs = [common.Training("cnn", "drawn", 30, fold=k, held=20, count=2) for k in range(2)]
    parts = [part for c in configs for part in common.fold(c)]
    assert [len(part) for part in parts] == [30, 20, 30, 20]
    assert parts[0].counts() == [3] * 10


def test_only_what_is_missing_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("ERLANGEN_CACHE", str(tmp_path))
    seen, own = [], common.fit_many
    monkeypatch.setattr(common, "fit_many", lambda o, *args: seen.append(len(o)) or own(o, *args))
    configs = [replace(table2.TINY, method="cnn", fold=k) for k in range(2)]
    (one,) = common.trained(configs[:1])
    first, second = common.trained(configs)
    assert seen == [1, 1]
    assert torch.equal(one.model.model.last.weight, first.model.model.last.weight)
    assert not torch.equal(first.model.model.last.weight, second.model.model.last.weight)


def test_the_weight_is_chosen_on_validation_folds():
    rows = [
        {"method": "pstn", "dataset": "d", "scale": 1.0, "weight": w, "validation": v, "accuracy": a, "gain": 1.0}
        | {"ece": 0.1, "nll": 0.2}
        for w, v, a in [(1, 70, 99), (1, 80, 99), (2, 76, 50), (2, 75, 52)]
    ]
    chosen = table2.summary(table2.SMOKE, rows)
    assert (chosen["weight"], chosen["accuracy"]) == (2, 51)  # whatever the test says
    assert chosen["deviation"] == pytest.approx(2**0.5)


def test_local_minima():
    x = torch.linspace(-1, 1, 9)
    bowl = x[:, None].square() + x.square()
    assert figure1.local_minima(bowl) == 1
    assert figure1.local_minima((x[:, None].abs() - 0.5).square() + (x.abs() - 0.5).square()) == 4
    assert figure1.local_minima(torch.zeros(5, 5)) == 0


def test_the_window_is_what_is_seen():
    move = frozen.moves(frozen.Frozen(task="placed"))
    place = torch.tensor([[0.3, -0.2]])
    v = torch.cat((torch.full((1, 1), 2.0).log(), -2 * place), -1)  # half the canvas, around a place
    box = signs.boxes(move, v)
    torch.testing.assert_close(box, torch.tensor([[-0.2, -0.7, 0.8, 0.3]]), rtol=1e-4, atol=1e-5)


def test_a_perfect_localiser_undoes_the_placement():
    data = frozen.data_set("placed", "drawn", "test", 3)
    middle = (data.box[:, :2] + data.box[:, 2:]) / 2
    move = frozen.moves(frozen.Frozen(task="placed"))
    v = torch.cat((torch.full((3, 1), 2.0).log(), -2 * middle), -1)
    seen = torch.nn.functional.adaptive_avg_pool2d(move(data.x / 255, v), 28)
    upright = frozen.upright("drawn", "test", 3).x / 255
    assert (seen - upright).abs().mean() < 0.03
    assert (signs.boxes(move, v) - data.box).abs().max() < 1e-5


def test_larger_sets_have_fewer_and_larger_steps():
    small, large = (table2.build(table2.FULL, "cnn", size)[0] for size in (100, 1000))
    assert (small.batch, small.epochs) == (8, 600)
    assert (large.batch, large.epochs) == (64, 200)
    assert large.scale == 0.333


def test_every_line_of_a_figure_has_room_and_depths_are_whole():
    row = {"method": "cnn", "dataset": "mnist30", "weight": 0.0, "accuracy": 70.0}
    panel = table2.show([{**row, "part": "fold"}, {**row, "part": "folds"}]).axes[0]
    assert panel.get_ylim() == (len(table2.METHODS) - 0.5, -0.5)
    rows = [{"method": m, "depth": d, "accuracy": 9.0, "variance": 0.1} for m in figure12.METHODS for d in (1, 2)]
    for panel in figure12.show(rows).axes:
        assert panel.get_xticks().tolist() == list(figure12.FULL.depths)


def test_a_flow_is_above_both_or_not_compared():
    rows = [{"method": m, "seed": 0, "accuracy": a} for m, a in (("stn", 80.0), ("pstn", 90.0), ("flow", 93.0))]
    assert figure4.compare(rows)[2]["better"] == 3
    (alone,) = figure4.compare([{"method": "flow", "seed": 0, "accuracy": 10.0}])
    assert "better" not in alone


def test_the_flow_of_angles_begins_all_over_the_circle_and_near_the_identity_if_asked():
    spread = {}
    for method in ("flow", "flow-wide", "flow-near"):
        objective = frozen._localiser(frozen.Frozen(method=method, source="drawn", weight=0.2))
        spread[method] = objective.averaged.conditional(torch.rand(4, 1, 28, 28)).sample((500,)).abs().mean().item()
        assert isinstance(objective.weight, EntropyController) == (method == "flow")
        assert objective.eval().weight(torch.tensor(9.0)).item() == pytest.approx(0.2)
    assert min(spread["flow"], spread["flow-wide"]) > 1.2  # half a turn at most, uniform over it π / 2
    assert spread["flow-near"] < 0.6


@pytest.mark.parametrize(
    ("method", "first", "clip"),
    [("stn", 1.0, None), ("flow-near", 1.0, None), ("flow-wide", 1.0, 1.0), ("flow", 0.5, 1.0)],
)
def test_only_the_flow_has_a_rate_that_rises_and_only_wide_ones_a_limit(method, first, clip, monkeypatch):
    seen = []
    monkeypatch.setattr(frozen, "fit_many", lambda objectives, loaders, how: seen.extend(how))
    data = frozen.upright("drawn", "train", 40)
    frozen._fit([None], [frozen.Frozen(method, batch=4)], "cpu", data, epochs=2)
    (how,) = seen
    assert how.optimiser.clip == clip
    assert how.optimiser.schedule(0, 20, 10) == first  # of 20 steps two rise
