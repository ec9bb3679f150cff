r"""The gate: whether a model is less invariant than a baseline, by more than noise.

Both audits have a value for every input, metric and step, so there are differences $d_{ij}$ of input i in test j, which
are positive where the model is worse than its baseline. If the model has not changed, the two values of an input are
exchangeable: the signs of its differences are as likely as their opposites, for all j at once. The paired bootstrap
with random signs $\varepsilon_i = \pm 1$ (the wild bootstrap) draws from just that law,

$$ t_j^* = \frac{\sum_i \varepsilon_i d_{ij}}{\sqrt{\sum_i d_{ij}^2}}, \qquad
   p_j = P\big(\max_k t_k^* \ge t_j\big), $$

with the given signs counted as one of the draws. An alarm is a $p_j$ of at most the rate. The maximum is over all
tests, so that the rate is that of *any* false alarm of a whole check, exactly, for any number of inputs and tests.

References:
    | R. Y. Liu. Bootstrap procedures under some non-i.i.d. models (1988).
    | P. Westfall, S. Young. Resampling-based multiple testing (1993).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ..metrics import Bootstrap, measured
from ..utils.seeds import generator
from ..utils.shapes import check_count, check_weight, describe
from .measuring import METRICS, OF_INPUTS
from .record import is_whole

__all__ = ["GATED", "Drop", "Verdict", "compare", "sign_test"]

# Both have a scale: logits may grow without any change of a decision.
GATED = ("accuracy", "consistency")
# The metrics that differ with the kind of a model's outputs, which are logits if none of these. Probabilities become
# logarithms, whose softmax is that of the logits, while sigmoids are taken for logits.
DEPENDING = {"probabilities": ("li", "si"), "log_probabilities": ("li", "si"), "sigmoids": ("li", "di", "si")}
SHARES = ("accuracy", "consistency", "si")  # from 0 to 1
CHUNK = 1000  # draws at a time


@dataclass(frozen=True)
class Drop:
    """One test: what was compared, both means, the change with its interval, and how often chance does as much."""

    transform: str
    label: str
    metric: str
    before: float
    after: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Verdict:
    """All tests, the most conspicuous first, and the rate at which any of them is a false alarm.

    `notes` are sentences on what else than the models' weights may be the cause of a change.
    """

    tests: Sequence[Drop]
    rate: float
    notes: Sequence[str] = ()

    @property
    def alarms(self) -> list[Drop]:
        """The tests that chance does not explain."""
        return [test for test in self.tests if test.p <= self.rate]


def compare(
    audit: Mapping[str, Any],
    baseline: Mapping[str, Any],
    *,
    metrics: str | Collection[str] = GATED,
    rate: float = 0.05,
    margin: float = 0.0,
    draws: int = 10_000,
) -> Verdict:
    """Whether an audit is worse than a baseline, on the same images and under the same transformations.

    Args:
        audit: the record of an audit; see `Audit.record` and `read_audit`.
        baseline: the record of the audit to compare with.
        metrics: what is compared: one or several of accuracy, consistency, li, di and si.
        rate: the greatest probability of any false alarm.
        margin: how much worse a mean may be, in the unit of the metric, without being a drop: of shares, such as
            accuracy, 0.02 is two percent.
        draws: the number of draws of random signs.

    Raises:
        ValueError: the audits cannot be compared, or an argument is out of range; the message says why.
    """
    if not isinstance(rate, float) or not 1 / (check_count("draws", draws) + 1) <= rate < 1:
        raise ValueError(
            f"rate: received {rate!r}; accepted is a number below 1, from 1/{draws + 1} on ({draws} draws)"
        )
    for name, record in {"audit": audit, "baseline": baseline}.items():
        if not is_whole(record):
            accepted = "the whole record of an audit (see Audit.record and read_audit)"
            raise ValueError(f"{name}: received {type(record).__name__}; accepted is {accepted}")
    metrics = [metrics] if isinstance(metrics, str) else metrics
    if not isinstance(metrics, Collection) or not metrics or any(name not in OF_INPUTS for name in metrics):
        accepted = f"{', '.join(OF_INPUTS)}, which every input has"
        raise ValueError(f"metrics: received {describe(metrics)}; accepted are some of {accepted}")
    if audit["data"]["digest"] != baseline["data"]["digest"]:
        got = f"an audit of other images{_sizes(audit, baseline)}"
        raise ValueError(f"baseline: received {got}; accepted is one of the same images: audit both models anew")
    _check_margin(margin, metrics)
    _check_outputs(audit, baseline, metrics)
    cells = _cells(audit, baseline, metrics)
    for (*_, metric), (values, _) in cells.items():
        count = int(values.isfinite().sum())
        if 0.5**count > rate:  # all signs alike are as rare as that, and nothing is rarer
            got = f"{metric} of {count} image{'s' * (count != 1)}, too few"
            raise ValueError(f"audit: received {got} for any drop to show at a rate of {rate:g}")
    before, after = (torch.stack([cells[key][k] for key in cells], 1) for k in (0, 1))
    better = torch.tensor([1.0 if METRICS[metric] else -1.0 for *_, metric in cells], dtype=torch.float64)
    # An input without a value has no difference, and adds to no sum.
    p = sign_test(((before - after) * better - margin).nan_to_num(0.0), draws=draws)
    tests = [_drop(key, before[:, j], after[:, j], float(p[j])) for j, key in enumerate(cells)]
    return Verdict(sorted(tests, key=lambda test: test.p), rate, _notes(audit, baseline, metrics))


def _check_margin(margin: float, metrics: Collection[str]) -> None:
    """Raises a `ValueError` for a margin that lets everything pass, such as one in percent."""
    free = [metric for metric in metrics if metric in SHARES]
    if check_weight("margin", margin) >= 1 and free:
        got = f"{margin:g} for {', '.join(free)}, of which no drop is greater"
        raise ValueError(f"margin: received {got}; accepted is a share below 1: 0.02 is two percent")


def _notes(audit: Mapping[str, Any], baseline: Mapping[str, Any], metrics: Collection[str]) -> list[str]:
    """Notes on what differs besides the models' weights, and may be the cause of a change."""
    told = _preprocessed(audit, baseline)
    if "di" in metrics and "probabilities" in _differ(audit, baseline):
        who = f"The audit is of {_outputs(audit)}, the baseline of {_outputs(baseline)}"
        told.append(f"{who}: their DI differs where probabilities are too small to be told from zero.")
    return told


