"""Bad input is a `ValueError` that names the argument, what came and what is accepted; saturation is a warning."""

import math
import warnings

import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal

from erlangen.distributions import (
    Bounded,
    Categorical,
    Conditional,
    Dirac,
    EntropyController,
    FixedEntropyWeight,
    Gaussian,
    GlobalUniform,
    Joint,
    MeanFieldUniform,
    Mixture,
    RealNVP,
    SplineFlow,
    StudentT,
    crop_table,
    preset,
    quadrature,
)
from erlangen.distributions.bounded import BoundedDensity
from erlangen.distributions.categorical import CategoricalDensity
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.distributions.mixture import MixtureDensity
from erlangen.distributions.standard_t import StandardT
from erlangen.distributions.student import StudentDensity
from erlangen.distributions.uniform import UniformDensity
from erlangen.transforms import Affine, Crop, Dihedral, Flips, Product, Rotations
from erlangen.utils.shapes import NotFinite, describe

from .families import CONTEXT

INF, NAN = math.inf, math.nan
ROWS = [[0.0], [1.0], [2.0]]


def full(*shape, value=1.0, dtype=torch.float64):
    return torch.full(shape, value, dtype=dtype)


class Breaks(nn.Module):
    def forward(self, x):
        return x * NAN


FAMILIES = [
    Dirac,
    Gaussian,
    StudentT,
    GlobalUniform,
    MeanFieldUniform,
    Mixture,
    RealNVP,
    SplineFlow,
    lambda d, c, **kwargs: Categorical(torch.eye(d), c, **kwargs),
]


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_not_finite_is_refused(family, value):
    x = torch.randn(4, 3)
    x[2, 1] = value
    with pytest.raises(ValueError, match=r"^x: received .*NaN or infinite values \(1 of 12 entries\); accepted is"):
        family(2, 3)(x)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f is not GlobalUniform])
@pytest.mark.parametrize(
    "x", [full(4, 2), full(3), full(1, 4, 3), full(4, 3).long(), full(4, 3).float(), [[1.0, 1.0, 1.0]]], ids=describe
)
def test_inputs_that_do_not_fit(family, x):
    with pytest.raises(ValueError, match=r"^x: received .*; accepted is"):
        family(2, 3)(x)


@pytest.mark.parametrize("encoder", [nn.Linear(3, 4).double(), nn.Flatten(0), Breaks()])
def test_encoders_that_do_not_fit(encoder):
    with pytest.raises(ValueError, match=r"^encoder\(x\): received .*; accepted is"):
        Dirac(2, 3, encoder=encoder)(full(4, 3))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("periodic", (True,)),
        ("periodic", (True, False, False)),
        ("periodic", True),
        ("bounds", (1.0, -1.0)),
        ("bounds", (1.0, 1.0)),
        ("bounds", ((0.0, 0.0), (1.0, -1.0))),
        ("bounds", (-INF, INF)),
        ("bounds", (NAN, 1.0)),
        ("bounds", ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))),
        ("bounds", (0.0, 1.0, 2.0)),
        ("bounds", 1.0),
        ("origin", (0.0,)),
        ("origin", (0.0, NAN)),
        ("origin", "ab"),
    ],
)
def test_arguments_of_every_family(family, name, value):
    with pytest.raises(ValueError, match=rf"^{name}: received .*; accepted is"):
        family(2, 3, **{name: value})


