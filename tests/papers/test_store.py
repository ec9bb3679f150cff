import io
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from erlangen.papers import store
from erlangen.papers.base import Claim, Experiment, tidy
from erlangen.papers.results import section
from erlangen.papers.store import Results, read, record, write

KEYS = ("method", "seed")
TOY = Experiment(
    "toy/table",
    "A toy.\n\nMore.",
    None,
    None,
    (Claim("score", "a score", {"method": "ours"}, "3", low=2),),
    *[None] * 2,
    KEYS,
)


def rows(seed, score, **more):
    return [{"method": m, "seed": seed, "score": score, **more} for m in ("ours", "theirs")]


def single(_):
    """An array, where several are looked for by their names."""
    file = io.BytesIO()
    np.save(file, np.arange(3))
    return file.getvalue()


def stored(tmp_path):
    return json.loads((tmp_path / "toy" / "table.json").read_text())


def test_a_file_has_runs_and_rows_that_name_them(tmp_path):
    path = write(TOY, tmp_path, record({"steps": 3}, rows(0, 1.0), device="cpu", seconds=2.0))
    assert path == tmp_path / "toy" / "table.json"
    content = stored(tmp_path)
    assert content["experiment"] == "toy/table"
    assert [set(run) for run in content["runs"]] == [{"id", "config", "provenance"}]
    assert content["runs"][0]["config"] == {"steps": 3}
    assert content["runs"][0]["provenance"]["seconds"] == 2.0
    assert {row["run"] for row in content["rows"]} == {content["runs"][0]["id"]}


def test_a_new_run_replaces_only_rows_with_the_same_keys(tmp_path):
    for seed, score in ((0, 1.0), (1, 2.0)):
        write(TOY, tmp_path, record({}, rows(seed, score), device="cpu", seconds=1))
    write(TOY, tmp_path, record({}, rows(0, 5.0)[:1], device="cpu", seconds=1))
    found = {(row["method"], row["seed"]): row["score"] for row in stored(tmp_path)["rows"]}
    assert found == {("ours", 0): 5.0, ("theirs", 0): 1.0, ("ours", 1): 2.0, ("theirs", 1): 2.0}
    assert len(stored(tmp_path)["runs"]) == 3
    write(TOY, tmp_path, record({}, rows(0, 6.0), device="cpu", seconds=1))
    assert len(stored(tmp_path)["runs"]) == 2  # those without rows are forgotten
    write(TOY, tmp_path, read(TOY, tmp_path))
    assert len(stored(tmp_path)["runs"]) == 2  # a run is told once, though its rows come again


def test_a_plot_shows_what_a_table_has_stored(tmp_path):
    plot = replace(
        TOY, id="toy/plot", shows="toy/table", compare=lambda rows: [r for r in rows if r["method"] == "ours"]
    )
    write(TOY, tmp_path, record({}, rows(0, 1.0), device="cpu", seconds=1))
    assert [row["method"] for row in read(plot, tmp_path).rows] == ["ours"]  # of ours and theirs
    path = write(plot, tmp_path, record({}, rows(1, 2.0), device="cpu", seconds=1))
    assert path == tmp_path / "toy" / "table.json"
    assert len(read(TOY, tmp_path).rows) == 4
    assert stored(tmp_path)["experiment"] == "toy/table"


def test_comparisons_are_of_all_that_is_stored_and_not_stored(tmp_path):
    def compare(rows):
        for row in rows:
            row["lead"] = row["score"] - min(r["score"] for r in rows)
        return [*rows, {"method": "best", "seed": 0, "score": max(r["score"] for r in rows)}]

    toy = replace(TOY, compare=compare)
    for seed, score in ((0, 1.0), (1, 4.0)):  # part by part
        write(toy, tmp_path, record({}, rows(seed, score), device="cpu", seconds=1))
    assert [row.get("lead") for row in read(toy, tmp_path).rows] == [0, 0, 3, 3, None]
    assert [row["score"] for row in read(toy, tmp_path).rows] == [1, 1, 4, 4, 4]
    assert len(stored(tmp_path)["rows"]) == 4
    assert all("lead" not in row for row in stored(tmp_path)["rows"])


@pytest.mark.parametrize("locked", [True, False])
def test_of_several_that_store_together_none_is_lost(tmp_path, monkeypatch, locked):
    """Each reads before any has written; twin: without the lock all but the last are lost."""
    monkeypatch.setenv("ERLANGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_read", lambda *place, own=store._read: (own(*place), time.sleep(0.2))[0])
    if not locked:
        monkeypatch.setattr(store, "alone", lambda path: nullcontext())
    runs = [record({}, rows(seed, 1.0), device="cpu", seconds=1) for seed in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda run: write(TOY, tmp_path, run), runs))
    seeds = {row["seed"] for row in stored(tmp_path)["rows"]}
    assert (seeds == {0, 1, 2}) == locked
    assert not list((tmp_path / "toy").glob("*lock*"))


