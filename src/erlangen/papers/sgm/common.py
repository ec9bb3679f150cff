"""What the experiments share: sets, the choice of group, conditionals and objectives, trained once.

Where settings differ from the paper's: poses are voted over eight turned copies and, for affine coordinates, start from
moments (centre and covariance), so that far fewer steps are needed; the angle lives on the circle; prototypes are drawn
to the middle of their orbits (`centred`), without which digits grow and colours are clipped; of few inputs some are set
aside to judge densities by (`held`). Networks of inference are narrower, two random transformations take the place of
five, the first hundredth of the steps is always blurred, densities see prototypes pooled and with noise, and rates,
warm-up and limits of the gradient are the same for all sets. With `copies=0` and `anchored=False` the inference network
is plain, as the paper's is. Densities of sprites are learned of the prototypes of the sprites as they are (`own`), see
`erlangen.objectives.TransformLikelihood`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ...data import DataSet, coloured, digits, mnist, rotated, sprites
from ...distributions import Conditional, Gaussian, SplineFlow
from ...metrics import orbit_spread
from ...models import SymmetryModel
from ...objectives import Blur, PrototypeInference, TransformLikelihood, TwoStages
from ...train import Config, Optimiser, TensorLoader, WarmupCosine, fit_symmetry, set_aside
from ...transforms import HSV, Affine, Group
from ...utils.cpu import short_floats
from ...utils.seeds import generator, seeded
from ..cache import kept
from ..store import as_bytes

__all__ = [
    "Training",
    "build",
    "data_set",
    "fast_on",
    "group_of",
    "iterated",
    "moved",
    "on_device",
    "ranges_of",
    "spread",
    "strip",
    "trained",
]

COLOUR = ("hue", "saturation", "value")
PUBLISHED = 60_000 * 512 * 5  # transformed inputs of the inference network: steps, batch, samples
HELD = 10_000  # the last images of MNIST's training set, for validation
PAYS = 5000  # steps from which a compiler pays, and less precision
JUDGES = 512  # inputs at a time of those by which a density is judged
JUDGED, PATIENCE = 20, 5  # how often a density is judged on inputs set aside, and after how many without gain it stops


@dataclass(frozen=True)
class Training:
    """All that a trained model depends on.

    Attributes:
        data: "mnist", "colour", "sprites"; "drawn" and "drawn-colour" stand in for digits where seconds count.
        added: digits are turned by up to so many degrees, each by one angle of its own.
        which: some of the ten digits.
        balanced: whether inputs are as many of each class as there are, drawn with the seed, and not the first ones.
        names: the coordinates.
        ranges: how far random transformations go, half the range of each linear coordinate.
        copies: how many turned copies vote on the pose; 0 for a plain network.
        anchored: whether poses start from moments.
        reach: for a partly invariant model, how far random rotations go, in degrees.
        centred: the weight of what keeps prototypes in the middle of their orbits.
        own: whether densities are learned of the prototypes of inputs as they are, and not of transformed inputs.
        held: the share of the inputs that is set aside, to keep the density that is best on them: of a few thousand
            inputs it learns the pose of each by heart, and takes it for the only one.
        consistency: the weight of the published code's extra loss.
        graph: whether steps on CUDA are recorded as graphs, and long trainings compiled, see `erlangen.train.Config`.
        density: a "spline" flow, a "gaussian", or a flow that is "blind" to prototypes.
    """

    data: str = "mnist"
    added: float = 15.0
    which: tuple[int, ...] = tuple(range(10))
    inputs: int = 50_000
    balanced: bool = False
    size: int = 64
    names: tuple[str, ...] = ("tx", "ty", "angle", "sx", "sy")
    ranges: float = 0.25
    copies: int = 8
    anchored: bool = True
    symmetric: bool = True
    reach: float = 180.0
    steps: tuple[int, int] = (12_000, 12_000)
    batch: int = 512
    samples: int = 2
    invertibility: float = 0.1
    centred: float = 0.01
    own: bool = False
    held: float = 0.0
    consistency: float = 0.0
    density: Literal["spline", "gaussian", "blind"] = "spline"
    inference: tuple[int, ...] = (1024, 512, 256)
    generative: tuple[int, ...] = (1024, 512, 256)
    layers: int = 6
    width: int = 256
    pool: int = 2
    noise: float = 0.1
    dropout: float = 0.1
    lr: tuple[float, float] = (1e-3, 1e-3)
    graph: bool = True
    seed: int = 0

    @property
    def scale(self) -> float:
        """The transformed inputs of the inference network as a share of the paper's, at most 1."""
        return round(min(1.0, self.steps[0] * self.batch * self.samples / PUBLISHED), 3)


