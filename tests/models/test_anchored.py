"""Poses from moments: equivariant to translations and scales without learning anything."""

import math

import pytest
import torch
from torch import nn

from erlangen.distributions import Gaussian
from erlangen.models import Anchored, SymmetryModel, Voted
from erlangen.models.anchored import moments, root
from erlangen.testing import check_conditional
from erlangen.transforms import HSV, Affine

from .poses import blobs

FIVE = ("tx", "ty", "angle", "sx", "sy")
SIX = ("tx", "ty", "angle", "scale", "stretch", "shear")


def smooth(n=2, size=64):
    """Two smooth spots each near the middle, one brighter: resampling hardly changes them."""
    place = torch.linspace(-1 + 1 / size, 1 - 1 / size, size)

    def spot(x, y, width):
        return torch.exp(-((place - x) ** 2 + (place[:, None] - y) ** 2) / (2 * width**2))

    return torch.stack([spot(0.1 * k, -0.1, 0.08) + 0.5 * spot(-0.2, 0.1 * k, 0.12) for k in range(1, n + 1)])[:, None]


def anchored(group, size=64):
    encoder = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear((size // 8) ** 2, 6), nn.Tanh())
    inner = Voted(Anchored.within(group), 6, encoder=encoder, copies=4, bounded=False)
    nn.init.normal_(inner.last.weight, 0, 0.3)
    return Anchored(group, inner)


def test_moments_by_hand():
    x = torch.zeros(2, 1, 8, 8)
    x[0, 0, 1, [1, 5]] = torch.tensor([1.0, 3.0])  # at x = -5/8 and 3/8, y = -5/8
    centre, covariance = moments(x)
    least = (2 / 8) ** 2 / 12  # along y there is one pixel
    torch.testing.assert_close(centre[0], torch.tensor([1 / 8, -5 / 8]))
    torch.testing.assert_close(covariance[0], torch.tensor([[0.25 * 0.75**2 + 0.75 * 0.25**2, 0], [0, least]]))
    assert centre[1].abs().max() == 0
    assert torch.equal(covariance[1], torch.eye(2) / 2)


def test_moments_move_with_their_image():
    group, x = Affine(*SIX, factored=True), smooth()
    g = group.element(torch.tensor([[0.2, -0.15, 0.8, -0.2, 0.2, -0.1]]))
    (centre, square), (moved, grown) = moments(x), moments(group.act(g, x))
    torch.testing.assert_close(moved, group.act_points(g, centre[:, None])[:, 0], rtol=0, atol=2e-3)
    linear = g[:, :2, :2]
    torch.testing.assert_close(grown, linear @ square @ linear.mT, rtol=0, atol=5e-4)


def test_root():
    square = moments(smooth())[1]
    found = root(square, 1e-6)
    torch.testing.assert_close(found @ found, square)
    line = torch.tensor([[1.0, 1.0], [1.0, 1.0]])
    assert torch.linalg.eigvalsh(root(line, 1e-2)).min() > 1e-3


@pytest.mark.parametrize("names", [FIVE, SIX, ("tx", "ty", "angle", "scale"), ("tx", "ty", "angle")])
def test_one_prototype_for_shifts_by_pixels_and_quarter_turns(names):
    """Exact: what the head sees is the same image."""
    group = Affine(*names, factored=True)
    model = SymmetryModel.over(group, (1, 16, 16), copies=4, anchored=True, inference=(8,), generative=(8,), layers=2)
    nn.init.normal_(model.inference.inner.last.weight, 0, 0.3)
    x = blobs()
    for view in (torch.roll(x, (2, -3), (-2, -1)), torch.rot90(x, 1, (-2, -1))):
        torch.testing.assert_close(model.prototype(view), model.prototype(x))


def test_scales_are_nearly_exact_and_without_the_anchor_they_are_not():
    group, x = Affine("tx", "ty", "angle", "scale", factored=True), smooth()
    h = group.element(torch.tensor([[0.15, 0.1, math.pi / 2, -0.3]]))
    head, view = anchored(group), group.act(h, x)
    errors = [_error(group, pose, h, view, x) for pose in (head, head.inner)]  # the inner one alone must fail
    assert errors[0] < 0.03 < errors[1]


def _error(group, pose, h, view, x):
    """How far the pose of a view is from where it takes that of the input."""
    return (group.element(pose(view).median) - group.compose(h, group.element(pose(x).median))).abs().max()


def test_all_affine_maps_become_turns():
    """By a covariance that is round whatever the map was, and a head whose copies are turned less and less."""
    group, x = Affine(*SIX, factored=True), smooth()
    h = group.element(torch.tensor([[0.15, 0.1, 0.3, -0.2, 0.2, 0.15]]))
    view = group.act(h, x)
    whole = anchored(group)
    seen, twin = whole.anchor(x), Anchored(Affine("tx", "ty", "scale", factored=True), Gaussian(3, 3)).anchor(x)
    for a, close in ((seen, True), (twin, False)):  # a mean radius alone does not make it round
        square = moments(group.act(group.inverse(a), x))[1]
        assert torch.allclose(square, 0.08 * torch.eye(2).expand(2, 2, 2), atol=2e-3) == close
    turn = group.compose(group.inverse(whole.anchor(view)), group.compose(h, seen))
    torch.testing.assert_close(turn[:, :2, :2] @ turn[:, :2, :2].mT, torch.eye(2).expand(2, 2, 2), rtol=0, atol=0.02)


def test_five_coordinates_leave_out_the_shear():
    """Without a rotation before it, a stretch is found exactly; the shear of the frame is not in the pose."""
    group, x = Affine(*FIVE, factored=True), smooth()
    head = anchored(group)
    assert head.inner.features == 6
    assert head(x).median.shape == (2, 5)
    whole = head.whole.compose(
        head.anchor(x), head.whole.element(head.inner(head.whole.act(head.whole.inverse(head.anchor(x)), x)).median)
    )
    torch.testing.assert_close(head(x).median, head.whole.element_log(whole)[:, :5])


def test_every_parameter_has_a_gradient():
    group = Affine(*FIVE, factored=True)
    head = anchored(group)
    head(smooth()).rsample().square().sum().backward()
    assert [name for name, p in head.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_what_has_no_moments_is_refused():
    group = Affine(*FIVE, factored=True)
    inner = Gaussian.over(Anchored.within(group), 3, bounds=None)
    with pytest.raises(ValueError, match="transform: received HSV; accepted is an Affine with factored=True"):
        Anchored(HSV(), inner)
    with pytest.raises(ValueError, match="transform: received Affine"):
        Anchored(Affine(*FIVE), inner)
    with pytest.raises(ValueError, match="inner: received"):
        Anchored(group, Gaussian.over(Anchored.within(group), 3))
    with pytest.raises(ValueError, match="accepted is a Conditional without bounds over tx, ty, angle, sx, sy, shear"):
        Anchored(group, Gaussian.over(group, 3, bounds=None))
    with pytest.raises(ValueError, match="radius: received"):
        Anchored(group, inner, radius=0)


def test_conforms():
    def build():
        group = Affine("tx", "ty", "angle", factored=True)
        encoder = nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(4, 6), nn.Tanh())
        return Anchored(group, Voted(group, 6, encoder=encoder, copies=3, bounded=False))

    check_conditional(build(), lambda n: torch.rand(n, 1, 16, 16, dtype=torch.float64), build=build)


@pytest.mark.parametrize(
    ("names", "move"),
    [
        (("sx", "sy"), {"sx": 0.3, "sy": -0.1}),
        (("scale", "stretch"), {"scale": 0.1, "stretch": 0.2}),
        (("stretch",), {"stretch": 0.2}),
        (("sx",), {"sx": 0.3}),
        (("sy",), {"sy": 0.3}),
    ],
)
def test_scales_along_the_axes_are_read_off_where_nothing_turns(names, move):
    group = Affine("tx", "ty", *names, factored=True)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64 * 64, 6))
    head, x = Anchored(group, Gaussian.over(group, 6, encoder=encoder, bounds=None)), smooth()
    nn.init.zeros_(head.inner.loc.last.weight)  # it says nothing: all is in the moments
    v = torch.tensor([[move.get(name, 0.0) for name in group.names]])
    change = head(group(x, v.expand(len(x), -1))).median - head(x).median
    scales = [k for k, name in enumerate(group.names) if name in names]
    torch.testing.assert_close(change[:, scales], v[:, scales].expand(len(x), -1), rtol=0.02, atol=2e-3)


def test_inputs_of_another_type_are_widened_or_refused():
    q = anchored(Affine("tx", "ty", "angle", factored=True)).float()
    x = smooth().float()
    torch.testing.assert_close(q(x.half()).mean, q(x.half().float()).mean)
    with pytest.raises(ValueError, match=r"^x: received a float64 .* the model is torch.float32"):
        q(x.double())


def test_moments_of_half_precision_are_those_of_its_values():
    """The mass of a bright image is more than float16 holds."""
    x = torch.ones(1, 3, 256, 256)
    x[..., :128] = 0
    for found, expected in zip(moments(x.half()), moments(x), strict=True):
        torch.testing.assert_close(found, expected.float())


def test_images_with_missing_values_are_named():
    x = smooth()
    x[1, 0, 3, 3] = math.nan
    with pytest.raises(ValueError, match=r"x: received .* with NaN or infinite values \(1 of 8192 entries\)"):
        anchored(Affine("tx", "ty", "angle", factored=True))(x)
