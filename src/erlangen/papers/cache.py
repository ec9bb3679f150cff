"""Models that several experiments need are trained once, and kept in the cache by the hash of how they were trained."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import __file__ as root
from ..data import cache_folder
from ..utils.io import plain, write_bytes

__all__ = ["digest", "kept"]

# What decides how a model comes out. A change there is a new model: a row must not name a commit that did not make it.
TRAINS = ("utils", "transforms", "distributions", "nets", "data", "models", "objectives", "train")
EXTRA = "extra/"


def kept(
    config: Any,
    device: str,
    build: Callable[[], nn.Module],
    train: Callable[[Any], dict[str, Tensor]],
    *,
    code: Sequence[str],
) -> tuple[Any, dict[str, Tensor]]:
    """A trained module and what its training noted: from the cache, or trained now and put there.

    Args:
        config: a dataclass, all that the training depends on.
        device: where it is trained, and where the module is returned.
        build: makes the module.
        train: trains it in place, and returns tensors to be kept beside its weights.
        code: the files that define both.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save

    path = cache_folder() / "models" / f"{digest(config, device, code)}.safetensors"
    module = build().to(device)
    if path.is_file():
        try:
            tensors = load_file(path, device=str(torch.device(device)))
            extra = {name.removeprefix(EXTRA): tensors.pop(name) for name in list(tensors) if name.startswith(EXTRA)}
            module.load_state_dict(tensors)
        except (SafetensorError, RuntimeError, OSError):  # damaged, or of another version: trained anew
            module = build().to(device)
        else:
            return module.eval(), extra
    extra = train(module)
    tensors = {**module.state_dict(), **{EXTRA + name: value for name, value in extra.items()}}
    with suppress(OSError):  # a full disk costs the time to train again, and nothing else
        write_bytes(path, save({name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}))
    return module.eval(), extra


def digest(config: Any, device: str, code: Sequence[str]) -> str:
    """A name for a configuration, the kind of device, the precision and the code that trains."""
    about = [type(config).__name__, plain(config), torch.device(device).type, str(torch.get_default_dtype())]
    own = [Path(file).read_text(encoding="utf-8") for file in code]
    text = json.dumps([*about, _code(), *own], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@cache
def _code() -> str:
    package = Path(root).parent
    files = sorted(path for name in TRAINS for path in (package / name).rglob("*.py"))
    content = b"".join(path.relative_to(package).as_posix().encode() + path.read_bytes() for path in files)
    return hashlib.sha256(content).hexdigest()
