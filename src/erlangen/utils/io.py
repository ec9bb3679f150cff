"""JSON and JSONL on disk, written atomically, and the provenance that every stored result carries.

Whole files are replaced in one step: a reader sees the old file or the new one, and a write that fails leaves the old
one as it was. Values are converted to plain JSON before anything is written. NaN and the infinities become ``null``,
since JSON, and so a browser, has no word for them.
"""

import contextlib
import dataclasses
import io
import json
import math
import os
import platform
import subprocess
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any, TypeAlias

import numpy as np
import torch

from .. import __version__

try:
    import fcntl
except ImportError:  # Windows, where a write to a shared file is not seen in part
    fcntl = None

__all__ = [
    "append_jsonl",
    "plain",
    "provenance",
    "read_json",
    "read_jsonl",
    "write_bytes",
    "write_json",
    "write_jsonl",
    "write_npz",
]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

ROOT = Path(__file__).resolve().parents[3]  # the root of the checkout, if there is one
CODE = ("src", "benchmarks/*.py")  # what makes a checkout dirty: code, not the results it writes


def plain(value: object, place: str = "value") -> Json:
    """Convert a value to what JSON can say.

    Dataclasses and mappings become objects; lists, tuples, arrays and tensors become lists; paths become strings;
    numpy's and torch's scalars become numbers; NaN and the infinities become ``None``.

    Args:
        value: what to convert.
        place: what to call it in an error.

    Raises:
        TypeError: something in it has no JSON form; the message names its place.
        ValueError: it contains itself.

    Examples:
        >>> plain({"size": (2, 3), "loss": torch.tensor([0.5, float("nan")])})
        {'size': [2, 3], 'loss': [0.5, None]}
    """
    try:
        return _plain(value, place)
    except RecursionError:
        raise ValueError(f"{place}: received a value that contains itself or is nested too deeply for JSON") from None


