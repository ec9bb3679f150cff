"""Objectives of one's own: what they return, and what they train."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from erlangen.objectives import Objective
from erlangen.train import Config, TensorLoader, fit, fit_many


class Own(Objective):
    """The cross-entropy of a linear classifier, and whatever is made of it."""

    def __init__(self, made=lambda loss: {"loss": loss}, groups=dict):
        super().__init__()
        self.net, self.made, self.groups = nn.Linear(4, 3), made, groups

    def forward(self, batch):
        x, y = batch
        return self.made(F.cross_entropy(self.net(x), y))

    def parameter_groups(self):
        return self.groups(own=list(self.net.parameters()))


def loader():
    return TensorLoader(torch.randn(8, 4), torch.arange(8) % 3, batch_size=4)


CONFIG = Config(steps=2, progress=False)


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (
            lambda loss: loss,
            r"objective: received a .* tensor of shape \(\) .* from forward; accepted is a dict of scal",
        ),
        (lambda loss: {"cross": loss}, r"objective: received the losses \['cross'\] from forward; accepted is a dict"),
        (lambda loss: {"loss": 0.5}, "objective: received float 0.5 as 'loss'; accepted is a dict of scalar tensors"),
        (lambda loss: {"loss": loss, "n": 3}, "objective: received int 3 as 'n'; accepted"),
        (
            lambda loss: {"loss": loss, "each": loss.expand(3)},
            r"objective: received .* \(3,\) on cpu as 'each'; accepted",
        ),
        (lambda loss: {"loss": loss, "step": loss}, r"objective: received the losses \['step'\]; accepted are names"),
    ],
)
def test_what_an_objective_returns_is_checked(made, match):
    with pytest.raises(ValueError, match=f"^{match}"):
        fit(Own(made), loader(), CONFIG)
    with pytest.raises(ValueError, match=match):
        fit_many([Own(made), Own(made)], [loader(), loader()], CONFIG)


def test_a_loss_without_a_gradient_is_refused():
    with pytest.raises(ValueError, match=r"^objective: received a loss without a gradient; accepted"):
        fit(Own(lambda loss: {"loss": loss.detach()}), loader(), CONFIG)


def test_what_is_trained_is_the_objectives_own():
    """Of others, weights would be trained that no checkpoint keeps."""
    other = nn.Linear(2, 2)
    match = "^objective: received parameters in the group 'own' that are those of no module of it; accepted"
    with pytest.raises(ValueError, match=match):
        fit(Own(groups=lambda own: {"own": [*own, other.weight]}), loader(), CONFIG)
    with pytest.raises(ValueError, match=match.replace("objective", r"objectives\[1\]")):
        fit_many([Own(), Own(groups=lambda own: {"own": [*own, other.weight]})], [loader(), loader()], CONFIG)
    with pytest.raises(ValueError, match=r"^objective: received list .* from parameter_groups; accepted is a dict"):
        fit(Own(groups=lambda own: own), loader(), CONFIG)
