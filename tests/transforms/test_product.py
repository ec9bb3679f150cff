"""Products: joined coordinates and elements, one warp for consecutive affine factors, inverses in either order."""

import copy

import pytest
import torch

from erlangen.transforms import (
    CPAB,
    HSV,
    Affine,
    AffineMatrix,
    Crop,
    FiniteGroup,
    Flips,
    Group,
    Product,
    Rotations,
    Shifts,
    TimeAffine,
)


def test_the_first_factor_acts_first():
    x, turn, crop = torch.rand(2, 3, 8, 8), Rotations(4), Crop()
    v = torch.tensor([[1.0, 0.3, -0.2, 0.5, 0.7], [3.0, -1.0, 1.0, 0.4, 0.4]])
    assert torch.allclose(Product(turn, crop)(x, v), crop(turn(x, v[:, :1]), v[:, 1:]))
    assert torch.allclose(Product(crop, turn)(x, v.roll(4, 1)), turn(crop(x, v[:, 1:]), v[:, :1]))


def test_elements_are_flattened_and_joined():
    affine, hsv = Affine("tx", "angle"), HSV()
    both = Product(affine, hsv)
    v = torch.randn(3, 2, 5)
    expected = torch.cat((affine.element(v[..., :2]).flatten(-2), hsv.element(v[..., 2:])), -1)
    assert torch.equal(both.element(v), expected)
    assert both.element_shape == (12,)
    assert Product(Affine("angle"), Affine("tx")).element_shape == (18,)
    assert Product(Affine("angle"), Crop()).element_shape == (13,)
    assert both.names == ("tx", "angle", "hue", "saturation", "value")
    assert both.periodic == (False, False, True, False, False)
    assert both.support.check(torch.zeros(5))


def test_consecutive_affine_factors_warp_once():
    x = torch.rand(2, 3, 16, 16)
    turn, shift = Affine("angle"), Affine("tx", "ty")
    both = Product(turn, shift)
    v = torch.tensor([[0.5, 0.2, -0.1], [1.5, 0.1, 0.3]])
    matrix = shift.element(v[:, 1:]) @ turn.element(v[:, :1])
    assert torch.allclose(both(x, v), Affine().act(matrix, x), atol=1e-12)
    assert not torch.allclose(both(x, v), shift(turn(x, v[:, :1]), v[:, 1:]), atol=1e-3)
    # Turned there and back exactly: two warps could not restore it.
    again = Product(turn, AffineMatrix(), turn)
    v = torch.zeros(2, 8)
    v[:, 0], v[:, -1] = 0.6, -0.6
    assert torch.allclose(again(x, v), x, atol=1e-12)


def test_factors_that_resample_otherwise_are_not_merged():
    x = torch.rand(2, 3, 16, 16)
    mixed = Product(Affine("angle", interpolation="nearest"), Affine("angle"))
    v = torch.tensor([[0.6, -0.6]]).repeat(2, 1)
    assert not torch.allclose(mixed(x, v), x, atol=1e-3)


@pytest.mark.parametrize(
    ("factors", "group"),
    [
        ((Affine(), HSV()), True),
        ((HSV("hue"), Rotations(4)), True),
        ((Affine(),), True),
        ((Affine(), Affine()), False),
        ((Flips(), Rotations(4)), False),
        ((HSV(), HSV()), False),
        ((Crop(), HSV()), False),
        ((CPAB((2, 2)), HSV()), False),
    ],
)
def test_a_product_is_a_group_when_its_factors_commute(factors, group):
    product = Product(*factors)
    assert isinstance(product, Group) == group
    assert isinstance(copy.deepcopy(product), Group) == group
    assert product.invertible == all(f.invertible for f in factors)


def random_coordinates(product, *shape):
    v = 0.3 * torch.randn(*shape, product.features)
    whole = torch.tensor([s.is_discrete for s in product.supports])
    return torch.where(whole, torch.randint(2, v.shape).double(), v)