def test_arrays_lie_beside_and_come_back(tmp_path):
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    write(TOY, tmp_path, record({}, rows(0, 1.0, image=image), device="cpu", seconds=1))
    write(TOY, tmp_path, record({}, rows(1, 1.0, image=image + 1), device="cpu", seconds=1))
    assert all(not isinstance(value, list) for row in stored(tmp_path)["rows"] for value in row.values())
    for row in read(TOY, tmp_path).rows:
        assert np.array_equal(row["image"], image + row["seed"])
    (tmp_path / "toy" / "table.npz").unlink()
    with pytest.raises(
        ValueError, match=r"table.npz: has no 'ours/0/image'; restore it, or remove .*table.json and run"
    ):
        read(TOY, tmp_path)


@pytest.mark.parametrize("damage", [lambda b: b[:-40], lambda b: b[:50] + b"?" * 30 + b[80:], lambda b: b"", single])
def test_damaged_arrays_are_named(tmp_path, damage):
    write(TOY, tmp_path, record({}, rows(0, 1.0, image=np.arange(600)), device="cpu", seconds=1))
    path = tmp_path / "toy" / "table.npz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"^.*table\.npz: received a file that is damaged .*; restore it, or remove"):
        read(TOY, tmp_path)


def test_nothing_stored_is_nothing_and_another_file_is_refused(tmp_path):
    assert read(TOY, tmp_path) == Results()
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "table.json").write_text('{"experiment": "other", "rows": []}')
    with pytest.raises(ValueError, match="accepted are the results of toy/table"):
        read(TOY, tmp_path)


def test_a_folder_in_the_place_of_results_is_refused(tmp_path):
    (tmp_path / "toy" / "table.json").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"table\.json: received a folder; accepted is a file of results"):
        read(TOY, tmp_path)


@pytest.mark.parametrize(
    "parts", [{"rows": []}, {"rows": [], "runs": {}}, {"rows": [3], "runs": []}, {"rows": [{"seed": 0}], "runs": []}]
)
def test_a_file_without_its_parts_is_refused(tmp_path, parts):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "table.json").write_text(json.dumps({"experiment": "toy/table", **parts}))
    with pytest.raises(ValueError, match=r"^.*table\.json: received another kind of file; accepted are the results of"):
        write(TOY, tmp_path, record({}, rows(0, 1.0), device="cpu", seconds=1))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([{"method": "a", "seed": 0, "score": [1, 2]}], "received list; accepted are plain columns"),
        ([{"method": "a"}], "received no seed"),
        ([{"method": "a", "seed": 0}] * 2, "twice"),
    ],
)
def test_rows_that_are_not_tidy_are_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        tidy(bad, KEYS)


def test_the_report_has_paper_ours_and_spread_side_by_side():
    assert "| a score | 3 | ≥ 2 | not run | – |" in section(TOY, Results(), "x.png")
    assert "Not run: `erlangen reproduce toy/table" in section(TOY, Results(), "x.png")
    two = [record({}, rows(seed, 1.0 + 2 * seed, scale=0.5), device="cpu", seconds=3) for seed in (0, 1)]
    text = section(TOY, Results([r for t in two for r in t.runs], [r for t in two for r in t.rows]), "x.png")
    assert "| a score | 3 | ≥ 2 | 2.0 ± 1.4 | yes, 1 of 2 |" in text
    below = [{**row, "score": row["score"] - 0.1} for t in two for row in t.rows]
    assert "| 1.9 ± 1.4 | no, 1 of 2 |" in section(TOY, Results(two[0].runs, below), "x.png")
    assert "| 2.90 | yes |" in section(TOY, Results(two[0].runs, below[1:]), "x.png")
    assert "![toy/table](x.png)" in text
    assert "2 runs, 6 s on" in text
    assert "scale 50 %" in text


@pytest.mark.parametrize(
    ("low", "high", "asked", "held"),
    [(None, None, "–", [1, 2, 3]), (2, None, "≥ 2", [2, 3]), (None, 2, "≤ 2", [1, 2]), (2, 2.5, "2 to 2.5", [2])],
)
def test_claims(low, high, asked, held):
    claim = Claim("score", "what", low=low, high=high)
    assert claim.asked == asked
    assert [x for x in (1, 2, 3) if claim.holds(x)] == held
