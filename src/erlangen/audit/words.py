"""What an audit says in plain language."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .findings import Pair
from .measuring import Value
from .record import Audit, Result

__all__ = ["notes_of", "summary_of"]

HOLDS = 0.95  # of the decisions that stay, from which on a transformation is said to change little


def summary_of(audit: Audit) -> dict[str, str]:
    """A few sentences for somebody who reads nothing else, by what they are about."""
    accuracy, error = audit.plain["accuracy"], audit.plain["ece"]
    lines = {
        "As they are": f"{_share(accuracy)} of {audit.data['count']:,} images of {audit.data['name']} are classified "
        f"rightly; confidence is off by {_share(error)} on average."
    }
    if audit.blindness.blind:
        lines["Invariant by blindness"] = (
            f"The predictions hold {audit.blindness.information:.2g} of the {audit.blindness.labels:.2g} nats that the "
            "labels hold: the model hardly reacts to anything, so that low invariance errors are no merit here."
        )
    ladders = [(name, list(steps)) for name, steps in groupby(audit.steps, key=lambda step: step.transform)]
    firm = [name for name, steps in ladders if all(_kept(step) >= HOLDS for step in steps)]
    if firm:
        lines["What holds"] = f"At every strength of {_and(firm)} at least {HOLDS:.0%} of the decisions stay."
    broken = [(name, next(s for s in steps if _kept(s) < HOLDS)) for name, steps in ladders if name not in firm]
    if broken:
        rows = [_breaks(name, step) for name, step in sorted(broken, key=lambda item: _kept(item[1]))]
        lines["What breaks"] = (
            f"Decisions that change, at the first strength where more than {1 - HOLDS:.0%} do, and in brackets when "
            f"images are moved there and back: {'; '.join(rows)}. Where both are alike, resampling and the frame are "
            "the cause, not the transformation."
        )
    if audit.pairs:
        lines["What turns into what"] = " ".join(_mixes(pair, audit.data["classes"]) for pair in audit.pairs[:3])
    return lines


def _mixes(pair: Pair, names: Sequence[str]) -> str:
    first, second = names[pair.first], names[pair.second]
    return (
        f"{first} and {second} turn into each other under {pair.transform} ({pair.label}): {pair.there:.0%} of {first} "
        f"become {second}, {pair.back:.0%} of {second} become {first}."
    )


def _breaks(name: str, step: Result) -> str:
    null = f" ({1 - step.null['consistency'].mean:.0%})" if step.null else ""
    return f"{name} {step.label}, {1 - _kept(step):.0%}{null}"


def _kept(step: Result) -> float:
    return step.values["consistency"].mean


def _share(value: Value) -> str:
    return f"{value.mean:.1%} ({100 * value.low:.1f} to {100 * value.high:.1f})"


def _and(words: Sequence[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), words[-1]])


def notes_of(audit: Audit) -> list[str]:
    """What could not be measured, and what to be careful with."""
    data, model, notes = audit.data, audit.model, []
    if data["count"] < data["of"]:
        notes.append(f"Measured on {data['count']:,} of {data['of']:,} images, always the same.")
    if not model["gradients"]:
        notes.append("Missing, since the model has no gradients: saliency similarity (SI), sensitivity, saliency maps.")
    elif data["seen"]:
        notes.append(f"Saliency similarity (SI) and sensitivity are measured on {len(data['seen'])} images.")
    if model["probabilities"]:
        notes.append("The model gives probabilities; their logarithms take the place of logits.")
    present = sorted(set(data["labels"]))
    if len(present) == 1:
        only = data["classes"][present[0]]
        notes.append(f"All images are of one class, {only}: accuracy and calibration say little, blindness nothing.")
    if skipped := data["skipped"]:
        notes.append(f"{len(skipped)} files could not be read and were left out.")
    if audit.plain["accuracy"].high < 1 / len(present) and len(present) > 1:
        notes.append("Accuracy is below chance: do the model's outputs have the order of the classes?")
    for step in audit.steps:
        if step.lost:
            every = step.copies * data["count"]
            notes.append(f"{step.transform} of {step.label} leaves nothing of {step.lost:,} of {every:,} copies.")
    return notes
