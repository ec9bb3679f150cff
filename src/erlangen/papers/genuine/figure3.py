r"""Figure 3: where networks look, over the orbit of an input, with all maps rotated back to one orientation.

In the paper the maps of augmentation (DA) differ from copy to copy of a digit, and those of invariance regularisation
(IR) agree; figure 1 shows the same for tied weights (WT). The networks are those of table 1, with *ours* beside them.

Measured: the saliency maps (section 4.1) of the class that is predicted for an input, at all four rotations of some
test images, and the mean cosine between the first and the others, realigned (SI, of these images alone).

Time: after table 1 seconds on a CPU; the networks are trained there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure

from ...metrics import Saliency, saliency_map, saliency_similarity
from ..base import Claim, Row, Rows, experiment
from ..draw import first, sheet
from ..store import as_bytes
from . import table1
from .common import Training, group_of, part, trained

METHODS = ("da", "ir", "wt", "ours")
GROUP = "R4"


@dataclass(frozen=True)
class Config:
    """The networks, and how many images are shown."""

    training: Training
    methods: tuple[str, ...] = METHODS
    inputs: int = 4
    steps: int = 50
    device: str = "cpu"
    seed: int = 0


FULL = Config(Training())
SMOKE = Config(table1.SMOKE.training, steps=2)
PAPER = tuple(
    Claim("SI", f"cosine of the maps that are shown, {method}", {"method": method}, said)
    for method, said in (("da", "differ"), ("ir", "well-aligned"), ("wt", "the same"), ("ours", "–"))
)


def build(config: Config, method: str) -> Training:
    """The network of table 1."""
    return table1.build(replace(table1.FULL, training=config.training, seed=config.seed), method, GROUP)


def run(config: Config) -> list[Row]:
    """One row for each method."""
    rows: list[Row] = []
    how = Saliency(steps=config.steps)
    for method in config.methods:
        training = build(config, method)
        model, group = trained(training, config.device), group_of(training).to(config.device)
        x = part(training, "test").x[: config.inputs].to(config.device) / 255
        with torch.no_grad():
            target = model(x).argmax(-1)
        elements = group.elements().unsqueeze(1)
        copies = group.act(elements, x).flatten(0, 1)
        maps = saliency_map(model, copies, target.repeat(len(group)), how)
        back = group.inverse(elements).expand(-1, len(x)).flatten()
        maps = group.act(back, maps).unflatten(0, (len(group), len(x))).transpose(0, 1).squeeze(2)
        maps = maps / maps.amax((-2, -1), keepdim=True).clamp_min(1e-12)
        row: Row = {"method": method, "group": GROUP, "dataset": training.source, "seed": config.seed}
        similar = saliency_similarity(model, x, group, saliency=how).mean.item()
        rows.append({**row, "scale": training.scale, "SI": similar, "images": as_bytes(x), "maps": as_bytes(maps)})
    return rows


def show(rows: Rows) -> Figure:
    """For each method its images, one in a row, with the maps of all four copies over them."""
    found = [row for method in METHODS if (row := first(rows, method=method))]
    lines, columns = found[0]["maps"].shape[:2]
    figure, axes = sheet(lines, columns * len(found), (2.6 * len(found), 0.72 * lines + 0.4))
    for k, row in enumerate(found):
        for line in range(lines):
            for column in range(columns):
                panel = axes[(line * len(found) + k) * columns + column]
                panel.imshow(row["images"][line, 0], cmap="gray_r", alpha=0.4, interpolation="nearest")
                panel.imshow(row["maps"][line, column], cmap="Reds", alpha=0.6, interpolation="nearest")
                panel.set(xticks=[], yticks=[])
                if line == 0:
                    angle = f"{90 * column}°"
                    panel.set_title(f"{row['method']}, {angle}" if column == 0 else angle, fontsize=8)
    return figure


KEYS = ("method", "group", "dataset", "seed")
EXPERIMENT = experiment("genuine/figure3", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
