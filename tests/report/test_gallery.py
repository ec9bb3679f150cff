import importlib.util
import inspect
import io
import os
import signal
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

import erlangen.transforms
from erlangen.report.conventions import FIGURES, figures
from erlangen.report.densities import densities
from erlangen.report.exhibits import PICTURES, SERIES, coordinates
from erlangen.report.gallery import LENGTH, gallery
from erlangen.transforms import CPAB, Affine, FiniteGroup, Group, Rotations, Spatial, Transform

SIZE = 128  # of picture(), as the snippets of the page have it
BUILDERS = [(build, SIZE) for build in PICTURES.values()] + [(build, LENGTH) for build in SERIES.values()]
IDS = [*PICTURES, *(f"series {name}" for name in SERIES)]


def reader():
    """`check_self_contained` of the tests of pages; tests are not a package."""
    path = Path(__file__).with_name("test_page.py")
    spec = importlib.util.spec_from_file_location("pages", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check_self_contained


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    before = matplotlib.rcParams.copy()
    told = []
    folder = tmp_path_factory.mktemp("gallery") / "made"
    picture, page = gallery(folder, lambda share, what: told.append(share))
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert matplotlib.rcParams.copy() == before
    return picture, page


def test_the_picture(drawn):
    image = Image.open(io.BytesIO(drawn[0].read_bytes()))
    image.load()
    assert image.format == "PNG"
    assert 1600 <= image.width <= 2000
    assert drawn[0].stat().st_size < 1_500_000
    pixels = np.asarray(image.convert("RGB"))
    assert pixels.std() > 30
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 1000


def test_the_page_is_self_contained(drawn):
    text = drawn[1].read_text(encoding="utf-8")
    found = reader()(text)
    assert len(found.images) > 100
    assert drawn[1].stat().st_size < 4_000_000
    assert "<script" not in text


def test_every_transform_is_shown(drawn):
    """A new public class without a card fails here."""
    public = [getattr(erlangen.transforms, name) for name in erlangen.transforms.__all__]
    classes = [c for c in public if inspect.isclass(c) and issubclass(c, Transform)]
    concrete = [c for c in classes if c not in (Transform, Group, FiniteGroup, Spatial)]
    assert Affine in concrete
    shown = [build(16 if size == SIZE else size) for build, size in BUILDERS]
    assert [c.__name__ for c in concrete if not any(isinstance(e.transform, c) for e in shown)] == []
    text = drawn[1].read_text(encoding="utf-8")
    assert [c.__name__ for c in concrete if f"import {c.__name__}" not in text and f", {c.__name__}" not in text] == []


@pytest.mark.parametrize(("build", "size"), BUILDERS, ids=IDS)
def test_the_code_makes_what_is_shown(build, size):
    torch.set_default_dtype(torch.float32)
    exhibit = build(size)
    namespace = {"torch": torch, "x": exhibit.signal}
    exec(exhibit.code, namespace)
    y = namespace["y"]
    shown = [panel.signal for row in exhibit.rows for panel in row.panels if panel.kind != "map"]
    assert len(y)
    for made in y.flatten(0, y.ndim - exhibit.signal.ndim):
        assert any(made.shape == s.shape and torch.allclose(made, s, atol=1e-4) for s in shown)


@pytest.mark.parametrize(("build", "size"), BUILDERS, ids=IDS)
def test_the_highlighted_panel_is_the_signal(build, size):
    exhibit = build(16 if size == SIZE else size)
    for row in exhibit.rows:
        marked = [p for p in row.panels if p.identity and p.kind != "map" and row.label != "masks"]
        assert len(marked) <= 1
        for panel in marked:
            assert torch.allclose(panel.signal, exhibit.signal[0], atol=1e-6)


def test_a_shift_of_time_is_what_is_seen():
    """Beside a stretch too, in the card and in the code on it."""
    torch.set_default_dtype(torch.float32)
    exhibit = SERIES["time_affine"](LENGTH)
    namespace = {"torch": torch, "x": exhibit.signal}
    exec(exhibit.code, namespace)
    v = torch.tensor([[0.25, 0.5], [-0.25, -0.5]])
    for time in (exhibit.transform, namespace["time"]):
        middle = time.act_points(time.element(v), torch.zeros(2, 1, 1))
        torch.testing.assert_close(middle[:, 0], v[:, :1])


def test_coordinates_as_text():
    assert coordinates(Affine("tx", "ty", "angle")) == "tx, ty ∈ [−0.25, 0.25]; angle ∈ [−π, π]"
    assert coordinates(CPAB((3, 3))) == "theta0 … theta33 ∈ [−0.5, 0.5]"
    assert coordinates(Rotations(4)) == "index ∈ {0, …, 3}"


@pytest.mark.parametrize("draw", [figures, lambda folder: densities(folder, folder)], ids=["figures", "densities"])
def test_a_write_that_is_cut_off_leaves_the_old_figure(draw, tmp_path, monkeypatch):
    for module in ("conventions", "densities"):
        monkeypatch.setattr(f"erlangen.report.{module}.FIGURES", {"one": lambda *results: b"new"})
    (tmp_path / "one.png").write_bytes(b"old")
    with monkeypatch.context() as cut:
        cut.setattr("os.fsync", lambda file: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            draw(tmp_path)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("one.png", b"old")]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert draw("~")[0].read_bytes() == (tmp_path / "one.png").read_bytes() == b"new"


def test_figures_of_the_documentation(tmp_path):
    paths = figures(tmp_path / "images")
    assert [p.stem for p in paths] == list(FIGURES)
    for path in paths:
        image = Image.open(path)
        image.load()
        assert np.asarray(image.convert("RGB")).std() > 5
        assert path.stat().st_size < (1_500_000 if path.stem == "gallery" else 150_000)
