"""Congealing inputs whose poses and shapes are known."""

import math
import os

import pytest
import torch

from erlangen.align import clusters, congeal, mean_shift, templates
from erlangen.data import glyphs, mnist, rotated
from erlangen.distributions import Conditional
from erlangen.distributions.bounded import BoundedDensity
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.metrics import sharpness
from erlangen.transforms import HSV, Affine, Crop, Flips, Product, Rotations, Similarity, TimeAffine

SIZE = 24
NEAR = math.radians(5)


def turned(g, angle):
    """The angle at which each input ends, given that at which it came, from the mean of all: `(B,)`."""
    end = torch.polar(torch.ones_like(angle), torch.atan2(g[:, 0, 1], g[:, 0, 0]).to(angle) + angle)
    return torch.angle(end / end.mean().sgn())


def waves(v, shape):
    """Series of one of two asymmetric shapes, shifted and stretched: `(B, 1, 96)`."""
    time = torch.linspace(-1, 1, 97)[:-1] + 1 / 96
    t = (time - v[:, :1]) * torch.exp(-v[:, 1:])
    first = torch.exp(-((t + 0.2) ** 2) / 0.01) - 0.6 * torch.exp(-((t - 0.1) ** 2) / 0.02)
    other = torch.exp(-(t**2) / 0.04) * torch.sin(14 * t)
    return torch.where(shape[:, None] == 0, first, other)[:, None]


def pair(angle):
    """A large and a small spot opposite one another, turned: `(B, 1, SIZE, SIZE)`."""
    axis = (torch.arange(SIZE) + 0.5) / SIZE * 2 - 1
    out = 0
    for radius, width, height in ((0.5, 0.03, 1.0), (-0.5, 0.008, 0.7), (-0.15, 0.006, 0.5)):
        x, y = radius * angle.cos()[:, None, None], -radius * angle.sin()[:, None, None]
        out = out + height * torch.exp(-((axis - x) ** 2 + (axis[:, None] - y) ** 2) / width)
    return out[:, None]


class TwoMinded(Conditional):
    """Turns the large spot to the right or to the left, whichever is nearer: every input rests at one of two modes."""

    def __init__(self, transform):
        super().__init__(1, 1, periodic=transform.periodic, bounds=transform.bounds)

    def forward(self, x):
        axis = (torch.arange(SIZE) + 0.5) / SIZE * 2 - 1
        at = torch.atan2(-(x[:, 0] * axis[:, None]).sum((1, 2)), (x[:, 0] * axis).sum((1, 2)))
        back = -torch.where(at.abs() < math.pi / 2, at, torch.remainder(at, 2 * math.pi) - math.pi)[:, None]
        return BoundedDensity(GaussianDensity(back, torch.full_like(back, 0.3), (True,)), *self.bounds)


def test_figures_turned_by_anything_end_at_one_pose_each():
    data = glyphs(60, spread=math.pi / 2)
    turn = Affine("angle", interpolation="bicubic")
    x, figure = data.x.float() / 255, data.y // 2  # upright and upside down alike: any angle
    found = congeal(x, figure, turn)
    assert found.labels.tolist() == [0, 1]
    assert found.weights.tolist() == [1, 1]
    for k in (0, 1):
        off = turned(found.g[figure == k], data.angle[figure == k])
        assert off.abs().median() < NEAR / 5
        assert off.abs().max() < NEAR
    assert (found.after > 0.85).all()
    assert (found.before < 0.3).all()
    torch.testing.assert_close(found.x, turn.act(found.g, x), atol=1e-6, rtol=0)


