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
        lines["What breaks"] = _breaks([step for _, step in sorted(broken, key=lambda item: _kept(item[1]))])
    if audit.pairs:
        lines["What turns into what"] = " ".join(_mixes(pair, audit.data["classes"]) for pair in audit.pairs[:3])
    return lines


def _mixes(pair: Pair, names: Sequence[str]) -> str:
    first, second = names[pair.first], names[pair.second]
    return (
        f"{first} and {second} turn into each other under {pair.transform} ({pair.label}): {pair.there:.0%} of {first} "
        f"become {second}, {pair.back:.0%} of {second} become {first}."
    )


def _breaks(steps: Sequence[Result]) -> str:
    """Where decisions begin to change, and where resampling and the frame are as much the cause of it."""
    rows = [f"{step.transform} {step.label}, {_changed(_kept(step))}" for step in steps]
    words = f"More than {1 - HOLDS:.0%} of the decisions change from these strengths on: {'; '.join(rows)}."
    null = {step.transform: step.null["consistency"].mean for step in steps if step.null}
    doubtful = [step.transform for step in steps if 1 - null.get(step.transform, 1.0) > (1 - _kept(step)) / 2]
    if doubtful:
        shares = "; ".join(f"{name}, {_changed(null[name])}" for name in doubtful)
        words += (
            " Much of that is resampling and what leaves the frame, for decisions change as well when images are moved "
            f"there and back: {shares}."
        )
    return words


def _changed(kept: float) -> str:
    """The share of decisions that change, with a digit more where it is small."""
    return f"{1 - kept:.0%}" if kept < 0.9 else f"{1 - kept:.1%}"


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
    if model["random"]:
        notes.append(
            "Answers of the model are random: asked twice about the same images, it answers differently. What is "
            "measured under a transformation is this noise as well."
        )
    present = sorted(set(data["labels"]))
    if len(present) == 1:
        only = data["classes"][present[0]]
        notes.append(f"All images are of one class, {only}: accuracy and calibration say little, blindness nothing.")
    if skipped := data["skipped"]:
        files = "1 file" if len(skipped) == 1 else f"{len(skipped):,} files"
        notes.append(f"Left out, since they could not be read: {files}.")
    if audit.plain["accuracy"].high < 1 / len(present) and len(present) > 1:
        notes.append("Accuracy is below chance: do the model's outputs have the order of the classes?")
    for step in audit.steps:
        if step.lost:
            every = step.copies * data["count"]
            notes.append(f"{step.transform} of {step.label} leaves nothing of {step.lost:,} of {every:,} copies.")
    return notes