NAMED = [
    ("features", lambda: Gaussian(0, 3)),
    ("features", lambda: Gaussian(2.0, 3)),  # pyright: ignore[reportArgumentType]
    ("context", lambda: Gaussian(2, -3)),
    ("origin", lambda: Gaussian(2, 3, bounds=(0.0, 1.0), origin=[0.5, 1.1])),
    ("bounds", lambda: Bounded(Gaussian(2, 3), 1.0, 0.0)),
    ("bounds", lambda: Bounded(Gaussian(2, 3), [0.0, 0.0, 0.0], 1.0)),
    ("conditional", lambda: Bounded(Gaussian(2, 3, bounds=(0.0, 1.0)), 0.0, 1.0)),
    ("conditional", lambda: Bounded(Bounded(Gaussian(2, 3), 0.0, 1.0), 0.0, 1.0)),
    ("conditional", lambda: Bounded(Categorical(ROWS, 3), -1.0, 3.0)),
    ("conditional", lambda: Bounded(nn.Linear(3, 2), 0.0, 1.0)),
    ("encoder", lambda: GlobalUniform(2, encoder=nn.Identity())),
    ("parts", lambda: Joint()),
    ("parts", lambda: Joint(Gaussian(2, 3), nn.Linear(3, 2))),
    ("parts", lambda: Joint(Gaussian(2, 3), Gaussian(2, 4))),
    ("parts", lambda: Joint(Gaussian(2, 3), Gaussian(2, 3, encoder=nn.Identity()))),
    ("parts", lambda: Joint(Bounded(Gaussian(2, 3, encoder=nn.Identity()), 0.0, 1.0))),
    ("encoder", lambda: Joint(Gaussian(2, 3), encoder="cnn")),  # pyright: ignore[reportArgumentType]
    ("conditional", lambda: Bounded(Joint(Gaussian(2, 3), Categorical(ROWS, 3)), 0.0, 1.0)),
    ("spread", lambda: Gaussian(2, 3, spread=0.0)),
    ("spread", lambda: Gaussian(2, 3, spread=[0.1, -0.1])),
    ("spread", lambda: Gaussian(2, 3, spread=[0.1, 0.1, 0.1])),
    ("spread", lambda: Mixture(2, 3, spread=NAN)),
    ("spread", lambda: RealNVP(2, 3, spread=-1.0)),
    ("spread", lambda: SplineFlow(2, 3, spread=INF)),
    ("spread", lambda: MeanFieldUniform(2, 3, spread=1.0, bounds=(-1, 1))),
    ("spread", lambda: MeanFieldUniform(2, 3, spread=0.0)),
    ("spread", lambda: GlobalUniform(2, spread=-0.1)),
    ("width", lambda: GlobalUniform(2, width=[0.1, 0.0])),
    ("hidden", lambda: Gaussian(2, 3, hidden=(8, 0))),
    ("hidden", lambda: Gaussian(2, 3, hidden=(8.5,))),
    ("hidden", lambda: Gaussian(2, 3, hidden=8)),
    ("scatter", lambda: Mixture(2, 3, scatter=-0.1)),
    ("scatter", lambda: RealNVP(2, 3, scatter=[0.1, 0.1, 0.1])),
    ("components", lambda: Mixture(2, 3, components=0)),
    ("components", lambda: RealNVP(2, 3, components=2.5)),
    ("layers", lambda: RealNVP(2, 3, layers=0)),
    ("width", lambda: RealNVP(2, 3, width=-1)),
    ("limit", lambda: RealNVP(2, 3, limit=0.0)),
    ("squash", lambda: RealNVP(2, 3, squash=-6.0)),
    ("dropout", lambda: RealNVP(2, 3, dropout=1.0)),
    ("dropout", lambda: SplineFlow(2, 3, dropout=-0.1)),
    ("bins", lambda: SplineFlow(2, 3, bins=0)),
    ("bins", lambda: SplineFlow(2, 3, bins=1)),
    ("bound", lambda: SplineFlow(2, 3, bound=0.0)),
    ("base", lambda: RealNVP(2, 3, base=Gaussian(3, 3))),
    ("base", lambda: RealNVP(2, 3, base=Gaussian(2, 4))),
    ("base", lambda: RealNVP(2, 3, base=Gaussian(2, 3, periodic=(True, False)))),
    ("base", lambda: SplineFlow(2, 3, base=Gaussian(2, 3, bounds=(0.0, 1.0)))),
    ("base", lambda: SplineFlow(2, 3, base=Gaussian(2, 3, encoder=nn.Identity()))),
    ("base", lambda: SplineFlow(2, 3, base=nn.Linear(3, 2))),
    ("table", lambda: Categorical([[0.0], [1.0], [0.0]], 3)),
    ("table", lambda: Categorical([0.0, 1.0], 3)),
    ("table", lambda: Categorical([[0.0], [1.0, 2.0]], 3)),
    ("table", lambda: Categorical(torch.zeros(0, 2), 3)),
    ("table", lambda: Categorical([[NAN]], 3)),
    ("start", lambda: Categorical(ROWS, 3, start=3)),
    ("start", lambda: Categorical(ROWS, 3, start=-1)),
    ("spread", lambda: Categorical(ROWS, 3, spread=1.0)),
    ("logits", lambda: Categorical(ROWS, 3, logits=[0.0, 0.0])),
    ("logits", lambda: Categorical(ROWS, 3, logits=[0.0, 0.0, -INF])),
    ("logits", lambda: Categorical(ROWS, 3, logits="abc")),
    ("logits", lambda: CategoricalDensity(full(4, 2), torch.tensor(ROWS))),
    ("levels", lambda: crop_table([(0, 0.5)], [0.0])),
    ("levels", lambda: crop_table([(2, 1.5)], [0.0])),
    ("favour", lambda: crop_table([(2, 0.5)], [0.0, 1.0])),
    ("transform", lambda: Gaussian.over(Rotations(4), 3)),
    ("transform", lambda: RealNVP.over(Dihedral(4), 3)),
    ("transform", lambda: GlobalUniform.over(Product(Affine("tx"), Flips()), 3)),
    ("transform", lambda: Categorical.over(Affine(), 3)),
    ("transform", lambda: Categorical.over(Product(Rotations(4), Flips()), 3)),
    ("transform", lambda: preset("instaaug-crops", Affine(), 3)),
    ("transform", lambda: preset("instaaug-crops", Affine("angle", "scale", "tx", "ty"), 3)),
    ("transform", lambda: preset("ltt-paper", Flips(), 3)),
    ("name", lambda: preset("ltt", Affine(), 3)),
    ("scale", lambda: GaussianDensity(full(4, 2), full(4, 2, value=0.0))),
    ("scale", lambda: GaussianDensity(full(4, 2), full(4, 2, value=-1.0))),
    ("scale", lambda: GaussianDensity(full(4, 2), full(4, 2, value=NAN))),
    ("scale", lambda: GaussianDensity(full(4, 2), full(4, 3))),
    ("loc", lambda: GaussianDensity(full(4, 2), full(4, 2), (True,))),
    ("scale", lambda: MixtureDensity(full(4, 5), full(4, 5, 2), full(4, 5, 2, value=0.0))),
    ("scale", lambda: MixtureDensity(full(4, 5), full(4, 5, 2), full(4, 5, 2, value=-0.1))),
    ("loc", lambda: MixtureDensity(full(4, 5), full(4, 3, 2), full(4, 3, 2))),
    ("scale", lambda: StudentDensity(full(4, 2), full(4, 2, value=0.0), StandardT(2.0))),
    ("scale", lambda: StudentDensity(full(4, 2), full(4, 3), StandardT(2.0))),
    ("high", lambda: UniformDensity(full(4, 2), full(4, 2))),
    ("high", lambda: UniformDensity(full(4, 2), full(4, 2, value=0.5))),
    ("high", lambda: UniformDensity(full(4, 2), full(4, 3, value=2.0))),
    ("q", lambda: quadrature("q", 3)),  # pyright: ignore[reportArgumentType]
    ("q", lambda: quadrature(Normal(full(4, 2), 1.0), 3)),
    ("q", lambda: quadrature(torch.distributions.Categorical(full(4, 2)), 3)),
    ("points", lambda: quadrature(Gaussian(2, 3)(full(4, 3)), 3, points="halton")),
    ("target", lambda: EntropyController(NAN)),
    ("alpha", lambda: EntropyController(1.0, low=0.5, high=0.1)),
    ("alpha", lambda: EntropyController(1.0, alpha=2.0)),
    ("alpha", lambda: EntropyController(1.0, low=0.0)),
    ("proportional", lambda: EntropyController(1.0, proportional=-1.0)),
    ("integral", lambda: EntropyController(1.0, integral=0.0)),
    ("smoothing", lambda: EntropyController(1.0, smoothing=1.0)),
    ("entropy", lambda: EntropyController(1.0)(3.0)),
    ("alpha", lambda: FixedEntropyWeight(-0.1)),
    ("alpha", lambda: FixedEntropyWeight(NAN)),
]


