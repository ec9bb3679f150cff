import math

import pytest

from erlangen.train import Constant, Cosine, StepDecay, WarmupCosine


def test_constant_and_step_decay():
    assert Constant()(17, 100, 10) == 1
    decay = StepDecay(every=3, factor=0.5)
    assert [decay(step, 100, 10) for step in (0, 29, 30, 59, 60, 99)] == [1, 1, 0.5, 0.5, 0.25, 0.125]


def test_cosine_begins_at_one_and_ends_at_its_final_factor():
    cosine = Cosine(final=0.2)
    assert [cosine(step, 8, 1) for step in (0, 4, 8)] == pytest.approx([1, 0.6, 0.2], abs=1e-15)
    assert Cosine()(2, 8, 1) == (1 + math.cos(math.pi / 4)) / 2


def test_a_warm_up_is_a_line_and_then_a_cosine_of_what_is_left():
    schedule = WarmupCosine(warmup=4, final=0.1)
    assert [schedule(step, 20, 5) for step in range(4)] == [0.25, 0.5, 0.75, 1]
    assert [schedule(step, 20, 5) for step in range(4, 20)] == [Cosine(0.1)(step, 16, 5) for step in range(16)]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: StepDecay(every=0), "every"),
        (lambda: StepDecay(factor=-1), "factor"),
        (lambda: Cosine(final=2), "final"),
        (lambda: WarmupCosine(warmup=-1), "warmup"),
    ],
)
def test_errors_name_the_field(make, field):
    with pytest.raises(ValueError, match=f"^{field}: received"):
        make()
