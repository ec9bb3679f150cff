"""MNIST and Fashion-MNIST, from their idx files, packed or not.

References:
    LeCun, Cortes and Burges, The MNIST database of handwritten digits; Xiao, Rasul and Vollgraf, Fashion-MNIST (2017).
"""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from .files import Remote, check_split, fetch, find, reading
from .sets import DataSet

__all__ = ["fashion_mnist", "mnist", "read_idx"]


class Source(NamedTuple):
    """Where a set lies: its folders, ours first, its address, and the checksums of its files."""

    folders: tuple[str, ...]
    address: str
    checksums: dict[str, str]


MNIST = Source(
    ("mnist", "MNIST/raw"),
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    {
        "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)
FASHION = Source(
    ("fashion_mnist", "fashion-mnist", "FashionMNIST/raw"),
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    {
        "train-images-idx3-ubyte": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
)
DIGITS = tuple("0123456789")
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal"),
    *("Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def read_idx(path: Path) -> np.ndarray:
    """Reads an idx file of bytes: two zeros, the type 8, the number of dimensions, the sizes, the values."""
    with reading(path):
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
            raise ValueError("no idx file of bytes")
        start = 4 + 4 * content[3]
        shape = np.frombuffer(content[4:start], ">u4").tolist()
        if len(content) - start != math.prod(shape):
            raise ValueError(f"{len(content) - start} values for the shape {tuple(shape)}")
        return np.frombuffer(bytearray(content), np.uint8, offset=start).reshape(shape)


def mnist(split: str = "train", *, download: bool = True) -> DataSet:
    """MNIST: 60,000 handwritten digits for training and 10,000 for testing.

    Args:
        split: "train" or "test".
        download: whether to fetch files that are not at hand.

    Shape:
        x: `(N, 1, 28, 28)`, uint8.
    """
    return _read("mnist", MNIST, DIGITS, split, download)


def fashion_mnist(split: str = "train", *, download: bool = True) -> DataSet:
    """Fashion-MNIST: 60,000 pictures of clothes for training and 10,000 for testing.

    Args:
        split: "train" or "test".
        download: whether to fetch files that are not at hand.

    Shape:
        x: `(N, 1, 28, 28)`, uint8.
    """
    return _read("fashion-mnist", FASHION, CLOTHES, split, download)


def _read(name: str, source: Source, classes: tuple[str, ...], split: str, download: bool) -> DataSet:
    check_split(split)
    stem = "train" if split == "train" else "t10k"
    paths = [_file(source, f"{stem}-{part}-ubyte", download) for part in ("images-idx3", "labels-idx1")]
    x, y = map(read_idx, paths)
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise ValueError(
            f"{paths[0]} and {paths[1].name}: received the shapes {x.shape} and {y.shape}; accepted are images "
            "(N, H, W) and a label for each"
        )
    with reading(paths[1]):
        return DataSet(torch.from_numpy(x).unsqueeze(1), torch.from_numpy(y).long(), classes, name)


def _file(source: Source, stem: str, download: bool) -> Path:
    remote = Remote(f"{source.address}{stem}.gz", f"sha256:{source.checksums[stem]}")
    path = find(source.folders, (f"{stem}.gz", stem))
    return path or fetch(remote, source.folders[0], download=download)
