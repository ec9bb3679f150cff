"""Ten classes of the German traffic sign benchmark, resized to 48 × 48: a derived set, not the original pixels.

References:
    Stallkamp et al., Man vs. computer: benchmarking machine learning algorithms for traffic sign recognition (2012).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from .files import DataUnavailableError, check_split, find, reading
from .images import decode_all
from .sets import BoxedSet

__all__ = ["gtsrb10"]

CLASSES = (
    *("speed limit 50", "speed limit 30", "yield", "priority road", "keep right"),
    *("no overtaking for lorries", "speed limit 70", "speed limit 80", "road works", "no overtaking"),
)


def gtsrb10(split: str = "train") -> BoxedSet:
    """GTSRB, its ten commonest classes: 4,700 signs for training and 500 for testing.

    Derived, so there is no address to fetch it from: `ERLANGEN_DATA` has to name a folder with `gtsrb10/train.npz`.

    Args:
        split: "train" or "test".

    Returns:
        The set, with the box of each sign: pictures have a margin around it.

    Shape:
        x: `(N, 3, 48, 48)`, uint8.
    """
    check_split(split)
    path = find(("gtsrb10",), (f"{split}.npz",))
    if path is None:
        raise DataUnavailableError(
            f"gtsrb10/{split}.npz is not at hand, and is not to be downloaded; set ERLANGEN_DATA to a folder that "
            "holds it"
        )
    with reading(path), np.load(path, allow_pickle=False) as file:
        jpeg, offset, label, box = (file[key] for key in ("jpeg", "offset", "label", "bbox"))
        pictures = [lambda a=a, b=b: jpeg[a:b].tobytes() for a, b in pairwise(offset.tolist())]
        x = decode_all(f"gtsrb10-{split}", [path], pictures)
        # From pixels to the coordinates of the library.
        edges = torch.from_numpy(box).to(torch.get_default_dtype()) * (2 / x.shape[-1]) - 1
        return BoxedSet(x, torch.from_numpy(label).long(), CLASSES, "gtsrb10", edges)
