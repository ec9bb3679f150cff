"""What the estimators of series share: reading what the user gives, and warping it there and back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from ..data import stack_series
from ..data.sequences import unmasked
from ..distributions import Conditional
from ..transforms import Transform
from ..utils.seeds import generator
from ..utils.shapes import check_count, describe

__all__ = ["BINS", "SeriesEstimator", "check_counts", "moments"]

VALUES = 2**25  # between two layers of a network, at a time: with float32 128 MiB
BINS = 8  # bins of time in which a localiser takes means
SKETCH = 4  # numbers that are kept of a series
ROUNDING = 16  # units in the last place, up to which values are the same


def _tabular(estimator: Any) -> bool:
    """Whether aligned series are a table, whose columns have names: unless it was fitted on something else."""
    if not getattr(estimator, "_table", True):
        raise AttributeError("series that are no table (n, time) have no names of columns")
    return True


class SeriesEstimator(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """An estimator of series `(n, channels, time)` that has learned how to warp their time.

    Subclasses have the parameters `missing`, `unequal`, `random_state` and `width`, and leave `transform_` (a `CPAB`),
    `conditional_`, `offset_` and `scale_` behind when they are fitted.
    """

    missing: str
    unequal: str
    random_state: Any
    width: int
    n_features_in_: int
    n_channels_in_: int
    length_in_: int
    classes_: Any
    theta_: np.ndarray
    _aligned: Tensor
    _table: bool
    offset_: Tensor
    scale_: Tensor
    transform_: Transform
    conditional_: Conditional

    def transform(self, X: Any) -> np.ndarray:
        """Aligns series: each is warped as one forward pass of the network says, all its channels alike.

        Args:
            X: series, see `fit`.

        Returns:
            The aligned series, `(n, time)` where X is such an array, else `(n, channels, time)`; in single precision
            where X is. The time is that of the series of the fit, `length_in_`, also where X is longer or shorter.
        """
        check_is_fitted(self)
        x = self._read(X)
        return self._like(self._warp(x, self._theta(x)), X)

    def warps(self, X: Any) -> np.ndarray:
        """The warp of each series: the coordinates of `transform_`, see `erlangen.transforms.CPAB`.

        Shape:
            X: `(n, channels, time)`; result: `(n, cells - 1)`.
        """
        check_is_fitted(self)
        return self._theta(self._read(X)).double().numpy()

    def inverse_transform(self, X: Any, theta: Any = None) -> np.ndarray:
        """Puts aligned series back into their own time: the flow of −θ undoes that of θ.

        What was resampled twice has lost some of its highest frequencies.

        Args:
            X: aligned series.
            theta: the warp of each, as `warps` gives it for the series before they were aligned. It may be None where
                X are the series that the estimator was fitted on, aligned: their warps are `theta_`.
        """
        check_is_fitted(self)
        x = self._read(X)
        if theta is None:
            self._check_aligned(x)
        theta = np.asarray(self.theta_ if theta is None else theta)
        numbers = theta.dtype.kind in "biuf"
        if not numbers or theta.shape != (len(x), self.transform_.features) or not np.isfinite(theta).all():
            wanted = (len(x), self.transform_.features)
            raise ValueError(f"theta: received {theta.dtype} of shape {theta.shape}; accepted are finite {wanted}")
        return self._like(self._warp(x, -torch.tensor(theta, dtype=torch.float64)), X)

    @available_if(_tabular)
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the moments of aligned series, those of the columns of X: for `set_output`, and pipelines.

        There are none for an estimator that was fitted on series `(n, channels, time)` or a list of them: aligned
        series are arrays then, whatever `set_output` asks for.
        """
        names: Any = super().get_feature_names_out(input_features)
        return names[: self.length_in_]

    def _read(self, X: Any, *, reset: bool = False) -> Tensor:
        """Series of one length in double precision; at `reset` notes their number of channels and length."""
        if reset:
            for name in ("theta_", "feature_names_in_"):  # a fit that is interrupted leaves nothing that is half new
                vars(self).pop(name, None)
            self._table = _is_table(X)
        if self.missing not in ("raise", "interpolate"):
            raise ValueError(f"missing: received {self.missing!r}; accepted are 'raise' and 'interpolate'")
        if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:  # as unequal lengths are often kept
            X = list(X)
        if isinstance(X, list | tuple):
            X = [_plain(one) for one in X]
        if not (isinstance(X, list | tuple) and len({np.shape(one) for one in X}) > 1):
            X = self._array(_plain(X), reset)
        how: Any = {"missing": self.missing, "unequal": self.unequal, "length": None if reset else self.length_in_}
        x = stack_series(list(X), dtype=torch.float64, **how).x
        if reset:
            self.n_channels_in_, self.length_in_ = int(x.shape[1]), int(x.shape[2])
            width = X.shape[-1] if isinstance(X, np.ndarray) else self.length_in_
            self.n_features_in_ = self.n_channels_in_ * width
            self._check_ends(width)
            self._mention_order()
        elif x.shape[1] != self.n_channels_in_:
            raise ValueError(f"X: received {x.shape[1]} channels; accepted is {self.n_channels_in_}, as in fit")
        if x.shape[-1] < 2:
            raise ValueError(f"X: received series of n_features = {x.shape[-1]}; accepted are at least 2 moments")
        return x

    def _check_ends(self, width: int) -> None:
        """Raises a `ValueError` for an array that ends in moments of which no series has a value, unless asked for."""
        if self.missing == self.unequal == "raise" and self.length_in_ < width:
            got = f"no value but NaN in the last {width - self.length_in_} of {width} moments of all series"
            raise ValueError(f"X: received {got}; accepted is none, or missing='interpolate' to leave these out")

    def _mention_order(self) -> None:
        """Says how series are read that have more channels than moments: other libraries have time before channels."""
        channels, length = self.n_channels_in_, self.length_in_
        if channels > length:
            got = f"X: received series of {channels} channels and {length} moments; accepted are (n, channels, time)"
            warnings.warn(f"{got}: np.swapaxes(X, 1, 2) has them if time comes first", stacklevel=5)

    def _array(self, X: Any, reset: bool) -> np.ndarray:
        """An array, checked as scikit-learn checks it; of series `(n, time)` it also compares lengths and names."""
        options: Any = {"dtype": "numeric", "ensure_all_finite": False, "allow_nd": True}
        shape = _shape(X)
        if reset or (len(shape) == 2 and self._as_in_fit(shape[1])):
            found: Any = validate_data(self, X, reset=reset, **options)
        else:
            found = check_array(X, **options)
        return found

    def _as_in_fit(self, width: int) -> bool:
        """Whether series are as wide as in fit, or must be; aligned ones lack moments that no series of the fit had."""
        return width == self.n_features_in_ or (self.unequal == "raise" and width != self.length_in_)

    def _labels(self, x: Tensor, y: Any) -> Tensor:
        """The place of the label of each series among `classes_`, which this notes, `(n,)`."""
        y = column_or_1d(y, warn=True)
        check_consistent_length(x, y)
        try:
            check_classification_targets(y)
            self.classes_, index = np.unique(y, return_inverse=True)
        except TypeError:
            got = f"labels that have no order, of the kinds {sorted({type(label).__name__ for label in y})}"
            raise ValueError(f"y: received {got}; accepted are labels of one kind, with none missing") from None
        return torch.from_numpy(index.astype(np.int64))

    def _standardise(self, x: Tensor) -> None:
        """Notes mean and deviation of each channel."""
        self.offset_, self.scale_ = moments(x, (0, 2))

    def _normalised(self, x: Tensor) -> Tensor:
        """Series as they are compared, without level and scale: in double precision, in case the level is large."""
        return (x - self.offset_) / self.scale_

    def _scaled(self, x: Tensor) -> Tensor:
        """Series without level and scale, in the type of the networks."""
        scaled = self._normalised(x).to(self.transform_.bounds.dtype)
        if not scaled.isfinite().all():
            got = f"values up to {float(x.abs().max()):.4g} in size"
            accepted = f"those in the unit of fit, whose deviation is {float(self.scale_.min()):.4g}"
            raise ValueError(f"X: received {got}; accepted are {accepted}")
        return scaled

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _fitted(self, x: Tensor) -> Tensor:
        """Notes the warps of the series that it was fitted on; returns these, aligned."""
        self.conditional_.eval()
        theta = self._theta(x)
        aligned = self._warp(x, theta)
        self._aligned, self.theta_ = self._sketch(aligned), theta.double().numpy()
        return aligned

    def _sketch(self, x: Tensor) -> Tensor:
        """A few numbers that tell series from others: their parts along fixed random directions, `(n, SKETCH)`."""
        parts = ((x - self.offset_) / self.scale_).flatten(1)
        directions = torch.randn(parts.shape[1], SKETCH, generator=generator(0), dtype=x.dtype)
        return parts @ directions / parts.shape[1] ** 0.5

    def _check_aligned(self, x: Tensor) -> None:
        """Raises a `ValueError` for series other than those that the estimator was fitted on, aligned."""
        rounding = 1e-4
        if torch.equal(x, x.float().double()):  # rounded to single precision, where a large level takes digits away
            rounding += 2e-7 * float((x / self.scale_).abs().max())
        if len(x) != len(self._aligned) or (self._sketch(x) - self._aligned).abs().max() > rounding:
            got = f"None for {len(x)} series, which are not the {len(self._aligned)} of the fit, aligned"
            raise ValueError(f"theta: received {got}; accepted are the warps of these series, as `warps` gives them")

    def _rows(self) -> int:
        """How many series go through a network at a time, to bound memory."""
        # An int, also where the width is a number of numpy: torch splits by nothing else.
        return max(1, VALUES // (max(int(self.width), self.n_channels_in_) * self.length_in_))

    @torch.no_grad()
    def _theta(self, x: Tensor) -> Tensor:
        """The warp of each series, `(n, d)`."""
        home = self.transform_.bounds.device
        return torch.cat([self.conditional_(part.to(home)).mode.cpu() for part in self._scaled(x).split(self._rows())])

    @torch.no_grad()
    def _warp(self, x: Tensor, theta: Tensor) -> Tensor:
        """Warped series in double precision; each is scaled for it, so that a large level takes no digits away."""
        offset, scale = moments(x, (2,))
        home, rows = self.transform_.bounds, self._rows()
        both = (values.to(home.dtype).split(rows) for values in ((x - offset) / scale, theta))
        parts = ((part.to(home.device), v.to(home.device)) for part, v in zip(*both, strict=True))
        warped = [self.transform_(part, v).cpu().double() for part, v in parts]
        return scale * torch.cat(warped) + offset

    def _like(self, x: Tensor, X: Any) -> np.ndarray:
        """Series as an array with as many dimensions as the input, in single precision where that is."""
        found = x.numpy().astype(np.float32 if _single(X) else np.float64)
        return found[:, 0] if _is_table(X) else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.missing == "interpolate"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "theta_")