def _preprocessed(audit: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    """How preprocessing differs, if it does; a setting that one of the files does not have is no difference."""
    new, old = (record["model"].get("preprocess") for record in (audit, baseline))
    if not (isinstance(new, Mapping) and isinstance(old, Mapping)):
        return []
    pairs = {name: (_one(new[name]), _one(old[name])) for name in new if name in old}
    told = [f"{name} {a} in place of {b}" for name, (a, b) in pairs.items() if a != b]
    return [f"Images were preprocessed otherwise than for the baseline: {', '.join(told)}."] if told else []


def _sizes(audit: Mapping[str, Any], baseline: Mapping[str, Any]) -> str:
    """How the shapes of images differ, if they do."""
    new, old = (record["data"].get("shape") for record in (audit, baseline))
    return f", {old} where the audit has {new}" if new != old else ""


def _check_outputs(audit: Mapping[str, Any], baseline: Mapping[str, Any], metrics: Collection[str]) -> None:
    """Raises a `ValueError` for metrics that outputs of two kinds make different; a kind missing in a file is none."""
    apart = {metric for kind in _differ(audit, baseline) for metric in DEPENDING[kind]}
    if lost := [metric for metric in metrics if metric in apart]:
        got = f"{', '.join(lost)} of {_outputs(audit)} in the audit and of {_outputs(baseline)} in the baseline"
        rest = ", ".join(name for name in OF_INPUTS if name not in apart)
        raise ValueError(f"metrics: received {got}; accepted are audits of the same outputs, or {rest}")


def _differ(audit: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    """The kinds of outputs that only one of both models gives."""
    new, old = audit["model"], baseline["model"]
    return [kind for kind in DEPENDING if kind in new and kind in old and new[kind] != old[kind]]


def _outputs(record: Mapping[str, Any]) -> str:
    return next((kind for kind in DEPENDING if record["model"].get(kind)), "logits").replace("_", "-")


def _check_saliency(audit: Mapping[str, Any], baseline: Mapping[str, Any]) -> None:
    """Raises a `ValueError` if only one of the audits has a saliency similarity, or if they have that of other inputs.

    Both are of the same steps, apart from those that only the audit has.
    """
    steps = {(step["transform"], step["label"]) for step in baseline["steps"]}
    sides = {"audit": audit, "baseline": baseline}
    lacking = [name for name, record in sides.items() if not _has_saliency(record, steps)]
    if len(lacking) == 1:
        (name,) = lacking
        other = "baseline" if name == "audit" else "audit"
        got = f"no si, which the {other} has{_why(sides[name])}"
        raise ValueError(f"{name}: received {got}; accepted are two audits that have it, or other metrics")
    if not lacking and audit["data"]["seen"] != baseline["data"]["seen"]:
        raise ValueError(
            "audit: received si of other inputs; accepted are those of the baseline (saliency, --saliency)"
        )


def _has_saliency(record: Mapping[str, Any], steps: Collection[tuple[str, str]]) -> bool:
    """Whether any input has a saliency similarity under any of these steps."""
    found = [step["values"].get("si") for step in record["steps"] if (step["transform"], step["label"]) in steps]
    return any(value is not None for similar in found if similar for value in similar["inputs"])


def _why(record: Mapping[str, Any]) -> str:
    """Why an audit has no saliency similarity, as far as it says."""
    if record["model"].get("gradients") is False:
        return ", for its model has no gradients"
    return "" if record["data"]["seen"] else ", for it was made without saliency (saliency, --saliency)"


def _one(value: Any) -> Any:
    """A setting: one value for all channels, or for both sides, is the same as that value for each."""
    return value[0] if isinstance(value, list) and value and all(each == value[0] for each in value) else value


def _cells(
    audit: Mapping[str, Any], baseline: Mapping[str, Any], metrics: Collection[str]
) -> dict[tuple[str, str, str], tuple[Tensor, Tensor]]:
    """The values of all inputs, before and after, by transformation, strength and metric, `(B,)` each.

    Saliency similarity is measured on some of the inputs: the others have NaN.
    """
    sides = [{(s["transform"], s["label"]): s["values"] for s in record["steps"]} for record in (baseline, audit)]
    if lost := [step for step in sides[0] if step not in sides[1]]:
        name, label = lost[0]
        raise ValueError(f"audit: received without {name} of {label}, which the baseline has; accepted is the same")
    count, seen = audit["data"]["count"], audit["data"]["seen"]
    if "si" in metrics:
        _check_saliency(audit, baseline)
    cells = {}
    for step, metric in product(sides[0], metrics):
        there = [metric in side[step] for side in sides]
        if any(there):
            places = seen if metric == "si" else None
            each = [_placed(side[step].get(metric), places, count) for side in sides]
            if not torch.equal(each[0].isfinite(), each[1].isfinite()):
                which = " ".join([metric, "of", *step])
                raise ValueError(f"audit: received {which} for other inputs than the baseline; accepted is the same")
            if each[0].isfinite().any():
                cells[*step, metric] = (each[0], each[1])
    if lost := [metric for metric in metrics if not any(key[-1] == metric for key in cells)]:
        raise ValueError(
            f"metrics: received {', '.join(lost)}, which neither audit holds; accepted are those they hold"
        )
    return cells


def _placed(value: Mapping[str, Any] | None, seen: Sequence[int] | None, count: int) -> Tensor:
    """The values of inputs at their places, NaN elsewhere, `(count,)`."""
    found = torch.full((count,), torch.nan, dtype=torch.float64)
    if value is None:
        return found
    values = [math.nan if each is None else each for each in value["inputs"]]
    places = range(count) if seen is None else seen
    if len(values) != len(places):
        raise ValueError(f"audit: received {len(values)} values for {len(places)} inputs; it is damaged, run it again")
    found[list(places)] = torch.tensor(values, dtype=torch.float64)
    return found


def sign_test(worse: Tensor, *, draws: int = 10_000, seed: int = 0) -> Tensor:
    r"""How often random signs give a greatest $t^*$ as large as that of each test; see the module.

    Shape:
        worse: differences, for the worse where positive, `(B, J)`; result: `(J,)`, each in (0, 1].

    Example:
        >>> alike = sign_test(torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]))
        >>> worse = sign_test(torch.ones(20, 1))
        >>> bool(alike > 0.5), bool(worse < 0.001)
        (True, True)
    """
    norm = worse.square().sum(0).sqrt()
    scaled = worse / torch.where(norm > 0, norm, 1.0)
    given, source = scaled.sum(0), generator(seed)
    reached = torch.ones_like(given)  # counts the given signs themselves
    for start in range(0, draws, CHUNK):
        size = (min(CHUNK, draws - start), len(worse))
        signs = torch.randint(2, size, generator=source).to(worse.dtype) * 2 - 1
        greatest = (signs @ scaled).amax(1)
        reached += (greatest.unsqueeze(1) >= given - 1e-9).sum(0)  # equal to rounding is equal
    return reached / (draws + 1)


def _drop(key: tuple[str, str, str], before: Tensor, after: Tensor, p: float) -> Drop:
    there = before.isfinite() & after.isfinite()
    before, after = before[there], after[there]
    low, high = measured(after - before, bootstrap=Bootstrap()).interval.tolist()
    return Drop(*key, float(before.mean()), float(after.mean()), low, high, p)
