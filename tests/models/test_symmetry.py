"""The symmetry-aware generative model: prototypes, poses and natural variations, each by one warp."""

import pytest
import torch

from erlangen.distributions import Gaussian
from erlangen.models import SymmetryModel
from erlangen.transforms import CPAB, HSV, Affine, Product, Rotations, TimeAffine

from .poses import blobs, centred, trembling

SMALL = {"inference": (8,), "generative": (8,), "layers": 2, "width": 8}
GROUPS = {
    "affine": (lambda: Affine("tx", "ty", "angle", "sx", "sy", factored=True), (1, 9, 9)),
    "colour": (HSV, (3, 9, 9)),
    "both": (lambda: Product(Affine("angle"), HSV("hue")), (3, 9, 9)),
    "series": (TimeAffine, (2, 20)),
}


def test_an_orbit_has_one_prototype():
    """Equation 4, with a pose that is exact and shifts of whole pixels."""
    model, x = centred(), blobs()
    moved = [model.group(x, torch.tensor([[dx, dy]]).expand(3, 2) / 8) for dx in (-2, 0, 3) for dy in (0, 1)]
    for view in moved:
        torch.testing.assert_close(model.prototype(view), model.prototype(x))


def test_a_pose_that_is_not_equivariant_has_many():
    """The twin that must fail."""
    model, x = centred(wrong=2.0), blobs()
    view = model.group(x, torch.full((3, 2), 0.375))
    assert (model.prototype(view) - model.prototype(x)).abs().max() > 0.05


def test_the_input_is_its_prototype_in_its_pose_without_any_blur():
    """The elements compose to the identity, so that the one warp changes nothing: two would have blurred."""
    model, x = centred(), blobs()
    again = model.transform(x, model.pose(x).median)
    torch.testing.assert_close(again, x)
    twice = model.group(model.prototype(x), model.pose(x).median)
    assert (twice - x).abs().max() > 0.01


def test_the_likelihood_is_that_of_the_pose():
    model, x = trembling(centred()), blobs()
    expected = model.conditional(model.prototype(x)).log_prob(model.pose(x).median)
    torch.testing.assert_close(model.log_prob(x), expected)


def test_variations_are_transformed_prototypes():
    model, x = trembling(centred()), blobs()
    made = model.resample(x, 5, torch.Generator().manual_seed(3))
    v = model.density(x).sample((5,), torch.Generator().manual_seed(3))
    assert made.shape == (5, *x.shape)
    torch.testing.assert_close(made, model.transform(x, v))


def test_marginals_are_densities():
    model, x = trembling(centred()), blobs()
    edges, density = model.marginals(x, samples=200, bins=20)
    assert edges.shape == (2, 21)
    width = edges[:, 1] - edges[:, 0]
    torch.testing.assert_close((density * width[:, None]).sum(-1), torch.ones(3, 2))
    v = model.density(x).sample((200,), torch.Generator().manual_seed(0))
    counts = model.marginals(x, samples=200, bins=20, generator=torch.Generator().manual_seed(0)).density
    by_hand = torch.histc(v[:, 1, 0], 20, *edges[0, [0, -1]].tolist()) / 200 / width[0]
    torch.testing.assert_close(counts[1, 0], by_hand)


def test_marginals_hold_what_lies_beyond_the_bounds():
    """Poses on lines may lie anywhere; circles stay as they are."""
    group = Affine("tx", "ty", "angle", factored=True, bounds={"tx": 0.01, "ty": 9.0})
    model, x = trembling(SymmetryModel.over(group, (1, 9, 9), anchored=True, **SMALL)), torch.rand(3, 1, 9, 9)
    v = model.density(x).sample((200,), torch.Generator().manual_seed(0))
    edges, density = model.marginals(x, samples=200, bins=20, generator=torch.Generator().manual_seed(0))
    assert (v[..., 0].abs() > 0.01).any()
    torch.testing.assert_close(edges[0, [0, -1]], torch.stack((v[..., 0].min(), v[..., 0].max())))
    torch.testing.assert_close(edges[1:, [0, -1]], group.bounds.T[1:])
    torch.testing.assert_close((density * edges.diff()).sum(-1), torch.ones(3, 3))


@pytest.mark.parametrize("copies", [None, 4])
@pytest.mark.parametrize("name", GROUPS)
def test_any_group_will_do(name, copies):
    make, shape = GROUPS[name]
    group = make()
    if name == "series" and copies:
        pytest.skip("nothing turns in time")
    model = trembling(SymmetryModel.over(group, shape, copies=copies, **SMALL))
    x = torch.rand(3, *shape)
    assert model.prototype(x).shape == x.shape
    assert model.log_prob(x).isfinite().all()
    made = model.resample(x, 2)
    assert made.shape == (2, *x.shape)
    assert made.isfinite().all()
    assert model.pose(x).rsample((7,)).shape == (7, 3, group.features)


