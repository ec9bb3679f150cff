"""Detail of averages, against closed forms."""

import pytest
import torch

from erlangen.metrics import detail, sharpness


def test_detail_of_a_step_and_of_a_ramp():
    step = torch.zeros(1, 4, 6)
    step[:, :, 3:] = 2
    torch.testing.assert_close(detail(step), torch.tensor(4 * 2.0**2))
    torch.testing.assert_close(detail(step.mT), torch.tensor(4 * 2.0**2))
    ramp = torch.arange(5.0)[None]
    torch.testing.assert_close(detail(torch.cat((ramp, 3 * ramp))[None], 1), torch.tensor([4 * (1.0 + 9)]))


@pytest.mark.parametrize("shape", [(2, 6, 5), (3, 20)])
def test_an_average_of_copies_keeps_all_of_noise_a_share(shape):
    x = torch.randn(shape)
    copies = torch.stack([x, x + 1, x - 3])
    torch.testing.assert_close(sharpness(copies.mean(0), copies), torch.tensor(1.0))
    # Signals that differ in sign cancel: of n that are orthogonal, one n-th is left.
    opposite = torch.stack([x, -x])
    torch.testing.assert_close(sharpness(opposite.mean(0), opposite), torch.tensor(0.0))
    apart = torch.zeros(4, 1, 40)
    for i in range(4):
        apart[i, 0, 10 * i + 5] = 1
    torch.testing.assert_close(sharpness(apart.mean(0), apart), torch.tensor(0.25))


def test_never_above_one_and_several_averages_at_once():
    x = torch.randn(7, 2, 8, 8)
    both = sharpness(torch.stack((x.mean(0), x[:3].mean(0))), x)
    assert both.shape == (2,)
    assert 0 < both[0] < 1


def test_a_blur_counts_against_the_average():
    x = torch.randn(1, 1, 16, 16).expand(5, -1, -1, -1)
    blurred = (x + x.roll(1, -1)) / 2
    assert sharpness(blurred.mean(0), x) < 0.8


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
def test_any_unit(unit):
    x = torch.randn(4, 2, 30)
    torch.testing.assert_close(sharpness(unit * x.mean(0), unit * x), sharpness(x.mean(0), x))


def test_flat_signals_have_none():
    assert sharpness(torch.ones(1, 4, 4), torch.ones(3, 1, 4, 4)) == 0


def test_bad_input():
    x = torch.rand(3, 1, 4, 4)
    with pytest.raises(ValueError, match="average"):
        sharpness(torch.rand(1, 4, 5), x)
    with pytest.raises(ValueError, match="x: received"):
        sharpness(x[0], x[:0])
    with pytest.raises(ValueError, match="floating-point"):
        sharpness(x[0], (255 * x).byte())
