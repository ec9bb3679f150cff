"""Runs from Python: settings, methods, folders, and what comes back from them."""

import hashlib
import html
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from erlangen.data import DataSet, glyphs
from erlangen.distributions import GlobalUniform, MeanFieldUniform, RealNVP
from erlangen.estimators import RunConfig, build_transform, fit_run, load_run, prepare, resolve_ranges
from erlangen.estimators.reporting import half_ranges, measure
from erlangen.estimators.setting import build_model
from erlangen.estimators.sources import describe_data, digest
from erlangen.estimators.training import train_run, training_config
from erlangen.models import Normalise
from erlangen.objectives import METHODS, HandMade, Plain, Terms
from erlangen.report import run as report
from erlangen.report.run_figures import accuracy_figure
from erlangen.transforms import HSV, Affine, Crop, Group

TINY = {"steps": 2, "batch_size": 8, "samples": 2, "eval_samples": 2, "device": "cpu", "log_every": 1}


@pytest.fixture(scope="module")
def data():
    return glyphs(24, seed=5, size=16)


@pytest.mark.parametrize(
    ("wanted", "names", "periodic", "factored"),
    [
        (("angle",), ("angle",), (True,), False),
        (("tx", "ty", "angle"), ("tx", "ty", "angle"), (False, False, True), True),
        ({"angle": 1.0, "tx": 0.2}, ("angle", "tx"), (False, False), False),
        (("angle", "scale"), ("angle", "scale"), (True, False), False),
        ({"tx": None, "angle": (0, 2 * math.pi)}, ("tx", "angle"), (False, True), True),
        ({"tx": None, "angle": 3.1416}, ("tx", "angle"), (False, True), True),
    ],
)
def test_an_angle_is_periodic_when_it_spans_the_turn(wanted, names, periodic, factored):
    transform = build_transform(wanted)
    assert isinstance(transform, Affine)
    assert (transform.names, transform.periodic, transform.factored) == (names, periodic, factored)


def test_crops_and_colours():
    assert isinstance(build_transform(("crop",)), Crop)
    both = build_transform(("angle", "hue"))
    assert (both.names, both.periodic) == (("angle", "hue"), (True, True))
    assert isinstance(both, Group)
    assert build_transform(("hsv", "affine")).names[:3] == ("tx", "ty", "angle")
    assert resolve_ranges({"crop": 0.5, "hue": None}) == {"crop": 0.5, "hue": (-0.5, 0.5)}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("rotate",), "received 'rotate'; accepted are tx, ty, angle"),
        ((), "received no names"),
        (("tx", "tx"), "'tx' more than once"),
        (("affine", "tx"), "'tx' more than once"),
        ({"affine": 1.0}, "a range for 'affine'"),
        ({"crop": 2.0}, "smallest size, between 0 and 1"),
        ({"angle": (1.0, 2.0)}, "holds 0"),
        ({"angle": 7.0}, r"at most one turn, such as angle from -3\.142 to 3\.142 \(-180° to 180°\)$"),
        ({"tx": 0.0}, "low < high"),
        ({"tx": -0.2}, "transform: received tx from 0.2 to -0.2"),
        ({"tx": "far"}, "transform: received tx with 'far'"),
        ({"tx": (0.0, 1.0, 2.0)}, "transform: received tx with"),
        (("scale", "sx"), "either scale and stretch"),
        ({"scale": 100.0}, "transform: received scale from -100 to 100; accepted is a range within ±3$"),
        ({"shear": (-4.0, 0.5)}, "transform: received shear from -4 to 0.5; accepted is a range within ±3$"),
        ({"ty": 2.5}, "within ±2$"),
        ({"saturation": 7.0}, "within ±6$"),
        ({"warp": 50.0}, "received warp with 50.0; accepted is its greatest velocity, a number > 0, at most 2$"),
    ],
)
def test_a_bad_transform_is_named(wanted, words):
    with pytest.raises(ValueError, match=words):
        resolve_ranges(wanted)


def test_the_widest_ranges_have_an_inverse_in_single_precision():
    transform = build_transform(dict.fromkeys(("scale", "stretch", "shear"), 3.0))
    corners = torch.cartesian_prod(*transform.bounds.T).float()[:, None]
    found = transform.inverse(transform.element(corners))
    assert found.dtype == torch.float32
    exact = transform.element(-corners.double())
    assert ((found - exact).abs() / exact.abs().amax((-1, -2), keepdim=True)).max() < 1e-3


