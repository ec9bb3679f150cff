"""Models from anywhere: from a run folder, a `torch.export` file, an ONNX file, or a function by its name."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..models import Averaged, Prediction
from ..utils.errors import reason
from ..utils.seeds import seeded
from ..utils.shapes import describe

__all__ = ["Loaded", "in_batches_of", "load_model", "scores_of"]

ACCEPTED = (
    "a module or callable, a run folder, a .pt2 file of torch.export, an .onnx file, or package.module:function that "
    "returns a module"
)
MAPS = "seq(map("  # the type of dictionaries of probabilities, one for each input
PREFERRED = ("logits", "probabilities", "output_probability")  # names of outputs; the others are those of skl2onnx
PICKLES = (".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth")


class Loaded(NamedTuple):
    """A model: what to call, its name in a report, the type of its weights (None: torch's), the names of outputs."""

    call: Callable[[Tensor], Any]
    name: str
    dtype: torch.dtype | None = None
    classes: Sequence[str] | None = None


def load_model(source: object) -> Loaded:
    """A model, whatever it is kept in.

    Args:
        source: a module or another callable from images `(B, C, H, W)` to logits `(B, K)`; or the place of one: a run
            folder, a `.pt2` or `.onnx` file, or `package.module:function`, which is called without arguments.

    Raises:
        ValueError: there is no model; the message says why.
    """
    if not isinstance(source, str | os.PathLike):
        if not callable(source):
            raise ValueError(f"model: received {describe(source)}; accepted is {ACCEPTED}")
        name = type(source).__name__ if isinstance(source, nn.Module) else getattr(source, "__name__", "a function")
        return Loaded(source, name, _dtype(source))
    path = Path(os.path.expanduser(source))  # expanduser leaves a name such as ~old alone
    if not path.exists() and re.fullmatch(r"[\w.]+:\w+", str(source)):
        return _from_function(*str(source).split(":"))
    if not path.exists():
        raise ValueError(f"model: received {str(source)!r}, which does not exist; accepted is {ACCEPTED}")
    if path.is_dir():
        return _from_run(path)
    readers = {".pt2": _from_export, ".onnx": _from_onnx}
    if path.suffix not in readers:
        why = ": a pickle may hold any code, so it is not read" if path.suffix in PICKLES else ""
        raise ValueError(f"model: received {str(source)!r}{why}; accepted is {ACCEPTED}")
    return readers[path.suffix](path)


def _dtype(model: object) -> torch.dtype | None:
    """The type of the first weights in floating-point, if there are some."""
    weights = model.parameters() if isinstance(model, nn.Module) else ()
    return next((w.dtype for w in weights if w.is_floating_point()), None)


def _from_run(folder: Path) -> Loaded:
    from ..estimators import load_run

    run = load_run(folder)
    call = _Answers(run.model, run.config.seed) if run.averages else run.model.classify
    return Loaded(call, folder.resolve().name, run.model.transform.bounds.dtype, run.classes)


class _Answers(nn.Module):
    """An averaged model with the views of `Run.predict`, the same at every call, so that no noise is measured."""

    def __init__(self, model: Averaged, seed: int) -> None:
        super().__init__()
        self.model, self.seed = copy(model), seed
        self.model.points = "common"

    def forward(self, x: Tensor) -> Prediction:
        with seeded(self.seed):
            return self.model(x)


def _from_function(module: str, function: str) -> Loaded:
    """Calls `module.function()`; modules of the working folder are found, as `python -m` finds them."""
    place, here = f"{module}:{function}", os.getcwd()
    sys.path.insert(0, here)
    try:
        made = getattr(importlib.import_module(module), function)()
    except Exception as error:  # code of other people fails in any way, and has to be named
        why = f"{type(error).__name__}: {reason(error)}"
        raise ValueError(f"model: received {place!r}, which gives no model ({why}); accepted is {ACCEPTED}") from error
    finally:
        sys.path.remove(here)
    if not callable(made):
        raise ValueError(f"model: received {place!r}, which returns {describe(made)}; accepted is a module or callable")
    return Loaded(made, place, _dtype(made))


def _from_export(path: Path) -> Loaded:
    try:
        program = torch.export.load(path)
    except Exception as error:  # a damaged archive fails in any way
        raise ValueError(f"model: received {str(path)!r}, which torch.export cannot read ({reason(error)})") from error
    module = program.module()
    names = program.graph_signature.user_inputs
    nodes = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in names]
    if len(nodes) != 1:
        raise ValueError(f"model: received {str(path)!r} with the inputs {list(names)}; accepted is one, the images")
    value = nodes[0].meta["val"]
    if not value.dtype.is_floating_point:  # images in [0, 1] would be black in it
        got = f"{str(path)!r} with the input {describe(value)}"
        raise ValueError(f"model: received {got}; accepted is one of images in floating-point")

    def call(x: Tensor) -> Any:  # not the module itself: one that was exported refuses eval()
        return module(x)

    return Loaded(in_batches_of(call, *_batch(program, value.shape[0])), path.name, value.dtype)


