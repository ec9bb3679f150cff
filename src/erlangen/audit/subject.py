"""What is audited: a model behind its preprocessing, called in a way that names what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..metrics.outputs import are_probabilities, check_several, classify, measuring
from ..utils.errors import is_memory, reason
from ..utils.shapes import describe
from .loading import load_model, scores_of

__all__ = ["Preprocess", "Subject", "subject_of"]

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue in grey, as Pillow has them (ITU-R 601-2)


@dataclass(frozen=True)
class Preprocess:
    r"""What a model wants done to images in [0, 1]: $(r \cdot \mathrm{resize}(x) - \mu) / \sigma$.

    It comes after a transformation, never before: outside the frame is black, not the mean colour.

    Args:
        size: the side, or height and width, to which images are resized; theirs if None.
        mean: of each channel, or of all; it becomes a tuple.
        std: the same.
        channels: how many the model takes: grey images are copied to so many; images in colour become grey for 1.
        range: $r$, the greatest value of a pixel before mean and std: 1, or 255 for a model that takes bytes.
        channels_last: whether the model takes `(B, H, W, C)`, as those of TensorFlow do, in place of `(B, C, H, W)`.
    """

    size: int | tuple[int, int] | None = None
    mean: float | Sequence[float] = (0.0,)
    std: float | Sequence[float] = (1.0,)
    channels: int | None = None
    range: float = 1.0
    channels_last: bool = False

    def __post_init__(self) -> None:
        sides = self.size if isinstance(self.size, tuple) else (1 if self.size is None else self.size,) * 2
        if len(sides) != 2 or not all(isinstance(n, int) and n > 0 for n in sides):
            raise ValueError(f"size: received {self.size!r}; accepted is a number of pixels, or (height, width)")
        if self.channels is not None and (not isinstance(self.channels, int) or self.channels < 1):
            raise ValueError(f"channels: received {self.channels!r}; accepted is an integer > 0")
        for name, what in (("mean", "finite numbers"), ("std", "numbers > 0")):
            given = getattr(self, name)
            values = _numbers(given)
            if not values or not all(math.isfinite(v) and (v > 0 or name == "mean") for v in values):
                accepted = f"{what}, one or one for each channel"
                raise ValueError(f"{name}: received {describe(given)}; accepted are {accepted}")
            object.__setattr__(self, name, values)
        if not 0 < self.range < math.inf:
            raise ValueError(f"range: received {self.range!r}; accepted is a finite number > 0, such as 1 or 255")

    def __call__(self, x: Tensor) -> Tensor:
        """Images as the model wants them, `(B, C, H, W)` to `(B, C', H', W')` or `(B, H', W', C')`."""
        x = self._channels(x)
        size = (self.size, self.size) if isinstance(self.size, int) else self.size
        if size is not None and tuple(x.shape[-2:]) != size:
            x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
        moments = {"mean": _numbers(self.mean), "std": _numbers(self.std)}
        for name, values in moments.items():
            if len(values) not in (1, x.shape[1]):
                channels = "1 channel" if x.shape[1] == 1 else f"{x.shape[1]} channels"
                accepted = "one" if x.shape[1] == 1 else f"one, or {x.shape[1]}, one for each channel"
                raise ValueError(
                    f"{name}: received {len(values)} numbers for images of {channels}; accepted is {accepted}"
                )
        mean, std = (x.new_tensor(values).view(-1, 1, 1) for values in moments.values())
        found = (self.range * x - mean) / std
        return found.movedim(1, -1).contiguous() if self.channels_last else found

    def _channels(self, x: Tensor) -> Tensor:
        given = x.shape[1]
        if self.channels in (None, given):
            return x
        if given == 1:
            return x.expand(-1, self.channels, -1, -1)
        if self.channels == 1 and given == 3:
            return (x * x.new_tensor(LUMA).view(-1, 1, 1)).sum(1, keepdim=True)
        raise ValueError(
            f"channels: received {self.channels} for images of {given}; accepted is {given}, or 1 for grey"
        )


def _numbers(given: object) -> tuple[float, ...]:
    """The numbers in a number, or in a sequence, an array or a tensor of one dimension; none in anything else."""
    try:
        found = np.atleast_1d(np.asarray(given, np.float64))
    except (TypeError, ValueError, RuntimeError):  # of words, of rows that differ, of a tensor with a gradient
        return ()
    return tuple(found.tolist()) if found.ndim == 1 else ()


class Subject(nn.Module):
    """A model behind its preprocessing, from images in [0, 1] to finite logits.

    Args:
        call: from images to logits, or to probabilities.
        preprocess: what is done to images before.
        dtype: of the images that the model takes; torch's default if None.
        name: what to call it.
        names: of its outputs, if it has them.

    Shape:
        x: `(B, C, H, W)`; result: `(B, K)`.
    """

    def __init__(
        self,
        call: Callable[[Tensor], Any],
        preprocess: Preprocess,
        dtype: torch.dtype | None = None,
        *,
        name: str = "",
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.call, self.preprocess, self.name, self.names = call, preprocess, name, names
        self.dtype = dtype or torch.get_default_dtype()
        self.probabilities = self.differentiable = self.random = False
        self.classes = 0

    @property
    def device(self) -> torch.device:
        """Where its weights are; the processor where it has none."""
        return next((w.device for w in self.parameters()), torch.device("cpu"))

    def forward(self, x: Tensor) -> Tensor:
        """The logits; the logarithms of probabilities, if that is what the model gives."""
        found = self._logits(x)
        # Probabilities that rounding cannot tell from zero would otherwise become logits without bound.
        return found.clamp_min(torch.finfo(found.dtype).eps).log() if self.probabilities else found

    def _logits(self, x: Tensor) -> Tensor:
        # Half precision is too coarse for bytes less their mean, and cannot be resized: only the result is in it.
        wide = torch.promote_types(self.dtype, torch.float32)
        images = self.preprocess(x.to(wide)).to(self.dtype)
        found = classify(self._asked, images)
        bad = int((~found.isfinite()).any(-1).sum())
        if bad:
            raise ValueError(
                f"model: received NaN or infinite logits for {bad} of {len(x)} images; accepted are finite logits"
            )
        return found.to(x.dtype)

    def _asked(self, images: Tensor) -> Any:
        """The output of the model; a `ValueError` that names the images if it fails."""
        try:
            return scores_of(self.call(images))
        except Exception as error:  # a model of other people fails in any way
            if is_memory(error):
                raise
            hint = "set size, channels, channels_last, range, mean and std to what it was trained with"
            raise ValueError(
                f"model: received images {tuple(images.shape)}, for which it fails ({reason(error)}); accepted is a "
                f"model for such images: {hint}"
            ) from error

    def _differentiable(self, x: Tensor) -> bool:
        """Whether a gradient reaches the images: behind a part that stops it, weights have theirs nevertheless."""
        with torch.enable_grad():
            inputs = x.clone().requires_grad_()
            try:
                logits = self._logits(inputs)
                return torch.autograd.grad(logits.sum(), inputs, allow_unused=True)[0] is not None
            except (RuntimeError, ValueError) as error:  # no gradient, no derivative, or images taken for arrays
                if is_memory(error):
                    raise
                return False

    def probe(self, x: Tensor, seed: int = 0) -> None:
        """Calls the model for the first time, with some of the images, and learns what it gives.

        Raises:
            ValueError: it fails, or gives something else than logits of two classes or more; the message says so.
        """
        with measuring(seed, self):
            with torch.no_grad():
                found, again = self._logits(x), self._logits(x)
            self.differentiable = self._differentiable(x)  # after the model has worked for these images
        self.classes = found.shape[1]
        self.random = not torch.allclose(found, again, rtol=1e-3, atol=1e-4)  # rounding may depend on the threads
        check_several(found)
        self.probabilities = are_probabilities(found)


def subject_of(model: object, x: Tensor, preprocess: Preprocess, seed: int = 0) -> Subject:
    """A model that has been called once with some of the images in [0, 1], so that it is known to work."""
    loaded = load_model(model)
    subject = Subject(loaded.call, preprocess, loaded.dtype, name=loaded.name, names=loaded.classes)
    subject.probe(x.to(subject.device), seed)
    return subject