SPRITES = Training(
    data="sprites",
    inputs=20_000,
    names=("tx", "ty", "angle", "scale"),
    ranges=0.3,
    symmetric=False,
    invertibility=0.0,
    centred=0.0,
    own=True,
    pool=4,
    noise=0.2,
)
COLOURS = Training(data="colour", added=0.0, names=COLOUR, anchored=False, invertibility=0.0, steps=(8000, 12_000))
TINY: Any = {
    **{"inputs": 64, "size": 16, "steps": (2, 2), "batch": 8, "samples": 1, "copies": 2, "inference": (8,)},
    **{"generative": (8,), "layers": 2, "width": 8},
}


@lru_cache(maxsize=4)
def _whole(data: str, added: float, which: tuple[int, ...], split: str, size: int) -> DataSet:
    if data == "sprites":
        return sprites(20_000 if split == "train" else 2_000, seed=int(split != "train"), size=size)
    source = digits("drawn" if data.startswith("drawn") else "mnist", split, which=which)
    if len(which) == 10 and data in ("mnist", "colour"):  # in the order of the file, the last for validation
        source = mnist(split)
        source = source.subset(torch.arange(len(source) - HELD)) if split == "train" else source
    if added:
        source = rotated(source, math.radians(added), seed=int(split != "train"))
    return coloured(source, seed=int(split != "train")) if data.endswith("colour") else source


def data_set(config: Training, split: str, n: int | None = None) -> DataSet:
    """The first n of what is trained or tested on."""
    if config.data == "sprites" and config.inputs < 1000:
        whole = sprites(config.inputs, seed=int(split != "train"), size=config.size)
    else:
        whole = _whole(config.data, config.added, config.which, split, config.size)
    if n is None and split == "train":
        n = config.inputs
    if config.balanced and split == "train":
        return _balanced(whole, n, config.seed)
    return whole.subset(torch.arange(len(whole))[:n])


def _balanced(data: DataSet, n: int | None, seed: int) -> DataSet:
    """The first ones of each class in an order that is drawn, then the second ones, up to n."""
    order = torch.randperm(len(data), generator=generator(seed))
    of_class = data.y[order, None] == torch.arange(len(data.classes))
    turn = (of_class.cumsum(0) * of_class).sum(1)  # the place of each one within its class, from 1
    return data.subset(order[turn.argsort(stable=True)][:n])


def group_of(config: Training) -> Group:
    """The transformations, with room for poses beyond the random ones."""
    if set(config.names) <= set(COLOUR):
        return HSV(
            *config.names, bounds={n: b for n, b in (("saturation", 2.301), ("value", 0.51)) if n in config.names}
        )
    wide = {"tx": 1.0, "ty": 1.0, "scale": 2.0, "sx": 2.0, "sy": 2.0, "stretch": 1.0, "shear": 1.0}
    return Affine(*config.names, factored=True, bounds={n: wide[n] for n in config.names if n in wide})


def ranges_of(config: Training) -> dict[str, tuple[float, float]]:
    """How far random transformations go (appendix C).

    Differs from the paper for saturation and value, which are hardly raised: what is clipped at 1 has lost its pose,
    and a range as far up as down clips most digits.
    """
    if set(config.names) <= set(COLOUR):
        known = {"hue": (-0.5, 0.5), "saturation": (-1.0, 0.1), "value": (-0.5, 0.01)}
        return {name: known[name] for name in config.names}
    reach = {"angle": math.radians(config.reach)}
    halves = {name: reach.get(name, config.ranges) for name in config.names}
    return {name: (-half, half) for name, half in halves.items()}