@pytest.mark.parametrize("wanted", [Affine("angle"), None, 3])
def test_a_transform_is_given_by_names(wanted):
    accepted = "accepted are names of coordinates, or a dict of names with their ranges"
    with pytest.raises(ValueError, match=f"transform: received {type(wanted).__name__} .*; {accepted}"):
        resolve_ranges(wanted)


def test_names_may_have_commas_between_them():
    assert resolve_ranges("tx, angle") == resolve_ranges(("tx", "angle"))
    with pytest.raises(ValueError, match="transform: received 'sheer'; accepted are tx"):
        resolve_ranges("tx,sheer")


def test_ranges_survive_json():
    ranges = resolve_ranges(("tx", "angle", "crop", "hue"))
    assert resolve_ranges(json.loads(json.dumps(ranges))) == ranges


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_comes_back(method, data, tmp_path):
    transform = {"instaaug": ("crop",), "augerino": ("angle", "hue")}.get(method, ("tx", "ty", "angle"))
    setting = prepare(RunConfig(method=method, transform=transform, **TINY), data)
    run = train_run(setting, tmp_path / "run")
    back = load_run(tmp_path / "run")
    assert back.config == run.config
    assert back.classes == data.classes
    torch.testing.assert_close(back.log_probs(data.x), run.log_probs(data.x), rtol=0, atol=0)
    torch.testing.assert_close(back.predict(data.x), back.log_probs(data.x).argmax(-1))
    alone = back.model.classify(data.x.double() / 255).log_softmax(-1)
    assert torch.allclose(back.log_probs(data.x), alone) != METHODS[method].averages


@pytest.mark.parametrize(("precision", "kind"), [("64-true", torch.float64), ("32-true", torch.float32)])
def test_a_run_comes_back_in_its_precision(precision, kind, data, tmp_path):
    torch.set_default_dtype(torch.float32)
    run = train_run(prepare(RunConfig(precision=precision, **TINY), data), tmp_path / "run")
    torch.set_default_dtype(torch.float64 if kind == torch.float32 else torch.float32)
    back = load_run(tmp_path / "run").log_probs(data.x)
    assert back.dtype == kind
    assert back.equal(run.log_probs(data.x))


def test_convolutions_are_laid_out_with_channels_last(data, tmp_path):
    """Which is what makes them fast on a CPU, in training and in a run that is loaded."""
    run = train_run(prepare(RunConfig(net="embedding", **TINY), data), tmp_path / "run")
    for model in (run.model, load_run(tmp_path / "run").model):
        weights = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d) and min(m.weight.shape) > 1]
        assert weights
        assert all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)


@pytest.mark.parametrize(
    ("method", "family"),
    [
        ("flow", RealNVP),
        ("flow-code", RealNVP),
        ("augerino", GlobalUniform),
        ("instaaug", MeanFieldUniform),
        ("affine", GlobalUniform),
    ],
)
def test_a_method_is_a_choice(method, family, data):
    setting = prepare(RunConfig(method=method, **TINY), data)
    transform = build_transform(setting.config.transform)
    assert type(METHODS[method].conditional(transform, 3)) is family


@pytest.mark.parametrize(("decides", "least", "most"), [(False, 170, 180), (True, 10, 54)])
def test_one_range_for_all_is_that_of_the_data(decides, least, most, tmp_path):
    """Bars of any hue, across or down; or red and cyan ones, each within 36 degrees, of which at most 54 are left."""
    source = torch.Generator().manual_seed(0)
    y, hue = torch.arange(64) % 2, torch.rand(64, generator=source) - 0.5
    bar = torch.tensor([0.9, 0.2, 0.2]).view(3, 1, 1).expand(3, 2, 8)
    x = torch.zeros(64, 3, 8, 8)
    x[:, :, 3:5] = bar
    if decides:
        hue = (hue / 5 + y / 2 + 0.5) % 1 - 0.5
    else:
        x[y == 1] = x[y == 1].mT.clone()
    bars = DataSet((255 * HSV("hue")(x, hue[None, :, None])[0]).byte(), y, ("a", "b"), "bars")
    config = RunConfig(method="augerino", transform="hue", net="mlp", **TINY | {"steps": 120, "lr": 6e-3})
    width = 360 * fit_run(config, bars, folder=tmp_path / "run").model.conditional.half_width.item()
    assert least <= width <= most


