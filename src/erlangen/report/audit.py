"""The report of an audit: one self-contained page that can be forwarded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from torch import Tensor

from ..utils.words import percent
from .audit_figures import WIDTH, classes_figure, ladder_figure, overview_figure
from .canvas import encode, pixels
from .page import Image, Section, page
from .run_figures import class_labels, enlarge

__all__ = ["audit_page"]

Shown = tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]
CLASSES = 30  # classes whose rows are drawn; the file has all
WORDS = {
    "accuracy": "the share of copies that are classified correctly",
    "consistency": "the share of copies whose class is that of the image as it is, right or wrong",
    "LI": "½|f(x) − f(gx)|², how far logits move",
    "DI": "the Kullback-Leibler divergence from the prediction for the image to that for its copy, in nats",
    "SI": "the cosine between where the model looks in the image and in its copy, brought back",
    "ECE": "the expected calibration error",
}


def audit_page(record: Mapping[str, Any], pictures: Sequence[Shown] = ()) -> str:
    """The whole page.

    Args:
        record: what an `audit.json` holds.
        pictures: of the worst inputs: before, after, `(C, H, W)`, and where the model looks in both, `(1, H, W)`.
    """
    sections: dict[str, list[Section]] = {"In short": _short(record["summary"], record["notes"])}
    sections["Every transformation"] = [_overview(record), _pairs(record)]
    ladders = groupby(record["steps"], key=lambda step: step["transform"])
    sections["Against strength"] = [_words(), *(_ladder(name, list(steps)) for name, steps in ladders)]
    sections["Class by class"] = [_classes(record)]
    if pictures:
        sections["The worst inputs"] = [_worst(record, pictures)]
    sections["How it was measured"] = [_method(record)]
    lead = "Does this model answer the same when an image is rotated, moved, resized or recoloured?"
    return page(f"Audit of {record['model']['name']}", lead, sections, record["provenance"])


def _short(summary: Mapping[str, str], notes: Sequence[str]) -> list[Section]:
    """A card for each finding, and one for what to be careful with."""
    cards = [Section(about, words) for about, words in summary.items()]
    return [*cards, *([Section("With care", " ".join(notes))] if notes else [])]


def _overview(record: Mapping[str, Any]) -> Section:
    text = (
        "The share of decisions that stay, at every strength. Pale marks are the null control: images moved there and "
        "back, which changes nothing but sharpness and what left the frame on the way. Where both agree, interpolation "
        "was measured, not invariance."
    )
    alt = "; ".join(f"{_what(s)}: {percent(s['values']['consistency']['mean'])} stay" for s in record["steps"])
    figure = Image(overview_figure(record["steps"]), alt, width=WIDTH)
    return Section("Which decisions stay", text, rows=[("", [figure])], per_line=1)


def _words() -> Section:
    text = (
        "Of accuracy, consistency and SI more is better (↑); of LI, DI and ECE less (↓). The blue line is the model, "
        "with its interval; the grey one, dashed, the null control. Where both are alike, resampling is the cause."
    )
    return Section("What the figures show", text, facts=WORDS)


def _ladder(name: str, steps: Sequence[Mapping[str, Any]]) -> Section:
    alt = f"Accuracy, consistency, LI, DI, SI and ECE against the strength of {name}, with intervals and null control"
    figure = Image(ladder_figure(steps), alt, width=WIDTH)
    return Section(name.capitalize(), rows=[("", [figure])], per_line=1)


def _classes(record: Mapping[str, Any]) -> Section:
    present = sorted(set(record["data"]["labels"]))
    names = class_labels(present[:CLASSES], record["data"]["classes"])
    some = f" The first {CLASSES} of {len(present)} classes." if len(present) > CLASSES else ""
    text = f"The share of right predictions at the greatest strength of each transformation, and as they are.{some}"
    figure = Image(classes_figure(record, present[:CLASSES], names), "Accuracy by class and transformation", width=760)
    return Section("Accuracy of classes", text, rows=[("", [figure])], per_line=1)


def _pairs(record: Mapping[str, Any]) -> Section:
    names = record["data"]["classes"]  # whole: shortened ones may be alike
    facts = {
        f"{names[p['first']]} ↔ {names[p['second']]}": f"→ {percent(p['there'])}, ← {percent(p['back'])}: {_what(p)}"
        for p in record["pairs"]
    }
    text = (
        "Which share of either becomes the other (→, ←), of images classified correctly without a transformation; each "
        "pair under the transformation that mixes it most."
    )
    nothing = "No two classes turn into each other: nowhere a tenth of both."
    return Section("Classes that turn into each other", text if facts else nothing, facts=facts)


def _what(step: Mapping[str, Any]) -> str:
    return f"{step['transform']} {step['label'].removesuffix(' of the side')}"


def _worst(record: Mapping[str, Any], pictures: Sequence[Shown]) -> Section:
    rows, names, steps = [], record["data"]["classes"], record["steps"]
    for found, (before, after, looks) in zip(record["worst"], pictures, strict=True):
        step, y = steps[found["step"]], names[record["data"]["labels"][found["index"]]]
        captions = [f"as it is: {names[found['before']]}", f"moved: {names[found['after']]}"]
        images = [_image(x, words) for x, words in zip((before, after), captions, strict=True)]
        for x, look in zip((before, after), looks or (), strict=False):
            images.append(_image(_lit(x, look), "looks here"))
        label = f"{found['place']}, {y}: {_what(step)}, {found['moved']:.3g} nats"
        rows.append((label, images))
    text = (
        "Images whose prediction moves most under the mildest strength of each transformation, these in turn; those "
        "that go from right to wrong first."
    )
    return Section("Ten that move most" if len(rows) == 10 else "Those that move most", text, rows=rows, per_line=4)


def _image(x: Tensor, words: str) -> Image:
    return Image(encode(enlarge(pixels(x))), words, words, width=132)


def _lit(x: Tensor, look: Tensor) -> Tensor:
    """A dim image with a light where the model looks, `(3, H, W)`."""
    light = look / look.max().clamp_min(1e-12)
    grey = x.mean(0, keepdim=True).expand(3, -1, -1) * 0.35
    return grey + light * light.new_tensor([1.0, 0.55, 0.1]).view(3, 1, 1)


def _preprocessing(given: Mapping[str, Any]) -> str:
    said = {name.replace("_", " "): value for name, value in given.items() if value is not None and value is not False}
    lists = {name: value if isinstance(value, list) else [value] for name, value in said.items()}
    numbers = {name: " ".join(f"{v:g}" for v in values if v is not True) for name, values in lists.items()}
    return ", ".join(f"{name} {words}".strip() for name, words in numbers.items())


def _method(record: Mapping[str, Any]) -> Section:
    blind, settings, data = record["blindness"], record["settings"], record["data"]
    missing = "not measured" if record["model"]["gradients"] else "missing: no gradients"
    sensitivity = missing if blind["sensitivity"] is None else f"{blind['sensitivity']:.3g}"
    level = settings["bootstrap"]["level"]
    facts = {
        "model": f"{record['model']['name']}, {record['model']['classes']} classes",
        "preprocessing": _preprocessing(record["model"]["preprocess"]),
        "images": f"{data['count']:,} of {data['of']:,} of {data['name']}, {'×'.join(map(str, data['shape']))}",
        "intervals": f"{percent(level)}, bootstrap over images, {settings['bootstrap']['resamples']} resamples",
        "information": f"{blind['information']:.3g} nats in predictions, {blind['labels']:.3g} in labels",
        "spread": f"{blind['spread']:.3g}, the LI between an image and another",
        "sensitivity": f"{sensitivity}, the mean largest singular value of the Jacobian",
        "seconds": f"{record['provenance']['seconds']:.0f}",
    }
    note = "An audit is compared with a later one by `erlangen check audit.json --baseline old.json`."
    return Section("Settings", note=note, facts=facts)
