"""`erlangen audit` and `erlangen check`: files, exit codes, and sentences in place of tracebacks."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import erlangen
from erlangen import cli
from erlangen.cli.audit import parse_ladders

from .cases import Halves, halves

MODEL = """
import torch
def make(tilt=0.0):
    def model(x):
        rows = x.mean((1, 3))
        gap = rows[:, :6].mean(1) - rows[:, 6:].mean(1) - tilt * x[:, 0, 0, 0]
        return 20 * torch.stack((gap, -gap, torch.full_like(gap, 0.1)), 1)
    return model
def worse():
    return make(0.7)
def broken():
    return lambda x: x
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a model of somebody else and with data."""
    torch.set_default_dtype(torch.float32)
    x, y = halves(60)
    np.savez(tmp_path / "data.npz", x=(x * 255).round().to(torch.uint8).numpy(), y=y.numpy())
    (tmp_path / "cut.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:-40])
    (tmp_path / "table.csv").write_text("trial,class,x\n1,up,0.5\n")
    (tmp_path / "theirs.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    return tmp_path


def audit(*arguments):
    return cli.main(["audit", *arguments, "--saliency", "0"])


def test_from_a_model_to_a_gate(place, capsys):
    assert audit("theirs:make", "data.npz", "--transforms", "rotation:15:180,flip", "--output", "old") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-2:] == [os.path.join("old", name) for name in ("audit.json", "report.html")]
    assert "What turns into what: 0 and 1 turn into each other under rotation (180°)" in out
    assert audit("theirs:worse", "data.npz", "--transforms", "rotation:15:180,flip", "--output", "new") == 0
    capsys.readouterr()
    assert cli.main(["check", "old/audit.json", "--baseline", "old/audit.json"]) == 0
    assert "no drop in 6 comparisons" in capsys.readouterr().out
    assert cli.main(["check", "new", "--baseline", "old"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("erlangen: theirs:worse against theirs:make: less invariant than the baseline in ")
    assert re.search(r"  rotation 15°, consistency: 1 to 0\.\d+ \(change -", error)
    assert "preprocessed" not in error
    assert cli.main(["check", "new", "--baseline", "old", "--margin", "0.99"]) == 0
    record = json.loads((place / "old" / "audit.json").read_text())
    record["model"]["preprocess"]["range"] = 255.0
    (place / "bytes.json").write_text(json.dumps(record))
    assert cli.main(["check", "bytes.json", "--baseline", "old"]) == 0
    assert "preprocessed otherwise" in capsys.readouterr().out
    assert cli.main(["check", "new", "--baseline", "old", "--metrics", "li", "--rate", "0.01"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.pt2", "data.npz"], "'nowhere.pt2', which does not exist"),
        (["theirs:broken", "data.npz"], "accepted are floating-point logits"),
        (["theirs:make", "nowhere.npz"], "nowhere.npz"),
        (["theirs:make", "cut.npz"], "'cut.npz'; accepted is a .npz file without pickles"),
        (["theirs:make", "table.csv"], "DATA: received 'table.csv', a file of series; accepted are images"),
        (["theirs:make", "data.npz", "--transforms", "spin"], "--transforms: received 'spin'"),
        (["theirs:make", "data.npz", "--transforms", "rotation:x"], "received 'rotation:x'"),
        (["theirs:make", "data.npz", "--std", "0"], "--std: received"),
        (["theirs:make", "data.npz", "--images", "0"], "--images: received"),
    ],
)
def test_what_the_user_can_put_right_is_a_sentence(place, capsys, arguments, words):
    assert audit(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("erlangen: ")
    assert error.count("\n") == 1
    assert words in error


def test_a_named_set_may_have_the_name_of_a_folder_here(place, capsys):
    (place / "glyphs").mkdir()
    assert audit("theirs:make", "glyphs", "--images", "4") == 2
    assert "labels up to 3" in capsys.readouterr().err  # of glyphs, which were read
    assert audit("theirs:make", "./glyphs") == 2
    assert "which is empty" in capsys.readouterr().err


def test_audits_that_cannot_be_compared_are_a_sentence(place, capsys):
    assert cli.main(["check", "audit.json", "--baseline", "old.json"]) == 2
    assert capsys.readouterr().err == (
        "erlangen: AUDIT: received 'audit.json', which holds no audit; accepted is an audit.json.\n"
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record["steps"][0]["values"]["accuracy"].pop("inputs"),
        lambda record: record["steps"][0]["values"]["accuracy"]["inputs"].pop(),
        lambda record: record["steps"][0]["values"]["accuracy"]["inputs"].append("word"),
        lambda record: record["steps"][0].update(values=[]),
        lambda record: record["data"].update(count="many"),
        lambda record: record["data"].update(count=-1),
        lambda record: record["data"].update(count=True),
        lambda record: record["data"].update(seen=[60]),
        lambda record: record.update(steps=[]),
    ],
)
def test_a_damaged_audit_is_a_sentence_and_no_drop(place, capsys, damage):
    """Its exit code is not that of a drop."""
    audit("theirs:make", "data.npz", "--transforms", "flip", "--output", "old")
    record = json.loads((place / "old" / "audit.json").read_text())
    damage(record)
    (place / "new.json").write_text(json.dumps(record))
    capsys.readouterr()
    assert cli.main(["check", "new.json", "--baseline", "old"]) == 2
    assert "damaged" in capsys.readouterr().err


def test_pictures_of_mixed_size_need_one(place, capsys):
    chance = np.random.default_rng(0)
    for k, side in enumerate((12, 12, 14)):
        (place / "pictures" / f"class {k}").mkdir(parents=True)
        pixels = chance.integers(0, 255, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / "pictures" / f"class {k}" / "a.png")
    assert audit("theirs:make", "pictures", "--transforms", "flip") == 2
    assert "have 2 sizes" in capsys.readouterr().err
    assert audit("theirs:make", "pictures", "--transforms", "flip", "--size", "12") == 0
    assert json.loads((place / "audit" / "audit.json").read_text())["data"]["shape"] == [3, 12, 12]
    assert audit("theirs:make", "pictures", "--transforms", "flip", "--size", "16", "--output", "other") == 0
    capsys.readouterr()
    assert cli.main(["check", "other", "--baseline", "audit"]) == 2
    assert "other images, [3, 12, 12] where the audit has [3, 16, 16]; accepted" in capsys.readouterr().err


def test_the_home_folder_has_a_short_name(place, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(place))
    for name in ("0/a.png", "1/a.png", "2/a.png"):
        (place / "photos" / name).parent.mkdir(parents=True)
        Image.fromarray(np.full((12, 12, 3), 128, np.uint8)).save(place / "photos" / name)
    for data in ("~/photos", "~/data.npz"):
        assert audit("theirs:make", data, "--transforms", "flip", "--output", "~/found") == 0
        assert (place / "found" / "report.html").is_file()
        assert not (place / "~").exists()


def test_strengths_are_read():
    assert parse_ladders("rotation: 15 :30, flip") == {"rotation": [15.0, 30.0], "flip": None}


def test_help_says_the_exit_codes():
    environment = {**os.environ, "PYTHONPATH": str(Path(erlangen.__file__).parents[1]), "COLUMNS": "200"}
    command = [sys.executable, "-m", "erlangen", "check", "--help"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0
    assert "Exit codes: 0, no drop; 1, a drop; 2, the audits cannot be compared." in " ".join(result.stdout.split())


def test_all_metrics_of_all_images_of_a_plain_network(place, capsys):
    """A CNN that knows nothing of us, exported; everything is measured, saliency as well."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 4, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
    ).eval()
    batch = torch.export.Dim("batch")
    torch.export.save(
        torch.export.export(model, (torch.rand(4, 3, 32, 32),), dynamic_shapes=({0: batch},)), place / "net.pt2"
    )
    chance = np.random.default_rng(0)
    np.savez(place / "big.npz", x=chance.integers(0, 255, (200, 32, 32, 3), dtype=np.uint8), y=np.arange(200) % 10)
    assert (
        cli.main(["audit", "net.pt2", "big.npz", "--mean", "0.5", "0.5", "0.5", "--std", "0.25", "0.25", "0.25"]) == 0
    )
    steps = json.loads((place / "audit" / "audit.json").read_text())["steps"]
    assert {step["transform"] for step in steps} >= {"rotation", "translation", "scale", "shear", "hue", "saturation"}
    assert all("si" in step["values"] for step in steps if step["transform"] != "blur")
    assert all(len(step["values"]["li"]["inputs"]) == 200 for step in steps)
    assert "Warning" not in capsys.readouterr().err


def test_a_module_in_python_needs_no_command():
    from erlangen.audit import audit as measure

    assert measure(Halves(), halves(), ["flip"]).model["name"] == "Halves"
