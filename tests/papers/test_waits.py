"""No step of training waits for the device: what decides on the host needs no number that was computed.

Tensors without content stand in for those of a GPU: whoever asks them for a number is refused.
"""

import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from erlangen.papers.genuine import common as genuine
from erlangen.papers.ltt import classify as ltt
from erlangen.papers.ltt import table1_tiny
from erlangen.papers.pstn import common as digits
from erlangen.papers.pstn import series
from erlangen.papers.sgm import augmentation, vaes
from erlangen.papers.sgm import common as sgm

GENUINE = genuine.Training(source="drawn", sizes=(64, 32, 16))
DIGITS = digits.Training(source="drawn", size=100, weight=1e-3, held=20, count=2)
SMALL = sgm.Training(**sgm.TINY, data="drawn")


def labelled(build, part):
    data = part()
    return build(), (data.x[:8], data.y[:8])


def stage(config, second):
    stages = sgm.build(config)
    return stages.density if second else stages.prototypes, (sgm.data_set(config, "train").x[:8],)


def lesson(method, dataset="cifar10"):
    config = ltt.Training(dataset, method, source="glyphs", samples=2, inputs=16)
    return labelled(lambda: ltt.build(config), lambda: ltt.data_set(config, "train"))


def warps(method):
    config = series.Training(dataset="bumps", method=method, small=True, weight=1e-4)
    objective, (x, y) = labelled(lambda: series.build(config), lambda: series.data_set(config, "train"))
    return objective, (x.to(torch.get_default_dtype()), y)


def small(method):
    config = replace(DIGITS, method=method)
    return labelled(lambda: digits.build(config), lambda: digits.fold(config).train)


def autoencoder(method, monkeypatch):
    config = vaes.VaeTraining(method, SMALL, latent=2, filters=(2, 2), hidden=4)
    monkeypatch.setattr(vaes, "trained", lambda *args: (sgm.build(SMALL).model, {}))
    return vaes.build(config, "cpu"), (sgm.data_set(SMALL, "train").x[:8],)


def orbits(method):
    config = replace(GENUINE, method=method)
    return labelled(lambda: genuine.build(config), lambda: genuine.part(config, "train"))


STEPS = {
    **{f"ltt {m}": lambda m=m: lesson(m) for m in ("none", "augerino", "instaaug", "flow-code", "ours", "equivariant")},
    **{f"layers {m}": lambda m=m: lesson(m, "cifar10-conv13") for m in ("augerino", "flow", "ours")},
    **{f"crops {m}": lambda m=m: lesson(m, "tiny-imagenet-50") for m in table1_tiny.PAPER_VALUES},
    **{f"digits {m}": lambda m=m: small(m) for m in ("stn", "pstn", "flow")},
    **{f"series {m}": lambda m=m: warps(m) for m in ("cnn", "pstn")},
    **{f"genuine {m}": lambda m=m: orbits(m) for m in ("wt", "da", "ir", "learned", "ours")},
    **{f"sgm {k}": lambda k=k: stage(SMALL, k) for k in (False, True)},
    **{
        f"colour {k}": lambda k=k: stage(replace(SMALL, data="drawn-colour", names=sgm.COLOUR), k)
        for k in (False, True)
    },
}


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Values are checked on the CPU alone."""
    for name, module in list(sys.modules.items()):
        if name.startswith("erlangen.") and hasattr(module, "eager_on_cpu"):
            monkeypatch.setattr(module, "eager_on_cpu", lambda x: False)


def step(objective, batch):
    """A step of training, forwards and backwards, of tensors that have no content."""
    mode, seen = FakeTensorMode(allow_non_fake_inputs=True), {}

    def emptied(x):
        return None if x is None else seen.setdefault(id(x), mode.from_tensor(x))

    for module in objective.train().modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: emptied(x) for name, x in tensors.items()})
        if hasattr(module, "_steps"):
            module._steps = 10**6  # after burn-in and blur
    batch = tuple(map(emptied, batch))
    with mode:
        objective(batch)["loss"].backward()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_asks_for_no_number(name):
    step(*STEPS[name]())


def test_nor_does_one_with_natural_variations(monkeypatch):
    monkeypatch.setattr(augmentation, "trained", lambda *args: (sgm.build(SMALL).model, {}))
    data = sgm.data_set(SMALL, "train")
    step(augmentation.build(augmentation.SMOKE, "sgm", 32), (data.x[:8], data.y[:8]))


@pytest.mark.parametrize("method", ["vae", "augvae", "invvae"])
def test_nor_does_a_step_of_an_autoencoder(method, monkeypatch):
    step(*autoencoder(method, monkeypatch))


class Asks(nn.Module):
    """Decides by its loss."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, batch):
        loss = (self.weight * batch[0]).sum()
        return {"loss": loss if loss > 0 else -loss}


def test_one_that_does_is_found():
    with pytest.raises(DataDependentOutputException):
        step(Asks(), (torch.ones(3),))
