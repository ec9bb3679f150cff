r"""The settings of the papers and of their published code, by name.

A preset is a family with constructor arguments. Where paper and code differ there are two, and every argument can be
changed. What a preset does not set is ours: bounds on the circle, unbiased gradients of mixtures, a tanh that keeps its
digits, exact uniform ranges.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from .base import Conditional, Coordinates
from .categorical import Categorical, crop_table
from .gaussian import Dirac, Gaussian
from .realnvp import RealNVP
from .spline import SplineFlow
from .student import StudentT
from .uniform import GlobalUniform, MeanFieldUniform

__all__ = ["PRESETS", "Preset", "preset"]


class Preset(NamedTuple):
    """A family, its arguments, and where these come from."""

    family: type[Conditional]
    arguments: dict[str, Any]
    source: str


def _softplus(x: float) -> float:
    return math.log1p(math.exp(x))


PSTN = {"alpha": 1.0, "bounds": None}
LTT_CODE = {"width": 32, "components": 10, "spread": 0.1, "limit": None, "squash": 6.0}

PRESETS: dict[str, Preset] = {
    "stn": Preset(Dirac, {}, "spatial transformer: a point, which starts at the identity"),
    "pstn-paper": Preset(StudentT, {**PSTN}, "P-STN section 4: without bounds"),
    "pstn-code": Preset(StudentT, {**PSTN, "spread": math.sqrt(_softplus(-5))}, "MNIST, time series: bias -5"),
    "pstn-code-rotated": Preset(StudentT, {**PSTN, "spread": math.sqrt(_softplus(-3))}, "rotated MNIST: bias -3"),
    "augerino-code": Preset(GlobalUniform, {"width": _softplus(0) / 2}, "CIFAR-10: softplus(0) is the whole width"),
    "lila-code": Preset(GlobalUniform, {"width": 1e-3}, "the published widths start at 0, where a softplus cannot"),
    "instaaug-rotation": Preset(MeanFieldUniform, {"spread": 1 / (1 + math.exp(2))}, "sigmoid(-2) of the room"),
    "instaaug-crops": Preset(Categorical, {}, "321 crops, whole frame favoured"),
    "ltt-paper": Preset(
        RealNVP,
        {"width": 64, "components": 10},
        "LTT section 4, CIFAR10: 12 couplings of width 64; components as its code",
    ),
    "ltt-code": Preset(RealNVP, {**LTT_CODE, "scatter": 0.2}, "CIFAR-10"),
    "ltt-code-mnist": Preset(RealNVP, {**LTT_CODE, "scatter": 0.5}, "MNIST, Fashion-MNIST, CIFAR-10-LT"),
    "ltt-code-modes": Preset(RealNVP, {**LTT_CODE, "components": 90, "scatter": 0.8}, "rotations with three modes"),
    "sgm-inference": Preset(Gaussian, {"spread": 0.01, "homoscedastic": True}, "SGM appendix C, inference network"),
    "sgm-paper": Preset(
        SplineFlow,
        {"bins": 6, "bound": 3.0, "layers": 6, "width": 256, "dropout": 0.1, "hidden": (256, 256)},
        "SGM appendix C, generative network, after the shared features",
    ),
    "sgm-code": Preset(
        SplineFlow,
        {"bins": 6, "bound": 3.0, "layers": 6, "width": 256, "dropout": 0.1, "hidden": (128, 128)},
        "the same with base layers of 128",
    ),
}


def preset(name: str, transform: Coordinates, context: int, **changes: Any) -> Conditional:
    """A conditional with published settings, over the coordinates of a transform.

    Args:
        name: one of `PRESETS`.
        transform: gives number, bounds, periodicity and identity of the coordinates.
        context: the number of features of an input.
        **changes: arguments that differ from the preset's, and `encoder`.

    Example:
        >>> from erlangen.transforms import Affine
        >>> preset("ltt-paper", Affine("angle", "scale"), 32).conditioners.width
        64
    """
    if name not in PRESETS:
        raise ValueError(f"name: received {name!r}; accepted is one of {', '.join(PRESETS)}")
    family, arguments, _ = PRESETS[name]
    arguments = arguments | changes
    if name == "instaaug-crops":
        table, logits = crop_table()
        whole = table[-1].to(transform.origin)
        if transform.features != len(whole) or not torch.equal(transform.origin, whole):
            got = f"{transform!r} with {transform.features} coordinates"
            raise ValueError(f"transform: received {got}; accepted is a Crop with centre, width and height")
        if not bool(transform.support.check(table.to(transform.bounds)).all()):
            raise ValueError(f"transform: received {transform!r}; accepted is a Crop with sizes down to 0.375")
        return Categorical(table, context, **dict[str, Any](logits=logits) | arguments)
    return family.over(transform, context, **arguments)
