"""Poses learned without labels, on images whose pose can be read off."""

import math

import pytest
import torch
from torch import nn

from erlangen.align import calibrate_gate, mean_shift
from erlangen.distributions import Conditional, Dirac, Gaussian, Mixture
from erlangen.distributions.bounded import BoundedDensity
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.models import Disc, Mirror
from erlangen.objectives import PoseLikelihood
from erlangen.train import Config, Optimiser, TensorLoader, fit
from erlangen.transforms import Affine, Crop

SIZE, TURN = 32, Affine("angle").double()
POINT = Dirac.over(TURN, 4, encoder=nn.Flatten()).double()


def spot(angle):
    """A soft spot at half the radius, counter-clockwise from the right, `(B, 1, H, W)` in bytes."""
    axis = (torch.arange(SIZE) + 0.5) / SIZE * 2 - 1
    angle = torch.as_tensor(angle)[..., None, None]
    far = (axis - 0.5 * angle.cos()) ** 2 + (axis[:, None] + 0.5 * angle.sin()) ** 2
    return (255 * torch.exp(-far / 0.02)).round().byte()[:, None]


def where(x):
    """The angle of the centre of mass, `(B,)`."""
    axis = (torch.arange(SIZE) + 0.5) / SIZE * 2 - 1
    return torch.atan2(-(x[:, 0] * axis[:, None]).sum((1, 2)), (x[:, 0] * axis).sum((1, 2)))


class Reads(Conditional):
    """Turns a spot back to `home`, give or take; the wrong way if the sign is 1."""

    def __init__(self, sign=-1.0, spread=0.3, home=0.0):
        super().__init__(1, 1, periodic=(True,), bounds=(-math.pi, math.pi))
        self.sign, self.spread, self.home = sign, spread, home

    def forward(self, x):
        loc = self.home + self.sign * where(x)[:, None]
        return BoundedDensity(GaussianDensity(loc, torch.full_like(loc, self.spread), (True,)), *self.bounds)


def test_the_loss_is_least_for_what_turns_back():
    """The angle is read off, so the density is that of the middle; twins: the wrong way, and wider than need be."""
    batch = (spot(torch.zeros(200)),)
    least = math.log(math.sqrt(2 * math.pi) * 0.3)
    found = PoseLikelihood(Reads(), TURN)(batch)
    assert found["loss"].item() == pytest.approx(least, abs=0.01)
    assert found["inside"] == 1
    assert PoseLikelihood(Reads(sign=1.0), TURN)(batch)["loss"] > 5
    assert PoseLikelihood(Reads(spread=0.6), TURN)(batch)["loss"] > least + 0.5


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(ValueError, match="batch: received no inputs; accepted is at least one"):
        PoseLikelihood(Reads(), TURN)((spot(torch.zeros(0)),))


def test_inputs_are_moved_within_the_ranges():
    """Turned by 0.1 at most, an image is nearly where it was, and a q that says so is nearly right."""

    class Still(Reads):
        def forward(self, x):
            loc = torch.zeros(len(x), 1)
            return BoundedDensity(GaussianDensity(loc, loc + self.spread, (True,)), *self.bounds)

    batch, least = (spot(torch.zeros(200)),), math.log(math.sqrt(2 * math.pi) * 0.3)
    assert PoseLikelihood(Still(), TURN, {"angle": 0.1})(batch)["loss"].item() == pytest.approx(least, abs=0.06)
    assert PoseLikelihood(Still(), TURN)(batch)["loss"] > 5


def test_what_is_done_before_is_done_before():
    """A spot above is one, mirrored; one at the right is then at the left, and is not turned back to where it was."""
    above, right = (spot(torch.full((200,), angle)) for angle in (math.pi / 2, 0.0))
    up = PoseLikelihood(Reads(home=math.pi / 2), TURN, before=Mirror())
    assert up.train()((above,))["loss"] < 0
    mirrored = PoseLikelihood(Reads(), TURN, before=Mirror())
    assert mirrored.train()((right,))["loss"] > 5
    assert mirrored.eval()((right,))["loss"] < 0


def learned():
    """A network that was taught on an image that is bright above."""
    torch.manual_seed(0)
    x = torch.linspace(255, 0, SIZE)[:, None].expand(64, 3, SIZE, SIZE).byte()
    encoder = nn.Sequential(Disc(), nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 32), nn.Tanh())
    q = Mixture.over(TURN, 32, encoder=encoder, components=4, spread=0.5, scatter=1.0)
    optimiser = Optimiser("adamw", 1e-2, clip=2.0)
    fit(PoseLikelihood(q, TURN), TensorLoader(x, batch_size=64), Config(steps=200, optimiser=optimiser, log_every=1000))
    return q.eval(), x[:8] / 255


def test_a_network_learns_to_put_images_upright():
    """Also one that stands on its head, without a label ever having been seen."""
    q, x = learned()
    down = x.flip(-2)
    gate = calibrate_gate(x + 0.02 * torch.randn(x.shape), TURN, q, share=0.0)
    back = mean_shift(down, TURN, q, step_size=1.0, steps=10, gate=gate).x
    assert (back[..., 8, 12:20].mean() - back[..., 24, 12:20].mean()) > 0.3
    assert (down[..., 8, 12:20].mean() - down[..., 24, 12:20].mean()) < -0.3
    assert torch.equal(mean_shift(x, TURN, q, step_size=1.0, steps=10, gate=gate).g, TURN.identity().expand(8, -1, -1))


