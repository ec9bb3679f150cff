"""`erlangen check`: a gate for continuous integration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from .refusal import Refusal, refusing

if TYPE_CHECKING:
    from ..audit.gate import Drop

__all__ = ["Check"]


class Alarm(Refusal):
    """A model is less invariant than its baseline."""

    code = 1


@dataclass(frozen=True)
class Check:
    """Fail when a model is less invariant than a baseline, by more than noise.

    Both audits must be of the same images; a sentence says so if these were preprocessed differently. The test is
    paired, input by input, and its seeds are fixed.

    Exit codes: 0, no drop; 1, a drop; 2, the audits cannot be compared.
    """

    audit: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="AUDIT")]
    """The audit.json of the model, or the folder that holds it."""

    baseline: Path
    """The audit.json of the model to compare with, or its folder."""

    metrics: tuple[str, ...] = ("accuracy", "consistency")
    """Metrics to compare: any of accuracy, consistency, li, di, si."""

    rate: float = 0.05
    """How often an unchanged model may fail by chance, over all comparisons together."""

    margin: float = 0.0
    """How much worse a mean may be without failing; of accuracy, consistency and si 0.02 is two percent."""

    def run(self) -> list[str]:
        """Compares, and says what was found."""
        from ..audit import compare, read_audit

        with refusing(self):
            new, old = (read_audit(getattr(self, name), name=name) for name in ("audit", "baseline"))
            verdict = compare(new, old, metrics=self.metrics, rate=self.rate, margin=self.margin)
        tests, alarms = len(verdict.tests), verdict.alarms
        names = [record["model"].get("name", "?") for record in (new, old)]
        who = f"{names[0]} against {names[1]}"
        if alarms:
            head = f"less invariant than the baseline in {len(alarms)} of {tests} comparisons"
            rate = f"(at most {100 * self.rate:g} % of unchanged models fail)"
            raise Alarm("\n".join([f"{who}: {head} {rate}:", *map(_line, alarms), *verdict.notes]))
        return [
            f"{who}: no drop in {tests} comparisons; the most conspicuous:",
            _line(verdict.tests[0]),
            *verdict.notes,
        ]


def _line(drop: Drop) -> str:
    change = f"{drop.before:.4g} to {drop.after:.4g} (change {drop.low:+.3g} to {drop.high:+.3g})"
    return f"  {drop.transform} {drop.label}, {drop.metric}: {change}, p = {drop.p:.2g}"
