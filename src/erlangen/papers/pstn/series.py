r"""What the experiments on time series share: the sets of the UCR archive, the four nouns of each method, training.

*Data.* The official training and test parts, as they are: the archive has normalised them. Of UWaveGestureLibraryX the
test part may not be at hand; then a quarter of its training part takes its place, and its rows say "own split": they
compare with each other, not with published numbers. w is chosen on a quarter of the training part, and models with that
weight are then trained on all of it.

*Networks.* "Approximately one million parameters" (section 5.2.2): 1.2 million with the widths of the published code,
with a localiser and without. All methods begin at the identity.

*Training.* As the published code: 200 epochs of batches of 16, Adam with a rate of 0.001, a tenth of it for the
localiser, no weight decay (the paper says 0.01), ten samples in training and in prediction, a CPAB warp of ten cells.

*Coordinates.* As in the published code they are those in an orthonormal basis of the parameters of all cells
(`CPAB(orthonormal=True)`; which of these bases differs), so that its prior and its first spread mean the same here.
Student's t ends at ten times its scale: farther, nothing is left of a series.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ...data import DataSet, DataUnavailableError, warped_bumps
from ...data import load as load_set
from ...distributions import Conditional, GlobalUniform, preset
from ...metrics import two_sample_t
from ...models import Averaged
from ...nets import SeriesCNN, SeriesLocaliser
from ...objectives import PSTN, AveragedObjective, Plain
from ...train import Config, Optimiser, TensorLoader, fit
from ...transforms import CPAB
from ...utils.seeds import seeded
from ..base import Row
from ..cache import kept

__all__ = ["OWN", "Training", "build", "data_set", "how", "name_of", "summaries", "trained"]

PUBLISHED = 200  # epochs
CELLS = 10
FARTHEST = 10.0
SHARE = 0.25  # the share of a training part set aside for choices, or in place of a test part
OWN = ", own split"  # the end of the name of a set without a test part


@dataclass(frozen=True)
class Training:
    """All that a trained model depends on.

    Attributes:
        dataset: of the UCR archive, or "bumps" for a run of seconds.
        method: "cnn", "stn" or "pstn".
        weight: w, of the divergence.
        held: whether a quarter of the training part is set aside, for choices.
        small: whether the networks are small, for a run of seconds.
    """

    dataset: str = "FaceAll"
    method: str = "pstn"
    weight: float = 0.0
    held: bool = False
    epochs: int = PUBLISHED
    batch: int = 16
    samples: int = 10
    lr: float = 1e-3
    factor: float = 0.1
    small: bool = False
    seed: int = 0

    @property
    def scale(self) -> float:
        """The warped series that it is trained on, as a share of the published code's."""
        return round(min(1.0, self.epochs * (self.samples if self.method == "pstn" else 10) / (10 * PUBLISHED)), 3)


def _bumps(split: str) -> DataSet:
    """Bumps upwards and downwards."""
    data = warped_bumps(40, 24, seed=int(split == "test"))
    sign = torch.arange(40) % 2
    return DataSet(data.x * (1 - 2 * sign)[:, None, None], sign, ("up", "down"), "bumps")


@lru_cache(maxsize=8)
def _parts(dataset: str) -> tuple[DataSet, DataSet]:
    if dataset == "bumps":
        return _bumps("train"), _bumps("test")
    data = load_set(f"ucr/{dataset}")
    try:
        return data, load_set(f"ucr/{dataset}", "test")
    except DataUnavailableError:
        return tuple(replace(part, name=data.name + OWN) for part in data.split(SHARE, seed=0))  # pyright: ignore[reportReturnType]


def name_of(dataset: str) -> str:
    """What rows call a set."""
    return _parts(dataset)[0].name.removeprefix("ucr/")


def data_set(config: Training, part: str) -> DataSet:
    """The "train", "held" or "test" part."""
    train, test = _parts(config.dataset)
    if part == "test":
        return test
    if not config.held:
        return train
    rest, held = train.split(SHARE, seed=config.seed)
    return held if part == "held" else rest


