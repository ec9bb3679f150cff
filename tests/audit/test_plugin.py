"""Claims about models in tests: the function, and the plugin in a pytest of its own."""

import os
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import erlangen
from erlangen.audit import Settings, assert_invariant
from erlangen.audit.ladder import Each
from erlangen.metrics import Orbit, logit_invariance
from erlangen.transforms import Affine, Rotations

from .cases import Halves, halves

ROOT = Path(__file__).parents[2]
FEW = Settings(saliency=4, steps=2)


def test_a_claim_that_holds_returns_what_was_measured():
    found = assert_invariant(Halves(), halves(), "flip", at_least=0.99)
    assert found["flip left to right"].mean == 1
    assert set(assert_invariant(Halves(), halves(), {"rotation": [5, 10]}, at_least=0.5)) == {
        "rotation 5°",
        "rotation 10°",
    }
    assert_invariant(Halves(), halves(), "flip", metric="li", at_most=1e-6)
    assert_invariant(Halves(), halves(), "flip", metric="si", at_least=0.0, settings=FEW)


def test_a_claim_that_fails_says_where():
    with pytest.raises(AssertionError, match=r"consistency of Halves should be at least 0\.9, but is\n  rotation 180°"):
        assert_invariant(Halves(), halves(), {"rotation": [5, 180]}, at_least=0.9)
    with pytest.raises(AssertionError, match=r"li of Halves should be at most 0\.1, but is\n  Rotations orbit"):
        assert_invariant(Halves(), halves(), Rotations(4), metric="li", at_most=0.1)


def test_an_error_without_bounds_keeps_to_no_limit():
    """Squares of so large logits are infinite in single precision, and so is the interval of their mean."""
    x, y = halves(12)
    with pytest.raises(AssertionError, match=r"at most 1, but is\n  rotation 180°: inf \(inf to inf\)"):
        assert_invariant(
            lambda x: 1e25 * Halves()(x).float(), (x.float(), y), {"rotation": [180]}, metric="li", at_most=1
        )


def test_a_limit_that_is_just_met_is_no_failure():
    """Nineteen of twenty copies keep their class: 0.95, which single precision has below 0.95."""
    import torch

    x = torch.zeros(1, 1, 4, 4, dtype=torch.float32)
    x[..., 0] = 1.0
    data = x, torch.zeros(1).long()
    orbit = Orbit(Affine("tx"), Each(1.5 * torch.linspace(0, 1, 20).unsqueeze(1)), 20)

    def last(x):  # is sure of all but what lies furthest to the right
        far = x[:, 0, :, -1].sum(1)
        return torch.stack((3.9 - far, far - 3.9), 1)

    assert assert_invariant(last, data, orbit, at_least=0.0)["Affine orbit"].mean == 0.95
    assert_invariant(last, data, orbit, at_least=0.95)
    assert_invariant(last, data, orbit, at_least=torch.tensor(0.95).numpy()[()])  # a number of numpy


def test_noise_is_no_failure():
    """The mean misses the limit, its interval does not."""
    data = halves(30)
    value = assert_invariant(Halves(), data, Rotations(2), at_least=0.0)["Rotations orbit"]
    assert value.low < value.mean < value.high
    assert_invariant(Halves(), data, Rotations(2), at_least=(value.mean + value.high) / 2)
    with pytest.raises(AssertionError):
        assert_invariant(Halves(), data, Rotations(2), at_least=value.high + 0.01)


@pytest.mark.parametrize(
    ("transform", "options", "words"),
    [
        ("flip", {}, "received None and None"),
        ("flip", {"at_least": 1, "at_most": 1}, "accepted is one of them"),
        ("flip", {"at_least": float("nan")}, "received nan; accepted is a finite number"),
        ("flip", {"metric": "ece", "at_most": 5}, "received 5; accepted is a number from 0 to 1, as ece is"),
        ("flip", {"at_least": 95}, "from 0 to 1, as consistency is: 0.05 is five percent"),
        ("flip", {"metric": "speed", "at_least": 1}, "metric: received 'speed'"),
        ("flip", {"metric": "si", "at_least": 1, "settings": Settings(saliency=0)}, "settings: received saliency=0"),
        (
            "blur",
            {"metric": "si", "at_least": 1, "settings": FEW},
            "needs gradients and a transform that can be undone",
        ),
        ("spin", {"at_least": 1}, "received 'spin'"),
        ("flip", {"at_least": 1, "settings": {"images": 3}}, "settings: received dict .* accepted is a Settings"),
        ("flip", {"at_least": 1, "preprocess": {"size": 3}}, "preprocess: received dict .* accepted is a Preprocess"),
        (3, {"at_least": 1}, "transform: received int"),
        (Affine("angle"), {"at_least": 1}, "transform: received Affine"),
        ({"hue": [30], "flip": None}, {"at_least": 0}, "images of 1 channel.*Not measured, .*no colours: hue"),
    ],
)
def test_bad_claims_are_a_sentence(transform, options, words):
    with pytest.raises(ValueError, match=words):
        assert_invariant(Halves(), halves(), transform, **options)


