"""Sprites in the manner of dSprites, and the laws that they follow."""

import math

import pytest
import scipy.stats
import torch

from erlangen.data import FactoredSet, read_sprites, sprites
from erlangen.data.sprites import FACTORS, LAWS, PERIODS, SHAPES, _draw
from erlangen.transforms import Affine


def test_a_set_of_sprites():
    data = sprites(10, size=32)
    assert data.x.shape == (10, 1, 32, 32)
    assert data.x.dtype == torch.uint8
    assert sorted(data.counts()) == [3, 3, 4]
    assert data.names == FACTORS
    assert torch.equal(data.factor("x"), data.factors[:, 2])
    assert torch.equal(sprites(10, size=32).x, data.x)
    assert not torch.equal(sprites(10, size=32, seed=1).x, data.x)
    assert data.subset(torch.arange(3)).factors.shape == (3, 4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FACTORS)
def test_laws_are_those_of_the_appendix(shape, name):
    """Quantiles against scipy's, and the ends."""
    law, u = LAWS[shape][name], torch.linspace(0, 1, 101)
    value = law.quantile(u)
    assert (value.diff() >= 0).all()
    low, high = min(a for a, _ in law.ranges), max(b for _, b in law.ranges)
    torch.testing.assert_close(value[[0, -1]], torch.tensor([low, high]), rtol=0, atol=1e-9)
    if law.centre is not None:
        mean, spread = law.centre[0], math.sqrt(law.centre[1])
        ends = ((low - mean) / spread, (high - mean) / spread)
        expected = scipy.stats.truncnorm(*ends, loc=mean, scale=spread).ppf(u.numpy())
        torch.testing.assert_close(value, torch.from_numpy(expected))


def test_hearts_are_upright_and_high_or_low():
    data = sprites(300, size=8)
    heart = data.y == SHAPES.index("heart")
    assert data.factor("orientation")[heart].abs().max() == 0
    height = data.factor("y")[heart]
    assert (((height > 0.1) & (height < 0.3)) | ((height > 0.7) & (height < 0.9))).all()
    assert abs((height > 0.5).double().mean() - 0.5) < 0.3  # 100 hearts: 6 standard deviations


@pytest.mark.parametrize("shape", SHAPES)
def test_factors_can_be_read_off(shape):
    """Positions to a few hundredths of a pixel, scales to a percent, angles to a degree: there is a raster."""
    u = torch.rand(40, 4)
    factors = torch.tensor([0.5, 0.0, 0.0, 0.0]) + torch.tensor([0.5, PERIODS[shape], 1.0, 1.0]) * u
    found = read_sprites(_draw(shape, factors, 64), torch.full((40,), SHAPES.index(shape)))
    error = (found - factors).abs()
    turn = torch.remainder(found[:, 1] - factors[:, 1] + PERIODS[shape] / 2, PERIODS[shape]) - PERIODS[shape] / 2
    assert error[:, 2:].max() < 1e-3
    assert error[:, 0].max() < 0.01
    assert turn.abs().max() < math.radians(1)


def test_the_error_of_orientations_is_the_one_that_is_stated():
    data = sprites(900)
    period = torch.tensor([PERIODS[shape] for shape in SHAPES])[data.y]
    turn = read_sprites(data.x, data.y)[:, 1] - data.factor("orientation")
    error = (torch.remainder(turn + period / 2, period) - period / 2).rad2deg()
    found = [error[data.y == k].square().mean().sqrt().item() for k in range(len(SHAPES))]
    assert found == pytest.approx([0.06, 0.06, 0.12], abs=0.02)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_shapes_of_a_scale_have_one_area(shape):
    image = _draw(shape, torch.tensor([[1.0, 0.3, 0.5, 0.5]]), 128)
    area = image.double().sum() / 255 * (2 / 128) ** 2
    assert area.item() == pytest.approx((2 / 3) ** 2, rel=0.01)


def test_orientation_and_place_are_those_of_transforms():
    """Counter-clockwise as displayed, y down: what `Affine` does to a sprite is what its factors say."""
    start = _draw("heart", torch.tensor([[0.8, 0.0, 0.5, 0.5]]), 64).double() / 255
    move = Affine("tx", "ty", "angle", "scale", factored=True)
    moved = move(start, torch.tensor([[0.2, -0.1, 0.7, 0.1]]))
    right, wrong = (
        _draw("heart", torch.tensor([[0.8 * math.exp(0.1), turn, 0.7, 0.4]]), 64).double() / 255 for turn in (0.7, -0.7)
    )
    assert (moved - right).abs().mean() < 0.2 * (moved - wrong).abs().mean()


def test_factors_must_fit():
    data = sprites(4, size=8)
    with pytest.raises(ValueError, match="factors: received"):
        FactoredSet(data.x, data.y, data.classes, "s", data.factors[:2], data.names)
    with pytest.raises(ValueError, match="name: received 'z'; accepted is one of scale"):
        data.factor("z")
    with pytest.raises(ValueError, match="x: received"):
        read_sprites(torch.rand(2, 3, 8, 8), torch.zeros(2))
    with pytest.raises(ValueError, match="y: received"):
        read_sprites(torch.rand(2, 1, 8, 8), torch.zeros(3))
    with pytest.raises(ValueError, match="n: received"):
        sprites(0)


@pytest.mark.parametrize("y", [[0, 3], [-1, 0], [0.5, 1.0]])
def test_shapes_are_those_that_there_are(y):
    with pytest.raises(
        ValueError, match=r"y: received .* with others; accepted are 0 to 2, for square, ellipse, heart"
    ):
        read_sprites(sprites(2, size=8).x, torch.tensor(y))


@pytest.mark.parametrize("scale", [255.0, -1.0, math.nan])
def test_levels_are_within_one(scale):
    with pytest.raises(
        ValueError, match=r"x: received images from .*; accepted are images within \[0, 1\] or in uint8"
    ):
        read_sprites(torch.full((2, 1, 8, 8), scale), torch.zeros(2))