INVERTIBLE = [
    Product(Affine("angle"), Affine("tx", "sx")),
    Product(Affine("angle"), HSV(), Affine("tx", "sx"), HSV("hue"), Affine("shear")),
    Product(Flips(), Affine("angle", "tx")),
    Product(Affine("tx"), Rotations(4), HSV(), Affine("angle")),
    Product(Rotations(4), Flips()),
    Product(HSV(), HSV()),
]


@pytest.mark.parametrize("product", INVERTIBLE, ids=lambda p: " ".join(p.names))
def test_inverse_undoes(product):
    product = copy.deepcopy(product).double()
    g = product.element(random_coordinates(product, 4, 3))
    p = torch.rand(3, 5, 2) - 0.5
    there = product.act_points(g, p).flatten(0, 1)
    back = product.act_points(product.inverse(g).flatten(0, 1), there)
    assert torch.allclose(back.unflatten(0, (4, 3)), p.expand(4, 3, 5, 2), atol=1e-12)
    assert torch.allclose(product.act_points(product.inverse(product.inverse(g)), p), product.act_points(g, p))


def test_elements_of_both_orders_in_one_batch():
    product = Product(Rotations(4), Flips(), Affine("angle"))
    x = torch.rand(4, 2, 6, 6)
    g = product.element(random_coordinates(product, 4))
    mixed = torch.where(torch.tensor([True, False, True, False])[:, None], g, product.inverse(g))
    out = product.act(mixed, x)
    assert torch.allclose(out[::2], product.act(g, x)[::2])
    assert torch.allclose(out[1::2], product.act(product.inverse(g), x)[1::2])


def test_samples_and_shared_elements():
    product = Product(Flips(), Affine("angle", "tx"), HSV())
    x = torch.rand(3, 3, 8, 8)
    v = random_coordinates(product, 4, 1)
    assert torch.allclose(product(x, v), product(x, v.expand(4, 3, -1)))
    assert torch.allclose(product(x, v)[2], product(x, v[2]))


def test_nested_products_are_taken_apart():
    product = Product(Product(Affine("angle"), HSV()), Affine("tx"))
    assert [type(f).__name__ for f in product.factors] == ["Affine", "HSV", "Affine"]


def test_repeated_names_are_told_apart():
    assert Product(Affine("tx", "angle"), Affine("tx")).names == ("tx.0", "angle", "tx.1")


@pytest.mark.parametrize("interpolation", ["bicubic", "spline"])
def test_colours_after_an_interpolation_that_overshoots(interpolation):
    product = Product(Affine("angle", interpolation=interpolation), HSV())
    x = torch.rand(1, 3, 16, 16).round()
    out = product(x, torch.tensor([[0.4, 0.1, 0.1, 0.1]]))
    assert (out >= 0).all()
    assert (out <= 1).all()


def test_series():
    product = Product(TimeAffine(), Shifts(4), CPAB((4,)))
    assert product(torch.rand(2, 3, 16), torch.zeros(5, 2, product.features)).shape == (5, 2, 3, 16)
    assert product.invertible
    assert not isinstance(product, FiniteGroup)


def test_masks():
    product = Product(Affine("tx"), HSV(), Flips())
    mask = torch.randint(5, (2, 1, 8, 8))
    g = product.element(torch.tensor([[0.25, 0.1, 0.2, 0.3, 1.0]]))
    moved = product.act_mask(g, mask)
    assert moved.dtype == mask.dtype
    assert torch.equal(moved[..., :-1], mask.flip(-1)[..., 1:])


def test_bad_factors():
    with pytest.raises(ValueError, match="received none"):
        Product()
    with pytest.raises(ValueError, match="received str 'Affine'"):
        Product(Affine(), "Affine")
    with pytest.raises(ValueError, match="not invertible"):
        Product(Crop(), HSV()).inverse(torch.zeros(2, 7))
