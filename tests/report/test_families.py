import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from erlangen.distributions import PRESETS, Categorical, Dirac, Gaussian, GlobalUniform
from erlangen.report.densities import densities, divergence_table, summary
from erlangen.report.families import FAMILIES, Budget, compute_families, divergence, fit, objective
from erlangen.report.integration import KINDS, compute_quadrature, estimates, truth
from erlangen.report.targets import FINE, PROBLEMS, Problem
from erlangen.utils.io import read_json

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "results" / "distributions"
PAGE = ROOT / "docs" / "distributions.md"

INDEPENDENT = ("GlobalUniform", "MeanFieldUniform", "Gaussian", "StudentT")
JOINT = ("Categorical", "Mixture", "RealNVP", "SplineFlow")


def softplus(x):
    return float(F.softplus(torch.tensor(x)))


# The integral over the line of a sigmoid edge is a softplus; what lies beyond the box is 5 standard deviations away.
NORMALISERS = {
    "ring": 2 * math.pi * 0.6 * 0.08 * math.sqrt(2 * math.pi),
    "arcs": 6 * math.radians(4) * (softplus(25 / 4) - softplus(-35 / 4)) + 0.01 * 2 * math.pi,
    "strip": 0.08 * math.sqrt(2 * math.pi) * 2 * 0.03 * softplus(1 / 0.03),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_normalisers(name):
    problem = PROBLEMS[name]
    assert problem.log_normaliser() == pytest.approx(math.log(NORMALISERS[name]), abs=2e-5)
    assert problem.log_normaliser(2 * FINE[problem.features]) == pytest.approx(problem.log_normaliser(), abs=1e-6)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_identity_is_among_the_likeliest_points(name):
    problem = PROBLEMS[name]
    points, _ = problem.grid()
    assert problem.log_density(torch.tensor(problem.origin)) > problem.log_density(points).max() - 0.01


def test_an_arc_lies_across_the_seam():
    arcs = PROBLEMS["arcs"].log_density
    angles = torch.linspace(-10, 10, 101).unsqueeze(-1)
    assert torch.allclose(arcs(angles), arcs(angles + 2 * math.pi), atol=1e-9)
    assert float(arcs(torch.tensor([[math.pi - 0.01], [0.01 - math.pi]])).min()) > -0.2


def test_divergence_of_a_box_in_a_box():
    flat = Problem("flat", lambda v: torch.zeros_like(v[..., 0]), (-1.0, -1.0), (1.0, 1.0), (0.0, 0.0))
    with torch.no_grad():
        found = divergence(GlobalUniform(2, width=(0.25, 0.5), bounds=(-1, 1))(torch.ones(1, 1)), flat)
    assert found.kl == pytest.approx(math.log(8), abs=1e-9)
    assert found.tv == pytest.approx(7 / 8, abs=1e-9)
    assert found.mass == pytest.approx(1, abs=1e-12)


def test_divergence_of_two_normals():
    def log_density(v):
        return -0.5 * (v[..., 0] / 0.3).square()

    problem = Problem("bump", log_density, (-math.pi,), (math.pi,), (0.1,), periodic=True)
    conditional = Gaussian(1, 1, periodic=[True], bounds=(-math.pi, math.pi), origin=[0.1], spread=0.2 / math.pi)
    with torch.no_grad():
        found = divergence(conditional(torch.ones(1, 1)), problem)
    assert found.kl == pytest.approx(math.log(0.3 / 0.2) + (0.2**2 + 0.1**2) / (2 * 0.3**2) - 0.5, abs=1e-9)


def test_divergence_on_a_table_and_of_a_point():
    problem, table = PROBLEMS["strip"], torch.tensor([[0.0, 0.0], [0.1, 0.0], [0.5, -0.5]])
    share = torch.tensor([0.2, 0.3, 0.5])
    target = problem.log_density(table).exp()
    with torch.no_grad():
        found = divergence(Categorical(table, 1, logits=share.log())(torch.ones(1, 1)), problem)
        assert math.isnan(divergence(Dirac(2, 1, bounds=(-1, 1))(torch.ones(1, 1)), problem).kl)
    assert found.kl == pytest.approx(float((share * (share * target.sum() / target).log()).sum()))


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("Dirac", "StudentT")])  # they start near the goal
def test_a_small_budget_lowers_the_objective(family):
    problem, budget = PROBLEMS["ring"], Budget(steps=60, samples=32)
    conditional = FAMILIES[family](problem)
    with torch.no_grad():
        before = float(objective(conditional(torch.ones(1, 1)), problem, 1024))
    assert fit(conditional, problem, budget, 1e-2) < before - 0.01


