"""Shapes, types and devices: errors that name the argument, what was received and what is accepted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TypeVar

import torch
from torch import Tensor

__all__ = [
    "NotFinite",
    "check_count",
    "check_finite",
    "check_kind",
    "check_numbers",
    "check_positive",
    "check_same",
    "check_tensor",
    "check_true",
    "check_unit",
    "check_weight",
    "compute_dtype",
    "describe",
    "eager_on_cpu",
    "expands",
    "mapped_on_cpu",
    "vector",
]


T = TypeVar("T")
LONG = 120  # characters of a value, after which nobody reads on
SEVERAL = 4  # parts of a list that are described
NEAR = 1e-3  # what rounding may add to the level of an image


def describe(x: object) -> str:
    """Says what was received, in words short enough for an error message."""
    if isinstance(x, Tensor):
        return f"a {str(x.dtype).removeprefix('torch.')} tensor of shape {tuple(x.shape)} on {x.device}"
    if isinstance(x, tuple | list) and any(isinstance(part, Tensor) for part in x):
        rest = f" and {len(x) - SEVERAL} more" if len(x) > SEVERAL else ""
        return f"{type(x).__name__} of {', '.join(map(describe, x[:SEVERAL]))}{rest}"
    words = repr(x)
    if len(words) > LONG:
        words = f"{' '.join(words.split())[:LONG]}…"
    return f"{type(x).__name__} {words}"


def check_tensor(name: str, x: object, accepted: str, ok: bool = True) -> Tensor:
    """Returns `x` when it is a tensor and `ok` holds, else raises a `ValueError` that says what is accepted."""
    if not isinstance(x, Tensor) or not ok:
        raise ValueError(f"{name}: received {describe(x)}; accepted is {accepted}")
    return x


def check_kind(name: str, x: object, kind: type[T]) -> T:
    """Returns `x` when it is an instance of a class, else raises a `ValueError`."""
    if not isinstance(x, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise ValueError(f"{name}: received {describe(x)}; accepted is {article} {kind.__name__}")
    return x


def expands(x: Tensor, y: Tensor) -> bool:
    """Whether `x` can be expanded to the shape of `y`."""
    # Of equal length, since the compilers of older torch refuse to walk along shapes that are not.
    return x.ndim <= y.ndim and all(a in (1, b) for a, b in zip(x.shape, y.shape[y.ndim - x.ndim :], strict=True))


def check_count(name: str, n: object) -> int:
    """Returns `n` when it is an integer > 0, else raises a `ValueError`."""
    if not isinstance(n, Integral) or isinstance(n, bool) or n <= 0:
        raise ValueError(f"{name}: received {describe(n)}; accepted is an integer > 0")
    return int(n)


def check_positive(name: str, x: object) -> float:
    """Returns `x` as a float when it is a finite number > 0, else raises a `ValueError`."""
    if not isinstance(x, Real) or isinstance(x, bool) or not 0 < float(x) < math.inf:
        raise ValueError(f"{name}: received {describe(x)}; accepted is a finite number > 0")
    return float(x)


def check_weight(name: str, x: object) -> float:
    """Returns `x` as a float when it is a finite number >= 0, else raises a `ValueError`."""
    if not isinstance(x, Real) or isinstance(x, bool) or not 0 <= float(x) < math.inf:
        raise ValueError(f"{name}: received {describe(x)}; accepted is a finite number >= 0")
    return float(x)


def check_numbers(name: str, x: object, accepted: str) -> Tensor:
    """Returns numbers as a tensor of default type and device, without a graph; a `ValueError` when they are none."""
    try:
        numbers = torch.as_tensor(x, dtype=torch.get_default_dtype(), device=torch.get_default_device())
        return numbers.detach().clone()
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"{name}: received {describe(x)}; accepted is {accepted}") from None


def eager_on_cpu(x: Tensor) -> bool:
    """Whether the values of `x` may be looked at: on the CPU, outside compiled, exported, traced or mapped code.

    Anywhere else a look would synchronise a device or break a graph.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or x.device.type != "cpu":
        return False
    return not torch._C._are_functorch_transforms_active()


def mapped_on_cpu(x: Tensor) -> bool:
    """Whether `x` is on the CPU, in eager code that a function transform such as `torch.func.vmap` runs."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or x.device.type != "cpu":
        return False
    return torch._C._are_functorch_transforms_active()


def check_true(name: str, ok: Tensor, received: str, accepted: str) -> None:
    """Raises a `ValueError` when some of `ok` is false, where that can be seen without a synchronisation."""
    if eager_on_cpu(ok) and not bool(ok.all()):
        bad = int((~ok).sum())
        raise ValueError(f"{name}: received {received} ({bad} of {ok.numel()} entries); accepted is {accepted}")


class NotFinite(ValueError):
    """A tensor holds a NaN or an infinity."""


def check_finite(name: str, x: Tensor) -> None:
    """Raises `NotFinite` when `x` holds a NaN or an infinity, where that can be seen without a synchronisation."""
    if x.is_floating_point() and eager_on_cpu(x):
        try:
            received = f"{describe(x)} with NaN or infinite values"
            check_true(name, torch.isfinite(x), received, "a tensor of finite values")
        except ValueError as error:
            raise NotFinite(str(error)) from None


def check_unit(name: str, x: Tensor, accepted: str = "images within [0, 1] or in uint8") -> None:
    """Raises a `ValueError` unless images have levels within [0, 1], to rounding."""
    if not ((x >= -NEAR) & (x <= 1 + NEAR)).all():  # NaN is neither
        got = f"images from {x.min().item():.4g} to {x.max().item():.4g}"
        raise ValueError(f"{name}: received {got}; accepted are {accepted}")


def check_same(name: str, x: Tensor, other: str, y: Tensor) -> None:
    """Raises a `ValueError` when two tensors are on different devices or compute in different types."""
    if x.device != y.device:
        raise ValueError(f"{name}: received {describe(x)}, but {other} is on {y.device}; accepted is the same device")
    if x.is_floating_point() and y.is_floating_point() and compute_dtype(x) != compute_dtype(y):
        raise ValueError(f"{name}: received {describe(x)}, but {other} is {y.dtype}; accepted is the same type")


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type in which geometry is computed: float64 stays, every other type becomes float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def vector(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A few numbers as a tensor, without a copy from the host, which could not be captured in a CUDA graph."""
    return torch.stack([torch.full((), v, dtype=dtype, device=device) for v in values])
