"""Mean-shift with a conditional that knows the answer."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal

from erlangen.align import calibrate_gate, mean_shift
from erlangen.distributions import Conditional, Dirac, Mixture, StudentT
from erlangen.distributions.bounded import BoundedDensity
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.transforms import Affine, Crop, Rotations

SIZE = 48


def spot(angle, radius=0.5):
    """A soft spot, counter-clockwise from the right by an angle, `(B, 1, H, W)`."""
    axis = (torch.arange(SIZE) + 0.5) / SIZE * 2 - 1
    x, y = axis[None, None], axis[None, :, None]
    centre = radius * torch.stack((angle.cos(), -angle.sin()), -1)[..., None, None]
    return torch.exp(-((x - centre[:, 0]) ** 2 + (y - centre[:, 1]) ** 2) / 0.02)[:, None]


def where(x):
    """The angle of the centre of mass, `(B,)`."""
    axis = (torch.arange(SIZE) + 0.5) / SIZE * 2 - 1
    mass = x[:, 0] / x.sum((1, 2, 3))[:, None, None]
    return torch.atan2(-(mass * axis[:, None]).sum((1, 2)), (mass * axis).sum((1, 2)))


class Knows(Conditional):
    """Turns the spot back to the right, give or take."""

    def __init__(self, transform, spread=0.5):
        super().__init__(1, 1, periodic=transform.periodic, bounds=transform.bounds)
        self.spread = spread

    def forward(self, x):
        back = -where(x)[:, None]
        return BoundedDensity(GaussianDensity(back, torch.full_like(back, self.spread), (True,)), *self.bounds)


@pytest.mark.parametrize("rule", ["compose", "additive"])
def test_copies_rotated_by_anything_end_at_the_same_pose(rule):
    turn = Affine("angle")
    angles = torch.linspace(-3.1, 3.1, 9)
    x = spot(angles)
    aligned = mean_shift(x, turn, Knows(turn), rule=rule)
    assert aligned.converged.all()
    assert where(aligned.x).abs().max() < math.radians(1.5)
    torch.testing.assert_close(aligned.x, turn.act(aligned.g, x))
    assert len(aligned.path) < 30
    torch.testing.assert_close(aligned.path[-1], aligned.g)
    torch.testing.assert_close(aligned.path[0], turn.identity().expand_as(aligned.g))


def test_the_original_is_warped_once():
    """However many steps, the result is one interpolation away from the original: a repeated warp would be blurred."""
    turn = Affine("angle")
    x = spot(torch.tensor([2.0]))
    aligned = mean_shift(x, turn, Knows(turn), step_size=0.05, steps=200)
    assert len(aligned.path) > 40
    once = turn(x, torch.tensor([[-2.0]]))
    torch.testing.assert_close(aligned.x, once, rtol=0, atol=0.03)


def test_the_same_on_every_run_whatever_the_global_seed():
    turn = Affine("angle")
    x = spot(torch.tensor([1.0, -2.0]))
    results = []
    for seed in range(2):
        torch.manual_seed(seed)
        results.append(mean_shift(x, turn, Knows(turn), steps=3).x)
    assert torch.equal(*results)


def test_what_comes_of_an_input_depends_on_no_other():
    """A broad distribution with several modes, of whose mean 16 points say little; twin: other points."""
    turn, x = Affine("angle"), torch.rand(6, 1, 8, 8)
    q = Mixture.over(turn, 64, encoder=nn.Flatten(), components=3, spread=1.0, scatter=2.0)
    together = mean_shift(x, turn, q, samples=16, steps=5).g
    alone = torch.cat([mean_shift(one, turn, q, samples=16, steps=5).g for one in x.split(1)])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-9)
    assert (mean_shift(x, turn, q, samples=16, steps=5, seed=1).g - together).abs().max() > 0.01


def test_the_type_is_that_of_the_inputs():
    turn = Affine("angle").float()
    for rule in ("compose", "additive"):
        assert mean_shift(spot(torch.tensor([1.0])).double(), turn, Knows(turn), rule=rule).x.dtype == torch.float64


def test_what_rests_stays():
    """Within the tolerance an input no longer moves, though its mean still pulls; the other goes on."""
    turn = Affine("angle")
    path = mean_shift(spot(torch.tensor([0.2, 3.0])), turn, Knows(turn, spread=1e-6), tolerance=0.1).path
    assert len(path) > 3
    assert torch.equal(path[2:, 0], path[1:-1, 0])
    assert not torch.equal(path[2, 1], path[1, 1])


def test_a_gate_moves_what_it_is_sure_of():
    """With a normal of deviation s, turning an angle a back is a gain of a²/2s²: here 0.18, 1.28 and 8 nats."""
    turn, angles = Affine("angle"), torch.tensor([0.3, -0.8, 2.0])
    x = spot(angles)
    free = mean_shift(x, turn, Knows(turn))
    for gate, count in (
        (-math.inf, 0),
        (np.float32(0.1), 0),
        (0.25, 1),
        (1.2, 1),
        (1.4, 2),
        (7.5, 2),
        (8.5, 3),
        (math.inf, 3),
    ):
        gated = mean_shift(x, turn, Knows(turn), gate=gate)
        assert torch.equal(gated.g[:count], turn.identity().expand(count, -1, -1))
        torch.testing.assert_close(gated.x[:count], x[:count], rtol=0, atol=1e-6)
        assert torch.equal(gated.g[count:], free.g[count:])
        assert torch.equal(gated.x[count:], free.x[count:])


class Recentres(Conditional):
    """Knows the angle and the place of a bar: turns it to the right, then moves it to the centre, a part at a time."""

    def __init__(self, transform):
        super().__init__(2, 1, periodic=(True, False), bounds=transform.bounds)

    def forward(self, x):
        axis = (torch.arange(SIZE) + 0.5) / SIZE * 2 - 1
        mass = x[:, 0] / x.sum((1, 2, 3))[:, None, None]
        across = (mass * axis).sum((1, 2))
        loc = torch.stack((torch.full_like(across, 0.3), (-across / self.bounds[1, 1]).clamp(-0.99, 0.99).atanh()), -1)
        return BoundedDensity(GaussianDensity(loc, torch.full_like(loc, 1e-6), (True, False)), *self.bounds)


def test_a_step_comes_after_those_before_it():
    """Turning and moving don't commute: the first two steps are composed in the order in which they are taken."""
    move = Affine("angle", "tx", factored=True, bounds={"tx": 0.9})
    x = spot(torch.tensor([0.5]), radius=0.4)
    aligned = mean_shift(x, move, Recentres(move), steps=2, step_size=1.0)
    conditional = Recentres(move)
    first = move.element(conditional(x).sample())
    second = move.element(conditional(move.act(first, x)).sample())
    torch.testing.assert_close(aligned.g, move.compose(second, first), rtol=0, atol=1e-4)
    assert (move.compose(first, second) - aligned.g).abs().max() > 0.01