def test_an_orbit_of_ones_own():
    import torch
    from torch.distributions import Independent, Uniform

    law = Independent(Uniform(torch.tensor([-0.1]), torch.tensor([0.1])), 1)
    assert_invariant(Halves(), halves(), Orbit(Affine("angle"), law, samples=3), at_least=0.9)
    x, y = halves()
    disc = Orbit(Rotations(4), disc=True)  # what lies outside it counts neither in copies nor in images
    found = assert_invariant(Halves(), (x, y), disc, metric="li", at_most=1e9)["Rotations orbit"]
    assert found.mean == pytest.approx(float(logit_invariance(Halves(), x, disc).mean), rel=1e-6)


TESTS = """
import pytest, torch

@pytest.fixture
def model():
    return lambda x: torch.stack((x[:, :, :4].mean((1, 2, 3)), x[:, :, 4:].mean((1, 2, 3))), 1)

@pytest.fixture
def data():
    x = torch.zeros(20, 1, 8, 8)
    x[:10, :, :4] = 1.0
    x[10:, :, 4:] = 1.0
    return x, torch.arange(20) // 10

@pytest.mark.invariant("flip", at_least=1.0)
def test_holds(model, data):
    pass

@pytest.mark.invariant("flip", at_least=1.0)
@pytest.mark.invariant({"rotation": [180]}, metric="accuracy", at_least=0.9)
def test_fails(model, data):
    pass

@pytest.mark.invariant("flip", at_least=1.0)
def test_has_no_data(model):
    pass

def test_fixture(assert_invariant, model, data):
    assert_invariant(model, data, "flip", metric="li", at_most=0.0)
"""


def run_pytest(folder, *arguments, text):
    (folder / "test_theirs.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(erlangen.__file__).parents[1])
    command = [sys.executable, "-m", "pytest", "-p", "erlangen.audit.plugin", "-q", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)


def test_the_plugin_in_a_run_of_its_own(tmp_path):
    result = run_pytest(tmp_path, "--junitxml=found.xml", text=TESTS)
    assert "2 failed, 2 passed" in result.stdout, result.stdout + result.stderr
    assert (
        "invariant: accuracy of <lambda> should be at least 0.9, but is\n  rotation 180°: 0 (0 to 0)" in result.stdout
    )
    told = result.stdout.partition("short test summary")[0]  # which in CI repeats it, at full length
    assert told.count("accuracy of <lambda> should be at least 0.9, but is") == 1
    assert "the test has no data" in result.stdout
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "found.xml").iter("testcase")}
    assert cases["test_fails"].find("failure") is not None
    *_, value = cases["test_fails"].iter("property")  # what misses the limit is there as well
    assert (value.get("name"), value.get("value")) == ("accuracy rotation 180°", "0")
    (value,) = cases["test_holds"].iter("property")
    assert (value.get("name"), value.get("value")) == ("consistency flip left to right", "1")
    (value,) = cases["test_fixture"].iter("property")
    assert value.get("name") == "li flip left to right"


def test_the_plugin_costs_nothing_until_it_is_used(tmp_path):
    text = (
        "import sys\n\ndef test_it():\n    assert not {'torch', 'numpy', 'erlangen.audit.case'} & sys.modules.keys()\n"
    )
    result = run_pytest(tmp_path, text=text)
    assert result.returncode == 0, result.stdout
    listed = run_pytest(tmp_path, "--markers", text=text)
    assert "@pytest.mark.invariant(transform, metric='consistency'" in listed.stdout


def test_the_entry_point_names_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"erlangen": "erlangen.audit.plugin"}
    assert project["project"]["optional-dependencies"]["onnx"] == ["onnxruntime"]
