"""The demonstration as one picture and one page: learned distributions side by side, views, alignment, accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from ..utils.words import percent
from .canvas import encode
from .page import Image, Section, page
from .run_figures import LOOK, canvas, enlarge, png
from .style import ACCENT, COLOURS, HAIRLINE, INK, MUTED

__all__ = ["Alignment", "Answer", "Demonstration", "Input", "Turned", "demo_page", "demo_picture"]

NAMES = {"augerino": "Augerino", "instaaug": "InstaAug", "flow": "Learning to Transform"}
TINTS = {"augerino": COLOURS[2], "instaaug": COLOURS[1], "flow": COLOURS[0]}
SAYS = {
    "augerino": "one range for all pictures",
    "instaaug": "a range for each picture",
    "flow": "a distribution for each picture",
}
LINES = {"plain": (MUTED, "--"), "plain, after mean-shift": (ACCENT, "-"), "averaged": (COLOURS[0], "-")}
TITLE = "Which transformations leave a picture's meaning unchanged?"
LEAD = (
    "Two figures, upright or upside down: four classes. In training every picture is rotated by at most 45° from the "
    "prototype of its class. Rotating is harmless until a picture is 90° from its prototype, where the other class "
    "begins; no method was told that. Three methods learned it from labels alone: these are their answers."
)


@dataclass(frozen=True)
class Input:
    """A picture, `(H, W, 3)` bytes, its class, its angle from the class's prototype in degrees, and views of it."""

    image: np.ndarray
    label: str
    angle: float
    views: Sequence[np.ndarray]


@dataclass(frozen=True)
class Answer:
    """What a method has learned.

    Attributes:
        method: its name.
        histograms: of the orientation after transformation, from -180° on, for each input that is shown, `(n, bins)`.
        within: the share of samples within ±90° of the prototype, over many inputs.
        span: how long the central 98 % of an input's samples are, in degrees; the mean over many inputs.
        variation: the total variation between inputs of a class that are 60° apart.
    """

    method: str
    histograms: np.ndarray
    within: float
    span: float
    variation: float


@dataclass(frozen=True)
class Alignment:
    """Copies of a picture at several steps of mean-shift, the median angle between them there, and how many met."""

    steps: Sequence[int]
    images: Sequence[Sequence[np.ndarray]]
    gaps: Sequence[float]
    met: int

    @property
    def words(self) -> str:
        """How many of how many."""
        n = len(self.images[0])
        return f"all {n}" if self.met == n else f"{self.met} of {n}"


@dataclass(frozen=True)
class Turned:
    """Accuracies of several ways to predict, by the angle of a picture from its prototype in degrees.

    Attributes:
        angles: the middle of each bin.
        accuracy: in each bin, NaN where it has no pictures.
        seen: of all pictures at angles that training has, and of all others.
        count: how many pictures there are.
    """

    angles: np.ndarray
    accuracy: Mapping[str, np.ndarray]
    seen: Mapping[str, tuple[float, float]]
    count: int


@dataclass(frozen=True)
class Demonstration:
    """All that is shown; `folder` holds the runs."""

    inputs: Sequence[Input]
    answers: Sequence[Answer]
    alignment: Alignment
    turned: Turned
    folder: str


def demo_picture(found: Demonstration) -> bytes:
    """The picture: answers above, alignment and accuracy below."""
    with matplotlib.rc_context(LOOK):
        figure = canvas(1160, 1080)
        _words(figure, 0.03, 0.975, TITLE, size=15, weight="bold")
        _answers(figure, found, (0.03, 0.37, 0.94, 0.58))
        _words(
            figure,
            0.03,
            0.338,
            f"Mean-shift: {found.alignment.words} rotated copies find the same pose, each by itself",
            weight="bold",
        )
        _alignment(figure, found.alignment, (0.03, 0.02, 0.5, 0.3))
        _words(figure, 0.59, 0.338, "Accuracy in poses that training never showed", weight="bold")
        _accuracy(figure.add_axes((0.63, 0.07, 0.34, 0.245)), found.turned)
    return png(figure, 200)


