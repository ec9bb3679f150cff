"""The gate: it fails for a model that is worse, and for one that is not, no more often than it says."""

import copy
import json
import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from erlangen.audit import Settings, audit, compare, read_audit
from erlangen.audit.gate import sign_test
from erlangen.metrics import Bootstrap

from .cases import Halves, halves

FEW = Settings(saliency=0, bootstrap=Bootstrap(resamples=10))
EVERY = ("accuracy", "consistency", "li", "di")


class Noisy(nn.Module):
    """A model whose answers differ from seed to seed, as those of one that averages over random views."""

    def __init__(self, noise=1.0, tilt=0.0):
        super().__init__()
        self.model, self.noise, self.tilt = Halves(), noise, tilt

    def forward(self, x):
        found = self.model(x)
        moved = self.tilt * x[:, 0, 0, :1]  # of the corner, which a turn makes black
        return found + self.noise * torch.randn_like(found) + moved * torch.tensor([-1.0, 1.0, 0.0])


def record(model, seed=0, n=48, settings=FEW, transforms=None):
    with torch.random.fork_rng():
        torch.manual_seed(0)  # the same images in every audit
        data = halves(n)
    settings = Settings(saliency=settings.saliency, bootstrap=settings.bootstrap, seed=seed)
    return audit(model, data, transforms or {"rotation": [15], "flip": None}, settings=settings).record()


def test_unchanged_models_with_other_seeds_raise_no_more_alarms_than_said(monkeypatch):
    """100 pairs of seeds; with a rate of 5 % more than 13 alarms have a probability below 0.001 (binomial)."""
    monkeypatch.setattr("erlangen.audit.core.provenance", lambda **_: {})  # which asks git, 200 times
    records = [record(Noisy(), seed, transforms={"rotation": [15]}) for seed in range(200)]

    def judge():
        return [compare(records[k], records[k + 1], metrics=EVERY, draws=999) for k in range(0, 200, 2)]

    verdicts = judge()
    # There is noise to be mistaken for a drop, in either direction.
    rises = [test.after > test.before for verdict in verdicts for test in verdict.tests if test.metric == "di"]
    assert 25 < sum(rises) < 75
    assert sum(bool(verdict.alarms) for verdict in verdicts) <= 13

    def naive(worse, *, draws):
        """A broken twin: the percentile bootstrap, of each test alone."""
        rows = torch.randint(len(worse), (draws, len(worse)), generator=torch.Generator().manual_seed(0))
        return (worse[rows].mean(1) <= 0).double().mean(0)

    monkeypatch.setattr("erlangen.audit.gate.sign_test", naive)
    assert sum(bool(verdict.alarms) for verdict in judge()) > 13


def test_the_rate_is_exact_for_skewed_differences_and_many_tests():
    """Few inputs, of which a few change a lot. Of 1000 tables more than 73 alarms have a probability below 0.001."""
    source = torch.Generator().manual_seed(0)
    alarms = alone = 0
    for k in range(1000):
        change = torch.randn(12, 6, generator=source) ** 3 + torch.randn(12, 1, generator=source)
        alarms += bool((sign_test(change, draws=199, seed=k) <= 0.05).any())
        alone += any(float(sign_test(change[:, j : j + 1], draws=199, seed=k)) <= 0.05 for j in range(6))
    assert 28 <= alarms <= 73
    assert alone > 120  # a broken twin: the tests one by one, without the maximum over all


def test_the_same_audit_twice_is_no_alarm():
    one = record(Halves())
    verdict = compare(one, one, metrics=EVERY)
    assert verdict.alarms == []
    assert all(test.p == 1 for test in verdict.tests)
    assert len(verdict.tests) == 2 * len(EVERY)


@pytest.mark.parametrize("metric", EVERY)
def test_a_model_that_is_worse_is_an_alarm_and_the_other_way_round_it_is_none(metric):
    old, new = record(Noisy(0.1)), record(Noisy(0.1, tilt=12.0))
    assert compare(new, old, metrics=[metric]).alarms != []
    assert compare(old, new, metrics=[metric]).alarms == []


def test_a_drop_is_described():
    old, new = record(Halves()), record(Noisy(0.1, tilt=12.0))
    worst = compare(new, old).tests[0]
    assert worst.after < worst.before
    assert worst.low <= worst.after - worst.before <= worst.high < 0
    assert worst.p < 0.001


def test_a_margin_forgives():
    old, new = record(Halves()), record(Noisy(0.1, tilt=12.0))
    drop = max(test.before - test.after for test in compare(new, old).tests)
    assert compare(new, old, margin=drop + 0.01).alarms == []
    assert compare(new, old, margin=0.01).alarms != []
    assert compare(new, old, metrics="li", margin=1e6).alarms == []


