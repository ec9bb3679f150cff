"""Both stages of a symmetry model: losses that vanish for a perfect pose, content that is missed, blur that fades."""

import math

import pytest
import torch

from erlangen.distributions import Gaussian
from erlangen.models import SymmetryModel
from erlangen.objectives import Blur, KnownPoses, PrototypeInference, TransformLikelihood, TwoStages
from erlangen.objectives.moves import moves_along, moves_within
from erlangen.transforms import HSV, Affine, Product, TimeAffine

from ..models.poses import Blind, blobs, centred, trembling

NEAR = {"tx": 0.25, "ty": 0.25}
SMALL = {"inference": (8,), "generative": (8,), "layers": 2, "width": 8}


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_perfect_pose_costs_nothing(symmetric):
    """Composed elements are the identity to rounding: not even interpolation is left (equations 6 and 24)."""
    objective = PrototypeInference(centred(scale=1e-12), ranges=NEAR, symmetric=symmetric, invertibility=0.0)
    assert objective((blobs(),))["equivariance"] < 1e-18


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_pose_that_is_not_equivariant_costs(symmetric):
    """The twin that must fail."""
    objective = PrototypeInference(centred(wrong=2.0), ranges=NEAR, symmetric=symmetric, invertibility=0.0)
    assert objective((blobs(),))["equivariance"] > 1e-3


def test_the_loss_is_equation_24_by_hand():
    model, x = centred(wrong=1.0, scale=1e-12), blobs()
    objective = PrototypeInference(model, ranges=NEAR, samples=2, invertibility=0.0)
    torch.manual_seed(5)
    loss = objective((x,))["loss"]
    torch.manual_seed(5)
    group, one = model.group, objective.moves(2, len(x))
    _ = torch.randn(2 * len(x), 2)  # what sampled poses use
    two = objective.moves(2, len(x))
    f = [group.element(model.pose(group.act(g, x).flatten(0, 1)).median).unflatten(0, (2, 3)) for g in (one, two)]
    whole = torch.linalg.inv(two) @ f[1] @ torch.linalg.inv(f[0]) @ one
    torch.testing.assert_close(loss, (group.act(whole, x) - x).square().mean())


@pytest.mark.parametrize("objective", [PrototypeInference, TransformLikelihood])
def test_a_bare_tensor_is_no_batch(objective):
    with pytest.raises(
        ValueError, match=r"batch: received a float64 tensor of shape .*; accepted is \(x,\) or \(x, y\)"
    ):
        objective(centred())(blobs())


def test_content_that_leaves_the_frame_is_missed():
    x = blobs()
    kept = PrototypeInference(centred(), ranges={"tx": 1e-6, "ty": 1e-6})((x,))
    gone = PrototypeInference(centred(offset=(1.9, 0.0)), ranges={"tx": 1e-6, "ty": 1e-6})((x,))
    assert kept["content"] > 0.9  # two interpolations by half a pixel are not free
    assert gone["content"] == 0
    torch.testing.assert_close(gone["lost"], x.square().mean(), rtol=1e-3, atol=0)
    assert gone["equivariance"] < 1e-12  # which is why the price is needed
    torch.testing.assert_close(gone["loss"], gone["equivariance"] + 0.1 * gone["lost"])


def test_prototypes_are_drawn_to_the_middle_of_their_orbits():
    """By hand for inputs that do not move; an angle has no middle."""
    x, still = blobs(), {"ranges": {"tx": 1e-9, "ty": 1e-9}, "invertibility": 0.0}
    for offset in ((0.3, -0.2), (0.0, 0.0)):
        model = centred(offset=offset)
        priced, free = (PrototypeInference(model, centred=weight, **still)((x,))["loss"] for weight in (2.0, 0.0))
        expected = 2 * model.pose(x).median.mean(0).square().sum()
        torch.testing.assert_close(priced - free, expected, rtol=0, atol=1e-7)
    turns = SymmetryModel.over(Affine("angle"), (1, 8, 8), copies=2, **SMALL)
    assert not PrototypeInference(turns, centred=1.0).linear.any()