def test_ranges_for_all_weigh_alike_in_any_unit(data, tmp_path):
    """Of a norm in their own units a translation is nothing, beside an angle."""
    config = RunConfig(method="augerino", transform=("tx", "angle"), burn_in=0, **TINY | {"lr": 1e-9})
    fit_run(config, data, folder=tmp_path / "run")
    rows = [json.loads(row) for row in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [row["width"] for row in rows if row["kind"] == "train"] == pytest.approx([0.2, 0.2])


def test_the_published_code_averages_logits_of_near_views_and_of_the_image(data):
    setting = prepare(RunConfig(method="flow-code", **(TINY | {"samples": 3, "eval_samples": 4})), data)
    model = build_model(setting.config, setting.about)
    objective = METHODS["flow-code"].objective(model, Terms(0.1))
    x, y = data.x.double() / 255, data.y
    seen = model.train()(x)
    assert len(seen.views) == 3
    expected = torch.nn.functional.cross_entropy(seen.views.mean(0), y)
    torch.testing.assert_close(objective.cross_entropy(seen, y), expected)
    assert len(model.eval()(x).views) == 5


@pytest.mark.parametrize("wanted", [("tx", "angle"), ("crop",)])
def test_augmentation_by_hand_fills_the_bounds(wanted):
    transform = build_transform(wanted)
    q = METHODS["affine"].conditional(transform, 3)(torch.zeros(1, 1))
    torch.testing.assert_close(torch.cat((q.low, q.high)), transform.bounds)
    assert not any(p.requires_grad for p in METHODS["tta"].conditional(transform, 3).parameters())


def test_objectives_without_a_learned_distribution(data, tmp_path):
    run = train_run(prepare(RunConfig(method="tta", **TINY), data), tmp_path / "run")
    batch = (data.x, data.y)
    made, alone = HandMade(run.model), Plain(run.model)
    assert torch.equal(made.eval()(batch)["loss"], alone.eval()(batch)["loss"])
    assert "edge" in made.train()(batch)
    assert set(alone.train()(batch)) == {"loss", "accuracy"}
    assert set(made.parameter_groups()) == {"classifier"}


@pytest.mark.parametrize(("method", "share"), [("stn", 0.1), ("pstn", 0.1), ("flow", 1.0)])
def test_localisers_learn_more_slowly(method, share, tmp_path):
    how = training_config(RunConfig(method=method, steps=2, lr=0.02, device="cpu"), 1, tmp_path, False)
    assert how.groups.get("conditional", how.optimiser).lr == pytest.approx(share * 0.02)
    assert how.optimiser.lr == 0.02


def test_entropy_can_be_held(data):
    for method in ("flow", "instaaug"):
        setting = prepare(RunConfig(method=method, entropy=-1.0, **TINY), data)
        terms = Terms(setting.config.alpha, setting.config.entropy)
        objective = METHODS[method].objective(build_model(setting.config, setting.about), terms)
        assert "alpha" in objective((data.x, data.y))


def test_settings_are_completed_by_the_data(data):
    config = prepare(RunConfig(**TINY | {"steps": None}), data).config
    assert (config.net, config.steps, config.burn_in, config.alpha) == ("embedding", 800, 80, 0.3)
    config = prepare(RunConfig(method="none", epochs=2, **TINY | {"steps": None}), glyphs(12, size=32)).config
    assert (config.net, config.steps, config.epochs, config.burn_in, config.alpha) == ("lenet", None, 2, 0, None)
    assert tuple(config.transform) == ("tx", "ty", "angle")
    series = DataSet(torch.rand(8, 1, 32), torch.arange(8) % 2, ("a", "b"), "series")
    assert tuple(prepare(RunConfig(**TINY), series).config.transform) == ("warp",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "magic"}, "method: received 'magic'; accepted is one of flow, flow-code, augerino"),
        ({"net": "vgg"}, "net: received 'vgg'; accepted is one of lenet"),
        ({"net": "lenet"}, "size: received int 16; accepted is 28 or 32"),
        ({"alpha": -1.0}, "alpha: received -1.0"),
        ({"alpha": "a"}, "alpha: received 'a'; accepted is a finite weight >= 0"),
        ({"entropy": "a"}, "entropy: received 'a'"),
        ({"validation": "a"}, "validation: received 'a'; accepted is a share"),
        ({"unreadable": "x"}, "unreadable: received 'x'; accepted is 'raise' or 'skip'"),
        ({"burn_in": -1}, "burn_in: received -1; accepted is a number of steps >= 0"),
        ({"burn_in": 2.5}, "burn_in: received 2.5"),
        ({"burn_in": 2}, "burn_in: received 2 for a run of 2 steps; accepted is a number below that"),
        ({"burn_in": 7, "method": "none"}, "burn_in: received 7 for a run of 2 steps"),
        ({"burn_in": 6, "steps": None, "epochs": 2}, "burn_in: received 6 for a run of 6 steps"),
        ({"entropy": math.inf}, "entropy: received inf"),
        ({"entropy": 1.0}, "entropy: received 1 nats; accepted is less than 0.4516"),
        ({"entropy": -1.0, "method": "augerino"}, "entropy: received -1 for the method augerino"),
        ({"alpha": 0.0, "method": "tta"}, "alpha: received 0 for the method tta"),
        ({"seed": 2**32}, "seed: received 4294967296"),
        ({"validation": 1.0}, "validation: received 1.0"),
        ({"samples": 0}, "samples: received"),
        ({"compile": "no"}, "compile: received 'no'; accepted is True or False"),
        ({"epochs": 3}, "steps, epochs: received 2 and 3"),
    ],
)
def test_bad_settings_are_named(changes, words, data):
    with pytest.raises(ValueError, match=words):
        prepare(RunConfig(**TINY | changes), data)


