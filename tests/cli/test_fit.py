"""`erlangen fit`: folders of images that the test draws, every method, resuming after a kill, and bad input."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from PIL import Image

import erlangen
from erlangen import cli
from erlangen.cli.fit import Fit, parse_transform
from erlangen.cli.typed import given
from erlangen.data import glyphs, load
from erlangen.estimators import RunConfig, load_run
from erlangen.nets import NETS
from erlangen.objectives import METHODS

TINY = ["--steps", "2", "--batch-size", "8", "--samples", "2", "--eval-samples", "2", "--device", "cpu"]


def draw(root: Path, n: int = 24, seed: int = 7, size: int = 16) -> Path:
    """Glyphs as pictures, a folder for each class."""
    data = glyphs(n, seed=seed, size=size)
    for i, (x, y) in enumerate(zip(data.x, data.y.tolist(), strict=True)):
        folder = root / data.classes[y].replace(", ", "-").replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(x.movedim(0, -1).numpy()).save(folder / f"{i:03d}.png")
    return root


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("drawn") / "shapes")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("erlangen.estimators.reporting.SHOWN", 1)  # most of the time goes into drawing


def fit(*arguments, tiny=True):
    return cli.main(["fit", *(TINY if tiny else []), *map(str, arguments)])


def refused(capsys, *words):
    """What was said: one sentence on standard error with these words in it."""
    error = capsys.readouterr().err
    assert error.startswith("erlangen: ")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    for word in words:
        assert word in error, error
    return error


def test_a_folder_of_images(shapes, tmp_path, capsys):
    draw(tmp_path / "parts" / "train")
    draw(tmp_path / "parts" / "test", n=8, seed=8)
    assert fit("parts", "--transform", "angle,tx:0.1") == 0
    out, err = capsys.readouterr()
    assert err == ""
    *table, report = out.splitlines()
    assert [line.split()[0] for line in table] == ["test", "validation", "training"]
    folder = Path(report).parent
    assert folder.parent == Path("runs")
    assert folder.name.startswith("parts-flow-")
    assert {p.name for p in folder.iterdir()} == {
        *("model.safetensors", "config.json", "log.jsonl", "checkpoint", "report.html")
    }
    run = load_run(folder)
    assert run.config.transform == {"angle": (-math.pi, math.pi), "tx": (-0.1, 0.1)}
    assert run.classes == ("parrot", "parrot-upside-down", "snail", "snail-upside-down")
    test = load(tmp_path / "parts", "test")
    right = float((run.predict(test.x) == test.y).double().mean())
    assert right == run.record["results"]["accuracy"][0]["averaged"]
    page = Path(report).read_text()
    assert "http" not in page.replace("http://www.w3.org", "")


def test_the_methods_are_those_of_the_library():
    assert set(get_args(get_type_hints(Fit)["method"])) == set(METHODS)
    page = (Path(__file__).resolve().parents[2] / "docs" / "fit.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", page.partition("## Methods")[2], re.MULTILINE)) >= set(METHODS)


def test_the_help_names_every_net_and_method(capsys):
    with pytest.raises(SystemExit):
        fit("--help")
    said = capsys.readouterr().out
    assert [name for name in NETS if not re.search(rf"\b(?<!-){name}\b", said)] == []
    assert [name for name in METHODS if not re.search(rf"\b(?<!-){name}:", said)] == []


@pytest.mark.parametrize("method", ["augerino", "lila", "instaaug", "pstn", "stn", "affine", "tta", "none"])
def test_every_method(method, shapes, tmp_path, capsys):
    assert fit(shapes, "--method", method, "--output", "run", "--validation", "0") == 0
    assert ("averaged" in capsys.readouterr().out) == (method not in ("affine", "none"))
    page = (tmp_path / "run" / "report.html").read_text()
    assert ("Learned distributions" in page) == (method in ("augerino", "lila", "instaaug", "pstn", "stn"))
    assert ("Views" in page) == (method != "none")
    assert load_run("run").config.method == method


@pytest.mark.parametrize("transform", ["crop:0.5", "hsv"])
def test_other_transforms(transform, shapes, capsys):
    assert fit(shapes, "--transform", transform, "--method", "affine", "--output", "run") == 0
    assert set(load_run("run").config.transform) == (
        {"crop"} if "crop" in transform else {"hue", "saturation", "value"}
    )


def test_a_file_and_no_data(tmp_path, capsys, monkeypatch):
    data = glyphs(24, size=16)
    arrays = {"x_train": data.x.numpy(), "y_train": data.y.numpy(), "x_test": data.x[:8].numpy(), "y_test": data.y[:8]}
    np.savez(tmp_path / "own.npz", **arrays)
    assert fit("own.npz", "--method", "none", "--output", "run") == 0
    assert capsys.readouterr().out.startswith("test ")
    from erlangen.estimators import sources

    monkeypatch.setattr(sources, "load", lambda name, split="train": glyphs(24, size=16, seed=int(split == "test")))
    assert fit("--method", "none", "--output", "run2") == 0
    assert load_run("run2").config.data == "glyphs"


def test_a_table_of_series(tmp_path, capsys):
    rows = [f"{i},{t},{'ab'[i % 2]},{i % 2 + t / 9}" for t in range(9) for i in range(12)]
    (tmp_path / "long.csv").write_text("\n".join(["trial,t,kind,x", *rows, "5,9,b,1"]))
    options = ["--series", "trial", "--time", "t", "--label", "kind", "--output", "run"]
    assert fit("long.csv", *options) == 2
    refused(capsys, "lengths from 9 to 10", "--unequal resample", "--unequal pad")
    assert fit("long.csv", *options, "--unequal", "pad", "--method", "none", "--validation", "0") == 0
    assert load_run("run").record["data"]["shape"] == [1, 10]
    assert fit("--resume", "--output", "run", "--steps", "3", tiny=False) == 0
    (tmp_path / "gap.csv").write_text("label,t0,t1,t2\nup,0,,2\ndown,2,1,0\n")
    assert fit("gap.csv") == 2
    refused(capsys, "1 missing values (NaN) of 3; accepted are none, or --missing interpolate, or --missing drop.")


@pytest.mark.parametrize("how", ["resample", "pad"])
def test_parts_of_different_lengths(how, tmp_path, capsys):
    for part, longest in (("TRAIN", 12), ("TEST", 10)):
        rows = ["\t".join(map(str, [i % 2, *range(longest - i % 3)])) for i in range(12)]
        (tmp_path / f"Toy_{part}.tsv").write_text("\n".join(rows))
    assert fit("Toy_TRAIN.tsv", "--transform", "warp", "--method", "none", "--unequal", how, "--output", "run") == 0
    assert capsys.readouterr().out.startswith("test ")
    assert load_run("run").record["data"]["shape"] == [1, 12]


def test_pictures_of_several_sizes(shapes, tmp_path, capsys):
    shutil.copytree(shapes, tmp_path / "mixed")
    file = next((tmp_path / "mixed" / "snail").iterdir())
    Image.open(file).convert("CMYK").resize((90, 70)).save(file.with_suffix(".jpg"))
    Image.open(file).convert("L").resize((30, 30)).save(file)
    assert fit("mixed", "--method", "none", "--output", "run", "--steps", "1", tiny=False) == 0
    assert load_run("run").record["data"]["shape"] == [3, 64, 64]
    assert fit("mixed", "--method", "none", "--output", "run2", "--size", "12") == 0
    assert load_run("run2").record["data"]["shape"] == [3, 12, 12]


@pytest.mark.parametrize(
    ("words", "ranges"),
    [
        ("tx,ty", {"tx": None, "ty": None}),
        ("angle:180", {"angle": math.pi}),
        ("angle:-90:45, tx:0.2", {"angle": (-math.pi / 2, math.pi / 4), "tx": 0.2}),
    ],
)
def test_transforms_are_parsed(words, ranges):
    assert parse_transform(words) == ranges


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--transform", "rotate"], ["--transform: received 'rotate'", "tx, ty, angle", "crop"]),
        (["--transform", "angle:x"], ["--transform", "'angle:x'"]),
        (["--transform", "angle:1:2:3"], ["--transform"]),
        (["--transform", "tx,,ty"], ["--transform"]),
        (["--transform", "angle:400"], ["--transform", "one turn"]),
        (["--transform", "angle:60:-30"], ["--transform: received angle", "(60° to -30°)", "low < high"]),
        (["--seed", "99999999999999999999"], ["--seed", "2**32 - 1"]),
        (["--alpha", "1", "--method", "none"], ["--alpha: received 1 for the method none", "augerino"]),
        (["--alpha", "0", "--method", "instaaug"], ["--alpha: received float 0.0", "a finite number > 0"]),
        (["--entropy", "500"], ["--entropy: received 500 nats", "less than 0.4516"]),
        (["--net", "vgg"], ["--net", "lenet, fixup"]),
        (["--net", "lenet"], ["--size", "28 or 32"]),
        (["--validation", "2"], ["--validation"]),
        (["--device", "tpu"], ["--device", "does not have"]),
        (["--epochs", "1"], ["--steps, --epochs: received 2 and 1"]),
        (["--resume"], ["--resume", "--output RUN"]),
        (["--size", "4"], ["--size: received 4", "at least 8"]),
    ],
)
def test_bad_options_are_one_sentence(arguments, words, shapes, tmp_path, capsys):
    assert fit(shapes, *arguments) == 2
    refused(capsys, *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--method", "magic"], ["--unreadable", "maybe"]])
def test_a_choice_lists_what_there_is(arguments, shapes, capsys):
    with pytest.raises(SystemExit) as stopped:
        fit(shapes, *arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert ("instaaug" if "magic" in arguments else "skip") in error


def test_bad_folders_are_one_sentence(shapes, tmp_path, capsys):
    assert fit("nowhere") == 2
    refused(capsys, "DATA: received 'nowhere', which does not exist", "glyphs")
    (tmp_path / "empty").mkdir()
    assert fit("empty") == 2
    refused(capsys, "'empty', which is empty")
    (tmp_path / "text.txt").write_text("hello")
    assert fit("text.txt") == 2
    refused(capsys, "text.txt", ".npz file")
    np.savez(tmp_path / "bad.npz", x=np.zeros((4, 16, 16), np.uint8), y=np.zeros(3, int))
    assert fit("bad.npz") == 2
    refused(capsys, "y of shape (3,) for 4 signals")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "bad.npz").read_bytes()[:100])
    assert fit("cut.npz") == 2
    refused(capsys, "cut.npz")
    assert not (tmp_path / "runs").exists()


def test_bad_pictures_are_one_sentence(shapes, tmp_path, capsys):
    root = tmp_path / "pictures"
    shutil.copytree(shapes, root)
    (root / "snail" / "broken.png").write_bytes(b"\x89PNG not really")
    assert fit("pictures") == 2
    refused(capsys, "broken.png", "--unreadable skip")
    assert fit("pictures", "--unreadable", "skip", "--method", "none", "--output", "run") == 0
    assert [Path(f).name for f in load_run("run").record["data"]["skipped"]] == ["broken.png"]
    assert "1 file that cannot be read; named in run" in capsys.readouterr().out
    (root / "lonely").mkdir()
    shutil.copy(next((root / "parrot").iterdir()), root / "lonely" / "one.png")
    (root / "snail" / "broken.png").unlink()
    assert fit("pictures") == 2
    refused(capsys, "a single signal of the class 'lonely'", "--validation 0")
    draw(tmp_path / "parts" / "train")
    draw(tmp_path / "parts" / "test", n=8)
    (tmp_path / "parts" / "test" / "snail").rename(tmp_path / "parts" / "test" / "slug")
    assert fit("parts") == 2
    refused(capsys, "'slug'", "'snail'")


def test_a_run_is_never_overwritten(shapes, tmp_path, capsys):
    assert fit(shapes, "--method", "none", "--output", "run") == 0
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    capsys.readouterr()
    assert fit(shapes, "--method", "none", "--output", "run") == 2
    refused(capsys, "--output", "holds a run already", "--resume")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years")
    assert fit(shapes, "--output", "mine") == 2
    refused(capsys, "holds other files")
    assert fit(shapes, "--output", "mine/thesis.tex") == 2
    refused(capsys, "is a file")
    assert fit("--resume", "--output", "mine") == 2
    refused(capsys, "holds no run")
    assert fit("--resume", "--output", "run", "--method", "tta") == 2
    refused(capsys, "--method: received 'tta' with --resume", "'none'")
    for option in (["--method", "flow"], ["--method=flow"], ["--lr", "0.004"]):
        assert fit("--resume", "--output", "run", *option, tiny=False) == 2
        refused(capsys, f"{option[0].partition('=')[0]}: received ", "with --resume")
    assert fit("--resume", "--output", "run", "--batch_size", "128", tiny=False) == 2
    refused(capsys, "--batch-size: received 128 with --resume", "began with, 8")
    assert fit("glyphs", "--resume", "--output", "run", tiny=False) == 2
    refused(capsys, "DATA: received 'glyphs' with --resume")
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before
    assert fit("--resume", "--output", "run", "--steps", "3", tiny=False) == 0
    assert load_run("run").config.steps == 3
    capsys.readouterr()
    assert fit("--resume", "--output", "run", "--steps", "2", tiny=False) == 2
    refused(capsys, "--steps: received 2 for a run that has taken 3")
    assert load_run("run").config.steps == 3


KILLED = """
import sys, time
sys.path.insert(0, {source!r})
import torch
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
from erlangen.estimators import RunConfig, prepare, train_run
from pathlib import Path
config = RunConfig(data={data!r}, transform=("angle",), steps=30, batch_size=8, samples=2, eval_samples=2,
    device="cpu", log_every=2, checkpoint_seconds=1e-6)