def _batch(program: torch.export.ExportedProgram, size: Any) -> tuple[int, int | None]:
    """The smallest and the greatest batch that an exported program takes, None for any."""
    if isinstance(size, int):
        return size, size
    limits = program.range_constraints.get(size.node.expr)
    if limits is None:
        return 1, None
    most: Any = limits.upper  # a number of sympy, which may be infinite
    return max(int(limits.lower), 1), int(most) if most.is_Integer else None  # pyright: ignore[reportArgumentType]


def _from_onnx(path: Path) -> Loaded:
    try:
        import onnxruntime
    except ImportError as error:
        raise ValueError(
            f"model: received {str(path)!r}, for which onnxruntime is missing: `pip install onnxruntime`"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has classes of its own, which differ between versions
        raise ValueError(f"model: received {str(path)!r}, which onnxruntime cannot read ({reason(error)})") from error
    entry, exit_ = session.get_inputs(), _output(path, session.get_outputs())
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
    if len(entry) != 1 or entry[0].type not in types or not entry[0].shape:
        got = ", ".join(f"{node.name} {node.type}" for node in entry)
        raise ValueError(
            f"model: received {str(path)!r} with the inputs {got}; accepted is one, images in floating-point"
        )
    name, dtype, flat, size = entry[0].name, types[entry[0].type], len(entry[0].shape) == 2, entry[0].shape[0]

    def call(x: Tensor) -> Tensor:
        images = x.detach().flatten(1) if flat else x.detach()
        (found,) = session.run([exit_], {name: images.cpu().numpy().astype(dtype)})
        return torch.from_numpy(_rows(found)).to(x)

    fixed = (size, size) if isinstance(size, int) else (1, None)
    return Loaded(in_batches_of(call, *fixed), path.name)


def _output(path: Path, nodes: Sequence[Any]) -> str:
    """The output with scores: classifiers of scikit-learn have one of labels before it, other models one of features.

    Raises:
        ValueError: none can be scores, or several can and no name tells which.
    """
    scores = [node for node in nodes if node.type.startswith(("tensor(float", "tensor(double", MAPS))]
    if len(scores) > 1:
        flat = [node for node in scores if node.type.startswith(MAPS) or len(node.shape or ()) == 2] or scores
        named = [node for name in PREFERRED[1:] for node in flat if node.name == name]
        scores = [node for node in scores if node.name == PREFERRED[0]] or named[:1] or flat
    if len(scores) != 1:
        got = ", ".join(f"{node.name} {node.type}" for node in nodes)
        accepted = "one of scores (B, K), or several of which one is called " + " or ".join(PREFERRED)
        raise ValueError(f"model: received {str(path)!r} with the outputs {got}; accepted is {accepted}")
    return scores[0].name


def _rows(found: Any) -> np.ndarray:
    """Scores `(B, K)`, also from a dictionary for each input, which is what skl2onnx makes unless told otherwise."""
    if isinstance(found, list):
        found = [[row[key] for key in sorted(row)] for row in found]
    return np.array(found)


def in_batches_of(call: Callable[[Tensor], Any], least: int = 1, most: int | None = None) -> Callable[[Tensor], Any]:
    """A function that is called with batches of some sizes only: longer ones are split, shorter ones filled up."""
    if least <= 1 and most is None:
        return call

    def each(x: Tensor) -> Any:
        parts = []
        for part in x.split(most or len(x)):
            missing = max(least - len(part), 0)
            found = scores_of(call(torch.cat((part, part[-1:].expand(missing, *part.shape[1:])))))
            if not isinstance(found, Tensor) or len(found) != len(part) + missing:
                return found  # the caller refuses its shape, in words
            parts.append(found[: len(part)])
        return torch.cat(parts)

    return each


def scores_of(output: Any) -> Any:
    """The logits in what a model gives: in a mapping or an object under that name, or as the only thing in it."""
    if isinstance(output, Mapping) and output:
        return output.get("logits", next(iter(output.values())) if len(output) == 1 else output)
    if isinstance(output, tuple | list) and len(output) == 1:
        return output[0]
    return getattr(output, "logits", output)
