"""Finitely many elements: enumeration is exact, sampling is unbiased and follows the softmax."""

import math

import pytest
import torch
from scipy import stats

from erlangen.distributions import Categorical, crop_table, quadrature
from erlangen.distributions.categorical import CategoricalDensity
from erlangen.transforms import Crop, Dihedral, Flips, Rotations, Shifts

LOGITS = (0.5, -1.0, 2.0, 0.0, -3.0)
TABLE = ((0.0, 1.0), (1.0, -1.0), (2.0, 0.5), (3.0, 0.0), (4.0, -0.5))


def density(rows=3):
    logits = torch.tensor(LOGITS).repeat(rows, 1).requires_grad_()
    return CategoricalDensity(logits, torch.tensor(TABLE)), logits


def integrand(v):
    return (v[..., 0] + 0.3).square() * v[..., 1].cos()


def expected_gradient(p, h):
    r"""Of $\sum_k p_k h_k$ in the logits, $p_k (h_k - \bar h)$."""
    return p * (h - (p * h).sum(-1, keepdim=True))


def test_enumeration_is_the_expectation_with_its_gradient():
    q, logits = density()
    v, log_weights, log_q = quadrature(q, 1)
    assert v.shape == (5, 3, 2)
    assert log_weights is log_q
    value = (log_weights.exp() * integrand(v)).sum(0)
    p, h = torch.tensor(LOGITS).softmax(-1), integrand(torch.tensor(TABLE))
    assert torch.allclose(value, (p * h).sum(), rtol=1e-14)
    value.sum().backward()
    assert torch.allclose(logits.grad, expected_gradient(p, h).expand(3, -1), rtol=1e-13)


def test_closed_forms():
    q, _ = density()
    p, table = torch.tensor(LOGITS).softmax(-1), torch.tensor(TABLE)
    assert torch.allclose(q.entropy(), -(p * p.log()).sum())
    assert torch.allclose(q.mean, p @ table)
    assert torch.equal(q.mode, table[2].expand(3, 2))
    assert torch.equal(q.log_prob(table[3]), q.log_probs[:, 3])
    assert (q.log_prob(table[3] + 1e-3) == -math.inf).all()
    assert torch.equal(q.enumerate_support(), table[:, None].expand(5, 3, 2))
    assert q.enumerate_support(expand=False).shape == (5, 1, 2)


def test_the_mean_of_angles_is_circular():
    low, high = torch.tensor([-math.pi]), torch.tensor([math.pi])
    q = CategoricalDensity(torch.zeros(1, 2), torch.tensor([[-3.0], [3.0]]), (True,), (low, high))
    assert q.mean.abs().item() == pytest.approx(math.pi)
    turned = CategoricalDensity(torch.zeros(1, 2), torch.tensor([[0.1], [0.7]]), (True,), (0 * low, high / math.pi))
    assert turned.mean.item() == pytest.approx(0.9)  # 0.7 and 1.1 on a circle of length 1


def improbability(index):
    """The probability that samples of the softmax are at least so far from their frequencies (chi-squared)."""
    counts = torch.bincount(index.flatten(), minlength=5)
    expected = torch.tensor(LOGITS).softmax(-1) * counts.sum()
    return stats.chi2.sf(((counts - expected).square() / expected).sum().item(), df=4)


def test_samples_are_those_of_the_softmax():
    q, _ = density(rows=100)
    # A right sampler fails once in 1e9.
    assert improbability(q.sample((200,))[..., 0].long()) > 1e-9


def test_exponential_noise_is_not_the_softmax():
    """The twin: InstaAug's published noise is -log u, not Gumbel's -log(-log u)."""
    u = torch.rand(200, 100, 5)
    logits = torch.tensor(LOGITS)
    assert improbability((logits - (-u.log()).log()).argmax(-1)) > 1e-9
    assert improbability((logits - u.log()).argmax(-1)) < 1e-100


