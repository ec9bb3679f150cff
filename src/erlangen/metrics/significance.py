r"""Whether two samples of a number differ by more than chance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from ..distributions.standard_t import log_tails
from ..utils.shapes import describe

__all__ = ["two_sample_t"]


def two_sample_t(first: Sequence[float], second: Sequence[float]) -> float:
    r"""The p-value of Student's two-sample t-test, of both sides: samples of normals with one variance.

    $$t = \frac{\bar a - \bar b}{s \sqrt{1/n + 1/m}}, \qquad
      s^2 = \frac{\sum_i (a_i - \bar a)^2 + \sum_j (b_j - \bar b)^2}{n + m - 2}.$$

    Args:
        first: n numbers, at least 2.
        second: m numbers, at least 2.

    Example:
        >>> round(two_sample_t([1.0, 2.0, 3.0], [2.0, 3.0, 4.0]), 4)
        0.2879
    """
    first, second = (_numbers(name, sample) for name, sample in (("first", first), ("second", second)))
    n, m = len(first), len(second)
    squares = (n - 1) * statistics.variance(first) + (m - 1) * statistics.variance(second)
    gap = abs(statistics.fmean(first) - statistics.fmean(second))
    if gap == 0 or squares == 0:
        return 1.0 if gap == 0 else 0.0
    dof = n + m - 2
    return math.exp(log_tails(gap / math.sqrt(squares / dof * (1 / n + 1 / m)), dof))


def _numbers(name: str, sample: Sequence[float]) -> list[float]:
    try:
        found = [float(value) for value in sample]
    except (TypeError, ValueError):
        found = []
    if len(found) < 2 or not all(map(math.isfinite, found)):
        raise ValueError(f"{name}: received {describe(sample)}; accepted are at least two finite numbers")
    return found
