"""What the experiments of the symmetry paper measure, on models whose answers are known."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from erlangen.data import PosedSet, coloured, sprites
from erlangen.data.sprites import SHAPES
from erlangen.papers.sgm import augmentation, choices, figure8, figure9
from erlangen.papers.sgm.choices import measured
from erlangen.papers.sgm.common import (
    COLOURS,
    Training,
    data_set,
    group_of,
    iterated,
    moved,
    ranges_of,
    spread,
    strip,
)
from erlangen.papers.sgm.figure12 import distances, law_samples
from erlangen.papers.sgm.figure16 import TRUE, ranges

from ..models.poses import blobs, centred


def test_the_spread_of_a_perfect_pose_is_nothing():
    model, x = centred(), blobs()
    h = moved(model, x, {"tx": (-0.25, 0.25), "ty": (-0.25, 0.25)}, 4)
    assert spread(model, x, h) < 1e-9
    assert spread(centred(wrong=2.0), x, h) > 0.05


def test_orbits_stay_within_their_ranges():
    model, x = centred(), blobs()
    v = model.group.element_log(moved(model, x, {"tx": (-0.1, 0.25)}, 50))
    assert -0.1 <= v[..., 0].min() < -0.08
    assert 0.2 < v[..., 0].max() <= 0.25
    assert v[..., 1].abs().max() < 1e-12


def test_prototypes_of_prototypes():
    model, x = centred(), torch.roll(blobs(), (2, 3), (-2, -1))
    norms, chain = iterated(model, x, 3)
    assert chain.shape == (4, *x.shape)
    torch.testing.assert_close(chain[1], model.prototype(x))
    assert norms[1] < 1e-9 * norms[0] + 1e-12
    torch.testing.assert_close(chain[3], chain[1])  # one warp each: nothing blurs
    wrong, _ = iterated(centred(wrong=1.0), x, 3)
    assert wrong[1] > 0.01 * wrong[0]


def test_strips_are_side_by_side():
    x = torch.rand(3, 1, 4, 5)
    found = strip(x)
    assert found.shape == (1, 4, 15)
    assert np.array_equal(found[0, :, 5:10], (x[1, 0] * 255).round().to(torch.uint8).numpy())


@pytest.mark.parametrize("names", [("angle",), ("tx", "ty", "angle", "sx", "sy"), ("hue", "value")])
def test_groups_have_the_coordinates_that_are_named(names):
    config = Training(names=names)
    group = group_of(config)
    assert group.names == names
    assert set(ranges_of(config)) == set(names)
    low, high = group.bounds
    for name, (a, b) in ranges_of(config).items():
        k = names.index(name)
        assert low[k] <= a + 1e-6
        assert high[k] >= b - 1e-6


def test_training_sets_are_cut_and_digits_chosen():
    config = Training(data="drawn", which=(2, 8), added=30.0, inputs=20)
    data = data_set(config, "train")
    assert len(data) == 20
    assert isinstance(data, PosedSet)
    assert data.angle.abs().max() <= math.radians(30)
    assert set(data.y.tolist()) <= {0, 1}


def test_a_model_of_the_labelled_images_sees_these_alone(monkeypatch):
    monkeypatch.setattr(augmentation, "fit", lambda objective, loader, how: None)
    monkeypatch.setattr(augmentation, "build", lambda *args: SimpleNamespace(averaged=None))
    seen = []
    monkeypatch.setattr(augmentation, "TensorLoader", lambda x, y, **kwargs: seen.append((x, y)))
    config = replace(augmentation.SMOKE, seed=3)
    augmentation.classifier(config, "none", 32)
    own = data_set(augmentation.symmetry_of(config, 32, "sgm-own"), "train")
    ((x, y),) = seen
    assert torch.equal(own.x, x)
    assert sorted(y.bincount(minlength=10).tolist()) == [3] * 8 + [4] * 2


def test_averaging_in_prediction_needs_no_other_classifier(monkeypatch):
    made = []
    monkeypatch.setattr(augmentation, "classifier", lambda config, method, labels: made.append(method) or method)
    monkeypatch.setattr(augmentation, "accuracy", lambda classifier, data, views: 1.0 + views)
    rows = augmentation.run(augmentation.SMOKE)
    assert made == [method for method in augmentation.METHODS if method != "sgm-averaged"]
    found = {row["method"]: row["accuracy"] for row in rows}
    assert (found["sgm"], found["sgm-averaged"], found["none"], found["flow"]) == (1, 2, 1, 2)


def test_natural_variations_are_of_the_scale_of_their_symmetry_model(monkeypatch):
    monkeypatch.setattr(augmentation, "classifier", lambda *args: None)
    monkeypatch.setattr(augmentation, "accuracy", lambda *args: 1.0)
    models = replace(figure8.SMOKE, digits=replace(figure8.SMOKE.digits, steps=(60_000, 2), batch=128))
    rows = augmentation.run(replace(augmentation.SMOKE, models=models))
    found = {row["method"]: row["scale"] for row in rows}
    assert found == dict.fromkeys(augmentation.METHODS, 1.0) | {
        **{"sgm": 0.05, "sgm-averaged": 0.05},
        "sgm-own": 0.013,  # in batches of its 32 labelled images
    }


def test_choices_can_be_made_one_by_one(monkeypatch):
    monkeypatch.setattr(choices, "trained", lambda *args: (None, {}))
    monkeypatch.setattr(choices, "measured", lambda *args: {"turns": np.ones(72), "invalid": 1.0})
    rows = choices.run(replace(choices.SMOKE, methods=("blind", "none")))
    assert [row["method"] for row in rows] == ["blind", "none"]
    titles = [panel.get_title() for panel in choices.show(rows).axes]
    assert [bool(title) for title in titles] == [method in ("blind", "none") for _, method in choices.RUNS]


def test_distances_from_the_laws():
    data = sprites(3000, size=8)
    found = distances(data.factors, data.y)
    assert max(found.values()) < 3
    off = data.factors.clone()
    off[data.y == SHAPES.index("square"), 2] += 0.2
    moved_away = distances(off, data.y)
    assert moved_away["square", "x"] == pytest.approx(20, abs=3)
    assert moved_away["heart", "x"] == found["heart", "x"]
    assert law_samples("heart", "y", 10).gt(0.5).sum() == 5


class Known:
    """A model whose variations have the hues and saturations of the set."""

    def __init__(self, wide=1.0):
        self.group, self.wide = group_of(COLOURS), wide

    def signal(self, x):
        return x

    def resample(self, x, n, generator):
        from erlangen.data import DataSet

        grey = DataSet(x[:, :1].contiguous(), torch.zeros(len(x)).long(), ("a",), "grey")
        hue = (0.0, self.wide * TRUE["hue"])
        return torch.stack([coloured(grey, hue=hue, seed=k).x for k in range(n)])


def test_ranges_of_colours_are_read_off():
    x = torch.rand(5, 3, 4, 4)
    found = ranges(Known(), x, 300, 0)
    assert found["hue_range"] == pytest.approx(1, abs=0.05)
    assert found["saturation_range"] == pytest.approx(1, abs=0.05)
    assert ranges(Known(0.5), x, 300, 0)["hue_range"] == pytest.approx(0.5, abs=0.03)


def test_samples_that_turn_a_digit_too_far_are_invalid():
    class Even:
        """Every pose is the true angle; every sample is even on the circle."""

        group = group_of(Training(names=("angle",)))

        def signal(self, x):
            return x

        def pose(self, x):
            return type("Q", (), {"median": angle[:, None]})

        def density(self, x):
            even = (torch.rand(4000, len(x), 1) * 2 - 1) * math.pi
            return type("Q", (), {"sample": lambda self, shape, generator: even})()

        def log_prob(self, x):
            return torch.full((len(x),), -math.log(2 * math.pi))

    angle = torch.linspace(-0.5, 0.5, 6)
    data = PosedSet(torch.rand(6, 1, 4, 4), torch.zeros(6).long(), ("2",), "d", angle)
    found = measured(Even(), data, 2, 4000, 0)
    assert found["invalid"] == pytest.approx(100 * (1 - 70 / 360), abs=2)
    assert measured(Even(), data, 8, 4000, 0)["invalid"] == pytest.approx(100 * (1 - 70 / 180), abs=2)
    assert found["half_range"] == pytest.approx(0.98 * 180, abs=2)
    assert found["nll"] == pytest.approx(math.log(2 * math.pi))


def test_autoencoders_are_compared_within_a_seed():
    def row(method, rotation, size, iwlb, seed=0):
        place = {"method": method, "rotation": rotation, "train_size": size, "seed": seed}
        return {**place, "iwlb": iwlb, "iwlb_pixels": iwlb / 2}

    rows = [row("vae", 0, 100, 50.0), row("vae", 180, 100, 40.0), row("vae", 180, 50, 30.0)]
    rows += [row("augvae", 180, 100, 100.0), row("augvae", 180, 100, 999.0, seed=1)]
    first, turned, half, ahead, alone = figure9.compare(rows)
    assert (turned["halved"], turned["turned"]) == (pytest.approx(25), pytest.approx(20))
    assert (ahead["ahead"], ahead["ahead_pixels"]) == (60, 30)
    assert first["turned"] == 0
    assert {"ahead", "halved", "turned"}.isdisjoint({**half, **alone})


def test_a_run_without_rows_is_refused():
    experiment = figure8.EXPERIMENT
    with pytest.raises(ValueError, match="methods: received those of no row of sgm/figure8"):
        experiment.run(experiment.config(smoke=True, datasets=("colour",), methods=("plain",)))


def test_each_autoencoder_is_stored_when_it_is_done():
    parts = figure9.EXPERIMENT.parts(figure9.FULL)
    assert len(parts) == 27
    assert all(len(part.datasets) == len(part.rotations) == len(part.methods) == 1 for part in parts)
