"""Aligning series that are the same but for their time, in the manner of scikit-learn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_consistent_length

from ..distributions import Dirac
from ..nets import SeriesLocaliser
from ..objectives import SeriesAlignment, variance_about_mean
from ..train import Config, Cosine, Optimiser, TensorLoader, fit
from ..transforms import CPAB
from ..utils.seeds import seeded
from .config import check_device
from .series_base import BINS, SeriesEstimator, check_counts, moments

__all__ = ["SeriesAligner"]


class SeriesAligner(SeriesEstimator):
    """Learns how to warp the time of series so that they look alike; one that it never saw takes one forward pass.

    A network looks at a series and says how to warp it: a diffeomorphism of time that keeps both ends in place, see
    `CPAB`. It is trained so that the mean of the aligned series explains each of them in its own time, see
    `SeriesAlignment`; with classes, the mean of each.

    Args:
        cells: in how many cells of time velocities are linear; more can follow finer differences.
        smoothness: the weight of smooth warps, against the variance of series that are scaled to variance 1.
        width: of the three convolutions of the network.
        steps: how many steps it is trained.
        batch_size: series to a step; all, if they are fewer.
        lr: the learning rate, which falls to zero along a cosine.
        normalise: what is compared: "all", series less the mean of all, over the deviation of all; or "each", every one
            less its own mean, over its own deviation, where levels or sizes differ by themselves. What is aligned stays
            as it is either way.
        missing: what to do about missing values, NaN: "raise", or "interpolate" between neighbours in time.
        unequal: what to do about different lengths: "raise", "resample" to the longest or "pad" by the last value.
        random_state: of the weights and the order.
        device: "auto", "cpu", "cuda", or what else Fabric accepts.

    Attributes:
        theta_: the warps of the series that it was fitted on, `(n, cells - 1)`.
        mean_: the mean of the aligned series, of each class where there are some: `(classes, channels, time)`.
        classes_: the classes, if there are any.
        variance_before_: the variance about the mean of the series as they were; if each is normalised, of these.
        variance_: the same of the aligned series. A warp interpolates between moments, which alone takes a third of the
            variance of white noise away.
        n_channels_in_: the number of channels.
        length_in_: the number of moments, after series were brought to one length.

    References:
        | R. Shapira Weber et al. Diffeomorphic temporal alignment nets (2019).

    Example:
        >>> import numpy as np
        >>> t, shift = np.linspace(-1, 1, 40), np.linspace(-0.1, 0.1, 30)
        >>> x = np.exp(-(((t - shift[:, None]) / 0.2) ** 2))  # thirty bumps, each at another time
        >>> aligner = SeriesAligner(steps=60, width=8, device="cpu").fit(x)
        >>> aligner.transform(x).shape, bool(aligner.variance_ < aligner.variance_before_)
        ((30, 40), True)
    """

    def __init__(
        self,
        *,
        cells: int = 10,
        smoothness: float = 0.002,
        width: int = 32,
        steps: int = 200,
        batch_size: int = 128,
        lr: float = 3e-3,
        normalise: str = "all",
        missing: str = "raise",
        unequal: str = "raise",
        random_state: Any = 0,
        device: str = "auto",
    ) -> None:
        self.cells = cells
        self.smoothness = smoothness
        self.width = width
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.normalise = normalise
        self.missing = missing
        self.unequal = unequal
        self.random_state = random_state
        self.device = device

    @torch.inference_mode(False)  # a caller's inference mode would make weights that cannot be trained
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns to align series.

        Args:
            X: series `(n, channels, time)`, or `(n, time)` with one channel, or a list of `(channels, time)`.
            y: the class of each, where series of different classes are not to be made alike; they may be of any kind.
                Continuous numbers are no classes, and are ignored, so that a regressor may follow in a pipeline.
        """
        check_counts(self, ("width", "steps", "batch_size"))
        check_device(self.device)
        if self.normalise not in ("all", "each"):
            raise ValueError(f"normalise: received {self.normalise!r}; accepted are 'all' and 'each'")
        x = self._read(X, reset=True)
        self.classes_ = None
        if y is not None and _continuous(y):
            check_consistent_length(X, y)
            y = None
        labels = torch.zeros(len(x), dtype=torch.long) if y is None else self._labels(x, y)
        self._standardise(x)
        seed = self._seed()
        with seeded(seed):
            self.transform_ = CPAB((self.cells,))
            widths = (self.width,) * 3
            encoder = SeriesLocaliser(self.n_channels_in_, widths=widths, bins=BINS, dropout=0.0)
            self.conditional_ = Dirac(self.transform_.features, encoder.features, encoder=encoder)
        objective = SeriesAlignment(self.transform_, self.conditional_, smoothness=self.smoothness)
        batch = min(self.batch_size, len(x))
        loader = TensorLoader(self._scaled(x), labels, batch_size=batch, seed=seed, drop_last=True)
        how = Optimiser("adam", self.lr, schedule=Cosine())
        places: Any = {"seed": seed, "accelerator": self.device, "progress": False}
        fit(objective, loader, Config(steps=self.steps, optimiser=how, **places))
        return self._measured(x, self._fitted(x), labels)

    def _measured(self, x: torch.Tensor, aligned: torch.Tensor, labels: torch.Tensor) -> Self:
        """Notes the means of what is aligned, and the variance about them before and after."""
        both = x, aligned
        if self.normalise == "each":
            compared = self._normalised(x)
            both = compared, self._warp(compared, torch.from_numpy(self.theta_))
        self.variance_before_, self.variance_ = _variances(both, labels)
        self.mean_ = torch.cat([moments(aligned[labels == label], (0,))[0] for label in labels.unique()]).numpy()
        return self

    def _normalised(self, x: torch.Tensor) -> torch.Tensor:
        if self.normalise == "all":
            return super()._normalised(x)
        offset, scale = moments(x, (2,))
        return (x - offset) / scale


def _variances(both: Sequence[torch.Tensor], labels: torch.Tensor) -> list[float]:
    """The variance of each about its means, taken in a unit whose squares are neither too large nor too small."""
    size = float(both[0].abs().max())
    unit = 2.0 ** (math.frexp(size)[1] - 1)  # a power of two, of which nothing is rounded
    parts = [float(variance_about_mean(x / unit, labels)) for x in both]
    found = [part * unit * unit for part in parts]
    if any(part > 0 and value in (0, math.inf) for part, value in zip(parts, found, strict=True)):
        got = f"X: received values up to {size:.4g} in size, whose variance float64 cannot hold"
        warnings.warn(f"{got}: `variance_before_` and `variance_` are {found}; rescale them", stacklevel=5)
    return found


def _continuous(y: Any) -> bool:
    """Whether these are continuous numbers, which are no classes."""
    y = np.asarray(y)
    return y.dtype.kind == "f" and bool(np.isfinite(y).all()) and bool((y != np.round(y)).any())
