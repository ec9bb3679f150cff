"""CPAB as a transform; its flows are tested in test_velocity."""

import pytest
import torch

from erlangen.transforms import CPAB, from_pixels


def test_dimensions_as_published():
    assert CPAB((10,)).features == 9
    assert CPAB((10,), zero_boundary=False).features == 11
    assert CPAB((3, 3)).features == 34
    assert CPAB((3, 3), volume_preserving=True).features == 8
    assert CPAB((8, 8)).names[-1] == "theta253"


def test_content_moves_with_the_flow():
    transform = CPAB((4,))
    v = torch.tensor([[0.3, 0.6, 0.2]])
    peak = torch.exp(-((from_pixels(torch.arange(200.0), (200,)) + 0.2) ** 2) / 0.005)[None, None]
    moved = transform(peak, v)
    there = transform.act_points(v, torch.tensor([[[-0.2]]]))[0, 0, 0]
    assert there > 0.1
    assert from_pixels(moved.argmax().double(), (200,))[0] == pytest.approx(there.item(), abs=0.01)


def test_the_inverse_is_minus_theta():
    transform, v = CPAB((3, 3)), 0.3 * torch.randn(2, 34)
    p = torch.rand(2, 7, 2) - 0.5
    assert torch.equal(transform.inverse(v), -v)
    back = transform.act_points(transform.inverse(v), transform.act_points(v, p))
    assert (back - p).abs().max() < 2e-4


def test_the_frame_of_a_wide_image_is_kept():
    transform, v = CPAB((3, 3)), 0.4 * torch.randn(1, 34)
    edge = torch.tensor([[[1.0, 0.1], [-1.0, -0.2], [0.3, 0.5], [-0.4, -0.5]]])  # the border of an image twice as wide
    moved = transform.act_points(v, edge, (10, 20))
    assert torch.allclose(moved[0, :2, 0].abs(), torch.ones(2), atol=1e-9)
    assert torch.allclose(moved[0, 2:, 1].abs(), torch.full((2,), 0.5), atol=1e-9)
    white = transform(torch.ones(1, 1, 10, 20), v)
    assert torch.allclose(white, torch.ones_like(white), atol=1e-9)


@pytest.mark.parametrize(("cells", "keep"), [((8, 8), False), ((8, 8), True), ((4, 4), True)])
def test_draws_from_the_bounds_come_back(cells, keep):
    transform = CPAB(cells, volume_preserving=keep)
    low, high = transform.bounds
    v = low + (high - low) * torch.rand(3, transform.features)
    p = 2 * torch.rand(3, 40, 2) - 1
    back = transform.act_points(transform.inverse(v), transform.act_points(v, p))
    assert (back - p).abs().max() < 2e-4


@pytest.mark.parametrize("cells", [(6,), (2, 2)])
def test_gradients_reach_theta_through_the_image(cells):
    transform = CPAB(cells)
    x = torch.rand(2, 1, *[8] * len(cells))
    v = torch.zeros(2, transform.features, requires_grad=True)
    transform(x, v).square().sum().backward()
    assert v.grad.isfinite().all()
    assert (v.grad.abs() > 0).float().mean() > 0.8


@pytest.mark.parametrize("cells", [3, (3, 3, 3), (0,), (2, -1), (1,), (2.5, 2), "33"])
def test_bad_cells(cells):
    with pytest.raises(ValueError, match="cells"):
        CPAB(cells)


def test_volume_is_for_images():
    with pytest.raises(ValueError, match="for images only"):
        CPAB((5,), volume_preserving=True)


@pytest.mark.parametrize("zero_boundary", [True, False])
def test_orthonormal_coordinates_are_those_of_the_affine_parameters(zero_boundary):
    """Slopes and offsets of all cells, of time from 0 to 1, have the length of the coordinates."""
    cells = 10
    transform = CPAB((cells,), orthonormal=True, zero_boundary=zero_boundary)
    v = torch.randn(6, transform.features)
    nodes = transform.element(v) / 2  # time from -1 to 1 has twice the length
    ends = torch.nn.functional.pad(nodes, (1, 1)) if zero_boundary else nodes
    slope = ends.diff(dim=-1) * cells
    offset = ends[:, :-1] - slope * torch.arange(cells) / cells
    torch.testing.assert_close(torch.cat((slope, offset), -1).norm(dim=-1), v.norm(dim=-1))
    torch.testing.assert_close(transform.basis, transform.basis.T)
    p = torch.linspace(-0.9, 0.9, 7).reshape(1, 7, 1).expand(6, -1, -1)
    back = transform.act_points(transform.inverse(transform.element(v)), transform.act_points(transform.element(v), p))
    torch.testing.assert_close(back, p)


def test_independent_orthonormal_coordinates_are_smooth():
    """Neighbouring velocities go together; twin: those that are the coordinates themselves do not."""
    v = torch.randn(4000, 9)
    for orthonormal, together in ((True, True), (False, False)):
        nodes = CPAB((10,), orthonormal=orthonormal).element(v)
        assert (torch.corrcoef(nodes.T).diagonal(1).min() > 0.5) == together


def test_orthonormal_is_for_series():
    with pytest.raises(ValueError, match="orthonormal: received True for images"):
        CPAB((3, 3), orthonormal=True)


def test_orthonormal_coordinates_are_not_rounded_under_autocast():
    transform = CPAB((10,), orthonormal=True).float()
    v = torch.randn(3, transform.features, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = transform.element(v)
    assert torch.equal(found, transform.element(v))


def test_orthonormal_coordinates_keep_their_digits_in_a_module_of_any_type():
    v = torch.randn(2, 9)
    expected = CPAB((10,), orthonormal=True).element(v)
    torch.set_default_dtype(torch.float32)
    transform = CPAB((10,), orthonormal=True)
    torch.set_default_dtype(torch.float64)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        assert torch.equal(transform.to(dtype).element(v), expected)
