"""Broken twins: for every property that is checked, an object without it, on which the check must fail."""

import math

import pytest
import torch
from torch import nn

from erlangen.testing import check_finite_group, check_group, check_transform
from erlangen.testing.masks import check_masks
from erlangen.testing.signals import texture
from erlangen.testing.transforms import draw
from erlangen.transforms import (
    CPAB,
    HSV,
    Affine,
    AffineMatrix,
    Crop,
    Dihedral,
    Flips,
    Group,
    Product,
    Rotations,
    Shifts,
    Similarity,
    TimeAffine,
    Transform,
    as_signal,
)
from erlangen.utils import seeds

TWINS = []


def twin(match, check=check_transform):
    """Registers a class as one on which this check fails with this message."""

    def register(cls):
        TWINS.append(pytest.param(cls, check, match, id=cls.__name__))
        return cls

    return register


class Turn(Affine):
    def __init__(self, **kwargs):
        super().__init__("angle", "tx", "scale", **kwargs)


@twin("names are not unique")
class RepeatsNames(Turn):
    def __init__(self):
        super().__init__()
        self.names = ("angle", "angle", "scale")


@twin("bounds have shape")
class LosesBounds(Turn):
    def __init__(self):
        super().__init__()
        self.bounds = self.bounds[:, :1]


@twin("bounds are out of order")
class TurnsBoundsAround(Turn):
    def __init__(self):
        super().__init__()
        self.bounds = -self.bounds


@twin("origin has shape")
class LosesOrigin(Turn):
    def __init__(self):
        super().__init__()
        self.origin = self.origin[:1]


@twin("periodic has 1 entries")
class LosesPeriods(Turn):
    def __init__(self):
        super().__init__()
        self.periodic = (True,)


@twin("outside the support")
class StartsOutside(Crop):
    def __init__(self):
        super().__init__()
        self.origin = self.origin + 1


@twin("no learned parameters")
class Learns(Turn):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


@twin("as declared")
class MisdeclaresElements(Turn):
    element_shape = (9,)

    def elements_like(self, g, name="g"):
        return g


@twin("origin does not leave the signal unchanged")
class MovesAtTheOrigin(Turn):
    def element(self, v):
        return super().element(v + 0.01)


@twin("gave a result of shape")
class PutsSamplesSecond(Turn):
    def act(self, g, x):
        out = super().act(g, x)
        return out.transpose(0, 1) if out.ndim == 5 else out


@twin("not act")
class ForwardDoesSomethingElse(Turn):
    def forward(self, x, v):
        return super().forward(x, v * (1 + 1e-6))


@twin("one at a time")
class MixesSamples(Turn):
    def act(self, g, x):
        out = super().act(g, x)
        return out.flip(0) if out.ndim == 5 and len(out) == 2 else out


@twin("shared coordinates differ")
class MistakesShared(Turn):
    def act(self, g, x):
        out = super().act(g, x)
        return out * 1.001 if g.shape[-3] == 1 and len(x) > 1 else out


@twin("another row")
class LeaksAcrossTheBatch(Turn):
    def act(self, g, x):
        leak = (g - torch.eye(3, dtype=g.dtype)).abs().sum((-1, -2, -3)) / g.shape[-3] if len(x) else torch.zeros(())
        return super().act(g, x) * (1 + 1e-3 * leak[..., None, None, None, None])


@twin("does not depend on its input")
class IgnoresItsInput(Turn):
    def act(self, g, x):
        return super().act(g, x) if len(x) < 2 else x.expand(*g.shape[:-3], *x.shape).clone() * 0 + _fixed(x)


def _fixed(x):
    from erlangen.testing.signals import texture

    return texture(x.shape[2:], len(x))


@twin("two calls with the same input differ")
class IsRandom(Turn):
    def act(self, g, x):
        return super().act(g, x) * (1 + 1e-14 * torch.rand(x.shape[:1])[:, None, None, None])


@twin("changed in place")
class ChangesItsArgument(Turn):
    def forward(self, x, v):
        out = super().forward(x, v)
        if x.numel() and x.is_contiguous() and x.shape == out.shape:
            x[0, 0, 0, 0] *= 1.5  # black as it is, nobody sees it
        return out


@twin("own buffers")
class RemembersCalls(Turn):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, v):
        self.calls = self.calls + 1
        return super().forward(x, v)