def moments(x: Tensor, over: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over some dimensions, which are kept; that of a constant is taken to be 1.

    Values count as constant if they differ by rounding alone, relative to their own size: they may be of any unit.
    """
    size = _size(x, over)
    mean = size * (x / size).mean(over, keepdim=True)  # in parts of the size, for sums and squares might overflow
    rest = x - mean
    spread = _size(rest, over)
    deviation = spread * (rest / spread).square().mean(over, keepdim=True).sqrt()
    return mean, torch.where(deviation > ROUNDING * torch.finfo(x.dtype).eps * size, deviation, 1.0)


def _size(x: Tensor, over: tuple[int, ...]) -> Tensor:
    """The largest absolute value, 1 where there is none."""
    size = x.abs().amax(over, keepdim=True)
    return torch.where(size > 0, size, 1.0)


def _plain(X: Any) -> Any:
    """Masked arrays and tensors as arrays; all else as it is."""
    return unmasked(X) if isinstance(X, np.ma.MaskedArray | Tensor) else X


def _is_table(X: Any) -> bool:
    """Whether these are series `(n, time)` in an array, and not in a list."""
    return not isinstance(X, list | tuple) and np.asarray(_plain(X)).ndim == 2


def _single(X: Any) -> bool:
    """Whether an array or a tensor is in single precision, in any order of its bytes."""
    kind = getattr(X, "dtype", None)
    return kind == torch.float32 if isinstance(X, Tensor) else getattr(kind, "str", "")[1:] == "f4"


def _shape(X: Any) -> tuple[int, ...]:
    """The shape of an array of series, which may be a list of them."""
    shape = tuple(X.shape if hasattr(X, "shape") else np.asarray(X).shape)
    if len(shape) not in (2, 3):
        got = f"an array of shape {shape}" if shape else describe(X)
        accepted = "series (n, time) or (n, channels, time). Reshape your data: one series is X[None]"
        raise ValueError(f"X: received {got}; accepted are {accepted}")
    return shape


def check_counts(estimator: Any, names: Sequence[str]) -> None:
    """Raises a `ValueError` unless these parameters of an estimator are integers > 0, and a batch more than one."""
    for name in names:
        check_count(name, getattr(estimator, name))
    if getattr(estimator, "batch_size", 2) < 2:
        accepted = "at least 2: of a single series its mean, and what normalises it, say nothing"
        raise ValueError(f"batch_size: received {estimator.batch_size}; accepted are {accepted}")