def demo_page(found: Demonstration) -> str:
    """The whole page."""
    with matplotlib.rc_context(LOOK):
        answers = canvas(1160, 680)
        _answers(answers, found, (0.0, 0.0, 1.0, 1.0))
        curves = canvas(760, 320)
        _accuracy(curves.add_axes((0.08, 0.15, 0.9, 0.8)), found.turned)
    best = found.answers[-1]
    table = [f"{'':<24}{'within ±90°':>13}{'span':>9}{'TV':>9}"]
    table += [
        f"{NAMES[a.method]:<24}{percent(a.within, 1):>13}{a.span:>8.0f}°{a.variation:>9.2f}" for a in found.answers
    ]
    learned = Section(
        "Three answers",
        "Around each ring: the orientation of the picture after a transformation that the method believes to be "
        "harmless. The dotted line is the picture as it is; shaded is what is truly harmless. A good answer fills the "
        "shaded half, and nothing else, wherever the picture started.",
        "Within ±90°: the share of samples that keep their class (of 200 pictures). Span: how far apart the central "
        "98 % of a picture's samples lie; 180° is all there is. TV: the total variation between the answers for two "
        "pictures of a class that are 60° apart; 0 is an answer that does not depend on the pose.",
        rows=[("", [Image(png(answers), _answers_alt(found), width=1160)])],
        per_line=1,
        code="\n".join(table),
    )
    return page(
        TITLE,
        LEAD,
        {
            "What is learned": [learned],
            "What it looks like": [_views(found.inputs)],
            "What it is good for": [_steps(found.alignment), _poses(found.turned, png(curves))],
            "And now": [_use(found, best)],
        },
    )


def _answers_alt(found: Demonstration) -> str:
    return "; ".join(f"{NAMES[a.method]}: {percent(a.within, 1)} of samples within ±90°" for a in found.answers)


def _views(inputs: Sequence[Input]) -> Section:
    rows = []
    for one in inputs:
        own = Image(encode(enlarge(one.image)), f"A {one.label}", f"{one.angle:+.0f}°", marked=True, width=104)
        views = [Image(encode(enlarge(view)), "A view of it", width=104) for view in one.views]
        rows.append(("", [own, *views]))
    text = "Pictures, marked, and samples of what may be done to them: rotations, and shifts of a pixel or two."
    return Section("Samples", text, rows=rows, per_line=1 + max(len(one.views) for one in inputs))


def _steps(alignment: Alignment) -> Section:
    rows = []
    for step, images, gap in zip(alignment.steps, alignment.images, alignment.gaps, strict=True):
        shown = [Image(encode(enlarge(image)), f"A copy after {step} steps", width=104) for image in images]
        rows.append((f"{'as they are' if step == 0 else f'step {step}'}: {gap:.1f}° apart (median)", shown))
    text = (
        "Copies of one picture, rotated over the whole range, of which the outer ones are rotated twice as far as any "
        f"in training. Each is moved to the middle of its own distribution, again and again: {alignment.words} meet. "
        "One that starts next to the other class may go to that class's pose."
    )
    note = "Transformations are composed, and every step warps the original once, so nothing blurs."
    return Section("Mean-shift", text, note, rows=rows, per_line=len(alignment.images[0]))


def _poses(turned: Turned, figure: bytes) -> Section:
    shares = turned.seen.items()
    words = "; ".join(
        f"{name}: {percent(near, 1)} within 45°, {percent(beyond, 1)} beyond" for name, (near, beyond) in shares
    )
    text = (
        "A plain classifier, trained on pictures within ±45°, stays as it is: pictures are aligned before it sees "
        "them. Averaged is the model that was trained with its distribution."
    )
    image = Image(figure, f"Accuracy by angle. {words}", width=760)
    return Section("Unexpected poses", text, f"{turned.count} pictures. {words}.", rows=[("", [image])], per_line=1)


def _use(found: Demonstration, best: Answer) -> Section:
    lines = (
        "from erlangen.align import mean_shift",
        "from erlangen.estimators import load_run",
        "",
        f"run = load_run({f'{found.folder}/{best.method}'!r})",
        "q = run.model.conditional(x)  # x: images (B, 3, 32, 32) in [0, 1]; a distribution for each",
        "views = run.model.transform(x, q.sample((9,)))  # (9, B, 3, 32, 32)",
        "upright = mean_shift(x, run.model.transform, run.model.conditional).x",
        "",
        "# the same for a folder of your own pictures, with a sub-folder for each class:",
        "# erlangen fit pictures --transform tx,ty,angle",
    )
    return Section("In Python, and on your own pictures", code="\n".join(lines))


def _words(figure: Figure, x: float, y: float, words: str, size: float = 10.5, **look: Any) -> None:
    figure.text(x, y, words, fontsize=size, color=INK, va="center", **look)


