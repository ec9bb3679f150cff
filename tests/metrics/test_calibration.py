"""Calibration and divergences, in closed form and against torch and torchmetrics."""

import math

import pytest
import torch
from torch.distributions import Categorical, kl_divergence
from torchmetrics.functional import mean_squared_error
from torchmetrics.functional.classification import multiclass_calibration_error

from erlangen.metrics import brier, ece, ekld, nll, reliability


def predictions(*rows):
    return torch.tensor(rows).log()


def test_nll_in_closed_form():
    log_probs = predictions((0.5, 0.5), (0.9, 0.1))
    assert nll(log_probs, torch.tensor([0, 1])).item() == pytest.approx(-(math.log(0.5) + math.log(0.1)) / 2)


def test_ece_in_closed_form():
    # Of ten that are given 0.8, eight are right: calibrated. Of ten that are given 0.95, only five are.
    log_probs = predictions(*[(0.8, 0.2)] * 10, *[(0.05, 0.95)] * 10)
    y = torch.tensor([0] * 8 + [1] * 2 + [1] * 5 + [0] * 5)
    assert ece(log_probs, y).item() == pytest.approx(0.5 * 0.45)
    assert ece(log_probs[:10], y[:10]).item() == pytest.approx(0, abs=1e-12)


def test_ece_puts_the_upper_end_of_a_bin_into_it():
    # 0.5 and 0.4 share a bin of two, and cancel: one right, one wrong.
    log_probs = predictions((0.5, 0.3, 0.2), (0.4, 0.3, 0.3), (0.6, 0.2, 0.2))
    y = torch.tensor([0, 1, 0])
    assert ece(log_probs, y, bins=2).item() == pytest.approx((abs(1 - 0.9) + abs(1 - 0.6)) / 3)


def test_brier_in_closed_form():
    log_probs = predictions((0.5, 0.5), (0.9, 0.1), (1.0, 0.0))
    each = [brier(log_probs[k : k + 1], torch.tensor([1])).item() for k in range(3)]
    assert each == pytest.approx([0.5, 1.62, 2.0])
    assert brier(log_probs, torch.tensor([1, 1, 1])).item() == pytest.approx(sum(each) / 3)
    assert brier(log_probs[2:], torch.tensor([0])) == 0


def test_ece_and_brier_are_those_of_torchmetrics():
    log_probs, y = (2 * torch.randn(500, 7)).log_softmax(-1), torch.randint(7, (500,))
    probs = log_probs.exp()
    for bins in (1, 10, 15):
        theirs = multiclass_calibration_error(probs, y, num_classes=7, n_bins=bins, norm="l1")
        # They keep bins in float32.
        torch.testing.assert_close(ece(log_probs, y, bins), theirs.double(), atol=1e-6, rtol=0)
    # It has no score by this name, but the mean squared error over inputs and classes.
    theirs = 7 * mean_squared_error(probs, torch.nn.functional.one_hot(y, 7).double())
    torch.testing.assert_close(brier(log_probs, y), theirs)


def test_a_perfect_and_a_confidently_wrong_prediction():
    sure = torch.tensor([[0.0, -math.inf]])
    assert ece(sure, torch.tensor([0])) == 0
    assert ece(sure, torch.tensor([1])) == 1


def test_calibrated_predictions_have_a_small_error_and_sharpened_ones_do_not():
    log_probs = torch.randn(20_000, 5).log_softmax(-1)
    y = Categorical(logits=log_probs).sample()
    assert ece(log_probs, y) < 0.015
    assert ece((3 * log_probs).log_softmax(-1), y) > 0.15


def test_ekld_is_that_of_torch_class_by_class():
    log_probs, moved = torch.randn(6, 4).log_softmax(-1), torch.randn(5, 6, 4).log_softmax(-1)
    y = torch.tensor([0, 0, 1, 3, 3, 3])
    found = ekld(log_probs, moved, y)
    p, q = Categorical(logits=log_probs.expand(5, -1, -1)), Categorical(logits=moved)
    for value, each in zip(found, (kl_divergence(p, q), kl_divergence(q, p)), strict=True):
        for c in (0, 1, 3):
            torch.testing.assert_close(value[c], each[:, y == c].mean())
        assert value[2].isnan()


def test_ekld_pairs_an_input_with_its_own_copies():
    log_probs = torch.randn(6, 4).log_softmax(-1)
    y = torch.zeros(6, dtype=torch.long)
    own = ekld(log_probs, log_probs.expand(3, -1, -1), y)
    assert own.forward[0] == own.backward[0] == 0
    others = ekld(log_probs, log_probs.roll(1, 0).expand(3, -1, -1), y)
    assert min(others.forward[0], others.backward[0]) > 0.1


def test_ekld_is_infinite_only_where_a_class_is_ruled_out():
    sure, even = torch.tensor([[0.0, -math.inf]]), torch.tensor([[0.5, 0.5]]).log()
    found = ekld(sure, even[None], torch.tensor([0]))
    assert found.forward[0].item() == pytest.approx(math.log(2))
    assert found.backward[0] == math.inf


