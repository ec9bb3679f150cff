"""Figure 9: autoencoders with and without symmetries, against added rotation and the amount of data.

Each digit of MNIST is rotated once, by an angle uniform within ± the added rotation. This makes the set harder; it is
not augmentation. In the paper a VAE gets worse with rotation and with less data. AugVAE, trained on natural variations,
suffers less, and InvVAE, a VAE of prototypes, hardly at all: the paper reports 500 nats more for it.

That number is a likelihood of prototypes. Prototypes are resampled images, so it is no bound on the density of pixels.
`iwlb_pixels` beside it is one; for the other two methods both are the same. Digits at 0° were not resampled when the
set was made; the others were, and are smoother, which raises their likelihood: with 50,000 digits, for all three
methods at 90°, and for AugVAE and InvVAE at 180° too.

The autoencoders have the paper's settings, with one choice of its sweeps for all, and 6,000 steps. The symmetry models
are those of figure 8 with a third of their steps.

Measured on the first 1,000 images of the test set, in [0, 1]: the importance-weighted bound in nats with 300 samples
(`iwlb`, as the paper has it), that of pixels, and the mean squared error of reconstructions.

Time: each of nine settings has a symmetry model and three autoencoders; with ten others beside them on one GPU, ten
minutes, so about one alone. Days on a CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from matplotlib.figure import Figure

from ...metrics import iwlb
from ...models import InvVAE
from ...report.style import COLOURS
from ..base import Claim, Row, Rows, experiment
from ..draw import beside, curve, sheet
from .common import TINY, Training, data_set
from .vaes import Method, VaeTraining, trained_vae

METHODS: tuple[Method, ...] = ("vae", "augvae", "invvae")
NAMES = {"vae": "VAE", "augvae": "AugVAE", "invvae": "InvVAE"}
LINES = ("-", "--", ":")
CHUNK = 100  # samples at a time: a GPU has to wait for small ones
VAES = VaeTraining(symmetry=Training(steps=(4000, 4000)), steps=6000)


@dataclass(frozen=True)
class Config:
    """Training, the settings that are compared, and how much is measured."""

    training: VaeTraining = VAES
    methods: tuple[Method, ...] = METHODS
    rotations: tuple[int, ...] = (0, 90, 180)
    datasets: tuple[tuple[str, int], ...] = tuple((f"mnist{size}", size) for size in (50_000, 25_000, 12_500))
    inputs: int = 1000
    samples: int = 300
    device: str = "cpu"
    seed: int = 0


FULL = Config()
SMALL = Training(data="drawn", **{**TINY, "anchored": True})
SMOKE = Config(
    VaeTraining(symmetry=SMALL, latent=2, filters=(2, 2), hidden=4, steps=2, batch=8),
    rotations=(0, 180),
    datasets=(("mnist64", 64), ("mnist32", 32)),
    inputs=4,
    samples=3,
)
AT = {"rotation": 180, "train_size": 50_000}
PAPER = (
    Claim("ahead", "InvVAE above AugVAE at 180°, 50k, nats", {"method": "invvae", **AT}, "about 500", 0),
    Claim("ahead", "AugVAE above VAE at 180°, 50k, nats", {"method": "augvae", **AT}, "above", 0),
    Claim("ahead_pixels", "InvVAE above AugVAE at 180°, 50k, pixels, nats", {"method": "invvae", **AT}),
    Claim("halved", "InvVAE's change from halving the data, 180°, %", {"method": "invvae", **AT}, "< 10", None, 10),
    Claim("turned", "InvVAE's change from 0° to 180°, 50k, %", {"method": "invvae", **AT}, "almost none", None, 10),
    Claim("mse", "InvVAE's reconstruction error at 180°, 50k", {"method": "invvae", **AT}),
)


def build(config: Config, method: Method, rotation: int, size: int) -> VaeTraining:
    """The autoencoder of one setting."""
    symmetry = replace(config.training.symmetry, added=float(rotation), inputs=size, seed=config.seed)
    return replace(config.training, method=method, symmetry=symmetry, seed=config.seed)


def measured(config: Config, training: VaeTraining) -> dict[str, float]:
    """Both bounds and the error of a model, trained."""
    model = trained_vae(training, config.device)
    x = data_set(training.symmetry, "test", config.inputs).x.to(config.device)
    x = x.to(torch.get_default_dtype()) / 255
    bound = iwlb(model.log_weights, x, config.samples, chunk=CHUNK).mean().item()
    pixels = bound
    if isinstance(model, InvVAE):
        pixels = iwlb(model.pixel_log_weights, x, config.samples, chunk=CHUNK).mean().item()
    with torch.no_grad():
        mse = torch.cat([(model.reconstruct(part) - part).square().mean((1, 2, 3)) for part in x.split(500)])
    return {"iwlb": bound, "iwlb_pixels": pixels, "mse": mse.mean().item()}


def run(config: Config) -> list[Row]:
    """One row for each method and setting."""
    rows: list[Row] = []
    for dataset, size in config.datasets:
        for rotation in config.rotations:
            for method in config.methods:
                training = build(config, method, rotation, size)
                row: Row = {"method": method, "dataset": dataset, "seed": config.seed, "scale": training.symmetry.scale}
                rows.append({**row, "rotation": rotation, "train_size": size, **measured(config, training)})
    return rows


def compare(rows: list[Row]) -> list[Row]:
    """The rows, each with its lead on the method before it, and its changes with half the data and with rotation."""
    by = {(row["method"], row["rotation"], row["train_size"], row["seed"]): row for row in rows}
    for (method, rotation, size, seed), row in by.items():
        before = METHODS.index(method) - 1
        if before >= 0 and (rival := by.get((METHODS[before], rotation, size, seed))):
            row["ahead"] = row["iwlb"] - rival["iwlb"]
            row["ahead_pixels"] = row["iwlb_pixels"] - rival["iwlb_pixels"]
        if half := by.get((method, rotation, size // 2, seed)):
            row["halved"] = 100 * abs(half["iwlb"] / row["iwlb"] - 1)
        if start := by.get((method, 0, size, seed)):
            row["turned"] = 100 * abs(row["iwlb"] / start["iwlb"] - 1)
    return rows


def show(rows: Rows) -> Figure:
    """Both bounds and the error against the added rotation: colours are methods, dashes amounts of data."""
    figure, axes = sheet(1, 3, (13.5, 3.6))
    sizes = sorted({row["train_size"] for row in rows}, reverse=True)
    for panel, (name, title) in zip(
        axes, (("iwlb", "IWLB, as the paper has it"), ("iwlb_pixels", "IWLB of pixels"), ("mse", "MSE")), strict=True
    ):
        for colour, (method, label) in zip(COLOURS, NAMES.items(), strict=False):
            for size, line in zip(sizes, LINES, strict=False):
                own = [row for row in rows if (row["method"], row["train_size"]) == (method, size)]
                curve(panel, own, "rotation", name, colour=colour, label=f"{label}, {size:,}", line=line)
        panel.set(title=title, xlabel="added rotation, degrees", xticks=sorted({row["rotation"] for row in rows}))
    beside(axes[-1])
    return figure


KEYS = ("method", "dataset", "seed", "rotation", "train_size")
PARTS = ("datasets", "rotations", "methods")
EXPERIMENT = experiment(
    "sgm/figure9", run, show, full=FULL, smoke=SMOKE, paper=PAPER, keys=KEYS, compare=compare, apart=PARTS
)
