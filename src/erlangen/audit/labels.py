"""Which output of a model each class of the data is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..data import DataSet

__all__ = ["Labels", "labels_of"]

SHOWN = 6  # classes named in a line


class Labels(NamedTuple):
    """Labels as outputs of a model.

    Attributes:
        y: the output that is right for each input, `(B,)`.
        names: what each output is called.
        note: how outputs were found, where a reader could doubt it.
    """

    y: Tensor
    names: list[str]
    note: str | None


def labels_of(
    data: DataSet, outputs: int, *, wanted: Sequence[str] | None, known: Sequence[str] | None, named: bool = True
) -> Labels:
    """Finds the output of each class: by name if outputs have names, by number if classes are some numbers, in order.

    Args:
        data: images with labels.
        outputs: how many the model has.
        wanted: the names of outputs, as the user gives them.
        known: their names, as the model has them.
        named: whether classes of the data have names; where labels are but numbers, none can be missing.

    Raises:
        ValueError: there are labels without an output, or classes that are none of the model's; the message says which.
    """
    classes = list(data.classes)
    if wanted is not None:
        _check_wanted(wanted, outputs, classes)
        known = wanted
    if known is not None and set(classes) <= set(known):
        place = torch.tensor([known.index(name) for name in classes], device=data.y.device)
        return Labels(place[data.y], list(known), None)
    if known is not None and named:
        raise ValueError(_alien([name for name in classes if name not in known], known))
    numbers = [int(name) if name.isdecimal() else -1 for name in classes]
    whole = all(0 <= k < outputs for k in numbers) and len(set(numbers)) == len(numbers)
    if len(classes) < outputs and whole:
        note = None if numbers == [*range(len(classes))] else "Labels are taken for the numbers of outputs."
        y = torch.tensor(numbers, device=data.y.device)[data.y]
        return Labels(y, [str(k) if k in numbers else f"output {k}" for k in range(outputs)], note)
    if (most := int(data.y.max())) >= outputs:
        accepted = f"0 to {outputs - 1}, for the model has {outputs} outputs"
        raise ValueError(f"data: received labels up to {most}; accepted are {accepted}")
    names = [*classes, *(f"output {k}" for k in range(len(classes), outputs))]
    plain = len(classes) == outputs and (numbers == [*range(outputs)] or max(numbers) < 0)
    return Labels(data.y, names, None if plain else _in_order(classes))


def _check_wanted(wanted: Sequence[str], outputs: int, classes: Sequence[str]) -> None:
    if len(wanted) != outputs or len(set(wanted)) != outputs:
        accepted = f"{outputs} different names, one for each output of the model"
        raise ValueError(f"classes: received {len(wanted)} names ({_some(wanted)}); accepted are {accepted}")
    if alien := [name for name in classes if name not in wanted]:
        raise ValueError(f"classes: received no {_some(alien)}, which the data have; accepted are names of the data")


def _alien(classes: Sequence[str], known: Sequence[str]) -> str:
    got = f"the classes {_some(classes)}" if classes[1:] else f"the class {classes[0]}"
    has = f"which the model does not have (it has {_some(known)})"
    accepted = "its classes; where they only have other names, name all outputs in their order by these (classes)"
    return f"data: received {got}, {has}; accepted are {accepted}"


def _in_order(classes: Sequence[str]) -> str:
    last = len(classes) - 1
    which = (
        f"es {_some(classes)} are taken for outputs 0 to {last}, in this order"
        if last
        else f" {classes[0]} is output 0"
    )
    return f"The class{which}; name all outputs (classes) if that is wrong."


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
