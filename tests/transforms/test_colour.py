"""Hue, saturation and value against the standard library, pixel by pixel."""

import colorsys
import math

import pytest
import torch

from erlangen.transforms import HSV


def by_colorsys(x, hue, saturation, value):
    out = torch.empty_like(x)
    for b, i, j in torch.cartesian_prod(*(torch.arange(n) for n in (len(x), *x.shape[2:]))).tolist():
        h, s, v = colorsys.rgb_to_hsv(*x[b, :, i, j].tolist())
        s, v = min(1, s * math.exp(saturation)), min(1, v * math.exp(value))
        out[b, :, i, j] = torch.tensor(colorsys.hsv_to_rgb((h + hue) % 1, s, v))
    return out


@pytest.mark.parametrize("v", [(0.0, 0.0, 0.0), (0.3, 0, 0), (-0.45, 0.4, -0.3), (0.9, -1.0, 0.7), (2.1, 2.0, 2.0)])
def test_equals_the_standard_library(v):
    x = torch.rand(2, 3, 5, 6)
    x[0, :, 0] = x[0, :1, 0]  # grey
    x[0, :, 1] = 0
    x[0, :, 2] = 1
    x[1, :2, 0] = 1  # two largest channels alike
    x[1, 1:, 1] = 0.2
    assert torch.allclose(HSV()(x, torch.tensor([v]).double()), by_colorsys(x, *v), atol=1e-9)


def test_one_turn_of_hue_changes_nothing():
    x = torch.rand(2, 3, 5, 5)
    assert torch.allclose(HSV("hue")(x, torch.tensor([[1.0], [-2.0]])), x, atol=1e-12)
    assert HSV().periodic == (True, False, False)
    assert HSV(bounds={"hue": 0.2}).periodic == (False, False, False)


def test_no_gradient_is_nan_at_grey_black_and_white():
    x = torch.zeros(1, 3, 2, 2)
    x[0, :, 0, 1], x[0, :, 1, 0] = 1, 0.5
    x[0, 0, 1, 1] = 1
    x.requires_grad_()
    v = torch.tensor([[0.2, 0.3, 0.1]], requires_grad=True)
    HSV()(x, v).square().sum().backward()
    assert x.grad.isfinite().all()
    assert v.grad.isfinite().all()


def test_clips_pass_gradients_through():
    x = torch.tensor([0.9, 0.5, 0.2]).reshape(1, 3, 1, 1)
    v = torch.tensor([[0.0, 0.0, 1.0]], requires_grad=True)
    out = HSV()(x, v)
    assert out.max().item() == pytest.approx(1)
    out.sum().backward()
    assert v.grad[0, 2] > 0.5  # a clip that cut the gradient would leave 0


def test_huge_coordinates_saturate():
    x = torch.rand(1, 3, 4, 4)
    x[0, :, 0], x[0, :, 1] = 0.5, 0.0
    bright = HSV()(x, torch.tensor([[0.0, 0.0, 2000.0]]))
    assert torch.allclose(bright[:, :, 2:], x[:, :, 2:] / x[:, :, 2:].amax(1, keepdim=True), atol=1e-6)
    assert (bright[:, :, 0] == 1).all()
    assert (bright[:, :, 1] == 0).all()
    vivid = HSV()(x, torch.tensor([[0.3, 2000.0, 0.0]]))[:, :, 2:]
    assert torch.allclose(vivid.amax(1), x[:, :, 2:].amax(1))
    assert vivid.amin(1).abs().max() < 1e-6
    assert HSV()(x, torch.tensor([[0.3, -2000.0, -2000.0]])).abs().max() == 0


