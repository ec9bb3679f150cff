"""The layers of the package, read from its source.

A package imports itself and packages of strictly lower layers. ``erlangen.testing`` stands beside them: it imports
layers 0 and 1, and nothing in the package imports it, for it is made for tests (ours and other people's). The root
``erlangen`` imports none of its packages, and only layers 5 and above import what draws, fits or serves. Imports
inside functions and under TYPE_CHECKING count, relative ones are resolved, and so is ``erlangen.x`` after
``import erlangen``, which loads x as surely as an import.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import erlangen

SOURCE = Path(erlangen.__file__).parent

LAYERS = {
    **{"utils": 0},
    **{"transforms": 1, "distributions": 1, "nets": 1},
    **{"data": 2, "metrics": 2, "models": 2},
    **{"objectives": 3, "align": 3},
    **{"train": 4},
    **{"report": 5},
    **{"papers": 6, "estimators": 6},
    **{"audit": 7, "explore": 7},
    **{"cli": 8},
    **{"__main__": 9},
}
TESTING_SEES = 1  # the highest layer that erlangen.testing imports
HEAVY_FROM = 5
IMPORTERS = {"__import__", "import_module", "importlib.import_module"}
WEB = {"aiohttp", "bottle", "dash", "django", "fastapi", "flask", "gradio", "starlette", "streamlit", "tornado"}
HEAVY = {"jinja2", "matplotlib", "mpl_toolkits", "sklearn", "uvicorn"} | WEB


def imported(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything that a module of `package` imports."""
    roots = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
            roots |= {alias.asname or "erlangen" for alias in node.names if alias.name == "erlangen"}
            roots |= {"erlangen" for alias in node.names if alias.name.startswith("erlangen.") and not alias.asname}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in IMPORTERS and node.args:
            yield node.lineno, ast.unparse(node.args[0]).strip("'")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in roots:
            yield node.lineno, f"erlangen.{node.attr}"


def refusal(importer: str, name: str) -> str | None:
    """Why a module of the package `importer` ("" is the root) may not import the dotted `name`, if it may not."""
    top, _, rest = name.partition(".")
    layer = {"": -1, "testing": TESTING_SEES + 1, **LAYERS}[importer]
    if top in HEAVY and layer < HEAVY_FROM:
        return f"only layers {HEAVY_FROM} and above import {top}"
    target = rest.partition(".")[0]
    if top != "erlangen" or target == importer:
        return None
    if target == "testing":
        return "only tests import erlangen.testing"
    if target in LAYERS and LAYERS[target] >= layer:
        return f"erlangen.{target} is not in a lower layer"
    return None


def violations(source: Path) -> list[str]:
    """What in the tree of the package `erlangen` at `source` breaks the rules, one sentence each."""
    found = []
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(source)
        package = ".".join(["erlangen", *place.parent.parts])
        importer = place.with_suffix("").parts[0].removeprefix("__init__")
        if importer not in {"", "testing", *LAYERS}:
            found.append(f"{place}: erlangen.{importer} is in no layer")
            continue
        for line, name in imported(ast.parse(path.read_text()), package):
            reason = refusal(importer, name)
            if reason:
                found.append(f"{place}:{line}: imports {name}, but {reason}")
    return found