def _plain(value: Any, place: str) -> Json:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, np.ndarray | torch.Tensor):
        return _plain(_listed(value, place), place)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key, place): _plain(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{place}[{i}]") for i, item in enumerate(value)]
    raise TypeError(
        f"{place}: received {type(value).__name__}, accepted are None, bool, int, float, str, paths, lists, tuples, "
        "mappings, dataclasses, numpy arrays, torch tensors and their scalars"
    )


def _listed(value: np.ndarray | torch.Tensor, place: str) -> Any:
    try:
        return value.tolist()
    except RuntimeError as error:  # on the meta device, sparse, quantised
        raise TypeError(f"{place}: received a tensor without plain values ({error})") from error


def _key(key: object, place: str) -> str:
    if isinstance(key, str):
        return key
    raise TypeError(f"{place}: received the key {key!r} of type {type(key).__name__}, accepted are strings")


def provenance(
    config: object = None, *, device: torch.device | str | None = None, seconds: float | None = None
) -> dict[str, Any]:
    """Say where a result comes from: code, versions, machine, time and configuration.

    ``commit`` and ``dirty`` (whether the code differs from that commit) are ``None`` unless the package runs from its
    own git checkout and git is there to ask. Nothing here uses the network.

    Args:
        config: the configuration, a dataclass or a mapping.
        device: where it was computed; torch's default device if not given.
        seconds: how long it took.

    Returns:
        A dictionary of plain JSON values.

    Raises:
        TypeError: the configuration has no JSON form.
    """
    device = torch.device(device) if device is not None else torch.get_default_device()
    commit, dirty = _checkout(ROOT)
    return {
        "commit": commit,
        "dirty": dirty,
        "versions": {
            "erlangen": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "platform": platform.platform(),
        "device": str(device),
        "device_name": _device_name(device),
        "threads": torch.get_num_threads(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": plain(config, "config"),
        "seconds": plain(seconds, "seconds"),
    }


def _device_name(device: torch.device) -> str:
    if device.type == "cuda" and torch.cuda.is_available():
        return torch.cuda.get_device_name(device)
    return _cpu_name() if device.type == "cpu" else device.type


def _cpu_name() -> str:
    try:  # only Linux says more than the architecture, and not on every processor
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _checkout(root: Path) -> tuple[str | None, bool | None]:
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    changes = _git(root, "status", "--porcelain", "--", *CODE)
    if commit is None or changes is None:
        return None, None
    return commit, bool(changes)


def _git(root: Path, *arguments: str) -> str | None:
    # Only a .git of our own counts: installed into somebody's project, or called from a hook of theirs (which sets
    # GIT_DIR and its like), we would report their commit.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--no-optional-locks", f"--git-dir={root / '.git'}", f"--work-tree={root}", *arguments]
    try:
        result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def write_json(path: str | os.PathLike[str], value: object) -> None:
    """Write one value to a JSON file, atomically; folders that are missing are made.

    Raises:
        TypeError, ValueError: the value has no JSON form (see :func:`plain`); nothing is written.
    """
    write_bytes(path, json.dumps(plain(value), indent=2, allow_nan=False).encode() + b"\n")


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays to a compressed NPZ file, atomically; folders that are missing are made."""
    buffer = io.BytesIO()
    named: Any = dict(arrays)
    np.savez_compressed(buffer, **named)
    write_bytes(path, buffer.getvalue())


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: the file is not JSON; the message names it.
    """
    try:
        return json.loads(Path(path).read_bytes())
    except (RecursionError, ValueError) as error:  # a RecursionError where lists are nested too deep
        raise ValueError(f"{os.fspath(path)}: not a JSON file: {error}") from error


def write_jsonl(path: str | os.PathLike[str], rows: Iterable[object]) -> None:
    """Write rows to a JSONL file, one to a line, atomically; folders that are missing are made.

    Args:
        path: the file, which is replaced.
        rows: mappings or dataclasses.

    Raises:
        TypeError, ValueError: a row has no JSON form; the message names its place and nothing is written.
    """
    write_bytes(path, b"".join([_line(row, f"rows[{i}]") for i, row in enumerate(rows)]))


def append_jsonl(path: str | os.PathLike[str], row: object) -> None:
    """Append one row to a JSONL file by a single write, so that several processes may share the file.

    A last line that a crash cut short is overwritten with spaces, which :func:`read_jsonl` skips.

    Args:
        path: the file, which is made if it is missing.
        row: a mapping or dataclass.

    Raises:
        TypeError, ValueError: the row has no JSON form; nothing is written.
    """
    path, line = Path(path), _line(row, "row")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        _lock(file)
        if not _ends_a_line(path):
            _blank_cut_line(path)
            line = b"\n" + line
        if file.write(line) != len(line):
            raise OSError(f"{path}: the disk took only part of the row")


def read_jsonl(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the rows of a JSONL file.

    A last line without its end that is not whole JSON is what a crash leaves behind, and is ignored. So are blank
    lines.

    Raises:
        ValueError: any other line is not a JSON object; the message names the file and the line.
    """
    *lines, tail = Path(path).read_bytes().split(b"\n")
    if _row(tail) is not None:
        lines.append(tail)
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        row = _row(line)
        if row is None:
            start = line[:80].decode(errors="replace")
            raise ValueError(f"{os.fspath(path)}, line {number}: received {start!r}, accepted is a JSON object")
        rows.append(row)
    return rows


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (RecursionError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _line(row: object, place: str) -> bytes:
    value = plain(row, place)
    if not isinstance(value, dict):
        raise TypeError(f"{place}: received {type(row).__name__}, accepted are mappings and dataclasses")
    return json.dumps(value, allow_nan=False).encode() + b"\n"


def _lock(file: Any) -> None:
    """Waits until no other process writes, until the file is closed: a row half written looks like one cut short."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _blank_cut_line(path: Path) -> None:
    # Spaces instead of truncation: two processes that heal at once write the same bytes, and neither loses a row.
    with path.open("r+b", buffering=0) as file:
        content = file.read()
        start = content.rfind(b"\n") + 1
        if _row(content[start:]) is None:
            file.seek(start)
            file.write(b" " * (len(content) - start))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically; folders that are missing are made."""
    target = Path(os.path.realpath(path))  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
