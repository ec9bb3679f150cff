"""The report of a run: one self-contained page from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..utils.words import percent
from .canvas import encode
from .page import Image, Section, page
from .run_figures import (
    Accuracy,
    Coordinate,
    Example,
    accuracy_figure,
    class_labels,
    curves_figure,
    distribution_figure,
    distribution_width,
    enlarge,
    ranges_figure,
)

__all__ = ["Findings", "run_page"]


@dataclass(frozen=True)
class Findings:
    """What the report of a run shows.

    Attributes:
        title: of the page.
        lead: what was trained, in a sentence or two.
        facts: the settings, by name.
        accuracy: by part of the data.
        history: the rows of the log.
        coordinates: of the transform.
        learned: whether the distribution was learned; otherwise it is only said what it is.
        examples: several inputs; none where a method has no views.
        half_ranges: half of the shortest range that holds 98 % of the samples, for many inputs, `(N, d)`.
        labels: their classes, `(N,)`.
        classes: the names of the classes.
        kinds: what an input is called, and what several are.
        code: how to use the run.
        about: its provenance.
    """

    title: str
    lead: str
    facts: Mapping[str, str]
    accuracy: Sequence[Accuracy]
    history: Sequence[Mapping[str, Any]]
    coordinates: Sequence[Coordinate] = ()
    learned: bool = False
    examples: Sequence[Example] = ()
    half_ranges: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    labels: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    classes: Sequence[str] = ()
    kinds: tuple[str, str] = ("image", "images")
    code: str = ""
    about: Mapping[str, Any] | None = None


def run_page(findings: Findings) -> str:
    """The whole page."""
    sections: dict[str, list[Section]] = {"Result": [_accuracy(findings)]}
    if findings.learned:
        sections["What it has learned"] = [_distributions(findings)]
        if len(findings.half_ranges):
            sections["Class by class"] = [_ranges(findings)]
    if findings.examples:
        sections["What it sees"] = [_views(findings)]
    if any(row["kind"] != "alarm" for row in findings.history):
        sections["How it went"] = [_curves(findings)]
    sections["What it is"] = [_settings(findings)]
    return page(findings.title, findings.lead, sections, findings.about)


def _accuracy(findings: Findings) -> Section:
    def words(row: Accuracy) -> str:
        averaged = "" if row.averaged is None else f", {percent(row.averaged, 1)} averaged"
        return f"{row.part} {percent(row.plain, 1)} as they are{averaged}"

    told = "; ".join(words(row) for row in findings.accuracy)
    both = any(row.averaged is not None for row in findings.accuracy)
    text = f"The share of {findings.kinds[1]} whose class is predicted correctly"
    text += ", each seen once as it is, and averaged over transformed views of it." if both else ", each as it is."
    figure = Image(accuracy_figure(findings.accuracy, findings.kinds[1]), told, width=760)
    # In words as well: on a telephone the numbers of the figure lie beyond the edge.
    return Section("Accuracy", text, f"{told.capitalize()}.", rows=[("", [figure])], per_line=1)


def _distributions(findings: Findings) -> Section:
    images, (one, many), width = [], findings.kinds, min(720, distribution_width(findings.coordinates))
    for example in findings.examples:
        caption = f"{example.label}; predicted {example.predicted}, {percent(example.probability)}"
        alt = f"Distribution of transformations for {_a(one)} of {example.label}"
        images.append(Image(distribution_figure(example, findings.coordinates), alt, caption, width=width))
    rings = [c.periodic for c in findings.coordinates]
    likely = ["far out around a ring"] * any(rings) + ["high in a histogram"] * (not all(rings))
    text = (
        f"Which transformations leave the meaning of {_a(one)} unchanged, as the model believes, for several {many}. "
        f"What lies {' or '.join(likely)} is likely."
    )
    circle = (
        f"A ring shows an angle: upwards is the {one} as it is, left a quarter turn counter-clockwise; the dashed "
        "circle is what no preference would look like."
    )
    line = f"In a histogram the dashed line is the {one} as it is."
    notes = [circle] * any(rings) + [line] * (not all(rings)) + ["Marginals of 2000 samples each."]
    return Section(
        "Learned distributions", text, " ".join(notes), rows=[("", images)], per_line=2 if width > 400 else 3
    )


def _views(findings: Findings) -> Section:
    rows, (one, many) = [], findings.kinds
    for example in findings.examples:
        alt = f"{_a(one).capitalize()} of {example.label}"
        own = Image(encode(enlarge(example.image)), alt, f"the {one}", marked=True, width=104)
        views = [Image(encode(enlarge(view)), "A transformed view of it", width=104) for view in example.views]
        rows.append((example.label, [own, *views]))
    who = "drawn from the distribution learned for each" if findings.learned else "uniform within the bounds"
    text = f"{many.capitalize()} as they are, marked, and views of them, {who}."
    return Section("Views", text, rows=rows, per_line=1 + max(len(e.views) for e in findings.examples))


def _ranges(findings: Findings) -> Section:
    figure = ranges_figure(findings.half_ranges, findings.labels, findings.classes, findings.coordinates)
    numbers, every, (one, many) = np.unique(findings.labels).tolist(), len(findings.classes), findings.kinds
    some = "" if len(numbers) == every else f", the first {len(numbers)} of {every} classes"
    text = (
        f"How widely the {many} of each class may be transformed: half the length of the shortest range that holds "
        f"98 % of the samples. The bar is the mean, each dot {_a(one)}, the pale bar the whole range that was allowed."
    )
    names, called = [findings.classes[k] for k in numbers], class_labels(numbers, findings.classes)
    unclear = [
        (c, name) for c, name in zip(called, names, strict=True) if c != name and (c[0].isdigit() or "…" not in c)
    ]
    meant = [f"{c} is {name}" for c, name in unclear]
    note = f"{len(findings.labels)} {many}{some}. {'; '.join(meant)}".strip()
    alt = "Mean half-range of each coordinate, by class"
    return Section(
        "Ranges",
        text,
        note,
        rows=[("", [Image(figure, alt, width=1160)])],
        per_line=1,
    )


def _curves(findings: Findings) -> Section:
    alarms = [row["message"] for row in findings.history if row["kind"] == "alarm"]
    figure = Image(curves_figure(findings.history), "Loss, accuracy, entropy and its weight, by step", width=1160)
    return Section("Training", note=" ".join(alarms), rows=[("", [figure])], per_line=1)


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _settings(findings: Findings) -> Section:
    width = max(len(name) for name in findings.facts)
    lines = [f"{name:<{width}}  {value}" for name, value in findings.facts.items()]
    return Section("Settings and use", code="\n".join([*lines, "", findings.code]).strip())