def test_what_is_impossible_before_and_after_is_not_moved():
    """A distribution that is cut off far from the identity, whatever it sees."""
    shift = Affine("tx")
    q = StudentT.over(shift, 1, encoder=nn.Sequential(nn.Flatten(), nn.Linear(64, 1)), truncation=1.0)
    nn.init.constant_(q.loc.last.bias, 0.5)
    x = torch.rand(20, 1, 8, 8)
    assert bool((q(x).log_prob(shift.origin.expand(20, -1)) == -math.inf).all())
    for gate in (calibrate_gate(x, shift, q, share=0.1, steps=1), -math.inf, 0.0):
        assert torch.equal(mean_shift(x, shift, q, steps=1, gate=gate).g, shift.element(shift.origin.expand(20, -1)))


def test_points_have_no_gate():
    turn, x = Affine("angle"), torch.rand(2, 1, 8, 8)
    q = Dirac.over(turn, 64, encoder=nn.Flatten()).to(x.dtype)
    assert mean_shift(x, turn, q).converged.all()
    with pytest.raises(ValueError, match=r"^gate: received 0.1 of points without a density \(a Dirac\)"):
        mean_shift(x, turn, q, gate=0.1)
    with pytest.raises(ValueError, match=r"^conditional: received one of points without a density \(a Dirac\)"):
        calibrate_gate(x, turn, q, share=0.0)


def test_inputs_are_of_the_type_of_the_network():
    turn = Affine("angle")
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(SIZE * SIZE, 4))
    q = Mixture.over(turn, 4, encoder=encoder)
    x = spot(torch.tensor([0.3, 1.0]))
    want = mean_shift(x.half().to(x.dtype), turn, q, steps=2)
    found = mean_shift(x.half(), turn, q, steps=2)
    assert torch.equal(found.x, want.x)
    assert torch.equal(found.g, want.g)
    with pytest.raises(ValueError, match=r"^x: received a float32 tensor .*, but the model is torch.float64"):
        mean_shift(x.float(), turn, q)