def grow(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_package_keeps_its_layers():
    assert (SOURCE / "utils" / "io.py").is_file()
    assert violations(SOURCE) == []


def test_a_kept_model_is_named_after_all_code_that_trains():
    """What the packages of training import decides as well how a model comes out."""
    from erlangen.papers.cache import TRAINS

    files = [path for name in TRAINS for path in (SOURCE / name).rglob("*.py")]
    packages = {path: ".".join(["erlangen", *path.relative_to(SOURCE).parent.parts]) for path in files}
    names = {name for path in files for _, name in imported(ast.parse(path.read_text()), packages[path])}
    assert {name.split(".")[1] for name in names if name.startswith("erlangen.")} & LAYERS.keys() <= set(TRAINS)


def test_no_paper_imports_another():
    """What several need is shared code, which lies below them."""
    papers = SOURCE / "papers"
    names = {path.name for path in papers.iterdir() if (path / "__init__.py").is_file()}
    for path in papers.glob("*/*.py"):
        others = tuple(f"erlangen.papers.{name}." for name in names - {path.parent.name})
        package = f"erlangen.papers.{path.parent.name}"
        assert not [name for _, name in imported(ast.parse(path.read_text()), package) if name.startswith(others)], path


GOOD = {
    "__init__.py": "import importlib\n__version__ = '0'",
    "utils/__init__.py": "from . import io",
    "utils/io.py": "from .. import __version__\nimport erlangen\nerlangen.__version__",
    "transforms/base.py": "from ..utils.io import plain\nfrom erlangen import utils\nfrom . import warp",
    "transforms/deep/down.py": "from ..base import Transform\nfrom ...utils import io",
    "testing/__init__.py": "from erlangen.transforms import base\nfrom ..distributions import base as b\nimport torch",
    "report/page.py": "import matplotlib.pyplot as plt\nfrom jinja2 import Template\nfrom ..models import averaged",
    "cli/__init__.py": "from erlangen.explore import serve\nfrom ..report.page import draw",
}


def test_a_good_tree_passes(tmp_path):
    assert violations(grow(tmp_path, GOOD)) == []


BROKEN = {
    "higher layer": ("transforms/base.py", "from erlangen.models import Averaged", "lower layer"),
    "same layer": ("transforms/base.py", "import erlangen.distributions.flows", "lower layer"),
    "same layer, renamed": ("transforms/base.py", "import erlangen.nets as n", "lower layer"),
    "relative": ("transforms/base.py", "from ..models.averaged import Averaged", "lower layer"),
    "relative, package": ("transforms/base.py", "from .. import models", "lower layer"),
    "relative, from __init__": ("transforms/__init__.py", "from ..models import averaged", "lower layer"),
    "relative, deep": ("transforms/deep/down.py", "from ...models import averaged", "lower layer"),
    "from the root": ("transforms/base.py", "from erlangen import utils, models", "lower layer"),
    "in a function": ("data/mnist.py", "def f():\n    from ..train import fit", "lower layer"),
    "in a class": ("data/mnist.py", "class A:\n    import erlangen.train", "lower layer"),
    "for types": ("data/mnist.py", "if TYPE_CHECKING:\n    from ..train import fit", "lower layer"),
    "in a try": ("data/mnist.py", "try:\n    import erlangen.cli\nexcept ImportError: pass", "lower layer"),
    "by attribute": ("utils/io.py", "import erlangen\ndef f():\n    return erlangen.cli.main", "lower layer"),
    "by attribute, renamed": ("utils/io.py", "import erlangen as e\ne.report", "lower layer"),
    "by attribute, of a submodule": ("nets/a.py", "import erlangen.utils\nerlangen.report", "lower layer"),
    "by name": ("utils/io.py", "import importlib\nimportlib.import_module('erlangen.cli')", "lower layer"),
    "the root": ("__init__.py", "from . import utils", "lower layer"),
    "a plain module": ("cli.py", "from . import testing", "only tests import"),
    "testing in the package": ("audit/plugin.py", "from ..testing import check_group", "only tests import"),
    "testing from the root": ("cli/__init__.py", "from erlangen import testing", "only tests import"),
    "testing reaches up": ("testing/checks.py", "from erlangen.models import Averaged", "lower layer"),
    "testing draws": ("testing/checks.py", "import matplotlib", "layers 5 and above"),
    "matplotlib": ("train/fit.py", "import matplotlib.pyplot as plt", "layers 5 and above"),
    "matplotlib in a function": ("metrics/a.py", "def f():\n    from matplotlib import figure", "layers 5 and above"),
    "sklearn": ("align/a.py", "from sklearn.manifold import TSNE", "layers 5 and above"),
    "jinja2": ("utils/io.py", "import jinja2", "layers 5 and above"),
    "web": ("data/mnist.py", "import fastapi", "layers 5 and above"),
    "heavy root": ("__init__.py", "import matplotlib", "layers 5 and above"),
    "no layer": ("helpers/a.py", "", "is in no layer"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_twin_fails(tmp_path, name):
    path, text, reason = BROKEN[name]
    found = violations(grow(tmp_path, GOOD | {path: text}))
    assert len(found) == 1
    assert found[0].startswith(path)
    assert reason in found[0]


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


WATCHED = """
import sys
events = []
sys.addaudithook(lambda event, _: events.append(event) if event.startswith("socket.") else None)
{statement}
print(sorted(({heavy!r} & sys.modules.keys()) | set(events)))
"""


def loaded(statement: str, heavy: set[str]) -> str:
    """Which of the `heavy` modules a statement loads in a fresh process, and what it does to sockets."""
    return run(WATCHED.format(statement=statement, heavy=heavy))


NETWORK = {"http.client", "requests", "urllib3"}


def test_importing_the_package_loads_nothing_heavy_and_opens_no_socket():
    assert loaded("import erlangen", HEAVY | NETWORK | {"torch", "numpy"}) == "[]"


def test_importing_low_layers_loads_nothing_heavy_and_opens_no_socket():
    low = [f"erlangen.{name}" for name in LAYERS if LAYERS[name] < HEAVY_FROM and (SOURCE / name).is_dir()]
    assert loaded(f"import {', '.join(low)}", HEAVY | {"requests", "urllib3"}) == "[]"


def test_the_watch_sees_imports_and_sockets():
    statement = "import jinja2, socket; socket.socket().close()"
    assert loaded(statement, HEAVY) == "['jinja2', 'socket.__new__']"
