"""Crops stay inside the frame, whatever the coordinates."""

import pytest
import torch

from erlangen.transforms import Crop, to_pixels


@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("size", [(16, 16), (10, 24)])
def test_crops_stay_inside_the_frame(square, size):
    crop = Crop(square=square)
    v = 3 * torch.randn(500, crop.features)
    corners = torch.tensor([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    extent = torch.tensor([size[1], size[0]]) / max(size)
    inside = crop.source(crop.element(v), corners * extent, size).abs() / extent
    assert (inside <= 1 + 1e-12).all()
    assert (inside.amax(-2) > 0.24).all()
    white = crop(torch.ones(500, 1, *size), v)
    assert torch.allclose(white, torch.ones_like(white))


def test_a_quarter_of_the_frame():
    x = torch.rand(1, 2, 8, 8)
    corner = Crop(interpolation="nearest")(x, torch.tensor([[-1.0, 1.0, 0.5, 0.5]]))
    assert torch.equal(corner, x[..., 4:, :4].repeat_interleave(2, -1).repeat_interleave(2, -2))
    wide = Crop(interpolation="nearest")(torch.rand(1, 1, 4, 8), torch.tensor([[0.0, 0.0, 1.0, 1.0]]))
    assert wide.shape == (1, 1, 4, 8)


def test_points_of_a_crop_on_a_wide_image():
    crop, size = Crop(), (8, 16)
    g = crop.element(torch.tensor([[1.0, -1.0, 0.5, 0.5]]))  # the right half of the upper half
    corners = torch.tensor([[[0.0, -0.5], [1.0, 0.0]]])
    moved = crop.act_points(g, corners, size)
    assert torch.allclose(to_pixels(moved, size), torch.tensor([[[-0.5, -0.5], [15.5, 7.5]]]))


def test_support_and_origin():
    crop = Crop(smallest=0.3)
    assert crop.names == ("cx", "cy", "width", "height")
    assert crop.support.check(crop.origin)
    assert not crop.support.check(torch.tensor([0.0, 0.0, 0.2, 1.0]))
    assert torch.allclose(crop.bounds[0], torch.tensor([-1, -1, 0.3, 0.3], dtype=crop.bounds.dtype))
    assert Crop(square=True).names == ("cx", "cy", "size")


def test_a_crop_has_no_inverse():
    with pytest.raises(ValueError, match="Crop is not invertible"):
        Crop().inverse(Crop().element(torch.zeros(1, 4)))
    with pytest.raises(ValueError, match=r"bounds\['width'\].*0.1.*Interval"):
        Crop(bounds={"width": (0.1, 1.0)})
    for bad in (0.0, 1.0, -1.0, 2.0, "half", None):
        with pytest.raises(ValueError, match="smallest: received"):
            Crop(smallest=bad)


def test_a_fill_of_zeros_for_each_channel_is_one_of_zero():
    """Nothing comes from outside a crop, so that its border is repeated."""
    assert Crop(fill=(0.0, 0.0, 0.0)).padding == Crop(fill=0.0).padding == "border"
    assert Crop(fill=(0.0, 0.5, 0.0)).padding == "zeros"


@pytest.mark.parametrize("fill", [torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.2]).numpy(), None])
def test_a_fill_that_is_none_is_refused_by_name(fill):
    with pytest.raises(ValueError, match=r"fill: received .* accepted is a finite number, or one per channel"):
        Crop(fill=fill)
