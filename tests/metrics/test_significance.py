"""The two-sample t-test."""

import numpy as np
import pytest
import torch
from scipy.stats import ttest_ind

from erlangen.metrics import two_sample_t


@pytest.mark.parametrize(("n", "m", "gap"), [(5, 5, 0.0), (5, 5, 2.0), (2, 9, 1.0), (30, 3, 4.0), (30, 30, 30.0)])
def test_as_scipy(n, m, gap):
    torch.manual_seed(n + m)
    a, b = torch.randn(n).tolist(), (torch.randn(m) + gap).tolist()
    assert two_sample_t(a, b) == pytest.approx(ttest_ind(a, b).pvalue, rel=1e-8, abs=0)
    assert two_sample_t(a, b) == two_sample_t(b, a)


def test_the_ends():
    assert two_sample_t([1, 2, 3], [3, 2, 1]) == 1
    assert two_sample_t([1, 1], [2, 2]) == 0
    with pytest.raises(ValueError, match=r"^second: received list \[1\]; accepted are at least two"):
        two_sample_t([1, 2], [1])
    for other in (["a", "b"], None, [1, float("nan")], torch.rand(2, 2)):
        with pytest.raises(ValueError, match=r"^first: received .*; accepted are at least two"):
            two_sample_t(other, [1, 2])


def test_samples_of_any_kind_of_number():
    a, b = [1.0, 2.5, 3.0], [2.0, 3.0, 4.5]
    assert two_sample_t(np.array(a, np.float32), torch.tensor(b)) == two_sample_t(a, b)
