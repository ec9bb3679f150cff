"""What an audit measures agrees with the metrics, and it finds what is known to be there."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from erlangen.audit import LADDERS, Ladder, Preprocess, Settings, assert_invariant, audit, read_audit
from erlangen.audit.findings import blindness
from erlangen.audit.ladder import Blur, Each, ladders_of
from erlangen.data import DataSet
from erlangen.metrics import (
    Bootstrap,
    Orbit,
    Saliency,
    consistency,
    distribution_invariance,
    ece,
    logit_invariance,
    saliency_similarity,
    scores,
    there_and_back,
)
from erlangen.transforms import Affine

from .cases import Blob, Halves, halves

FEW = Settings(saliency=0, bootstrap=Bootstrap(resamples=50))


def test_every_value_is_that_of_its_metric():
    (x, y), model = halves(channels=3), Halves()
    found = audit(model, (x, y), {"rotation": [30], "hue": [90]}, settings=Settings(saliency=6, steps=4))
    angle = math.radians(30)
    orbit = Orbit(Affine("angle"), Each(torch.tensor([[angle], [-angle]])), samples=2)
    step = found.steps[0]
    for name, metric in (("li", logit_invariance), ("di", distribution_invariance), ("consistency", consistency)):
        for values, which in ((step.values, orbit), (step.null, there_and_back(orbit))):
            expected = metric(model, x, which, y=y)
            assert values[name].mean == pytest.approx(float(expected.mean))
            assert [values[name].low, values[name].high] == pytest.approx(expected.interval.tolist())
        expected = metric(model, x, orbit, y=y)
        assert step.values[name].classes == pytest.approx(expected.classes.tolist())
        assert step.values[name].inputs == pytest.approx(expected.inputs.tolist(), rel=1e-5)
    seen = torch.tensor(found.data["seen"])
    assert y[seen].bincount().tolist() == [2, 2, 2]
    similar = saliency_similarity(model, x[seen], orbit, saliency=Saliency(steps=4))
    assert step.values["si"].mean == pytest.approx(float(similar.mean))
    moved = orbit.act(orbit.elements(x), x).flatten(0, 1)
    log_probs = model(moved).detach().log_softmax(-1)
    assert step.values["accuracy"].mean == pytest.approx(float((log_probs.argmax(-1) == y.repeat(2)).double().mean()))
    assert step.values["ece"].mean == pytest.approx(float(ece(log_probs, y.repeat(2))))
    parts = [float(ece(log_probs[y.repeat(2) == k], y[y == k].repeat(2))) for k in range(3)]
    assert step.values["ece"].classes == pytest.approx(parts)
    alone = scores(model, x, orbit, y=y).ece
    assert [step.values["ece"].low, step.values["ece"].high] == pytest.approx(alone.interval.tolist())
    assert step.values["ece"].inputs is None  # it has no values of inputs for the gate to compare
    assert found.steps[1].values["consistency"].mean == 1  # the model does not see colours


def test_both_directions_are_measured_and_meet_at_half_a_turn():
    steps, notes = ladders_of(None, torch.rand(1, 3, 4, 4))
    count = {(step.transform, step.label): step.orbit.samples for step in steps if step.transform != "flip"}
    assert count["rotation", "90°"] == 2
    assert count["rotation", "180°"] == count["hue", "180°"] == 1
    assert count["translation", "25 % of the side"] == 4
    assert notes == []
    assert {step.transform for step in steps} == set(LADDERS)


def test_strengths_are_what_they_say():
    x = torch.zeros(1, 1, 16, 16)
    x[..., 4:8, 8:12] = 1.0
    steps, _ = ladders_of({"rotation": [90], "translation": [0.125], "flip": None, "scale": [2]}, x)
    turn, shift, flip, scale = (step.orbit.act(step.orbit.elements(x), x)[:, 0] for step in steps)
    torch.testing.assert_close(turn, torch.stack((x[0].rot90(1, (1, 2)), x[0].rot90(-1, (1, 2)))))
    torch.testing.assert_close(shift[0], x[0].roll(2, -1))
    torch.testing.assert_close(shift[3], x[0].roll(-2, -2))
    assert torch.equal(flip[0], x[0].flip(-1))
    assert scale.sum((1, 2, 3)) == pytest.approx([4 * 16, 16 / 4], rel=0.1)


def test_blur_keeps_the_mean_and_lowers_detail():
    x = torch.rand(2, 3, 9, 7)
    blur = Blur()
    none, some = blur(x, torch.tensor([[[0.0], [0.0]], [[1.0], [2.0]]]))
    torch.testing.assert_close(none, x)
    flat = torch.full_like(x, 0.3)
    torch.testing.assert_close(blur(flat, torch.ones(2, 1)), flat)
    assert some[1].var() < some[0].var() < x.var()
    torch.testing.assert_close(blur(x.mT, torch.ones(2, 1)), blur(x, torch.ones(2, 1)).mT)


@pytest.mark.parametrize("size", [(9, 7), (1, 5), (2, 1)])
def test_blur_is_a_convolution_with_the_border_repeated(size):
    x, sigma = torch.rand(1, 1, *size), torch.tensor([[1.2]])
    kernel = (-torch.arange(-4.0, 5).square() / (2 * 1.2**2)).softmax(-1)
    padded = nn.functional.pad(x, (4, 4, 4, 4), "replicate")
    torch.testing.assert_close(Blur()(x, sigma), nn.functional.conv2d(padded, kernel.outer(kernel)[None, None]))


def test_blur_takes_no_more_memory_than_the_images(largest):
    x = torch.rand(2, 3, 64, 64)
    with largest:
        Blur()(x, torch.full((2, 1), 8.0))
    assert largest.most <= x.numel()


def test_a_model_that_is_invariant_is_found_so():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

    def model(x):
        return sum(net(x.rot90(k, (-2, -1))) for k in range(4))

    found = audit(model, (torch.rand(12, 1, 8, 8), torch.arange(12) % 3), {"rotation": [90, 180]}, settings=FEW)
    for step in found.steps:
        assert step.values["consistency"].mean == 1
        assert step.values["li"].mean < 1e-20
    assert "rotation" in found.summary["What holds"]
    assert "What breaks" not in found.summary


def test_classes_that_turn_into_each_other_are_found():
    """Above and below change places when turned by 180°; nothing else of the ladder does it."""
    found = audit(Halves(), halves(60), ["rotation", "flip", "blur"], settings=FEW)
    assert found.plain["accuracy"].mean == 1
    (pair,) = found.pairs
    assert (pair.first, pair.second, pair.transform, pair.label) == (0, 1, "rotation", "180°")
    assert (pair.there, pair.back) == (1, 1)
    assert "0 and 1 turn into each other under rotation (180°)" in found.summary["What turns into what"]
    assert "flip and blur" in found.summary["What holds"]


def test_the_worst_inputs_are_those_that_move():
    """One image is nearly undecided, so a mild turn changes it."""
    x, y = halves(12, size=16)
    x = torch.where(x > 0.5, 0.8, 0.0)
    x[0, :, 10:, :3] = 0.8
    found = audit(Halves(), (x, y), ["translation"], settings=Settings(saliency=2, steps=2))
    best = found.worst[0]
    assert best.moved == max(one.moved for one in found.worst)
    assert found.steps[best.step].label == "6.25 % of the side"
    assert len({one.index for one in found.worst}) == len(found.worst) == len(found.pictures) == 10
    picture = found.pictures[0]
    assert torch.equal(picture.before, x[best.index])
    assert not torch.equal(picture.after, picture.before)
    assert picture.looks[0].shape == (1, 16, 16)


def test_every_transformation_has_its_worst_inputs():
    found = audit(Halves(), halves(30), {"translation": [0.1, 0.2], "rotation": [20], "blur": [1]}, settings=FEW)
    count = [sum(one.step == k for one in found.worst) for k in range(4)]
    assert count == [4, 0, 3, 3]  # the mildest of each, in turn
    assert len({one.index for one in found.worst}) == 10
    assert len(audit(Halves(), halves(3), ["flip", "blur"], settings=FEW).worst) == 3


def test_blindness():
    x, y = halves(30)
    sees = audit(Halves(), (x, y), {"flip": None}, settings=FEW)
    assert sees.blindness.blind is False
    assert sees.blindness.information <= sees.blindness.labels == pytest.approx(math.log(3))
    assert "Invariant by blindness" not in sees.summary
    for model in (lambda x: x.new_ones(len(x), 3) * torch.arange(3.0), Halves(scale=0.01), Blob()):
        blind = audit(model, (x, y), {"flip": None}, settings=FEW)
        assert blind.blindness.blind
        assert "hardly reacts to anything" in blind.summary["Invariant by blindness"]


def test_information_in_closed_form():
    y = torch.arange(8) % 4
    sure = blindness(100 * nn.functional.one_hot(y).double(), y, None)
    assert sure.information == pytest.approx(math.log(4))
    assert blindness(torch.zeros(8, 4), y, None).information == 0
    logits = torch.randn(50, 4)
    every = (logits[:, None] - logits).square().sum(-1) / 2
    spread = blindness(logits, torch.arange(50) % 4, None).spread
    assert spread == pytest.approx(float(every.sum()) / (50 * 49))
    assert blindness(logits, torch.zeros(50, dtype=torch.long), None).blind is None


def test_it_is_the_same_every_time_and_comes_back_from_its_file(tmp_path):
    model, data = Halves(), halves()
    one, two = (audit(model, data, ["rotation"], settings=FEW).record() for _ in range(2))
    for record in (one, two):
        record.pop("provenance")
    assert one == two
    found = audit(model, data, ["rotation"], settings=FEW)
    paths = found.save(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["audit.json", "report.html"]
    assert read_audit(paths[0]) == read_audit(tmp_path / "new" / "folder") == json.loads(paths[0].read_text())
    assert read_audit(paths[0])["steps"] == found.record()["steps"]


def test_progress_and_the_choice_of_images():
    told = []
    x, y = halves(30)
    found = audit(
        Halves(), (x, y), ["flip"], settings=Settings(images=9, saliency=0), progress=lambda *words: told.append(words)
    )
    assert (found.data["count"], found.data["of"]) == (9, 30)
    assert "Measured on 9 of 30 images" in found.notes[0]
    assert told[0] == (0.0, "reading")
    assert told[-1][0] == 1.0
    assert [share for share, _ in told] == sorted(share for share, _ in told)


def test_bytes_are_images_in_the_unit_interval():
    x, y = halves()
    data = DataSet((x * 255).round().to(torch.uint8), y, ("above", "below", "both"), "halves")
    found = audit(Halves(), data, ["flip"], preprocess=Preprocess(mean=(0.0,), std=(1.0,)), settings=FEW)
    assert found.plain["accuracy"].mean == 1
    assert found.data["classes"] == ["above", "below", "both"]


def test_arrays_and_lists_of_labels_are_as_good_as_tensors():
    x, y = halves()
    one = audit(Halves(), (x, y), ["flip"], settings=FEW)
    for data in ((x.numpy(), y.numpy()), (x, y.tolist()), [x.numpy(), tuple(y.numpy())]):
        other = audit(Halves(), data, ["flip"], settings=FEW)
        assert one.data == other.data
        assert one.steps == other.steps


def test_of_a_file_with_parts_the_test_part_is_measured_whatever_its_suffix(tmp_path):
    x, y = (part.numpy() for part in halves(24))
    np.savez(tmp_path / "own.npz", x_train=x[:3], y_train=y[:3], x_test=x, y_test=y)
    (tmp_path / "own.npz").rename(tmp_path / "own.NPZ")
    assert audit(Halves(), tmp_path / "own.NPZ", ["flip"], settings=FEW).data["count"] == 24


def test_a_path_may_have_the_name_of_a_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("0", "1", "2"):
        (tmp_path / "mnist" / name).mkdir(parents=True)
        Image.new("L", (12, 12)).save(tmp_path / "mnist" / name / "a.png")
    assert audit(Halves(), Path("mnist"), ["flip"], settings=FEW).data["count"] == 3


def test_levels_may_be_rounded():
    x, y = halves()
    x[0, 0, 0, :2] = torch.tensor([1 + 5e-4, -5e-4])
    assert audit(Halves(), (x, y), ["flip"], settings=FEW).data["count"] == 24
    x = x.expand(-1, 3, -1, -1)
    assert audit(Halves(), (x, y), ["hue"], settings=FEW).data["count"] == 24  # colours take no level beyond


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (lambda x, y: (x - 0.5, y), r"images from -0\.5 to .*before any normalisation, which belongs into preprocess"),
        (lambda x, y: (x * math.nan, y), "images from nan to nan"),
        (lambda x, y: (x, y + 1), "labels up to 3; accepted are 0 to 2, for the model has 3 outputs"),
        (lambda x, y: (x, y - 1), "accepted are whole numbers"),
        (lambda x, y: (x, y.double()), "accepted are whole numbers"),
        (lambda x, y: (x, y[:4]), "one int64 label for each of 24"),
        (lambda x, y: (list(x), y), "all of one size"),
        (lambda x, y: (x[:, 0], y), "received series"),
        (lambda x, y: (x.movedim(1, -1), y), r"images \(24, 12, 12, 1\), whose channels come last; accepted .*movedim"),
        (lambda x, y: (x.expand(-1, 3, -1, -1).movedim(1, -1), y), "whose channels come last"),
        (lambda x, y: "nowhere", "accepted is a named set"),
        (lambda x, y: (x, ["cat"] * 24), "received tuple of Tensor, list; accepted is a DataSet, a pair"),
        (lambda x, y: (x, y, y), "received tuple of Tensor, Tensor, Tensor;"),
        (lambda x, y: (x, []), "received the labels a .* of shape .0,."),
        (lambda x, y: 3, "received int; accepted is a DataSet"),
    ],
)
def test_bad_data_is_a_sentence(data, words):
    with pytest.raises(ValueError, match=words):
        audit(Halves(), data(*halves()), ["flip"], settings=FEW)


@pytest.mark.parametrize(
    ("transforms", "words"),
    [
        (["spin"], "received 'spin'; accepted are rotation, translation"),
        ("rotation", "accepted are names in a list"),
        ({"rotation": [-3]}, "accepted are finite numbers > 0"),
        ({"rotation": []}, "accepted are finite numbers > 0"),
        ({"shear": [0.1, 50]}, r"transforms\['shear'\]: received 50; accepted are strengths from 0 to 3$"),
        ({"scale": [1e30]}, r"transforms\['scale'\]: received 1e\+30; accepted are strengths from 0.05 to 20$"),
        ({"scale": [2, 1e-9]}, "received 1e-09; accepted are strengths from 0.05 to 20$"),
        (
            {"translation": [0.0625, 0.062501]},
            r"received 0\.0625 and 0\.062501, which both are '6\.25 % of the side' in",
        ),
        (
            {"turn": Ladder(Blur, (1, 2), lambda s: [[s]], lambda s: "much")},
            r"transforms\['turn'\]: received 1\.0 and 2",
        ),
        (["hue", "saturation"], "none applies"),
    ],
)
def test_bad_transforms_are_a_sentence(transforms, words):
    with pytest.raises(ValueError, match=words):
        audit(Halves(), halves(), transforms, settings=FEW)


@pytest.mark.parametrize("options", [{"images": 0}, {"saliency": -1}, {"steps": 1.5}, {"batch_size": 0}])
def test_bad_settings_are_a_sentence(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}: received"):
        Settings(**options)


def test_the_model_sees_no_more_images_at_a_time_than_it_may():
    class Counting(Halves):
        most = 0

        def forward(self, x):
            self.most = max(self.most, len(x))
            return super().forward(x)

    many, few = (Settings(saliency=5, steps=2, batch_size=size) for size in (256, 3))
    model, data = Counting(), halves()
    found = audit(model, data, {"rotation": [15]}, settings=few)
    assert model.most == 3
    whole = audit(model, data, {"rotation": [15]}, settings=many)
    assert model.most > 3
    assert found.blindness.sensitivity == pytest.approx(whole.blindness.sensitivity)
    for one, other in zip(found.pictures, whole.pictures, strict=True):
        torch.testing.assert_close(one.looks, other.looks)


def test_what_leaves_nothing_of_the_image_is_said():
    found = audit(Halves(), halves(), {"translation": [0.1, 3.0]}, settings=FEW)
    assert [step.lost for step in found.steps] == [0, 4 * 24]
    assert "translation of 300 % of the side leaves nothing of 96 of 96 copies." in found.notes


def test_one_class_and_grey_images_are_said():
    x, _ = halves()
    found = audit(Halves(), (x, torch.full((24,), 1)), ["flip", "hue"], settings=FEW)
    assert "All images are of one class, 1: accuracy and calibration say little, blindness nothing." in found.notes
    assert "Not measured, since the images have no colours: hue." in found.notes
    assert found.blindness.blind is None
    assert not math.isnan(found.plain["accuracy"].mean)


def test_nan_that_only_a_copy_brings_is_a_sentence():
    def model(x):
        return torch.stack((x.mean((1, 2, 3)), x[:, 0, 0, 0].log()), 1)  # a black corner has no logarithm

    with pytest.raises(ValueError, match="NaN or infinite logits"):
        audit(model, (0.1 + 0.8 * torch.rand(6, 1, 8, 8), torch.arange(6) % 2), ["rotation"], settings=FEW)


def test_a_model_below_chance_is_asked_about_its_order():
    x, y = halves(60)
    found = audit(Halves(), (x, (y + 1) % 3), ["flip"], settings=FEW)
    assert any("below chance" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not a JSON file"), ("[" * 10**5, "not a JSON file"),
     ("[]", "something else"), ('{"kind": "audit", "format": 0}', "format 0"),
     ('{"kind": "audit", "format": 1}', "damaged"),
     ('{"kind": "audit", "format": 1, "data": {"digest": 1, "count": 1, "seen": []}, "steps": [{}]}', "damaged")],
)  # fmt: skip
def test_a_file_that_is_no_audit(tmp_path, text, words):
    (tmp_path / "audit.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_audit(tmp_path / "audit.json")
    with pytest.raises(ValueError, match="holds no audit"):
        read_audit(tmp_path / "nothing.json")


class Dice(nn.Module):
    """Answers at random, whatever it is shown."""

    def forward(self, x):
        return torch.randn(len(x), 4)


def test_a_model_that_answers_at_random_is_not_found_invariant():
    """Of 600 copies a quarter agree by chance; a share beyond 0.33 has a probability below 1e-4 (binomial)."""
    data = torch.rand(600, 1, 6, 6), torch.arange(600) % 4
    with pytest.raises(AssertionError, match="consistency of Dice should be at least"):
        assert_invariant(Dice(), data, "flip", at_least=0.99, settings=FEW)
    found = audit(Dice(), data, {"flip": None, "rotation": [15, 30]}, settings=FEW)
    for step in found.steps:
        assert 0.17 < step.values["consistency"].mean < 0.33
        assert not step.null or 0.17 < step.null["consistency"].mean < 0.33
    means = [step.values["di"].mean for step in found.steps]
    assert len(set(means)) == len(means)  # no two steps have the same noise either
    assert any(note.startswith("Answers of the model are random") for note in found.notes)
    again = audit(Dice(), data, {"flip": None, "rotation": [15, 30]}, settings=FEW)
    assert [step.values for step in again.steps] == [step.values for step in found.steps]
    assert not any("random" in note for note in audit(Halves(), halves(), ["flip"], settings=FEW).notes)
