"""The audit of a model: every metric under every transformation, and what stands out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ..estimators.sources import describe_data
from ..utils.io import provenance
from .case import Case, Settings, given
from .findings import are_log_probabilities, are_sigmoids, blindness, pairs, worst
from .ladder import Ladder, ladders_of
from .record import Audit
from .subject import Preprocess
from .words import notes_of, summary_of

__all__ = ["audit"]

Progress = Callable[[float, str], None]


def audit(
    model: object,
    data: object,
    transforms: Sequence[str] | Mapping[str, Sequence[float] | Ladder | None] | None = None,
    *,
    preprocess: Preprocess | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Measures how a model answers to transformed images, beside what resampling alone does.

    Args:
        model: a module or callable from images to logits (or probabilities), or the place of one; see `load_model`.
        data: a `DataSet`, a pair of images `(B, C, H, W)` (uint8, or in [0, 1]) and labels `(B,)`, or the name or path
            of a data set, of which the test part is taken if there is one.
        transforms: names of `LADDERS`, or names with strengths; all that apply to the images, if None.
        preprocess: what the model wants done to images in [0, 1].
        settings: how it is measured.
        progress: called with the share done, from 0 to 1, and what is being done.

    Raises:
        ValueError: the model, the data or the transformations cannot be used; the message says why.
    """
    began, tell = time.perf_counter(), progress or (lambda share, what: None)
    preprocess, settings = given(preprocess, settings)
    tell(0.0, "reading")
    case = Case(model, data, preprocess, settings)
    steps, missing = ladders_of(transforms, case.x)
    sensitivity = case.sensitivity()  # before all that takes long: a model without finite gradients is refused
    results, outcomes = [], []
    for k, step in enumerate(steps):
        tell(k / len(steps), f"{step.transform} {step.label}")
        result, found = case.measure(step)
        results.append(result)
        outcomes.append(found)
    tell(1.0, "what stands out")
    blind = blindness(case.logits, case.y, sensitivity)
    moved = worst(steps, outcomes, case.y, case.logits)
    moved = [replace(one, place=case.place(one.index)) for one in moved]
    made = Audit(
        model=_about_model(case),
        data=_about_data(case),
        settings=asdict(settings) | {"bootstrap": settings.bootstrap._asdict()},
        plain=case.plain(),
        steps=results,
        pairs=pairs(steps, outcomes, case.y, case.logits),
        worst=moved,
        blindness=blind,
        notes=missing,
        summary={},
        provenance=provenance(device=case.x.device, seconds=time.perf_counter() - began),
        pictures=case.pictures(steps, moved),
    )
    doubt = [case.labels.note] if case.labels.note else []
    made = replace(made, notes=[*missing, *doubt, *notes_of(made)])
    return replace(made, summary=summary_of(made))


def _about_model(case: Case) -> dict[str, Any]:
    subject = case.subject
    return {
        "name": subject.name,
        "classes": subject.classes,
        "gradients": subject.differentiable,
        "probabilities": subject.probabilities,
        "log_probabilities": not subject.probabilities and are_log_probabilities(case.logits),
        "sigmoids": are_sigmoids(case.logits),
        "random": subject.random,
        "preprocess": asdict(subject.preprocess),
    }


def _about_data(case: Case) -> dict[str, Any]:
    data = case.data
    about = describe_data(data, {"train": data, "test": None})
    kept = {name: about[name] for name in ("name", "shape", "digest", "skipped")}
    count = {"count": len(data), "of": case.every}
    return kept | count | {"classes": case.labels.names, "labels": case.y.tolist(), "seen": case.seen.tolist()}
