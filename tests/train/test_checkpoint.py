import errno
import logging
import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from erlangen.train import Checkpoints, Config, Optimiser, StepDecay, Unreadable, checkpoint, fit
from erlangen.utils.io import read_jsonl

from .tiny import data, tiny


def config(folder, steps=12, **fields):
    fields = {
        "checkpoint_every": 3,
        "log_every": 2,
        "accelerator": "cpu",
        "optimiser": Optimiser("adam", 0.01),
        **fields,
    }
    return Config(steps=steps, folder=folder, **fields)


def weights(objective):
    return torch.cat([p.detach().flatten() for p in objective.parameters()])


def alone():
    objective = tiny()
    fit(objective, data(), config(None))
    return weights(objective)


def names(folder):
    return sorted(path.name for path in (folder / "checkpoint").iterdir())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_weights_are_safetensors_and_the_rest_needs_no_pickle(tmp_path):
    objective = tiny()
    history = fit(objective, data(), config(tmp_path))
    assert names(tmp_path) == ["00000009", "00000012"]
    stored = load_file(history.checkpoint / "weights.safetensors")
    assert all(torch.equal(stored[name], value) for name, value in objective.state_dict().items())
    state = torch.load(history.checkpoint / "state.pt", weights_only=True)
    assert state["step"] == 12
    assert set(state["optimisers"]) == {"net", "scale"}


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    fit(tiny(), data(), config(tmp_path))
    before = (tmp_path / "log.jsonl").read_bytes()
    with pytest.raises(FileExistsError, match=f"^folder: {tmp_path} holds a run already; give resume=True"):
        fit(tiny(), data(), config(tmp_path))
    assert (tmp_path / "log.jsonl").read_bytes() == before


class Killed(BaseException):
    pass


def killed(folder, at, **fields):
    def die(step, _):
        if step == at:
            raise Killed

    with pytest.raises(Killed):
        fit(tiny(), data(), config(folder, **fields), on_step=die)


@pytest.mark.parametrize("at", [1, 5, 6, 11])
def test_a_resumed_run_is_the_same_run(tmp_path, at):
    killed(tmp_path, at)
    objective = tiny()
    history = fit(objective, data(), config(tmp_path, resume=True))
    assert torch.equal(weights(objective), alone())
    assert history.column("step") == [2, 4, 6, 8, 10, 12]
    assert read_jsonl(tmp_path / "log.jsonl") == history.rows


def interrupted(at, number=signal.SIGINT):
    return lambda step, _: signal.raise_signal(number) if step == at else None


@pytest.mark.parametrize(
    ("at", "number"), [*((at, signal.SIGINT) for at in (1, 5, 6, 11)), (1, signal.SIGTERM), (6, signal.SIGTERM)]
)
def test_an_interrupt_leaves_a_checkpoint_of_its_step(tmp_path, at, number):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), data(), config(tmp_path), on_step=interrupted(at, number))
    assert names(tmp_path)[-1] == f"{at:08d}"
    objective, steps = tiny(), []
    history = fit(objective, data(), config(tmp_path, resume=True), on_step=lambda step, _: steps.append(step))
    assert steps == list(range(at + 1, 13))
    assert torch.equal(weights(objective), alone())
    assert history.column("step") == [2, 4, 6, 8, 10, 12]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize(("at", "written"), [(5, [3, 5]), (6, [3, 6]), (12, [3, 6, 9, 12])])
def test_an_interrupt_writes_no_checkpoint_twice(tmp_path, monkeypatch, at, written):
    """The first would be removed before the second is there, and a kill between the two would lose both."""
    steps, write = [], Checkpoints.write
    monkeypatch.setattr(
        Checkpoints, "write", lambda self, step, found: (steps.append(step), write(self, step, found))[1]
    )
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), data(), config(tmp_path, keep=1), on_step=interrupted(at))
    assert steps == written