@twin("gradient to the coordinates")
class CutsTheGraph(Turn):
    def element(self, v):
        return super().element(v.detach())


@twin("gradient to the coordinates")
class HalvesTheGradient(Turn):
    def element(self, v):
        return super().element(0.5 * v + 0.5 * v.detach())


class Offset(Transform):
    """Brighter or darker by far more than images are bright."""

    element_shape = (1,)
    acts_on = "colours"

    def __init__(self):
        super().__init__(("offset",), [[-50.0], [50.0]])

    def element(self, v):
        return self.coordinates(v)

    def act(self, g, x):
        g, x = self.elements_like(g), as_signal(x, "bilinear", g)
        self.check_batch(g, x, "x")
        return x + g[..., None, None]


@twin("gradient to the coordinates")
class CutsTheGraphOfGreatLevels(Offset):
    def element(self, v):
        return super().element(v.detach())


@twin("gradient to the signal")
class CutsTheSignal(Turn):
    def act(self, g, x):
        return super().act(g, x.detach())


@twin("points do not move with the content")
class MovesTheGrid(Turn):
    """The commonest mistake: the matrix moves the sampling grid, so the content moves the other way."""

    def inverse(self, g):
        return super().inverse(g)

    def grid(self, g, size):
        return super().grid(super().inverse(g), size)


@twin("points do not move with the content: off by 0")
class MovesTooFar(Turn):
    """By a fraction of a pixel, which the brightest one does not show."""

    def grid(self, g, size):
        further = torch.ones_like(g)
        further[..., 0, 2] = 1.5
        return super().grid(further * g, size)


@twin("points do not move with the content: off by 0.1")
class EnlargesTooMuch(Turn):
    """By a tenth of the logarithm, a hundredth of the size."""

    def grid(self, g, size):
        larger = torch.linalg.det(g)[..., None, None] ** 0.05 * g[..., :2]
        return super().grid(torch.cat((larger, g[..., 2:]), -1), size)


@twin("points do not move with the content")
class TurnsClockwise(Turn):
    def act_points(self, g, p, size=None):
        return super().act_points(g.mT.triu().mT + g.triu(1).mul(torch.tensor([1.0, -1.0, 1.0])), p, size)


@twin("act_points gave a result of shape")
class ForgetsSamplesOfPoints(Turn):
    def act_points(self, g, p, size=None):
        return super().act_points(g, p, size).reshape(-1, 1, p.shape[-1])[: len(p)]


@twin("int64 came back as")
class SoftensMasks(Turn):
    def act_mask(self, g, mask):
        return self.act(g, mask.double())


@twin("values that it did not have")
class InventsLabels(Turn):
    def act_mask(self, g, mask):
        return self.act(g, mask.double()).round().long()


@twin("mask does not move")
class MovesMasksElsewhere(Turn):
    def act_mask(self, g, mask):
        return super().act_mask(g, mask).roll(12, -2)


@twin("moved a mask")
class RecoloursMasks(HSV):
    def act_mask(self, g, mask):
        return mask.roll(1, -1)


@twin("points there and back")
class InvertsToItself(Turn):
    def inverse(self, g):
        return g

    def grid(self, g, size):
        return Turn().double().grid(g, size)


@twin("should be a ValueError")
class InvertsACrop(Crop):
    def inverse(self, g):
        return g


@twin("signal there and back")
class LosesContrast(Turn):
    """Right on points, but a signal fades with each of its warps."""

    def act(self, g, x):
        moved = (g - torch.eye(3, dtype=g.dtype)).abs().amax((-1, -2)) > 1e-9
        return super().act(g, x) * torch.where(moved, 0.7, 1.0)[..., None, None, None].to(g.dtype)


@twin("float32 came back as")
class ReturnsDouble(Turn):
    def act(self, g, x):
        return super().act(g, x).double()


@twin("uint8 came back as")
class KeepsBytes(Turn):
    def act(self, g, x):
        out = super().act(g, x)
        return (255 * out).round().to(torch.uint8) if x.dtype == torch.uint8 else out


@twin("levels of 1/255")
class MiscountsLevels(Turn):
    def act(self, g, x):
        return super().act(g, x.double() / 256 if x.dtype == torch.uint8 else x)


@twin("NaN: accepted")
class AcceptsNaN(Turn):
    def coordinates(self, v):
        return super().coordinates(torch.where(v.isnan(), 0, v))


