"""What the experiments on series and on signs do besides training: networks, parts, choices, windows."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from erlangen.data import DataSet
from erlangen.papers.pstn import figure6, figure10, series, signs, table3
from erlangen.transforms import CPAB


@pytest.fixture(autouse=True)
def single():
    torch.set_default_dtype(torch.float32)


def size(module):
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


@pytest.fixture
def drawn(monkeypatch):
    """Bumps in the place of every set."""
    series._parts.cache_clear()
    monkeypatch.setattr(series, "load_set", lambda name, split="train": replace(series._bumps(split), name=name))
    yield
    series._parts.cache_clear()


@pytest.mark.parametrize("method", ["cnn", "stn", "pstn"])
def test_networks_are_of_one_size_and_begin_at_the_identity(method, drawn):
    averaged = series.build(series.Training(method=method)).averaged.eval()
    assert 1.18e6 < size(averaged.model) + size(averaged.conditional) < 1.21e6
    if method == "cnn":
        return
    q = averaged.conditional(torch.randn(4, 1, 24))
    assert torch.equal(q.mode, torch.zeros(4, 9))
    if method == "pstn":
        torch.testing.assert_close(q.scale, torch.full((4, 9), np.log1p(np.exp(-5)) ** 0.5).float())


def test_parts_share_nothing(drawn):
    whole = series.Training()
    held = replace(whole, held=True)
    parts = [series.data_set(held, part).x for part in ("train", "held")]
    assert [len(part) for part in parts] == [30, 10]
    assert len(torch.cat(parts).unique(dim=0)) == len(series.data_set(whole, "train")) == 40
    assert not torch.equal(series.data_set(whole, "test").x, series.data_set(whole, "train").x)
    assert series.name_of("FaceAll") == "FaceAll"


def test_a_set_without_a_test_part_is_split_and_says_so(monkeypatch):
    def load(name, split="train"):
        if split == "test":
            raise series.DataUnavailableError("not at hand")
        return replace(series._bumps("train"), name=name)

    series._parts.cache_clear()
    monkeypatch.setattr(series, "load_set", load)
    assert series.name_of("UWaveGestureLibraryX") == "UWaveGestureLibraryX, own split"
    config = series.Training(dataset="UWaveGestureLibraryX")
    assert [len(series.data_set(config, part)) for part in ("train", "test")] == [30, 10]
    series._parts.cache_clear()


def test_the_weight_is_chosen_on_what_was_set_aside(monkeypatch, drawn):
    """The best on the test part is another, and is not taken."""
    best = {("held", 1e-5): (50.0, 0.1), ("held", 1e-4): (90.0, 0.9), ("test", 1e-3): (99.0, 0.0)}
    monkeypatch.setattr(table3, "trained", lambda training, device: (training, 0))

    def scores(training, data, *, averaged, batch):
        part = "held" if training.held else "test"
        assert averaged == (training.method != "cnn")
        accuracy, nll = best.get((part, training.weight), (50.0 + training.seed, 1.0))
        return {"accuracy": accuracy, "ece": 0.1, "nll": nll}

    monkeypatch.setattr(table3, "scores", scores)
    first, second = (table3.run(replace(table3.FULL, datasets=(name,), repetitions=3)) for name in ("FaceAll", "Wafer"))
    assert not [row for row in table3.compare(first) if row["dataset"] == "mean"]  # of one of its sets there is none
    monkeypatch.setattr(table3, "DATASETS", ("FaceAll", "Wafer"))
    rows = table3.compare(first + second)
    tested = [row for row in rows if row["method"] == "pstn" and row["part"] == "test"]
    assert {row["weight"] for row in tested} == {1e-5}
    (mean,) = (row for row in rows if row["method"] == "pstn" and row["dataset"] == "mean")
    assert (mean["accuracy"], mean["sets"]) == (51.0, 2)
    (all_of,) = (r for r in rows if r["method"] == "stn" and r["dataset"] == "Wafer" and r["part"] == "all")
    assert (all_of["accuracy"], all_of["deviation"], all_of["p"]) == (51.0, 1.0, 1.0)


def test_moments_are_moved_as_far_as_the_warps_say():
    class Model:
        transform = CPAB((10,))

        @staticmethod
        def conditional(x):
            loc = torch.zeros(len(x), 9)
            return torch.distributions.Normal(loc, 1e-3)

    moved = figure10.deviations(Model, torch.zeros(2, 1, 10), 4000)
    nodes = figure10.deviations(Model, torch.zeros(1, 1, 10), 4000)
    assert moved.shape == (2, 10)
    # The middle of a cell moves by the mean of two independent velocities, here of 1e-3 half-frames of five samples.
    assert moved[:, 2:8].mean().item() == pytest.approx(5e-3 / 2**0.5, rel=0.05)
    assert nodes[0, 0] < 0.8 * nodes[0, 5]  # one end of the first cell stays in place


# Signs


def test_a_box_fills_the_view_and_a_view_is_its_box():
    box = torch.tensor([[-0.5, -0.25, 0.0, 0.25], [0.2, 0.4, 0.6, 0.8]])
    x = torch.zeros(2, 3, 96, 96)
    for image, (left, top, right, bottom) in zip(x, ((box + 1) * 48).round().long().tolist(), strict=True):
        image[:, top:bottom, left:right] = 1
    seen = signs.zoomed(x, box)
    assert seen[..., 6:-6, 6:-6].min() > 0.99
    move = signs.moves()
    side = box[:, 2:3] - box[:, :1]
    v = torch.cat(((2 / side).log(), -(box[:, :2] + box[:, 2:]) / side), -1)
    torch.testing.assert_close(signs.boxes(move, v[None])[0], box)
    whole = signs.boxes(move, move.origin.expand(1, 1, -1))
    torch.testing.assert_close(whole[0, 0], torch.tensor([-1.0, -1.0, 1.0, 1.0]))


def test_windows_around_a_box_hold_it_and_reach_to_several_of_its_sides():
    box = torch.tensor([[-0.2, -0.1, 0.2, 0.3], [0.5, 0.5, 0.7, 0.8]]).repeat(2000, 1)
    windows = signs.around(box, 5.0, 0)
    assert (windows[:, :2] <= box[:, :2] + 1e-6).all()
    assert (windows[:, 2:] >= box[:, 2:] - 1e-6).all()
    sides = (windows[:, 2:] - windows[:, :2]) / (box[:, 2:] - box[:, :2]).amax(-1, keepdim=True)
    torch.testing.assert_close(sides[:, 0], sides[:, 1])
    assert sides.min() < 1.01
    assert sides.max() > 4.95
    assert sides.log().mean().item() == pytest.approx(math.log(5) / 2, rel=0.05)
    assert not torch.equal(windows, signs.around(box, 5.0, 1))


TINY = signs.Training(source="glyphs", epochs=1, first=1, batch=8, samples=2, width=4)


def test_localisers_begin_at_the_whole_scene_and_leave_the_classifier_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("ERLANGEN_CACHE", str(tmp_path))
    classifier = signs.trained(replace(TINY, method="boxes")).model.state_dict()
    for method in ("stn", "pstn"):
        config = replace(TINY, method=method)
        start = signs.build(config).averaged.eval()
        samples = start.conditional(torch.rand(3, 3, 96, 96)).sample((4001,))
        assert samples.median(0).values.abs().max() < (1e-6 if method == "stn" else 0.05)
        after = signs.trained(config)
        assert all(torch.equal(value, after.model.state_dict()[name]) for name, value in classifier.items())
        pairs = zip(start.conditional.parameters(), after.conditional.parameters(), strict=True)
        assert not all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("method", ["cnn", "stn", "pstn"])
def test_localisers_and_classifiers_of_scenes_start_from_the_classifier_of_windows(tmp_path, monkeypatch, method):
    monkeypatch.setenv("ERLANGEN_CACHE", str(tmp_path))
    still = replace(TINY, slower=1e-12)
    known = signs.convolutions(signs.trained(replace(still, method="boxes")).model)
    after = signs.trained(replace(still, method=method))
    own = signs.convolutions(after.model if method == "cnn" else after.conditional)
    assert len(own) == 4
    for a, b in zip(own, known, strict=True):
        torch.testing.assert_close(a.weight, b.weight)
        torch.testing.assert_close(a.bias, b.bias)


def test_a_sign_is_found_where_the_middle_of_a_window_is_in_its_box():
    truth = torch.tensor([[0.0, 0.0, 0.5, 0.5], [-0.5, -0.5, 0.0, 0.0]])
    windows = torch.tensor(
        [[[-1.0, -1.0, 1.0, 1.0], [-1.0, -1.0, 1.5, 1.5]], [[0.1, 0.1, 0.3, 0.3], [0.0, 0.0, 1.0, 1.0]]]
    )
    assert figure6.found(windows, truth) == 50.0
    assert figure6.found(windows[1:], truth) == 50.0
    assert figure6.found(windows[:1], truth) == 50.0  # the middle of the first lies on the corner of its box


def test_scenes_for_seconds_are_like_the_real_ones():
    data = signs.scene_set("glyphs", "train")
    assert isinstance(data, DataSet)
    assert data.x.shape[1:] == (3, signs.CANVAS, signs.CANVAS)