def test_fine_textures_keep_their_content():
    """Half a pixel there and back removes most of what alternates from pixel to pixel, and is no collapse."""
    x, place = torch.zeros(1, 1, 16, 16), torch.arange(10)
    x[..., 3:13, 3:13] = ((place + place[:, None]) % 2).double()
    objective = PrototypeInference(centred(offset=(1 / 16, 1 / 16)), ranges={"tx": 1e-6, "ty": 1e-6})
    losses = objective((x,))
    assert losses["lost"] > 0.5 * x.var()
    assert losses["content"] > 0.5


def test_the_likelihood_is_that_of_poses_given_prototypes_of_moved_inputs():
    model, x = trembling(centred(scale=1e-12)), blobs()
    objective = TransformLikelihood(model, ranges=NEAR, samples=3, consistency=1.0)
    pose, prototypes = objective.pairs((x,))
    torch.testing.assert_close(pose, model.pose(x).median)
    for prototype in prototypes:  # the pose is perfect, so they are those of the inputs, to rounding: no warp but one
        torch.testing.assert_close(prototype, model.prototype(x))
    losses = objective((x,))
    torch.testing.assert_close(losses["nll"], -model.log_prob(x).mean())
    assert losses["consistency"] < 1e-9


def test_noise_on_poses_is_no_inconsistency_of_prototypes():
    """The pose is perfect, and so are all prototypes those of the inputs; noise makes other poses more likely."""
    model, x = trembling(centred(scale=1e-12)), blobs()
    losses = TransformLikelihood(model, ranges=NEAR, samples=3, grain=0.1, consistency=1.0)((x,))
    assert losses["consistency"] < 1e-9
    assert (losses["nll"] + model.log_prob(x).mean()).abs() > 1e-3


def test_the_prototypes_of_inputs_as_they_are():
    model, x = trembling(centred(wrong=2.0)), blobs()
    for samples in (1, 3):
        _, prototypes = TransformLikelihood(model, ranges=NEAR, samples=samples, own=True).pairs((x,))
        assert len(prototypes) == samples
        torch.testing.assert_close(prototypes[0], model.prototype(x))
    assert (prototypes[1] - prototypes[0]).abs().max() > 1e-3  # the pose is wrong, and says another thing when moved


def test_poses_have_noise_of_the_grain_that_is_asked_for():
    """With a density of zero mean and scale s, noise of g adds g² / 2s² to the cost of each coordinate."""
    model, x = trembling(centred(scale=1e-12)), blobs()
    model.conditional = Gaussian.over(model.group, 1, encoder=Blind(), bounds=None, spread=0.5)
    costs = [
        TransformLikelihood(model, ranges=NEAR, samples=4000, grain=grain)((x,))["nll"].item()
        for grain in (0.0, 1.0, (1.0, 0.0))
    ]
    scale = model.conditional(x).stddev_estimate(20_000).mean().item()
    one = 1 / (2 * scale**2)
    # 12,000 draws of a χ² of 2: less than 5 standard errors, which are sqrt(2 · 2 / 12,000) of half a coordinate's.
    assert costs[1] - costs[0] == pytest.approx(2 * one, rel=0.08)
    assert costs[2] - costs[0] == pytest.approx(one, rel=0.12)


def test_noise_does_not_leave_lines_and_goes_round_circles():
    group = Affine("tx", "angle", bounds={"tx": 0.5}, factored=True)
    model = SymmetryModel.over(group, (1, 9, 9), **SMALL)
    objective, q = TransformLikelihood(model, grain=0.3), model.conditional(torch.rand(2000, 1, 9, 9))
    pose = torch.tensor([0.499, 3.14]).expand(2000, 2)
    found = objective._blurred(pose, q)
    assert (found[:, 0].abs() < 0.5).all()
    assert (found[:, 1] > math.pi).double().mean() == pytest.approx(0.5, abs=0.06)  # five standard errors
    assert q.log_prob(found).isfinite().all()