def test_an_interrupt_tries_again_what_the_disk_did_not_take(tmp_path, monkeypatch):
    full(1, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), data(), config(tmp_path), on_step=interrupted(3))
    assert names(tmp_path) == ["00000003"]


class Drawn:
    """A loader whose order is from the global generator, as that of torch's own is."""

    def __init__(self):
        self.all = data(batch_size=22, shuffle=False)

    def __len__(self):
        return 3

    def epoch(self, number, device, start=0):
        (x, y) = next(iter(self.all.epoch(0, device)))
        for rows in torch.randperm(22).split(8)[start:]:
            yield x[rows], y[rows]


@pytest.mark.parametrize("at", [3, 4, 9])
def test_an_order_that_a_loader_draws_is_that_of_its_epoch(tmp_path, at):
    whole, resumed = tiny(), tiny()
    fields = {"validate_every": 2, "log_every": 1}
    rows = fit(whole, Drawn(), config(None, **fields), validation=Drawn()).rows
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), Drawn(), config(tmp_path, **fields), validation=Drawn(), on_step=interrupted(at))
    again = fit(resumed, Drawn(), config(tmp_path, resume=True, **fields), validation=Drawn()).rows
    assert torch.equal(weights(resumed), weights(whole))
    assert [row["loss"] for row in again] == [row["loss"] for row in rows]


