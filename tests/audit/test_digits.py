"""A digit classifier of plain torch code, trained with augmentation: the audit finds 6 and 9 by itself."""

import math
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from erlangen.audit import Settings, audit
from erlangen.data import load
from erlangen.transforms import Affine


@pytest.mark.skipif("ERLANGEN_DATA" not in os.environ, reason="needs MNIST")
def test_six_and_nine_turn_into_each_other():
    torch.set_default_dtype(torch.float32)
    data, turn = load("mnist"), Affine("angle")
    model = nn.Sequential(
        *(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for rows in torch.arange(20_000).repeat(3).split(100):
        x = turn(data.x[rows] / 255, (2 * torch.rand(len(rows), 1) - 1) * math.pi / 4)
        optimiser.zero_grad()
        F.cross_entropy(model(x), data.y[rows]).backward()
        optimiser.step()
    found = audit(model, "mnist", settings=Settings(saliency=0))
    assert found.plain["accuracy"].mean > 0.9
    pair = next(pair for pair in found.pairs[:3] if (pair.first, pair.second) == (6, 9))
    assert (pair.transform, pair.label) == ("rotation", "180°")
    assert min(pair.there, pair.back) > 0.3
    assert "6 and 9 turn into each other under rotation (180°)" in found.summary["What turns into what"]
    small = next(step for step in found.steps if step.label == "15°")
    assert small.values["consistency"].mean > 0.9  # which it was trained for
