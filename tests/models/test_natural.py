"""A model of symmetries as augmentation, and as what predictions are averaged over."""

import torch
from torch import nn

from erlangen.models import FromPrototype
from erlangen.objectives import HandMade

from .poses import SIZE, blobs, centred, trembling


def classifier():
    return nn.Sequential(nn.Flatten(), nn.Linear(SIZE * SIZE, 4))


def test_views_are_natural_variations():
    symmetry, x = trembling(centred()), blobs()
    averaged = symmetry.averaged(classifier(), samples=5).eval()
    prediction = averaged(x)
    views = symmetry.transform(x, prediction.v)
    expected = averaged.model(views.flatten(0, 1)).unflatten(0, (5, 3))
    torch.testing.assert_close(prediction.views, expected)
    torch.testing.assert_close(prediction.log_q, symmetry.density(x).log_prob(prediction.v))


def test_all_of_an_orbit_is_predicted_alike():
    """Prototypes are the same, and so are the variations; of an input that is only augmented they are not."""
    symmetry, x = trembling(centred()), blobs()
    averaged = symmetry.averaged(classifier(), samples=3).eval()
    found = []
    for view in (x, torch.roll(x, (2, -2), (-2, -1))):
        torch.manual_seed(0)
        found.append(averaged(view).log_probs)
    torch.testing.assert_close(found[0], found[1])
    assert (averaged.classify(x) - averaged.classify(torch.roll(x, (2, -2), (-2, -1)))).abs().max() > 0.05


def test_the_original_is_warped_once():
    symmetry, x = centred(), blobs()
    move = FromPrototype(symmetry)
    torch.testing.assert_close(move(x, symmetry.pose(x).median[None])[0], x)


def test_training_leaves_the_symmetries_alone():
    symmetry, x = trembling(centred()), blobs()
    objective = HandMade(symmetry.averaged(classifier(), samples=2))
    (name,) = objective.parameter_groups()
    assert name == "classifier"
    losses = objective.train()((x, torch.tensor([0, 1, 2])))
    losses["loss"].backward()
    assert all(p.grad is None for p in symmetry.parameters())
    assert all(p.grad.any() for p in objective.averaged.model.parameters())
    assert torch.equal(
        objective.eval()((x, torch.tensor([0, 1, 2])))["loss"], objective.plain(x, torch.tensor([0, 1, 2]))["loss"]
    )
