"""Finite groups: exact to the last bit where pixels go to pixels."""

import pytest
import torch

from erlangen.transforms import Affine, Dihedral, Flips, Rotations, Shifts


def test_quarter_turns_are_rot90_to_the_bit():
    x, group = torch.rand(2, 3, 7, 7), Rotations(4)
    for k, turned in enumerate(group.act(group.elements()[:, None], x)):
        assert torch.equal(turned, torch.rot90(x, k, (-2, -1)))


def test_half_turns_work_on_any_aspect():
    x = torch.rand(2, 3, 5, 8)
    assert torch.equal(Rotations(2).act(torch.tensor([1]), x), x.flip(-1, -2))


def test_flips_and_shifts_to_the_bit():
    x = torch.rand(2, 3, 5, 12)
    assert torch.equal(Flips().act(torch.tensor([0, 1]), x), torch.stack((x[0], x[1].flip(-1))))
    for k in range(4):
        assert torch.equal(Shifts(4).act(torch.tensor([k]), x), x.roll(3 * k, -1))
    series = torch.rand(2, 3, 12)
    assert torch.equal(Flips().act(torch.tensor([1]), series), series.flip(-1))
    assert torch.equal(Shifts(3).act(torch.tensor([2]), series), series.roll(8, -1))


def test_shifts_of_images_need_no_table_of_their_pixels(largest):
    """For each shift the columns are enough."""
    x = torch.rand(1, 1, 64, 64)
    with largest:
        shifted = Shifts(64).act(torch.tensor([3]), x)
    assert torch.equal(shifted, x.roll(3, -1))
    assert largest.most <= 2 * x.numel()


def test_tables_of_many_turns_need_not_compare_all_products_with_all_elements(largest):
    with largest:
        group = Dihedral(100)
    assert largest.most <= 4 * len(group) ** 2
    k = torch.arange(100)
    turned = (k[:, None] + k) % 100
    assert torch.equal(group.compose(k[:, None], k), turned)
    assert torch.equal(group.compose(k[:, None], 100 + k), 100 + turned)
    assert torch.equal(group.compose(100 + k, 100 + k), torch.zeros_like(k))


def test_dihedral_flips_first_and_turns_then():
    x, group = torch.rand(1, 2, 6, 6), Dihedral(4)
    images = group.act(group.elements()[:, None], x)
    for k in range(4):
        assert torch.equal(images[k], torch.rot90(x, k, (-2, -1)))
        assert torch.equal(images[4 + k], torch.rot90(x.flip(-1), k, (-2, -1)))


@pytest.mark.parametrize("group", [Rotations(4), Dihedral(4), Flips(), Shifts(4)], ids=repr)
def test_the_average_over_a_group_is_exactly_invariant(group):
    """Dyadic values, so that sums do not depend on their order: to the bit."""
    x = torch.randint(256, (2, 3, 8, 8)) / 256
    mean = group.act(group.elements()[:, None], x).mean(0)
    for g in group.elements():
        assert torch.equal(group.act(g[None], mean), mean)


def test_other_rotations_resample_as_affine_maps_do():
    x = torch.rand(2, 3, 9, 12)
    turned = Rotations(6).act(torch.tensor([1, 5]), x)
    angles = torch.tensor([[torch.pi / 3], [-torch.pi / 3]])
    assert torch.allclose(turned, Affine("angle")(x, angles), atol=1e-12)


def test_composition_is_that_of_the_quarter_turns():
    group = Rotations(4)
    assert torch.equal(group.compose(torch.tensor([1, 3]), torch.tensor([2, 3])), torch.tensor([3, 2]))
    assert torch.equal(group.inverse(torch.tensor([0, 1, 2, 3])), torch.tensor([0, 3, 2, 1]))
    assert torch.equal(group.element_log(torch.tensor([2])), torch.tensor([[2.0]]))
    assert len(Dihedral(4)) == 8


