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
    Dihedral,
    FiniteGroup,
    Flips,
    Group,
    Product,
    Rotations,
    Shifts,
    TimeAffine,
)
from erlangen.transforms.discrete import Permutations


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


def one_by_one(product, x, v, action=lambda f, g, x: f.act(g, x)):
    for f, part in zip(product.factors, v.split([f.features for f in product.factors], -1), strict=True):
        x = action(f, f.element(part), x)
    return x


def beside(affine, square):
    """Flips and turns on either side of an affine factor: each permutes pixels, so the order of steps is exact."""
    groups = [Flips(), Rotations(2), Dihedral(2)] + ([Rotations(4), Dihedral(4)] if square else [])
    products = [Product(*pair) for group in groups for pair in ((group, affine), (affine, group))]
    return [*products, Product(Flips(), groups[-1], affine, Flips())]


def indices_and(product, n):
    """Every row has other elements of the finite factors, and the same coordinates in all that follows."""
    v = random_coordinates(product, n)
    for i, support in enumerate(product.supports):
        if support.is_discrete:
            v[:, i] = torch.arange(n) % int(product.bounds[1, i] + 1)
    return v


@pytest.fixture
def no_lookup(monkeypatch):
    def refuse(*_):
        raise AssertionError("pixels were looked up")

    monkeypatch.setattr(Permutations, "_permute", refuse)


RESAMPLING = [
    {},
    {"fill": 0.5},
    {"padding": "border"},
    {"padding": "reflection"},
    {"interpolation": "bicubic"},
    {"interpolation": "spline", "padding": "border"},
]


@pytest.mark.parametrize("kwargs", RESAMPLING, ids=str)
@pytest.mark.parametrize("size", [(9, 9), (8, 8), (6, 9)], ids=str)
def test_flips_and_turns_beside_matrices_are_those_of_pixels(size, kwargs, monkeypatch):
    x = torch.rand(8, 2, *size)
    for product in beside(Affine(**kwargs), size[0] == size[1]):
        v = indices_and(product, len(x))
        expected = one_by_one(product, x, v)
        with monkeypatch.context() as patch:
            patch.setattr(Permutations, "_permute", None)
            out = product(x, v)
            single = copy.deepcopy(product).float()(x.float(), v.float())
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(single.double(), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("square", [True, False])
def test_points_and_masks_follow_flips_and_turns(square, no_lookup):
    x = torch.randint(9, (8, 1, 9, 9 if square else 6))
    p = torch.rand(8, 5, 2) - 0.5
    for product in beside(Affine("angle", "tx", "scale"), square):
        v = indices_and(product, len(x))
        g = product.element(v)
        moved = one_by_one(product, p, v, lambda f, g, p: f.act_points(g, p))
        torch.testing.assert_close(product.act_points(g, p), moved)
        # By the affine map that moves three points like the product does.
        corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).expand(8, 3, 2)
        origin, right, down = product.act_points(g, corners).unbind(1)
        rows = torch.stack((right - origin, down - origin, origin), -1)
        matrix = torch.cat((rows, torch.tensor([[0.0, 0.0, 1.0]]).expand(8, 1, 3)), 1)
        assert torch.equal(product.act_mask(g, x), Affine().act_mask(matrix, x))


def test_gradients_pass_flips_and_turns():
    product = Product(Dihedral(4), Affine("angle", "tx"), Flips())
    x, weights = torch.rand(8, 2, 9, 9), torch.randn(8, 2, 9, 9)
    v = indices_and(product, len(x))
    grads = []
    for function in (product, lambda x, v: one_by_one(product, x, v)):
        inputs = x.clone().requires_grad_(), v.clone().requires_grad_()
        grads.append(torch.autograd.grad((function(*inputs) * weights).sum(), inputs))
    torch.testing.assert_close(*grads)
    assert grads[0][1][:, 1:3].abs().min() > 0