train_run(prepare(config), Path("run"))
"""


def test_a_killed_run_goes_on(shapes, tmp_path, capsys):
    code = KILLED.format(source=os.path.dirname(os.path.dirname(erlangen.__file__)), data=str(shapes))
    child = subprocess.Popen([sys.executable, "-c", code])
    while len(list(tmp_path.glob("run/checkpoint/0*"))) < 2:
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with pytest.raises(ValueError, match="not finished"):
        load_run("run")
    assert fit("--resume", "--output", "run", tiny=False) == 0
    config = RunConfig.read(json.loads(Path("run/config.json").read_text())["config"])
    assert config.steps == 30
    again = RunConfig(**{**vars(config), "checkpoint_seconds": 100.0})
    from erlangen.estimators import prepare, train_run

    alone = train_run(prepare(again), tmp_path / "alone")
    for (name, value), other in zip(
        load_run("run").model.state_dict().items(), alone.model.state_dict().values(), strict=True
    ):
        assert torch.equal(value, other), name


def test_damaged_checkpoints(shapes, tmp_path, capsys, caplog):
    assert fit(shapes, "--method", "none", "--output", "run") == 0
    assert fit("--resume", "--output", "run", "--steps", "4", tiny=False) == 0
    newest = max((tmp_path / "run" / "checkpoint").iterdir())
    content = (newest / "state.pt").read_bytes()
    (newest / "state.pt").write_bytes(content[: len(content) // 2])
    assert fit("--resume", "--output", "run", tiny=False) == 0  # from the one before
    assert "damaged" in caplog.text
    capsys.readouterr()
    for state in (tmp_path / "run" / "checkpoint").glob("*/state.pt"):
        state.write_bytes(content[: len(content) // 2])
    assert fit("--resume", "--output", "run", tiny=False) == 2
    refused(capsys, "no checkpoint can be read", "another folder")
    assert load_run("run").config.steps == 4


def test_damaged_logs(shapes, tmp_path, capsys):
    assert fit(shapes, "--method", "none", "--output", "run") == 0
    log = tmp_path / "run" / "log.jsonl"
    for line, words in {"garbage": "line 1", '{"kind": "train"}': "row 1"}.items():
        log.write_text(f"{line}\n")
        capsys.readouterr()
        assert fit("--resume", "--output", "run", tiny=False) == 2
        refused(capsys, "log.jsonl", words, "Remove that line, or the file")
    log.unlink()
    assert fit("--resume", "--output", "run", tiny=False) == 0
    assert 'id="training"' not in (tmp_path / "run" / "report.html").read_text()


def test_a_full_disk_loses_nothing(shapes, tmp_path, capsys, monkeypatch):
    from erlangen.estimators import runs

    write = runs.write_bytes

    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(runs, "write_bytes", full)
    assert fit(shapes, "--method", "none", "--output", "run") == 2
    refused(capsys, "cannot write to --output run: No space left on device", "--resume --output run")
    monkeypatch.setattr(runs, "write_bytes", write)
    assert fit("--resume", "--output", "run", tiny=False) == 0
    assert load_run("run").config.method == "none"


def test_an_interrupt_says_how_to_go_on(shapes, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("erlangen.estimators.training.fit", interrupted)
    assert fit(shapes, "--method", "none", "--output", "run") == 130
    refused(capsys, "stopped", "--resume --output run")
    assert fit(shapes, "--method", "none", "--output", "my runs/1") == 130
    refused(capsys, "`erlangen fit --resume --output 'my runs/1'` goes on")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("erlangen.estimators.prepare", "stopped before anything was written"),
        ("erlangen.estimators.reporting.write_report", "`erlangen fit --resume --output run` goes on"),
    ],
)
def test_a_request_to_end_outside_of_training_says_how_to_go_on(place, words, shapes, capsys, monkeypatch):
    def ended(*args, **kwargs):
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL  # else it would end the tests
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(place, ended)
    assert fit(shapes, "--method", "none", "--output", "run") == 130
    refused(capsys, words)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_an_interrupt_before_the_first_step_says_so(shapes, tmp_path, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("erlangen.estimators.prepare", interrupted)
    assert fit(shapes, "--output", "run") == 130
    refused(capsys, "stopped before anything was written")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")])
def test_too_little_memory_says_what_is_smaller(error, shapes, capsys, monkeypatch):
    def hungry(*args, **kwargs):
        raise error

    monkeypatch.setattr("erlangen.estimators.training.fit", hungry)
    assert fit(shapes, "--output", "run") == 2
    refused(capsys, "out of memory", "--batch-size", "another --output")


def test_other_errors_stay_errors(shapes, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setattr("erlangen.estimators.training.fit", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        fit(shapes, "--output", "run")


def test_a_run_does_not_become_a_class(tmp_path, capsys, monkeypatch):
    draw(tmp_path / "shapes")
    assert fit("shapes", "--output", "shapes/run") == 2
    refused(capsys, "--output: received 'shapes/run', which lies among the classes in 'shapes'")
    monkeypatch.chdir(tmp_path / "shapes")
    assert fit(".") == 2
    refused(capsys, "--output: received 'runs/shapes-flow-", "elsewhere")
    assert not (tmp_path / "shapes" / "runs").exists()
    for part in ("train", "test"):
        draw(tmp_path / "parts" / part)
    monkeypatch.chdir(tmp_path / "parts")
    assert fit(".", "--output", "test/run") == 2
    refused(capsys, "--output: received 'test/run', which lies among the classes in 'test'")
    assert fit(".", "--method", "none") == 0  # beside the part, not in it


def test_a_folder_with_the_name_of_a_set_is_mentioned(tmp_path, caplog, monkeypatch):
    from erlangen.estimators import sources

    draw(tmp_path / "mnist")
    monkeypatch.setattr(sources, "load", lambda name, split="train": glyphs(24, size=16, seed=int(split == "test")))
    assert fit("mnist", "--method", "none", "--output", "run") == 0
    assert "write ./mnist" in caplog.text


def test_paths_are_what_shells_take_them_for(shapes, tmp_path, capsys, monkeypatch):
    """A ~ is the home of a user, if there is one of that name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(shapes, "~nouser")
    assert fit("~nouser", "--method", "none", "--output=~/run") == 0
    assert load_run("~/run").config.data == str(tmp_path / "~nouser")
    assert not (tmp_path / "~").exists()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")  # the same data, by other names
    assert fit("../~nouser", "--resume", "--output", "../run", "--steps", "3", tiny=False) == 0
    assert fit("~/~nouser", "--resume", "--output", "~/run", tiny=False) == 0
    assert fit("~/other", "--resume", "--output", "~/run", tiny=False) == 2
    refused(capsys, "DATA: received '~/other' with --resume")


