import math

import torch

from erlangen.train.meters import Meter


def test_means_weighted_and_by_name():
    meter = Meter()
    meter.add({"loss": torch.tensor(1.0), "entropy": torch.tensor(5.0)}, count=3)
    meter.add({"loss": torch.tensor(3.0)})
    assert meter.read() == {"loss": 1.5, "entropy": 5.0}
    other = Meter()
    other.load_state_dict(meter.state_dict(), torch.device("cpu"))
    assert other.read() == meter.read()
    meter.clear()
    assert meter.read() == {}


def test_a_nan_stays():
    meter = Meter()
    for value in (1.0, math.nan, 1.0):
        meter.add({"loss": torch.tensor(value)})
    assert math.isnan(meter.read()["loss"])


def test_nothing_is_kept_of_the_graph_and_sums_are_copies():
    meter, x = Meter(), torch.ones((), requires_grad=True)
    meter.add({"loss": x * 2})
    meter.read(lambda total: total.mul_(7))
    assert meter.read() == {"loss": 2.0}
    assert not next(iter(meter.state_dict().values()))[0].requires_grad


def test_several_objectives_have_a_mean_each():
    meter = Meter((2,))
    meter.add({"loss": torch.tensor([1.0, 2.0])})
    meter.add({"loss": torch.tensor([3.0, 6.0]), "entropy": torch.tensor([0.0, 5.0])})
    assert meter.read() == {"loss": [2.0, 4.0], "entropy": [0.0, 5.0]}