def test_saliency_is_compared_on_the_inputs_that_have_it():
    settings = Settings(saliency=6, steps=2, bootstrap=Bootstrap(resamples=10))
    one = record(Halves(), settings=settings)
    other = copy.deepcopy(one)
    for step in other["steps"]:
        step["values"]["si"]["inputs"] = [value - 0.5 for value in step["values"]["si"]["inputs"]]
    assert compare(other, one, metrics="si").tests == compare(other, one, metrics=["si"]).tests
    verdict = compare(other, one, metrics=["si", "consistency"])
    assert [test.metric for test in verdict.tests[:2]] == ["si", "si"]
    assert verdict.tests[0].after - verdict.tests[0].before == pytest.approx(-0.5)
    assert verdict.tests[0].p == pytest.approx(2**-6, rel=0.3)  # all six signs alike
    fewer = record(Halves(), settings=replace(settings, saliency=5))
    with pytest.raises(ValueError, match="si of other inputs"):
        compare(fewer, one, metrics=["si"])


SEEN = Settings(saliency=8, steps=2, bootstrap=Bootstrap(resamples=10))
UNSEEN = "made without saliency (saliency, --saliency)"


@pytest.mark.parametrize(
    ("lacking", "why"),
    [
        (lambda: record(Halves(), settings=FEW), f", for it was {UNSEEN}"),
        (lambda: record(lambda x: Halves()(x).detach(), settings=SEEN), ", for its model has no gradients"),
        (lambda: unseen(record(Halves(), settings=SEEN)), ""),
    ],
    ids=["not measured", "no gradients", "no values"],
)
def test_it_is_said_which_audit_has_no_saliency(lacking, why):
    """It was "audit: received si of other inputs", whichever of both had none."""
    one, without = record(Halves(), settings=SEEN), lacking()
    for name, other in (("audit", "baseline"), ("baseline", "audit")):
        said = f"{name}: received no si, which the {other} has{why}; accepted are two audits that have it, or"
        with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
            compare(**{name: without, other: one}, metrics=["consistency", "si"])
        assert compare(**{name: without, other: one}).alarms == []
    with pytest.raises(ValueError, match=r"^metrics: received si, which neither audit holds"):
        compare(without, without, metrics=["si"])


def test_saliency_of_steps_that_only_one_audit_has_is_none_that_the_other_lacks():
    more, less = (record(Halves(), settings=SEEN, transforms=names) for names in (("blur", "flip"), ("blur",)))
    with pytest.raises(ValueError, match=r"^metrics: received si, which neither audit holds"):
        compare(more, less, metrics=["si"])


def unseen(found):
    """The same audit without a value, as of a model whose gradients are zero."""
    for step in found["steps"]:
        step["values"]["si"]["inputs"] = [None] * len(step["values"]["si"]["inputs"])
    return found


GIVES = {
    "logits": lambda z: z,
    "probabilities": lambda z: z.softmax(-1),
    "log-probabilities": lambda z: z.log_softmax(-1),
    "sigmoids": torch.sigmoid,
}


@pytest.fixture(scope="module")
def giving():
    """Audits of one model, by what it gives."""
    return {kind: record(lambda x, to=to: to(Halves()(x)), settings=SEEN) for kind, to in GIVES.items()}


@pytest.mark.parametrize(
    ("kinds", "depending"),
    [
        (("probabilities", "logits"), ("li", "si")),
        (("log-probabilities", "logits"), ("li", "si")),
        (("log-probabilities", "probabilities"), ("li", "si")),
        (("sigmoids", "logits"), ("li", "di", "si")),
        (("sigmoids", "probabilities"), ("li", "di", "si")),
    ],
    ids=" and ".join,
)
def test_distances_of_outputs_of_two_kinds_are_not_compared(giving, kinds, depending):
    """Of one and the same model: from logits to sigmoids its LI fell thousands of times, and that was no drop."""
    rest = [name for name in ("accuracy", "consistency", "li", "di", "si") if name not in depending]
    for new, old in (kinds, kinds[::-1]):
        for metrics in ([name] for name in depending):
            said = f"metrics: received {metrics[0]} of {new} in the audit and of {old} in the baseline; accepted are "
            with pytest.raises(ValueError, match=f"^{said}audits of the same outputs, or {', '.join(rest)}$"):
                compare(giving[new], giving[old], metrics=metrics)
        with pytest.raises(ValueError, match=f"received {', '.join(depending)} of"):
            compare(giving[new], giving[old], metrics=["accuracy", *depending])
        verdict = compare(giving[new], giving[old], metrics=rest)
        assert len(verdict.tests) == 2 * len(rest)
        assert [note.split(":")[0] for note in verdict.notes] == (
            [f"The audit is of {new}, the baseline of {old}"] if "di" in rest and "probabilities" in (new, old) else []
        )
        for test in verdict.tests:
            assert test.after == pytest.approx(test.before, rel=1e-6)