def test_masks_and_bytes():
    bytes_ = torch.randint(256, (2, 3, 6, 6), dtype=torch.uint8)
    assert torch.equal(Rotations(4).act_mask(torch.tensor([1]), bytes_), torch.rot90(bytes_, 1, (-2, -1)))
    assert torch.equal(Rotations(4).act(torch.tensor([1]), bytes_), torch.rot90(bytes_, 1, (-2, -1)) / 255)


@pytest.mark.parametrize(
    "group", [Rotations(4, interpolation="nearest"), Rotations(6, interpolation="nearest")], ids=repr
)
def test_nearest_keeps_bytes_and_integers(group):
    for dtype in (torch.uint16, torch.uint8, torch.int64):
        x = torch.randint(9, (1, 1, 8, 8)).to(dtype)
        assert group.act(torch.tensor([1]), x).dtype == dtype
    assert Flips().act(torch.tensor([1]), x).dtype == torch.int64  # nothing is interpolated


def test_integer_coordinates_are_accepted():
    x = torch.rand(2, 3, 6, 6)
    assert torch.equal(Rotations(4)(x, torch.tensor([[1], [2]])), Rotations(4)(x, torch.tensor([[1.0], [2.0]])))


def test_gradients_reach_the_signal():
    x = torch.rand(2, 1, 4, 4, requires_grad=True)
    group = Dihedral(4)
    assert torch.autograd.gradcheck(lambda x: group.act(group.elements()[:, None], x), x)


@pytest.mark.parametrize("group", [Rotations(4), Rotations(8), Dihedral(4)], ids=repr)
def test_quarter_turns_need_square_images(group):
    with pytest.raises(ValueError, match=r"6 × 8.*square"):
        group.act(torch.tensor([0]), torch.rand(1, 3, 6, 8))


def test_bad_input():
    x = torch.rand(2, 3, 6, 10)
    with pytest.raises(ValueError, match=r"width of 10.*divisible by 4"):
        Shifts(4).act(torch.tensor([1]), x)
    with pytest.raises(ValueError, match=r"index.*the transform is on cpu|g: .*the transform is on cpu"):
        Flips().act(torch.tensor([1], device="meta"), x)
    for group in (Flips(), Shifts(2), Rotations(4)):
        with pytest.raises(ValueError, match="p: received"):
            group.act_points(torch.tensor([1]), None)
    for bad in (0, -1, 2.5, True, "4"):
        with pytest.raises(ValueError, match="n: received"):
            Rotations(bad)
    with pytest.raises(ValueError, match=r"v: received a float64 tensor .* other values .* whole numbers 0 to 1"):
        Flips()(x, torch.tensor([[0.5], [1.0]]))
    with pytest.raises(ValueError, match="whole numbers 0 to 1"):
        Flips()(x, torch.tensor([[2.0], [1.0]]))
    with pytest.raises(ValueError, match="whole numbers 0 to 1"):
        Flips().act(torch.tensor([-1]), x)
    with pytest.raises(ValueError, match="integer elements"):
        Flips().act(torch.tensor([1.0]), x)
    with pytest.raises(ValueError, match="accepted by Rotations are images"):
        Rotations(4).act(torch.tensor([1]), torch.rand(2, 3, 8))


@pytest.mark.parametrize("group", [Rotations(8), Dihedral(3)])
def test_turns_keep_their_digits_in_a_module_of_any_type(group):
    x, g = torch.rand(2, 1, 9, 9), torch.tensor([1, 2])
    expected = group.act(g, x)
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        assert torch.equal(group.to(dtype).act(g, x), expected)


def test_a_device_without_double_precision_is_asked_for_none():
    """As Apple's is; and nothing is lost where one refuses."""

    def moved(x):
        if x.dtype == torch.float64:
            raise TypeError("no float64")
        return x

    group = Rotations(8).float()
    group._apply(moved)
    assert group.matrices.dtype == torch.float64
    with pytest.raises(TypeError):
        group.to(torch.float64)._apply(moved)
    assert group.matrices.dtype == torch.float64
