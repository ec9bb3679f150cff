"""The glyphs of the toy experiments, and digits as models of glyphs take them."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from PIL import Image
from torch import Tensor

from ...data import PosedSet, glyphs
from ...data.glyphs import nearest

__all__ = ["GLYPHS", "as_glyphs", "glyph_set", "two_inputs"]

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


def as_glyphs(x: Tensor) -> Tensor:
    """Digits for a model of glyphs: padded from 28 to 32 pixels, in three channels."""
    return torch.nn.functional.pad(x, (2, 2, 2, 2)).expand(-1, 3, -1, -1).contiguous()
