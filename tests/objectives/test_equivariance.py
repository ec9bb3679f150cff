"""A price on a conditional that does not turn with its inputs."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

from erlangen.distributions import Conditional, Dirac, Points, RealNVP, quadrature
from erlangen.distributions.bounded import BoundedDensity
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.models import Averaged
from erlangen.objectives import PSTN, Equivariance, LearningToTransform
from erlangen.objectives.equivariance import after_undoing, divergence
from erlangen.transforms import Affine, Crop, Rotations

TURN = Affine("angle").double()
SIX = Affine(factored=True).double()
ANGLES = torch.tensor([-2.5, -0.7, 0.4, 1.9], dtype=torch.float64)


def spot(angle, size=32):
    """A soft spot, counter-clockwise from the right by an angle, `(B, 1, H, W)`."""
    axis = (torch.arange(size) + 0.5) / size * 2 - 1
    centre = 0.4 * torch.stack((angle.cos(), -angle.sin()), -1)[..., None, None]
    return torch.exp(-((axis - centre[:, 0]) ** 2 + (axis[:, None] - centre[:, 1]) ** 2) / 0.05)[:, None]


def where(x):
    """The angle of the centre of mass, `(B,)`."""
    axis = (torch.arange(x.shape[-1]) + 0.5) / x.shape[-1] * 2 - 1
    return torch.atan2(-(x[:, 0] * axis[:, None]).sum((1, 2)), (x[:, 0] * axis).sum((1, 2)))


class Follows(Conditional):
    """Turns a spot back, `gain` times as far as it should: equivariant if that is 1, the wrong way if it is -1."""

    def __init__(self, gain=1.0):
        super().__init__(1, 1, periodic=(True,), bounds=(-math.pi, math.pi))
        self.gain, self.offset, self.size = (nn.Parameter(torch.tensor(p)) for p in (gain, 0.3, 0.2))

    def forward(self, x):
        loc = (self.offset - self.gain * where(x))[:, None]
        low, high = -math.pi * torch.ones(1), math.pi * torch.ones(1)
        return BoundedDensity(GaussianDensity(loc, self.size.expand_as(loc), (True,)), low, high)

    def points(self, x):
        """One standard deviation to either side: two points with the mean and the variance of the distribution."""
        q = self(x)
        v = q.base.loc + self.size * torch.tensor([-1.0, 1.0])[:, None, None]
        return Points(v, torch.full((2, len(x)), -math.log(2)), q.log_prob(v))


def quarter(turns):
    return TURN.element(torch.full((len(ANGLES), 1), turns * math.pi / 2))


@pytest.mark.parametrize("turns", [-1, 0, 1, 2])
def test_an_equivariant_conditional_is_at_the_minimum(turns):
    """A quarter turn moves pixels to pixels, so that this one is equivariant to rounding."""
    q, x = Follows(), spot(ANGLES)
    far, inside = divergence(q, TURN, x, quarter(turns), points=q.points(x))
    far.backward()
    assert inside == 1
    assert far.abs() < 1e-9
    for p in q.parameters():
        assert p.grad.abs() < 1e-8


@pytest.mark.parametrize("gain", [-1.0, 0.0, 0.5, 1.5])
def test_others_are_above_it(gain):
    q, x = Follows(gain), spot(ANGLES)
    far, _ = divergence(q, TURN, x, quarter(1), points=q.points(x))
    assert far > 1
    assert divergence(q, TURN, x, quarter(0), points=q.points(x))[0].abs() < 1e-9  # nothing was moved


def test_it_is_trained_to_follow():
    q, x, term = Follows(0.2), spot(ANGLES), Equivariance(TURN, 1.0, {"angle": 1.0})
    optimiser = torch.optim.Adam([q.gain], 0.05)
    for _ in range(60):
        price, _ = term(q, x, q.points(x))
        optimiser.zero_grad()
        price.backward()
        optimiser.step()
    assert q.gain.item() == pytest.approx(1, abs=0.03)


def test_a_moved_input_comes_to_the_same():
    """To second order in the size of a pixel, as bilinear interpolation is; twin: moved on instead of back."""
    v = torch.tensor([[0.05, -0.1, 2.0, 0.1, 0.2, -0.15]]).expand(len(ANGLES), -1)
    h = SIX.element(torch.zeros(len(ANGLES), 6).index_fill(1, torch.tensor(2), 2.6))
    errors = []
    for size in (32, 64):
        x = spot(ANGLES, size)
        once = SIX(x, v)
        twice = SIX(SIX.act(h, x), after_undoing(SIX, v, h))
        errors.append((twice - once).abs().max())
        assert (SIX(SIX.act(h, x), after_undoing(SIX, v, SIX.inverse(h))) - once).abs().max() > 0.5
    assert errors[0] < 0.05
    assert errors[0] / errors[1] > 3


def test_what_leaves_the_bounds_is_left_out():
    """Turned by π/8, a stretch and a shear of 0.45 become a stretch of 0.64, of 0.5 at most."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 5))
    q, x = RealNVP.over(SIX, 5, encoder=net, layers=2, width=8), torch.rand(3, 1, 8, 8)
    v = torch.zeros(2, 3, 6)
    v[0, :, 4:] = 0.45
    points = Points(v, torch.tensor([[0.25], [0.75]]).log().expand(2, 3), q(x).log_prob(v))
    h = SIX.element(torch.zeros(3, 6).index_fill(1, torch.tensor(2), math.pi / 8))
    far, inside = divergence(q, SIX, x, h, points=points)
    far.backward()
    assert inside.item() == pytest.approx(0.75)
    assert far.isfinite()
    assert all(p.grad.isfinite().all() for p in q.parameters())
    _, inside = divergence(q, SIX, x, SIX.element(torch.zeros(3, 6)), points=points)
    assert inside.item() == pytest.approx(1)