def test_the_last_bit_decides_nothing(monkeypatch):
    """A compiler may round the greatest channel otherwise than the channel that it is."""
    x = torch.rand(2, 3, 5, 5)
    x[0, :, 0], x[0, :, 1] = x[0, :1, 0], 0
    v = torch.tensor([[0.2, -0.3, -0.1]])
    expected, amax = HSV()(x, v), torch.Tensor.amax
    monkeypatch.setattr(torch.Tensor, "amax", lambda x, dim: torch.nextafter(amax(x, dim), torch.tensor(2.0)))
    assert torch.allclose(HSV()(x, v), expected, atol=1e-6)


def test_dark_and_faint_colours_keep_what_they_have():
    x = torch.tensor([0.5, 0.2, 0.1]).reshape(1, 3, 1, 1)
    dark = HSV()(x, torch.tensor([[0.0, 0.0, -20.0]]))
    assert torch.allclose(HSV()(dark, torch.tensor([[0.0, 0.0, 20.0]])), x, atol=1e-6)
    faint = torch.tensor([0.5, 0.5, 0.5 + 6e-8]).reshape(1, 3, 1, 1)  # grey to rounding, and no red when it is vivid
    assert torch.allclose(HSV()(faint, torch.tensor([[0.0, 20.0, 0.0]])), faint, atol=1e-6)


def test_any_number_of_turns():
    x = torch.rand(1, 3, 4, 4)
    assert torch.allclose(HSV()(x, torch.tensor([[100.3, 0, 0]])), HSV()(x, torch.tensor([[0.3, 0, 0]])), atol=1e-9)


def test_clips_have_forward_derivatives():
    x, v = torch.rand(1, 3, 2, 2), torch.tensor([[0.1, 0.2, 0.3]])
    forward, backward = (jac(lambda v: HSV()(x, v))(v) for jac in (torch.func.jacfwd, torch.func.jacrev))
    assert torch.allclose(forward, backward)


def test_rounding_beyond_one_is_accepted():
    assert HSV()(torch.full((1, 3, 2, 2), 1 + 1e-7), torch.zeros(1, 3)).max() == 1


def test_unclipped_actions_compose():
    x = 0.3 + 0.1 * torch.rand(2, 3, 4, 4)
    group = HSV()
    g, h = group.element(torch.tensor([[[0.3, 0.2, 0.3]], [[0.4, 0.3, -0.2]]]))
    assert torch.allclose(group.act(group.compose(g, h), x), group.act(g, group.act(h, x)), atol=1e-12)


def test_log_wraps_the_hue():
    group = HSV()
    assert torch.allclose(group.element_log(torch.tensor([[0.7, 0.1, 0.2]])), torch.tensor([[-0.3, 0.1, 0.2]]))
    with pytest.raises(ValueError, match="coordinates hue can express"):
        HSV("hue").element_log(torch.tensor([[0.7, 0.1, 0.2]]))


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.2, 0.9), (-0.9, -0.1)])
def test_log_of_the_hue_lies_within_its_bounds(bounds):
    group = HSV("value", "hue", bounds={"hue": bounds})
    low, high = group.bounds
    v = low + (high - low) * torch.rand(100, 2)
    for turns in (-1, 0, 2):
        whole = turns * torch.tensor([0.0, 1.0])
        assert torch.allclose(group.element_log(group.element(v + whole)), v)


@pytest.mark.parametrize(
    ("x", "match"),
    [
        (torch.rand(1, 1, 4, 4), "RGB images"),
        (torch.rand(1, 3, 4), "RGB images"),
        (torch.rand(1, 3, 4, 4) + 0.5, r"RGB in \[0, 1\]"),
        (-torch.rand(1, 3, 4, 4), r"RGB in \[0, 1\]"),
        (torch.full((1, 3, 4, 4), math.nan), r"RGB in \[0, 1\]"),
    ],
)
def test_bad_images(x, match):
    with pytest.raises(ValueError, match=match):
        HSV()(x.double(), torch.zeros(1, 3))


def test_bad_names():
    with pytest.raises(ValueError, match="hue, saturation, value"):
        HSV("colour")