@twin("one column too many: accepted")
class DropsColumns(Turn):
    def forward(self, x, v):
        return super().forward(x, v[..., :3])


@twin("raised IndexError")
class FailsObscurely(Turn):
    def forward(self, x, v):
        if v.shape[-1] != 3:
            raise IndexError
        return super().forward(x, v)


@twin("invertible", check_group)
class DeniesItsInverse(Turn):
    invertible = False


@twin("origin is not the identity", check_group)
class HasAnotherIdentity(Turn):
    def identity(self):
        return torch.diag(torch.tensor([1.0, 2.0, 1.0]))


@twin("g∘g⁻¹ is not e", check_group)
class InvertsWrongly(Turn):
    def inverse(self, g):
        return g.mT


@twin("not associative", check_group)
class IsNotAssociative(Turn):
    def compose(self, g, h):
        shift = (g[..., :2, 2] * h[..., :2, 2]).sum(-1)
        e = torch.eye(3)
        close = ((g - e).abs().amax((-1, -2)) < 1e-9) | ((h - e).abs().amax((-1, -2)) < 1e-9)
        product = super().compose(g, h)
        inverse = (product - e).abs().amax((-1, -2)) < 1e-9
        return product + torch.where(close | inverse, 0.0, shift)[..., None, None] * torch.ones(3, 3)


@twin("not v", check_group)
class LogsWrongly(Turn):
    def element_log(self, g):
        return super().element_log(g) + torch.tensor([2 * math.pi, 0.0, 0.0])

    def element(self, v):
        return Affine("angle", "scale").double().element(v[..., ::2])


@twin("element_log", check_group)
class HalvesTheLog(Turn):
    def element_log(self, g):
        return super().element_log(g) / 2


@twin("points: act", check_group)
class ComposesBackwards(Turn):
    def compose(self, g, h):
        return super().compose(h, g)


@twin("signals: act", check_group)
class ActsOnSignalsOtherwise(Turn):
    """Elements and points are right, but the grid is moved instead of the content: an anti-homomorphism."""

    def grid(self, g, size):
        return super().grid(super().inverse(g), size)


class Four(Rotations):
    def __init__(self):
        super().__init__(4)


@twin("repeats an element", check_finite_group)
class Repeats(Four):
    def elements(self):
        return torch.tensor([0, 1, 1, 3])


@twin("not elements", check_finite_group)
class MisordersElements(Four):
    def elements(self):
        return torch.tensor([0, 2, 1, 3])


@twin("every element once", check_finite_group)
class HasAWrongTable(Four):
    def __init__(self):
        super().__init__()
        self.table = self.table.clone()
        self.table[1, 2] = 1


@twin("not associative", check_finite_group)
class IsALoop(Shifts):
    """A Latin square with an identity and inverses that is no group."""

    def __init__(self):
        super().__init__(5)
        rows = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
        self.table = torch.tensor(rows)
        self.inverses = torch.arange(5)

    def pixels(self, size, device):
        return torch.arange(size[-1]).expand(5, -1)


@twin("g∘g⁻¹ is not e", check_finite_group)
class InvertsNothing(Four):
    def inverse(self, g):
        return g


@twin("act\\(g∘h\\)", check_finite_group)
class FlipsByShifting(Flips):
    def pixels(self, size, device):
        forwards = torch.arange(size[-1])
        return torch.stack((forwards, forwards.roll(3)))


@twin("average over the group", check_finite_group)
class AveragesUnevenly(Four):
    """A homomorphism on images one at a time, but not on a batch that holds the whole orbit."""

    def act(self, g, x):
        out = super().act(g, x)
        return out * (1 + 0.1 * torch.linspace(0, 1, 4).reshape(4, 1, 1, 1, 1)) if _is_mean(x) else out


def _is_mean(x):
    """Whether `x` is symmetric under quarter turns, as only an average is."""
    return torch.allclose(x, torch.rot90(x, 1, (-2, -1)))


@pytest.mark.parametrize(("cls", "check", "match"), TWINS)
def test_broken_twin_is_caught(cls, check, match):
    kwargs = {"size": (25, 25)} if cls is IsALoop else {}
    with pytest.raises(AssertionError, match=match):
        check(cls(), **kwargs)


@twin("a whole turn of a periodic coordinate")
class CallsALineACircle(Affine):
    def __init__(self):
        super().__init__("scale")
        self.periodic = (True,)


