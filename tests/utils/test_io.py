import json
import math
import os
import stat
import subprocess
import sys
import threading
from collections import namedtuple
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import erlangen
from erlangen.utils import io
from erlangen.utils.io import append_jsonl, plain, provenance, read_json, read_jsonl, write_json, write_jsonl

PATH = PurePosixPath("x/y")


@dataclass(frozen=True)
class Inner:
    size: tuple[int, int] = (2, 3)


@dataclass(frozen=True)
class Config:
    name: str = "a"
    path: PurePosixPath = PATH
    inner: Inner = Inner()


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (np.bool_(True), True),
        (torch.tensor(True), True),
        (3, 3),
        (np.uint8(3), 3),
        (torch.tensor(3), 3),
        (0.5, 0.5),
        (np.float32(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
        ("é", "é"),
        (np.str_("a"), "a"),
        (PurePosixPath("a/b"), "a/b"),
        ((1, 2), [1, 2]),
        (Pair(1, 2), [1, 2]),
        (np.arange(6).reshape(2, 3), [[0, 1, 2], [3, 4, 5]]),
        (np.zeros((0, 2)), []),
        (torch.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
        (torch.nn.Parameter(torch.ones(2)), [1.0, 1.0]),
        (np.array([1.0, np.nan, np.inf]), [1.0, None, None]),
        (torch.tensor([math.nan, -math.inf, 2.0]), [None, None, 2.0]),
        ([math.nan, math.inf, -math.inf, np.float64("nan")], [None] * 4),
        (Config(), {"name": "a", "path": "x/y", "inner": {"size": [2, 3]}}),
        ({"a": {"b": ()}}, {"a": {"b": []}}),
    ],
)
def test_plain(value, expected):
    result = plain(value)
    assert result == expected
    assert type(result) is type(expected) or isinstance(result, str)
    assert json.loads(json.dumps(result, allow_nan=False)) == expected


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (object(), r"^value: received object"),
        ({"a": [0, {"b": {1, 2}}]}, r"^value\.a\[1\]\.b: received set"),
        ({"a": {1: 2}}, r"^value\.a: received the key 1 of type int"),
        ([1j], r"^value\[0\]: received complex"),
        (np.array([1j]), r"^value\[0\]: received complex"),
        ({"t": torch.tensor([[1j]])}, r"^value\.t\[0\]\[0\]: received complex"),
        ([b"x"], r"^value\[0\]: received bytes"),
        ([Config], r"^value\[0\]: received type"),
        (Config(name=torch.float32), r"^value\.name: received dtype"),  # pyright: ignore
        ([np.datetime64("2020-01-01")], r"^value\[0\]: received datetime64"),
        ({"m": torch.zeros(2, device="meta")}, r"^value\.m: received a tensor without plain values"),
    ],
)
def test_what_json_cannot_say_is_refused_at_its_place_and_nothing_is_written(tmp_path, value, place):
    with pytest.raises(TypeError, match=place):
        plain(value)
    for name, write in (("a.json", write_json), ("a.jsonl", lambda path, value: write_jsonl(path, [{}, value]))):
        with pytest.raises(TypeError):
            write(tmp_path / "new" / name, value)
    with pytest.raises(TypeError):
        append_jsonl(tmp_path / "new" / "b.jsonl", {"row": value})
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_contains_itself_is_refused():
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match=r"^value: received a value that contains itself"):
        plain(loop)


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@given(value=values)
def test_json_comes_back_as_it_was(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "a.json"
    write_json(path, value)
    assert read_json(path) == value


@given(rows=st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=5))
def test_rows_come_back_as_they_were_written_or_appended(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("jsonl")
    write_jsonl(folder / "a.jsonl", rows)
    write_jsonl(folder / "b.jsonl", [])
    for row in rows:
        append_jsonl(folder / "b.jsonl", row)
    assert read_jsonl(folder / "a.jsonl") == read_jsonl(folder / "b.jsonl") == rows
    assert (folder / "a.jsonl").read_bytes() == (folder / "b.jsonl").read_bytes()


def test_the_file_is_json_for_a_browser_too(tmp_path):
    write_json(tmp_path / "a.json", {"loss": math.nan})
    assert (tmp_path / "a.json").read_text() == '{\n  "loss": null\n}\n'


def test_missing_folders_are_made_and_text_paths_accepted(tmp_path):
    write_json(str(tmp_path / "a" / "b.json"), 1)
    append_jsonl(str(tmp_path / "c" / "d.jsonl"), {"a": 1})
    assert read_json(str(tmp_path / "a" / "b.json")) == 1
    assert read_jsonl(str(tmp_path / "c" / "d.jsonl")) == [{"a": 1}]


def test_the_file_has_the_usual_permissions(tmp_path):
    umask = os.umask(0o027)
    try:
        write_json(tmp_path / "a.json", 1)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.json").symlink_to("target.json")
    write_json(tmp_path / "link.json", 1)
    assert (tmp_path / "link.json").is_symlink()
    assert read_json(tmp_path / "target.json") == 1


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, error):
    path = tmp_path / "a.json"
    write_json(path, "old")

    def fail(*arguments):
        assert len(list(tmp_path.iterdir())) == 2, "the new content goes to a file in the same folder first"
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(error):
        write_json(path, "new")
    with pytest.raises(error):
        write_jsonl(path, [{"new": 1}])
    assert read_json(path) == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_rows_that_fail_half_way_leave_the_old_file(tmp_path):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"a": 1}])
    with pytest.raises(TypeError, match=r"^rows\[1\]\.a: received object"):
        write_jsonl(path, ({"a": value} for value in (2, object())))
    assert read_jsonl(path) == [{"a": 1}]


