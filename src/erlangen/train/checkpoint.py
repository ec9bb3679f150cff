"""Checkpoints that are whole or not there.

A checkpoint is a folder named after its step: `weights.safetensors` (with `best.safetensors` where an early stop needs
them) and `state.pt`, which `torch.load(..., weights_only=True)` reads. It is written beside its place, flushed to the
disk and renamed, and older ones go only after that: a crash at any moment leaves the last good one.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..utils.errors import reason

__all__ = ["Checkpoints", "Snapshot", "Unreadable"]

LOG = logging.getLogger("erlangen.train")
STATE = "state.pt"


# What reading a damaged file may raise: a torn pickle is read as commands, of any kind.
DAMAGED = (
    *(OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError),
    *(LookupError, TypeError, AttributeError, AssertionError, ArithmeticError),
)


class Unreadable(ValueError):
    """There are checkpoints, and none of them can be read."""


class Snapshot(NamedTuple):
    """What a checkpoint holds: sets of weights by name ("weights", "best"), and the state of everything else."""

    weights: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


class Checkpoints:
    """The checkpoints in a folder.

    Args:
        folder: where they are; it is made when the first is written.
        keep: how many stay.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def paths(self) -> list[Path]:
        """The checkpoints, the oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if p.is_dir() and p.name.isdigit())

    def last(self) -> Path | None:
        """The newest checkpoint."""
        return next(reversed(self.paths()), None)

    def write(self, step: int, snapshot: Snapshot) -> Path:
        """Writes one, then removes what is too old.

        Raises:
            OSError: the disk is full, or will not take it; what was there before is still there.
        """
        target, temporary = self.folder / f"{step:08d}", self.folder / f".{uuid.uuid4().hex}.tmp"
        try:
            temporary.mkdir(parents=True)
            for name, content in _files(snapshot).items():
                _write(temporary / name, content)
            _flush(temporary)
            if target.is_dir():  # one that could not be read, or the end of a run that goes on from there
                shutil.rmtree(target)
            os.replace(temporary, target)
            _flush(self.folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        for old in self.paths()[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def read(self) -> tuple[Path, Snapshot] | None:
        """The newest checkpoint that can be read, if there is any; says which cannot.

        Raises:
            Unreadable: there are some, but none can be read.
        """
        for left in self.folder.glob(".*.tmp"):  # left by a run that was killed while it wrote
            shutil.rmtree(left, ignore_errors=True)
        failed = []
        for path in reversed(self.paths()):
            try:
                snapshot = load(path)
            except DAMAGED as error:
                failed.append(f"{path} ({reason(error)})")
                continue
            if failed:
                LOG.warning("%s cannot be read, it is damaged; going on from %s", " and ".join(failed), path)
            return path, snapshot
        if failed:
            raise Unreadable(f"no checkpoint can be read: {'; '.join(failed)}. Use another folder to start anew")
        return None


def load(path: Path) -> Snapshot:
    """Reads a checkpoint, onto the CPU."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        state = torch.load(path / STATE, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:  # its message advises to run whatever is in the file
        raise ValueError(f"{STATE} is torn, or holds something else") from error
    try:
        weights = {name: load_file(path / f"{name}.safetensors") for name in state["weights"]}
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return Snapshot(weights, state)


def _files(snapshot: Snapshot) -> dict[str, bytes]:
    from safetensors.torch import save

    buffer = io.BytesIO()
    torch.save({**snapshot.state, "weights": list(snapshot.weights)}, buffer)
    return {
        **{f"{name}.safetensors": save(_apart(tensors)) for name, tensors in snapshot.weights.items()},
        STATE: buffer.getvalue(),
    }


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # safetensors refuses tensors that share memory; tied weights are stored once for each name.
    return {name: x.detach().cpu().clone(memory_format=torch.contiguous_format) for name, x in tensors.items()}


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    """Flushes the names in a folder to the disk; only POSIX has this, and needs it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