@pytest.mark.parametrize("kind", GIVES)
def test_outputs_of_one_kind_are_compared_in_everything(giving, kind):
    one = giving[kind]
    verdict = compare(one, one, metrics=[*EVERY, "si"])
    assert verdict.alarms == []
    assert verdict.notes == []


def test_a_kind_of_outputs_that_a_file_does_not_know_is_no_difference(giving):
    """Older audits did not look for sigmoids."""
    old = copy.deepcopy(giving["sigmoids"])
    del old["model"]["sigmoids"]
    assert compare(giving["sigmoids"], old, metrics=["li"]).alarms == []
    with pytest.raises(ValueError, match="li of probabilities in the audit and of logits in the baseline"):
        compare(giving["probabilities"], old, metrics=["li"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 1.0}, "rate: received"),
        ({"margin": -0.1}, "margin: received"),
        ({"margin": float("nan")}, "margin: received"),
        ({"margin": 2}, "margin: received 2 for accuracy, consistency, of which no drop is greater"),
        ({"margin": 1.0, "metrics": ["li", "accuracy"]}, "margin: received 1 for accuracy"),
        ({"rate": 0.001, "draws": 99}, "rate: received 0.001; accepted is a number below 1, from 1/100 on"),
        ({"metrics": ["si", "accuracy"]}, "si, which neither audit holds"),
        ({"metrics": ["ece"]}, "metrics: received"),
        ({"metrics": ["speed"]}, r"metrics: received list \['speed'\]; accepted are some of accuracy, consistency"),
        ({"metrics": []}, r"metrics: received list \[\]"),
        ({"metrics": "speed"}, r"metrics: received list \['speed'\]"),
        ({"metrics": None}, "metrics: received NoneType None"),
        ({"metrics": ["si"]}, "si, which neither audit holds"),
        ({"draws": 0}, "draws: received"),
    ],
)
def test_bad_arguments_are_a_sentence(options, words):
    one = record(Halves())
    with pytest.raises(ValueError, match=words):
        compare(one, one, **options)


def test_audits_that_cannot_be_compared():
    one = record(Halves())
    with pytest.raises(ValueError, match="an audit of other images"):
        compare(one, record(Halves(), n=45))
    with pytest.raises(ValueError, match="without flip of left to right"):
        compare(record(Halves(), transforms={"rotation": [15]}), one)
    with pytest.raises(ValueError, match="accuracy of 4 images, too few for any drop to show"):
        compare(record(Halves(), n=4), record(Halves(), n=4))
    few = record(Halves(), settings=Settings(saliency=4, bootstrap=Bootstrap(resamples=10)))
    assert compare(few, few).alarms == []
    with pytest.raises(ValueError, match="si of 4 images, too few for any drop to show"):
        compare(few, few, metrics=["accuracy", "si"])


@pytest.mark.parametrize("name", ["audit", "baseline"])
def test_what_is_no_record_is_a_sentence(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = audit(Halves(), halves(), ["flip"], settings=FEW)
    for other in (found, "audit.json", {}, found.record() | {"steps": []}):
        with pytest.raises(ValueError, match=rf"^{name}: received {type(other).__name__}; accepted is the whole"):
            compare(**{"audit": found.record(), "baseline": found.record(), name: other})


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_value_that_only_one_of_both_has_is_no_pass(value):
    """Otherwise a model that has broken altogether would be one without any difference."""
    one = record(Halves())
    other = copy.deepcopy(one)
    other["steps"][0]["values"]["accuracy"]["inputs"] = [value] * 48
    for pair in ((one, other), (other, one)):
        with pytest.raises(ValueError, match="accuracy of rotation 15° for other inputs than the baseline"):
            compare(*pair)
    del other["steps"][0]["values"]["accuracy"]
    with pytest.raises(ValueError, match="accuracy of rotation 15° for other inputs than the baseline"):
        compare(other, one)


def test_a_number_that_no_float_holds_is_damage(tmp_path):
    one = record(Halves())
    one["steps"][0]["values"]["accuracy"]["inputs"][0] = 10**400
    (tmp_path / "audit.json").write_text(json.dumps(one))
    with pytest.raises(ValueError, match="damaged"):
        read_audit(tmp_path)


def test_other_preprocessing_is_said():
    """Not what an older file does not know, nor the same numbers for each channel; it is no alarm by itself."""
    new = record(Halves())
    old = copy.deepcopy(new)
    new["model"]["preprocess"] |= {"mean": [0.0, 0.0, 0.0], "size": [8, 8]}
    old["model"]["preprocess"]["size"] = 8
    assert compare(new, old).notes == []
    old["model"]["preprocess"].pop("channels_last")
    new["model"]["preprocess"] |= {"range": 255.0, "channels_last": True, "size": None}
    (note,) = compare(new, old).notes
    assert note.endswith("than for the baseline: size None in place of 8, range 255.0 in place of 1.0.")
    old["model"].pop("preprocess")
    assert compare(new, old).notes == []