def test_classes_of_any_name(shapes, tmp_path, capsys):
    for source, name in zip(sorted(shapes.iterdir()), (r"$\frac{1$", "猫", '<b>&"', "x" * 40), strict=True):
        shutil.copytree(source, tmp_path / "odd" / name)
    assert fit("odd", "--transform", "tx", "--method", "augerino", "--alpha", "0", "--output", "run") == 0
    assert capsys.readouterr().err == ""
    assert "class 4 is 猫" in (tmp_path / "run" / "report.html").read_text()


def test_quick_is_short_and_heeds_options(shapes):
    command = cli.Fit(data=str(shapes), quick=True, samples=3)
    settings = command.settings()
    assert (settings["steps"], settings["samples"], settings["eval_samples"]) == (120, 3, 8)
    assert cli.Fit(quick=True, epochs=1).settings()["steps"] is None
    assert cli.Fit(quick=True, samples=4).settings({"samples"})["samples"] == 4


def test_a_run_that_goes_on_is_quick_only_if_it_began_so():
    command = cli.Fit(quick=True, resume=True)
    quick = RunConfig(batch_size=64, samples=2, eval_samples=8, steps=500)
    command._check_same(quick, {"quick", "resume"})
    with pytest.raises(ValueError, match="quick: received with --resume for a run that began without it"):
        command._check_same(RunConfig(), {"quick", "resume"})
    typed = replace(command, samples=3)
    typed._check_same(replace(quick, samples=3), {"quick", "resume", "samples"})


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], set()),
        (["--resume", "--output", "glyphs"], {"resume", "output"}),
        (["glyphs", "--lr=0.002"], {"data", "lr"}),
        (["--batch_size", "128", "--net", "small-cnn", "glyphs"], {"batch_size", "net", "data"}),
    ],
)
def test_what_was_typed_is_known(arguments, found):
    assert given(Fit(), arguments) == found


def test_a_run_goes_on_where_its_data_have_been_moved_to(shapes, tmp_path, capsys):
    shutil.copytree(shapes, tmp_path / "old")
    assert fit("old", "--method", "none", "--output", "run") == 0
    (tmp_path / "old").rename("new")
    assert fit("--resume", "--output", "run", tiny=False) == 2
    refused(capsys, "DATA: received", "which does not exist")
    assert fit("new", "--resume", "--output", "run", "--steps", "3", tiny=False) == 0
    assert load_run("run").config.data == str(tmp_path / "new")
    assert fit("--resume", "--output", "run", tiny=False) == 0  # it is remembered
    draw(tmp_path / "other", seed=8)
    capsys.readouterr()
    assert fit("other", "--resume", "--output", "run", tiny=False) == 2
    refused(capsys, "DATA: received other images or labels than the run began with")
    assert load_run("run").config.data == str(tmp_path / "new")
