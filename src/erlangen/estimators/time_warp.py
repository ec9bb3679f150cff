"""Classifying series with learned warps of time, in the manner of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..distributions import StudentT
from ..models import Averaged
from ..nets import SeriesCNN, SeriesLocaliser
from ..objectives import PSTN
from ..train import Config, Cosine, Optimiser, TensorLoader, fit
from ..transforms import CPAB
from ..utils.seeds import seeded
from ..utils.shapes import check_positive
from .config import check_device
from .series_base import BINS, SeriesEstimator, check_counts

__all__ = ["TimeWarpClassifier"]

KERNELS = (8, 5, 3)
TRUNCATION = 10.0  # where the t ends, in units of its scale: beyond it nothing is left of a series
FIRST = 0.08  # the scale with which warps begin, as a share of the preferred one; as in the published code
SLOWER = 0.1  # the learning rate of the localiser over that of the classifier, as in the published code


class TimeWarpClassifier(ClassifierMixin, SeriesEstimator):
    r"""The probabilistic spatial transformer for series: a classifier averaged over warps of time that it learns.

    For each series a localiser gives a Student-t over the velocities of a warp of time; warped copies of it are
    classified, and their probabilities averaged, in training (P-STN equation 17) as in prediction (equation 19). The
    warps act as an augmentation that nobody had to design. All channels of a series share a warp.

    The networks are smaller than the paper's, whose are `erlangen.papers.pstn.series`.

    Args:
        cells: in how many cells of time velocities are linear.
        weight: w, of the divergence from the prior on the precision of warps: more of it, wider warps.
        spread: the scale of the coordinates of warps that the prior prefers, see `CPAB` with `orthonormal`.
        width: of the convolutions of classifier and localiser.
        epochs: how long it is trained; at least `steps`, and more epochs where the set is small.
        steps: the least number of steps.
        batch_size: series to a step.
        samples: warps of a series in training.
        eval_samples: warps of a series in prediction.
        lr: the learning rate, which falls to zero along a cosine; that of the localiser is a tenth.
        missing: what to do about missing values, NaN: "raise", or "interpolate" between neighbours in time.
        unequal: what to do about different lengths: "raise", "resample" to the longest or "pad" by the last value.
        random_state: of weights, order and noise. Predictions do not change from call to call.
        device: "auto", "cpu", "cuda", or what else Fabric accepts.

    Attributes:
        classes_: the labels, sorted.
        theta_: the mean warps of the series that it was fitted on, `(n, cells - 1)`.
        averaged_: the model.

    References:
        | P. Schwöbel et al. Probabilistic spatial transformer networks (2022).

    Example:
        >>> t, shift = np.linspace(-1, 1, 40), np.linspace(-0.2, 0.2, 24)
        >>> bump = np.exp(-(((t - shift[:, None]) / 0.15) ** 2))
        >>> x, y = np.concatenate((bump, -bump)), ["up"] * 24 + ["down"] * 24
        >>> model = TimeWarpClassifier(width=8, epochs=1, steps=60, lr=0.01, device="cpu").fit(x, y)
        >>> print(model.predict(x[[0, -1]]), model.score(x, y))
        ['up' 'down'] 1.0
    """

    def __init__(
        self,
        *,
        cells: int = 10,
        weight: float = 1e-4,
        spread: float = 1.0,
        width: int = 64,
        epochs: int = 50,
        steps: int = 500,
        batch_size: int = 16,
        samples: int = 4,
        eval_samples: int = 16,
        lr: float = 1e-3,
        missing: str = "raise",
        unequal: str = "raise",
        random_state: Any = 0,
        device: str = "auto",
    ) -> None:
        self.cells = cells
        self.weight = weight
        self.spread = spread
        self.width = width
        self.epochs = epochs
        self.steps = steps
        self.batch_size = batch_size
        self.samples = samples
        self.eval_samples = eval_samples
        self.lr = lr
        self.missing = missing
        self.unequal = unequal
        self.random_state = random_state
        self.device = device

    @torch.inference_mode(False)  # a caller's inference mode would make weights that cannot be trained
    def fit(self, X: Any, y: Any) -> Self:
        """Trains localiser and classifier together.

        Args:
            X: series `(n, channels, time)`, or `(n, time)` with one channel, or a list of `(channels, time)`.
            y: the class of each, of any kind.
        """
        check_counts(self, ("width", "epochs", "steps", "batch_size", "samples", "eval_samples"))
        for name in ("spread", "lr"):
            check_positive(name, getattr(self, name))
        check_device(self.device)
        x = self._read(X, reset=True)
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None; accepted is a label for each")
        labels = self._labels(x, y)
        self._standardise(x)
        seed = self._seed()
        self.seed_ = seed
        with seeded(seed):
            self.averaged_ = self._build(max(2, len(self.classes_)))  # a lone class has another beside it
        self.transform_, self.conditional_ = self.averaged_.transform, self.averaged_.conditional
        batch = min(self.batch_size, len(x))
        loader = TensorLoader(self._scaled(x), labels, batch_size=batch, seed=seed, drop_last=True)
        fit(PSTN(self.averaged_, self.weight, beta0=self.spread**2), loader, self._how(len(loader), seed))
        # What is predicted for a series then depends on no other.
        self.averaged_.points, self.averaged_.largest = "common", self._rows()
        self.averaged_.eval()
        self._fitted(x)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, averaged over warps (P-STN equation 19).

        Shape:
            X: `(n, channels, time)`; result: `(n, classes)`.
        """
        check_is_fitted(self)
        x, home = self._scaled(self._read(X)), self.transform_.bounds.device
        with torch.no_grad():
            return torch.cat([self._some(part.to(home)) for part in x.split(self._rows())]).softmax(-1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each series."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(-1)]

    def _some(self, x: Tensor) -> Tensor:
        with seeded(self.seed_):
            return self.averaged_(x).log_probs[:, : len(self.classes_)].double().cpu()

    def _build(self, classes: int) -> Averaged:
        """The four nouns but the last: a warp of time, a Student-t over it, an averaged classifier."""
        transform, widths = CPAB((self.cells,), orthonormal=True), (self.width,) * 3
        encoder = SeriesLocaliser(self.n_channels_in_, widths=widths, kernels=KERNELS, bins=BINS, dropout=0.0)
        conditional = StudentT(
            transform.features, encoder.features, encoder=encoder, spread=FIRST * self.spread, truncation=TRUNCATION
        )
        net = SeriesCNN(self.n_channels_in_, classes, widths=widths, kernels=KERNELS)
        return Averaged(net, transform, conditional, samples=self.samples, eval_samples=self.eval_samples)

    def _how(self, per_epoch: int, seed: int) -> Config:
        main, slow = (Optimiser("adam", lr, schedule=Cosine()) for lr in (self.lr, SLOWER * self.lr))
        steps = max(self.steps, self.epochs * per_epoch)
        groups = {"conditional": slow}
        places: Any = {"seed": seed, "accelerator": self.device, "progress": False}
        return Config(steps=steps, optimiser=main, groups=groups, **places)