def test_bytes_are_levels():
    make, shape = GROUPS["affine"]
    model = trembling(SymmetryModel.over(make(), shape, copies=4, **SMALL))
    x = torch.randint(0, 256, (3, *shape), dtype=torch.uint8)
    torch.testing.assert_close(model.prototype(x), model.prototype(x.double() / 255))


def test_unbounded_coordinates_leave_the_bounds():
    make, shape = GROUPS["affine"]
    model = SymmetryModel.over(make(), shape, bounded=False, **SMALL)
    with torch.no_grad():
        model.inference.loc.last.bias[0] = 7.0
    assert (model.pose(torch.rand(2, *shape)).median[:, 0] > 6).all()
    assert model.log_prob(torch.rand(2, *shape)).isfinite().all()


@pytest.mark.parametrize("wrong", [CPAB((5,)), Rotations(4), None])
def test_only_continuous_groups(wrong):
    one = Gaussian(1, 2)
    with pytest.raises(ValueError, match=r"group: received .*accepted is a Group with continuous coordinates"):
        SymmetryModel(wrong, one, one)
    with pytest.raises(ValueError, match=r"group: received"):
        SymmetryModel.over(wrong, (1, 8, 8))
    with pytest.raises(ValueError, match=r"group: received Product; .* if its factors are groups that commute"):
        SymmetryModel(Product(Affine("tx"), Affine("angle")), one, one)


@pytest.mark.parametrize("shape", [8, (8,), (1, 8, 8, 8), (1, 0, 8)])
def test_shapes_are_those_of_one_signal(shape):
    with pytest.raises(ValueError, match="shape: received"):
        SymmetryModel.over(Affine("angle"), shape)


def test_inputs_have_the_type_of_the_model():
    make, shape = GROUPS["affine"]
    model = SymmetryModel.over(make(), shape, **SMALL)
    with pytest.raises(ValueError, match=r"x: received a float32 tensor .*, but the model is torch\.float64"):
        model.prototype(torch.rand(2, *shape, dtype=torch.float32))


def test_conditionals_must_be_over_the_group():
    group = Affine("angle")
    good = Gaussian.over(group, 3)
    with pytest.raises(ValueError, match="conditional: received Gaussian; accepted is a Conditional over angle"):
        SymmetryModel(group, good, Gaussian(1, 3))
    with pytest.raises(ValueError, match="inference: received Gaussian"):
        SymmetryModel(group, Gaussian(2, 3), good)
    hue, radians = Gaussian.over(HSV("hue"), 3), Gaussian(1, 3, periodic=(True,))
    with pytest.raises(
        ValueError, match=r"conditional: received Gaussian; accepted is .* over hue, .* circles as long"
    ):
        SymmetryModel(HSV("hue"), hue, radians)
    angle = Affine("angle", factored=True, bounds={"angle": (0, 2 * torch.pi)})
    SymmetryModel(angle, radians, radians)
    with pytest.raises(ValueError, match="bounded: received False for hue"):
        SymmetryModel.over(HSV(), (3, 8, 8), bounded=False)


COLOURED = Product(Affine("tx", "ty", "angle", factored=True), HSV("hue"))
TURNS = Affine("angle", factored=True)
NARROW = Affine("tx", "ty", "angle", factored=True, bounds={"angle": (0, 2 * torch.pi)})