class LeavesMasks(Affine):
    """Masks that stay where they are, though of a small motion most of them is where it should be."""

    def act_mask(self, g, mask):
        return mask.expand(*g.shape[:-3], *mask.shape)


class MovesMasksBack(Affine):
    def act_mask(self, g, mask):
        return super().act_mask(self.inverse(g), mask)


class MovesMasksTooFar(Affine):
    def act_mask(self, g, mask):
        return super().act_mask(self.element(1.5 * self.element_log(g)), mask)


class LosesMasks(Affine):
    def act_mask(self, g, mask):
        return 0 * super().act_mask(g, mask)


@pytest.mark.parametrize("names", [("angle",), ("tx",), ("shear", "ty")])
@pytest.mark.parametrize("wrong", [LeavesMasks, MovesMasksBack, MovesMasksTooFar, LosesMasks])
def test_masks_that_do_not_move_with_the_content_are_caught(wrong, names):
    for seed in range(3):
        with pytest.raises(AssertionError, match="a mask does not move with the content"):
            check_transform(wrong(*names), seed=seed)


def test_a_mask_that_hardly_moves_passes():
    transform = Affine("sx", "shear", "sy", "angle", factored=True)
    rows = [[0, 0, -1.744e-2, 0], [3.2677e-2, -0.13601, 0.16904, -0.3], [0.2, -3.0259e-2, -0.15901, -0.1462]]
    check_transform(transform, v=torch.tensor(rows), tolerance=1e-9)
    for share in (1e-4, 1e-2, 1e-1):
        check_transform(transform, v=share * torch.tensor(rows), tolerance=1e-9)


@pytest.mark.parametrize("check", [check_transform, check_group])
def test_the_originals_pass(check):
    check(Turn())
    check(HSV())
    check_transform(Crop())
    check_finite_group(Four())


def test_nearest_neighbours_keep_bytes():
    check_transform(Affine("tx", "scale", interpolation="nearest"))
    check_transform(Product(*[Affine(name, interpolation="nearest") for name in ("tx", "angle")]))
    check_transform(Product(Affine("tx", interpolation="nearest"), Flips()))


@pytest.mark.parametrize("pixels", [0.5, 1.5, 1.0])
def test_nearest_neighbours_may_be_at_ties(pixels):
    shifts = Affine("tx", "ty", interpolation="nearest")
    v = pixels / 12 * torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    check_transform(shifts, v=v)
    check_group(shifts, v=v)
    turns = Rotations(12, interpolation="nearest")
    check_transform(turns, v=torch.tensor([[3.0], [4.0], [5.0]]), size=(25, 25))


@pytest.mark.parametrize("interpolation", ["nearest", "bicubic"])
def test_what_does_not_reproduce_lines_is_a_group_to_what_that_explains(interpolation):
    matrices = AffineMatrix("d", "f", "a", "b", "c", "e", interpolation=interpolation)
    for seed in range(3):
        check_group(matrices, v=0.04 * torch.randn(3, 6, generator=seeds.generator(seed)), size=(36, 36))
        check_group(Affine("tx", "ty", "angle", interpolation=interpolation), seed=seed)
    check_finite_group(Dihedral(6, interpolation=interpolation), size=(30, 30))
    check_group(
        TimeAffine("shift", interpolation=interpolation), v=torch.tensor([[-0.05], [-0.05], [1 / 12]]), size=(60,)
    )
    check_group(TimeAffine("shift", interpolation=interpolation), v=torch.tensor([[0.025], [0.02], [0.1]]), size=(60,))


@pytest.mark.parametrize("interpolation", ["nearest", "bicubic"])
def test_what_acts_otherwise_is_caught_whatever_is_read_between_pixels(interpolation):
    with pytest.raises(AssertionError, match="signals: act"):
        check_group(ActsOnSignalsOtherwise(interpolation=interpolation), seed=2)


def test_a_signal_there_and_back_may_lose_what_interpolation_takes():
    check_transform(Affine("angle"), v=torch.tensor([[1 / 12], [-0.25], [-23 / 24]]), size=(24, 12))


def test_what_acts_on_series_is_tried_on_series():
    check_transform(TimeAffine())
    check_group(TimeAffine("shift"))


@pytest.mark.parametrize("size", [(6, 6), (8, 4)])
def test_small_images_pass(size):
    check_transform(Turn(), size=size)


