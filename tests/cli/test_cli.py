import importlib
import os
import re
import signal
import subprocess
import sys

import pytest

import erlangen
from erlangen import cli
from erlangen.estimators import RunConfig, load_run
from erlangen.estimators.demo import demo
from erlangen.estimators.runs import DATA, write_record
from erlangen.report import gallery as drawing


def run(*arguments, cwd=None):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(erlangen.__file__)), "COLUMNS": "100"}
    command = [sys.executable, "-m", "erlangen", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def test_version():
    result = run("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"erlangen {erlangen.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_help_names_the_commands(arguments):
    result = run(*arguments)
    assert result.returncode == 0
    for word in ("fit", "demo", "gallery", "figures", "reproduce", "--version"):
        assert word in result.stdout


@pytest.mark.parametrize("name", ["fit", "symmetries", "audit", "check", "demo", "gallery", "figures", "reproduce"])
def test_help_is_wrapped_at_the_width_of_the_terminal_alone(name, capsys, monkeypatch):
    """A break within a docstring would come out as one within a line, and a switch needs no opposite."""
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    said = capsys.readouterr().out
    assert re.findall(r"[a-z,;:.] {30,}[│ ]*\n[│ ] {12,}\w+", said) == []  # with room for another word
    assert "(default: )" not in said
    assert "--no-" not in said


def test_nobody_reads_the_help_to_its_end():
    command = [sys.executable, "-m", "erlangen", "fit", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


def test_help_loads_nothing_heavy():
    code = "import sys; from erlangen import cli; print({'torch', 'numpy', 'matplotlib'} & sys.modules.keys())"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(erlangen.__file__))}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout.strip() == "set()", result.stderr


@pytest.mark.parametrize("arguments", [["dmo"], ["demo", "--outptu", "x"], ["demo", "--output"]])
def test_a_mistyped_command_is_refused(arguments):
    result = run(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_gallery_says_what_it_drew_and_nothing_else(tmp_path, capsys, monkeypatch):
    def draws(folder, tell):
        tell(0.5, "half of it")
        return folder / "gallery.png", folder / "gallery.html"

    monkeypatch.setattr(sys.modules[drawing.__module__], "gallery", draws)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["gallery"]) == 0
    said = capsys.readouterr()
    assert said.out.split() == [os.path.join("gallery", name) for name in ("gallery.png", "gallery.html")]
    assert said.err == ""  # no terminal, no bar


def test_demo_leaves_a_page_a_picture_and_runs_that_go_on(tmp_path, monkeypatch):
    result = run("demo", "--quick", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [os.path.join("demo", name) for name in ("demo.html", "demo.png")]
    assert result.stderr == ""
    assert load_run(tmp_path / "demo" / "flow").config.method == "flow"
    text = (tmp_path / "demo" / "demo.html").read_text()
    assert text.count("<img") == 1 + 4 * 10 + 3 * 9 + 1  # answers, views, three steps of nine copies, accuracy
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "nan" not in re.sub(r"base64,[^\"]+", "", text)  # forty pictures do not fill every bin of angles
    weights = (tmp_path / "demo" / "flow" / "model.safetensors").read_bytes()
    (tmp_path / "demo" / "flow" / "model.safetensors").unlink()  # as if it had been killed before the end
    for name, drawn in {"_look": None, "demo_page": "", "demo_picture": b""}.items():  # was seen above
        monkeypatch.setattr(sys.modules[demo.__module__], name, lambda *_, drawn=drawn: drawn)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert cli.main(["demo", "--quick", "--output", str(tmp_path / "demo")]) == 0
    assert (tmp_path / "demo" / "flow" / "model.safetensors").read_bytes() == weights


def test_a_demonstration_does_not_go_on_with_a_quick_one(tmp_path, capsys):
    write_record(tmp_path / "flow", {"config": RunConfig(steps=10, transform=("angle",)), "data": dict.fromkeys(DATA)})
    assert cli.main(["demo", "--output", str(tmp_path)]) == 2
    assert "where flow has 10 steps; accepted are runs of 1200, or none. Remove --output" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["flow"]


def test_demo_overwrites_nothing_of_others(tmp_path, capsys):
    (tmp_path / "none").mkdir()  # the last that it would come to
    (tmp_path / "none" / "mine.txt").write_text("mine")
    assert cli.main(["demo", "--quick", "--output", str(tmp_path)]) == 2
    assert "which holds other files" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["none"]
    assert os.listdir(tmp_path / "none") == ["mine.txt"]


def test_demo_knows_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "none").write_text("mine")
    with pytest.raises(FileExistsError, match=f"received '{tmp_path}/shown/none', which is a file"):
        demo("~/shown")


@pytest.mark.parametrize("command", ["demo", "gallery", "figures"])
def test_a_file_as_output_is_refused(tmp_path, capsys, command):
    (tmp_path / "taken").write_text("mine")
    assert cli.main([command, "--output", str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().err.endswith("is a file; give a folder.\n")
    assert cli.main([command, "--output", str(tmp_path / "taken" / "below")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("erlangen: cannot write to --output")
    assert error.count("\n") == 1
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_writable_is_refused(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert cli.main(["demo", "--output", str(tmp_path)]) == 2
    assert "permission denied" in capsys.readouterr().err


def test_an_interrupt_is_one_sentence(tmp_path, capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules[drawing.__module__], "gallery", interrupted)
    assert cli.main(["gallery", "--output", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "erlangen: stopped; nothing was written.\n"


@pytest.mark.parametrize(
    ("command", "place", "words"),
    [
        ("gallery", "erlangen.report.gallery.gallery_page", "stopped; nothing was written."),
        ("figures", "erlangen.report.conventions.figures", "stopped; figures that were finished before are there."),
        ("demo", "erlangen.estimators.demo.demo", "stopped; the same command goes on from here."),
    ],
)
def test_a_request_to_end_is_an_interrupt_of_every_command(command, place, words, tmp_path, capsys, monkeypatch):
    def ended(*args, **kwargs):
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL  # else it would end the tests
        signal.raise_signal(signal.SIGTERM)

    module, _, name = place.rpartition(".")
    monkeypatch.setattr(importlib.import_module(module), name, ended)
    monkeypatch.setattr("erlangen.report.densities.densities", lambda *args: [])
    monkeypatch.setattr(importlib.import_module("erlangen.report.gallery"), "gallery_picture", lambda tell: b"")
    assert cli.main([command, "--output", str(tmp_path)]) == 130
    assert capsys.readouterr().err == f"erlangen: {words}\n"
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_an_interrupt_while_the_command_loads_is_one_sentence(tmp_path):
    (tmp_path / "tyro.py").write_text("raise KeyboardInterrupt")  # found before the true one, and loaded first
    result = run("--version", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "erlangen: stopped; nothing was written.\n")


def test_folders_begin_at_home_for_every_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules[drawing.__module__], "gallery", lambda folder, progress: [folder])
    assert cli.main(["gallery", "--output=~/drawn"]) == 0
    assert cli.main(["gallery", "--output=~nouser"]) == 0  # a name like any other
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "home" / "drawn"), "~nouser"]
    assert list(tmp_path.iterdir()) == []  # nothing was drawn into them


def test_a_full_disk_is_one_sentence(tmp_path, capsys, monkeypatch):
    def full(folder, progress):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(sys.modules[drawing.__module__], "gallery", full)
    assert cli.main(["gallery", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"erlangen: {tmp_path}: No space left on device\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_what_comes_to_nothing_leaves_no_folder(tmp_path, monkeypatch, error):
    """Those that were there stay, and those that hold something."""

    def stopped(folder, progress):
        if folder.name == "some":
            (folder / "page.html").touch()
        raise error

    monkeypatch.setattr(sys.modules[drawing.__module__], "gallery", stopped)
    (tmp_path / "empty").mkdir()
    for name in ("new/below", "empty", "empty/new", "some"):
        assert cli.main(["gallery", "--output", str(tmp_path / name)]) != 0
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))
    assert left == ["empty", "some", "some/page.html"]


def test_figures_go_where_they_are_told(tmp_path, capsys, monkeypatch):
    from erlangen.report import conventions, densities

    monkeypatch.setattr(conventions, "FIGURES", {"hue": conventions.hue})
    monkeypatch.setattr(densities, "FIGURES", {"families": lambda results: str(results).encode()})
    folder = tmp_path / "new" / "images"
    assert cli.main(["figures", "--output", str(folder), "--results", "somewhere"]) == 0
    assert capsys.readouterr().out.split() == [str(folder / "families.png"), str(folder / "hue.png")]
    assert (folder / "families.png").read_bytes() == b"somewhere"


def test_figures_without_stored_numbers_say_how_to_get_them(tmp_path, capsys):
    assert cli.main(["figures", "--output", str(tmp_path), "--results", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error == f"erlangen: {tmp_path / 'families.json'}: not there; `erlangen figures --compute` makes it\n"


def test_figures_compute_when_told(tmp_path, monkeypatch):
    from erlangen.estimators import bumps
    from erlangen.report import conventions, densities, families, integration

    computed = []
    monkeypatch.setattr(bumps, "align_bumps", lambda images, results, tell: computed.append(results))
    monkeypatch.setattr(families, "compute_families", lambda folder, tell: computed.append(folder))
    monkeypatch.setattr(integration, "compute_quadrature", lambda folder, tell: computed.append(folder))
    for module in (conventions, densities):
        monkeypatch.setattr(module, "FIGURES", {})
    arguments = ["figures", "--output", str(tmp_path), "--results", str(tmp_path / "rows")]
    assert cli.main(arguments) == 0
    assert computed == []
    assert cli.main([*arguments, "--compute"]) == 0
    assert computed == [tmp_path / "rows"] * 2 + [tmp_path / "series"]


def test_a_small_search_for_symmetries_heeds_what_is_typed(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(cli.Symmetries, "run", lambda self, typed: seen.append(self._settings(typed)) or [])
    for options in ([], ["--steps", "3000", "6000"], ["--batch-size=128"]):
        assert cli.main(["symmetries", "--small", *options, "--output", str(tmp_path)]) == 0
    assert [(own["steps"], own["batch_size"]) for own in seen] == [
        ((250, 1500), 64),
        ((3000, 6000), 64),
        ((250, 1500), 128),
    ]
