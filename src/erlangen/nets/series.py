"""The networks of the probabilistic spatial transformer on time series: localiser and classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import check_count, describe
from .inputs import check_dropout, check_series

__all__ = ["SeriesCNN", "SeriesLocaliser"]


class SeriesLocaliser(nn.Module):
    """Three convolutions with batch normalisation and ReLU, means over time, dropout: features of P-STN's localiser.

    The heads of a conditional are linear on these features, and begin at the identity: `Dirac` for the spatial
    transformer, `StudentT` for its probabilistic kind. The paper gives "approximately one million parameters" for all
    models on series; widths, kernels and dropout are those of the published code, 85 thousand of the 1.2 million. So
    is the one mean over all of time, which hardly knows *when* something happens: a localiser that has to find that
    needs several bins.

    Args:
        channels: of the series; they share what comes of it, such as a warp of time.
        widths: of the convolutions, the last is the number of features.
        kernels: their lengths.
        bins: in how many parts of time means are taken.
        dropout: the probability of dropping a feature.

    Shape:
        input: `(B, channels, L)`; result: `(B, widths[-1] * bins)`.

    References:
        | P. Schwöbel et al. Probabilistic spatial transformer networks (2022), section 5.2.2.
    """

    def __init__(
        self,
        channels: int = 1,
        *,
        widths: Sequence[int] = (64, 164, 64),
        kernels: Sequence[int] = (8, 5, 3),
        bins: int = 1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        self.body = _convolutions(channels, widths, kernels)
        self.bins = check_count("bins", bins)
        self.features = widths[-1] * bins
        self.dropout = nn.Dropout(check_dropout(dropout))

    def forward(self, x: Tensor) -> Tensor:
        """The features of each series."""
        h = self.body(check_series(x, self.channels).unsqueeze(2)).squeeze(2)
        return self.dropout(h.mean(-1) if self.bins == 1 else F.adaptive_avg_pool1d(h, self.bins).flatten(1))


class SeriesCNN(nn.Module):
    """P-STN's classifier of series: five convolutions with batch normalisation and ReLU, the mean over time, a linear.

    The defaults are the baseline without localiser, 1.2 million parameters; behind a localiser the widths are
    `BEHIND`, which makes the two together as large. Sizes are those of the published code, see `SeriesLocaliser`;
    whether its convolutions pad is not known: here they do, so that any length is accepted.

    Args:
        channels: of the series.
        classes: the number of outputs.
        widths: of the convolutions.
        kernels: their lengths.
        dropout: the probability of dropping a feature of the mean.

    Shape:
        input: `(B, channels, L)`; result: logits `(B, classes)`.

    Example:
        >>> sum(p.numel() for p in SeriesCNN(1, 14).parameters())
        1195126
    """

    WIDTHS = (164, 256, 256, 256, 256)
    BEHIND = (196, 256, 256, 256, 64)

    def __init__(
        self,
        channels: int = 1,
        classes: int = 10,
        *,
        widths: Sequence[int] = WIDTHS,
        kernels: Sequence[int] = (8, 8, 5, 5, 3),
        dropout: float = 0.25,
    ) -> None:
        super().__init__()
        check_count("classes", classes)
        self.body = SeriesLocaliser(channels, widths=widths, kernels=kernels, dropout=dropout)
        self.last = nn.Linear(self.body.features, classes)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        return self.last(self.body(x))


def _convolutions(channels: int, widths: Sequence[int], kernels: Sequence[int]) -> nn.Sequential:
    """Convolutions that keep the length, without bias, which the normalisation would cancel.

    They are those of pictures one pixel high, `(B, C, 1, L)`: only these can have channels last, which is
    faster.
    """
    for name, sizes in (("widths", widths), ("kernels", kernels)):
        if not isinstance(sizes, Sequence) or not sizes:
            raise ValueError(f"{name}: received {describe(sizes)}; accepted is a sequence of numbers, such as (8, 5)")
    if len(widths) != len(kernels):
        raise ValueError(f"kernels: received {len(kernels)} for {len(widths)} widths; accepted are as many")
    layers: list[Any] = []
    for width, kernel in zip(widths, kernels, strict=True):
        for name, size in (("widths", width), ("kernels", kernel)):
            check_count(name, size)
        # An even kernel needs one more on one side.
        pad = nn.ZeroPad2d(((kernel - 1) // 2, kernel // 2, 0, 0)) if kernel % 2 == 0 else None
        conv = nn.Conv2d(channels, width, (1, kernel), padding=(0, 0 if pad else kernel // 2), bias=False)
        layers += [*([pad] if pad else []), conv, nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers)
