"""Poses voted over turned copies: exactly equivariant where turns move pixels to pixels."""

import math

import pytest
import torch
from torch import nn

from erlangen.models import Voted
from erlangen.models.voted import direction
from erlangen.testing import check_conditional
from erlangen.transforms import HSV, Affine, Crop, Product, Rotations

FIVE = ("tx", "ty", "angle", "sx", "sy")


def voted(transform, copies=4, channels=3, **kwargs):
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, 6), nn.Tanh())
    head = Voted(transform, 6, encoder=encoder, copies=copies, **kwargs)
    nn.init.normal_(head.last.weight)
    return head


def turned(x, k=1):
    return torch.rot90(x, k, (-2, -1))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_pose_of_a_turned_image_is_the_pose_turned(k):
    group = Affine(*FIVE, factored=True)
    head, x = voted(group, bounded=False), torch.rand(4, 3, 8, 8)
    turn = group.element(torch.tensor([[0, 0, k * math.pi / 2, 0, 0]]))
    found, expected = group.element(head(turned(x, k)).median), group.compose(turn, group.element(head(x).median))
    torch.testing.assert_close(found, expected)


def test_a_single_copy_is_not_equivariant():
    """The twin that must fail: what the votes bring is not in the network."""
    group = Affine("angle")
    head, x = voted(group, copies=1), torch.rand(4, 3, 8, 8)
    error = torch.remainder(head(turned(x)).median - head(x).median - math.pi / 2 + math.pi, 2 * math.pi) - math.pi
    assert error.abs().max() > 0.1


def test_eight_copies_of_a_smooth_image_turn_with_it():
    """An eighth of a turn resamples: the error is that of bilinear interpolation, far below the vote itself."""
    place = torch.linspace(-1, 1, 33)
    x = torch.exp(-((place - 0.3) ** 2 + (place[:, None] + 0.1) ** 2 * 3) * 6)[None, None]
    encoder = nn.Sequential(nn.AvgPool2d(3), nn.Flatten(), nn.Linear(121, 6))
    group = Affine("angle")
    head = Voted(group, 6, encoder=encoder, copies=8)
    eighth = torch.full((1, 1), math.pi / 4)
    error = head(group(x, eighth)).median - head(x).median - eighth
    assert torch.remainder(error + math.pi, 2 * math.pi).sub(math.pi).abs().max() < 0.02


def test_hues_are_voted_on_exactly():
    group = HSV("hue", "saturation")
    head, x = voted(group, copies=6), torch.rand(5, 3, 8, 8)
    shift = torch.tensor([[1 / 6, 0.0]]).expand(5, 2)
    error = head(group(x, shift)).median - head(x).median - shift
    error[:, 0] = torch.remainder(error[:, 0] + 0.5, 1) - 0.5
    torch.testing.assert_close(error, torch.zeros_like(error))


def test_a_product_votes_on_the_angle_and_the_rest_stays():
    group = Product(Affine("tx", "ty", "angle", factored=True), HSV())
    head, x = voted(group), torch.rand(4, 3, 8, 8)
    before, after = head(x).median, head(turned(x)).median
    torch.testing.assert_close(after[:, 3:], before[:, 3:])
    torch.testing.assert_close(after[:, 0], before[:, 1])  # ty becomes tx, as y points down
    assert ((after[:, 2] - before[:, 2] - math.pi / 2).remainder(2 * math.pi).sin().abs() < 1e-9).all()


def test_the_direction_of_a_vector_and_its_gradient():
    u = torch.tensor([[3.0, 4.0], [-1.0, 0.5]], requires_grad=True)
    torch.testing.assert_close(direction(u), torch.atan2(u[:, 1], u[:, 0]))
    (own,), (exact,) = (torch.autograd.grad(f.sum(), u) for f in (direction(u), torch.atan2(u[:, 1], u[:, 0])))
    torch.testing.assert_close(own, exact, rtol=1e-3, atol=1e-5)
    zero = torch.zeros(1, 2, requires_grad=True)
    assert torch.autograd.grad(direction(zero).sum(), zero)[0].abs().max() == 0


def test_it_starts_at_the_identity_but_for_directions():
    group = Affine(*FIVE, factored=True)
    head = Voted(group, 6, encoder=nn.Sequential(nn.Flatten(), nn.Linear(192, 6)))
    v = head(torch.rand(3, 3, 8, 8)).median
    assert v[:, [0, 1, 3, 4]].abs().max() < 1e-12


def test_every_parameter_has_a_gradient():
    head = voted(Product(Affine(*FIVE, factored=True), HSV()))
    head(torch.rand(4, 3, 8, 8)).rsample().square().sum().backward()
    assert [name for name, p in head.named_parameters() if p.grad is None or not p.grad.any()] == []


@pytest.mark.parametrize(
    ("transform", "kwargs", "words"),
    [
        (Affine("tx", "angle", factored=True), {}, "both translations, or none"),
        (Affine(*FIVE), {}, "name: received None"),
        (Affine("angle"), {"name": "tx"}, "name: received 'tx'"),
        (Crop(), {}, "transform: received"),
        (Rotations(4), {}, "transform: received"),
        (HSV(), {"bounded": False}, "bounded: received False for hue"),
        (Affine("angle"), {"copies": 0}, "copies: received int 0"),
    ],
)
def test_what_cannot_be_voted_on_is_refused(transform, kwargs, words):
    with pytest.raises(ValueError, match=words):
        Voted(transform, 6, encoder=nn.Flatten(), **kwargs)


@pytest.mark.parametrize("bounded", [True, False])
def test_conforms(bounded):
    def build():
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 6), nn.Tanh())
        return Voted(Affine("angle", "scale"), 6, encoder=encoder, copies=3, bounded=bounded)

    check_conditional(build(), lambda n: torch.rand(n, 3, 8, 8, dtype=torch.float64), build=build)


@pytest.mark.parametrize("bounds", [{"tx": 0.5, "ty": 0.1}, {"tx": (-0.1, 0.5), "ty": (-0.2, 0.3)}])
def test_translations_within_unlike_bounds_turn_to_first_order(bounds):
    """Their votes turn in the units of the coordinates, around the identity; tanh bends what is far from it."""
    group = Affine("tx", "ty", "angle", factored=True, bounds=bounds)
    head, x = voted(group), torch.rand(4, 3, 8, 8)
    with torch.no_grad():
        head.last.weight[:2] *= 1e-4
    (tx, ty), turn = head(x).median[:, :2].T, head(turned(x)).median[:, :2]
    assert tx.abs().max() > 1e-6
    torch.testing.assert_close(turn, torch.stack((ty, -tx), -1), rtol=0.02, atol=1e-7)


def test_it_starts_at_the_identity_within_any_bounds():
    group = Affine("tx", "ty", "angle", factored=True, bounds={"tx": (-0.1, 0.5), "ty": 0.2})
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(192, 6))
    head = Voted(group, 6, encoder=encoder, copies=4)
    torch.testing.assert_close(head(torch.rand(3, 3, 8, 8)).median[:, :2], torch.zeros(3, 2))


def test_images_have_the_type_of_the_model():
    x = (255 * torch.rand(2, 3, 8, 8)).byte()
    head = voted(Affine("angle"))
    assert torch.equal(head(x).median, head(x / 255).median)
    half = voted(Affine("angle")).bfloat16()
    assert torch.equal(half(x).median, half((x / 255).bfloat16()).median)
    with pytest.raises(ValueError, match=r"x: received a float32 .* the model is torch.float64"):
        head((x / 255).float())