def _answers(figure: Figure, found: Demonstration, box: tuple[float, float, float, float]) -> None:
    """One line for each method, one column for each input, with its picture inside each ring."""
    left, bottom, width, height = box
    lines, columns = len(found.answers), len(found.inputs)
    name = 0.2 * width
    across, down = (width - name) / columns, height / lines
    for line, answer in enumerate(found.answers):
        middle = bottom + height - (line + 0.5) * down
        _words(figure, left, middle + 0.1 * down, NAMES[answer.method], 12, weight="bold")
        figure.text(left, middle - 0.03 * down, SAYS[answer.method], fontsize=9, color=MUTED, va="center")
        figure.text(
            left, middle - 0.15 * down, f"{percent(answer.within, 1)} keep their class", fontsize=9, color=MUTED
        )
        for column, one in enumerate(found.inputs):
            axes = figure.add_axes((left + name + column * across, middle - 0.5 * down, across, down))
            _ring(axes, one, answer.histograms[column], TINTS[answer.method])


def _ring(axes: Axes, one: Input, histogram: np.ndarray, colour: str) -> None:
    """Orientations after transformation around a circle; upwards is the prototype, left is counter-clockwise."""
    inner, room = 0.5, 0.36
    _sector(axes, (0, math.pi), inner, inner + room, HAIRLINE, 0.6)
    edges = np.linspace(-math.pi, math.pi, len(histogram) + 1) + math.pi / 2
    # Even on half of the circle reaches the rim; a narrow range is drawn as long as the rim allows, and a little more.
    length = room * np.minimum(histogram * len(histogram) / 2, 1.25)
    for k, size in enumerate(length):
        _sector(axes, (edges[k], edges[k + 1]), inner, inner + size, colour, 0.8)
    axes.add_patch(Circle((0, 0), inner, fill=False, color=MUTED, linewidth=0.9))
    turn = math.radians(one.angle) + math.pi / 2
    axes.plot(
        (inner * math.cos(turn), 1.02 * math.cos(turn)),
        (inner * math.sin(turn), 1.02 * math.sin(turn)),
        color=ACCENT,
        linewidth=1.6,
        linestyle=(0, (1, 1.2)),
    )
    side = 0.94 * inner
    picture = axes.imshow(enlarge(one.image), extent=(-side, side, -side, side), interpolation="antialiased")
    picture.set_clip_path(Circle((0, 0), side, transform=axes.transData))
    axes.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), aspect="equal")
    axes.set_axis_off()


def _sector(axes: Axes, arc: tuple[float, float], inner: float, outer: float, colour: str, alpha: float) -> None:
    """What lies between two angles and two radii."""
    turn = np.linspace(*arc, 2 + round(20 * (arc[1] - arc[0])))
    x = np.concatenate((inner * np.cos(turn), outer * np.cos(turn[::-1])))
    y = np.concatenate((inner * np.sin(turn), outer * np.sin(turn[::-1])))
    axes.fill(x, y, color=colour, alpha=alpha, linewidth=0)


def _alignment(figure: Figure, alignment: Alignment, box: tuple[float, float, float, float]) -> None:
    """Copies across, steps down."""
    left, bottom, width, height = box
    label, tall = 0.075, height / len(alignment.steps)
    wide = (width - label) / len(alignment.images[0])
    for line, (step, images) in enumerate(zip(alignment.steps, alignment.images, strict=True)):
        y = bottom + height - (line + 1) * tall
        words = f"step {step}\n{alignment.gaps[line]:.1f}° apart"
        figure.text(left, y + tall / 2, words, fontsize=7.5, color=MUTED, va="center")
        for column, image in enumerate(images):
            axes = figure.add_axes((left + label + column * wide, y + 0.002, wide * 0.96, tall * 0.96))
            axes.imshow(enlarge(image), interpolation="antialiased")
            axes.set_axis_off()


def _accuracy(axes: Axes, turned: Turned) -> None:
    axes.axvspan(-45, 45, color=HAIRLINE, alpha=0.4, linewidth=0)
    axes.text(0, 0.03, "seen in training", color=MUTED, fontsize=8, ha="center")
    for name, values in turned.accuracy.items():
        colour, style = LINES[name]
        axes.plot(turned.angles, values, style, color=colour, linewidth=1.8, label=name)
    axes.set(xlim=(-90, 90), ylim=(0, 1.03), xlabel="rotated by, from the prototype", ylabel="accuracy")
    axes.set_xticks(range(-90, 91, 45), [f"{t}°".replace("-", "−") for t in range(-90, 91, 45)])
    axes.set_yticks((0, 0.5, 1), ("0", "50 %", "100 %"))
    axes.tick_params(length=0)
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 0.12))