def build(config: Training) -> AveragedObjective:
    """The four nouns: a warp of time, a point or a t over it, an averaged classifier, and the bound."""
    data, transform = data_set(config, "train"), CPAB((CELLS,), orthonormal=True)
    channels, classes = data.x.shape[1], len(data.classes)
    widths = (8,) * 5 if config.small else SeriesCNN.WIDTHS if config.method == "cnn" else SeriesCNN.BEHIND
    with seeded(config.seed):
        net = SeriesCNN(channels, classes, widths=widths)
        conditional = _conditional(config, transform, channels)
    averaged = Averaged(net, transform, conditional, samples=config.samples, eval_samples=10, largest=2**14)
    if config.method == "cnn":
        return Plain(averaged)
    return PSTN(averaged, config.weight)


def _conditional(config: Training, transform: CPAB, channels: int) -> Conditional:
    if config.method == "cnn":
        return GlobalUniform.over(transform, 1).requires_grad_(False)
    small: Any = {"widths": (8, 8, 8)} if config.small else {}
    encoder = SeriesLocaliser(channels, **small)
    if config.method == "stn":
        return preset("stn", transform, encoder.features, encoder=encoder, bounds=None)
    return preset("pstn-code", transform, encoder.features, encoder=encoder, truncation=FARTHEST)


def trained(config: Training, device: str = "cpu") -> tuple[Averaged, int]:
    """The trained model, from the cache by the hash of its config, and how often training sounded an alarm."""
    objective, notes = kept(config, device, build, _train, code=(__file__,))
    return objective.averaged, int(notes["alarms"])


def how(objective: AveragedObjective, config: Training, device: str) -> Config:
    """How a model is trained: with channels last, on a GPU with its steps recorded as a graph."""
    adam, cuda = Optimiser("adam", lr=config.lr), torch.device(device).type == "cuda"
    local = {"conditional": replace(adam, lr=config.factor * config.lr)}
    return Config(
        epochs=config.epochs,
        optimiser=adam,
        groups=local if "conditional" in objective.parameter_groups() else {},
        seed=config.seed,
        accelerator="cuda" if cuda else "cpu",
        precision="bf16-mixed" if cuda else "32-true",
        graph=cuda,
        channels_last=True,
        log_every=500,
    )


def _train(objective: AveragedObjective, config: Training, device: str, **going: Any) -> dict[str, Tensor]:
    data = data_set(config, "train")
    x = data.x.to(torch.get_default_dtype())
    loader = TensorLoader(x, data.y, batch_size=config.batch, seed=config.seed, drop_last=True)
    settings = replace(how(objective, config, device), **going)
    return {"alarms": torch.tensor(len(fit(objective, loader, settings).alarms))}


def summaries(rows: list[Row], dataset: str) -> list[Row]:
    """For each method on a set the mean and the deviation over repetitions, and how likely it is not to differ.

    The t-test is against the best other method.
    """
    every: dict[str, list[float]] = {}
    for row in (row for row in rows if row["dataset"] == dataset):
        every.setdefault(row["method"], []).append(row["accuracy"])
    found: list[Row] = []
    for method, own in every.items():
        same = [row for row in rows if (row["method"], row["dataset"]) == (method, dataset)]
        values = {name: statistics.fmean(row[name] for row in same) for name in ("accuracy", "ece", "nll")}
        rival = max((own for m, own in every.items() if m != method), key=statistics.fmean, default=[])
        several = min(len(own), len(rival)) > 1
        about: Row = {"method": method, "dataset": dataset, "part": "all", "seed": 0, "scale": same[0]["scale"]}
        about |= {"repetitions": len(own), "deviation": statistics.stdev(own) if len(own) > 1 else 0.0}
        found.append(about | values | {"p": two_sample_t(own, rival) if several else 1.0})
    return found
