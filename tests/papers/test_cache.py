"""A training that is cut short goes on where it was."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn

from erlangen.objectives import Objective
from erlangen.papers import cache
from erlangen.papers.ltt import figure7c, poses
from erlangen.papers.pstn import figure12
from erlangen.train import Config, Optimiser, TensorLoader, checkpoint, fit

STEPS = 12


@dataclass(frozen=True)
class Kind:
    """What is trained."""

    seed: int = 0


class Linear(Objective):
    """A line through noise."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def parameter_groups(self):
        return {"all": list(self.parameters())}

    def forward(self, batch):
        return {"loss": ((self.layer(batch[0]) + 0.1 * torch.randn(len(batch[0]), 1)) ** 2).mean()}


class Killed(Exception):
    """As if the power were cut."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    return tmp_path / "models"


def train(kill=None, seen=None):
    """Trains with a checkpoint after every step, and is killed after so many."""

    def on_step(step, _):
        if seen is not None:
            seen.append(step)
        if step == kill:
            raise Killed

    def run(objective, config, device, **going):
        loader = TensorLoader(torch.arange(24.0).view(8, 3) / 24, batch_size=4)
        how = Config(steps=STEPS, optimiser=Optimiser("adam", 0.1), checkpoint_every=1, log_every=100, **going)
        fit(objective, loader, how, on_step=on_step)
        return {}

    return run


def build(config):
    torch.manual_seed(3)
    return Linear()


def kept(run):
    return cache.kept(Kind(), "cpu", build, run, code=(__file__,))[0]


def test_what_was_killed_goes_on_and_ends_the_same(folder):
    whole = build(Kind())
    train()(whole, Kind(), "cpu")
    with pytest.raises(Killed):
        kept(train(kill=7))
    (left,) = folder.glob("*.training")
    assert list((left / "checkpoint").iterdir())
    seen = []
    resumed = kept(train(seen=seen))
    assert seen[0] == 7  # the checkpoint of the sixth step was the last before the kill
    assert seen[-1] == STEPS
    assert torch.equal(resumed.layer.weight, whole.layer.weight)
    assert not list(folder.glob("*.training"))


def test_damaged_checkpoints_start_it_anew(folder):
    with pytest.raises(Killed):
        kept(train(kill=7))
    for path in folder.glob("*.training/checkpoint/*/*"):
        path.write_bytes(b"torn")
    seen = []
    kept(train(seen=seen))
    assert seen == list(range(1, STEPS + 1))


def test_what_is_done_is_not_trained_again(folder):
    first, seen = kept(train()), []
    assert torch.equal(kept(train(seen=seen)).layer.weight, first.layer.weight)
    assert not seen


def test_of_two_that_train_the_same_the_second_has_no_folder(folder):
    """Each would overwrite the checkpoints of the other."""
    told = []

    def outer(objective, config, device, **going):
        told.append(going)
        kept(inner)
        return {}

    def inner(objective, config, device, **going):
        told.append(going)
        return {}

    kept(outer)
    assert told[0]["resume"]
    assert told[1] == {}


def test_without_room_for_checkpoints_it_is_trained_all_the_same(folder, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.Path, "mkdir", refuse)
    seen = []
    kept(train(seen=seen))
    assert seen[-1] == STEPS


def test_a_disk_that_fills_up_costs_checkpoints_alone(folder, monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise OSError(28, "No space left on device")

    whole = kept(train())
    monkeypatch.setattr(checkpoint, "_write", refuse)
    monkeypatch.setattr(cache, "write_bytes", refuse)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    assert torch.equal(kept(train()).layer.weight, whole.layer.weight)
    assert "cannot be written: No space left on device" in caplog.messages[-1]


def test_a_damaged_log_is_begun_anew(folder):
    with pytest.raises(Killed):
        kept(train(kill=5))
    (training,) = folder.glob("*.training")
    (training / "log.jsonl").write_bytes(b"\0" * 20 + b"\n")
    seen = []
    kept(train(seen=seen))
    assert seen[0] == 5


def test_models_depend_on_the_code_of_their_data(monkeypatch):
    """The network of poses is trained on images as `classify` and `recipes` have them."""
    told = []
    monkeypatch.setattr(poses, "kept", lambda *_, code: told.append(code) or [None])
    monkeypatch.setattr(figure12, "kept_many", lambda *_, code: told.append(code) or [])
    poses.posed(figure7c.SMOKE.posing)
    figure12.trained([], "cpu")
    named = [{Path(file).stem for file in code} for code in told]
    assert named == [{"poses", "classify", "recipes"}, {"figure12", "frozen"}]


def test_words_about_code_do_not_change_the_name_of_a_model(tmp_path):
    file, names = tmp_path / "code.py", []
    for text in (
        '"""One."""\n\n\ndef f():\n    """Two."""\n    return 1\n',
        '"""Two."""\n\n\ndef f():\n    # why\n    return 1\n',
        '"""One."""\n\n\ndef f():\n    """Two."""\n    return 2\n',
        '"""One."""\n\n\ndef f():\n    return "Two."\n',
    ):
        file.write_text(text)
        names.append(cache.digest(Kind(), "cpu", (str(file),)))
    assert names[0] == names[1]
    assert len(set(names)) == 3
