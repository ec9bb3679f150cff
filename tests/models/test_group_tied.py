"""Weight tying over a finite group: invariance by construction."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from erlangen.models import GroupTied
from erlangen.transforms import Affine, Dihedral, FiniteGroup, Flips, Rotations, Shifts

GROUPS = [Rotations(4), Rotations(2), Shifts(3), Flips(), Dihedral(4)]
SIZE, FEATURES, CLASSES = 6, 7, 3


def linear(**kwargs):
    return nn.Linear(2 * SIZE * SIZE, FEATURES, **kwargs)


def convolution():
    """Strides and zeros around the frame, which no group of shifts respects."""
    return nn.Conv2d(2, FEATURES, 3, stride=2, padding=1)


def rest(first):
    """Sensitive to every feature, and to where it is."""
    inputs = FEATURES if isinstance(first, nn.Linear) else FEATURES * (SIZE // 2) ** 2
    return nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def images(n=4):
    return torch.randn(n, 2, SIZE, SIZE)


def orbit(group, x):
    return group.act(group.elements().unsqueeze(1), x)


def change(model, group, x):
    """How far logits move when inputs do."""
    with torch.no_grad():
        return max((model(moved) - model(x)).abs().max().item() for moved in orbit(group, x))


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{type(g).__name__}{len(g)}")
@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("layer", [linear, convolution])
@pytest.mark.parametrize("activation", [None, nn.ReLU()])
def test_logits_are_invariant(group, pool, layer, activation):
    first = layer()
    model = GroupTied(first, group, rest(first), pool=pool, activation=activation)
    x = images()
    assert model(x).shape == (4, CLASSES)
    assert change(model, group, x) < 1e-12
    assert (model(x)[0] - model(x)[1]).abs().max() > 1e-3  # and not because they are all alike


@pytest.mark.parametrize("group", [Rotations(4), Shifts(3), Flips()], ids=lambda g: type(g).__name__)
@pytest.mark.parametrize("layer", [linear, convolution])
def test_copies_that_are_not_transformed_are_not_invariant(group, layer):
    class Broken(GroupTied):
        def tied(self, weight, x):
            return weight.expand(len(self.group), -1, -1)

        def responses(self, x):
            if isinstance(self.first, nn.Linear):
                return super().responses(x)
            return self.first(x).expand(len(self.group), *[-1] * x.ndim)

    first = layer()
    assert change(Broken(first, group, rest(first)), group, images()) > 1e-2


def test_invariance_is_to_this_group_only():
    first = linear()
    assert change(GroupTied(first, Rotations(4), rest(first)), Flips(), images()) > 1e-2


def test_a_lazy_layer_takes_its_size_from_the_first_inputs():
    model, x = GroupTied(nn.LazyLinear(FEATURES), Rotations(4), nn.Identity()), images()
    first = linear()
    found = model(x)
    first.load_state_dict(model.first.state_dict())
    torch.testing.assert_close(found, GroupTied(first, Rotations(4), nn.Identity())(x))
    assert type(model.first) is nn.Linear


def test_a_lazy_convolution_takes_its_channels_from_the_first_inputs():
    model, x = GroupTied(nn.LazyConv2d(FEATURES, 3), Rotations(4), nn.Flatten()), images()
    assert change(model, Rotations(4), x) < 1e-12
    with pytest.raises(ValueError, match=r"x: received .* \(B, 2, H, W\)"):
        model(x[:, :1])


def test_tied_weights_are_turned_images():
    model = GroupTied(linear(), Rotations(4), nn.Identity())
    weight = model.first.weight
    tied = model.tied(weight, images())
    for k, copy in enumerate(tied):  # element k turns inputs by 90° k, so weights turn back
        expected = weight.view(FEATURES, 2, SIZE, SIZE).rot90(-k, (-2, -1)).flatten(1)
        torch.testing.assert_close(copy, expected, rtol=0, atol=0)


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{type(g).__name__}{len(g)}")
def test_copying_weights_is_transforming_inputs(group, pool):
    first = linear()
    tied = GroupTied(first, group, nn.Identity(), pool=pool)
    moved = GroupTied(nn.Sequential(nn.Flatten(), first), group, nn.Identity(), pool=pool)
    x = images()
    torch.testing.assert_close(tied.responses(x), moved.responses(x), rtol=0, atol=1e-13)
    torch.testing.assert_close(tied(x), moved(x), rtol=0, atol=1e-13)


def test_a_convolution_has_turned_kernels():
    """The maps of turned kernels, turned into the frame of the first."""
    model = GroupTied(nn.Conv2d(2, FEATURES, 3, padding=1), Rotations(4), nn.Identity())
    x, weight, bias = images(), model.first.weight, model.first.bias
    maps = [F.conv2d(x, weight.rot90(-k, (-2, -1)), bias, padding=1).rot90(k, (-2, -1)) for k in range(4)]
    torch.testing.assert_close(model(x), torch.stack(maps).amax(0), rtol=0, atol=1e-13)


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize("layer", [linear, convolution])
def test_one_copy_is_learned_and_gets_the_gradient_of_all(layer, pool):
    first = layer()
    after = rest(first)
    alone = sum(p.numel() for part in (first, after) for p in part.parameters())
    model = GroupTied(first, Rotations(4), after, pool=pool)
    assert sum(p.numel() for p in model.parameters()) == alone
    model(images(16)).square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert p.grad.abs().max() > 0, name


def test_the_gradient_is_that_of_tied_weights():
    model = GroupTied(linear(), Shifts(3), nn.Identity(), pool="mean")
    x = images(1)
    model(x).sum().backward()
    mean = orbit(Shifts(3), x).mean(0).flatten(1)
    torch.testing.assert_close(model.first.weight.grad, mean.expand(FEATURES, -1))
    torch.testing.assert_close(model.first.bias.grad, torch.ones(FEATURES))


def test_the_mean_of_linear_responses_sees_the_mean_of_the_orbit():
    first, group = linear(), Rotations(4)
    x = images()
    seen = GroupTied(first, group, nn.Identity(), pool="mean")(x)
    torch.testing.assert_close(seen, first(orbit(group, x).mean(0).flatten(1)), rtol=0, atol=1e-13)
    active = GroupTied(first, group, nn.Identity(), pool="mean", activation=nn.ReLU())(x)
    assert (active - seen.relu()).abs().max() > 1e-2


def test_an_increasing_activation_commutes_with_the_maximum():
    first, x = linear(), images()
    before = GroupTied(first, Rotations(4), nn.Identity(), activation=nn.ReLU())(x)
    torch.testing.assert_close(before, GroupTied(first, Rotations(4), nn.ReLU())(x), rtol=0, atol=0)


def test_a_layer_without_bias():
    model = GroupTied(linear(bias=False), Flips(), nn.Identity())
    assert change(model, Flips(), images()) < 1e-12


@pytest.mark.parametrize("layer", [lambda: nn.Linear(2 * 12, 5), lambda: nn.Conv1d(2, 5, 3)])
def test_series_too(layer):
    x, first = torch.randn(3, 2, 12), layer()
    for group in (Shifts(4), Flips()):
        assert change(GroupTied(first, group, nn.Flatten()), group, x) < 1e-12


def test_bytes_are_taken_as_levels():
    model = GroupTied(linear(), Rotations(4), nn.Identity())
    x = torch.randint(0, 256, (2, 2, SIZE, SIZE), dtype=torch.uint8)
    torch.testing.assert_close(model(x), model(x.double() / 255))


def test_resampling_is_approximate():
    """Rotations by 45° of a smooth image: nearly invariant, and not exactly."""
    group, size = Rotations(8), 32
    line = torch.linspace(-1, 1, size)
    blob = torch.exp(-6 * ((line - 0.2).square() + (line[:, None] - 0.1).square()))[None, None]
    first = nn.Linear(size * size, 5)
    with torch.no_grad():
        first.weight.copy_(blob.flatten(1) * torch.randn(5, 1))
    model = GroupTied(first, group, nn.Identity())
    features = model(blob).abs().max().item()
    assert 1e-12 < change(model, group, blob) < 0.05 * features


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: GroupTied(F.relu, Flips(), nn.Identity()), "first: received"),
        (lambda: GroupTied(linear(), Flips(), F.relu), "rest: received"),
        (lambda: GroupTied(linear(), Affine("angle"), nn.Identity()), "group: received .*; accepted is a FiniteGroup"),
        (lambda: GroupTied(linear(), Flips(), nn.Identity(), pool="sum"), "pool: received 'sum'; .*'max', 'mean'"),
        (lambda: GroupTied(linear(), Flips(), nn.Identity(), activation=F.relu), "activation: received"),
        (lambda: GroupTied(linear(), Flips(), nn.Identity())(torch.rand(4, 3, 6, 6)), "x: received .* 72 values"),
        (lambda: GroupTied(linear(), Flips(), nn.Identity())(torch.rand(4, 72)), "x: received"),
        (lambda: GroupTied(convolution(), Flips(), nn.Identity())(torch.rand(4, 1, 6, 6)), r"x: .* \(B, 2, H, W\)"),
        (lambda: GroupTied(convolution(), Flips(), nn.Identity())(torch.rand(4, 2, 6)), r"x: .* \(B, 2, H, W\)"),
        (lambda: GroupTied(nn.Conv1d(1, 5, 3), Flips(), nn.Identity())(torch.rand(4, 2, 6)), r"x: .* \(B, 1, L\)"),
        (lambda: GroupTied(linear(), Shifts(4), nn.Identity())(torch.rand(4, 2, 6, 6)), "x: received a width of 6"),
    ],
)
def test_bad_input(build, match):
    with pytest.raises(ValueError, match=match):
        build()


@pytest.mark.parametrize("outside", [{"fill": 1.0}, {"padding": "border"}])
def test_weights_know_nothing_of_what_comes_into_the_frame(outside):
    group, first, x = Rotations(8, **outside), nn.Linear(144, 5), torch.rand(3, 1, 12, 12)
    tied = GroupTied(first, group, nn.Identity())
    moved = GroupTied(nn.Sequential(nn.Flatten(), first), group, nn.Identity())
    torch.testing.assert_close(tied.responses(x), moved.responses(x))
    with pytest.raises(ValueError, match=r"^x: received .*; accepted is inputs of 144 values"):
        tied.responses(torch.rand(3, 1, 8, 8))


@pytest.mark.parametrize("first", [linear, convolution])
def test_images_have_the_type_of_the_model(first):
    layer = first()
    model, x = GroupTied(layer, Rotations(4), rest(layer)).bfloat16(), (255 * torch.rand(4, 2, SIZE, SIZE)).byte()
    assert torch.equal(model(x), model((x / 255).bfloat16()))
    with pytest.raises(ValueError, match=r"x: received a float64 .* the model is torch.bfloat16"):
        model(images())


class Negatives(FiniteGroup):
    """Pictures and their negatives, x and 1 - x: a group of one's own, which is not linear."""

    def __init__(self):
        super().__init__(torch.tensor([[0, 1], [1, 0]]))

    def act(self, g, x):
        return torch.where(g[..., None, None, None] == 1, 1 - x, x)


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_a_group_that_does_more_than_move_pixels_is_tied_too(pool):
    model, x = GroupTied(linear(), Negatives(), rest(linear()), pool=pool, activation=nn.ReLU()), images()
    torch.testing.assert_close(model(1 - x), model(x))