def test_settings_that_are_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^config: received .*dict.*; accepted is a RunConfig"):
        fit_run({"method": "none"}, folder=tmp_path / "run")


def test_a_device_that_is_not_there_is_refused_before_data_are_read():
    with pytest.raises(ValueError, match="device: received 'tpu', which this machine does not have"):
        prepare(RunConfig(data="nowhere", device="tpu"))


def test_what_no_method_heeds_is_refused_before_data_are_read():
    with pytest.raises(ValueError, match="alpha: received 1 for the method none"):
        prepare(RunConfig(method="none", alpha=1.0, data="nowhere"))


def test_data_may_be_a_path(tmp_path):
    assert RunConfig(data=tmp_path).data == str(tmp_path)
    with pytest.raises(ValueError, match="data: received NoneType None; accepted is a path, or the name of a set"):
        RunConfig(data=None)


def test_what_is_no_data_set_is_named(data):
    config = RunConfig(transform=("angle",), **TINY)
    for name, parts in {"data": (data.x, None), "test": (data, (data.x, data.y))}.items():
        with pytest.raises(ValueError, match=f"{name}: received .*; accepted is a DataSet, or None"):
            prepare(config, *parts)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_images_in_half_precision(dtype, data):
    """All halves and ones, which lose nothing in it."""
    x = (data.x > 128) / 2 + 0.5
    setting, whole = (prepare(RunConfig(**TINY), replace(data, x=x.to(kind))) for kind in (dtype, torch.float32))
    assert setting.about["normalise"] == whole.about["normalise"]
    assert setting.about["digest"] != whole.about["digest"]


def test_the_digest_is_that_of_the_bytes():
    """By which runs that were begun before know their data."""
    x = torch.arange(6, dtype=torch.float32).view(2, 3)
    assert digest("a", x) == hashlib.sha256(b"'a'" + x.numpy().tobytes()).hexdigest()[:16]


def test_bad_data_are_named(data):
    config = RunConfig(transform=("angle",), **TINY)
    grey = DataSet(data.x[:, :1], data.y, data.classes, "grey")
    with pytest.raises(ValueError, match="hue for grey images"):
        prepare(RunConfig(transform=("hue",), **TINY), grey)
    with pytest.raises(ValueError, match=r"transform: received .* for series; accepted is transform='warp'"):
        prepare(config, DataSet(torch.rand(4, 1, 9), torch.arange(4) % 2, ("a", "b"), "series"))
    with pytest.raises(ValueError, match="transform: received warp for images"):
        prepare(RunConfig(**TINY | {"transform": ("warp",)}), data)
    bright = DataSet(data.x.float(), data.y, data.classes, "bright")
    for name, parts in {"data": (bright, None), "test": (data, bright)}.items():
        with pytest.raises(ValueError, match=f"{name}: received images from 0 to 248; accepted are images within"):
            prepare(config, *parts)
    with pytest.raises(ValueError, match="at least two classes"):
        prepare(config, data.subset(data.y == 0))
    with pytest.raises(ValueError, match="received images of 4×4 pixels"):
        prepare(config, DataSet(data.x[..., :4, :4], data.y, data.classes, "small"))
    with pytest.raises(ValueError, match="test: received classes that differ"):
        prepare(config, data, DataSet(data.x, data.y, ("a", "b", "c", "d"), "other"))
    with pytest.raises(ValueError, match=r"test: received images of 1×16×16; accepted .* 3×16×16"):
        prepare(config, data, grey)
    with pytest.raises(
        ValueError, match=r"test: received images of \['parrot'\]; accepted are classes that the training"
    ):
        prepare(config, data.subset(data.y > 0), data)


