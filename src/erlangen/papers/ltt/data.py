"""The sets of the toy experiments: glyphs, and digits as they are, turned, or drawn in code."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from ...data import DataSet, PosedSet, glyphs, mnist
from ...data.glyphs import nearest
from ...utils.seeds import generator

__all__ = ["GLYPHS", "as_bytes", "as_glyphs", "digits", "glyph_set", "two_inputs"]

GLYPHS = {"glyphs-45": (math.pi / 4, 1), "glyphs-90": (math.pi / 2, 1), "glyphs-3-modes": (math.pi / 6, 3)}


@lru_cache(maxsize=8)
def glyph_set(name: str, n: int, seed: int, pair: tuple[str, ...] = ()) -> PosedSet:
    """Glyphs by the name of the set; `pair` are files with two pictures in place of ours."""
    spread, modes = GLYPHS[name]
    pictures = [Image.open(path).convert("RGB") for path in pair] or None
    return glyphs(n, spread=spread, modes=modes, seed=seed, figures=pictures)


def two_inputs(data: PosedSet, apart: float) -> list[PosedSet]:
    """Of each class the two glyphs nearest to half of `apart` on either side of the prototype, in that order."""
    every = range(len(data.classes))
    return [nearest(data, every, [side * apart / 2 for _ in every]) for side in (-1, 1)]


@lru_cache(maxsize=8)
def digits(source: str, which: tuple[int, ...], split: str, n: int | None = None) -> DataSet:
    """Some of the ten digits, labelled in the order of `which`: of "mnist", or "drawn" with a font."""
    data = mnist(split) if source == "mnist" else _drawn(2000, seed=int(split == "test"))
    rows = torch.isin(data.y, torch.tensor(which)).nonzero().flatten()
    chosen = data.subset(rows[torch.randperm(len(rows), generator=generator(0))[:n]])
    labels = (chosen.y[:, None] == torch.tensor(which)).long().argmax(1)
    return DataSet(chosen.x, labels, tuple(map(str, which)), source)


def as_glyphs(x: Tensor) -> Tensor:
    """Digits for a model of glyphs: padded from 28 to 32 pixels, in three channels."""
    return torch.nn.functional.pad(x, (2, 2, 2, 2)).expand(-1, 3, -1, -1).contiguous()


def as_bytes(x: Tensor) -> np.ndarray:
    """Images as they are kept for a figure, in uint8."""
    return (x.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()


def _drawn(n: int, seed: int) -> DataSet:
    """Stands in for MNIST where seconds count and no file is at hand: ten digits of a font, shifted at random."""
    font = ImageFont.load_default(size=24)
    shift = torch.randint(-2, 3, (n, 2), generator=generator(seed)).tolist()
    x = np.zeros((n, 1, 28, 28), np.uint8)
    for i, (dx, dy) in enumerate(shift):
        image = Image.new("L", (28, 28))
        ImageDraw.Draw(image).text((14 + dx, 14 + dy), str(i % 10), fill=255, font=font, anchor="mm")
        x[i, 0] = np.asarray(image)
    return DataSet(torch.from_numpy(x), torch.arange(n) % 10, tuple("0123456789"), "drawn")
