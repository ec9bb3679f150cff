"""Networks by name, for the command line."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from ..utils.shapes import check_count, describe
from .conv13 import Conv13
from .embedding import EmbeddingCNN
from .fixup import FixupResNet
from .lenet import LeNet
from .mlp import MLP
from .preact import PreActResNet18
from .series import SeriesCNN
from .small import SmallCNN

__all__ = ["NETS", "build"]

NETS = {
    "lenet": LeNet,
    "fixup": FixupResNet,
    "conv13": Conv13,
    "preact18": PreActResNet18,
    "embedding": EmbeddingCNN,
    "mlp": MLP,
    "series-cnn": SeriesCNN,
    "small-cnn": SmallCNN,
}
HIDDEN = (128,)  # the hidden layers of "mlp"


def build(name: str, *, classes: int, channels: int = 3, size: int | tuple[int, ...] = 32, **changes: Any) -> nn.Module:
    """A network that maps images `(B, channels, H, W)`, or series `(B, channels, L)`, to `(B, classes)`.

    Args:
        name: one of `NETS`.
        classes: the number of outputs, the features of "embedding".
        channels: of the inputs.
        size: of images, their side or their height and width; "lenet", "small-cnn" and "mlp" are made for it, the
            others refuse what is too small for them. Of series, `(L,)`, which "series-cnn" and "mlp" accept.
        **changes: arguments of the network that differ from its defaults.

    Raises:
        ValueError: the name is unknown, or the network can't take such inputs.

    Example:
        >>> sum(p.numel() for p in build("fixup", classes=10).parameters())
        74827
    """
    if not isinstance(name, str) or name not in NETS:
        raise ValueError(f"name: received {describe(name)}; accepted is one of {', '.join(NETS)}")
    net, sides = NETS[name], size if isinstance(size, tuple) else (size, size)
    least = min(check_count("size", side) for side in sides)
    if not issubclass(net, MLP) and issubclass(net, SeriesCNN) != (len(sides) == 1):
        series = len(sides) == 1
        fit = [other for other, kind in NETS.items() if issubclass(kind, MLP) or issubclass(kind, SeriesCNN) == series]
        got = f"{name!r} for {'series' if series else 'images'}"
        raise ValueError(f"net: received {got}; accepted is one of {', '.join(fit)}")
    if issubclass(net, MLP):
        return net(channels * math.prod(sides), **{"hidden": HIDDEN, "outputs": classes, **changes})
    if issubclass(net, LeNet | SmallCNN):
        if len(set(sides)) > 1:
            fit = [other for other, kind in NETS.items() if not issubclass(kind, LeNet | SmallCNN | SeriesCNN)]
            got = f"{name!r}, which takes squares, for images of {sides[0]}×{sides[1]} pixels"
            raise ValueError(f"net: received {got}; accepted is one of {', '.join(fit)}")
        return net(channels, classes, size=least, **changes)
    if not issubclass(net, SeriesCNN) and least < net.least:
        raise ValueError(f"size: received {size}; accepted is at least {net.least} for {name}")
    return net(channels, classes, **changes)
