import math
import pickle
from pathlib import Path

import pytest

from erlangen.train import Alarm, Diverged, History
from erlangen.train.alarm import Watch


def look(watch, values, name="entropy"):
    return [watch.look(step, {"loss": 1.0, name: value}) for step, value in enumerate(values)]


def test_a_fallen_entropy_is_said_once_after_a_while():
    said = look(Watch(Alarm(drop=4, rows=2)), [1, -2, -4, 0, -4, -3.5, -9, -9, 1, -9, -9])
    assert [len(messages) for messages in said] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert "-3.5 nats by step 5" in said[5][0]
    assert "Try a greater weight" in said[5][0]


def test_an_absolute_floor():
    assert look(Watch(Alarm(floor=0.01, rows=1)), [0.5, 0.2, 0.005])[-1]
    assert look(Watch(Alarm(floor=0.01, rows=1)), [0.005])[-1]


def test_a_distribution_at_its_bounds():
    said = look(Watch(Alarm(rows=3)), [0.95, 0.5, 0.92, 0.93, 0.94, 0.99], "edge")
    assert [len(messages) for messages in said] == [0, 0, 0, 0, 1, 0]
    assert said[4][0].startswith("94 % of the sampled coordinates lie at their bounds by step 4")


def test_silence_without_cause():
    assert not any(look(Watch(Alarm(rows=1)), [1, 0.5, math.nan, -3.9]))
    assert not any(look(Watch(Alarm(rows=1)), [1.0] * 5, "accuracy"))


@pytest.mark.parametrize("cut", range(1, 6))
def test_what_was_seen_survives_a_checkpoint(cut):
    values = [1, -5, -5, -5, -5, -5, -5]
    first, second = Watch(Alarm(rows=3)), Watch(Alarm(rows=3))
    head = look(first, values[:cut])
    second.load_state_dict(first.state_dict())
    tail = look(second, values[cut:])
    assert [len(messages) for messages in head + tail] == [0, 0, 0, 1, 0, 0, 0]


def test_one_process_hands_what_diverged_to_another():
    error = Diverged(7, math.inf, 3, Path("a"), History([{"step": 3}]))
    other = pickle.loads(pickle.dumps(error))
    assert str(other) == str(error)
    assert (other.step, other.checkpoint, other.history) == (7, Path("a"), error.history)
