"""The folder of a `SymmetryFinder`: what it keeps, and what may go on in it."""

import pytest
import torch

from erlangen.data import glyphs
from erlangen.estimators import SymmetryFinder, symmetry

TINY = {"steps": (2, 2), "batch_size": 8, "samples": 1, "inference": (8,), "generative": (8,), "progress": False}


@pytest.fixture(autouse=True)
def _single():
    torch.set_default_dtype(torch.float32)


def test_a_run_goes_on_with_its_coordinates_in_their_order(tmp_path, monkeypatch):
    """Killed before its first checkpoint, so that nothing but the settings can tell."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    settings, x = {**TINY, "device": "cpu", "folder": tmp_path}, glyphs(8).x
    monkeypatch.setattr(symmetry, "fit_symmetry", stop)
    with pytest.raises(KeyboardInterrupt):
        SymmetryFinder({"tx": 0.2, "ty": 0.3}, **settings).fit(x)
    monkeypatch.undo()
    words = "transform: received ty:-0.3:0.3, tx:-0.2:0.2, but the run in .* began with tx:-0.2:0.2, ty:-0.3:0.3"
    with pytest.raises(ValueError, match=words):
        SymmetryFinder({"ty": 0.3, "tx": 0.2}, resume=True, **settings).fit(x)
    whole = SymmetryFinder({"tx": 0.2, "ty": 0.3}, resume=True, **settings).fit(x)
    assert torch.equal(SymmetryFinder.load(tmp_path).poses(x), whole.poses(x))