def build(config: Training) -> TwoStages:
    """The four nouns: a group, two conditionals, a symmetry model, two objectives."""
    shape = data_set(config, "test", 1).x.shape[1:]
    affine = isinstance(group := group_of(config), Affine)
    anchored = config.anchored and {"tx", "ty"} <= set(config.names)
    with seeded(config.seed):
        model = SymmetryModel.over(
            group,
            shape,
            copies=config.copies or None,
            bounded=not affine,
            anchored=anchored,
            inference=config.inference,
            generative=config.generative,
            pool=config.pool,
            noise=config.noise,
            dropout=config.dropout,
            layers=config.layers,
            width=config.width,
        )
        if config.density != "spline":
            model.conditional = _other_density(model, config)
    ranges = ranges_of(config)
    blur = Blur(3.0, max(1, config.steps[0] // 100))
    kinds: Any = {name: getattr(config, name) for name in ("symmetric", "invertibility", "centred")}
    first = PrototypeInference(model, blur=blur, ranges=ranges, samples=config.samples, **kinds)
    kinds = {"samples": 1 if config.own else config.samples, "own": config.own, "consistency": config.consistency}
    return TwoStages(first, TransformLikelihood(model, ranges=ranges, **kinds), config.steps[0])


class Blind(nn.Module):
    """Features that say nothing of an image."""

    def forward(self, x: Tensor) -> Tensor:
        """Ones, `(B, 1)`."""
        return x.new_ones(len(x), 1)


def _other_density(model: SymmetryModel, config: Training) -> Conditional:
    if config.density == "blind":
        return SplineFlow.over(model.group, 1, encoder=Blind(), bounds=None, layers=config.layers)
    inner = model.conditional
    return Gaussian.over(model.group, inner.context, encoder=inner.encoder, bounds=None)


def trained(config: Training, device: str = "cpu") -> tuple[SymmetryModel, dict[str, Tensor]]:
    """The trained model and its seconds and content: from the cache, by the hash of its config."""
    objective, notes = kept(config, device, build, _train, code=(__file__,))
    return objective.model, notes


def _train(objective: TwoStages, config: Training, device: str, **going: Any) -> dict[str, Tensor]:
    first, second = config.steps
    groups = {
        "inference": Optimiser("adamw", config.lr[0], weight_decay=1e-4, clip=3.0, schedule=_warm(first, 1e-2)),
        "density": Optimiser("adamw", config.lr[1], weight_decay=1e-4, clip=2.0, schedule=_warm(second, 0.03)),
    }
    fast = fast_on(device, config.steps, graph=config.graph)
    places: Any = {"seed": config.seed, **fast, **going}
    x, aside = set_aside(data_set(config, "train").x, config.held, seed=config.seed, batch_size=JUDGES)
    if aside is not None:
        places |= {"validate_every": max(1, second // JUDGED), "patience": PATIENCE, "monitor": "nll"}
    how = Config(steps=first + second, groups=groups, log_every=100, **places)
    loader = TensorLoader(x, batch_size=min(config.batch, len(x)), seed=config.seed, drop_last=True)
    start = time.monotonic()
    history = fit_symmetry(objective, loader, how, validation=aside)
    # A training that was resumed is timed in full by its history alone, one that started anew by this clock alone.
    seconds = max(time.monotonic() - start, history.column("seconds")[-1])
    content = history.column("content")[-1]
    return {"seconds": torch.tensor(seconds), "content": torch.tensor(content)}


def fast_on(device: str, steps: Sequence[int], *, graph: bool = True) -> dict[str, Any]:
    """How a training of so many steps is fast on a device.

    A step has thousands of small operations, which a GPU records. On a CPU products of matrices take most of the time;
    where it has instructions for bfloat16, those of long trainings are of that type.
    """
    kind, long = torch.device(device).type, sum(steps) >= PAYS
    if kind != "cuda":
        return {"accelerator": kind, "precision": "bf16-mixed" if long and short_floats() else "32-true"}
    torch.compiler.reset()  # the compiler gives up on code that it has seen with many models
    return {"accelerator": kind, "graph": graph, "compile": graph and long, "precision": "tf32-mixed"}


def _warm(steps: int, final: float) -> WarmupCosine:
    return WarmupCosine(max(1, steps // 10), final)


def moved(model: SymmetryModel, x: Tensor, ranges: Mapping[str, tuple[float, float]], views: int) -> Tensor:
    """Random elements for an orbit of each input, uniform within ranges, `(K, B, ...)`; the rest stays as it is."""
    group = model.group
    low, high = (group.origin.double().cpu().clone() for _ in range(2))
    for name, ends in ranges.items():
        low[group.names.index(name)], high[group.names.index(name)] = ends
    u = torch.rand(views, len(x), len(low), generator=generator(0), dtype=torch.float64)
    return group.element((low + (high - low) * u).to(group.bounds))


def strip(images: Tensor) -> np.ndarray:
    """Images `(N, C, H, W)` side by side as bytes, `(C, H, N W)`, for a figure."""
    return as_bytes(torch.cat(list(images), -1))


def on_device(model: SymmetryModel, x: Tensor) -> Tensor:
    """Inputs on the device and in the type of a model."""
    return model.signal(x.to(model.group.bounds.device))


@torch.no_grad()
def spread(model: SymmetryModel, x: Tensor, h: Tensor) -> float:
    """How far apart the prototypes of an orbit are, each made by one warp, as a share of how far its inputs are."""
    x, group = on_device(model, x), model.group
    views = group.act(h, x)
    found = model.element(views.flatten(0, 1)).unflatten(0, views.shape[:2])
    prototypes = group.act(group.compose(group.inverse(found), h), x)
    return (orbit_spread(prototypes).sum() / orbit_spread(views).sum()).item()


@torch.no_grad()
def iterated(model: SymmetryModel, x: Tensor, times: int) -> tuple[list[float], Tensor]:
    """The mean norm of the pose of prototypes of prototypes (figure 11), and the chain, `(times + 1, B, ...)`."""
    start, group = on_device(model, x), model.group
    whole, chain, norms = group.identity().expand(len(x), *group.element_shape), [start], []
    for _ in range(times):
        v = model.pose(chain[-1]).median
        norms.append((v - group.origin).norm(dim=-1).mean().item())
        whole = group.compose(whole, group.element(v))
        chain.append(group.act(group.inverse(whole), start))
    return norms, torch.stack(chain)
