"""Objectives of one architecture as one: their tensors are stacked, and one pass computes the losses of all."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.distributions.constraints import Constraint
from torch.func import functional_call, vmap

from ..objectives import Objective
from ..utils.shapes import describe

__all__ = ["Stack", "constants", "described", "words"]

PLAIN = (bool, int, float, str, tuple, frozenset, type(None))  # the types of a module's settings


class Stack(Objective):
    """Objectives that differ in their tensors alone: weights, and numbers that lie in buffers, such as `PSTN.weight`.

    Constants (buffers that are not saved, and are the same in all) stay as they are.

    Args:
        objectives: at least one; they are copied.

    Shape:
        batch: tensors `(M, B, ...)`, those of each objective; result: each `(M,)`.
    """

    def __init__(self, objectives: Sequence[Objective]) -> None:
        super().__init__()
        for place, other in enumerate(objectives[1:], start=1):
            _check_alike(objectives[0], other, place)
        self.count = len(objectives)
        # In a tuple, so that torch does not register it: its parameters are not trained, the stacked ones are.
        self._model = (copy.deepcopy(objectives[0]),)
        self.names: dict[str, str] = {}
        for name, parts in _tensors(objectives).items():
            whole, own = torch.stack([part.detach() for part in parts]), name.replace(".", "/")
            if isinstance(parts[0], nn.Parameter) and parts[0].requires_grad:
                self.register_parameter(own, nn.Parameter(whole))
            else:
                self.register_buffer(own, whole)
            self.names[name] = own

    @property
    def model(self) -> Objective:
        """The objective that computes, with tensors that are handed to it."""
        return self._model[0]

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The losses of each objective on its own batch."""
        tensors = {name: getattr(self, own) for name, own in self.names.items()}
        self.model.branch()  # looks at a tensor, and remembers it, before tensors are mapped over
        losses: Any = vmap(self._losses, randomness="different")
        try:
            return losses(tensors, tuple(batch))
        except RuntimeError as error:
            if not any(name in str(error) for name in ("vmap", "functorch")):
                raise
            got = f"some with an operation that torch cannot compute for all of them at once ({error})"
            raise ValueError(f"objectives: received {got}; accepted are others, or each by `fit`") from error

    def checked(self, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        """The losses as they are, `(M,)` each: those of every objective were checked on their own."""
        return losses

    def _losses(self, tensors: dict[str, Tensor], batch: tuple[Tensor, ...]) -> dict[str, Tensor]:
        return functional_call(self.model, tensors, (batch,))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """The groups of the objectives, with stacked parameters."""
        names = {id(p): name for name, p in self.model.named_parameters()}
        groups = self.model.parameter_groups().items()
        return {group: [getattr(self, self.names[names[id(p)]]) for p in own] for group, own in groups}

    def branch(self) -> Hashable:
        """The branch of the objectives, which take the same steps."""
        return self.model.branch()

    def judged(self) -> bool:
        """Whether a validation can already judge the objectives, which take the same steps."""
        return self.model.judged()

    def counted(self) -> None:
        """Counts a step on the host."""
        self.model.counted()

    def train(self, mode: bool = True) -> Self:
        """Switches the objectives to training mode, or out of it."""
        super().train(mode)
        self.model.train(mode)
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.model._apply(fn, recurse)
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self.model.load_state_dict(self.member(0), strict=False)  # so that it counts its steps anew

    def member(self, place: int) -> dict[str, Tensor]:
        """The tensors of an objective, by their names there."""
        return {name: getattr(self, own)[place] for name, own in self.names.items()}

    @torch.no_grad()
    def put(self, place: int, tensors: Mapping[str, Tensor]) -> None:
        """Puts tensors of an objective back into the stack."""
        for name, tensor in tensors.items():
            getattr(self, self.names[name])[place].copy_(tensor)


def _tensors(objectives: Sequence[Objective]) -> dict[str, list[Tensor]]:
    """The tensors to stack, by name: all parameters, and buffers that are saved or differ."""
    saved = objectives[0].state_dict().keys()
    names = [name for name, _ in objectives[0].named_parameters()]
    found: dict[str, list[Tensor]] = {name: [o.get_parameter(name) for o in objectives] for name in names}
    for name, first in objectives[0].named_buffers():
        parts = [o.get_buffer(name) for o in objectives]
        if name in saved or not all(torch.equal(first, part) for part in parts):
            found[name] = parts
    return found


def _check_alike(first: Objective, other: Objective, place: int) -> None:
    """Raises a `ValueError` where two objectives differ in more than the values of their tensors."""
    one, two = (dict(o.named_modules()) for o in (first, other))
    accepted = "accepted are objectives that differ in the values of their tensors alone"
    if one.keys() != two.keys():
        name = sorted(one.keys() ^ two.keys())[0]
        raise ValueError(f"objectives[{place}]: received one that differs from the first in {name!r}; {accepted}")
    for name, module in one.items():
        mine, its = ({**_public(m), **_settings(m)} for m in (module, two[name]))
        for key in sorted(mine.keys() | its.keys()):
            if not _same(mine.get(key), its.get(key)):
                where = f"objectives[{place}]{'.' if name else ''}{name}.{key}"
                got, has = (v if isinstance(v, PLAIN) else describe(v) for v in (its.get(key), mine.get(key)))
                raise ValueError(f"{where}: received {got}, the first has {has}; {accepted}")


def _same(one: Any, two: Any) -> bool:
    """Whether two settings are known to be the same: one object, or equal, part by part."""
    if one is two:
        return True
    if isinstance(one, Tensor) or isinstance(two, Tensor):
        return isinstance(one, Tensor) and isinstance(two, Tensor) and one.dtype == two.dtype and torch.equal(one, two)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(_same(value, two[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and type(one) is type(two):
        return len(one) == len(two) and all(map(_same, one, two))
    if isinstance(one, Constraint) and type(one) is type(two):  # a copy of one is another object, and not equal
        return _same(vars(one), vars(two))
    try:
        return bool(one == two)
    except Exception:  # what cannot be compared may differ
        return False


def described(objective: Objective) -> dict[str, str]:
    """The settings of an objective, by their dotted names: all that it is, apart from what is trained."""
    found: dict[str, Any] = {}
    for name, module in objective.named_modules():
        found |= {f"{name}.{key}".lstrip("."): value for key, value in _settings(module).items()}
    found |= {name: objective.get_buffer(name).tolist() for name in constants(objective)}
    return {f"objective.{name}": words(value) for name, value in found.items()}


def words(setting: Any) -> str:
    """A setting as it is in every process: functions by their names, without the places where they lie in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(setting))


def constants(objective: Objective) -> list[str]:
    """The dotted names of buffers that are settings: `constants` of a module, such as `PSTN.weight`."""
    named = objective.named_modules()
    return [f"{name}.{key}".lstrip(".") for name, module in named for key in getattr(module, "constants", ())]


def _settings(module: nn.Module) -> dict[str, Any]:
    """The settings of a module: its plain attributes, its class, and the kinds of its tensors."""
    plain = {k: v for k, v in _public(module).items() if isinstance(v, PLAIN)}
    tensors = {**module._parameters, **module._buffers}
    kinds = {k: None if t is None else (tuple(t.shape), t.dtype, t.requires_grad) for k, t in tensors.items()}
    return {**plain, **kinds, "class": type(module).__name__}


def _public(module: nn.Module) -> dict[str, Any]:
    """The attributes of a module that are neither tensors nor modules of its own."""
    return {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "training"}
