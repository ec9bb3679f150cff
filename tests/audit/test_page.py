"""The report of an audit: one page without network, and what it says."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from erlangen.audit import Settings, audit
from erlangen.report import audit as report
from erlangen.report import audit_figures
from erlangen.report.audit import audit_page

from .cases import Halves, halves


@pytest.fixture(scope="module")
def checks():
    """`check_self_contained` of the tests of pages; tests are not a package."""
    path = Path(__file__).parents[1] / "report" / "test_page.py"
    spec = importlib.util.spec_from_file_location("tests_report_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.check_self_contained


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An audit in which everything occurs: pairs, pictures, saliency, notes."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("audit")
    x, y = halves(30, channels=3)
    audit(Halves(), (x.double(), y), settings=Settings(images=24, saliency=3, steps=2)).save(folder)
    return folder


def test_the_page_is_self_contained_and_says_what_was_found(folder, checks):
    text = (folder / "report.html").read_text()
    reader = checks(text)
    assert len(reader.images) == 1 + 8 + 1 + 10 * 4  # overview, ladders, classes, worst inputs
    for words in (
        "Audit of Halves",
        "0 and 1 turn into each other under rotation (180°)",
        "What breaks",
        "Measured on 24 of 30 images",
        "Ten that move most",
        "more is better (↑)",
        "erlangen check audit.json --baseline old.json",
    ):
        assert words in text
    assert len(text) < 2_000_000


@pytest.mark.parametrize("size", [0.0, 2e-4, 7e-4, 0.03, 43.0, 9876.0, 3.2e7])
def test_numbers_at_the_axes_are_whole(size, monkeypatch):
    value = {"mean": size, "low": 0.9 * size, "high": 1.1 * size}
    steps = [{"label": "15°", "values": dict.fromkeys(("li", "di", "ece"), value), "null": {}}]
    monkeypatch.setattr(audit_figures, "png", lambda figure, colours: figure)
    figure = audit_figures.ladder_figure(steps)
    figure.canvas.draw()
    for axes in figure.axes:
        others = [other.get_window_extent() for other in figure.axes if other is not axes]
        for label in axes.get_yticklabels():
            box = label.get_window_extent()
            assert box.x0 >= 0
            assert not any(box.overlaps(other) for other in others)


def test_it_is_drawn_from_the_file_alone(folder, checks):
    record = json.loads((folder / "audit.json").read_text())
    assert len(checks(audit_page(record)).images) == 10


def test_blindness_names_and_missing_gradients_are_on_the_page(checks):
    data = halves(12)
    found = audit(lambda x: x.detach().new_ones(len(x), 3), data, ["flip", "blur"])
    text = audit_page(found.record(), [(p.before, p.after, p.looks) for p in found.pictures])
    checks(text)
    assert "Invariant by blindness" in text
    assert "Missing, since the model has no gradients" in text
    record = found.record()
    record["data"]["classes"] = ["<b>a</b>", "$x$ 漢", "c" * 80]
    assert "<b>a</b>" not in audit_page(record)


def test_what_was_not_asked_for_is_not_put_down_to_the_model():
    record = audit(Halves(), halves(12), ["flip"], settings=Settings(saliency=0)).record()
    text = audit_page(record)
    assert "not measured, the mean largest" in text
    assert "no gradients" not in text


def test_a_gradient_that_is_no_number():
    """Where similarity is measured it is a sentence, soon; in a picture there is nothing to be seen."""

    def root(x):  # of the left half, which is black in the second image
        left = x[..., :6].square().sum((1, 2, 3)).sqrt()
        return torch.stack((left, 0.5 - left), 1)

    x = torch.ones(2, 1, 12, 12)
    x[1, ..., :6] = 0.0
    told = []
    with pytest.raises(ValueError, match=r"gradients for 1 of 2 inputs; .*saliency=0"):
        audit(root, (x, torch.arange(2)), ["flip"], progress=lambda share, what: told.append(what))
    assert told == ["reading"]
    found = audit(root, (x, torch.arange(2)), ["flip"], settings=Settings(saliency=1, steps=2))
    looks = torch.stack([look for picture in found.pictures for look in picture.looks])
    assert looks.isfinite().all()
    assert looks.any((1, 2, 3)).tolist().count(False) == 1  # the second image as it is


def test_classes_whose_names_are_alike_in_short(folder, monkeypatch):
    """Every pair has its line, and every class a row of its own name."""
    record = json.loads((folder / "audit.json").read_text())
    record["data"]["classes"] = [f"a name that is as long as {k} before it comes to its end" for k in range(3)]
    pair = record["pairs"][0]
    record["pairs"] = [pair | {"first": a, "second": b} for a, b in ((0, 1), (0, 2), (1, 2))]
    rows = []
    monkeypatch.setattr(report, "classes_figure", lambda record, present, names: rows.extend(names) or b"")
    text = audit_page(record)
    assert text.count(" ↔ ") == 3
    assert rows == [f"{k}. a name that … to its end" for k in (1, 2, 3)]


def test_logits_beyond_bounds_are_not_drawn(tmp_path):
    """Squares of their differences are infinite in single precision; all else is as it is."""
    x, y = halves(12)
    turn = {"rotation": [180]}
    found = audit(lambda x: 1e25 * Halves()(x).float(), (x.float(), y), turn, settings=Settings(saliency=0))
    assert found.steps[0].values["li"].mean == float("inf")
    found.save(tmp_path)
    assert json.loads((tmp_path / "audit.json").read_text())["steps"][0]["values"]["li"]["mean"] is None


def test_files_have_their_own_names(tmp_path):
    for k, image in enumerate(halves(2, size=8)[0]):
        (tmp_path / f"Class{k}").mkdir()
        Pillow.fromarray((255 * image[0]).byte().numpy()).save(tmp_path / f"Class{k}" / "IMG_01.PNG")
    found = audit(Halves(), tmp_path, ["flip"], settings=Settings(saliency=0))
    text = audit_page(found.record(), [(p.before, p.after, p.looks) for p in found.pictures])
    assert all(f"Class{k}/IMG_01.PNG, Class{k}: flip" in text for k in (0, 1))
    text = audit_page(audit(Halves(), halves(2), ["flip"]).record(), [(x, x, None) for x in halves(2)[0]])
    assert "Image 0, 0: flip" in text


def test_many_classes_and_one_image():
    x, y = torch.rand(40, 1, 8, 8), torch.arange(40)
    weights = torch.tensor(np.random.default_rng(0).normal(size=(64, 40)))
    record = audit(lambda x: x.flatten(1) @ weights, (x, y), ["flip"], settings=Settings(saliency=0)).record()
    assert "The first 30 of 40 classes." in audit_page(record)
    audit_page(audit(Halves(), (x[:1], y[:1]), ["flip"], settings=Settings(saliency=0)).record())


CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
# What the page says of itself: how wide the window is and how wide it would like to be, which of its pictures are
# missing, and what it has asked for.
PROBE = """<script>addEventListener("load", () => {
  const asked = performance.getEntriesByType("resource").map(entry => entry.name).filter(name => !/^data:/.test(name));
  const missing = [...document.images].filter(image => !image.naturalWidth).length;
  parent.postMessage([innerWidth, document.documentElement.scrollWidth, missing, asked.length], "*");
})</script>"""
# Chromium makes no window narrower than 500 pixels, but frames of any width.
FRAME = """<html><head><script>addEventListener("message", told => document.title = JSON.stringify(told.data))</script>
</head><body><iframe src="page.html" style="border: 0; width: {width}px; height: 900px"></iframe></body></html>"""


def browse(text, folder, width):
    """What a browser finds: widths of frame and page, missing pictures, requests, and what it complains of."""
    (folder / "page.html").write_text(text.replace("</head>", PROBE + "</head>"))
    (folder / "frame.html").write_text(FRAME.format(width=width))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    options += ["--window-size=1600,1000", "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom"]
    command = [CHROMIUM, *options, (folder / "frame.html").as_uri()]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120)
    numbers = json.loads(found.stdout.partition("<title>")[2].partition("</title>")[0])
    return *numbers, [line for line in found.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("width", [400, 1400])
def test_in_a_browser_it_fits_and_asks_nothing_of_the_network(folder, tmp_path, width):
    inner, needed, missing, asked, complaints = browse((folder / "report.html").read_text(), tmp_path, width)
    assert inner == width
    assert needed <= inner
    assert (missing, asked, complaints) == (0, 0, [])


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_broken_twin_in_a_browser(tmp_path):
    broken = """<html><head></head><body><div style="width: 2000px">wide</div><img src="http://127.0.0.1:9/a.png">
    <script>console.error("wrong")</script></body></html>"""
    inner, needed, missing, asked, complaints = browse(broken, tmp_path, 400)
    assert needed > inner
    assert (missing, asked) == (1, 1)
    assert any("wrong" in line for line in complaints)
