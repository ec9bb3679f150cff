"""CIFAR-10, from the official archives (binary or python, packed or not) or from a compact lossless coding.

The python version is made of pickles, which could run any code: they are read by an unpickler that knows numpy's arrays
and nothing else. Downloads take the binary version, which has none.

References:
    Krizhevsky, Learning multiple layers of features from tiny images (2009).
"""

from __future__ import annotations

import io
import lzma
import pickle
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .files import Remote, check_split, decoded, fetch, find, reading
from .sets import DataSet

__all__ = ["cifar10"]

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
REMOTE = Remote("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530")
BINARY = ("cifar-10-batches-bin", "cifar-10-binary.tar.gz")
PYTHON = ("cifar-10-batches-py", "cifar-10-python.tar.gz")
COMPACT = "data_batch_1.med.xz"
PIXELS = 3 * 32 * 32


def cifar10(split: str = "train", *, download: bool = True) -> DataSet:
    """CIFAR-10: 50,000 small colour photographs for training and 10,000 for testing, in the order of the files.

    Args:
        split: "train" or "test".
        download: whether to fetch the archive (162 MB) if no version of it is at hand.

    Shape:
        x: `(N, 3, 32, 32)`, uint8.
    """
    check_split(split)
    source = find(("", "cifar10"), (*BINARY, *PYTHON, COMPACT)) or fetch(REMOTE, "cifar10", download=download)
    if source.name == COMPACT:
        x, y = _compact(source.parent, split)
    else:
        with reading(source):
            x, y = (_binary if source.name in BINARY else _pickled)(source, BATCHES[split])
    with reading(source):
        images = torch.from_numpy(x).view(-1, 3, 32, 32)
        return DataSet(images, torch.from_numpy(y.astype(np.int64)), CLASSES, "cifar10")


def _members(source: Path, names: Sequence[str]) -> list[bytes]:
    """The content of files in a folder or in an archive, from which nothing is unpacked onto the disk."""
    if source.is_dir():
        return [(source / name).read_bytes() for name in names]
    found: dict[str, bytes] = {}
    with tarfile.open(source) as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            file = archive.extractfile(member) if name in names else None
            if file is not None:
                found[name] = file.read()
    return [found[name] for name in names]


def _binary(source: Path, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Records of a label and 3072 values: red, green and blue planes."""
    parts = _members(source, [f"{name}.bin" for name in names])
    rows = np.concatenate([np.frombuffer(part, np.uint8).reshape(-1, 1 + PIXELS) for part in parts])
    return np.ascontiguousarray(rows[:, 1:]), rows[:, 0]


class _ArrayUnpickler(pickle.Unpickler):
    """Knows what numpy's arrays are made of, under their names of every version, and nothing else."""

    known = frozenset({("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}) | {
        (f"numpy.{core}.multiarray", "_reconstruct") for core in ("core", "_core")
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}, which no data set needs")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _pickled(source: Path, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Dictionaries with `data`, an array of 3072 values to a row, and `labels`, a list."""
    parts = [_ArrayUnpickler(io.BytesIO(part), encoding="bytes").load() for part in _members(source, names)]
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError("a batch is no dictionary")
    rows = np.concatenate([np.asarray(part[b"data"]).reshape(-1, PIXELS) for part in parts])
    if rows.dtype != np.uint8:
        raise ValueError(f"pixels of the type {rows.dtype}, where uint8 is accepted")
    return rows, np.concatenate([np.asarray(part[b"labels"]) for part in parts])


def _compact(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    files = [folder / f"{name}.med.xz" for name in BATCHES[split]]
    path = folder / "labels.npz"
    with reading(path), np.load(path, allow_pickle=False) as labels:
        y = labels[split]
    return decoded(f"cifar10-{split}", files, lambda: np.concatenate([_unpredict(file) for file in files])), y


def _unpredict(path: Path) -> np.ndarray:
    """Decodes planes G, R − G + 128 and B − G + 128, of which each pixel holds its error of median-edge prediction.

    The prediction from the north n, west w and north-west is the median of n, w and n + w − nw; all are modulo 256.

    Shape:
        file: `(3, N, 32, 32)`; result: `(N, 3, 32, 32)`.
    """
    with reading(path):
        e = np.frombuffer(lzma.decompress(path.read_bytes()), np.uint8).reshape(3, -1, 32, 32)
    e = np.ascontiguousarray(e.transpose(2, 3, 0, 1)).astype(np.int16)
    for i in range(32):
        for j in range(32):
            if i and j:
                north, west = e[i - 1, j], e[i, j - 1]
                guess = np.clip(north + west - e[i - 1, j - 1], np.minimum(north, west), np.maximum(north, west))
            else:
                guess = e[i - 1, j] if i else e[i, j - 1] if j else 0
            e[i, j] = (e[i, j] + guess) & 255
    g, r, b = e.transpose(2, 3, 0, 1)
    return np.stack([r + g - 128, g, b + g - 128], 1).astype(np.uint8)
