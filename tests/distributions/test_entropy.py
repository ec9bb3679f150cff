"""Entropy control: reaches its target, stays within its limits and leaves them at once, and is in the checkpoint."""

import math

import pytest
import torch

from erlangen.distributions import EntropyController, FixedEntropyWeight


def entropies(controller, steps, start=0.0, lag=0.02):
    """A plant: the entropy follows 3 + log α, slowly, as that of a network in training does."""
    h, history = torch.tensor(start), []
    for _ in range(steps):
        alpha = controller(h)
        h = h + lag * (3 + alpha.log() - h)
        history.append(h.item())
    return torch.tensor(history)


@pytest.mark.parametrize("start", [-4.0, 0.0, 4.0])
@pytest.mark.parametrize("target", [-3.0, 0.0, 2.5])
def test_it_reaches_the_target(target, start):
    history = entropies(EntropyController(target), 4000, start)
    assert (history[800:] - target).abs().max() < 0.1
    assert (history[-100:] - target).abs().max() < 1e-6


def test_it_reaches_the_target_through_noise():
    controller, h, history = EntropyController(1.0), torch.tensor(-2.0), []
    for _ in range(4000):
        alpha = controller(h + torch.randn(64))
        h = h + 0.02 * (3 + alpha.log() - h)
        history.append(h.item())
    assert abs(sum(history[-1000:]) / 1000 - 1.0) < 0.05


def test_the_step_is_the_equation():
    controller = EntropyController(2.0, alpha=0.1, proportional=0.3, integral=0.05, smoothing=0.5)
    u, average, error = math.log(0.1), 1.0, None
    for entropy in (1.0, 1.5, 0.0, 4.0):
        average = 0.5 * average + 0.5 * entropy
        change = 0.0 if error is None else 0.3 * ((2.0 - average) - error)
        error = 2.0 - average
        u += change + 0.05 * error
        assert controller(torch.tensor(entropy)).item() == pytest.approx(math.exp(u))


@pytest.mark.parametrize(("entropy", "limit"), [(-50.0, 0.5), (50.0, 0.01)])
def test_it_stays_within_its_limits(entropy, limit):
    controller = EntropyController(0.0, low=0.01, high=0.5)
    weights = torch.stack([controller(torch.tensor(entropy)) for _ in range(500)])
    assert weights[-1].item() == pytest.approx(limit)
    assert ((weights > 0.01 * (1 - 1e-9)) & (weights < 0.5 * (1 + 1e-9))).all()


class Positional:
    """The twin: an integral of its own, whose output is clipped. While clipped, the integral winds up."""

    def __init__(self, target, high):
        self.target, self.high = target, high
        self.total = 0.0

    def __call__(self, entropy):
        error = self.target - entropy.item()
        self.total += error
        return torch.tensor(min(0.1 * error + 0.01 * self.total, math.log(self.high))).exp()


@pytest.mark.parametrize(("build", "recovers"), [(EntropyController, True), (Positional, False)])
def test_it_leaves_a_limit_at_once(build, recovers):
    controller = build(2.0, high=0.5)
    for _ in range(2000):
        stuck = controller(torch.tensor(0.0))
    assert stuck.item() == pytest.approx(0.5)
    # Now the entropy is far above the target.
    after = [controller(torch.tensor(6.0)).item() for _ in range(20)]
    assert (after[-1] < 0.4) is recovers
    assert (after[-1] == pytest.approx(0.5)) is not recovers


def test_without_smoothing_the_very_next_step_leaves_the_limit():
    controller = EntropyController(2.0, high=0.5, smoothing=0.0)
    for _ in range(2000):
        controller(torch.tensor(1.9))
    assert controller(torch.tensor(2.01)).item() < 0.5 * (1 - 1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_changes_nothing(bad):
    controller = EntropyController(2.0)
    weight = controller(torch.tensor(1.0))
    before = {name: value.clone() for name, value in controller.state_dict().items()}
    assert controller(torch.tensor([1.0, bad])) == weight
    assert controller(torch.zeros(0)) == weight
    assert all(torch.equal(before[name], value) for name, value in controller.state_dict().items())
    assert controller(torch.tensor(1.0)) != weight


def test_it_stands_still_in_evaluation():
    controller = EntropyController(2.0).eval()
    assert controller(torch.tensor(-5.0)).item() == pytest.approx(0.1)
    assert controller(torch.tensor(5.0)).item() == pytest.approx(0.1)
    assert controller.steps == 0


def test_a_checkpoint_continues():
    first, second = EntropyController(2.0), EntropyController(2.0)
    entropies(first, 50)
    second.load_state_dict(first.state_dict())
    assert torch.equal(entropies(first, 50, start=0.7), entropies(second, 50, start=0.7))
    assert not torch.equal(entropies(EntropyController(2.0), 50, start=0.7), entropies(second, 50, start=0.7))


def test_it_compiles_without_a_break():
    plain, same = EntropyController(2.0), EntropyController(2.0)
    compiled = torch.compile(same, fullgraph=True, backend="aot_eager")
    for entropy in torch.tensor([[0.5, 1.0], [math.nan, 1.0], [7.0, 2.0]]):
        assert torch.allclose(plain(entropy), compiled(entropy), rtol=1e-14)
    assert all(torch.allclose(a, b) for a, b in zip(plain.buffers(), same.buffers(), strict=True))


def test_the_weight_has_no_gradient_and_the_entropy_keeps_its_own():
    controller, h = EntropyController(2.0), torch.tensor([1.0, 2.0], requires_grad=True)
    alpha = controller(h)
    assert not alpha.requires_grad
    loss = -(alpha * h).mean()
    expected = -alpha.item() / 2
    controller(h)  # another step before the backward pass of the first
    loss.backward()
    assert torch.allclose(h.grad, torch.tensor(expected))


def test_a_fixed_weight():
    weight = FixedEntropyWeight(0.3)
    assert weight(torch.tensor(5.0)) == weight(torch.tensor(math.nan)) == 0.3
    other = FixedEntropyWeight(0.0)
    other.load_state_dict(weight.state_dict())
    assert other(torch.tensor(1.0)) == 0.3
