"""The objective that aligns series: what it measures, what it does not reward, where its gradient goes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from erlangen.data import warped_bumps
from erlangen.distributions import Dirac
from erlangen.nets import SeriesLocaliser
from erlangen.objectives import SeriesAlignment, variance_about_mean
from erlangen.objectives.series_alignment import _means
from erlangen.transforms import CPAB, TimeAffine


class Fixed(torch.nn.Module):
    """The same warp for every series."""

    def __init__(self, theta):
        super().__init__()
        self.theta, self.features = theta, theta.shape[-1]

    def forward(self, x):
        return SimpleNamespace(mode=self.theta.expand(len(x), -1))


def test_variance_about_mean_of_classes():
    x = torch.randn(7, 2, 5, dtype=torch.float64)
    assert variance_about_mean(x).item() == pytest.approx(x.var(0).mean().item())
    y = torch.tensor([4, 1, 4, 1, 4, 9, 9])
    groups = [x[y == c] for c in (1, 4, 9)]
    expected = sum(((g - g.mean(0)) ** 2).sum() for g in groups) / (7 - 3) / 10
    assert variance_about_mean(x, y).item() == pytest.approx(expected.item())
    assert variance_about_mean(x[:1]).item() == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_variance_in_half_precision_is_computed_in_single(dtype):
    x = (300 * torch.randn(50, 2, 9)).to(dtype)  # squares of which are beyond what float16 holds
    torch.testing.assert_close(variance_about_mean(x), variance_about_mean(x.float()), rtol=0, atol=0)


def test_the_variance_of_many_series_takes_little_memory():
    x, y = torch.randn(3000, 1, 2, dtype=torch.float64), torch.arange(3000) % 7
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as seen:
        variance_about_mean(x, y)
    assert max(event.self_cpu_memory_usage for event in seen.events()) < 3000**2  # not a byte for each pair of series


def test_the_loss_does_not_reward_squeezing():
    """Squeezing all bumps against an end lowers their variance, but the mean no longer explains them."""

    x = warped_bumps(300).x.double()
    transform = CPAB((10,))
    still, squeezed = torch.zeros(1, 9), torch.linspace(0.5, 6, 9)[None]
    objectives = [SeriesAlignment(transform, Fixed(theta), smoothness=0, centring=0) for theta in (still, squeezed)]
    before, after = (objective((x,))["error"] for objective in objectives)
    assert variance_about_mean(transform(x, squeezed.expand(300, -1))) < 0.6 * variance_about_mean(x)
    assert after >= before


def build(**options):
    encoder = SeriesLocaliser(1, widths=(4, 4), kernels=(4, 3), bins=4, dropout=0.0)
    return SeriesAlignment(CPAB((6,)), Dirac(5, encoder.features, encoder=encoder), **options)


def test_series_that_are_alike_cost_nothing():
    objective = build()
    x = warped_bumps(5, 40, noise=0, warp=0).x.double()
    assert objective((x,))["loss"].item() == pytest.approx(0, abs=1e-12)
    assert objective((warped_bumps(5, 40, noise=0).x.double(),))["loss"] > 1e-3


def test_classes_have_means_of_their_own():
    x = warped_bumps(6, 40, noise=0, warp=0).x.double()
    x[3:] *= -1
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    assert build()((x, y))["loss"].item() == pytest.approx(0, abs=1e-12)
    assert build()((x,))["loss"] > 0.05


def test_the_gradient_reaches_every_parameter_and_lowers_the_loss():
    objective, x = build(), warped_bumps(32, 40).x.double()
    optimiser = torch.optim.Adam(objective.parameter_groups()["conditional"], lr=0.01)
    first = objective((x,))["loss"].item()
    for _ in range(10):
        optimiser.zero_grad()
        objective((x,))["loss"].backward()
        optimiser.step()
    assert objective((x,))["loss"].item() < 0.9 * first
    assert [name for name, p in objective.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_all_warps_together_have_a_price():
    x, moved = warped_bumps(4, 40).x.double(), torch.full((1, 5), 0.2, dtype=torch.float64)
    free, priced = (SeriesAlignment(CPAB((6,)), Fixed(moved), smoothness=0, centring=c)((x,)) for c in (0.0, 1.0))
    assert (priced["loss"] - free["loss"]).item() == pytest.approx(5 * 0.04)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SeriesAlignment(CPAB((3, 3)), Fixed(torch.zeros(1, 34))), "transform: received CPAB"),
        (lambda: SeriesAlignment(TimeAffine(), Fixed(torch.zeros(1, 2))), "accepted is a CPAB of series"),
        (lambda: SeriesAlignment(CPAB((6,)), Fixed(torch.zeros(1, 4))), "conditional: received .* over 4 coordinates"),
        (lambda: build(smoothness=-1), "smoothness: received int -1"),
        (lambda: build(centring=float("nan")), "centring: received float nan"),
        (lambda: build()((torch.zeros(3, 5),)), "batch: received a float64 tensor"),
        (
            lambda: build()((torch.zeros(3, 1, 5), torch.eye(3))),
            r"shape \(3, 3\).*accepted is a class for each, \(3,\)",
        ),
        (lambda: build()((torch.zeros(3, 1, 5), torch.zeros(1))), r"accepted is a class for each, \(3,\)"),
        (lambda: build()((np.zeros((3, 1, 5)),)), "batch: received ndarray"),
        (
            lambda: build().float()((torch.zeros(3, 1, 5),)),
            "x: received a float64 tensor .* the model is torch.float32",
        ),
        (lambda: variance_about_mean(torch.zeros(3, 1, 5), torch.zeros(2)), r"y: .*a class for each, \(3,\)"),
        (lambda: variance_about_mean(torch.zeros(3, 1, 5), [0, 0, 1]), "y: received list"),
        (lambda: variance_about_mean(torch.zeros(3, 5)), r"x: received .*series \(N, C, L\)"),
        (lambda: variance_about_mean(torch.zeros(3, 1, 5).long()), "x: received a int64 tensor"),
        (lambda: variance_about_mean(np.zeros((3, 1, 5))), "x: received ndarray"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_smoothness_is_that_of_velocities_in_any_coordinates():
    plain, normal = CPAB((6,)), CPAB((6,), orthonormal=True)
    v = 0.1 * torch.randn(1, normal.features)
    x = torch.randn(4, 1, 40)
    parts = [
        SeriesAlignment(transform, Fixed(theta), smoothness=0.3, centring=0.7)((x,))
        for transform, theta in ((plain, normal.element(v)), (normal, v))
    ]
    for name, value in parts[0].items():
        torch.testing.assert_close(parts[1][name], value)


def test_means_are_not_rounded_under_autocast():
    x = torch.randn(5, 2, 30, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = _means(x, torch.tensor([0, 1, 0, 1, 1]))
    torch.testing.assert_close(found, _means(x, torch.tensor([0, 1, 0, 1, 1])))