@pytest.mark.parametrize(
    ("group", "change", "words"),
    [
        (HSV(), {"anchored": True}, r"anchored: received True for hue.*; accepted is an Affine with factored=True"),
        (COLOURED, {"anchored": True}, "anchored: received True for tx, ty, angle, hue;"),
        (TURNS, {"anchored": True}, "anchored: received True for angle; accepted"),
        (NARROW, {"anchored": True}, r"anchored: received True for angle within \[0, 6.283\]; accepted is False"),
        (TURNS, {"anchored": "yes"}, "anchored: received str 'yes'; accepted is True or False"),
        (Affine(), {"copies": 4}, "copies: received 4 for tx, .*; accepted is None, or an Affine with factored"),
        (TimeAffine(), {"copies": 4}, "copies: received 4 for shift, stretch; accepted is None"),
        (
            Affine("tx", "angle", factored=True),
            {"copies": 4},
            "copies: received 4 for tx, angle; .* both translations or",
        ),
        (TURNS, {"copies": 0}, "copies: received int 0; accepted is an integer > 0"),
        (TURNS, {"inference": ()}, r"inference: received tuple \(\); accepted is a sequence of widths"),
        (TURNS, {"generative": 8}, "generative: received int 8; accepted is a sequence of widths"),
        (TURNS, {"generative": (0,)}, "generative: received int 0; accepted is an integer > 0"),
        (TURNS, {"foo": 2}, r"flow: received \['foo'\]; accepted are settings of a SplineFlow, \['base', 'spread',"),
    ],
)
def test_what_is_wrong_has_the_name_that_it_was_given_by(group, change, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        SymmetryModel.over(group, (3, 8, 8), **{**SMALL, **change})


@pytest.mark.parametrize(("group", "shape"), [(COLOURED, (1, 8, 8)), (HSV(), (3, 8)), (Affine("angle"), (1, 8))])
def test_shapes_are_those_on_which_the_group_acts(group, shape):
    with pytest.raises(
        ValueError, match=r"^shape: received \(.*, on which .* does not act \(x: received .* accepted by"
    ):
        SymmetryModel.over(group, shape, **SMALL)


@pytest.mark.parametrize("name", ["affine", "series"])
def test_a_density_may_see_means_of_pixels(name):
    """What averages to the same has the same density."""
    make, shape = GROUPS[name]
    shape = (shape[0], *[8] * (len(shape) - 1))
    model = trembling(SymmetryModel.over(make(), shape, pool=2, **SMALL))
    x, v = torch.rand(2, *shape), torch.zeros(2, model.group.features)
    swapped = x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    torch.testing.assert_close(model.conditional(swapped).log_prob(v), model.conditional(x).log_prob(v))
    assert (model.conditional(x.flip(-1)).log_prob(v) - model.conditional(x).log_prob(v)).abs().max() > 1e-6


def test_noise_is_for_training():
    make, shape = GROUPS["affine"]
    model = trembling(SymmetryModel.over(make(), shape, noise=0.5, **SMALL))
    x, v = torch.rand(2, *shape), torch.zeros(2, model.group.features)
    one, two = (model.train().conditional(x).log_prob(v) for _ in range(2))
    assert not torch.equal(one, two)
    one, two = (model.eval().conditional(x).log_prob(v) for _ in range(2))
    assert torch.equal(one, two)
    with pytest.raises(ValueError, match="noise: received -1"):
        SymmetryModel.over(make(), shape, noise=-1, **SMALL)


def test_signals_of_another_shape_with_as_many_values_are_refused():
    model = SymmetryModel.over(Affine("tx", "ty"), (1, 9, 17), copies=None)
    for work in (model.prototype, model.pose, model.density):
        with pytest.raises(ValueError, match=r"of shape \(2, 1, 17, 9\) .* accepted are signals \('B', 1, 9, 17\)"):
            work(torch.rand(2, 1, 17, 9))


@pytest.mark.parametrize("copies", [None, 4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_widened_and_other_types_are_refused(copies, dtype):
    model = SymmetryModel.over(Affine("angle"), (1, 8, 8), copies=copies)
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(model.prototype(x.to(dtype)), model.prototype(x.to(dtype).to(torch.get_default_dtype())))
    with pytest.raises(ValueError, match=r"x: received a float32 tensor .*, but the model is torch.float64"):
        model.prototype(x.float())


@pytest.mark.parametrize(
    ("name", "copies", "anchored"), [("plain", None, False), ("voted", 4, False), ("anchored", 4, True)]
)
def test_networks_have_the_type_of_their_group(name, copies, anchored):
    torch.set_default_dtype(torch.float32)
    group = Affine("tx", "ty", "angle", factored=True).double()
    small = {"inference": (8,), "generative": (8,), "layers": 2, "width": 8}
    model = SymmetryModel.over(group, (1, 16, 16), copies=copies, anchored=anchored, pool=2, noise=0.1, **small)
    x = torch.rand(2, 1, 16, 16, dtype=torch.float64)
    assert model.resample(x).dtype == model.log_prob(x).dtype == torch.float64
    model.float()
    assert group.bounds.dtype == torch.float64  # the next model over it is not concerned
    assert model.resample(x.float()).dtype == torch.float32


def test_coordinates_are_those_of_the_inputs():
    model, x = centred(), blobs(3)
    assert model.transform(x, torch.zeros(5, 1, 2)).shape == (5, 3, 1, 16, 16)
    for shape in ((2,), (5, 2, 2), (3, 3)):
        with pytest.raises(ValueError, match=r"v: received .*; accepted is coordinates \(\*S, 3, 2\), one for each"):
            model.transform(x, torch.zeros(shape))


def test_no_inputs_have_no_marginals():
    found = centred().marginals(blobs(3)[:0], bins=7)
    assert found.density.shape == (0, 2, 7)
    assert found.edges[:, [0, -1]].tolist() == [[-2.0, 2.0], [-2.0, 2.0]]