def test_a_request_to_end_that_is_an_interrupt_waits_as_well(tmp_path):
    """As commands have it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fit(tiny(), data(), config(tmp_path), on_step=interrupted(5, signal.SIGTERM))
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)
    assert names(tmp_path)[-1] == "00000005"


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.default_int_handler])
def test_a_fork_that_is_told_to_end_does(tmp_path, handler):
    ended = []

    def fork(step, _):
        if step == 2:
            ready, tell = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(tell, b".")
                time.sleep(60)
                os._exit(0)
            os.read(ready, 1)
            os.kill(child, signal.SIGTERM)
            ended.append(os.waitpid(child, 0)[1])

    before = signal.signal(signal.SIGTERM, handler)
    try:
        assert fit(tiny(), data(), config(tmp_path), on_step=fork).stopped == "finished"
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [signal.SIGTERM]


def test_an_interrupt_of_the_last_step_is_one_of_a_finished_run(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), data(), config(tmp_path), on_step=interrupted(12))
    assert fit(tiny(), data(), config(tmp_path, resume=True)).stopped == "finished"


def test_a_second_interrupt_waits_for_nothing(tmp_path):
    reached = []

    def twice(step, _):
        if step == 5:
            signal.raise_signal(signal.SIGINT)
            reached.append(step)
            signal.raise_signal(signal.SIGINT)
            reached.append("never")

    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), data(), config(tmp_path), on_step=twice)
    assert (reached, names(tmp_path)) == ([5], ["00000003"])


def test_without_a_folder_an_interrupt_waits_for_nothing():
    def once(step, _):
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")

    with pytest.raises(KeyboardInterrupt):
        fit(tiny(), data(), config(None), on_step=once)


def test_what_others_do_with_interrupts_stays(tmp_path):
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        assert fit(tiny(), data(), config(tmp_path), on_step=interrupted(5)).stopped == "finished"
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_a_finished_run_is_finished_and_can_be_made_longer(tmp_path):
    fit(tiny(), data(), config(tmp_path, steps=5))
    objective = tiny()
    steps = []
    history = fit(objective, data(), config(tmp_path, steps=5, resume=True), on_step=lambda *_: steps.append(1))
    assert (history.stopped, steps, history.column("step")) == ("finished", [], [2, 4, 5])
    fit(objective, data(), config(tmp_path, steps=12, resume=True))
    assert torch.equal(weights(objective), alone())


def test_another_config_is_refused(tmp_path):
    fit(tiny(), data(), config(tmp_path))
    with pytest.raises(ValueError, match=r"^seed: received 1; the run in .*00000012 was started with 0"):
        fit(tiny(), data(), config(tmp_path, resume=True, seed=1))
    with pytest.raises(ValueError, match=r"^groups\['scale'\]: received"):
        fit(tiny(), data(), config(tmp_path, resume=True, groups={"scale": Optimiser("sgd")}))
    with pytest.raises(ValueError, match=r"^len\(loader\): received 6; .* 3"):
        fit(tiny(), data(batch_size=4), config(tmp_path, resume=True))


def test_a_whole_number_is_the_same_with_a_point(tmp_path):
    killed(tmp_path, 5, optimiser=_decaying(1))
    for factor in (1.01, 10.0):
        with pytest.raises(ValueError, match=rf"received .*factor={factor}.* was started with .*factor=1\)"):
            fit(tiny(), data(), config(tmp_path, resume=True, optimiser=_decaying(factor)))
    objective = tiny()
    fit(objective, data(), config(tmp_path, resume=True, optimiser=_decaying(1.0)))
    assert torch.equal(weights(objective), alone())


def _decaying(factor):
    return Optimiser("adam", 0.01, schedule=StepDecay(10, factor=factor))


def halved():
    return lambda step, steps, per_epoch: 0.5


def quartered():
    return lambda step, steps, per_epoch: 0.25


class Own:
    def __call__(self, step, steps, per_epoch):
        return 0.5


@pytest.mark.parametrize("schedule", [halved, Own, lambda: partial(halved())])
def test_a_schedule_of_ones_own_goes_on_wherever_it_lies(tmp_path, schedule):
    """In another process it lies elsewhere."""
    first, second = (Optimiser("adam", 0.01, schedule=schedule()) for _ in range(2))
    assert repr(first) != repr(second)
    killed(tmp_path, 5, optimiser=first)
    assert fit(tiny(), data(), config(tmp_path, resume=True, optimiser=second)).stopped == "finished"
    other = Optimiser("adam", 0.01, schedule=quartered())
    with pytest.raises(ValueError, match=r"^groups\['net'\]: received .*quartered.*; the run in .* was started with"):
        fit(tiny(), data(), config(tmp_path, resume=True, optimiser=other))


@pytest.mark.parametrize("file", ["weights.safetensors", "state.pt"])
def test_a_checkpoint_cut_in_half_is_left_for_the_one_before(tmp_path, file, caplog):
    killed(tmp_path, 11)
    assert names(tmp_path) == ["00000006", "00000009"]
    cut(tmp_path / "checkpoint" / "00000009" / file)
    objective = tiny()
    with caplog.at_level(logging.WARNING, "erlangen.train"):
        fit(objective, data(), config(tmp_path, resume=True))
    assert len(caplog.messages) == 1
    assert "00000009" in caplog.messages[0]
    assert "damaged; going on from" in caplog.messages[0]
    assert torch.equal(weights(objective), alone())


def test_another_objective_is_refused(tmp_path):
    fit(tiny(), data(), config(tmp_path))
    more, merged = tiny(), tiny()
    more.extra = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"^objective: received another than that of the run in .*extra\.weight"):
        fit(more, data(), config(tmp_path, steps=14, resume=True))
    merged.parameter_groups = lambda: {"all": list(merged.parameters())}
    with pytest.raises(ValueError, match=r"^objective: received the groups \['all'\]; .*\['net', 'scale'\]"):
        fit(merged, data(), config(tmp_path, steps=14, resume=True))


def test_a_missing_file_is_damage_too(tmp_path):
    killed(tmp_path, 11)
    (tmp_path / "checkpoint" / "00000009" / "weights.safetensors").unlink()
    objective = tiny()
    fit(objective, data(), config(tmp_path, resume=True))
    assert torch.equal(weights(objective), alone())


def test_when_all_are_damaged_nothing_is_overwritten(tmp_path):
    killed(tmp_path, 11)
    for path in (tmp_path / "checkpoint").iterdir():
        cut(path / "state.pt")
    log = (tmp_path / "log.jsonl").read_bytes()
    with pytest.raises(Unreadable, match=r"no checkpoint can be read: .*00000009.*00000006.* another folder"):
        fit(tiny(), data(), config(tmp_path, resume=True))
    assert names(tmp_path) == ["00000006", "00000009"]
    assert (tmp_path / "log.jsonl").read_bytes() == log


def test_nobody_is_advised_to_run_what_is_in_a_damaged_file(tmp_path):
    """As torch does where a file is no archive."""
    killed(tmp_path, 11)
    for path in (tmp_path / "checkpoint").iterdir():
        (path / "state.pt").write_bytes(b"\x80\x02cposix\nsystem\n.")
    with pytest.raises(Unreadable, match=r"00000009 \(state.pt is torn, or holds something else\);") as refusal:
        fit(tiny(), data(), config(tmp_path, resume=True))
    assert "weights_only" not in str(refusal.value)


def full(times, monkeypatch):
    """The disk takes half a file and is full, so many times."""
    write, left = checkpoint._write, [times]

    def attempt(path, content):
        if left[0] and path.name == "state.pt":
            left[0] -= 1
            write(path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(checkpoint, "_write", attempt)


def test_a_full_disk_is_said_and_tried_again(tmp_path, monkeypatch, caplog):
    full(2, monkeypatch)
    objective = tiny()
    with caplog.at_level(logging.WARNING, "erlangen.train"):
        fit(objective, data(), config(tmp_path))
    assert len(caplog.messages) == 2
    assert "the checkpoint of step 3" in caplog.messages[0]
    assert "No space left on device. Make room on the disk. The last good one is none." in caplog.messages[0]
    assert names(tmp_path) == ["00000009", "00000012"]
    assert torch.equal(weights(objective), alone())


def test_a_disk_that_stays_full_loses_nothing(tmp_path, monkeypatch):
    killed(tmp_path, 7)
    full(100, monkeypatch)
    objective = tiny()
    with pytest.raises(
        OSError, match=r"step 12 in .* cannot be written: No space left.*last good one is .*00000006"
    ) as e:
        fit(objective, data(), config(tmp_path, resume=True))
    assert e.value.errno == errno.ENOSPC
    assert torch.equal(weights(objective), alone())
    assert names(tmp_path) == ["00000003", "00000006"]


def test_a_full_disk_delays_the_log(tmp_path, monkeypatch, caplog):
    from erlangen.train import history

    append, calls = history.append_jsonl, []

    def attempt(path, row):
        calls.append(row)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(path, row)

    monkeypatch.setattr(history, "append_jsonl", attempt)
    with caplog.at_level(logging.WARNING, "erlangen.train"):
        rows = fit(tiny(), data(), config(tmp_path)).rows
    assert [message[:7] for message in caplog.messages] == ["the log"]
    assert read_jsonl(tmp_path / "log.jsonl") == rows
    assert len(rows) == 6


def test_what_a_killed_writer_left_is_removed(tmp_path):
    kept = Checkpoints(tmp_path)
    assert kept.read() is None
    (tmp_path / ".abc.tmp").mkdir()
    assert kept.read() is None
    assert not list(tmp_path.iterdir())


def test_an_early_stop_survives_its_checkpoint(tmp_path):
    fields = {"steps": 40, "validate_every": 1, "patience": 3, "optimiser": Optimiser("sgd", 0.4)}
    objective, other = tiny(), tiny()
    first = fit(objective, data(), config(tmp_path, **fields), validation=data(seed=5))
    assert first.stopped == "patience"
    again = fit(other, data(), config(tmp_path, resume=True, **fields), validation=data(seed=5))
    assert again.stopped == "patience"
    assert again.best == first.best
    assert torch.equal(weights(other), weights(objective))
