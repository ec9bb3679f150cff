"""Resampling: interpolation against other libraries, padding, types, samples that share an image."""

import kornia
import numpy as np
import pytest
import scipy.ndimage
import torch
import torch.nn.functional as F

from erlangen.transforms import Affine, TimeAffine, from_pixels, to_pixels, warp

INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "spline")
PADDINGS = ("zeros", "border", "reflection")


def pixel_grid(size, batch=1):
    y, x = torch.meshgrid(*(torch.arange(float(n)) for n in size), indexing="ij")
    return from_pixels(torch.stack((x, y), -1), size).expand(batch, *size, 2)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_identity_leaves_a_signal_unchanged(interpolation, padding):
    x = torch.rand(2, 3, 7, 11)
    assert torch.allclose(warp(x, pixel_grid((7, 11), 2), interpolation=interpolation, padding=padding), x, atol=1e-12)
    series = torch.rand(2, 3, 13)
    places = from_pixels(torch.arange(13.0)[:, None], (13,)).expand(2, 13, 1)
    assert torch.allclose(warp(series, places, interpolation=interpolation, padding=padding), series, atol=1e-12)


@pytest.mark.parametrize("size", [(12, 12), (9, 15), (16, 10)])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_affine_warps_equal_kornia(interpolation, size):
    """Kornia's matrix moves the content in pixels, ours in units of half the longer side about the centre."""
    x = torch.rand(4, 3, *size)
    transform = Affine(interpolation=interpolation)
    g = transform.element(0.4 * torch.randn(4, 6))
    unit, centre = max(size) / 2, torch.tensor([(size[1] - 1) / 2, (size[0] - 1) / 2])
    to = torch.diag(torch.tensor([unit, unit, 1.0]))
    to[:2, 2] = centre
    matrix = (to @ g @ torch.linalg.inv(to))[:, :2]
    theirs = kornia.geometry.warp_affine(x, matrix, size, mode=interpolation, align_corners=False)
    assert torch.allclose(transform.act(g, x), theirs, atol=1e-9)


@pytest.mark.parametrize(("padding", "mode"), [("reflection", "reflect"), ("zeros", None)])
def test_spline_equals_scipy(padding, mode):
    x = torch.rand(2, 10, 14)
    place = torch.rand(40, 2) * torch.tensor([14.0, 10.0]) + torch.tensor([-0.5, -0.5])
    place[:4] = torch.tensor([[-3.2, 4.0], [15.1, 12.3], [7.0, 3.0], [40.0, -20.0]])
    ours = warp(x[None], from_pixels(place, (10, 14)).reshape(1, 1, 40, 2), interpolation="spline", padding=padding)
    for channel, image in zip(ours[0, :, 0], x, strict=True):
        if mode is None:  # a signal that is zero outside, as far as a spline feels
            image = F.pad(image, (40, 40, 40, 40))
        shift = 40 if mode is None else 0
        places = (place.flip(-1).T + shift).numpy()
        theirs = scipy.ndimage.map_coordinates(image.numpy(), places, order=3, mode=mode or "grid-constant")
        assert np.abs(channel.numpy() - theirs).max() < 1e-10


@pytest.mark.parametrize(("padding", "mode"), [("reflection", "reflect"), ("zeros", "grid-constant")])
def test_splines_of_long_series_equal_scipy_and_take_memory_as_the_series_do(largest, padding, mode):
    x = torch.rand(1, 1, 3000)
    place = torch.rand(5000, 1) * 2900 + 50
    with largest:
        ours = warp(x, from_pixels(place, (3000,))[None], interpolation="spline", padding=padding)
    theirs = scipy.ndimage.map_coordinates(x[0, 0].numpy(), place.T.numpy(), order=3, mode=mode)
    assert np.abs(ours[0, 0].numpy() - theirs).max() < 1e-10
    assert largest.most <= 1e6


def test_border_repeats_the_edge():
    x = torch.rand(1, 1, 4, 5)
    far = from_pixels(torch.tensor([[-9.0, 1.0], [20.0, 2.0], [3.0, -7.0], [1.0, 30.0]]), (4, 5)).reshape(1, 1, 4, 2)
    expected = torch.stack((x[0, 0, 1, 0], x[0, 0, 2, 4], x[0, 0, 0, 3], x[0, 0, 3, 1]))
    for interpolation in INTERPOLATIONS:
        got = warp(x, far, interpolation=interpolation, padding="border")[0, 0, 0]
        assert torch.allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_fill_is_the_colour_outside(interpolation):
    x = torch.rand(2, 3, 6, 6)
    grid = pixel_grid((6, 6), 2) + 5
    filled = warp(x, grid, interpolation=interpolation, fill=(0.1, 0.2, 0.3))
    assert torch.allclose(filled, torch.tensor([0.1, 0.2, 0.3])[:, None, None].expand_as(filled))
    grid = 1.4 * pixel_grid((6, 6), 2)
    constant = torch.full_like(x, 0.7)
    assert torch.allclose(warp(constant, grid, interpolation=interpolation, fill=0.7), constant)