def test_a_run_from_python_with_a_test_set(data, tmp_path):
    told = []
    config = RunConfig(transform=("angle", "tx"), **TINY)
    run = fit_run(
        config, data, folder=tmp_path / "run", test=glyphs(8, seed=6, size=16), progress=lambda *a: told.append(a)
    )
    assert {"model.safetensors", "config.json", "log.jsonl", "checkpoint", "report.html"} == {
        path.name for path in (tmp_path / "run").iterdir()
    }
    rows = load_run(tmp_path / "run").record["results"]["accuracy"]
    assert [row["part"] for row in rows] == ["test", "validation", "training"]
    assert rows == run.record["results"]["accuracy"]
    page = (tmp_path / "run" / "report.html").read_text()
    for words in ("glyphs: flow", "Accuracy", "Learned distributions", "Ranges", "Views", "Training", "load_run("):
        assert words in page
    assert told[0][0] == 0


def test_the_code_of_a_report_loads_a_run_whatever_its_folder_is_called(data, tmp_path):
    folder = tmp_path / "a \"b\" 'c' \\ d"
    fit_run(RunConfig(method="none", **TINY), data, folder=folder)
    page = html.unescape((folder / "report.html").read_text())
    call = re.search(r"run = (load_run\(.+\))", page)[1]
    assert eval(call, {"load_run": load_run}).folder == folder


def test_a_report_knows_which_crop_changes_nothing(data, tmp_path):
    setting = prepare(RunConfig(method="augerino", transform=("crop", "tx"), **TINY), data)
    found = measure(train_run(setting, tmp_path / "run"), setting).coordinates
    assert {c.name: c.origin for c in found} == {"tx": 0, "cx": 0, "cy": 0, "width": 1, "height": 1}


def test_nothing_is_overwritten(data, tmp_path):
    config = RunConfig(method="none", **TINY)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds other files"):
        fit_run(config, data, folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    fit_run(config, data, folder=tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(FileExistsError, match="holds a run already"):
        fit_run(config, data, folder=tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    with pytest.raises(ValueError, match="other images or labels than the run began with"):
        fit_run(config, glyphs(24, seed=6, size=16), folder=tmp_path / "run", resume=True)
    longer = fit_run(RunConfig(method="none", **TINY | {"steps": 4}), data, folder=tmp_path / "run", resume=True)
    assert json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])["step"] == 4
    assert longer.config.steps == 4
    with pytest.raises(ValueError, match="holds no run"):
        fit_run(config, data, folder=tmp_path, resume=True)


def test_damaged_runs_are_named(data, tmp_path):
    folder = tmp_path / "run"
    train_run(prepare(RunConfig(method="none", **TINY), data), folder)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ValueError, match=r"model.safetensors: not readable"):
        load_run(folder)
    (folder / "model.safetensors").write_bytes(weights)
    record = json.loads((folder / "config.json").read_text())
    load_run(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="it was not finished"):
        load_run(folder)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="not a JSON file"):
        load_run(folder)
    (folder / "config.json").write_text('{"format": 99, "config": {}, "data": {}}')
    with pytest.raises(ValueError, match="received the format 99"):
        load_run(folder)
    (folder / "config.json").write_text('{"format": 2, "config": {}, "data": {}}')
    with pytest.raises(ValueError, match=r"config\.json: damaged, some of it is missing; put back a copy"):
        load_run(folder)
    for changes in ({"steps": "many"}, {"method": "magic"}, {"size": []}, {"bogus": 1}):
        damaged = record | {"config": record["config"] | changes}
        (folder / "config.json").write_text(json.dumps(damaged))
        with pytest.raises(ValueError, match=f"config.json: damaged, or of another version .*{next(iter(changes))}"):
            load_run(folder)
    with pytest.raises(ValueError, match="does not exist"):
        load_run(tmp_path / "nowhere")