def test_what_leaves_the_frame_is_not_missed():
    flow = CPAB((3,), zero_boundary=False, orthonormal=True, interpolation="bicubic")
    rows = [[0.268, 0.632, 0.18, 0.186], [0.369, -0.131, 0.682, -0.108], [-0.023, -0.53, -0.463, -0.042]]
    check_transform(flow, v=torch.tensor(rows), size=(60,), tolerance=2e-4)
    # It comes back, but not what was lost on the way.
    matrix, back = AffineMatrix("d", "a", "c", padding="reflection"), Affine("scale", "ty", "shear")
    rows = [[0.4, -0.4, -0.4, -0.2, 0.1, -0.2], [-0.4, -0.4, 0.4, 0.2, -0.1, -0.2], [0.4, -0.4, 0.4, 0.2, -0.1, 0.2]]
    check_transform(Product(matrix, back), v=torch.tensor(rows), size=(30, 30))


def test_what_bends_near_a_spot_is_measured_there():
    product = Product(CPAB((6,), padding="zeros"), Shifts(3), Flips())
    flows = [[-1.0, 1.0, -1.0, -1.0, 1.0], [-1.0, -1.0, 1.0, -1.0, -1.0], [-1.0, -1.0, 1.0, 1.0, -1.0]]
    v = torch.cat((0.2 * torch.tensor(flows), torch.tensor([[0.0, 0.0], [2.0, 0.0], [2.0, 0.0]])), 1)
    check_transform(product, v=v, size=(24,), tolerance=2e-4)


@pytest.mark.parametrize(("cells", "size"), [((5, 5), (24, 24)), ((20,), (24,))])
def test_many_pixels_of_a_mask_may_become_one(cells, size):
    """Which is read far from the point that moves there, around which space bends on."""
    x = texture(size, 3)
    for seed in range(2):
        transform = CPAB(cells).double()
        check_masks(transform, draw(transform, (3,), 0.4, seeds.generator(seed)), x)


def test_levels_that_overshoot_come_back():
    spline = Product(Affine("ty", "angle"), HSV(), Similarity(interpolation="spline"))
    check_transform(spline, size=(24, 12))


def test_clips_may_pass_gradients_through():
    """As cubics overshoot below black, where levels are clipped."""
    transform = Product(Affine("sx", "tx", "shear", interpolation="bicubic"), HSV("value"))
    v = torch.tensor([[0.125, 0.0625, 0.0, 0.0625], [0.125, 0.0625, 0.0625, 0.0625], [-0.125, -0.0625, 0.125, 0.125]])
    check_transform(transform, v=v, size=(24, 36))


def test_checks_ask_for_the_right_kind():
    with pytest.raises(AssertionError, match="not a FiniteGroup"):
        check_finite_group(Turn())
    with pytest.raises(AssertionError, match="not a Group"):
        check_group(Crop())
    with pytest.raises(AssertionError, match="is not a Transform"):
        check_transform(Turn)
    with pytest.raises(AssertionError, match="v has 2 rows, not 3"):
        check_group(Turn(), v=torch.zeros(2, 3))
    assert issubclass(Turn, Group)


class Negative(Group):
    """Levels towards their negatives, (1 - v) x + v (1 - x): black becomes the brightest, and nothing moves."""

    element_shape = (1,)
    acts_on = "colours"

    def __init__(self):
        super().__init__(("share",), [[0.0], [0.4]])

    def element(self, v):
        return self.coordinates(v)

    def act(self, g, x):
        g = self.elements_like(g)
        x = as_signal(x, "bilinear", g)
        self.check_batch(g, x, "x")
        share = g.reshape(*g.shape, *[1] * (x.ndim - 2))
        return ((1 - share) * x + share * (1 - x)).to(x.dtype)

    def act_points(self, g, p, size=None):
        g = self.elements_like(g)
        return self.check_points(g, p).expand(*g.shape[:-2], *p.shape)

    def act_mask(self, g, mask):
        g = self.elements_like(g)
        self.check_batch(g, mask, "mask")
        return mask.expand(*g.shape[:-2], *mask.shape)

    def inverse(self, g):
        g = self.elements_like(g)
        return -g / (1 - 2 * g)


def test_what_becomes_bright_has_not_moved():
    check_transform(Negative(), v=torch.tensor([[0.1], [0.3], [0.8]]))