def test_fill_needs_one_value_per_channel():
    with pytest.raises(ValueError, match="2 values"):
        warp(torch.rand(1, 3, 4, 4), pixel_grid((4, 4)), fill=(0.1, 0.2))
    with pytest.raises(ValueError, match="padding 'border'"):
        warp(torch.rand(1, 3, 4, 4), pixel_grid((4, 4)), fill=0.5, padding="border")


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_samples_share_one_image(interpolation):
    x = torch.rand(3, 2, 6, 9)
    grid = 0.6 * torch.randn(4, 2, 3, 5, 7, 2)
    together = warp(x, grid, interpolation=interpolation)
    assert together.shape == (4, 2, 3, 2, 5, 7)
    for s in range(4):
        for t in range(2):
            assert torch.allclose(together[s, t], warp(x, grid[s, t], interpolation=interpolation), atol=1e-13)
    shared = warp(x, grid[:, :, :1], interpolation=interpolation)
    assert torch.allclose(shared, warp(x, grid[:, :, :1].expand_as(grid), interpolation=interpolation), atol=1e-13)


def test_gradients_do_not_depend_on_sharing():
    grid = torch.randn(4, 3, 5, 7, 2) * 0.5
    a = torch.rand(3, 2, 6, 9).requires_grad_()
    b = a.detach().clone().requires_grad_()
    weight = torch.rand(4, 3, 2, 5, 7)
    (warp(a, grid) * weight).sum().backward()
    (torch.stack([warp(b, g) for g in grid]) * weight).sum().backward()
    assert torch.allclose(a.grad, b.grad, atol=1e-12)


def test_series_is_an_image_one_pixel_high():
    x, v = torch.rand(2, 3, 20), torch.tensor([[0.1, 0.3], [-0.2, -0.1]])
    stretched = TimeAffine()(x, v)
    places = TimeAffine().inverse(TimeAffine().element(v))
    t = from_pixels(torch.arange(20.0), (20,))
    source = places[:, :1, 0] * t + places[:, :1, 1]
    theirs = np.stack(
        [
            [np.interp(s, t.numpy(), c.numpy(), left=np.nan, right=np.nan) for c in row]
            for s, row in zip(source.numpy(), x, strict=True)
        ]
    )
    inside = ~np.isnan(theirs)
    assert inside.mean() > 0.7
    assert np.abs(stretched.numpy() - theirs)[inside].max() < 1e-12


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.bool])
def test_nearest_keeps_integers(dtype):
    x = torch.tensor([0, 1]).repeat(50).reshape(1, 1, 10, 10).to(dtype)
    if dtype == torch.int64:
        x = x * (2**62 + 1)  # float64 could not hold it
    moved = warp(x, pixel_grid((10, 10)) - 2 / 10 * torch.tensor([1.0, 0.0]), interpolation="nearest")
    assert moved.dtype == dtype
    assert torch.equal(moved[..., 1:], x[..., :-1])
    assert not moved[..., 0].any()


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64])
def test_nearest_keeps_wide_unsigned_integers(dtype):
    x = torch.arange(65500, 65536).reshape(1, 1, 6, 6)  # beyond int16
    to_the_right = pixel_grid((6, 6)) - 2 / 6 * torch.tensor([1.0, 0.0])
    moved = warp(x.to(dtype), to_the_right, interpolation="nearest", fill=65535)
    assert moved.dtype == dtype
    assert torch.equal(moved.long()[..., 1:], x[..., :-1])
    assert (moved.long()[..., 0] == 65535).all()


def test_integer_masks_take_a_fill_and_paddings():
    x = torch.randint(9, (2, 1, 5, 5))
    grid = pixel_grid((5, 5), 2) + 4
    assert (warp(x, grid, interpolation="nearest", fill=255) == 255).all()
    assert torch.equal(warp(x, grid, interpolation="nearest", padding="border"), x[:, :, -1:, -1:].expand(2, 1, 5, 5))


def test_uint8_becomes_levels_and_other_integers_are_refused():
    x = torch.randint(256, (1, 3, 5, 5), dtype=torch.uint8)
    assert torch.allclose(warp(x, pixel_grid((5, 5))), x / 255)
    with pytest.raises(ValueError, match=r"int64.*uint8"):
        warp(x.long(), pixel_grid((5, 5)))


def test_half_precision_and_autocast_compute_in_float32():
    x, v = torch.rand(2, 3, 16, 16).float(), torch.randn(2, 6).float() * 0.2
    exact = Affine().float()(x, v)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = Affine().float()(x, v)
        from_net = Affine().float()(x, v.bfloat16())
    assert cast.dtype == torch.float32
    assert torch.equal(cast, exact)
    spline = Affine(interpolation="spline").float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = spline(x, v)
    assert torch.equal(cast, spline(x, v))
    assert torch.equal(from_net, Affine().float()(x, v.bfloat16().float()))
    halved = Affine().half()(x.half(), v.half())
    assert halved.dtype == torch.float16
    assert (halved.float() - Affine().float()(x.half().float(), v.half().float())).abs().max() < 1e-3


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (6, 1), (2, 3)])
@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("padding", PADDINGS)
def test_tiny_images(size, interpolation, padding):
    x = torch.rand(2, 3, *size)
    transform = Affine("angle", "scale", interpolation=interpolation, padding=padding)
    assert torch.allclose(transform(x, torch.zeros(2, 2)), x, atol=1e-12)
    assert transform(x, torch.randn(5, 2, 2)).isfinite().all()