def test_predictions_refuse_other_images(data, tmp_path):
    run = train_run(prepare(RunConfig(method="none", **TINY), data), tmp_path / "run")
    with pytest.raises(ValueError, match="as the run was trained on"):
        run.predict(data.x[..., :8])
    for ask in (run.predict, run.log_probs):
        with pytest.raises(ValueError, match=r"x: received images from 0 to 248; accepted are images within \[0, 1\]"):
            ask(data.x.float())
        for dtype in (torch.int64, torch.int32, torch.bool):
            with pytest.raises(ValueError, match=r"x: received a \w+ tensor .*; accepted are images within \[0, 1\]"):
                ask(data.x.to(dtype))
        with pytest.raises(ValueError, match="x: received images from nan"):
            ask(torch.full(data.x.shape, math.nan))
    assert torch.equal(run.predict(data.x), run.predict(data.x.double() / 255))


def test_half_ranges_wrap_around():
    v = torch.linspace(-0.5, 0.5, 101)[:, None, None].expand(-1, 1, 2).clone()
    v[..., 1] = torch.remainder(v[..., 1] + math.pi + math.pi, 2 * math.pi) - math.pi  # around the far side
    bounds = torch.tensor([[-1.0, -math.pi], [1.0, math.pi]])
    found = half_ranges(v, bounds, (False, True))
    torch.testing.assert_close(found, torch.full((1, 2), 0.49))
    assert half_ranges(v, bounds, (False, False))[0, 1] > 3  # cut at the seam it is nearly the whole range


