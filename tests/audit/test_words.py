"""What an audit says in plain language is true of what it measured."""

import pytest
import torch
from torch import nn

from erlangen.audit import Settings, audit
from erlangen.metrics import Bootstrap

from .cases import Halves, halves

FEW = Settings(saliency=0, bootstrap=Bootstrap(resamples=50))


def test_strengths_that_hold_after_weaker_ones_break_are_named():
    """A mean over C4 does not change by quarter turns, whatever it does in between."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))

    def model(x):
        return sum(net(x.rot90(k, (-2, -1))) for k in range(4))

    data = torch.rand(60, 1, 8, 8), torch.arange(60) % 3
    said = audit(model, data, {"rotation": [45, 60, 90, 180]}, settings=FEW).summary["What breaks"]
    assert said.startswith("More than 5 % of the decisions change at these strengths, but not at all greater ones: ")
    assert "% (not at 90° and 180°)." in said
    assert "from these strengths on" not in said


def test_strengths_that_break_for_good_are_said_apart():
    """Above and below change places from 120° on, and are back after a whole turn."""
    found = audit(Halves(), halves(60), {"rotation": [120, 180]}, settings=FEW)
    assert "of the decisions change from these strengths on: rotation 120°, " in found.summary["What breaks"]
    found = audit(Halves(), halves(60), {"rotation": [120, 180, 360], "scale": [5, 8]}, settings=FEW)
    said = found.summary["What breaks"]
    assert "greater ones: rotation 120°, " in said
    assert "% (not at 360°)." in said


@pytest.mark.parametrize("squashed", [torch.sigmoid, lambda z: z])
def test_sigmoids_are_no_logits_and_nothing_is_said_of_blindness(squashed):
    x, y = halves(60)
    found = audit(lambda x: squashed(Halves()(x)), (x, y), ["flip"], settings=FEW)
    said = any("as those of independent sigmoids: give logits" in note for note in found.notes)
    assert said == found.model["sigmoids"] == (squashed is torch.sigmoid)
    assert found.blindness.blind is (None if said else False)
    assert "Invariant by blindness" not in found.summary
    assert found.plain["accuracy"].mean == 1


def test_a_constant_between_0_and_1_is_blind_and_no_sigmoid():
    found = audit(lambda x: 0.5 * x.new_ones(len(x), 3), halves(30), ["flip"], settings=FEW)
    assert not found.model["sigmoids"]
    assert found.blindness.blind


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_noise_of_the_model_is_not_put_down_to_resampling(noise):
    """Flips resample nothing: mirrored twice, an image is what it was."""

    def model(x):
        sides = x[..., :6].mean((1, 2, 3)) - x[..., 6:].mean((1, 2, 3))
        return torch.stack((sides, -sides), 1) + noise * torch.randn(len(x), 2)

    said = audit(model, (torch.rand(60, 1, 12, 12), torch.arange(60) % 2), ["flip"], settings=FEW).summary[
        "What breaks"
    ]
    assert ("leaves the frame, or noise of the model, for decisions change as well " in said) == (noise > 0)
    assert ("Much of that" in said) == (noise > 0)


def test_one_image_is_no_images():
    x, y = halves(3)
    found = audit(Halves(), (x[:1], y[:1]), ["flip"], settings=Settings(saliency=4, steps=2))
    assert "100.0 % (100.0 to 100.0) of 1 image of images is classified" in found.summary["As they are"]
    assert any("measured on 1 image." in note for note in found.notes)
    assert "1 images" not in " ".join((*found.summary.values(), *found.notes))
