"""Which copies are compared: whole orbits, draws from laws, there and back, and inside the disc."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal, Uniform

from erlangen.distributions import Categorical, Gaussian, GlobalUniform
from erlangen.metrics import Orbit, there_and_back
from erlangen.metrics.orbit import CHUNK, as_orbit, inscribed_disc
from erlangen.transforms import HSV, Affine, Crop, Rotations, Shifts, TimeAffine
from erlangen.utils.seeds import seeded


def angles(width=math.pi):
    return Independent(Uniform(torch.tensor([-width]), torch.tensor([width])), 1)


def test_a_finite_group_is_its_orbit_without_the_identity():
    x = torch.rand(5, 1, 6, 6)
    orbit = as_orbit(Rotations(4))
    (batch,) = orbit.batches(x, 100)
    moved = torch.cat([orbit.act(g, batch.x) for g in batch.elements])
    assert moved.shape == (3, 5, 1, 6, 6)
    for k in (1, 2, 3):
        assert torch.equal(moved[k - 1], x.rot90(k, (-2, -1)))


@pytest.mark.parametrize("size", [1, 2, 4, 7, 100])
def test_batches_hold_every_copy_once_and_no_more_than_asked(size):
    x = torch.rand(5, 1, 6, 6)
    orbit, seen = as_orbit(Rotations(4)), torch.zeros(3, 5)
    for rows, inputs, elements in orbit.batches(x, size):
        assert torch.equal(inputs, x[rows])
        for g in elements:
            assert g.numel() <= size
            for k in g[:, 0].tolist():
                seen[k - 1, rows] += 1
    assert (seen == 1).all()


def test_a_law_is_drawn_for_each_input():
    x = torch.rand(4, 1, 5, 5)
    orbit = Orbit(Affine("tx", "angle"), Independent(Normal(torch.zeros(2), torch.ones(2)), 1), samples=3)
    with seeded(0):
        g = orbit.elements(x)
    assert g.shape == (3, 4, 3, 3)
    assert len(g.flatten(0, 1).unique(dim=0)) == 12
    loc = torch.arange(4.0)[:, None] / 10
    narrow = Orbit(Affine("angle"), Independent(Normal(loc, 1e-9), 1), samples=3)
    expected = narrow.transform.element(loc.expand(3, 4, 1))
    torch.testing.assert_close(narrow.elements(x), expected, atol=1e-7, rtol=0)


def test_a_conditional_sees_each_input_and_no_batch_size():
    x = torch.rand(CHUNK + 3, 1, 3, 3)
    transform = Affine("angle")
    law = Gaussian.over(transform, 9, encoder=nn.Flatten(), spread=1e-6)
    with torch.no_grad():
        for p in law.parameters():
            p.normal_()
    orbit = Orbit(transform, law, samples=2)
    with seeded(0):
        g = orbit.elements(x)
    for size in (1, CHUNK, CHUNK + 3):
        with seeded(0):
            found = torch.cat([torch.cat(b.elements) for b in orbit.batches(x, size)], 1)
        assert torch.equal(found, g)
    assert not g.requires_grad


def test_a_finite_group_with_a_law_is_drawn():
    group, x = Rotations(4), torch.rand(500, 1, 3, 3)
    law = Categorical.over(group, 9, encoder=nn.Flatten())
    g = Orbit(group, law, samples=2).elements(x)
    assert g.shape == (2, 500)
    assert g.unique().tolist() == [0, 1, 2, 3]


def test_there_and_back_is_nothing_for_permutations_and_blur_for_others():
    x = torch.rand(2, 1, 9, 9)
    for group in (Rotations(4), Shifts(3)):
        null = there_and_back(group)
        g = null.elements(x)
        assert torch.equal(null.act(g, x), x.expand(len(g), -1, -1, -1, -1))
        assert not torch.equal(as_orbit(group).act(g, x), null.act(g, x))
    null = there_and_back(Orbit(Affine("tx"), angles(0.3), samples=3))
    g = null.elements(x)
    moved = null.act(g, x)
    twice = null.transform.act(
        null.transform.inverse(g).flatten(0, 1), null.transform.act(g, x).flatten(0, 1)
    ).unflatten(0, (3, 2))
    assert torch.equal(moved, twice)
    assert not torch.allclose(moved, x.expand_as(moved), atol=0.01)


def test_there_and_back_in_two_warps_not_one():
    """Composing first would be the identity, and so no control."""
    x = torch.rand(2, 1, 9, 9)
    null = there_and_back(Orbit(Affine("angle"), angles(), samples=4))
    g = null.elements(x)
    once = null.transform.act(null.transform.compose(null.transform.inverse(g), g), x)
    torch.testing.assert_close(once, x.expand_as(once))
    assert (null.act(g, x) - once).abs().max() > 0.1


def test_the_disc_hides_the_corners_before_and_after():
    x = torch.ones(2, 3, 8, 8)
    orbit = Orbit(Affine("tx"), angles(0.5), disc=True)
    disc = inscribed_disc(x)
    assert disc[0, 0] == disc[7, 0] == 0
    assert disc[4, 0] == disc[0, 3] == disc[4, 4] == 1
    assert torch.equal(disc, disc.rot90(1))
    assert math.pi * 16 == pytest.approx(float(disc.sum()), rel=0.05)
    framed = orbit.frame(x)
    assert torch.equal(framed, x * disc)
    moved = orbit.act(orbit.elements(x), framed)
    assert (moved[..., disc == 0] == 0).all()
    assert (Orbit(Affine("tx"), angles(0.5)).act(orbit.elements(x), x)[..., disc == 0] > 0).any()


def test_the_disc_of_a_long_image_fits_its_shorter_side():
    disc = inscribed_disc(torch.ones(1, 1, 4, 10))
    assert (disc[:, :3] == 0).all()
    assert (disc[1:3, 3:7] == 1).all()
    assert torch.equal(disc, disc.flip(0).flip(1))


def test_maps_come_back_and_bring_nothing_from_outside():
    maps = torch.rand(3, 2, 1, 6, 6)
    orbit = as_orbit(Rotations(4))
    g = orbit.elements(maps[0])
    back = orbit.realign(g, maps)
    for k in (1, 2, 3):
        assert torch.equal(back[k - 1], maps[k - 1].rot90(-k, (-2, -1)))
    filled = Orbit(Affine("tx", fill=1.0), angles(0.9), samples=3)
    g = filled.elements(maps[0])
    plain = Orbit(Affine("tx"), angles(0.9), samples=3).realign(g, maps)
    torch.testing.assert_close(filled.realign(g, maps), plain)


def test_colours_move_no_map():
    maps = torch.rand(3, 2, 1, 6, 6)
    orbit = Orbit(HSV("hue"), angles(0.1), samples=3)
    assert torch.equal(orbit.realign(orbit.elements(torch.rand(2, 3, 6, 6)), maps), maps)


def test_bytes_and_series():
    orbit = as_orbit(Rotations(4))
    x = torch.randint(256, (2, 1, 4, 4), dtype=torch.uint8)
    torch.testing.assert_close(orbit.frame(x), x.double() / 255)
    law = Independent(Uniform(torch.tensor([-0.1]), torch.tensor([0.1])), 1)
    series = Orbit(TimeAffine("shift"), law, samples=3)
    x = torch.rand(2, 1, 20)
    assert series.act(series.elements(x), x).shape == (3, 2, 1, 20)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("transform", lambda: Orbit(3)),  # pyright: ignore
        ("law", lambda: Orbit(Affine("angle"))),
        ("law", lambda: Orbit(Rotations(1))),
        ("law", lambda: Orbit(Affine("angle"), Normal(0.0, 1.0))),
        ("law", lambda: Orbit(Affine("angle"), GlobalUniform(2))),
        ("law", lambda: Orbit(Affine("angle"), 3.0)),  # pyright: ignore
        (
            "law",
            lambda: Orbit(Affine("tx"), Independent(Normal(torch.zeros(3, 1), 1.0), 1)).elements(
                torch.rand(2, 1, 4, 4)
            ),
        ),
        ("samples", lambda: Orbit(Affine("angle"), angles(), samples=0)),
        ("orbit", lambda: there_and_back(Orbit(Crop(), Independent(Uniform(torch.zeros(4), torch.ones(4)), 1)))),
        ("orbit", lambda: as_orbit(Affine("angle"))),
        ("batch_size", lambda: next(as_orbit(Rotations(4)).batches(torch.rand(1, 1, 4, 4), 0))),
        ("x", lambda: Orbit(Shifts(2), disc=True).frame(torch.rand(2, 1, 4))),
    ],
)
def test_bad_input_is_named(name, make):
    with pytest.raises(ValueError, match=f"^{name}: received"):
        make()