def test_without_grain_nothing_is_drawn_for_it():
    model, x = trembling(centred()), blobs()
    objective = TransformLikelihood(model, ranges=NEAR, grain=[0.0, 0.0])
    torch.manual_seed(0)
    objective((x,))
    after = torch.rand(())
    torch.manual_seed(0)
    objective.pairs((x,))
    assert after == torch.rand(())


def test_refuses_grains_of_other_coordinates():
    with pytest.raises(ValueError, match=r"grain: received 3 numbers; accepted is a number, or one for each of tx, ty"):
        TransformLikelihood(centred(), grain=(0.1, 0.1, 0.1))
    with pytest.raises(ValueError, match=r"grain: received int -1; accepted is a finite number >= 0"):
        TransformLikelihood(centred(), grain=-1)


def test_known_poses_are_those_that_are_inferred():
    model, x = trembling(centred(wrong=2.0)), blobs()
    objective = KnownPoses(model, ranges=NEAR, samples=5)
    same, pose, back = objective.known(x, 3, rows=2)
    assert same is x
    assert back.shape == (len(x), 3, 3, 3)
    torch.testing.assert_close(pose, model.pose(x).median)
    seen, prototypes = objective.pairs((x[1:], pose[1:], back[1:]))
    assert torch.equal(seen, pose[1:])
    own = model.group.act(back.transpose(0, 1), x)[:, 1:]
    for prototype in prototypes:  # each is one of its three
        apart = (own - prototype).abs().amax((2, 3, 4)).amin(0)
        assert (apart < 1e-12).all()
    assert (own[0] - own[1]).abs().max() > 1e-3  # the pose is wrong, and says another thing when moved


def test_the_likelihood_of_known_poses_is_the_same():
    model, x = trembling(centred(scale=1e-12)), blobs()
    objective = KnownPoses(model, ranges=NEAR, samples=2)
    torch.testing.assert_close(objective(objective.known(x, 2))["nll"], -model.log_prob(x).mean())


def test_prototypes_that_differ_are_inconsistent():
    model, x = trembling(centred(wrong=2.0)), blobs()
    objective = TransformLikelihood(model, ranges=NEAR, samples=3, consistency=0.5)
    losses = objective((x,))
    assert losses["consistency"] > 1e-4
    torch.testing.assert_close(losses["loss"], losses["nll"] + 0.5 * losses["consistency"])
    assert "consistency" not in TransformLikelihood(model, ranges=NEAR)((x,))


def test_consistency_by_hand():
    model, x = trembling(centred(wrong=2.0)), blobs(1)
    objective = TransformLikelihood(model, ranges=NEAR, samples=2, consistency=1.0)
    torch.manual_seed(2)
    found = objective((x,))["consistency"]
    torch.manual_seed(2)
    pose, (a, b) = objective.pairs((x,))
    expected = (model.conditional(a).log_prob(pose) - model.conditional(b).log_prob(pose)).abs().mean()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("group", "shape"),
    [
        (lambda: Affine("tx", "ty", "angle", "sx", "sy", factored=True), (1, 9, 9)),
        (HSV, (3, 9, 9)),
        (lambda: Product(Affine("angle"), HSV("hue")), (3, 9, 9)),
        (TimeAffine, (2, 20)),
    ],
)
def test_each_stage_trains_its_own_part_and_all_of_it(group, shape):
    model = trembling(SymmetryModel.over(group(), shape, **SMALL))
    x = torch.rand(4, *shape)
    for objective, mine, other in (
        (PrototypeInference(model, samples=2, blur=Blur(2.0, 3)), model.inference, model.conditional),
        (TransformLikelihood(model, samples=2), model.conditional, model.inference),
    ):
        model.zero_grad()
        objective((x,))["loss"].backward()
        assert [n for n, p in mine.named_parameters() if p.grad is None or not p.grad.any()] == []
        assert all(p.grad is None for p in other.parameters())
        (parameters,) = objective.parameter_groups().values()
        assert {id(p) for p in parameters} == {id(p) for p in mine.parameters()}