def test_a_class_of_two_shapes_gets_two_prototypes():
    data = glyphs(40, spread=math.pi / 2)
    found = congeal(data.x, None, Affine("angle"))
    assert found.labels.tolist() == [0, 0]
    assert found.member.shape == (40,)
    for k in (0, 1):
        assert len((data.y[found.member == k] // 2).unique()) == 1
        assert turned(found.g[found.member == k], data.angle[found.member == k]).abs().median() < NEAR
    assert found.weights.sum() == pytest.approx(1)
    assert (found.residual < 0.1).all()
    one = congeal(data.x, None, Affine("angle"), prototypes=1)
    assert one.labels.tolist() == [0]
    assert one.residual.mean() > 0.2


def test_one_shape_under_noise_gets_one_prototype():
    x = pair(2 * math.pi * torch.rand(60)) + 0.2 * torch.randn(60, 1, SIZE, SIZE)
    assert len(congeal(x, None, Affine("angle")).prototypes) == 1


def test_an_outlier_neither_gets_a_prototype_nor_spoils_one():
    x = pair(torch.zeros(1)).repeat(40, 1, 1, 1)
    x[7] = x[7].flip(-2).roll(5, -1) + torch.rand(1, SIZE, SIZE)
    found = congeal(x, None, Affine("angle"))
    assert len(found.prototypes) == 1
    torch.testing.assert_close(found.prototypes[0], x[0], atol=0.02, rtol=0)
    assert found.residual.argmax() == 7


def test_shift_scale_and_angle_together():
    place = Similarity()
    v = (torch.rand(40, 4) * 2 - 1) * torch.tensor([math.pi, 0.2, 0.15, 0.15])
    x = place(pair(torch.zeros(40)), v)
    found = congeal(x, None, place)
    assert len(found.prototypes) == 1
    # What was done and undone is the same for all, up to a fraction of a pixel.
    whole = place.compose(found.g, place.element(v))
    corners = torch.tensor([[-0.5, -0.5], [0.5, 0.5]]).expand(40, 2, 2)
    ends = place.act_points(whole, corners)
    assert (ends - ends.median(0).values).norm(dim=-1).median() < 1 / SIZE
    assert found.after[0] > 3 * found.before[0]


def test_the_prototype_takes_the_pose_of_its_most_central_member():
    angle = torch.linspace(-0.5, 0.5, 21)
    turn = Affine("angle", interpolation="bicubic")
    found = congeal(pair(angle + 1), None, turn)
    torch.testing.assert_close(found.g[10], turn.identity(), atol=0.01, rtol=0)
    torch.testing.assert_close(found.prototypes[0], pair(torch.ones(1))[0], atol=0.05, rtol=0)


@pytest.mark.parametrize("shapes", [1, 2])
def test_series(shapes):
    time = TimeAffine()
    v = (torch.rand(40, 2) * 2 - 1) * torch.tensor([0.2, 0.2])
    shape = torch.arange(40) % shapes
    found = congeal(waves(v, shape), None, time)
    assert len(found.prototypes) == shapes
    assert found.prototypes.shape == (shapes, 1, 96)
    assert (found.after > 0.9).all()
    assert (found.after > 1.5 * found.before).all()
    whole = time.compose(found.g, TimeAffine(factored=True).element(v))
    for k in range(shapes):
        assert len(shape[found.member == k].unique()) == 1
        ends = whole[found.member == k]
        assert (ends - ends.median(0).values).abs().amax((1, 2)).median() < 1 / 96


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
def test_series_in_any_unit(unit):
    late = torch.linspace(-0.2, 0.2, 6)[:, None]
    x = waves(torch.cat((late, torch.zeros_like(late)), 1), torch.zeros(6))
    one, other = (congeal(s, None, TimeAffine("shift")) for s in (x, unit * x))
    assert one.residual.max() < 0.01
    assert torch.equal(one.g, other.g)
    for name in ("residual", "before", "after"):
        torch.testing.assert_close(getattr(other, name), getattr(one, name))


@pytest.mark.parametrize("group", [Rotations(4), Flips(), Rotations(12)], ids=["C4", "flips", "C12"])
def test_finite_groups(group):
    x = pair(torch.full((20,), 0.4))
    g = torch.randint(len(group), (20,))
    found = congeal(group.act(g, x), None, group)
    assert len(found.prototypes) == 1
    assert len(group.compose(found.g, g).unique()) == 1


def test_positions_and_colours():
    both = Product(Affine("angle"), HSV("hue"))
    v = (torch.rand(8, 2) * 2 - 1) * torch.tensor([math.pi, 0.5])
    x = both((glyphs(4, size=20).x[:1].double() / 255).expand(8, -1, -1, -1), v)
    found = congeal(x, None, both, prototypes=1, poses=128)
    assert found.residual.median() < 0.05
    assert found.after[0] > 2 * found.before[0]


def test_inputs_that_rest_at_two_modes_are_reunited():
    """Mean-shift alone leaves half of them upside down: what the paper says of fours and sixes."""
    turn = Affine("angle", interpolation="bicubic")
    angle = 2 * math.pi * torch.rand(40)
    x = pair(angle)
    shifted = mean_shift(x, turn, TwoMinded(turn))
    assert 0.2 < (turned(shifted.g, angle).abs() > 3).double().mean() < 0.8
    found = congeal(x, None, turn, TwoMinded(turn))
    assert len(found.prototypes) == 1
    assert turned(found.g, angle).abs().max() < NEAR
    assert found.after[0] > 0.9
    assert sharpness(shifted.x.mean(0), x) < 0.8
    torch.testing.assert_close(found.x, turn.act(found.g, x))


def test_the_same_on_every_run_and_in_chunks_of_any_size(monkeypatch):
    x = pair(2 * math.pi * torch.rand(8)) + 0.05 * torch.randn(8, 1, SIZE, SIZE)
    y, turn = torch.arange(8) % 2 * 5, Affine("angle")
    first = congeal(x, y, turn, prototypes=2)
    assert first.labels.tolist() == [0, 5]
    torch.manual_seed(17)
    again = congeal(x, y, turn, prototypes=2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    monkeypatch.setattr(clusters, "CHUNK", 3)
    monkeypatch.setattr(templates, "ENTRIES", 40_000)
    for a, b in zip(first, congeal(x, y, turn, prototypes=2), strict=True):
        torch.testing.assert_close(a, b)


def test_few_and_flat_inputs():
    turn = Affine("angle")
    alone = congeal(pair(torch.ones(1)), None, turn)
    torch.testing.assert_close(alone.prototypes, pair(torch.ones(1)))
    flat = congeal(torch.full((3, 1, 8, 8), 0.3), torch.tensor([0, 0, 1]), turn)
    assert flat.labels.tolist() == [0, 1]
    assert flat.x.isfinite().all()
    assert (flat.residual == 1).all()


def test_bad_input():
    x, turn = pair(torch.zeros(3)), Affine("angle")
    for wrong, match in (
        ({"transform": Crop()}, "Group"),
        ({"y": torch.zeros(2, dtype=torch.long)}, "y: received"),
        ({"y": torch.zeros(3)}, "integer"),
        ({"x": x[:0]}, "x: received"),
        ({"x": x * math.nan}, "finite"),
        ({"x": x[0]}, "x: received"),
        ({"prototypes": 0}, "prototypes"),
        ({"gain": 0}, "gain"),
        ({"gain": 1.0}, "gain"),
        ({"poses": 0.5}, "poses"),
        ({"transform": Similarity(), "conditional": TwoMinded(turn)}, "conditional"),
    ):
        with pytest.raises(ValueError, match=match):
            congeal(**{"x": x, "y": None, "transform": turn} | wrong)


@pytest.mark.skipif("ERLANGEN_DATA" not in os.environ, reason="needs MNIST")
def test_digits_turned_by_up_to_45_degrees():
    data = mnist("test", download=False)
    some = torch.cat([(data.y == c).nonzero().flatten()[:120] for c in (3, 4, 6)])
    data = rotated(data.subset(some), math.pi / 4, seed=1)
    x = data.x.to(torch.float32) / 255
    place = Affine("tx", "ty", "angle", factored=True)
    one = congeal(x, data.y, place, prototypes=1)
    assert one.labels.tolist() == [3, 4, 6]
    assert (one.after > 2 * one.before).all()
    several = congeal(x, data.y, place)
    assert [(several.labels == c).sum().item() for c in (4, 6)] == [2, 2]
    assert several.residual.mean() < 0.95 * one.residual.mean()
