"""Figure 3: a flow represents sets of transformations that depend on the input, are joint, and have several modes.

(a) Three inputs with different sets of transformations that cost nothing: Augerino's range, shared by all, is too
small; InstaAug's boxes cannot follow a set that is not aligned with the axes; the flow fills each set. (b) Rotations
among matrices with two free entries: a box of InstaAug's, when it rotates as far as the flow, cannot follow b = −d. (c)
Glyphs within ±90°, whose classes touch: Augerino's shared range must shrink to nothing. (d) Glyphs with three modes:
InstaAug's arc cannot have three.

Measured: (a) the share of samples in the set and the share of the set that has at least a tenth of its even share of
samples, in cells; (b) the median relative distance to the nearest rotation; (c) the share within ±90° of the prototype
and the half-range; (d) for each input the mass of the least-covered arc and the mass outside the arcs, then the mean.

Time: 12 minutes for each seed on a GPU that ten runs share, two hours on a core of a CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from ...metrics import arc_masses, circle_histogram, half_range, share_within
from ..base import Claim, Row, Rows, experiment
from ..draw import NAMES, TINTS, first, polar, sheet
from .common import Method, Training, orientations, trained
from .data import GLYPHS, glyph_set
from .discovery import DISCOVERY, discover
from .landscape import OUTLINES, SETS, Toy, coverage, sampled

METHODS: tuple[Method, ...] = ("augerino", "instaaug", "flow")
TOY, TOUCHING = Toy(), Training(data="glyphs-90")
# Every component is tried at every step, whatever its weight, so that none is forgotten before it has found a mode.
EACH = {"points": "enumerated", "samples": 10, "batch": 32}
MODES = Training(data="glyphs-3-modes", scatter=1.0, steps=3000, warm=0.3, alpha=0.1, **EACH)


@dataclass(frozen=True)
class Config:
    """Training of each part, how much is measured, and files with two pictures in place of our glyphs."""

    toy: Toy = TOY
    discovery: Training = DISCOVERY
    touching: Training = TOUCHING
    modes: Training = MODES
    inputs: int = 200
    samples: int = 1000
    pair: tuple[str, ...] = ()
    device: str = "cpu"
    seed: int = 0


FULL = Config()
TINY = Training(steps=2, batch=8, samples=2, burn_in=1, inputs=64, layers=2)
SMOKE = Config(
    toy=Toy(steps=3, batch=6, layers=2),
    discovery=replace(TINY, frozen=2, alpha=0.002),
    touching=replace(TINY, data="glyphs-90"),
    modes=replace(TINY, data="glyphs-3-modes"),
    inputs=8,
    samples=50,
)
PAPER = (
    Claim("covered", "a: share of the diagonal strip covered, Augerino", {"method": "augerino", "dataset": SETS[1]}),
    Claim("covered", "a: the same, InstaAug", {"method": "instaaug", "dataset": SETS[1]}, "“cannot handle”"),
    Claim("covered", "a: the same, flow", {"method": "flow", "dataset": SETS[1]}, "“largest possible”", 0.8),
    Claim("distance", "b: median distance to a rotation, InstaAug", {"method": "instaaug", "part": "b"}, "“fails”"),
    Claim("distance", "b: median distance to a rotation, flow", {"method": "flow", "part": "b"}, "small"),
    Claim("ratio", "b: the flow's as a multiple of InstaAug's", {"method": "flow", "part": "b"}, "–", None, 1 / 3),
    Claim("half_range", "c: half-range, degrees, Augerino", {"method": "augerino", "part": "c"}, "0"),
    Claim("half_range", "c: half-range, degrees, InstaAug", {"method": "instaaug", "part": "c"}),
    Claim("half_range", "c: half-range, degrees, flow", {"method": "flow", "part": "c"}, "90", 75),
    Claim("within", "c: share within ±90° of the prototype, flow", {"method": "flow", "part": "c"}, "all", 0.97),
    Claim("least", "d: least-covered of three arcs, InstaAug", {"method": "instaaug", "part": "d"}, "“fails”"),
    Claim("least", "d: least-covered of three arcs, flow", {"method": "flow", "part": "d"}, "1/3, ideally", 0.2),
    Claim("outside", "d: mass outside the arcs, InstaAug", {"method": "instaaug", "part": "d"}),
    Claim("outside", "d: mass outside the arcs, flow", {"method": "flow", "part": "d"}, "0, ideally", None, 0.05),
)


def build(config: Config, training: Training, method: Method) -> Training:
    """The same transform, classifier and weight α for all; the family of the distribution differs."""
    return replace(training, method=method, pair=config.pair, seed=config.seed)


def run(config: Config) -> list[Row]:
    """One row for each part, method and set."""
    rows: list[Row] = []

    def add(part: str, method: str, dataset: str, **values: object) -> None:
        rows.append({"part": part, "method": method, "dataset": dataset, "seed": config.seed, **values})

    for method in METHODS:
        v = sampled(replace(config.toy, method=method, seed=config.seed), 20 * config.samples, config.device)
        inside, covered = coverage(v)
        for k, name in enumerate(SETS):
            scores = {"inside": inside[k].item(), "covered": covered[k].item()}
            add("a", method, name, scale=1.0, **scores, points=v[:500, k].float().numpy())
    training = build(config, config.discovery, "flow")
    found = discover(training, config.device, config.inputs, config.samples)
    medians = {method: f.distance.median().item() for method, f in found.items()}
    for method, (own, v, _) in found.items():
        scores = {"distance": medians[method], "ratio": medians[method] / medians["instaaug"]}
        add("b", method, own.data, scale=own.scale, **scores, points=v[:, :5].flatten(0, 1)[:1000].float().numpy())
    for part, training, methods in (("c", config.touching, METHODS), ("d", config.modes, METHODS[1:])):
        spread, modes = GLYPHS[training.data]
        test = glyph_set(training.data, config.inputs, 10_000, config.pair)
        for method in methods:
            own = build(config, training, method)
            angle = orientations(trained(own, config.device)[0], test, config.samples, modes)
            mass = arc_masses(angle, modes, spread)
            scores = {"half_range": half_range(angle).rad2deg().mean().item()}
            scores |= {"within": share_within(angle, spread).mean().item()} if part == "c" else {}
            scores |= {"least": mass.amin(0).mean().item(), "outside": 1 - mass.sum(0).mean().item()}
            curve = circle_histogram(angle[:, :4], 36).T.float().numpy()
            add(part, method, training.data, scale=own.scale, **scores, histogram=curve)
    return rows


def show(rows: Rows) -> Figure:
    """One line of panels for each method."""
    kinds = (None, None, None, None, "polar", "polar")
    figure, axes = sheet(3, 6, (12, 6), kinds)
    titles = (*(f"(a) {name}" for name in SETS), "(b) entries b, d", "(c) ±90°", "(d) three modes")
    for line, method in enumerate(METHODS):
        panels = axes[6 * line : 6 * line + 6]
        wanted = [("a", name) for name in SETS] + [("b", None), ("c", None), ("d", None)]
        for panel, (part, name), title in zip(panels, wanted, titles, strict=True):
            row = first(rows, part=part, method=method, **({"dataset": name} if name else {}))
            panel.set_title(title if line == 0 else "", fontsize=9)
            if row is None:
                panel.set_axis_off()
            elif part in "ab":
                panel.plot(*row["points"].T, ".", color=TINTS[method], markersize=2)
                end = 1 if name else math.pi
                panel.fill(
                    *zip(*OUTLINES.get(name or "", ((-end, end), (end, -end))), strict=True), fill=False, linestyle=":"
                )
                panel.set(xlim=(-end, end), ylim=(-end, end), aspect="equal", xticks=(), yticks=())
            else:
                polar(panel, row["histogram"][0], TINTS[method])
        panels[0].set_ylabel(NAMES[method])
    return figure


KEYS = ("part", "method", "dataset", "seed")
EXPERIMENT = experiment("ltt/figure3", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS)
