"""A claim about a model, as a test makes it: to this transformation it is so invariant, at least."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real

from ..metrics import Orbit
from ..metrics.orbit import as_orbit
from ..transforms import FiniteGroup
from .case import Case, Settings, given
from .ladder import Step, ladders_of
from .measuring import METRICS, Value
from .subject import Preprocess

__all__ = ["BrokenClaimError", "assert_invariant"]

SHARES = ("accuracy", "consistency", "si", "ece")  # metrics from 0 to 1


class BrokenClaimError(AssertionError):
    """A limit is missed; `found` is what was measured, by strength."""

    def __init__(self, message: str, found: Mapping[str, Value]) -> None:
        super().__init__(message)
        self.found = found


def assert_invariant(
    model: object,
    data: object,
    transform: str | Mapping[str, Sequence[float]] | Orbit | FiniteGroup,
    *,
    metric: str = "consistency",
    at_least: float | None = None,
    at_most: float | None = None,
    preprocess: Preprocess | None = None,
    settings: Settings | None = None,
) -> dict[str, Value]:
    """Raises an `AssertionError` unless a metric keeps to a limit at every strength of a transformation.

    A limit is missed when the whole confidence interval of the mean misses it, so that noise of the choice of images
    is no failure; images, copies and resamples are the same in every run.

    Args:
        model: see `audit`.
        data: see `audit`.
        transform: a name of `LADDERS`, such as "rotation" (all its strengths); names with strengths, such as
            {"rotation": [15, 30]}; an orbit, or a finite group for all of it.
        metric: accuracy, consistency or si, of which more is better; li, di or ece, of which less is.
        at_least: the least that is accepted; one of both is given.
        at_most: the most that is accepted.
        preprocess: what the model wants done to images in [0, 1].
        settings: how it is measured.

    Returns:
        What was measured, by strength.
    """
    __tracebackhide__ = True  # a reader of a failure wants the claim, not how it is checked
    limit = _limit(metric, at_least, at_most)
    preprocess, settings = given(preprocess, settings)
    if metric == "si" and settings.saliency == 0:
        raise ValueError("settings: received saliency=0 for the metric 'si'; accepted is a number of images > 0")
    case = Case(model, data, preprocess, settings if metric == "si" else replace(settings, saliency=0))
    found, misses = {}, []
    for step in _steps(transform, case):
        _, values = case.values(step)
        if metric not in values:
            raise ValueError(f"metric: received {metric!r}, which needs gradients and a transform that can be undone")
        value = found[f"{step.transform} {step.label}"] = values[metric]
        below = at_least is not None and value.high < at_least
        if below or (at_most is not None and value.low > at_most):
            misses.append(f"{step.transform} {step.label}: {value.mean:.4g} ({value.low:.4g} to {value.high:.4g})")
    if misses:
        words = f"at {'most' if at_least is None else 'least'} {limit:g}"
        message = f"{metric} of {case.subject.name} should be {words}, but is\n  " + "\n  ".join(misses)
        raise BrokenClaimError(message, found)
    return found


def _limit(metric: str, at_least: float | None, at_most: float | None) -> Real:
    """The one limit that is given, if a claim of the metric may have it."""
    if metric not in METRICS:
        raise ValueError(f"metric: received {metric!r}; accepted is one of {', '.join(METRICS)}")
    if (at_least is None) == (at_most is None):
        raise ValueError(f"at_least, at_most: received {at_least!r} and {at_most!r}; accepted is one of them")
    limit = at_most if at_least is None else at_least
    if not isinstance(limit, Real) or not math.isfinite(limit):
        raise ValueError(f"at_least, at_most: received {limit!r}; accepted is a finite number")
    if metric in SHARES and not 0 <= limit <= 1:  # percent: at most 5 would hold of any model
        accepted = f"from 0 to 1, as {metric} is: 0.05 is five percent"
        raise ValueError(f"at_least, at_most: received {limit!r}; accepted is a number {accepted}")
    return limit


def _steps(transform: object, case: Case) -> list[Step]:
    if isinstance(transform, Orbit | FiniteGroup):
        orbit = as_orbit(transform)
        return [Step(type(orbit.transform).__name__, 1.0, "orbit", orbit)]
    if not isinstance(transform, str | Mapping):
        got = type(transform).__name__
        raise ValueError(
            f"transform: received {got}; accepted is a name, names with strengths, an Orbit or FiniteGroup"
        )
    steps, missing = ladders_of([transform] if isinstance(transform, str) else transform, case.x)
    if missing:  # in a report a line says so; a claim would hold of what was never looked at
        got = f"{list(transform)} for images of {case.x.shape[1]} channels"
        raise ValueError(f"transform: received {got}; accepted are those that apply to them. {missing[0]}")
    return [replace(step, orbit=replace(step.orbit, seed=case.settings.seed)) for step in steps]