@pytest.mark.parametrize("points", ["random", "antithetic", "sobol"])
def test_the_score_function_is_unbiased(points):
    n_rows = 20_000
    q, logits = density(n_rows)
    v, log_weights, log_q = quadrature(q, 4, exact=False, points=points)
    assert torch.allclose(log_weights.exp().sum(0), torch.ones(n_rows))
    value = (log_weights.exp() * (integrand(v) + log_q)).sum(0)
    value.sum().backward()
    log_p = torch.tensor(LOGITS).log_softmax(-1)
    p, h = log_p.exp(), integrand(torch.tensor(TABLE)) + log_p
    error = logits.grad.std(0) / math.sqrt(n_rows)
    # Five standard errors, of five numbers: what is right fails once in 3e5.
    assert ((logits.grad.mean(0) - expected_gradient(p, h)).abs() < 5 * error).all()
    assert (value.mean() - (p * h).sum()).abs() < 5 * value.std() / math.sqrt(n_rows)


def test_without_the_weights_the_gradient_is_lost():
    """The twin: the same points, weighted by 1/n, know nothing of the choice."""
    q, logits = density()
    v, log_weights, _ = quadrature(q, 4, exact=False)
    value = (log_weights.detach().exp() * integrand(v)).sum()
    assert not value.requires_grad
    (log_weights.exp() * integrand(v)).sum().backward()
    assert logits.grad.abs().max() > 0


@pytest.mark.parametrize("group", [Rotations(4), Dihedral(4), Flips(), Shifts(6)], ids=lambda g: type(g).__name__)
def test_finite_groups(group):
    group = group.double()
    net = Categorical.over(group, 3, spread=0.25)
    n = int(group.bounds[1, 0]) + 1
    q = net(torch.randn(2, 3))
    v = quadrature(q, 1).v
    assert torch.equal(v[:, 0, 0], torch.arange(float(n)))
    assert torch.allclose(q.log_probs.exp()[:, 0], torch.tensor(0.75))
    assert torch.allclose(q.log_probs.exp()[:, 1:], torch.tensor(0.25 / (n - 1)))
    assert torch.equal(q.mode, group.origin.expand(2, 1))
    x = torch.randn(2, 1, 6, 6)
    assert torch.equal(group(x, v)[0], x)


def test_the_identity_may_be_any_row():
    q = Categorical([[1.0], [0.0]], 3, start=1, spread=0.1)(torch.randn(2, 3))
    assert torch.equal(q.mode, torch.zeros(2, 1))


def test_the_321_crops():
    table, logits = crop_table()
    assert len(table) == len(logits) == 16**2 + 8**2 + 1 == 321
    assert Crop().double().support.check(table).all()
    assert table.unique(dim=0).shape == table.shape
    levels = logits.split((256, 64, 1))
    assert torch.allclose(torch.stack([level.logsumexp(0) for level in levels]), torch.tensor([0.0, 1.0, 3.0]))
    assert all((level == level[0]).all() for level in levels)
    assert torch.equal(table[-1], torch.tensor([0.0, 0.0, 1.0, 1.0]))
    assert torch.equal(table[:256, 2:], torch.full((256, 2), 0.375))
    assert torch.equal(table[256:-1, 2:], torch.full((64, 2), 0.75))
    # cx runs fastest, as columns of an image do, and the outermost windows touch the edges.
    assert torch.equal(table[:16, 0], torch.linspace(-1, 1, 16))
    assert (table[:16, 1] == -1).all()


def test_crops_start_at_the_favoured_frame():
    table, logits = crop_table()
    q = Categorical(table, 3, logits=logits)(torch.randn(2, 3))
    assert torch.equal(q.mode, table[-1].expand(2, 4))
    share = math.exp(3) / (1 + math.e + math.exp(3))
    assert torch.allclose(q.log_prob(table[-1]).exp(), torch.tensor(share))
    assert torch.equal(Crop().double()(torch.ones(2, 1, 8, 8), q.mode), torch.ones(2, 1, 8, 8))


def test_rows_of_large_tables_are_compared_part_by_part(largest):
    table = torch.rand(2000, 4)
    with largest:
        Categorical(table, 8)
    assert largest.most <= 4e6
    table[1999] = table[3]
    with pytest.raises(ValueError, match="table: received 2000 rows, some of them alike"):
        Categorical(table, 8)