def test_through_a_disc_nothing_tells_the_angle():
    """A white image turned is a white image; twin: without the disc it has corners, and an edge of another shade."""
    x = torch.ones(1, 1, SIZE, SIZE)
    for angle in (0.2, 0.8):
        turned = TURN(x, torch.tensor([[angle]]))
        torch.testing.assert_close(Disc()(turned), Disc()(x), rtol=0, atol=1e-6)
        assert (turned - x).abs().max() > 0.5
        assert (Disc(0)(turned) - Disc(0)(x)).abs().max() > 0.01
    assert Disc()(x).mean().item() == pytest.approx(math.pi * 14**2 / SIZE**2, abs=0.01)
    assert Disc()(torch.ones(1, 1, 16, 32)).sum(-1).max() <= 12
    assert not Disc(20)(torch.ones(1, 1, 16, 16)).any()


def test_a_gate_spares_what_it_should():
    """Deviations of 0.3 about upright, which turned back are a gain of a²/2s² each; twin: a share of a half."""
    angles = 0.3 * torch.randn(1000, generator=torch.Generator().manual_seed(0))
    x, gains = spot(angles) / 255, angles**2 / (2 * 0.3**2)
    for share in (0.005, 0.5):
        gate = calibrate_gate(x, TURN, Reads(), share=share, step_size=1.0, steps=3)
        may = round(1000 * share)
        assert gate == pytest.approx(gains.sort().values[999 - may].item(), rel=0.05, abs=0.02)
        found = mean_shift(x, TURN, Reads(), gate=gate, step_size=1.0, steps=3)
        goes = (found.g != TURN.identity()).flatten(1).any(1)
        assert int(goes.sum()) == may


def test_too_few_for_a_gate():
    x = spot(0.3 * torch.randn(20)) / 255
    with pytest.warns(UserWarning, match=r"x: received 20, too few .* about 4.8 % will move"):
        gate = calibrate_gate(x, TURN, Reads(), share=0.01, step_size=1.0, steps=3)
    assert torch.equal(
        mean_shift(x, TURN, Reads(), gate=gate, step_size=1.0, steps=3).g, TURN.identity().expand(20, -1, -1)
    )


def test_bytes_are_images():
    """A network that judges by how bright an image is sees the same; twin: numbers up to 255."""
    q, x = learned()
    u = (x * 255).round().byte()
    gate = calibrate_gate(u, TURN, q, share=0.0)
    assert gate == pytest.approx(calibrate_gate(u / 255, TURN, q, share=0.0), rel=1e-5)
    torch.testing.assert_close(mean_shift(u, TURN, q).g, mean_shift(u / 255, TURN, q).g)
    assert (mean_shift(u * 1.0, TURN, q).g - mean_shift(u, TURN, q).g).abs().max() > 0.03


def test_inputs_of_another_type_are_widened_or_refused():
    turn, x = Affine("angle").float(), torch.rand(4, 1, 8, 8)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    objective = PoseLikelihood(Gaussian.over(turn, 3, encoder=encoder), turn).float()
    assert objective((x.half(),))["loss"].isfinite()
    with pytest.raises(ValueError, match=r"^x: received a float64 .* the model is torch.float32"):
        objective((x.double(),))


@pytest.mark.parametrize("u", [0.0, 2**-24, 1 - 2**-24])
def test_half_a_turn_can_be_undone(u, monkeypatch):
    """Random numbers in float32 at which the matrix of a turn has eigenvalues on the negative axis, to rounding."""
    turn = Affine("angle").float()
    monkeypatch.setattr(torch, "rand", lambda *shape, **_: torch.full(shape, u, dtype=torch.float32))
    loss = PoseLikelihood(Reads().float(), turn)([spot(torch.zeros(2)).byte()])["loss"]
    assert loss.isfinite()


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: PoseLikelihood(Reads(), Crop()), "transform: .* Group"),
        (lambda: PoseLikelihood(Reads(), TURN, {"tx": 0.1}), "turns: .*tx"),
        (lambda: PoseLikelihood(Reads(), Affine("tx", bounds={"tx": 0.2}), {"tx": 0.4}), "turns: .*tx.* beyond"),
        (lambda: Disc(-1), "edge: "),
        (lambda: Disc(1.5), "edge: "),
        (lambda: Disc(True), "edge: "),
        (lambda: Disc()(torch.rand(4, 2, 10)), "x: received .*images"),
        (lambda: Disc()(torch.zeros(1, 1, 8, 8, dtype=torch.uint8)), "x: received .*floating point"),
        (lambda: Mirror()(torch.rand(4, 2, 10)), "x: received .*images"),
        (lambda: PoseLikelihood(Reads(), Affine("angle", "tx", factored=True)), "conditional: .* 1 .* with 2"),
        (lambda: PoseLikelihood(nn.Linear(1, 1), TURN), "conditional: received Linear"),
        (lambda: PoseLikelihood(POINT, TURN)([torch.rand(2, 1, 2, 2)]), "conditional: .* without a density"),
        (lambda: calibrate_gate(torch.zeros(1, 1, 8, 8), TURN, Reads(), gate=0.5), "gate: received 0.5"),
        (lambda: calibrate_gate(torch.zeros(1, 1, 8, 8), TURN, Reads(), share=1.0), "share: "),
        (lambda: calibrate_gate(torch.zeros(1, 1, 8, 8), TURN, Reads(), batch=0), "batch: "),
        (lambda: calibrate_gate(torch.zeros(0, 1, 8, 8), TURN, Reads()), "x: received no inputs"),
    ],
)
def test_bad_arguments(build, match):
    with pytest.raises(ValueError, match=match):
        build()


def test_a_range_within_the_bounds_is_accepted():
    move = Affine("tx", "angle", factored=True, bounds={"tx": 0.5})
    q = Gaussian.over(move, 1)
    assert PoseLikelihood(q, move, {"tx": 0.5, "angle": math.pi}).moves.ranges.shape == (2, 2)
