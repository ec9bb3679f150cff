"""The demonstration: what each picture may do, learned from examples in a minute, and what that is good for."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..align import mean_shift
from ..data import PosedSet, glyphs
from ..data.glyphs import from_prototype, nearest
from ..distributions.circle import wrap
from ..metrics import binned_total_variation, central_span, circle_histogram, pairwise_gap, rotation_angle, share_within
from ..report.canvas import Progress, pixels
from ..report.demo import Alignment, Answer, Demonstration, Input, Turned, demo_page, demo_picture
from ..utils.io import read_jsonl, write_bytes
from ..utils.processes import processes
from ..utils.seeds import generator
from .config import RunConfig
from .runs import CONFIG, Run, as_floats, load_run, read_config, read_record
from .setting import prepare
from .training import check_folder, train_run

__all__ = ["Scale", "demo"]

METHODS = ("flow", "instaaug", "augerino", "none")  # the longest first
SHOWN = (-40.0, 40.0)  # degrees from the prototype at which both figures are shown
APART = (-30.0, 30.0)  # at which two pictures of a class are compared
STEPS = (0, 1, 2, 3, 5, 10)  # the steps of mean-shift that are shown, beside the last
NEAR = 10.0  # degrees, within which copies have met
BIN = 10  # degrees, of accuracies
QUARTER = math.pi / 2


class Scale(NamedTuple):
    """How much is trained and measured; the defaults take less than two minutes on two cores."""

    images: int = 6000
    steps: int = 1200
    batch: int = 64
    samples: int = 4000
    views: int = 9
    copies: int = 9
    turned: int = 540
    shifts: int = 20
    points: int = 32


def demo(
    folder: str | os.PathLike[str], progress: Progress | None = None, *, scale: Scale | None = None, jobs: int = 2
) -> list[Path]:
    """Trains four models on glyphs and shows what they have learned, in `demo.html` and `demo.png`.

    Glyphs are turned by at most 45° from upright or from upside down, which are classes of their own. So each may be
    turned until it is 90° from the prototype of its class, and no farther: which turns these are depends on the
    picture.

    Args:
        folder: where to. The models are run folders in it, and one that is there already goes on from where it stopped.
        progress: called with the share done, from 0 to 1, and what is being done.
        scale: how much is trained and measured.
        jobs: how many models are trained at a time, each in a process of its own.

    Returns:
        The page and the picture.

    Raises:
        ValueError: the folder has a run of other settings, or something else where a run is to be.
    """
    tell, folder, scale = progress or (lambda share, what: None), Path(os.path.expanduser(folder)), scale or Scale()
    for method in METHODS:  # refuses before anything is done
        there = (folder / method / CONFIG).exists()
        check_folder(folder / method, there)
        if there and (steps := read_config(folder / method, read_record(folder / method)).steps) != scale.steps:
            got = f"{str(folder)!r}, where {method} has {steps} steps"
            raise ValueError(f"folder: received {got}; accepted are runs of {scale.steps}, or none")
    tell(0.0, "training four models")
    _train(folder, scale, jobs, lambda share, what: tell(0.85 * share, what))
    found = _look(folder, scale, lambda share, what: tell(0.85 + 0.15 * share, what))
    files = {folder / "demo.html": demo_page(found).encode(), folder / "demo.png": demo_picture(found)}
    for path, content in files.items():
        write_bytes(path, content)
    return list(files)


def _train(folder: Path, scale: Scale, jobs: int, tell: Progress) -> None:
    """Trains all models, one thread for each: threads wait for one another whenever something else has a core."""
    with processes(jobs) as pool:
        waiting = {pool.submit(_one, method, folder / method, scale) for method in METHODS}
        while waiting:
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            steps = [_steps(folder / method) for method in METHODS]
            tell(sum(steps) / len(steps) / scale.steps, "training four models")


def _steps(folder: Path) -> int:
    """How far a run has come."""
    log = folder / "log.jsonl"
    return max((row["step"] for row in read_jsonl(log)), default=0) if log.exists() else 0


def _one(method: str, folder: Path, scale: Scale) -> None:
    config = RunConfig(
        method=method,
        transform={"tx": 0.1, "ty": 0.1, "angle": None},
        net="mlp",  # enough for four classes, and quick without a GPU
        validation=0.0,
        steps=scale.steps,
        batch_size=scale.batch,
        device="cpu",
        log_every=20,
        checkpoint_seconds=15.0,
    )
    train_run(prepare(config, glyphs(scale.images)), folder, resume=(folder / CONFIG).exists(), bar=False)


def _look(folder: Path, scale: Scale, tell: Progress) -> Demonstration:
    """What the models have learned, and what it is good for."""
    runs, pool = {method: load_run(folder / method) for method in METHODS}, glyphs(4000, spread=QUARTER, seed=1)
    tell(0.0, "what they have learned")
    inputs = _inputs(runs["flow"], pool, scale)
    answers = [_answer(runs[method], pool, scale) for method in ("augerino", "instaaug", "flow")]
    tell(0.3, "aligning turned copies")
    alignment, turned = _alignment(runs["flow"], pool, scale), _turned(runs, scale)
    tell(0.8, "drawing")
    return Demonstration(inputs, answers, alignment, turned, folder.as_posix())


def _at(pool: PosedSet, label: int, degrees: Sequence[float]) -> PosedSet:
    """Glyphs of a class at these angles from its prototype, or nearly."""
    return nearest(pool, [label] * len(degrees), [math.radians(angle) for angle in degrees])


@torch.no_grad()
def _orientations(run: Run, data: PosedSet, samples: int) -> Tensor:
    """The angles of transformed pictures from the prototype, `(S, B)`."""
    x = as_floats(data.x, run.model.transform.bounds)
    v = run.model.conditional(x).sample((samples,), generator(run.config.seed))
    return v[..., run.model.transform.names.index("angle")] + from_prototype(data)


@torch.no_grad()
def _inputs(run: Run, pool: PosedSet, scale: Scale) -> list[Input]:
    """Both figures, turned either way, with views that the flow draws."""
    found: list[Input] = []
    for label in (0, 2):
        chosen = _at(pool, label, SHOWN)
        x = as_floats(chosen.x, run.model.transform.bounds)
        v = run.model.conditional(x).sample((scale.views,), generator(run.config.seed))
        views = run.model.transform(x, v)
        for k, degrees in enumerate(from_prototype(chosen).rad2deg().tolist()):
            images = [pixels(view) for view in views[:, k]]
            found.append(Input(pixels(x[k]), run.classes[label], degrees, images))
    return found


def _answer(run: Run, pool: PosedSet, scale: Scale) -> Answer:
    """What a method has learned: for the pictures that are shown, and in numbers over many."""
    shown = [_orientations(run, _at(pool, label, SHOWN), scale.samples) for label in (0, 2)]
    many = glyphs(200, seed=2)
    every = _orientations(run, many, scale.samples // 4)
    apart = [_orientations(run, _at(pool, label, APART), scale.samples) for label in range(4)]
    variation = torch.stack([binned_total_variation(pair[:, 0], pair[:, 1]) for pair in apart])
    return Answer(
        run.config.method,
        circle_histogram(torch.cat(shown, 1)).T.double().numpy(),
        share_within(every, QUARTER).mean().item(),
        central_span(every).rad2deg().mean().item(),
        variation.mean().item(),
    )


def _alignment(run: Run, pool: PosedSet, scale: Scale) -> Alignment:
    """Copies of one picture, turned over the whole range, moved step by step to where their distribution is centred."""
    half = 80.0
    chosen = _at(pool, 0, [half * (2 * k / (scale.copies - 1) - 1) for k in range(scale.copies)])
    transform = run.model.transform
    x = as_floats(chosen.x, transform.bounds)
    path = mean_shift(x, transform, run.model.conditional, steps=scale.shifts, samples=scale.points).path
    steps = sorted({*(step for step in STEPS if step < len(path)), len(path) - 1})
    images, angles = [], []
    for step in steps:
        g = path[step]
        angles.append(from_prototype(chosen) + rotation_angle(g))
        images.append([pixels(image) for image in transform.act(g, x)])
    apart = wrap(angles[-1][:, None] - angles[-1])
    met = int((apart.abs().rad2deg() <= NEAR).sum(1).max())
    return Alignment(steps, images, [pairwise_gap(angle).rad2deg().item() for angle in angles], met)


def _turned(runs: dict[str, Run], scale: Scale) -> Turned:
    """Accuracy on pictures turned by up to 90°, twice as far as in training, with and without mean-shift."""
    data, flow = glyphs(scale.turned, spread=QUARTER, seed=3), runs["flow"]
    x = as_floats(data.x, flow.model.transform.bounds)
    moved = mean_shift(x, flow.model.transform, flow.model.conditional, steps=scale.shifts, samples=scale.points).x
    ways = {
        "plain": runs["none"].predict(x),
        "plain, after mean-shift": runs["none"].predict(moved),
        "averaged": flow.predict(x),
    }
    angle, right = from_prototype(data), {name: (y == data.y).double() for name, y in ways.items()}
    seen = angle.abs() <= QUARTER / 2
    cell = ((angle.rad2deg() + 90) // BIN).long().clamp(0, 180 // BIN - 1)
    count = torch.bincount(cell, minlength=180 // BIN)
    middle = np.arange(-90 + BIN / 2, 90, BIN)
    return Turned(
        middle,
        {name: (torch.bincount(cell, hits, 180 // BIN) / count).numpy() for name, hits in right.items()},
        {name: (hits[seen].mean().item(), hits[~seen].mean().item()) for name, hits in right.items()},
        len(data),
    )
