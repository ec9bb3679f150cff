from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from erlangen.train import Alarm, Config, Optimiser, TensorLoader, fit, fit_many

from .tiny import data, tiny

CPU = {"accelerator": "cpu"}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({}, "epochs, steps"),
        ({"epochs": 1, "steps": 1}, "epochs, steps"),
        ({"epochs": 0}, "epochs"),
        ({"steps": 2.5}, "steps"),
        ({"steps": 1, "log_every": 0}, "log_every"),
        ({"steps": 1, "keep": 0}, "keep"),
        ({"steps": 1, "devices": -1}, "devices"),
        ({"steps": 1, "precision": "8"}, "precision"),
        ({"steps": 1, "seed": -1}, "seed"),
        ({"steps": 1, "checkpoint_seconds": 0}, "checkpoint_seconds"),
        ({"steps": 1, "optimiser": 0.1}, "optimiser"),
        ({"steps": 1, "groups": 0.1}, "groups"),
        ({"steps": 1, "groups": {"net": 0.1}}, r"groups\['net'\]"),
        ({"steps": 1, "resume": True}, "resume"),
        ({"steps": 1, "folder": 3}, "folder"),
    ],
)
def test_a_config_names_its_bad_field(fields, named):
    with pytest.raises(ValueError, match=f"^{named}: received"):
        Config(**fields)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": "lion"}, "name"),
        ({"lr": 0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"momentum": 0.9}, "momentum"),
        ({"name": "sgd", "nesterov": True}, "nesterov"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"clip": 0}, "clip"),
        ({"momentum": "0.9"}, "momentum"),
        ({"schedule": "cosine"}, "schedule"),
    ],
)
def test_an_optimiser_names_its_bad_field(fields, named):
    with pytest.raises(ValueError, match=f"^{named}: received"):
        Optimiser(**fields)


def test_a_folder_may_be_text(tmp_path, monkeypatch):
    assert Config(steps=1, folder=str(tmp_path)).folder == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Config(steps=1, folder="~/run").folder == tmp_path / "run"


def test_numbers_of_numpy_are_numbers(tmp_path):
    grid = np.logspace(-3, -1, 3)

    def factor(step, steps, per_epoch):
        return np.cos(step / steps)

    of_numpy = Optimiser("sgd", grid[1], weight_decay=np.float32(0.5), momentum=grid[2], clip=grid[2])
    assert repr(of_numpy) == repr(Optimiser("sgd", 0.01, weight_decay=0.5, momentum=0.1, clip=0.1))
    how = Config(steps=2, optimiser=replace(of_numpy, schedule=factor), folder=tmp_path, **CPU)
    fit(tiny(), data(), how)
    assert fit(tiny(), data(), replace(how, steps=3, resume=True)).stopped == "finished"


def test_an_alarm_names_its_bad_field():
    with pytest.raises(ValueError, match=r"^drop: received"):
        Alarm(drop=-1)


def test_groups_must_be_the_objectives():
    with pytest.raises(ValueError, match=r"^groups: received optimisers for \['nett'\]; accepted are .*'net', 'scale'"):
        fit(tiny(), data(), Config(steps=1, groups={"nett": Optimiser()}, **CPU))


@pytest.mark.parametrize("groups", [{}, {"a": []}, {"a": [0], "b": [0]}])
def test_groups_are_disjoint_and_not_empty(groups):
    objective = tiny()
    parameters = list(objective.parameters())
    objective.parameter_groups = lambda: {name: [parameters[i] for i in own] for name, own in groups.items()}
    with pytest.raises(ValueError, match=r"^objective: received"):
        fit(objective, data(), Config(steps=1, **CPU))


def test_an_objective_has_a_loss():
    objective = tiny()
    objective.forward = lambda batch: {"error": objective.scale.sum()}
    with pytest.raises(ValueError, match=r"^objective: received the losses \['error'\]"):
        fit(objective, data(), Config(steps=1, **CPU))


def test_patience_needs_validation():
    with pytest.raises(ValueError, match=r"^patience: received"):
        fit(tiny(), data(), Config(steps=1, patience=1, **CPU))


def test_what_cannot_be_trained_or_read_is_refused():
    batches = DataLoader(TensorDataset(torch.zeros(4, 3)))
    for loader in (batches, [(torch.zeros(4, 3),)], None):
        with pytest.raises(ValueError, match=r"(?s)^loader: received .*; accepted is a Loader, .*TensorLoader"):
            fit(tiny(), loader, Config(steps=1, **CPU))
    with pytest.raises(ValueError, match=r"^validation: received .*; accepted is a Loader"):
        fit(tiny(), data(), Config(steps=1, **CPU), validation=batches)
    with pytest.raises(ValueError, match=r"^loaders\[1\]: received .*; accepted is a Loader"):
        fit_many([tiny(), tiny()], [data(), batches], Config(steps=1, **CPU))
    with pytest.raises(ValueError, match=r"(?s)^objective: received Linear .*; accepted is an Objective"):
        fit(nn.Linear(2, 2), data(), Config(steps=1, **CPU))


def test_a_loader_keeps_its_word():
    loader = data()
    loader.rows = 8
    loader.__class__ = type("Short", (TensorLoader,), {"__len__": lambda self: 3})
    with pytest.raises(ValueError, match=r"^loader: received 1 batches in epoch 0; accepted are .* 3"):
        fit(tiny(), loader, Config(steps=5, **CPU))


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_optimisers_are_torchs(name):
    p = nn.Parameter(torch.ones(2))
    settings = Optimiser(name, 0.1, weight_decay=0.01, momentum=0.9 if name == "sgd" else 0.0)
    built = settings.build([p], torch.device("cpu"))
    assert type(built).__name__.lower() == name
    assert built.defaults["lr"] == 0.1
    assert built.defaults["weight_decay"] == 0.01
    assert built.defaults.get("momentum", 0.9) == 0.9
    assert replace(settings, lr=1).lr == 1


@pytest.mark.parametrize("betas", [(0.9,), (0.9, 0.99, 0.5), 0.9, (0.9, 1.0)])
def test_betas_that_are_not_two_are_refused(betas):
    with pytest.raises(ValueError, match=r"^betas: received"):
        Optimiser(betas=betas)
