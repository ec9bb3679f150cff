import math

import numpy as np
import pytest
import torch

from erlangen.data import figures, glyphs
from erlangen.data.glyphs import from_prototype, nearest
from erlangen.transforms import Affine

DOTS = tuple(torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)))  # quick where only angles matter


def circular_distance(a, b):
    return (torch.remainder(a - b + math.pi, 2 * math.pi) - math.pi).abs()


def test_a_set_of_glyphs():
    data = glyphs(101, seed=3)
    assert data.x.shape == (101, 3, 32, 32)
    assert data.x.dtype == torch.uint8
    assert data.angle.shape == (101,)
    assert sorted(data.counts()) == [25, 25, 25, 26]
    assert data.classes == ("parrot", "parrot, upside down", "snail", "snail, upside down")


def test_glyphs_depend_on_their_seed_alone():
    torch.manual_seed(1)
    first = glyphs(20, seed=3)
    torch.manual_seed(2)
    again = glyphs(20, seed=3)
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.angle, again.angle)
    assert not torch.equal(first.angle, glyphs(20, seed=4).angle)


@pytest.mark.parametrize("spread", [math.pi / 4, math.pi / 2, 0.3])
def test_angles_are_uniform_around_the_prototypes(spread):
    data = glyphs(4000, spread=spread, size=4, figures=DOTS)
    away = circular_distance(data.angle, math.pi * (data.y % 2))
    assert away.max() <= spread
    # |U(-1, 1)| has mean 1/2 and variance 1/12; 6 standard errors: two in a thousand million.
    assert abs(away.mean() / spread - 0.5) < 6 * math.sqrt(1 / 12 / 4000)


def test_the_default_is_45_degrees():
    assert torch.equal(
        glyphs(40, size=4, figures=DOTS).angle, glyphs(40, size=4, spread=math.pi / 4, figures=DOTS).angle
    )


@pytest.mark.parametrize("modes", [2, 3, 4, 5])
def test_the_arcs_of_the_two_classes_alternate_and_touch(modes):
    data = glyphs(4000, modes=modes, size=4, figures=DOTS)
    arc = ((data.angle + 2 * math.pi + math.pi / (2 * modes)) / (math.pi / modes)).floor().long() % (2 * modes)
    assert torch.equal(arc % 2, data.y % 2)
    # 1000 of each class and figure over the modes: 6 standard deviations of a binomial count.
    counts = torch.bincount(arc, minlength=2 * modes).double()
    assert (counts - 2000 / modes).abs().max() < 6 * math.sqrt(2000 / modes)


def test_three_modes_are_the_published_ones():
    """Upright: U(-π/6, π/6) + k 2π/3; upside down: the same + π."""
    data = glyphs(1200, modes=3, size=4, figures=DOTS)
    turned = data.angle - math.pi * (data.y % 2)
    nearest = torch.stack([circular_distance(turned, torch.tensor(k * 2 * math.pi / 3)) for k in range(3)])
    assert nearest.amin(0).max() <= math.pi / 6 + 1e-12
    assert nearest.argmin(0).unique().tolist() == [0, 1, 2]


def test_the_angle_is_the_true_one():
    """The figure, turned by `Affine` and averaged down, is the sample: the finest details aside."""
    data = glyphs(24, spread=math.pi / 2, seed=5)
    fine = torch.nn.functional.avg_pool2d(figures(), 2)
    turned = Affine("angle")(fine[data.y // 2], data.angle[:, None])
    coarse = torch.nn.functional.avg_pool2d(turned, 4)
    error = (coarse - data.x / 255).abs().mean((1, 2, 3))
    assert error.max() < 0.02
    wrong = Affine("angle")(fine[data.y // 2], data.angle[:, None] + math.radians(5))
    assert (torch.nn.functional.avg_pool2d(wrong, 4) - data.x / 255).abs().mean((1, 2, 3)).min() > 0.02


def test_a_quarter_turn_is_exact():
    upright = glyphs(4, spread=0.0, seed=1)
    first = {int(y): x for x, y in zip(upright.x, upright.y, strict=True)}
    for figure in (0, 2):
        assert torch.equal(first[figure + 1], torch.rot90(first[figure], 2, (-2, -1)))


def similarity(a, b):
    """The cosine between images `(…, 3, H, W)`: 1 where they are the same up to a factor."""
    a, b = a.flatten(-3), b.flatten(-3)
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def test_no_rotation_maps_a_figure_to_itself_or_to_the_other():
    both = torch.nn.functional.avg_pool2d(figures(), 4)
    angle = torch.arange(0, 360, 3).deg2rad()
    turned = Affine("angle")(both, angle[:, None, None].expand(-1, 2, 1))  # (120, 2, 3, 64, 64)
    itself = similarity(turned, both)
    assert itself[circular_distance(angle, torch.tensor(0.0)) >= math.radians(30)].max() < 0.85
    assert similarity(turned, both.flip(0)).max() < 0.7
    assert similarity(turned, both.flip(-1)).max() < 0.85  # nor to a mirror image


def test_figures_lie_within_the_circle():
    both = figures()
    n = both.shape[-1]
    t = (torch.arange(n) - (n - 1) / 2) * (2 / n)
    outside = torch.hypot(t, t[:, None]) > 0.97
    assert both[..., outside].max() == 0
    assert both.amax((1, 2, 3)).min() > 0.9


def test_figures_are_an_argument():
    a = torch.zeros(3, 32, 32)
    a[0, 2:8, 10:20] = 1
    b = np.zeros((40, 20, 3), np.uint8)
    b[5:15, 4:12, 1] = 255
    data = glyphs(8, figures=(a, b), spread=0.0)
    assert data.classes[0] == "first"
    upright = data.x[data.y == 0][0]
    assert torch.equal(upright, (a * 255).to(torch.uint8))  # at its own size nothing is resampled
    second = data.x[data.y == 2][0]
    assert second[1].max() > 200
    assert second[0].max() == second[2].max() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n: received"),
        ({"modes": 0}, "modes: received"),
        ({"size": -1}, "size: received"),
        ({"spread": 90}, "spread: received 90; accepted is 0 to 1.5708 radians"),
        ({"spread": math.pi / 4, "modes": 3}, "spread: received .* 0 to 0.5236"),
        ({"spread": -0.1}, "spread: received"),
        ({"figures": [torch.zeros(3, 4, 4)]}, "figures: received 1; accepted are two"),
        ({"figures": [torch.zeros(3, 4, 4), torch.zeros(1, 4, 4)]}, r"figures\[1\]: received"),
        ({"figures": [torch.full((3, 4, 4), 255.0), torch.zeros(3, 4, 4)]}, r"figures\[0\]: received"),
        ({"figures": ["a.png", "b.png"]}, r"figures\[0\]: received str"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        glyphs(**{"n": 4, **options})


def test_the_nearest_glyphs_of_a_class():
    data = glyphs(400, spread=math.pi / 2, seed=1)
    found = nearest(data, [0, 1, 1], [0.5, -0.5, 1.0])
    assert found.y.tolist() == [0, 1, 1]
    torch.testing.assert_close(from_prototype(found), torch.tensor([0.5, -0.5, 1.0]), rtol=0, atol=0.05)
    # Of an upside-down class the prototype itself is turned by half a turn.
    assert (found.angle[1:].abs() > math.pi / 2).all()
    third = from_prototype(glyphs(24, spread=0.0, modes=3, figures=DOTS), modes=3)  # a multiple of a third of a turn
    assert (1.5 * third).sin().abs().max() < 1e-6
    assert third.abs().max() > 2