def test_what_is_no_transform_is_named():
    turn, x = Affine("angle"), spot(torch.tensor([0.3]))
    for function in (mean_shift, calibrate_gate):
        with pytest.raises(ValueError, match=r"^transform: received .*; accepted is a Transform"):
            function(x, Knows(turn), turn)


def test_groups_and_others():
    crop = Crop()

    class Any(nn.Module):
        features = 4

    with pytest.raises(ValueError, match="Group"):
        mean_shift(torch.rand(1, 1, 8, 8), crop, Any())
    with pytest.raises(ValueError, match="rule"):
        mean_shift(torch.rand(1, 1, 8, 8), crop, Any(), rule="multiply")
    with pytest.raises(ValueError, match=r"gate: .*nan"):
        mean_shift(torch.rand(1, 1, 8, 8), crop, Any(), rule="additive", gate=math.nan)
    with pytest.raises(ValueError, match=r"conditional: .*over 4 coordinates for a transform with 2"):
        mean_shift(torch.rand(1, 1, 8, 8), Affine("angle", "tx", factored=True), Any())
    with pytest.raises(ValueError, match=r"transform: received Rotations, whose coordinates are indices"):
        mean_shift(torch.rand(1, 1, 8, 8), Rotations(4), Any())


def test_a_circle_has_no_seam_where_the_identity_is():
    """With a range from 0 on, what is just below it lies at the other end, and is near."""
    angle, found = torch.tensor([0.2, -0.2]), []
    for bounds in ((-math.pi, math.pi), (0.0, 2 * math.pi)):
        turn = Affine("angle", bounds={"angle": bounds})
        found.append(where(mean_shift(spot(angle), turn, Towards(turn), steps=6, samples=8).x))
    torch.testing.assert_close(found[1], found[0])
    assert found[1].abs().max() < 0.02


class Towards(Conditional):
    """Turns that bring the spot to the right."""

    def __init__(self, transform):
        super().__init__(1, 1, periodic=transform.periodic, bounds=transform.bounds)

    def encode(self, x):
        return -where(x)[:, None]

    def density(self, h):
        low, high = self.bounds
        place = (2 * h - low - high) / (high - low) * math.pi
        return GaussianDensity(place, torch.full_like(place, 1e-3), self.periodic)


def test_a_conditional_is_asked_in_evaluation_mode_and_keeps_its_own():
    turn = Affine("angle")
    layers = nn.Flatten(), nn.Linear(SIZE**2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
    q = Mixture.over(turn, 4, encoder=nn.Sequential(*layers))
    x, before = spot(torch.tensor([0.3, 1.0, 2.0])), layers[2].running_mean.clone()
    first, second = (mean_shift(x, turn, q.train(), steps=2, gate=0.0).g for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(layers[2].running_mean, before)
    assert layers[3].training


def test_one_name_is_a_name_and_tolerances_are_not_negative():
    group, x = Affine("angle", "tx"), spot(torch.tensor([0.3]))
    q = Mixture.over(group, 4, encoder=nn.Sequential(nn.Flatten(), nn.Linear(SIZE**2, 4)))
    alone = mean_shift(x, group, q, steps=2, along="tx").g
    assert torch.equal(alone, mean_shift(x, group, q, steps=2, along=["tx"]).g)
    for tolerance in (-1.0, math.nan):
        with pytest.raises(ValueError, match=r"^tolerance: received"):
            mean_shift(x, group, q, tolerance=tolerance)


def test_a_distribution_of_torch_is_refused():
    class Foreign(Knows):
        def forward(self, x):
            return Independent(Normal(-where(x)[:, None], 0.1), 1)

    turn, x = Affine("angle"), spot(torch.zeros(2))
    for gate in (None, 0.0):
        with pytest.raises(ValueError, match=r"^density: received Independent .*; accepted is a Density"):
            mean_shift(x, turn, Foreign(turn), steps=1, gate=gate)
    with pytest.raises(ValueError, match=r"^density: received Independent .*; accepted is a Density"):
        calibrate_gate(x, turn, Foreign(turn), share=0.0)


def test_seeds_and_shares_are_numbers():
    group, x = Affine("angle"), spot(torch.tensor([0.3]))
    q = Mixture.over(group, 4, encoder=nn.Sequential(nn.Flatten(), nn.Linear(SIZE**2, 4)))
    with pytest.raises(ValueError, match="seed: received 'a'; accepted is an integer"):
        mean_shift(x, group, q, seed="a")
    with pytest.raises(ValueError, match="share: received 'a'; accepted is a share"):
        calibrate_gate(x, group, q, share="a")
