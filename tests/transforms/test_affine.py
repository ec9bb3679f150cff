"""Affine maps of the plane and of time: sign conventions as exact identities, charts, logarithms, names and bounds."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
import torch

from erlangen.testing import check_group
from erlangen.testing.signals import texture
from erlangen.transforms import HSV, Affine, AffineMatrix, Product, Rotations, Similarity, TimeAffine


def at(transform, **values):
    """Coordinates `(1, d)` with these values and zero elsewhere."""
    return torch.tensor([[values.get(name, 0.0) for name in transform.names]])


@pytest.mark.parametrize("factored", [False, True])
@pytest.mark.parametrize("quarters", [-3, -2, -1, 1, 2, 3])
def test_positive_angles_are_counter_clockwise(quarters, factored):
    x = torch.rand(2, 3, 9, 9)
    turned = Affine("angle", factored=factored)(x, torch.full((2, 1), quarters * math.pi / 2))
    assert torch.allclose(turned, torch.rot90(x, quarters, (-2, -1)), atol=1e-12)


def test_float32_rotation_is_a_rotation_to_rounding():
    x = torch.rand(2, 3, 32, 32).float()
    turned = Affine("angle").float()(x, torch.full((2, 1), math.pi / 2).float())
    assert (turned - torch.rot90(x, 1, (-2, -1))).abs().max() < 1e-5


@pytest.mark.parametrize("size", [(8, 8), (6, 12), (12, 7)])
def test_translation_by_one_pixel(size):
    x, unit = torch.rand(2, 3, *size), 2 / max(size)
    transform = Affine("tx", "ty")
    right, down = transform(x, at(transform, tx=unit)), transform(x, at(transform, ty=unit))
    assert torch.allclose(right[..., 1:], x[..., :-1], atol=1e-12)
    assert right[..., 0].abs().max() < 1e-12
    assert torch.allclose(down[..., 1:, :], x[..., :-1, :], atol=1e-12)
    assert down[..., 0, :].abs().max() < 1e-12


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        ("scale", [[2.0, 0.0], [0.0, 2.0]]),
        ("stretch", [[2.0, 0.0], [0.0, 0.5]]),
        ("shear", [[1.25, 0.75], [0.75, 1.25]]),
        ("sx", [[2.0, 0.0], [0.0, 1.0]]),
        ("sy", [[1.0, 0.0], [0.0, 2.0]]),
    ],
)
@pytest.mark.parametrize("factored", [False, True])
def test_generators(name, matrix, factored):
    """Log-scales of log 2 double the content; exp of a shear is cosh and sinh."""
    g = Affine(name, factored=factored).element(torch.full((1, 1), math.log(2)))
    assert torch.allclose(g[0, :2, :2], torch.tensor(matrix))


def test_enlarging_by_two_keeps_the_centre():
    x = torch.rand(1, 1, 8, 8)
    large = Affine("scale", interpolation="nearest")(x, torch.full((1, 1), math.log(2)))
    assert torch.equal(large, x[..., 2:6, 2:6].repeat_interleave(2, -1).repeat_interleave(2, -2))


def test_a_rotation_stays_a_rotation_on_any_aspect():
    spot = torch.zeros(1, 1, 9, 25)
    spot[0, 0, 4, 15] = 1  # three pixels to the right of the centre
    turned = Affine("angle")(spot, torch.full((1, 1), math.pi / 2))
    assert turned[0, 0, 1, 12] == pytest.approx(1)  # three pixels above it


def test_order_of_convergence_is_two():
    """On smooth images the action is a homomorphism up to interpolation, which is of second order."""
    transform = Affine()
    g, h = transform.element(
        torch.tensor([[[0.1, -0.05, 0.7, 0.1, -0.1, 0.05]], [[-0.08, 0.1, -1.9, 0.05, 0.1, -0.1]]])
    )
    errors = []
    for n in (48, 96, 192):
        x = texture((n, n), 1)
        once, twice = transform.act(transform.compose(g, h), x), transform.act(g, transform.act(h, x))
        errors.append((once - twice).abs().mean().item())
    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert all(1.8 < order < 2.2 for order in orders), orders


def test_factored_form():
    transform = Affine("shear", "tx", "angle", "scale", "stretch", "ty", factored=True)
    v = at(transform, angle=0.4, tx=0.1, ty=-0.2, scale=0.3, stretch=-0.2, shear=0.1)
    shift, turn = (
        Affine("tx", "ty").element(torch.tensor([[0.1, -0.2]])),
        Affine("angle").element(torch.tensor([[0.4]])),
    )
    strain = Affine("scale", "stretch", "shear").element(torch.tensor([[0.3, -0.2, 0.1]]))
    assert torch.allclose(transform.element(v), shift @ turn @ strain)


def test_similarity_is_equation_1_of_pstn_for_the_content():
    """P-STN Eq. 1 with s = exp(scale) and r = -angle, since y points down and angles run counter-clockwise."""
    angle, scale, tx, ty = 0.7, 0.2, 0.1, -0.3
    g = Similarity().element(torch.tensor([[angle, scale, tx, ty]]))[0]
    s, r = math.exp(scale), -angle
    expected = [[s * math.cos(r), -s * math.sin(r), tx], [s * math.sin(r), s * math.cos(r), ty], [0, 0, 1]]
    assert torch.allclose(g, torch.tensor(expected))


def test_affine_matrix_is_equation_20_of_ltt():
    v = torch.randn(5, 6)
    full = torch.cat((v.unflatten(-1, (2, 3)), torch.zeros(5, 1, 3)), 1)
    assert torch.allclose(AffineMatrix().element(v), torch.matrix_exp(full), atol=1e-10)
    rotation = AffineMatrix().element(torch.tensor([[0.0, 0.6, 0.0, -0.6, 0.0, 0.0]]))
    assert torch.allclose(rotation, Affine("angle").element(torch.tensor([[0.6]])))
    assert torch.equal(AffineMatrix("d", "b").element(torch.tensor([[-0.6, 0.6]])), rotation)
    with pytest.raises(ValueError, match="accepted are a, b, c, d, e, f"):
        AffineMatrix("b", "g")


@pytest.mark.parametrize(
    ("names", "factored", "periodic"),
    [
        (("angle",), False, True),
        (("scale", "angle"), False, True),
        (("angle", "tx"), False, False),
        (("angle", "stretch"), False, False),
        (("angle", "sx", "sy"), False, False),
        (("angle", "tx", "stretch"), True, True),
    ],
)
def test_the_angle_is_declared_periodic_where_it_is(names, factored, periodic):
    transform = Affine(*names, factored=factored)
    assert transform.periodic == tuple(name == "angle" and periodic for name in names)
    v = 0.3 * torch.randn(4, len(names))
    further = v.clone()
    further[:, names.index("angle")] += 2 * math.pi
    same = torch.allclose(transform.element(v), transform.element(further), atol=1e-9)
    assert same == periodic


def test_an_angle_in_a_narrower_range_is_not_periodic():
    assert not any(Affine("angle", bounds={"angle": math.pi / 2}).periodic)
    assert Similarity().periodic == (True, False, False, False)
    assert not any(Similarity(bounds={"angle": (-1, 2)}).periodic)


def test_factored_log_is_defined_for_every_positive_determinant():
    transform = Affine(factored=True)
    g = torch.eye(3).repeat(500, 1, 1)
    g[:, :2] = torch.randn(500, 2, 3)
    g = g[torch.linalg.det(g[:, :2, :2]) > 0]
    g = torch.cat(
        (g, torch.diag(torch.tensor([-1.0, -2.0, 1.0]))[None], torch.diag(torch.tensor([-1.0, -1.0, 1.0]))[None])
    )
    v = transform.element_log(g)
    assert torch.allclose(transform.element(v), g, atol=1e-8)
    assert (v[:, 2].abs() <= math.pi).all()
    with pytest.raises(ValueError, match="positive determinant"):
        transform.element_log(torch.diag(torch.tensor([-1.0, 1.0, 1.0])))


def test_log_refuses_what_the_coordinates_cannot_express():
    g, h = Affine("tx", "angle").element(torch.tensor([[[0.1, 0.2]], [[-0.2, 0.4]]]))
    moved = Affine("tx", "angle").compose(g, h)
    with pytest.raises(ValueError, match="tx, angle can express"):
        Affine("tx", "angle").element_log(moved)
    assert Affine("tx", "ty", "angle").element_log(moved)[0, 2] == pytest.approx(0.6)
    with pytest.raises(ValueError, match="negative axis"):
        Affine().element_log(Affine("angle").element(torch.tensor([[math.pi]])))


def test_a_projection_leaves_out_what_the_group_does_not_have():
    names = ("tx", "ty", "angle", "sx", "sy")
    v = torch.tensor([[0.1, -0.2, 0.7, 0.3, -0.1, 0.2]])
    g = Affine(*names, "shear", factored=True).element(v)
    torch.testing.assert_close(Affine(*names, factored=True).project(g), v[:, :5])
    with pytest.raises(ValueError, match="accepted is elements that the coordinates"):
        Affine(*names, factored=True).element_log(g)


def test_log_gradients():
    for transform in (Affine(), Affine(factored=True), Affine("sx", "sy", "angle", factored=True)):
        v = (0.3 * torch.randn(4, transform.features)).requires_grad_()
        assert torch.autograd.gradcheck(lambda v, t=transform: t.element_log(t.element(v)), v)


def test_elements_at_the_identity_have_gradients():
    for transform in (Affine(), Affine(factored=True), Similarity(), AffineMatrix(), TimeAffine()):
        v = torch.zeros(2, transform.features, requires_grad=True)
        assert torch.autograd.gradcheck(transform.element, v)


def test_time():
    x = torch.rand(2, 3, 40)
    later = TimeAffine()(x, torch.tensor([[2 / 40, 0.0]]))
    assert torch.allclose(later[..., 1:], x[..., :-1], atol=1e-12)
    ramp = torch.linspace(-1, 1, 400)[None, None]
    slower = TimeAffine("stretch", padding="border")(ramp, torch.tensor([[math.log(2)]]))
    assert torch.allclose(slower, ramp / 2, atol=1e-12)
    v = torch.tensor([[0.2, 0.5]])
    factored = TimeAffine(factored=True).element(v)[0]
    assert torch.allclose(factored, torch.tensor([[math.exp(0.5), 0.2], [0, 1]]))
    assert torch.allclose(TimeAffine().element(v)[0], torch.matrix_exp(torch.tensor([[0.5, 0.2], [0, 0]])))


def test_points_follow_boxes_through_the_inverse():
    transform = Affine()
    g = transform.element(0.2 * torch.randn(3, 2, 6))
    boxes = torch.rand(2, 4, 2) - 0.5
    moved = transform.act_points(g, boxes)
    back = transform.act_points(transform.inverse(g).flatten(0, 1), moved.flatten(0, 1))
    assert torch.allclose(back.unflatten(0, (3, 2)), boxes.expand(3, 2, 4, 2), atol=1e-12)


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (("tx", "rotation"), r"received \['rotation'\].*tx, ty, angle"),
        (("tx", "ty", "tx"), "tx more than once"),
        (("scale", "sx"), "either scale and stretch, or sx and sy"),
    ],
)
def test_bad_names(names, match):
    with pytest.raises(ValueError, match=match):
        Affine(*names)


@pytest.mark.parametrize(
    ("bounds", "match"),
    [
        ({"zoom": 1.0}, r"received a range for \['zoom'\]"),
        ({"tx": (0.5, 0.1)}, r"bounds\['tx'\].*low < high"),
        ({"tx": -0.3}, "low < high"),
        ({"tx": float("inf")}, "finite"),
        ({"tx": None}, r"bounds\['tx'\]: received None"),
        ({"angle": 30}, r"bounds\['angle'\]: received 30; accepted is .*, at most a turn: math.pi \(radians\)"),
        ({"tx": "wide"}, "low < high"),
        ({"tx": "12"}, "low < high"),
        ({"tx": ((0.0,), (1.0, 2.0))}, "low < high"),
        ({"tx": (0.0, 1.0, 2.0)}, "low < high"),
    ],
)
def test_bad_bounds(bounds, match):
    with pytest.raises(ValueError, match=match):
        Affine(bounds=bounds)


def test_bounds_by_name():
    transform = Affine("tx", "angle", bounds={"angle": (-0.1, 0.4), "tx": 0.7})
    assert torch.allclose(transform.bounds, torch.tensor([[-0.7, -0.1], [0.7, 0.4]]))


@pytest.mark.parametrize(
    ("x", "v", "match"),
    [
        ((2, 3, 8, 8), (2, 5), r"v: received .*\(2, 5\).*one each for tx, ty"),
        ((2, 3, 8, 8), (6,), r"v: received .*\(6,\)"),
        ((2, 3, 8), (2, 6), r"accepted by Affine are images"),
        ((3, 8, 8, 8, 8), (3, 6), "x: received"),
        ((2, 3, 0, 8), (2, 6), "no empty side"),
        ((2, 3, 8, 8), (3, 6), r"\(\*S, 2\) or \(\*S, 1\)"),
        ((1, 3, 8, 8), (2, 6), r"\(\*S, 1\)"),
    ],
)
def test_bad_shapes(x, v, match):
    with pytest.raises(ValueError, match=match):
        Affine()(torch.rand(x), torch.zeros(v))


def test_bad_values_and_types():
    x, v = torch.rand(2, 3, 8, 8), torch.zeros(2, 6)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="NaN or infinite"):
            Affine()(x, v.index_fill(1, torch.tensor([2]), bad))
    with pytest.raises(ValueError, match="float32"):
        Affine()(x, v.float())
    with pytest.raises(ValueError, match=r"torch\.float16"):
        Affine()(x.half(), v)
    with pytest.raises(ValueError, match="floating-point coordinates"):
        Affine()(x, v.long())
    with pytest.raises(ValueError, match="int32"):
        Affine()(x.int(), v)
    with pytest.raises(ValueError, match="v: received list"):
        Affine()(x, [[0.0] * 6])
    with pytest.raises(ValueError, match="same device"):
        Affine()(x.to("meta"), v)
    for transform in (Affine(), Affine(factored=True), TimeAffine(), AffineMatrix()):
        with pytest.raises(ValueError, match=r"v: .* but the transform is on cpu"):
            transform(x, torch.zeros(2, transform.features, device="meta"))
    with pytest.raises(ValueError, match="elements of Affine"):
        Affine().act(torch.eye(2).expand(2, 2, 2), x)
    with pytest.raises(ValueError, match="p: received"):
        Affine().act_points(torch.eye(3).expand(2, 3, 3), torch.zeros(2, 4, 3))


def test_large_and_small_scales_invert_in_float32():
    """Their determinants overflow or vanish."""
    transform = Affine("scale", "angle").float()
    g = transform.element(torch.tensor([[60.0, 0.3], [-60.0, 0.3], [0.0, 1.0]]).float())
    product = transform.compose(g, transform.inverse(g))
    assert torch.allclose(product, torch.eye(3).float(), atol=1e-5)


def test_copies_move_and_save():
    transform = Affine("tx", "angle")
    for other in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        v = torch.rand(2, 2)
        assert torch.equal(other.element(v), transform.element(v))
    assert transform.state_dict() == {}
    assert "angle" in repr(transform)


def test_bounds_may_be_arrays():
    bounds = {"angle": np.array([-0.5, 0.25]), "tx": torch.tensor(0.1)}
    assert torch.allclose(
        Affine("angle", "tx", bounds=bounds).bounds, torch.tensor([[-0.5, -0.1], [0.25, 0.1]]).double()
    )


def test_elements_that_do_not_fit_together_are_named():
    for group in (Affine("angle"), HSV("hue"), Rotations(4), Product(Affine("angle"), HSV("hue"))):
        g = group.element(torch.zeros(3, group.features, dtype=torch.float64))
        assert group.compose(g, g[:1]).shape == g.shape
        with pytest.raises(ValueError, match=r"^h: received .*; accepted is as many elements as g, \(3,"):
            group.compose(g, g[:2])


@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.complex64])
@pytest.mark.parametrize("use", ["act", "inverse", "element_log"])
def test_elements_that_are_no_floating_point_numbers_are_refused(use, dtype):
    g = torch.eye(3).to(dtype)[None]
    with pytest.raises(ValueError, match=r"^g: received .*; accepted is floating-point elements of Affine"):
        Affine("angle").act(g, torch.rand(1, 1, 4, 4)) if use == "act" else getattr(Affine("angle"), use)(g)


@pytest.mark.parametrize("angle", [3.1416, 3.14159, (0, 6.2832), (-1, 5.28318)])
def test_a_turn_may_be_rounded(angle):
    """It is a whole one, on a circle without a seam."""
    (low,), (high,) = (turn := Affine("angle", bounds={"angle": angle})).bounds.tolist()
    assert turn.periodic == (True,)
    assert high - low == pytest.approx(2 * math.pi, rel=1e-6)
    assert low <= 0 <= high


@pytest.mark.parametrize(("low", "high"), [(0.0, 2 * math.pi), (-0.2, 5.0)])
def test_the_logarithm_of_an_angle_lies_within_its_bounds(low, high):
    """Those of a whole turn, and those of more than half a turn to one side."""
    turn = Affine("angle", "scale", bounds={"angle": (low, high)})
    v = torch.tensor([[0.1, 0.2], [3.0, -0.1], [4.0, 0.0], [high - 0.1, 0.3]])
    torch.testing.assert_close(turn.element_log(turn.element(v)), v)
    check_group(turn, v=v[1:])