@pytest.mark.parametrize("method", ["flow", "instaaug", "augerino", "pstn", "stn", "tta", "none"])
def test_series_can_be_fitted_as_well(method, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("erlangen.estimators.reporting.SHOWN", 1)  # most of the time goes into drawing
    monkeypatch.setattr(report, "accuracy_figure", lambda rows, many: told.append(many) or accuracy_figure(rows, many))
    x = torch.randn(24, 2, 20).cumsum(-1)
    series = DataSet(x, torch.arange(24) % 2, ("up", "down"), "walks")
    run = fit_run(RunConfig(**TINY | {"method": method, "transform": {"warp": 0.2}}), series, folder=tmp_path / "run")
    assert run.config.net == "series-cnn"
    assert run.model.transform.bounds[1].tolist() == pytest.approx([0.2] * 9)
    again = load_run(tmp_path / "run")
    assert torch.equal(again.predict(x), run.predict(x))
    page = (tmp_path / "run" / "report.html").read_text()
    assert "12 series" in page or "series of 20 moments" in page
    assert "images" not in page.partition("Settings and use")[0].rpartition("</style>")[2]
    assert "A ring shows an angle" not in page
    assert told == ["series"]


@pytest.mark.parametrize(("unit", "level"), [(1.0, 0.0), (2.0**-40, 0.0), (1.0, 2.0**17)])
def test_series_of_any_unit_and_level_are_normalised(unit, level):
    t = torch.arange(64) / 8
    x = torch.stack((torch.sin(t), torch.full((64,), 0.1))).expand(8, 2, 64)
    series = DataSet(x.float() * unit + level, torch.arange(8) % 2, ("a", "b"), "sines")
    found = describe_data(series, {"train": series, "test": None})["normalise"]
    exact = series.x[:, 0].double()
    mean, std = exact.mean().item(), exact.std(correction=0).item()
    assert found["mean"] == [pytest.approx(mean, abs=1e-6 * std), pytest.approx(series.x[0, 1, 0].item(), abs=1e-6)]
    assert found["std"] == [pytest.approx(std, rel=1e-5), 1.0]
    assert std == pytest.approx(unit * torch.sin(t).std(correction=0).item(), rel=1e-3)  # single precision held it


def test_a_localiser_sees_series_of_any_unit_alike():
    """In microvolts or in volts; twin: of images, which are between 0 and 1, it sees the levels as they are."""
    x = torch.randn(6, 1, 32).cumsum(-1)
    found = []
    for unit in (1.0, 1e-6):
        normalise = {"mean": [0.0], "std": [unit]}
        about = {"shape": [1, 32], "classes": ["a", "b"], "normalise": normalise}
        config = RunConfig(**TINY | {"method": "stn", "transform": {"warp": 0.2}, "net": "series-cnn"})
        model = build_model(config, about)
        torch.nn.init.normal_(model.conditional.loc.last.weight, generator=torch.Generator().manual_seed(0))
        found.append(model.eval().conditional(x * unit).mean)
    torch.testing.assert_close(*found)
    assert found[0].std(0).max() > 1e-3
    about = {"shape": [1, 28, 28], "classes": ["a", "b"], "normalise": {"mean": [0.5], "std": [0.1]}}
    q = build_model(RunConfig(**TINY | {"method": "stn", "transform": {"angle": 1.0}}), about).conditional
    assert not any(isinstance(part, Normalise) for part in q.modules())


def test_sets_of_the_archives_that_no_list_has(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("ERLANGEN_DATA", str(tmp_path))
    x, y = np.random.default_rng(0).normal(size=(12, 9)), np.arange(12) % 2
    x[0, 4] = np.nan
    (tmp_path / "ucr").mkdir()
    np.savez(tmp_path / "ucr" / "Own.npz", x=x, y=y)
    config = RunConfig(data="ucr/Own", transform=("warp",), method="none", missing="drop")
    setting = prepare(config)
    assert setting.config.data == "ucr/Own"
    assert setting.test is None
    assert "No test part" in caplog.text
    assert len(setting.train) + len(setting.validation) == 11
    np.savez(tmp_path / "ucr" / "Own.npz", x_train=x, y_train=y, x_test=x[1:5], y_test=y[1:5])
    assert len(prepare(config).test) == 4


@pytest.mark.parametrize(
    ("data", "bad", "message"),
    [
        (
            "glyphs",
            {"missing": "drop"},
            "missing: received 'drop' for the named set 'glyphs'; accepted for series only",
        ),
        ("own.npz", {"label": "kind"}, "label: received 'kind' for the file .*; accepted for a .csv file only"),
        ("own.csv", {"size": 32}, "size: received 32 for the file .*; accepted for folders of pictures only"),
        ("own.csv", {"unreadable": "skip"}, "unreadable: received skip for the file .*; accepted for folders of pict"),
        ("images.npz", {"missing": "drop"}, "missing: received 'drop' for the images in .*; accepted for series only"),
        (".", {"unequal": "pad"}, "unequal: received 'pad' for the folder '.'; accepted for series only"),
        ("glyphs", {"unequal": "cut"}, "unequal: received 'cut'; accepted is one of 'raise', 'resample', 'pad'"),
    ],
)
def test_what_reading_would_not_heed_is_refused(data, bad, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("own.npz", "own.csv"):
        (tmp_path / name).touch()
    np.savez("images.npz", x=np.full((8, 9, 9), 200, np.uint8), y=np.arange(8) % 2)
    with pytest.raises(ValueError, match=message):
        prepare(RunConfig(data=data, **bad))


def test_warps_of_time_are_named_alone():
    assert resolve_ranges(("warp",)) == {"warp": 0.3}
    with pytest.raises(ValueError, match="transform: received warp, tx; accepted is warp alone"):
        resolve_ranges(("warp", "tx"))
    with pytest.raises(ValueError, match="transform: received warp with -1"):
        resolve_ranges({"warp": -1})


@pytest.mark.parametrize("method", ["flow", "flow-code", "pstn", "tta"])
def test_what_is_predicted_depends_on_no_other_input(method, data, tmp_path):
    run = train_run(prepare(RunConfig(method=method, transform=("tx", "angle"), **TINY), data), tmp_path / "run")
    whole = run.log_probs(data.x)
    for part in (run.log_probs(data.x.flip(0)).flip(0), run.log_probs(data.x, batch_size=7)):
        torch.testing.assert_close(part, whole, rtol=0, atol=1e-10)
    torch.testing.assert_close(run.log_probs(data.x[5:6]), whole[5:6], rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="batch_size: received int 0"):
        run.log_probs(data.x, batch_size=0)


def test_images_of_any_channels_have_a_report(tmp_path):
    x = torch.rand(24, 2, 12, 12, generator=torch.Generator().manual_seed(0))
    images = DataSet(x, torch.arange(24) % 2, ("a", "b"), "two")
    fit_run(RunConfig(method="none", transform=("tx",), **TINY), images, folder=tmp_path / "run")
    assert (tmp_path / "run" / "report.html").is_file()


def test_values_that_are_not_finite_are_refused_before_anything_is_written(tmp_path):
    x = torch.rand(24, 1, 12, 12)
    x[3, 0, 2, 2] = math.nan
    with pytest.raises(ValueError, match="data: received NaN or infinite values"):
        fit_run(
            RunConfig(transform=("tx",), **TINY),
            DataSet(x, torch.arange(24) % 2, ("a", "b"), "x"),
            folder=tmp_path / "r",
        )
    assert not (tmp_path / "r").exists()


def test_what_only_a_method_refuses_is_refused_before_anything_is_written(data, tmp_path):
    with pytest.raises(ValueError, match="alpha: received float 0"):
        fit_run(RunConfig(method="instaaug", alpha=0.0, **TINY), data, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_seeds_of_numpy(data, tmp_path):
    setting = prepare(RunConfig(method="none", transform=("tx",), seed=np.int64(3), **TINY), data)
    train_run(setting, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "config.json").read_text())["config"]["seed"] == 3


def test_a_run_that_was_stopped_as_it_was_made_longer_is_not_loaded_as_that(data, tmp_path, monkeypatch):
    folder, settings = tmp_path / "run", {"method": "none", **TINY}
    fit_run(RunConfig(**settings), data, folder=folder)

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("erlangen.estimators.training.fit", stopped)
        with pytest.raises(KeyboardInterrupt):
            fit_run(RunConfig(**settings), data, folder=folder, resume=True)
        assert load_run(folder).record["results"]  # it was no longer
        with pytest.raises(KeyboardInterrupt):
            fit_run(RunConfig(**settings | {"steps": 4}), data, folder=folder, resume=True)
    with pytest.raises(ValueError, match="as it was made longer: it was not finished; go on with it: resume=True"):
        load_run(folder)
    assert "results" not in json.loads((folder / "config.json").read_text())
    fit_run(RunConfig(method="none"), data, folder=folder, resume=True)  # goes on to the new length
    assert load_run(folder).config.steps == 4


def test_a_run_that_goes_on_says_what_was_read_now(data, tmp_path):
    config, folder = RunConfig(method="none", **TINY), tmp_path / "run"
    began = fit_run(config, data, folder=folder, test=glyphs(8, seed=6, size=16)).record
    more = glyphs(12, seed=7, size=16)
    fit_run(config, data, folder=folder, test=more, resume=True)
    record = load_run(folder).record
    assert record["data"]["counts"]["test"] == more.counts()
    assert record["results"]["accuracy"][0]["count"] == 12
    assert record["provenance"] == json.loads(json.dumps(began["provenance"]))


def test_a_report_says_which_entropy_was_reached(data, tmp_path):
    setting = prepare(RunConfig(method="flow", entropy=-30.0, **TINY), data)
    run = train_run(setting, tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    last = [row["entropy"] for row in rows if row["kind"] == "train"][-1]
    assert measure(run, setting).facts["entropy"] == f"target -30 nats, reached {last:.3g}"


@pytest.mark.parametrize(("method", "views"), [("stn", ("1 view", "1 view")), ("pstn", ("2 views", "3 views"))])
def test_a_report_says_how_many_views_there_are(method, views, data, tmp_path):
    """A point gives one, however many are asked for."""
    setting = prepare(RunConfig(method=method, **TINY | {"samples": 2, "eval_samples": 3}), data)
    facts = measure(train_run(setting, tmp_path / "run"), setting).facts
    assert f", {views[0]} each, in " in facts["training"]
    assert facts["evaluation"] == views[1]


@pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("mps"), "tpu", "auto", None])
def test_a_run_is_loaded_to_a_device_that_is_there(device, data, tmp_path, monkeypatch):
    train_run(prepare(RunConfig(method="none", **TINY), data), tmp_path / "run")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device: received .*; accepted"):
        load_run(tmp_path / "run", device=device)
    assert load_run(tmp_path / "run", device=torch.device("cpu")).classes == data.classes


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_takes_long_images(method, tmp_path):
    x = torch.randint(256, (12, 1, 8, 24), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    long = DataSet(x, torch.arange(12) % 2, ("a", "b"), "long")
    run = train_run(prepare(RunConfig(method=method, **TINY), long), tmp_path / "run")
    assert run.predict(x).shape == (12,)