def test_what_is_no_number_is_no_agreement():
    y, sure = torch.tensor([0]), torch.tensor([[0.9, 0.1]]).log()
    for found in (ekld(sure * math.nan, sure[None], y), ekld(sure, sure[None] * math.nan, y)):
        assert found.forward[0].isnan()
        assert found.backward[0].isnan()


def test_labels_of_any_integer_type_and_half_precision():
    log_probs, y = torch.randn(5, 3).log_softmax(-1), torch.tensor([0, 1, 2, 0, 1])
    for score in (nll, brier, ece):
        assert torch.equal(score(log_probs, y.to(torch.int32)), score(log_probs, y))
        torch.testing.assert_close(score(log_probs.half(), y).double(), score(log_probs, y), rtol=0.01, atol=0.01)


EVEN, Y = torch.full((3, 2), 0.5).log(), torch.tensor([0, 1, 0])


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("log_probs", lambda: nll(torch.zeros(3), Y)),
        ("log_probs", lambda: nll([0.5], Y)),  # pyright: ignore
        ("log_probs", lambda: reliability(EVEN * math.nan, Y)),
        *[("log_probs", lambda score=score: score(EVEN + 0.2, Y)) for score in (nll, brier, ece, reliability)],
        ("log_probs", lambda: ekld(EVEN + 0.2, EVEN[None], Y)),
        *[("y", lambda score=score: score(EVEN, Y[:2])) for score in (nll, brier, ece)],
        *[("y", lambda score=score: score(EVEN, Y + 1)) for score in (nll, brier, ece, reliability)],
        *[("y", lambda score=score: score(EVEN, Y.double())) for score in (nll, brier, ece)],
        ("y", lambda: ekld(EVEN, EVEN[None], Y + 1)),
        ("bins", lambda: ece(EVEN, Y, bins=0)),
        ("moved_log_probs", lambda: ekld(EVEN, EVEN, Y)),
        ("moved_log_probs", lambda: ekld(EVEN, EVEN[None] - 0.2, Y)),
    ],
)
def test_bad_input_is_named(name, make):
    with pytest.raises(ValueError, match=f"^{name}: received"):
        make()


def test_of_no_predictions_there_is_no_score():
    for score in (nll, brier, ece, reliability):
        with pytest.raises(ValueError, match=r"log_probs: .* of at least one input"):
            score(EVEN[:0], Y[:0])


def test_a_reliability_curve_by_hand():
    p = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.45, 0.55]])
    curve = reliability(p.log(), torch.tensor([0, 1, 0, 1]), bins=4)
    assert curve.share.tolist() == [0, 0, 0.5, 0.5]
    assert curve.confidence[:2].isnan().all()
    torch.testing.assert_close(curve.confidence[2:], torch.tensor([0.575, 0.85]))
    torch.testing.assert_close(curve.accuracy[2:], torch.tensor([1.0, 0.5]))
    gap = (curve.share * (curve.accuracy - curve.confidence).abs())[2:].sum()
    torch.testing.assert_close(ece(p.log(), torch.tensor([0, 1, 0, 1]), bins=4), gap)


def test_half_precision_counts_as_far_as_need_be():
    """More inputs in a bin than float16 has numbers."""
    log_probs = torch.tensor([[0.75, 0.25]]).log().expand(70_000, 2)
    y = torch.zeros(70_000, dtype=torch.long)
    assert ece(log_probs.half(), y).item() == pytest.approx(0.25, abs=1e-3)
    even = torch.full_like(log_probs, 0.5).log()
    exact = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert ekld(log_probs.half(), even[None].half(), y).forward[0].item() == pytest.approx(exact, abs=1e-3)


def test_a_long_sum_in_single_precision_is_not_rounded_away():
    """After 500,000 numbers the next ones would be rounded to sixteenths."""
    n = 1_000_000
    p, y = torch.full((n,), 0.98), torch.zeros(n, dtype=torch.long)
    log_probs = torch.stack((p, 1 - p), 1).log().float()
    assert ece(log_probs, y).item() == pytest.approx(0.02, rel=1e-4)
    assert reliability(log_probs, y).confidence[-1].item() == pytest.approx(0.98, rel=1e-5)
    even = torch.full_like(log_probs, 0.5).log()
    exact = 0.98 * math.log(1.96) + 0.02 * math.log(0.04)
    assert ekld(log_probs, even[None], y).forward[0].item() == pytest.approx(exact, rel=1e-5)


def test_predictions_in_half_precision_are_compared_with_those_in_single_and_not_with_double():
    log_probs, y = torch.randn(5, 3).float().log_softmax(-1), torch.tensor([0, 1, 2, 0, 1])
    found = ekld(log_probs.bfloat16(), log_probs[None], y)
    assert torch.equal(found.forward, ekld(log_probs.bfloat16().float(), log_probs[None], y).forward)
    with pytest.raises(ValueError, match=r"moved_log_probs: received a float64 .* log_probs is torch.float32"):
        ekld(log_probs, log_probs[None].double(), y)
