"""`erlangen reproduce`: what it lists, computes, stores and refuses."""

import json
import math
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from erlangen import cli
from erlangen.papers import experiments
from erlangen.papers import run as run_module
from erlangen.papers.run import reproduce
from erlangen.train import Diverged


@pytest.fixture
def place(tmp_path, monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ERLANGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(capsys, *arguments):
    code = cli.main(["reproduce", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_list_has_every_experiment(place, capsys):
    code, out, _ = run(capsys, "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(experiments())
    assert not (place / "results").exists()


def test_smoke_never_writes_to_the_results(place, capsys):
    code, out, _ = run(capsys, "ltt/figure2", "--smoke")
    assert code == 0
    path = place / "cache" / "smoke" / "ltt" / "figure2.json"
    assert out.splitlines()[-1] == str(path)
    assert json.loads(path.read_text())["experiment"] == "ltt/figure2"
    assert "asked: ≥ 0.97" in out
    assert not (place / "results").exists()


def test_seeds_in_processes_of_their_own_are_those_of_one(place):
    chosen = [experiments()["ltt/figure2"]]
    found = {}
    for jobs in (1, 2):
        for _, results, _ in reproduce(chosen, place / str(jobs), smoke=True, seeds=(0, 1), jobs=jobs):
            found[jobs, results.rows[0]["seed"]] = results.rows[0]["within"]
        stored = json.loads((place / str(jobs) / "ltt" / "figure2.json").read_text())
        assert sorted(run["config"]["seed"] for run in stored["runs"]) == [0, 1]
    assert found[1, 0] == pytest.approx(found[2, 0])
    assert found[1, 1] == pytest.approx(found[2, 1])


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_computed_apart_is_stored_before_the_rest(place, monkeypatch, jobs):
    chosen = experiments()["pstn/table1"]
    seeds = (0, 1)[:jobs]

    def stored():
        path = place / "pstn" / "table1.json"
        return json.loads(path.read_text())["rows"] if path.exists() else []

    if jobs == 1:
        for count, (_, results, _) in enumerate(reproduce([chosen], place, smoke=True, seeds=seeds, jobs=jobs), 1):
            assert [row["method"] for row in results.rows] == [chosen.smoke.methods[count - 1]]
            assert len(stored()) == count
    else:
        assert len(list(reproduce([chosen], place, smoke=True, seeds=seeds, jobs=jobs))) == 2 * len(
            chosen.smoke.methods
        )
    assert {(row["method"], row["seed"]) for row in stored()} == {(m, s) for m in chosen.smoke.methods for s in seeds}


def test_parts_without_rows_are_passed_over_unless_all_are(place):
    chosen = [experiments()["sgm/figure8"]]

    def found(**some):
        return [results.rows[0]["dataset"] for _, results, _ in reproduce(chosen, place, smoke=True, changes=some)]

    assert found(methods=("plain",), datasets=("mnist", "colour")) == ["mnist"]
    with pytest.raises(ValueError, match="received those of no row"):
        found(methods=("plain",), datasets=("colour",))


def until(error, found):
    """What is yielded before an error, which must come."""
    try:
        yield from found
    except error:
        return
    pytest.fail(f"no {error.__name__}")


def test_what_could_not_be_stored_is_not_computed(place, monkeypatch):
    folder = place / "ltt"
    folder.mkdir()
    (folder / "figure2.json").write_text("{")
    monkeypatch.setattr(run_module, "_one", lambda *_: pytest.fail("it was run"))
    with pytest.raises(ValueError, match=r"figure2\.json: not a JSON file"):
        list(reproduce([experiments()[name] for name in ("ltt/figure3", "ltt/figure2")], place, smoke=True))
    with pytest.raises(NotADirectoryError, match="figure2"):
        list(reproduce([experiments()["ltt/figure2"]], folder / "figure2.json", smoke=True))


def test_where_one_fails_the_others_go_on(place, monkeypatch, caplog):
    chosen = experiments()["pstn/table1"]
    failing, every = (chosen.smoke.methods[0], 0), [(m, seed) for seed in (0, 1) for m in chosen.smoke.methods]

    def compute(config):
        if (config.methods[0], config.seed) == failing:
            raise Diverged(7, math.nan, 3, None)
        return [{"method": config.methods[0], "dataset": "a", "seed": config.seed}]

    monkeypatch.setattr("erlangen.papers.run.experiments", lambda: {chosen.id: replace(chosen, compute=compute)})
    found = until(Diverged, reproduce([chosen], place, smoke=True, seeds=(0, 1)))
    assert [(row["method"], row["seed"]) for _, results, _ in found for row in results.rows] == every[1:]
    stored = json.loads((place / "pstn" / "table1.json").read_text())["rows"]
    assert [(row["method"], row["seed"]) for row in stored] == every[1:]
    assert f"pstn/table1, methods=('{failing[0]}',), seed=0 failed: the loss is nan at step 7" in caplog.text


def test_where_a_process_fails_the_others_go_on():
    futures = [Future() for _ in range(3)]
    futures[0].set_result(["first"])
    futures[1].set_exception(Diverged(7, math.nan, 3, None))
    futures[2].set_result(["last"])
    assert list(until(Diverged, run_module._all(map(run_module._result, futures)))) == ["first", "last"]


def test_parts_together_are_the_whole():
    for experiment in experiments().values():
        for config in (experiment.full, experiment.smoke):
            parts = experiment.parts(config)
            for name in experiment.apart:
                every = list(dict.fromkeys(one for part in parts for one in getattr(part, name)))
                assert every == list(getattr(config, name))
            assert len(parts) == len({repr(part) for part in parts})


def test_an_interrupt_is_a_sentence(place, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("erlangen.papers.run._one", interrupted)
    code, out, err = run(capsys, "ltt/figure2", "--smoke")
    assert (code, out) == (130, "")
    assert err.startswith("erlangen: stopped; what was trained is kept")


def test_seeds_begin_with_the_first_and_others_stay(place, capsys):
    for options in ([], ["--first", "2", "--seeds", "2"]):
        code, _, _ = run(capsys, "sgm/figure12", "--smoke", *options)
        assert code == 0
    stored = json.loads((place / "cache" / "smoke" / "sgm" / "figure12.json").read_text())
    assert sorted(run["config"]["seed"] for run in stored["runs"]) == [0, 2, 3]
    assert {row["seed"] for row in stored["rows"]} == {0, 2, 3}


def test_a_pair_of_pictures_takes_the_place_of_the_glyphs(place, capsys, monkeypatch):
    full = experiments()["ltt/figure2"]
    monkeypatch.setattr("erlangen.papers.find", lambda name: [replace(full, full=full.smoke)])
    for name, seed in (("left.png", 0), ("right.bmp", 1)):
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 40, 3), dtype=np.uint8) * np.uint8([0, 1, 1])
        Image.fromarray(pixels).save(place / name)
    code, out, _ = run(capsys, "ltt/figure2", "--pair", "left.png", "right.bmp", "--device", "cpu")
    assert code == 0
    assert out.splitlines()[-1] == "runs/left-right/ltt/figure2.json"
    stored = json.loads((place / "runs/left-right/ltt/figure2.json").read_text())
    assert stored["runs"][0]["config"]["pair"] == [str(place / "left.png"), str(place / "right.bmp")]
    assert not (place / "results").exists()
    with np.load(place / "runs/left-right/ltt/figure2.npz") as arrays:
        inputs = next(arrays[name] for name in arrays if name.endswith("inputs"))
    assert inputs[..., 0, :, :].max() < 30  # our glyphs have red
    assert inputs[..., 1:, :, :].max() > 100


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("ltt/figure6",), "pair: received for ltt/figure6, which has none"),
        (("ltt/figure2",), "--pair: received missing.png, no such file"),
    ],
)
def test_a_pair_that_cannot_be_used_is_refused(place, capsys, words, reason):
    Image.new("RGB", (8, 8)).save(place / "there.png")
    second = "there.png" if "figure6" in words[0] else "missing.png"
    code, _, err = run(capsys, *words, "--smoke", "--pair", "there.png", second)
    assert code == 2
    assert reason in err