@pytest.mark.parametrize(("name", "build"), NAMED)
def test_the_argument_is_named(name, build):
    with pytest.raises(ValueError, match=rf"(?s)^{name}: received .*; accepted (is|are) "):
        build()


@pytest.mark.parametrize("n", [0, -1, 2.5, True])
@pytest.mark.parametrize("estimate", ["entropy_estimate", "mean_estimate", "mode_estimate"])
def test_numbers_of_samples(estimate, n):
    for family in (Dirac, Gaussian, RealNVP):
        q = family(2, 3)(full(4, 3))
        with pytest.raises(ValueError, match=r"^n: received .*; accepted is an integer > 0"):
            getattr(q, estimate)(n)
        with pytest.raises(ValueError, match=r"^n: received .*; accepted is an integer > 0"):
            quadrature(q, n)


def test_a_distribution_that_draws_its_own_noise_takes_neither_points_nor_a_generator():
    q = Independent(Normal(full(4, 2), 1.0), 1)
    for kwargs in ({"points": "sobol"}, {"generator": torch.Generator()}):
        with pytest.raises(ValueError, match=r"^points, generator: received .*Independent draws its own noise"):
            quadrature(q, 3, **kwargs)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    "q",
    [
        GaussianDensity(full(4, 2), full(4, 2)),
        StudentDensity(full(4, 2), full(4, 2), StandardT(2.0)),
        UniformDensity(full(4, 2), full(4, 2, value=2.0)),
        CategoricalDensity(full(4, 2), torch.eye(2)),
        BoundedDensity(GaussianDensity(full(4, 2), full(4, 2)), full(2), full(2, value=2.0)),
    ],
    ids=lambda q: type(q).__name__,
)
def test_points_with_other_coordinates(q, width):
    """A single column would otherwise be taken for each of them."""
    with pytest.raises(ValueError, match=r"^value: received .*; accepted is coordinates \(\.\.\., 2\)"):
        q.log_prob(full(4, width, value=1.5))


