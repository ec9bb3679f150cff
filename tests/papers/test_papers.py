"""Every file of a paper has its order and its size, runs at SMOKE, and is shown from the rows that it stored."""

import ast
import dataclasses
import importlib
import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from erlangen.papers import experiments, find
from erlangen.papers.base import Claim
from erlangen.papers.draw import png
from erlangen.papers.ltt.common import Training
from erlangen.papers.pages import BLOCK, PAGES, TABLES, headlines, ours, renew, stated, written
from erlangen.papers.results import redraw, section
from erlangen.papers.store import read, record, write

ROOT = Path(__file__).parents[2]
ALL = experiments()
ORDER = ("Config", "FULL", "SMOKE", "PAPER", "build", "run", "show", "EXPERIMENT")


def module(name):
    return importlib.import_module("erlangen.papers." + name.replace("/", "."))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for all files, as they share models."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ERLANGEN_CACHE", str(folder))
        yield folder


def test_the_figures_of_step_3_are_found():
    assert {f"ltt/figure{n}" for n in (2, 3, 5, 6, 7)} <= ALL.keys()
    assert [e.id for e in find("ltt")] == [name for name in ALL if name.startswith("ltt/")]
    assert find("ltt/figure2") == [ALL["ltt/figure2"]]


def test_an_unknown_experiment_is_named_with_what_there_is():
    with pytest.raises(ValueError, match=r"received 'ltt/figure22' \(did you mean ltt/figure2\?\).*ltt/figure3"):
        find("ltt/figure22")


@pytest.mark.parametrize("name", ALL)
def test_a_file_is_short_and_in_order(name):
    source = inspect.getsource(module(name))
    assert len(source.splitlines()) <= 150
    tree = ast.parse(source)
    assert ast.get_docstring(tree)
    assert "Time:" in ast.get_docstring(tree)
    names = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        names += [getattr(target, "id", getattr(target, "name", None)) for target in targets]
    assert [n for n in names if n in ORDER] == list(ORDER)


@pytest.mark.parametrize("name", ALL)
def test_configurations_are_frozen_and_full_is_not_smoke(name):
    experiment = ALL[name]
    assert type(experiment.full) is type(experiment.smoke)
    assert experiment.full != experiment.smoke
    with pytest.raises(dataclasses.FrozenInstanceError):
        experiment.full.seed = 1
    assert experiment.config(seed=3).seed == 3


@pytest.mark.parametrize("name", ALL)
def test_a_file_runs_at_smoke_and_is_shown_from_what_it_stored(name, cache, tmp_path):
    torch.set_default_dtype(torch.float32)
    experiment = ALL[name]
    config = experiment.config(smoke=True)
    rows = experiment.run(config)
    assert rows
    check_claims(experiment, experiment.compare([dict(row) for row in rows]))
    for row in rows:
        assert {"method", "dataset", "seed", "scale", *experiment.keys} <= row.keys()
        for value in row.values():
            assert isinstance(value, bool | int | float | str | np.ndarray)
            assert not isinstance(value, float) or np.isfinite(value)
    path = write(experiment, tmp_path, record(config, rows, device="cpu", seconds=1.0))
    arrays = path.with_suffix(".npz")
    assert arrays.exists() == any(isinstance(value, np.ndarray) for row in rows for value in row.values())
    assert not arrays.exists() or arrays.stat().st_size < 300_000
    stored = read(experiment, tmp_path).rows
    figure = experiment.show(stored)
    assert isinstance(figure, Figure)
    assert 5_000 < len(png(figure)) < 150_000
    pages = redraw(tmp_path, tmp_path / "docs")
    assert tmp_path / "docs" / "images" / f"{name.replace('/', '-')}.png" in pages
    assert f"images/{name.replace('/', '-')}.png" in pages[0].read_text()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([], "not run"),
        ([86.804], "86.8"),
        ([93.96], "94.0"),
        ([2.0], "2"),
        ([-205.3], "-205"),
        ([86.6, 86.9], "86.75 ± 0.21"),
        ([70.0, 80.0], "75.0 ± 7.1"),
        ([100.0, 200.0], "150 ± 71"),
        ([1000.0, 3000.0], "2e+03 ± 1.4e+03"),
        ([1e-11, 3e-11], "2e-11 ± 1.4e-11"),
        ([1.0, 1.0], "1 ± 0"),
    ],
)
def test_a_mean_has_the_digits_that_its_deviation_leaves(values, said):
    assert stated(values) == said