def model():
    q = RealNVP.over(SIX, 5, encoder=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), layers=2, width=8)
    return Averaged(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), SIX, q, samples=4)


BATCH = torch.randint(256, (6, 1, 8, 8), dtype=torch.uint8), torch.tensor([0, 1, 2, 0, 1, 2])


def test_it_is_added_to_a_loss():
    objective = LearningToTransform(model(), alpha=0.3, equivariance=Equivariance(SIX, 0.2))
    losses = objective(BATCH)
    expected = losses["cross_entropy"] - 0.3 * losses["entropy"] + 0.2 * losses["equivariance"]
    torch.testing.assert_close(losses["loss"], expected)
    assert 0 < losses["inside"] <= 1
    assert set(objective.state_dict()) == set(LearningToTransform(model(), alpha=0.3).state_dict())


def test_half_precision_is_widened():
    """As it is without a price."""
    objective = deepcopy(LearningToTransform(model(), equivariance=Equivariance(SIX))).float()
    x = torch.rand(2, 1, 8, 8, dtype=torch.float16)
    assert objective((x, torch.tensor([0, 1])))["equivariance"].isfinite()


@pytest.mark.parametrize(
    "other", [Affine(*SIX.names[::-1], factored=True), Affine(*SIX.names[:3], factored=True), nn.Identity()]
)
def test_one_of_other_coordinates_is_refused(other):
    """Which would call the model's coordinates by other names."""
    term = other if isinstance(other, nn.Identity) else Equivariance(other)
    with pytest.raises(ValueError, match=r"^equivariance: received .*; accepted is (one of what the model|an Equi)"):
        LearningToTransform(model(), equivariance=term)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_model_on_another_device_may_have_one():
    LearningToTransform(deepcopy(model()).cuda(), equivariance=Equivariance(SIX))


def test_points_have_no_divergence():
    q = Dirac.over(SIX, 5, encoder=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    objective = PSTN(Averaged(nn.Flatten(), SIX, q), equivariance=Equivariance(SIX))
    with pytest.raises(ValueError, match="equivariance: received a conditional of points without a density"):
        objective(BATCH)


def test_one_that_reads_the_same_coordinates_otherwise_is_refused():
    q = RealNVP.over(Affine(bounds={"angle": 1.0}), 5, encoder=nn.Sequential(nn.Flatten(), nn.Linear(64, 5)))
    exponential = Averaged(nn.Flatten(), Affine(bounds={"angle": 1.0}), q)
    assert exponential.transform.names == SIX.names
    with pytest.raises(
        ValueError, match=r"^equivariance: received one of Affine\(.*; accepted is one of what the model"
    ):
        LearningToTransform(exponential, equivariance=Equivariance(SIX))


def test_it_trains_the_distribution_of_the_moved_alone():
    averaged = model()
    x = BATCH[0] / 255.0
    points = quadrature(averaged.conditional(x), 4)
    leaves = [t.detach().requires_grad_() for t in points]
    price, _ = Equivariance(SIX)(averaged.conditional, x, Points(*leaves))
    price.backward()
    assert all(leaf.grad is None for leaf in leaves)
    assert all(p.grad is not None for p in averaged.conditional.parameters())


def test_it_compiles_without_a_break():
    """Nothing of it is decided on the host, so that steps can be recorded as one graph."""
    q, term, x = model().conditional, Equivariance(SIX), BATCH[0] / 255.0
    points = quadrature(q(x), 4)
    found = torch._dynamo.explain(lambda x, points: term(q, x, points))(x, points)
    assert (found.graph_count, found.graph_break_count) == (1, 0)


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Equivariance(Crop()), "transform: .* Group"),
        (lambda: Equivariance(Rotations(4)), "(?s)transform: .* continuous"),
        (lambda: Equivariance(Affine()), "transform: .* factored"),
        (lambda: Equivariance(Affine("tx", "ty")), "turns: received None for tx, ty; accepted are .* angle"),
        (lambda: Equivariance(SIX, turns=1.0), "turns: received float 1.0"),
        (lambda: Equivariance(SIX, turns={"size": 1.0}), "turns: .*size"),
        (lambda: Equivariance(SIX, turns={"scale": -1.0}), "turns, .*scale"),
        (lambda: Equivariance(SIX, -1.0), "weight"),
        (lambda: Equivariance(SIX, math.nan), "weight"),
    ],
)
def test_bad_arguments(build, match):
    with pytest.raises(ValueError, match=match):
        build()
