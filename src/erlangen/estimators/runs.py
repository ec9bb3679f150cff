"""Run folders: what a run leaves behind, and how it becomes a model again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..models import Averaged
from ..objectives import METHODS
from ..utils.errors import reason
from ..utils.io import read_json, write_bytes, write_json
from ..utils.seeds import seeded
from ..utils.shapes import check_count, check_tensor
from .config import RunConfig, check_device
from .setting import build_model
from .sources import check_levels

__all__ = [
    "CONFIG",
    "UNFINISHED",
    "WEIGHTS",
    "Run",
    "known_device",
    "load_run",
    "load_weights",
    "read_config",
    "read_record",
    "save_weights",
    "write_record",
]

CONFIG, WEIGHTS = "config.json", "model.safetensors"
UNFINISHED = "unfinished"  # what a record says while its weights are to come
FORMAT = 2
DATA = {"name", "shape", "classes", "counts", "digest", "skipped", "normalise"}
AGAIN = "put back a copy of it, or start a new run in another folder"


@dataclass(frozen=True)
class Run:
    """A trained model with what it was trained on.

    Attributes:
        folder: where it is kept.
        config: its settings.
        model: the averaged classifier, in evaluation mode.
        record: what `config.json` holds.
    """

    folder: Path
    config: RunConfig
    model: Averaged
    record: Mapping[str, Any]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(self.record["data"]["classes"])

    @property
    def averages(self) -> bool:
        """Whether its predictions are averaged over views."""
        return METHODS[self.config.method].averages

    def predict(self, x: Tensor) -> Tensor:
        """The most probable class of each image, an index into `classes`.

        Shape:
            x: `(B, C, H, W)`, uint8 or in [0, 1]; result: `(B,)`.
        """
        return self.log_probs(x).argmax(-1)

    def log_probs(self, x: Tensor, *, averaged: bool | None = None, batch_size: int = 32) -> Tensor:
        """The log-probability of each class: the same at every call, and in any batch.

        Args:
            x: images, `(B, C, H, W)`, uint8 or in [0, 1].
            averaged: whether over views; as the method does if None.
            batch_size: images at a time.

        Shape:
            result: `(B, K)`.
        """
        averaged, shape = self.averages if averaged is None else averaged, tuple(self.record["data"]["shape"])
        ok = isinstance(x, Tensor) and x.ndim > 1 and tuple(x.shape[1:]) == shape and len(x) > 0
        what = "images" if len(shape) == 3 else "series"
        check_tensor("x", x, f"{what} {('B', *shape)}, as the run was trained on", ok)
        check_levels("x", x)
        like = self.model.transform.bounds
        parts = x.split(check_count("batch_size", batch_size))
        return torch.cat([self._some(as_floats(part, like), averaged) for part in parts])

    @torch.no_grad()
    def _some(self, x: Tensor, averaged: bool) -> Tensor:
        if not averaged:
            return self.model.classify(x).log_softmax(-1)
        model = copy(self.model)
        model.points = "common"
        with seeded(self.config.seed):
            return model(x).log_probs


def as_floats(x: Tensor, like: Tensor) -> Tensor:
    """Images in [0, 1], of the type and on the device of another tensor."""
    return x.to(like) / 255 if x.dtype == torch.uint8 else x.to(like)


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Writes `config.json`."""
    write_json(folder / CONFIG, {"format": FORMAT, **record})


def read_record(folder: Path) -> dict[str, Any]:
    """What `config.json` holds.

    Raises:
        ValueError: it is missing, damaged or of another version.
    """
    if not (folder / CONFIG).is_file():
        what = "holds no run" if folder.is_dir() else "is no folder" if folder.exists() else "does not exist"
        raise ValueError(f"run: received {str(folder)!r}, which {what}; accepted is a folder that a fit has made")
    try:
        record = read_json(folder / CONFIG)
    except ValueError as error:
        raise ValueError(f"{error}; {AGAIN}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        got = record.get("format") if isinstance(record, dict) else None
        raise ValueError(f"{folder / CONFIG}: received the format {got!r}; accepted by this version is {FORMAT}")
    parts = [record.get(name) for name in ("config", "data")]
    if not all(isinstance(part, dict) for part in parts) or not set(record["data"]) >= DATA:
        raise ValueError(f"{folder / CONFIG}: damaged, some of it is missing; {AGAIN}")
    return record


def read_config(folder: Path, record: Mapping[str, Any]) -> RunConfig:
    """The settings in a record.

    Raises:
        ValueError: they are damaged or of another version.
    """
    try:
        config = RunConfig.read(record["config"])
        if config.method not in METHODS:
            raise ValueError(f"method: received {config.method!r}; accepted is one of {', '.join(METHODS)}")
    except (KeyError, TypeError, ValueError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{folder / CONFIG}: damaged, or of another version ({why}); {AGAIN}") from error
    return config


def save_weights(folder: Path, model: nn.Module) -> None:
    """Writes `model.safetensors`, whole or not at all."""
    from safetensors.torch import save

    weights = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    write_bytes(folder / WEIGHTS, save(weights))


def load_weights(folder: Path, model: nn.Module) -> None:
    """Puts `model.safetensors` into a model, in the precision in which it was trained."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(folder / WEIGHTS)
        kinds = {weights[name].dtype for name, _ in model.named_parameters() if name in weights}
        if len(kinds) == 1:
            model.to(kinds.pop())
        model.load_state_dict(weights)
    except (SafetensorError, RuntimeError) as error:
        again = "a run that is resumed writes it again from its checkpoint"
        raise ValueError(f"{folder / WEIGHTS}: not readable ({reason(error)}); {again}") from error


def load_run(folder: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Run:
    """The model of a run folder, with its weights, ready to predict.

    Args:
        folder: what `fit_run` or `erlangen fit` has written.
        device: where the model goes.

    Raises:
        ValueError: there is no run, it was not finished, its files are damaged, or this machine lacks the device; the
            message says which.
    """
    device = known_device(device)
    folder = Path(os.path.expanduser(folder))
    record = read_record(folder)
    missing = not (folder / WEIGHTS).is_file()
    if missing or record.get(UNFINISHED):
        what = f"has no {WEIGHTS}" if missing else "goes on, or was stopped as it was made longer"
        go_on = "go on with it: resume=True, or `erlangen fit --resume --output`"
        raise ValueError(f"run: received {str(folder)!r}, which {what}: it was not finished; {go_on}")
    config = read_config(folder, record)
    model = build_model(config, record["data"])
    load_weights(folder, model)
    return Run(folder, config, model.to(device).eval(), record)


def known_device(device: torch.device | str) -> torch.device:
    """A device that this machine has."""
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device: received {device!r}; accepted is one of torch, such as 'cpu' or 'cuda'") from error
    if known.type in ("cuda", "mps"):
        check_device(known.type)
    return known
