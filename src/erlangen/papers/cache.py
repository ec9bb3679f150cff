"""Models that several experiments need are trained once, and kept in the cache by the hash of how they were trained.

A training that is cut short leaves its checkpoints beside them, and the next goes on from there.
"""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from .. import __file__ as root
from ..data import cache_folder
from ..train import Checkpoints, Unreadable, read_log
from ..utils.io import plain, write_bytes

__all__ = ["digest", "kept", "kept_many"]

# What decides how a model comes out. A change there is a new model: a row must not name a commit that did not make it.
TRAINS = ("utils", "transforms", "distributions", "nets", "data", "metrics", "models", "objectives", "train")
EXTRA = "extra/"


def kept(
    config: Any,
    device: str,
    build: Callable[[Any], nn.Module],
    train: Callable[..., dict[str, Tensor]],
    *,
    code: Sequence[str],
) -> tuple[Any, dict[str, Tensor]]:
    """A trained module and what its training noted: from the cache, or trained now and put there.

    Args:
        config: a dataclass, all that the training depends on.
        device: where it is trained, and where the module is returned.
        build: makes the module from its config.
        train: trains the module in place, given its config, the device and, as keywords, the settings of `Config` with
            which it goes on from where it was cut short; returns tensors to be kept beside the weights.
        code: the files that define both.
    """

    def one(made: list[Any], configs: list[Any], **going: Any) -> list[dict[str, Tensor]]:
        return [train(made[0], configs[0], device, **going)]

    (found,) = kept_many([config], device, build, one, code=code)
    return found


def kept_many(
    configs: Sequence[Any],
    device: str,
    build: Callable[[Any], nn.Module],
    train: Callable[..., Sequence[dict[str, Tensor]]],
    *,
    code: Sequence[str],
) -> list[tuple[Any, dict[str, Tensor]]]:
    """Modules as by `kept`, of which those that are not in the cache are trained together.

    Args:
        configs: dataclasses.
        device: where.
        build: makes a module from its config.
        train: trains modules in place, given their configs and keywords as those of `kept`, and returns what is kept
            beside each.
        code: the files that define both.
    """
    paths = [cache_folder() / "models" / f"{digest(config, device, code)}.safetensors" for config in configs]
    found = [_read(path, lambda c=c: build(c).to(device), device) for path, c in zip(paths, configs, strict=True)]
    missing = [i for i, one in enumerate(found) if one is None]
    if missing:
        modules = [build(configs[i]).to(device) for i in missing]
        with _going([paths[i] for i in missing]) as going:
            extras = train(modules, [configs[i] for i in missing], **going)
            for i, module, extra in zip(missing, modules, extras, strict=True):
                _write(paths[i], module, extra)
                found[i] = module.eval(), extra
    return [one for one in found if one is not None]


@contextmanager
def _going(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The settings with which a training of models goes on where it was cut short; at its end checkpoints are removed.

    Of two processes that train the same, the second starts at the beginning and leaves no checkpoints.
    """
    name = hashlib.sha256("".join(path.name for path in paths).encode()).hexdigest()[:24]
    folder = paths[0].parent / f"{name}.training"
    lock = FileLock(folder / "lock")
    with suppress(Timeout, OSError):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    if not lock.is_locked:
        yield {}
        return
    try:
        _mend(folder)
        yield {"folder": folder, "resume": True, "insist": False, "checkpoint_seconds": 60.0}
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        lock.release()


def _mend(folder: Path) -> None:
    """Removes checkpoints and logs that cannot be read, for nobody would look for them here to repair them."""
    try:
        Checkpoints(folder / "checkpoint").read()
    except Unreadable:
        shutil.rmtree(folder / "checkpoint")
    for log in folder.glob("**/log.jsonl"):
        try:
            read_log(log)
        except ValueError:
            log.unlink()


def _read(path: Path, build: Callable[[], Any], device: str) -> tuple[Any, dict[str, Tensor]] | None:
    """What is in the cache; None if nothing is, or if it is damaged or of another version."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        return None
    try:
        tensors = load_file(path, device=str(torch.device(device)))
        extra = {name.removeprefix(EXTRA): tensors.pop(name) for name in list(tensors) if name.startswith(EXTRA)}
        module = build()
        module.load_state_dict(tensors)
    except (SafetensorError, RuntimeError, OSError):
        return None
    return module.eval(), extra


def _write(path: Path, module: nn.Module, extra: dict[str, Tensor]) -> None:
    from safetensors.torch import save

    tensors = {**module.state_dict(), **{EXTRA + name: value for name, value in extra.items()}}
    with suppress(OSError):  # a full disk costs the time to train again, and nothing else
        write_bytes(path, save({name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}))


def digest(config: Any, device: str, code: Sequence[str]) -> str:
    """A name for a configuration, the kind of device, the precision and the code that trains."""
    about = [type(config).__name__, plain(config), torch.device(device).type, str(torch.get_default_dtype())]
    text = json.dumps([*about, _code(), *(_statements(Path(file)) for file in code)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def _code() -> str:
    package = Path(root).parent
    files = sorted(path for name in TRAINS for path in (package / name).rglob("*.py"))
    content = "".join(path.relative_to(package).as_posix() + _statements(path) for path in files)
    return hashlib.sha256(content.encode()).hexdigest()


def _statements(path: Path) -> str:
    """The code of a file. Its comments and docstrings may be put better without a model being trained again."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            del node.body[: ast.get_docstring(node, clean=False) is not None]
    return ast.dump(tree)