def test_poses_can_follow_what_is_asked_of_them():
    """Series that were moved by 0.3 came out as moved by 0.24, and nothing said so: poses ended at 0.25."""
    group = TimeAffine("shift")
    held, free = (SymmetryModel.over(group, (1, 8), bounded=bounded, **SMALL) for bounded in (True, False))
    said = (
        r"ranges: received shift within \[-0.5, 0.5\], where poses end at \[-0.25, 0.25\]; accepted are ranges within"
    )
    with pytest.raises(ValueError, match=said):
        PrototypeInference(held, ranges={"shift": 0.5})
    PrototypeInference(held, ranges={"shift": 0.25})
    PrototypeInference(free, ranges={"shift": 0.5})


def test_saturation_learns_through_the_clip():
    """Colours that were clipped still have a gradient (appendix C.5)."""
    group = HSV("saturation", bounds={"saturation": 2.0})
    model = trembling(SymmetryModel.over(group, (3, 4, 4), **SMALL))
    x = torch.tensor([1.0, 0.0, 0.0])[:, None, None].expand(2, 3, 4, 4)  # saturated: every step upwards is clipped
    PrototypeInference(model, ranges={"saturation": (0.5, 1.0)}, invertibility=0.0)((x,))["loss"].backward()
    assert model.inference.loc.last.bias.grad.abs() > 0


def test_blur_fades():
    x = torch.zeros(1, 2, 9, 9)
    x[:, 0, 4, 4] = 1
    blur = Blur(3.0, steps=10)
    seen = [blur(x, torch.tensor(step)) for step in (0, 5, 9, 10)]
    for image in seen:
        torch.testing.assert_close(image.sum(), torch.tensor(1.0))
        assert image[:, 1].abs().max() == 0
    t = torch.arange(-2, 3)
    kernel = torch.exp(-((t / 1.5) ** 2) / 2)
    kernel = kernel / kernel.sum()
    torch.testing.assert_close(seen[1][0, 0, 2:7, 2:7], kernel[:, None] * kernel)
    torch.testing.assert_close(seen[3], x)
    assert [blur.active(step) for step in (0, 9, 10)] == [True, True, False]
    series = torch.zeros(1, 1, 9)
    series[..., 4] = 1
    torch.testing.assert_close(blur(series, torch.tensor(5))[0, 0, 2:7], kernel)
    single = x.float()  # which autocast would round
    with torch.autocast("cpu", torch.bfloat16):
        rounded = blur(single, torch.tensor(5))
    torch.testing.assert_close(rounded, blur(single, torch.tensor(5)), rtol=0, atol=0)


def test_a_blur_of_nothing_changes_nothing():
    x = blobs()
    assert torch.equal(Blur(0.0)(x, torch.tensor(0)), x)


def test_only_the_first_steps_are_blurred():
    objective = PrototypeInference(centred(), ranges=NEAR, blur=Blur(3.0, 2))
    assert objective.branch()
    for _ in range(2):
        objective((blobs(),))
    assert not objective.branch()
    objective.counted()  # a step that was replayed
    assert objective.taken() == 3


def test_stages_follow_each_other():
    model = trembling(centred())
    objective = TwoStages(PrototypeInference(model, ranges=NEAR), TransformLikelihood(model, ranges=NEAR), 2)
    assert set(objective.parameter_groups()) == {"inference", "density"}
    kinds = [sorted(objective((blobs(),))) for _ in range(4)]
    assert ["nll" in kind for kind in kinds] == [False, False, True, True]
    other = TwoStages(PrototypeInference(model, ranges=NEAR), TransformLikelihood(model, ranges=NEAR), 2)
    assert not other.second
    other.load_state_dict(objective.state_dict())
    assert other.second