def test_the_report_says_what_was_not_run(place, capsys):
    (place / "results").mkdir()
    code, out, _ = run(capsys, "--report")
    assert code == 0
    assert out.split() == ["docs/results.md"]
    text = (place / "docs" / "results.md").read_text()
    for name in experiments():
        assert f"### {name}" in text
        assert f"Not run: `erlangen reproduce {name}" in text
    assert "| not run |" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give an experiment, --report or --list."),
        (["ltt/figur2"], "did you mean ltt/figure2?"),
        (["nobody"], "accepted is one of genuine/figure2"),
        (["ltt/figure2", "--device", "abacus"], "--device: received 'abacus'; accepted is one of auto, cpu, cuda"),
        (["ltt/figure2", "--seeds", "0"], "--seeds: received 0; accepted is an integer > 0"),
        (["ltt/figure2", "--first", "-1"], "accepted is an integer >= 0"),
        (["ltt/figure2", "--smoke", "--jobs", "-1"], "accepted is an integer > 0"),
        (["--report", "--results", "resluts"], "--results: received resluts, which is no folder"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(place, capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert not (place / "results").exists()


def test_a_broken_result_file_is_refused_and_stays(place, capsys):
    path = place / "results" / "ltt" / "figure5.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    code, _, err = run(capsys, "--report")
    assert code == 2
    assert "figure5.json" in err
    assert path.read_text() == "{"