def test_a_file_that_is_not_json_is_named(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ValueError, match=r"a\.json: not a JSON file"):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize("row", [1, [1], "a", None])
def test_a_row_is_an_object(tmp_path, row):
    with pytest.raises(TypeError, match=r"^row: received .*, accepted are mappings and dataclasses"):
        append_jsonl(tmp_path / "a.jsonl", row)
    with pytest.raises(TypeError, match=r"^rows\[0\]: received"):
        write_jsonl(tmp_path / "a.jsonl", [row])


@pytest.mark.parametrize("length", range(len('{"a": 22}')))
def test_a_cut_last_line_is_ignored_and_healed(tmp_path, length):
    path = tmp_path / "a.jsonl"
    write_jsonl(path, [{"a": 1}])
    with path.open("a") as file:
        file.write('{"a": 22}'[:length])
    assert read_jsonl(path) == [{"a": 1}]
    append_jsonl(path, {"a": 3})
    append_jsonl(path, {"a": 4})
    assert read_jsonl(path) == [{"a": 1}, {"a": 3}, {"a": 4}]


def test_a_cut_first_line_is_healed(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": "\xc3')  # cut inside a character
    assert read_jsonl(path) == []
    append_jsonl(path, {"a": 1})
    assert read_jsonl(path) == [{"a": 1}]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}')
    assert read_jsonl(path) == [{"a": 1}, {"a": 2}]
    append_jsonl(path, {"a": 3})
    assert read_jsonl(path) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_healing_keeps_a_row_that_another_process_appended_meanwhile(tmp_path, monkeypatch):
    """Where there are no locks."""
    monkeypatch.setattr(io, "_lock", lambda file: None)
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2')
    parse = io._row

    def parse_while_another_appends(line):  # between the look at the cut line and its healing
        monkeypatch.setattr(io, "_row", parse)
        append_jsonl(path, {"a": 3})
        return parse(line)

    monkeypatch.setattr(io, "_row", parse_while_another_appends)
    append_jsonl(path, {"a": 4})
    assert read_jsonl(path) == [{"a": 1}, {"a": 3}, {"a": 4}]


@pytest.mark.parametrize("broken", ['{"a": 2', "nonsense", "2", "[2]", "\x00\x00"])
def test_any_other_broken_line_is_an_error_that_names_it(tmp_path, broken):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1}}\n{broken}\n{{"a": 3}}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: received .*, accepted is a JSON object"):
        read_jsonl(path)


def test_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"a": "\u2028\x85"}\r\n\n{"a": 2}\r\n'.encode())
    assert read_jsonl(path) == [{"a": "\u2028\x85"}, {"a": 2}]


