"""Where the files of data sets are: a folder of the user's, the cache, or, when asked for and in neither, the network.

`ERLANGEN_DATA` names a folder that is looked at first; `ERLANGEN_CACHE` one to keep downloads in, in place of the
operating system's. Downloads are checked against known checksums, and one that was cut short goes on where it stopped.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import pickle
import tarfile
import uuid
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock

__all__ = [
    "DataUnavailableError",
    "Remote",
    "alone",
    "cache_folder",
    "check_split",
    "decoded",
    "fetch",
    "find",
    "naming",
    "reading",
]


# What reading a file raises that lacks something, is cut short, or is not what it should be.
BROKEN = (
    *(EOFError, FileNotFoundError, KeyError, ValueError, pickle.UnpicklingError),
    *(gzip.BadGzipFile, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error),
)


class DataUnavailableError(OSError, ValueError):
    """A data set is neither at hand nor to be had; the message says what to do."""


class Remote(NamedTuple):
    """A file on the network: its address and its checksum, as "md5:…" or "sha256:…"."""

    url: str
    checksum: str

    @property
    def file(self) -> str:
        """Its name."""
        return self.url.rpartition("/")[2]


def cache_folder() -> Path:
    """The folder for what can be had or made again: `ERLANGEN_CACHE`, else the operating system's cache."""
    if folder := os.environ.get("ERLANGEN_CACHE"):
        return Path(os.path.expanduser(folder))
    import pooch

    return Path(pooch.os_cache("erlangen"))


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Lets one process of this machine at a time work on a file. The lock is in the cache, not beside the file."""
    name = hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:24]
    lock = FileLock(cache_folder() / "locks" / f"{name}.lock")
    with suppress(OSError):  # without a place for locks there is none
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _roots() -> list[Path]:
    folder = os.environ.get("ERLANGEN_DATA")
    if not folder:
        return [cache_folder() / "data"]
    if not Path(os.path.expanduser(folder)).is_dir():
        raise ValueError(f"ERLANGEN_DATA: received {folder!r}, which is no folder; accepted is a folder of data sets")
    return [Path(os.path.expanduser(folder)), cache_folder() / "data"]


def find(folders: Sequence[str], names: Sequence[str]) -> Path | None:
    """The first of the files (or folders) `names` in any of `folders`, in the user's folder and then in the cache."""
    paths = (root / folder / name for root in _roots() for folder in folders for name in names)
    return next((path for path in paths if path.exists()), None)


def fetch(remote: Remote, folder: str, *, download: bool = True) -> Path:
    """Downloads a file into `folder` of the cache, and checks it. While a process does, others wait, and then have it.

    Args:
        remote: the file.
        folder: its place in the cache.
        download: whether to use the network; if not, the file is simply missing.

    Raises:
        DataUnavailableError: it could not be had; the message says where it was looked for and what to do.
    """
    if not download:
        raise _unavailable(remote, folder, "downloads are switched off")
    import pooch
    import urllib3

    place = cache_folder() / "data" / folder
    resume = partial(_resume, part=place / f"{remote.file}.part")
    try:
        place.mkdir(parents=True, exist_ok=True)
        with alone(place / remote.file):
            file = pooch.retrieve(
                remote.url,
                remote.checksum,
                fname=remote.file,
                path=place,
                downloader=resume,  # pyright: ignore[reportArgumentType]  # pooch gives its parameters the wrong names
            )
        return Path(file)
    except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
        raise _unavailable(remote, folder, str(error)) from None  # its message is part of ours


def _resume(url: str, output_file: str, pooch: object, *, part: Path) -> None:
    """A downloader for pooch that keeps what has arrived in `part`, and asks only for the rest."""
    import requests

    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=30) as response:
        if response.status_code != 416:  # there is no rest: the checksum judges what has arrived
            response.raise_for_status()
            goes_on = response.status_code == 206
            with part.open("ab" if goes_on else "wb") as file:
                for chunk in response.raw.stream(2**20, decode_content=False):
                    file.write(chunk)
            total = int(response.headers.get("Content-Length", 0)) + (have if goes_on else 0)
            if part.stat().st_size < total:
                raise OSError(f"the connection ended after {part.stat().st_size} of {total} bytes")
    os.replace(part, output_file)


def _unavailable(remote: Remote, folder: str, reason: str) -> DataUnavailableError:
    looked = ", ".join(str(root / folder) for root in _roots())
    return DataUnavailableError(
        f"{remote.file} is not at hand (looked in {looked}) and could not be had from {remote.url}: {reason}. Set "
        f"ERLANGEN_DATA to a folder that holds {folder}/{remote.file}, or try again with a network: a download that "
        "was cut short goes on where it stopped"
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what goes wrong inside into a `ValueError` that names the file."""
    try:
        yield
    except BROKEN as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise ValueError(f"{path}: not readable ({reason}); fetch the file again") from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Names the file in a `ValueError` from inside: a file of the user's, which cannot be fetched again."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def decoded(name: str, files: Sequence[Path], make: Callable[[], np.ndarray]) -> np.ndarray:
    """What `make` returns, kept in the cache for as long as the `files` that it reads stay as they are.

    Args:
        name: what to call the file in the cache.
        files: what `make` reads.
        make: slow, such as decoding many pictures.
    """
    stamp = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    digest = hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]
    path = cache_folder() / "decoded" / f"{name}-{digest}.npy"
    try:
        return np.load(path, allow_pickle=False)
    except (EOFError, OSError, ValueError):  # not there yet, or of no use
        value = make()
    temporary = path.with_name(f".{uuid.uuid4().hex}.npy")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(temporary, value, allow_pickle=False)
        os.replace(temporary, path)
    except OSError:  # a full disk costs the time to decode again, and nothing else
        temporary.unlink(missing_ok=True)
    return value


def check_split(split: object) -> None:
    """Raises a `ValueError` unless `split` is "train" or "test"."""
    if split not in ("train", "test"):
        raise ValueError(f"split: received {split!r}; accepted are 'train' and 'test'")
