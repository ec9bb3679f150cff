"""Series of any lengths, with or without gaps, as one tensor: what is done about either is said, never guessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from ..utils.shapes import check_count

__all__ = ["Missing", "Stacked", "Unequal", "check_handling", "stack_series", "unmasked"]

Missing: TypeAlias = Literal["raise", "interpolate", "drop"]
Unequal: TypeAlias = Literal["raise", "resample", "pad"]


class Stacked(NamedTuple):
    """Series of one length, `(N, C, L)`, and which of those given they are, `(N,)`."""

    x: Tensor
    kept: Tensor


def check_handling(missing: object, unequal: object) -> None:
    """Raises a `ValueError` unless both say what to do."""
    for name, value, known in (("missing", missing, get_args(Missing)), ("unequal", unequal, get_args(Unequal))):
        if value not in known:
            raise ValueError(f"{name}: received {value!r}; accepted is one of {', '.join(map(repr, known))}")


def stack_series(
    series: Sequence[np.ndarray],
    *,
    missing: Missing = "raise",
    unequal: Unequal = "raise",
    length: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> Stacked:
    """Makes series one tensor.

    NaN is a missing value, as is what a masked array hides. A series ends where all its channels have nothing but NaN
    to the end, and `unequal` says what to do. If that is "raise" and all arrays have one length, NaN at their end are
    missing values like others, also up to the length that is asked for.

    Args:
        series: each `(L,)`, or `(C, L)` with as many channels as the others.
        missing: "raise", or "interpolate" for a straight line between the neighbours in time (at an end, the nearest
            value), or "drop" to leave out the series that lack some.
        unequal: "raise" if lengths differ, or "resample" for linear interpolation to one length, or "pad" to hold the
            last value.
        length: the one length; that of the longest if None. It cuts nothing off: "pad" refuses less than the longest.
        dtype: of the result.

    Raises:
        ValueError: series that are empty, of different channels, infinite, or too large or too small for `dtype`, or
            what `missing` and `unequal` refuse; the message names the first.

    Example:
        >>> a, b = np.array([0.0, np.nan, 2.0]), np.array([1.0, 5.0])
        >>> stack_series([a, b], missing="interpolate", unequal="pad").x.tolist()
        [[[0.0, 1.0, 2.0]], [[1.0, 5.0, 5.0]]]
    """
    check_handling(missing, unequal)
    if length is not None:
        check_count("length", length)
    whole = [_series(i, unmasked(one)) for i, one in enumerate(series)]
    trimmed = [_trim(i, one) for i, one in enumerate(whole)]
    _check_channels(trimmed)
    kept = _kept(trimmed, missing)
    longest, widths = max((trimmed[i].shape[1] for i in kept), default=0), {one.shape[1] for one in whole}
    target = length or longest
    if unequal == "raise" != missing and len(widths) == 1 and min(widths) >= target >= longest:
        # All came in one length: missing values at the end are then treated like those in the middle.
        trimmed = [one[:, :target] for one in whole]
        kept = sorted(set(kept) & set(_kept(trimmed, missing)))
    if not kept:
        got = f"{len(trimmed)} series, all with missing values" if trimmed else "no series"
        raise ValueError(f"series: received {got}; accepted is at least one that is left")
    filled = [_fill(i, trimmed[i], missing) for i in kept]
    target = _length([len(one[0]) for one in filled], unequal, length)
    x = np.stack([_stretch(one, target, unequal) for one in filled])
    return Stacked(_cast(torch.from_numpy(x), dtype, kept), torch.tensor(kept))


def _kept(series: Sequence[np.ndarray], missing: Missing) -> list[int]:
    """Which series are not left out."""
    return [i for i, one in enumerate(series) if missing != "drop" or not np.isnan(one).any()]


def unmasked(x: Any) -> np.ndarray:
    """An array; what a masked array hides is missing, and of a tensor the values count."""
    if isinstance(x, np.ma.MaskedArray):
        return np.ma.filled(x.astype(np.float64), np.nan)
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy()  # numpy has no bfloat16
    return np.asarray(x)


def _series(i: int, one: np.ndarray) -> np.ndarray:
    """A series `(C, L)` in double precision."""
    if one.dtype.kind not in "biuf" or one.ndim not in (1, 2):
        raise ValueError(
            f"series[{i}]: received {one.dtype} of shape {one.shape}; accepted are numbers of shape (L,) or (C, L)"
        )
    one = np.atleast_2d(one).astype(np.float64)
    if np.isinf(one).any():
        raise ValueError(f"series[{i}]: received infinite values; accepted are finite ones, and NaN for missing ones")
    return one


def _trim(i: int, one: np.ndarray) -> np.ndarray:
    """A series without the end at which nothing is known."""
    known = np.flatnonzero(~np.isnan(one).all(0))
    if not len(known):
        raise ValueError(f"series[{i}]: received no values at all; accepted is at least one")
    return one[:, : known[-1] + 1]


def _check_channels(series: list[np.ndarray]) -> None:
    for i, one in enumerate(series):
        if len(one) != len(series[0]):
            raise ValueError(f"series[{i}]: received {len(one)} channels; accepted is {len(series[0])}, as the first")


def _fill(i: int, one: np.ndarray, missing: Missing) -> np.ndarray:
    gaps = np.isnan(one)
    if not gaps.any():
        return one
    if missing == "raise":
        raise ValueError(
            f"series[{i}]: received {int(gaps.sum())} missing values (NaN) of {gaps.size}; accepted are none, or "
            "missing='interpolate' (stack_series and files: also missing='drop')"
        )
    if gaps.all(1).any():
        raise ValueError(f"series[{i}]: received a channel without any value; accepted is at least one in each")
    time = np.arange(one.shape[1])
    return np.stack([np.interp(time, time[~gap], row[~gap]) for row, gap in zip(one, gaps, strict=True)])


def _length(lengths: list[int], unequal: Unequal, length: int | None) -> int:
    low, high = min(lengths), max(lengths)
    wanted = high if length is None else length
    if unequal == "raise" and not low == high == wanted:
        got = f"lengths from {low} to {high}" if low != high else f"length {low}"
        asked = "" if length is None else f" for the length {length}"
        raise ValueError(
            f"unequal: received series of {got}{asked} (NaN to the end are no part of a series); accepted is one "
            "length, or unequal='resample', or unequal='pad'"
        )
    if unequal == "pad" and wanted < high:
        got = f"{wanted} for a series of {high}, of which 'pad' cuts nothing off"
        raise ValueError(f"length: received {got}; accepted is at least {high}, or unequal='resample'")
    return wanted


def _stretch(one: np.ndarray, length: int, unequal: Unequal) -> np.ndarray:
    have = one.shape[1]
    if have == length:
        return one
    if unequal == "pad":
        return np.pad(one, ((0, 0), (0, length - have)), mode="edge")
    return np.stack([np.interp(np.linspace(0, have - 1, length), np.arange(have), row) for row in one])


def _cast(x: Tensor, dtype: torch.dtype, kept: list[int]) -> Tensor:
    """Series in another type, in which the largest value of each is still a number, and not zero unless it was."""
    peak = x.abs().amax((1, 2))
    lost = peak.to(dtype).isinf() | ((peak > 0) & (peak.to(dtype) == 0))
    if lost.any():
        i = int(lost.nonzero()[0])
        got, name = f"values up to {float(peak[i]):.4g} in size", str(dtype).removeprefix("torch.")
        raise ValueError(f"series[{kept[i]}]: received {got}; accepted are those that {name} can hold; rescale them")
    _check_level(x, dtype, kept)
    return x.to(dtype)


def _check_level(x: Tensor, dtype: torch.dtype, kept: list[int]) -> None:
    """Raises a `ValueError` for series on so large a level that the type cannot tell their values apart."""
    span, peak = x.amax(-1) - x.amin(-1), x.abs().amax(-1)
    rounding = (x - x.to(dtype).to(x)).abs().amax(-1)
    # Values that differ by less than 1e-13 of their size were constant but for rounding.
    lost = (64 * rounding > span) & (span > 1e-13 * peak)
    if lost.any():
        (i, c), name = lost.nonzero()[0].tolist(), str(dtype).removeprefix("torch.")
        got = f"values up to {float(peak[i, c]):.6g} in size that differ by {float(span[i, c]):.4g}"
        raise ValueError(f"series[{kept[i]}]: received {got}; {name} cannot tell them apart; subtract their level")