def test_what_has_no_density_says_so():
    q = Dirac(2, 3)(full(4, 3))
    for ask in (lambda: q.log_prob(full(4, 2)), q.entropy, q.rsample_and_log_prob, lambda: q.entropy_estimate(3)):
        with pytest.raises(NotImplementedError, match="a Dirac has no density"):
            ask()
    with pytest.raises(NotImplementedError, match="a Categorical has no rsample: use quadrature"):
        Categorical(ROWS, 3)(full(4, 3)).rsample()


def saturated(family):
    net = family(2, 3, bounds=(-1.0, 1.0))
    head = getattr(net, "base", net)
    with torch.no_grad():
        (head.loc if isinstance(head, Gaussian) else head.head).last.bias.add_(8.0)
    return net


@pytest.mark.parametrize("family", [Gaussian, RealNVP, SplineFlow])
def test_a_saturated_flow_warns_once_with_advice(family):
    net, x = saturated(family), torch.randn(16, 3)
    with pytest.warns(RuntimeWarning, match="of a bound, where gradients vanish: widen the bounds") as record:
        _ = [net(x).rsample((5,)), net(x).sample((5,)), quadrature(net(x), 5)]
    assert len(record) == 1


@pytest.mark.parametrize("family", [Dirac, Gaussian, StudentT, MeanFieldUniform, Mixture, RealNVP, SplineFlow])
@pytest.mark.parametrize("transform", [Affine, Crop])
def test_a_healthy_one_never_warns(family, transform):
    """Not even at the edge of the bounds, where a crop's identity lies."""
    net = family.over(transform(), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(20):
            q = net(torch.randn(8, 3))
            q.rsample()
            quadrature(q, 5)
            q.sample((20,))


@pytest.mark.parametrize(
    "density",
    [
        lambda scale: GaussianDensity(torch.zeros(2, 1), scale),
        lambda scale: MixtureDensity(torch.zeros(2, 1), torch.zeros(2, 1, 1), scale.unsqueeze(-1)),
        lambda scale: StudentDensity(torch.zeros(2, 1), scale, StandardT(3.0)),
    ],
)
def test_scales_of_a_network_that_diverged_are_told_from_wrong_ones(density):
    with pytest.raises(NotFinite, match=r"^scale: received scales that are .*; accepted is scales > 0"):
        density(torch.tensor([[1.0], [math.nan]]))
    with pytest.raises(ValueError, match=r"^scale: received scales that are") as wrong:
        density(torch.tensor([[1.0], [-1.0]]))
    assert not isinstance(wrong.value, NotFinite)


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
@pytest.mark.parametrize("family", [Gaussian, StudentT, GlobalUniform, MeanFieldUniform, Mixture, RealNVP, SplineFlow])
def test_points_of_any_type_have_the_density_of_their_values(family, bounds):
    q = family(2, 3, bounds=bounds)(torch.randn(4, 3))
    expected = q.log_prob(torch.zeros(4, 2))
    for dtype in (torch.int64, torch.float16, torch.float64):
        assert torch.equal(q.log_prob(torch.zeros(4, 2, dtype=dtype)), expected)
    with pytest.raises(ValueError, match=r"^value: received a complex64 .*; accepted is coordinates"):
        q.log_prob(torch.zeros(4, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"^value: received .* on meta, but the density is on cpu"):
        q.log_prob(torch.zeros(4, 2, device="meta"))


@pytest.mark.parametrize("family", [Dirac, Gaussian, RealNVP])
def test_shapes_and_generators_that_are_none_are_named(family):
    q = family(2, 3, bounds=(-1.0, 1.0))(torch.randn(4, 3))
    for draw in (q.rsample, q.sample):
        for shape in (3, (-1,), (1.5,)):
            with pytest.raises(ValueError, match=r"^sample_shape: received .*; accepted is a sequence of sizes"):
                draw(shape)
        with pytest.raises(ValueError, match=r"^generator: received int 3; accepted is a torch\.Generator"):
            draw((2,), generator=3)


def test_categorical_is_over_finite_groups():
    for other in ("Flips", Affine("angle"), Product(Flips(), Flips())):
        with pytest.raises(ValueError, match=r"(?s)^transform: received .*; accepted is a finite group"):
            Categorical.over(other, 3)


def test_bounds_of_a_part_are_bounds():
    """An angle in turns, taken for one in radians, would have a density with a mass of six."""
    parts = lambda: Joint(Gaussian(1, 3, periodic=[True], bounds=(-0.5, 0.5)), Gaussian(1, 3))  # noqa: E731
    with pytest.raises(ValueError, match="conditional: received one that has bounds"):
        Bounded(parts(), -1.0, 1.0)
    with pytest.raises(ValueError, match=r"base: received Joint with .*; accepted is a density without bounds"):
        RealNVP(2, 3, base=parts(), periodic=[True, False])


class Foreign(Conditional):
    """One whose density is whatever it is told."""

    def __init__(self, made, features=2, context=CONTEXT, **kwargs):
        super().__init__(features, context, **kwargs)
        self.made = made

    def density(self, h):
        return self.made


NORMAL = Independent(Normal(torch.zeros(3, 2), torch.ones(3, 2)), 1)


@pytest.mark.parametrize("made", [None, Normal(torch.zeros(3, 2), 1.0), Independent(Normal(torch.zeros(2), 1.0), 1)])
def test_what_is_no_density_of_the_inputs_is_refused(made):
    accepted = r"accepted is a Density with batch_shape \(3,\) and event_shape \(2,\)$"
    with pytest.raises(ValueError, match=f"^density: received .*; {accepted}"):
        Foreign(made)(torch.zeros(3, CONTEXT))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Foreign(NORMAL, bounds=(-1.0, 1.0)),
        lambda: Bounded(Foreign(NORMAL), -1.0, 1.0),
        lambda: RealNVP(2, CONTEXT, base=Foreign(NORMAL), layers=2, width=4),
        lambda: Joint(Foreign(NORMAL)),
    ],
)
def test_a_distribution_of_torch_stands_alone(build):
    x = torch.zeros(3, CONTEXT)
    assert quadrature(Foreign(NORMAL)(x), 5).v.shape == (5, 3, 2)
    with pytest.raises(ValueError, match=r"^density: received Independent .*; accepted is a Density, where there are"):
        build()(x)