def test_rows_are_stored_and_drawn(tmp_path, monkeypatch):
    monkeypatch.setitem(FINE, 1, 720)
    monkeypatch.setitem(FINE, 2, 48)
    told = []
    budget = Budget(steps=2, samples=8, rates=(1e-3,), seeds=(0,))
    compute_families(tmp_path / "rows", lambda share, what: told.append(share), budget=budget, workers=1)
    compute_quadrature(tmp_path / "rows", counts=(8, 16), repeats=4)
    assert told == sorted(told)
    assert told[-1] == 1.0
    stored = read_json(tmp_path / "rows" / "families.json")
    assert stored["provenance"]["config"]["steps"] == 2
    assert [(row["family"], row["problem"]) for row in stored["rows"]] == [(f, p) for f in FAMILIES for p in PROBLEMS]
    check_pictures(densities(tmp_path / "images", tmp_path / "rows"))


def check_pictures(paths):
    for path, size in zip(paths, ((1198, 1006), (1014, 348)), strict=True):
        image = Image.open(io.BytesIO(path.read_bytes()))
        assert (image.format, image.size) == ("PNG", size)
        assert np.asarray(image.convert("RGB")).std() > 5
        assert path.stat().st_size < 150_000


def test_pictures_from_what_is_stored(tmp_path):
    check_pictures(densities(tmp_path, STORED))


def test_what_is_stored():
    """The claims of the page: who fails, who doesn't."""
    rows = read_json(STORED / "families.json")["rows"]
    assert len(rows) == len(FAMILIES) * len(PROBLEMS) * 3
    assert all(abs(row["mass"] - 1) < 3e-3 for row in rows)
    found = summary(rows)
    for problem in PROBLEMS:
        assert found["Dirac", problem] == []
        assert min(found[family, problem][0] for family in INDEPENDENT) > 1.0
        assert max(found[family, problem][-1] for family in JOINT) < 0.5
    assert sum(path.stat().st_size for path in STORED.iterdir()) < 1_000_000


def test_the_page_has_the_stored_numbers():
    page = PAGE.read_text(encoding="utf-8")
    assert divergence_table(read_json(STORED / "families.json")["rows"]) in page


def test_the_page_has_the_presets():
    page = PAGE.read_text(encoding="utf-8")
    for name, preset in PRESETS.items():
        assert f"| `{name}` | `{preset.family.__name__}` | {preset.source} |\n" in page


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_are_unbiased(kind):
    """The mean of 400 lies within 4 standard errors: 1 in 16 000 would fail by chance."""
    found = estimates("Mixture", kind, 16, 400)
    assert abs(float(found.mean()) - truth("Mixture", 200)) < 4 * float(found.std()) / 20


def test_stored_errors_fall_as_they_should():
    rows = read_json(STORED / "quadrature.json")["rows"]
    for density in {row["density"] for row in rows}:
        slopes = {}
        for kind in KINDS:
            chosen = [row for row in rows if (row["density"], row["points"]) == (density, kind)]
            n, rms = (np.log([row[key] for row in chosen]) for key in ("n", "rms"))
            slopes[kind] = np.polyfit(n, rms, 1)[0]
        assert slopes["random"] == pytest.approx(-0.5, abs=0.08)
        assert slopes["sobol"] < -0.7
