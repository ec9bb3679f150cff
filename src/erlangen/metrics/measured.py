r"""What a measurement says: a mean over inputs, how sure it is, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from ..utils.seeds import generator
from ..utils.shapes import check_count, check_kind, check_tensor, compute_dtype
from .outputs import check_labels

__all__ = ["BOOTSTRAP", "Bootstrap", "Measured", "class_means", "measured", "resampled"]

LARGEST = 2**22  # random numbers of the bootstrap in memory at a time


class Bootstrap(NamedTuple):
    """How a confidence interval is made.

    Attributes:
        level: how often it should hold the true mean.
        resamples: how many times the inputs are drawn again.
        seed: of these draws.
    """

    level: float = 0.95
    resamples: int = 1000
    seed: int = 0


BOOTSTRAP = Bootstrap()


class Measured(NamedTuple):
    """A metric over a set of inputs.

    Attributes:
        mean: over inputs, `()`.
        interval: a confidence interval of the mean, by bootstrap over inputs, `(2,)`; of a single input, a point.
        classes: the mean over the inputs of each class, `(K,)`, NaN for a class without inputs; None without labels.
        inputs: the value of each input, of which the mean is taken, `(B,)`.
    """

    mean: Tensor
    interval: Tensor
    classes: Tensor | None
    inputs: Tensor


def measured(
    inputs: Tensor, y: Tensor | None = None, *, classes: int = 1, bootstrap: Bootstrap = BOOTSTRAP
) -> Measured:
    """The mean of values with its interval, and the means of classes.

    Args:
        inputs: one value per input.
        y: the classes of the inputs.
        classes: how many classes there are, K.
        bootstrap: how the interval is made.

    Shape:
        inputs: `(B,)`; y: `(B,)`.

    Example:
        >>> measured(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]), classes=3).classes
        tensor([2., nan, 5.])
    """
    ok = isinstance(inputs, Tensor) and inputs.ndim == 1 and len(inputs) > 0 and inputs.is_floating_point()
    check_tensor("inputs", inputs, "floating-point values (B,), at least one", ok)
    inputs = inputs.to(compute_dtype(inputs))
    of_classes = None if y is None else class_means(inputs, y, classes)
    return Measured(inputs.mean(), _interval(inputs, bootstrap), of_classes, inputs)


def class_means(inputs: Tensor, y: Tensor, classes: int) -> Tensor:
    """The mean of each class; NaN for one without inputs.

    Shape:
        inputs: `(B,)`; y: `(B,)`; result: `(classes,)`.
    """
    y = check_labels("y", y, len(inputs), check_count("classes", classes)).to(inputs.device)
    # One by one: sums that are scattered on a GPU differ from run to run.
    return torch.stack([inputs[y == k].mean() for k in range(classes)])


def _interval(inputs: Tensor, bootstrap: Bootstrap) -> Tensor:
    """The percentiles of means over inputs drawn with replacement, `(2,)`; the same numbers on every device."""
    values = inputs.detach().cpu()
    means = torch.cat([values[rows].mean(1) for rows in resampled(len(values), bootstrap)])
    ends = torch.tensor([(1 - bootstrap.level) / 2, (1 + bootstrap.level) / 2], dtype=values.dtype)
    found, next_one = means.quantile(ends), means.quantile(ends, interpolation="higher")
    return torch.where(found.isnan(), next_one, found).to(inputs.device)  # a quantile between infinite means is NaN


def resampled(n: int, bootstrap: Bootstrap) -> Iterator[Tensor]:
    """The inputs of each resample, drawn with replacement, `(k, n)` at a time."""
    check_kind("bootstrap", bootstrap, Bootstrap)
    level, resamples, seed = bootstrap
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"bootstrap: received the level {level!r}; accepted is a number between 0 and 1")
    source, rows = generator(seed), max(1, LARGEST // n)
    for start in range(0, check_count("bootstrap.resamples", resamples), rows):
        yield torch.randint(n, (min(rows, resamples - start), n), generator=source)