def test_the_inverse_undoes_flips_and_turns_beside_matrices(no_lookup):
    x = torch.zeros(8, 1, 9, 9)
    x[..., 2:-2, 2:-2] = torch.rand(8, 1, 5, 5)
    for product in beside(Affine("tx", "ty"), True):
        v = indices_and(product, len(x))
        whole = torch.tensor([not s.is_discrete for s in product.supports])
        v[:, whole] = torch.randint(-2, 3, (8, 2)) * 2 / 9
        g = product.element(v)
        there = product.act(g, x)
        assert not torch.allclose(there, x)
        torch.testing.assert_close(product.act(product.inverse(g), there), x)


def test_what_is_alone_or_bytes_or_cyclic_is_looked_up_as_ever():
    turns = Product(Rotations(4), Flips())
    x = torch.rand(2, 3, 8, 8)
    assert torch.equal(turns(x, torch.tensor([[1.0, 1.0], [1.0, 0.0]]))[0], torch.rot90(x[0], 1, (-2, -1)).flip(-1))
    for product in (Product(Shifts(4), Affine("angle")), Product(Flips(), Affine("angle", interpolation="nearest"))):
        v = indices_and(product, 2)
        levels = (255 * x).byte()
        torch.testing.assert_close(product(levels, v), one_by_one(product, levels, v))
    with pytest.raises(ValueError, match="received images of 6 × 8; accepted by rotations of 90° are square"):
        Product(Rotations(4), Affine("angle"))(x[..., :6, :], torch.zeros(2, 2))


def test_turns_that_resample_are_composed_with_what_resamples_alike():
    x = torch.rand(2, 3, 16, 16)
    product = Product(Rotations(8), Affine("angle"))
    back = torch.tensor([[3.0, -3 * torch.pi / 4]]).repeat(2, 1)
    torch.testing.assert_close(product(x, back), x)
    other = Product(Rotations(8, padding="border"), Affine("angle"))
    torch.testing.assert_close(other(x, back), one_by_one(other, x, back))
    assert not torch.allclose(other(x, back), x, atol=1e-3)


def test_series_are_reversed_with_matrices(no_lookup):
    x, product = torch.rand(2, 3, 16), Product(Flips(), TimeAffine())
    v = torch.tensor([[1.0, 0.1, 0.3], [0.0, -0.2, 0.1]])
    flipped = torch.stack((x[0].flip(-1), x[1]))
    torch.testing.assert_close(product(x, v), TimeAffine()(flipped, v[:, 1:]))
    p = torch.rand(2, 5, 1)
    moved = one_by_one(product, p, v, lambda f, g, p: f.act_points(g, p))
    torch.testing.assert_close(product.act_points(product.element(v), p), moved)


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


class Tone(Group):
    """Levels plus v, or times e^v: groups of a user's own, which do not commute with each other."""

    element_shape = (1,)

    def __init__(self, name, acts_on="colours"):
        super().__init__((name,), torch.tensor([[-1.0], [1.0]]))
        self.acts_on = acts_on

    def element(self, v):
        return self.coordinates(v)

    def act(self, g, x):
        g = g[..., None, None]
        return x * g.exp() if self.names == ("contrast",) else x + g

    def act_points(self, g, p, size=None):
        return p.expand(*g.shape[:-2], *p.shape)

    def inverse(self, g):
        return -g


@pytest.mark.parametrize("acts_on", [("colours", "colours"), ("colours", "tones"), ("positions", "tones")])
def test_the_order_is_kept_of_whatever_need_not_commute(acts_on):
    product = Product(Tone("contrast", acts_on[0]), Tone("brightness", acts_on[1]))
    assert not isinstance(product, Group)
    x, g = torch.rand(3, 2, 4, 4), product.element(torch.randn(3, 2))
    torch.testing.assert_close(product.act(product.inverse(g), product.act(g, x)), x)


def test_what_is_no_level_is_not_clipped():
    up, down = torch.full((1, 1), 0.7), torch.full((1, 1), -0.7)
    x = 3 * torch.randn(1, 2, 4, 4)
    both = Product(Affine("tx"), Tone("brightness"), Tone("brightness"))
    torch.testing.assert_close(both(x, torch.cat((0 * up, up, down), -1)), x)


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


