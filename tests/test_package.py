import importlib.metadata
import importlib.resources
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import erlangen

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_has_one_source():
    source = ROOT / PROJECT["tool"]["hatch"]["version"]["path"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PROJECT["project"]
    assert re.findall(r'^__version__ = "(.+)"$', source.read_text(), re.MULTILINE) == [erlangen.__version__]
    assert source.samefile(erlangen.__file__)


def test_the_installed_version_is_that_of_the_source():
    try:
        installed = importlib.metadata.version("erlangen")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("runs from the source tree, not installed")
    assert installed == erlangen.__version__, "the installed metadata is stale: touch pyproject.toml and make setup"


def test_the_package_is_typed():
    assert importlib.resources.files(erlangen).joinpath("py.typed").is_file()


def test_every_submodule_is_an_attribute():
    names = [module.name for module in pkgutil.iter_modules(erlangen.__path__) if not module.name.startswith("_")]
    assert "utils" in names
    for name in names:
        assert getattr(erlangen, name).__name__ == f"erlangen.{name}"


def test_dir_lists_the_version_and_submodules_that_are_not_loaded_yet(tmp_path, monkeypatch):
    for name in ("unloaded", "__main__"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.setattr(erlangen, "__path__", [str(tmp_path)])
    assert {"__version__", "unloaded"} <= set(dir(erlangen))
    assert "__main__" not in dir(erlangen)
    with pytest.raises(AttributeError, match="__main__"):
        _ = erlangen.__main__


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'erlangen' has no attribute 'nothing'"):
        _ = erlangen.nothing
    with pytest.raises(ImportError, match="nothing"):
        from erlangen import nothing  # noqa: F401


def test_the_licence_is_in_the_tree():
    text = (ROOT / "LICENSE").read_text()
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text


def test_distributions_leave_torch_as_it_was():
    """zuko switches torch's validation off when it is imported, which is for the user to decide."""
    code = (
        "import sys, torch, erlangen.distributions\n"
        "assert 'zuko' not in sys.modules\n"
        "erlangen.distributions.SplineFlow(2, 3)\n"
        "assert 'zuko' in sys.modules\n"
        "assert torch.distributions.Distribution._validate_args"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
