"""Rotations found among matrices exp [[0, b], [d, 0]], by the flow and by InstaAug (figures 3b and 5)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from ...metrics import distance_to_rotation
from .common import Training, coordinates, trained
from .data import glyph_set

__all__ = ["DISCOVERY", "Found", "discover"]

# Glyphs within ±45°, and a perceptron that is trained first and then frozen, as published: trained along, the
# classifier would learn to bear any matrix, and nothing would be left to discover. Differs from the published code:
# entries within ±π, not ±1, and α falls from 0.3 to 0.00001, and is not 0.002 from the start: the loss of a confident
# classifier is next to nothing inside its walls, which a small α keeps away from. The perceptron's weights decay.
DISCOVERY = Training(data="glyphs-45", alpha=1e-5, warm=0.3, steps=4500, frozen=2000, scatter=0.5, decay=10.0)


class Found(NamedTuple):
    """Samples of a method: entries b and d `(S, B, 2)`, and the relative distance of exp to a rotation `(S, B)`."""

    training: Training
    entries: Tensor
    distance: Tensor


def discover(training: Training, device: str, inputs: int, samples: int) -> dict[str, Found]:
    r"""What both methods find: the flow, and InstaAug with a box that turns as far as the flow does.

    In a box of half-width w the angle $(b - d) / 2$ has the variance $w^2 / 6$, so the box with the flow's variance
    $\sigma^2$ has the entropy $\log 24 \sigma^2$, and there InstaAug's is held. Differs from the published code, where
    both have the same α: then the box shrinks until it is as narrow as the flow is across, and hardly turns anything.
    """
    test = glyph_set(training.data, inputs, 10_000, training.pair)
    found: dict[str, Found] = {}
    band: tuple[float, ...] = ()
    for method in ("flow", "instaaug"):
        own = replace(training, method=method, band=band)
        model, _ = trained(own, device)
        entries = coordinates(model, test.x, samples)
        distance = distance_to_rotation(model.transform.element(entries))
        found[method] = Found(own, entries.cpu(), distance.cpu())
        if method == "flow":
            entropy = math.log(24 * ((entries[..., 0] - entries[..., 1]) / 2).var(0).mean().item())
            band = (round(entropy - 0.05, 2), round(entropy + 0.05, 2))
    return found