@pytest.mark.parametrize("colours_first", [False, True])
@pytest.mark.parametrize("interpolation", ["bicubic", "spline"])
def test_colours_beside_an_interpolation_that_overshoots(interpolation, colours_first):
    turn = Affine("angle", interpolation=interpolation)
    product = Product(HSV(), turn) if colours_first else Product(turn, HSV())
    x, g = torch.rand(1, 3, 16, 16).round(), product.element(torch.full((1, 4), 0.1))
    out = product.act(g, x)
    assert (out >= 0).all()
    assert (out <= 1).all()
    assert product.act(product.inverse(g), out).shape == x.shape


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
    with pytest.raises(ValueError, match="received Affine, which acts on images, and TimeAffine, which acts on series"):
        Product(TimeAffine(), Flips(), Affine())
    with pytest.raises(ValueError, match="received HSV, which acts on images, and TimeAffine, which acts on series"):
        Product(HSV(), TimeAffine())
    with pytest.raises(ValueError, match="received Rotations, which acts on images, and TimeAffine"):
        Product(TimeAffine(), Rotations(4))
    with pytest.raises(ValueError, match="not invertible"):
        Product(Crop(), HSV()).inverse(torch.zeros(2, 7))


@pytest.mark.parametrize(
    ("factors", "dims"), [((Flips(), TimeAffine()), 1), ((Flips(), HSV()), 2), ((Flips(), Shifts(2)), 0)]
)
def test_a_product_acts_on_the_signals_of_its_factors(factors, dims):
    assert Product(*factors).dims == dims


def test_labels_are_not_clipped_as_colours_are():
    mask = torch.arange(4.0).reshape(1, 1, 2, 2).repeat(1, 1, 2, 2)
    for factors in ((Affine("tx"), HSV("hue")), (HSV("hue"), Affine("tx"))):
        transform = Product(*factors)
        g = transform.element(torch.zeros(1, 2))
        assert torch.equal(transform.act_mask(g, mask), mask)


def test_what_is_no_colour_is_refused_in_any_order():
    x = torch.rand(1, 3, 4, 4) * 5
    for factors in ((Affine("tx"), HSV("hue")), (HSV("hue"), Affine("tx"))):
        with pytest.raises(ValueError, match=r"^x: received .*; accepted is RGB in \[0, 1\]"):
            Product(*factors)(x, torch.zeros(1, 2))


@pytest.mark.parametrize(
    "first", [Affine("tx", interpolation="nearest"), Rotations(4, interpolation="nearest"), Flips()]
)
def test_bytes_become_levels_before_their_colours_change(first):
    transform, x = Product(first, HSV("hue")), torch.randint(256, (2, 3, 4, 4), dtype=torch.uint8)
    torch.testing.assert_close(transform(x, torch.zeros(2, 2)), x / 255)
    with pytest.raises(ValueError, match=r"^x: received a int64"):
        transform(x.long(), torch.zeros(2, 2))


def test_colours_in_half_precision():
    x = torch.rand(1, 3, 8, 8).half()
    found = Product(Affine("angle"), HSV("hue")).half()(x, torch.zeros(1, 2).half())
    torch.testing.assert_close(found, x, rtol=0, atol=2e-3)


@pytest.mark.parametrize(
    ("mine", "theirs"), [(0.5, (0.5,)), ((0.5, 0.5, 0.5), 0.5), ((0.1, 0.2, 0.3), [0.1, 0.2, 0.3])]
)
def test_the_same_fill_in_other_words_is_resampled_once(mine, theirs):
    there, back = (Affine("tx", fill=fill, bounds={"tx": 1.0}) for fill in (mine, theirs))
    x = torch.rand(1, 3, 16, 16)
    torch.testing.assert_close(Product(there, back)(x, torch.tensor([[0.8, -0.8]])), x)