def test_what_is_wrong_is_refused():
    model = centred()
    with pytest.raises(ValueError, match="model: received"):
        PrototypeInference(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="centred: received int -1"):
        PrototypeInference(centred(), centred=-1)
    with pytest.raises(ValueError, match="invertibility: received int -1"):
        PrototypeInference(model, invertibility=-1)
    with pytest.raises(ValueError, match="ranges: received a range for"):
        PrototypeInference(model, ranges={"angle": 1.0})
    with pytest.raises(ValueError, match=r"ranges: received float 0\.1; accepted are ranges by the name"):
        TransformLikelihood(model, ranges=0.1)
    for group, name in ((Affine("angle"), "angle"), (HSV("hue"), "hue")):
        turning = SymmetryModel.over(group, (3, 8, 8), inference=(4,), generative=(4,))
        with pytest.raises(ValueError, match=rf"ranges\['{name}'\]: received 45; accepted is .* at most a turn"):
            PrototypeInference(turning, ranges={name: 45})
    with pytest.raises(ValueError, match=r"blur: received float 3\.0; accepted is a Blur"):
        PrototypeInference(model, blur=3.0)
    with pytest.raises(ValueError, match=r"density: received .*; accepted is a TransformLikelihood"):
        TwoStages(PrototypeInference(model), PrototypeInference(model), 2)
    with pytest.raises(ValueError, match="consistency: received"):
        TransformLikelihood(model, consistency=-0.1)
    with pytest.raises(ValueError, match=r"consistency: received 1\.0 with samples=1; accepted is 0, or more"):
        TransformLikelihood(model, consistency=1.0, samples=1)
    with pytest.raises(ValueError, match="sigma: received"):
        Blur(-1.0)
    with pytest.raises(ValueError, match="another model"):
        TwoStages(PrototypeInference(model), TransformLikelihood(centred()), 2)


def test_a_group_of_ones_own_may_have_angles_in_degrees():
    class Degrees(Affine):
        def __init__(self):
            super().__init__("angle")
            self.bounds.mul_(180 / math.pi)

        def element(self, v):
            return super().element(v * math.pi / 180)

    assert moves_within(Degrees()).ranges.flatten().tolist() == pytest.approx([-180, 180])
    assert moves_within(Degrees(), {"angle": 45}).ranges.flatten().tolist() == [-45, 45]
    assert moves_along(Degrees(), {"angle": 45}).ranges.flatten().tolist() == [-45, 45]


def test_the_content_of_images_of_one_colour_each_is_their_colour():
    group = HSV("value")
    objective = PrototypeInference(SymmetryModel.over(group, (3, 8, 8)), invertibility=0.0, samples=1)
    colours = 0.2 + 0.5 * torch.rand(16, 3, 1, 1)
    colours[0, 0] = 0.9
    x = colours.expand(-1, -1, 8, 8)
    brighter, white = (group.element(torch.full((16, 1), v)) for v in (-0.3, -16.0))
    assert 0.5 < objective._lost(x, brighter)[1] < 1  # of one of them the red is clipped
    assert objective._lost(x, white)[1] < 0.01  # and black on the way back


@pytest.mark.parametrize(
    ("group", "price"), [(HSV("hue"), 0.0), (Product(Affine("tx"), HSV("hue")), 0.0), (Affine("tx"), 1.0)]
)
def test_the_remedy_has_no_price_for_colours(group, price):
    objective = PrototypeInference(SymmetryModel.over(group, (3, 8, 8)), invertibility=0.0)
    objective.remedy(100)
    assert objective.invertibility == price
    assert objective.blur.active(0)


@pytest.mark.parametrize(
    "build",
    [
        lambda m: PrototypeInference(m, invertibility="a"),
        lambda m: TransformLikelihood(m, consistency="a"),
        lambda m: Blur("a"),
    ],
)
def test_weights_are_numbers(build):
    with pytest.raises(ValueError, match="received str 'a'; accepted is a finite number >= 0"):
        build(centred())