def test_append_is_one_write_at_the_end(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    opened, original = [], Path.open

    def spy(self, mode, **options):
        opened.append((mode, options.get("buffering")))
        return original(self, mode, **options)

    monkeypatch.setattr(Path, "open", spy)
    append_jsonl(path, {"a": "x" * 100_000})
    assert opened == [("ab", 0), ("rb", None)]  # unbuffered and O_APPEND, then a look at the last byte


def test_several_processes_append_to_one_file(tmp_path):
    path = tmp_path / "a.jsonl"
    code = (
        "import sys; from erlangen.utils.io import append_jsonl\n"
        "for i in range(200): append_jsonl(sys.argv[1], {'writer': int(sys.argv[2]), 'i': i, 'fill': 'x' * 999})"
    )
    source = Path(erlangen.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    workers = [subprocess.Popen([sys.executable, "-c", code, path, str(n)], env=environment) for n in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    rows = read_jsonl(path)
    for n in range(2):
        assert [row["i"] for row in rows if row["writer"] == n] == list(range(200))


def test_a_row_waits_for_another_that_is_being_written(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    path = tmp_path / "a.jsonl"
    writer = threading.Thread(target=append_jsonl, args=(path, {"a": 2}))
    with path.open("ab", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b'{"a": ')  # half a row, which must not be taken for one cut short
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        file.write(b"1}\n")
    writer.join()
    assert read_jsonl(path) == [{"a": 1}, {"a": 2}]


def test_a_disk_that_takes_part_of_a_row_is_an_error(tmp_path, monkeypatch):
    full = SimpleNamespace(write=lambda content: len(content) - 1)
    monkeypatch.setattr(io, "_ends_a_line", lambda path: True)
    monkeypatch.setattr(io, "_lock", lambda file: None)
    monkeypatch.setattr(Path, "open", lambda *arguments, **options: nullcontext(full))
    with pytest.raises(OSError, match="only part of the row"):
        append_jsonl(tmp_path / "a.jsonl", {"a": 1})


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    return subprocess.check_output(["git", *identity, *arguments], cwd=folder, text=True).strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    root = tmp_path / "checkout"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("1")
    try:
        git(root, "init", "-q")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    monkeypatch.setattr(io, "ROOT", root)
    return root


def test_provenance_says_everything():
    record = provenance(Config(), device="cpu", seconds=torch.tensor(1.5))
    keys = "commit dirty versions platform device device_name threads time config seconds"
    assert list(record) == keys.split()
    assert record["versions"] == {
        "erlangen": erlangen.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
    }
    assert record["config"] == {"name": "a", "path": "x/y", "inner": {"size": [2, 3]}}
    assert record["seconds"] == 1.5
    assert record["device"] == "cpu"
    assert record["device_name"]
    assert record["threads"] == torch.get_num_threads()
    assert abs(datetime.now(UTC) - datetime.fromisoformat(record["time"])) < timedelta(minutes=1)
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_provenance_of_nothing_in_particular():
    record = provenance()
    assert (record["config"], record["seconds"], record["device"]) == (None, None, "cpu")


def test_a_configuration_that_cannot_be_stored_is_named():
    with pytest.raises(TypeError, match=r"^config\.net: received object"):
        provenance({"net": object()})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_provenance_names_the_cuda_device():
    assert provenance(device="cuda")["device_name"] == torch.cuda.get_device_name()


def test_the_commit_is_that_of_the_checkout(checkout):
    record = provenance()
    assert record["commit"] == git(checkout, "rev-parse", "HEAD")
    assert record["dirty"] is False


@pytest.mark.parametrize(
    ("name", "dirty"),
    [("src/a.py", True), ("src/new.html", True), ("benchmarks/bench_a.py", True), ("benchmarks/results/a.json", False)],
)
def test_changed_code_is_dirty_and_results_are_not(checkout, name, dirty):
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("2")
    assert provenance()["dirty"] is dirty


def test_a_worktree_is_a_checkout(checkout, tmp_path, monkeypatch):
    git(checkout, "worktree", "add", "-q", str(tmp_path / "tree"))
    monkeypatch.setattr(io, "ROOT", tmp_path / "tree")
    assert provenance()["commit"] == git(checkout, "rev-parse", "HEAD")


def test_a_git_hook_does_not_lead_to_another_repository(checkout, tmp_path, monkeypatch):
    commit = git(checkout, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    record = provenance()
    assert (record["commit"], record["dirty"]) == (commit, False)


def test_no_commit_outside_a_checkout_of_our_own(checkout, monkeypatch):
    monkeypatch.setattr(io, "ROOT", checkout / "src")  # inside somebody's repository, but not the top of one
    assert (provenance()["commit"], provenance()["dirty"]) == (None, None)


def test_no_commit_before_the_first(checkout):
    git(checkout, "update-ref", "-d", "HEAD")
    assert (provenance()["commit"], provenance()["dirty"]) == (None, None)


@pytest.mark.parametrize("error", [FileNotFoundError("git"), subprocess.TimeoutExpired("git", 10)])
def test_no_commit_where_git_is_missing_or_hangs(checkout, monkeypatch, error):
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=error))
    assert (provenance()["commit"], provenance()["dirty"]) == (None, None)


def test_a_processor_without_a_name_still_has_an_architecture(monkeypatch):
    monkeypatch.setattr(Path, "read_text", Mock(side_effect=FileNotFoundError))
    assert io._cpu_name()
