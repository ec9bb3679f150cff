"""What an audit says in plain language."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..utils.words import percent, several
from .findings import Pair
from .measuring import Value
from .record import Audit, Result

__all__ = ["notes_of", "summary_of"]

HOLDS = 0.95  # a transformation is said to change little if this share of decisions stays


def summary_of(audit: Audit) -> dict[str, str]:
    """A few sentences for somebody who reads nothing else, by what they are about."""
    accuracy, error, count = audit.plain["accuracy"], audit.plain["ece"], audit.data["count"]
    lines = {
        "As they are": f"{_share(accuracy)} of {several(count, 'image')} of {audit.data['name']} "
        f"{'is' if count == 1 else 'are'} classified correctly; confidence is off by {_share(error)} on average."
    }
    if audit.blindness.blind:
        lines["Invariant by blindness"] = (
            f"The predictions hold {audit.blindness.information:.2g} of the {audit.blindness.labels:.2g} nats that the "
            "labels hold: the model hardly reacts to anything, so that low invariance errors are no merit here."
        )
    ladders = [(name, list(steps)) for name, steps in groupby(audit.steps, key=lambda step: step.transform)]
    firm = [name for name, steps in ladders if all(_kept(step) >= HOLDS for step in steps)]
    if firm:
        lines["What holds"] = f"At every strength of {_and(firm)} at least {percent(HOLDS)} of the decisions stay."
    broken = [steps for name, steps in ladders if name not in firm]
    if broken:
        lines["What breaks"] = _breaks(sorted(broken, key=lambda steps: _kept(_first(steps))), audit.model["random"])
    if audit.pairs:
        lines["What turns into what"] = " ".join(_mixes(pair, audit.data["classes"]) for pair in audit.pairs[:3])
    return lines


def _mixes(pair: Pair, names: Sequence[str]) -> str:
    first, second = names[pair.first], names[pair.second]
    return (
        f"{first} and {second} turn into each other under {pair.transform} ({pair.label}): "
        f"{percent(pair.there)} of {first} become {second}, {percent(pair.back)} of {second} become {first}."
    )


def _breaks(ladders: Sequence[Sequence[Result]], random: bool) -> str:
    """Where decisions begin to change, and where resampling, the frame or noise are as much the cause of it."""
    share, first = f"More than {percent(1 - HOLDS)} of the decisions change", [_first(steps) for steps in ladders]
    lasting = [_row(steps) for steps in ladders if not _later(steps)]
    passing = [f"{_row(steps)} (not at {_and(_later(steps))})" for steps in ladders if _later(steps)]
    words = " ".join(
        f"{share} {which}: {'; '.join(rows)}."
        for which, rows in (
            ("from these strengths on", lasting),
            ("at these strengths, but not at all greater ones", passing),
        )
        if rows
    )
    null = {step.transform: step.null["consistency"].mean for step in first if step.null}
    doubtful = [step.transform for step in first if 1 - null.get(step.transform, 1.0) > (1 - _kept(step)) / 2]
    if doubtful:
        shares = "; ".join(f"{name}, {_changed(null[name])}" for name in doubtful)
        noise = ", or noise of the model" if random else ""
        words += (
            f" Much of that is resampling and what leaves the frame{noise}, for decisions change as well when images "
            f"are moved there and back: {shares}."
        )
    return words


def _first(steps: Sequence[Result]) -> Result:
    """The mildest step at which too many decisions change."""
    return next(step for step in steps if _kept(step) < HOLDS)


def _later(steps: Sequence[Result]) -> list[str]:
    """The greater strengths at which decisions stay nevertheless: a quarter turn may do less than a smaller one."""
    return [step.label for step in steps[steps.index(_first(steps)) :] if _kept(step) >= HOLDS]


def _row(steps: Sequence[Result]) -> str:
    step = _first(steps)
    return f"{step.transform} {step.label}, {_changed(_kept(step))}"


def _changed(kept: float) -> str:
    """The share of decisions that change, with a digit more where it is small."""
    return percent(1 - kept, 0 if kept < 0.9 else 1)


def _kept(step: Result) -> float:
    return step.values["consistency"].mean


def _share(value: Value) -> str:
    return f"{percent(value.mean, 1)} ({100 * value.low:.1f} to {100 * value.high:.1f})"


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
        seen = several(len(data["seen"]), "image")
        notes.append(f"Saliency similarity (SI) and sensitivity are measured on {seen}.")
    if model["probabilities"]:
        notes.append("The model gives probabilities; their logarithms take the place of logits.")
    if model["sigmoids"]:
        notes.append(
            "All outputs of the model lie between 0 and 1 and do not sum to one, as those of independent sigmoids: "
            "give logits, from before the sigmoid. Calibration, LI, DI and blindness mean little here; accuracy and "
            "consistency are right."
        )
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
        notes.append(f"Left out, since they could not be read: {several(len(skipped), 'file')}.")
    if audit.plain["accuracy"].high < 1 / len(present) and len(present) > 1:
        notes.append("Accuracy is below chance: do the model's outputs have the order of the classes?")
    for step in audit.steps:
        if step.lost:
            every = step.copies * data["count"]
            notes.append(f"{step.transform} of {step.label} leaves nothing of {step.lost:,} of {every:,} copies.")
    return notes
