"""Some of the ten digits: of MNIST, or drawn with a font where seconds count and no file is at hand."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from ..utils.seeds import generator
from .files import check_split
from .mnist import DIGITS, mnist
from .sets import DataSet

__all__ = ["digits"]

DRAWN = 2000  # digits in either part


@lru_cache(maxsize=8)
def digits(
    source: str, split: str = "train", *, which: tuple[int, ...] = tuple(range(10)), n: int | None = None
) -> DataSet:
    """Some of the ten digits, in an order that is drawn once.

    Args:
        source: "mnist", or "drawn".
        split: "train" or "test".
        which: the digits; they are labelled in this order.
        n: how many, at most; all if None.

    Shape:
        x: `(n, 1, 28, 28)`, uint8.
    """
    check_split(split)
    if source not in ("mnist", "drawn"):
        raise ValueError(f"source: received {source!r}; accepted are 'mnist' and 'drawn'")
    data = mnist(split) if source == "mnist" else _drawn(DRAWN, seed=int(split == "test"))
    rows = torch.isin(data.y, torch.tensor(which)).nonzero().flatten()
    chosen = data.subset(rows[torch.randperm(len(rows), generator=generator(0))[:n]])
    labels = (chosen.y[:, None] == torch.tensor(which)).long().argmax(1)
    return DataSet(chosen.x, labels, tuple(map(str, which)), source)


def _drawn(n: int, seed: int) -> DataSet:
    """The digits of a font in turn, each shifted at random by up to two pixels."""
    font = ImageFont.load_default(size=24)
    shift = torch.randint(-2, 3, (n, 2), generator=generator(seed)).tolist()
    x = np.zeros((n, 1, 28, 28), np.uint8)
    for i, (dx, dy) in enumerate(shift):
        image = Image.new("L", (28, 28))
        ImageDraw.Draw(image).text((14 + dx, 14 + dy), DIGITS[i % 10], fill=255, font=font, anchor="mm")
        x[i, 0] = np.asarray(image)
    return DataSet(torch.from_numpy(x), torch.arange(n) % 10, DIGITS, "drawn")