def test_pixels_there_and_back():
    p = torch.randn(4, 5, 2)
    assert torch.allclose(from_pixels(to_pixels(p, (7, 12)), (7, 12)), p)
    corners = to_pixels(torch.tensor([[-1.0, -0.5], [1.0, 0.5]]), (6, 12))
    assert torch.equal(corners, torch.tensor([[-0.5, -0.5], [11.5, 5.5]]))


@pytest.mark.parametrize("size", [8, (8,), (0, 8), (1, 2, 3), None, "88"])
def test_bad_sizes(size):
    for call in (to_pixels, from_pixels):
        with pytest.raises(ValueError, match="size: received"):
            call(torch.zeros(1, 2), size)
        with pytest.raises(ValueError, match="p: received list"):
            call([0.0, 0.0], (8, 8))


def test_empty_results():
    assert warp(torch.rand(0, 3, 4, 4), torch.zeros(5, 0, 4, 4, 2)).shape == (5, 0, 3, 4, 4)
    assert warp(torch.rand(2, 3, 4, 4), torch.zeros(0, 2, 4, 4, 2)).shape == (0, 2, 3, 4, 4)


@pytest.mark.parametrize(
    ("x", "grid", "match"),
    [
        (torch.rand(3, 4), torch.zeros(3, 4, 4, 2), r"x: received a float32 tensor of shape \(3, 4\)"),
        (torch.rand(1, 3, 0, 4), torch.zeros(1, 4, 4, 2), "no empty side"),
        (torch.rand(2, 3, 4, 4), torch.zeros(3, 4, 4, 2), "B = 2 or 1"),
        (torch.rand(2, 3, 4, 4), torch.zeros(2, 4, 4, 3), "grid: received"),
        (torch.rand(2, 3, 4, 4, dtype=torch.float32), torch.zeros(2, 4, 4, 2, dtype=torch.float64), "the same type"),
        ([[1.0]], torch.zeros(2, 4, 4, 2), "x: received list"),
    ],
)
def test_bad_input(x, grid, match):
    with pytest.raises(ValueError, match=match):
        warp(x, grid)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_positions_that_are_not_finite_are_refused(bad):
    """Torch's own grid_sample dies of them in the backward pass."""
    with pytest.raises(ValueError, match=r"grid: .*NaN or infinite"):
        warp(torch.rand(1, 1, 4, 4), torch.full((1, 4, 4, 2), bad), padding="border")
    with pytest.raises(ValueError, match="NaN or infinite"):
        Affine("scale").float()(torch.rand(1, 1, 4, 4).float(), torch.tensor([[200.0]]).float())


def test_unknown_options():
    with pytest.raises(ValueError, match=r"interpolation: received 'linear'.*'bilinear'"):
        Affine(interpolation="linear")
    with pytest.raises(ValueError, match=r"padding: received 'wrap'.*'reflection'"):
        Affine(padding="wrap")
    with pytest.raises(ValueError, match="fill: received"):
        Affine(fill=float("nan"))


def test_positions_that_are_not_finite_are_outside_where_they_cannot_be_looked_at():
    x = torch.ones(2, 1, 4, 4)
    grid = torch.zeros(2, 4, 4, 2)
    grid[:, 0, 0], grid[:, 0, 1] = torch.nan, torch.inf

    def total(x, grid):
        return warp(x[None], grid[None]).sum()

    assert torch.func.vmap(total)(x, grid).tolist() == [14.0, 14.0]
    slope = torch.func.vmap(torch.func.grad(total))(x, grid)
    assert slope.isfinite().all()
    with pytest.raises(ValueError, match=r"^grid"):
        warp(x, grid)


@pytest.mark.parametrize("size", [(32, 64), (8, 8), (7, 9)])
def test_whole_numbers_are_points_as_others_are(size):
    p = torch.tensor([[0, 0], [5, 3]])
    torch.testing.assert_close(from_pixels(p, size), from_pixels(p.double(), size))
    torch.testing.assert_close(to_pixels(p, size), to_pixels(p.double(), size))
    with pytest.raises(ValueError, match=r"^p: received .*; accepted is points \(\.\.\., 2\)"):
        from_pixels(torch.tensor([3.0, 4.0, 5.0]), size)


@pytest.mark.parametrize("fill", [0.5, 300, -1])
def test_a_fill_that_bytes_cannot_hold_is_refused(fill):
    x = torch.randint(256, (1, 1, 4, 4), dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"^fill: received .* nearest neighbours keep; accepted are whole numbers"):
        Affine("tx", interpolation="nearest", fill=fill)(x, torch.ones(1, 1))
    assert Affine("tx", interpolation="nearest", fill=200)(x, torch.ones(1, 1)).max() == max(200, int(x[..., :2].max()))