@pytest.mark.parametrize("page", PAGES)
def test_a_page_quotes_what_is_stored(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert written(text, ROOT / "results") == text, "run make results"


def test_what_is_ours_has_what_is_the_papers_before_it():
    lines = [line for line in headlines(ROOT / "results").splitlines() if "Orbits" in line or "votes" in line]
    digits = [row for row in read(ALL["sgm/figure8"], ROOT / "results").rows if row["dataset"] == "mnist"]
    spreads = {row["method"]: f"{row['spread']:.3g}" for row in digits}
    assert [line.split(" | ")[-1] for line in lines] == [f"{spreads[m]} |" for m in ("plain", "voted")]


def test_every_table_is_on_some_page():
    texts = [(ROOT / "docs" / page).read_text(encoding="utf-8") for page in PAGES]
    assert {found[1] for text in texts for found in BLOCK.finditer(text)} == set(TABLES)


EMPTY = "| | 100 labels | 1,000 labels | 10,000 labels |\n|---|---|---|---|\n"


def block(name, table="stale\n"):
    """Where a page has a table."""
    return f"<!-- from stored results: {name} -->\n{table}<!-- end -->\n"


def test_a_page_may_have_several_tables(tmp_path):
    text = f"a\n{block('headlines')}b\n{block('labels')}c\n"
    told = written(text, tmp_path)
    assert told == f"a\n{block('headlines', TABLES['headlines'](tmp_path))}b\n{block('labels', EMPTY)}c\n"
    assert written(told, tmp_path) == told
    broken = "<!-- from stored results: headlines -->\nprose\n\n"  # without an end
    assert written(broken + block("labels"), tmp_path) == broken + block("labels", EMPTY)
    with pytest.raises(ValueError, match="table: received 'unknown'; accepted are headlines, "):
        written(block("unknown"), tmp_path)


def test_a_mean_over_folds_has_their_deviation():
    claim = Claim("accuracy", "digits", {"method": "pstn"})
    row = {"method": "pstn", "accuracy": 81.0464, "deviation": 3.79}
    assert ours(claim, [row, {**row, "method": "cnn"}]) == "81.0 ± 3.8"
    assert ours(claim, [row, {**row, "accuracy": 83.0464}]) == "82.0 ± 1.4"
    assert ours(claim, [{**row, "deviation": None}]) == "81.0"
    assert ours(claim, []) == "not run"


def test_a_table_has_what_was_run(tmp_path):
    page, kept = tmp_path / "docs" / "spatial-transformers.md", {"30": "81.0 ± 3.8", "1,000": "–"}
    (tmp_path / "results" / "pstn").mkdir(parents=True)
    rows = [
        {"method": "pstn", "dataset": "mnist30", "part": "folds", "accuracy": 81.0464, "deviation": 3.79, "ece": 0.03},
        {"method": "cnn", "dataset": "mnist1000", "part": "folds", "accuracy": 95, "deviation": 0.5, "ece": 0.01},
    ]
    stored = {"experiment": "pstn/table2", "runs": [{"id": "a"}], "rows": [{**row, "run": "a"} for row in rows]}
    (tmp_path / "results" / "pstn" / "table2.json").write_text(json.dumps(stored))
    page.parent.mkdir()
    page.write_text(f"before\n{block('few digits')}after\n")
    assert renew(tmp_path / "results", tmp_path / "docs") == [page]
    lines = page.read_text(encoding="utf-8").splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    head, line = (next(x for x in lines if x.startswith(start)).split(" | ") for start in ("| | ", "| P-STN"))
    assert dict(zip((word.removesuffix(" digits") for word in head[1:3]), line[1:3], strict=True)) == kept
    assert line[-1] == "– |"


def test_headlines_are_renewed_and_the_rest_stays(tmp_path):
    readme, table = tmp_path / "README.md", headlines(ROOT / "results")
    (tmp_path / "results" / "ltt").mkdir(parents=True)
    stored = (ROOT / "results" / "ltt" / "table1.json").read_text()
    (tmp_path / "results" / "ltt" / "table1.json").write_text(stored)
    readme.write_text(f"before\n{block('headlines')}after\n")
    assert redraw(tmp_path / "results", tmp_path / "docs")[-1] == readme
    told = readme.read_text(encoding="utf-8")
    assert told.startswith("before\n<!-- from stored results: headlines -->\n| | paper | ours |")
    assert told.endswith("<!-- end -->\nafter\n")
    lines = told.splitlines()[4:-2]
    assert lines
    assert set(lines) < set(table.splitlines())  # of one experiment, not of all


def check_claims(experiment, rows):
    """Every claim is about rows that there are.

    At full scale the names of rows are others than at smoke, but every metric and method is there.
    """
    for claim in experiment.paper:
        where = {k: v for k, v in claim.where.items() if k in ("method", "part", "alpha")}
        assert bool(dataclasses.replace(claim, where=where).values(rows)) == claim.run, claim.what


def test_a_claim_about_no_row_is_found():
    experiment = ALL["ltt/table1"]
    rows = [{claim.metric: 1.0, **claim.where} for claim in experiment.paper if claim.run]
    check_claims(experiment, rows)
    with pytest.raises(AssertionError, match="flow"):
        check_claims(experiment, [row for row in rows if row["method"] != "flow"])


def test_a_model_is_trained_once(cache, monkeypatch):
    from erlangen.papers.ltt import common

    torch.set_default_dtype(torch.float32)
    config = dataclasses.replace(module("ltt/figure2").SMOKE.training, steps=2, seed=7)
    first, _ = common.trained(config)
    assert first.model.conv2.weight.is_contiguous(memory_format=torch.channels_last)  # faster on a CPU
    monkeypatch.setattr(common, "fit", lambda *args, **kwargs: pytest.fail("trained again"))
    again, _ = common.trained(config)
    for (name, a), b in zip(first.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    with pytest.raises(pytest.fail.Exception):
        common.trained(dataclasses.replace(config, seed=8))


def test_a_damaged_model_is_trained_again(cache):
    from erlangen.papers.cache import digest
    from erlangen.papers.ltt import common, data

    torch.set_default_dtype(torch.float32)
    config = dataclasses.replace(module("ltt/figure2").SMOKE.training, steps=2, seed=9)
    first, _ = common.trained(config)
    path = cache / "models" / f"{digest(config, 'cpu', (common.__file__, data.__file__))}.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    again, _ = common.trained(config)
    assert torch.equal(next(first.parameters()), next(again.parameters()))


def test_sets_and_their_outlines_agree():
    from erlangen.papers.ltt.landscape import OUTLINES, SETS, beyond

    for k, name in enumerate(SETS):
        corners = torch.tensor(OUTLINES[name])[:, None].expand(-1, 3, -1)
        assert beyond(corners)[:, k].max() < 0.01  # on the edge, to the digits of the drawing
        assert (beyond(corners * 1.1)[:, k] > 0).all()


def test_two_inputs_are_as_far_apart_as_asked():
    from erlangen.data.glyphs import from_prototype
    from erlangen.papers.ltt.data import glyph_set, two_inputs

    below, above = two_inputs(glyph_set("glyphs-90", 2000, 5), torch.pi / 3)
    assert below.y.tolist() == above.y.tolist() == [0, 1, 2, 3]
    apart = torch.remainder(from_prototype(above) - from_prototype(below), 2 * torch.pi)
    assert torch.allclose(apart.rad2deg(), torch.tensor(60.0), atol=2)


def test_a_weight_stays_then_falls_then_stays():
    from erlangen.papers.ltt.common import Annealed

    weight = Annealed(0.4, 0.1, 10)
    seen = [weight(torch.zeros(())).item() for _ in range(31)]
    assert seen[:11] == pytest.approx([0.4] * 11)
    assert seen[15] == pytest.approx(0.2)
    assert seen[20:] == pytest.approx([0.1] * 11)
    assert weight.eval()(torch.zeros(())).item() == pytest.approx(0.1)


def test_coverage_of_what_is_uniform_on_a_square():
    from erlangen.papers.ltt.landscape import coverage

    inside, covered = coverage(0.85 * (2 * torch.rand(50_000, 3, 2) - 1))
    assert inside[0] == 1
    assert covered.tolist() == [1, 1, 0]  # of the small square each cell has a twentieth of what would be even
    assert inside[2].item() == pytest.approx((0.2 / 0.85) ** 2, abs=0.01)
    small = coverage(0.2 * (2 * torch.rand(50_000, 3, 2) - 1))
    assert small[0][2] == 1
    assert small[1][0].item() == pytest.approx((0.2 / 0.85) ** 2, abs=0.02)


def test_the_page_says_which_settings_were_others(cache, tmp_path):
    torch.set_default_dtype(torch.float32)
    experiment = ALL["ltt/figure2"]
    for seed, batch in ((0, experiment.full.training.batch), (1, 7)):
        training = dataclasses.replace(experiment.full.training, batch=batch)
        config = dataclasses.replace(experiment.full, training=training, seed=seed)
        row = {"method": "flow", "dataset": "none", "seed": seed, "scale": 1.0}
        results = write(experiment, tmp_path, record(config, [row], device="cpu", seconds=1.0))
    assert results.is_file()
    text = section(experiment, read(experiment, tmp_path), "image.png")
    assert text.rstrip().endswith("Settings other than now: training.batch 7 (1 run).")


def test_the_page_says_which_settings_came_later_unless_they_are_the_usual_ones(tmp_path):
    experiment = ALL["sgm/choices"]
    assert experiment.full.training.held > 0
    row = {"method": "full", "dataset": "mnist", "part": "invariance", "seed": 0, "scale": 1.0}
    old = record(experiment.full, [row], device="cpu", seconds=1.0)
    for name in ("held", "balanced", "consistency"):
        del old.runs[0]["config"]["training"][name]
    text = section(experiment, old, "image.png")
    assert text.rstrip().endswith("Settings other than now: no training.held (1 run).")


@pytest.mark.parametrize(
    ("name", "rest"),
    [("figure2", ("glyphs-90",)), ("figure3", (Training(), "flow")), ("figure5", ()), ("figure7", ())],
)
def test_models_are_trained_on_the_pair_that_is_given(name, rest):
    file = module(f"ltt/{name}")
    assert file.build(dataclasses.replace(file.FULL, pair=("a.png", "b.png")), *rest).pair == ("a.png", "b.png")


def test_some_rows_of_a_table():
    config = ALL["ltt/table1"].config(datasets=("mnist",), methods=("flow", "none"))
    assert config.datasets == ("mnist",)
    assert config.methods == ("none", "flow")
    assert {each[0] for each in ALL["ltt/figure6"].config(methods=("augerino",)).methods} == {"augerino"}
    with pytest.raises(ValueError, match=r"methods: received 'gila' for ltt/table1; accepted are none, affine, tta"):
        ALL["ltt/table1"].config(methods=("gila",))
    with pytest.raises(
        ValueError, match=r"datasets: received for ltt/figure2, which has none; accepted are pair, seed, device$"
    ):
        ALL["ltt/figure2"].config(datasets=("mnist",))


def test_parts_that_are_computed_one_by_one_are_no_other_settings():
    """They are the settings of a run as it is now."""
    experiment = ALL["sgm/figure9"]
    for part in experiment.parts(experiment.full)[::10]:
        row = {"method": part.methods[0], "rotation": part.rotations[0], "dataset": "mnist", "seed": 0, "scale": 1.0}
        row |= {"train_size": part.datasets[0][1], "iwlb": 1.0, "iwlb_pixels": 1.0, "mse": 1.0}
        assert "Settings" not in section(experiment, record(part, [row], device="cpu", seconds=1.0), "image.png")
