import logging
import math
from dataclasses import replace

import pytest
import torch

from erlangen.distributions import StudentT
from erlangen.models import Averaged
from erlangen.objectives import PSTN, Objective
from erlangen.train import Alarm, Config, Cosine, Diverged, Optimiser, StepDecay, TensorLoader, fit, fit_many
from erlangen.transforms import Affine
from erlangen.utils.io import read_jsonl

from .tiny import data, tiny


def config(**fields):
    return Config(**{"accelerator": "cpu", **fields})


class Line(Objective):
    """The loss is w, so that its gradient is 1."""

    def __init__(self, *losses):
        super().__init__()
        self.w, self.losses, self.count = torch.nn.Parameter(torch.zeros(())), losses, 0

    def parameter_groups(self):
        return {"w": [self.w]}

    def forward(self, batch):
        if not self.losses:
            return {"loss": self.w}
        self.count += self.training
        value = self.losses[min(self.count, len(self.losses)) - 1]
        return {"loss": self.w * 0 + value, "entropy": torch.tensor(value)}


def one():
    return TensorLoader(torch.zeros(1), batch_size=1)


def test_it_learns_and_says_what_happened():
    steps = []
    history = fit(
        tiny(),
        data(),
        config(epochs=40, optimiser=Optimiser("adam", 0.02), log_every=50),
        validation=data(seed=7),
        on_step=lambda step, losses: steps.append((step, losses["loss"].item())),
    )
    assert history.stopped == "finished"
    assert [step for step, _ in steps] == list(range(1, 121))
    rows = [row for row in history.rows if row["kind"] == "train"]
    assert [(row["step"], row["epoch"]) for row in rows] == [(50, 16), (100, 33), (120, 39)]
    assert rows[1]["loss"] == pytest.approx(sum(loss for _, loss in steps[50:100]) / 50)
    assert set(rows[0]) == {
        *("kind", "step", "epoch", "seconds", "loss", "error", "lr/net", "lr/scale", "rate"),
    }
    assert rows[0]["rate"] > 0
    validation = history.column("loss", "validation")
    assert len(validation) == 40
    assert validation[-1] < validation[0] / 2
    assert history.best["loss"] == min(validation)


def test_the_log_is_the_history(tmp_path):
    history = fit(tiny(), data(), config(steps=10, log_every=4, folder=tmp_path), validation=data())
    assert read_jsonl(tmp_path / "log.jsonl") == history.rows
    assert history.column("step") == [4, 8, 10]
    assert history.column("step", "validation") == [3, 6, 9, 10]
    assert history.checkpoint == tmp_path / "checkpoint" / "00000010"


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit(tiny(), data(), config(steps=2, checkpoint_every=1))
    assert not list(tmp_path.iterdir())


def test_the_rate_follows_the_schedule_of_its_group():
    schedules = {"net": StepDecay(2, 0.5), "scale": Cosine()}
    groups = {name: Optimiser("sgd", 0.1, schedule=schedule) for name, schedule in schedules.items()}
    history = fit(tiny(), data(), config(steps=9, log_every=1, groups=groups))
    for name, schedule in schedules.items():
        assert history.column(f"lr/{name}") == [0.1 * schedule(step, 9, 3) for step in range(9)]


def test_a_step_of_sgd_is_exact_and_clipped():
    objective = Line()
    fit(objective, one(), config(steps=4, optimiser=Optimiser("sgd", 0.5)))
    assert objective.w.item() == -2
    objective = Line()
    fit(objective, one(), config(steps=4, optimiser=Optimiser("sgd", 0.5, clip=0.25)))
    assert objective.w.item() == pytest.approx(-0.5, rel=1e-5)  # torch divides by the norm + 1e-6


def test_clipping_is_per_group():
    weights = []
    for groups in ({}, {"scale": Optimiser("sgd", 0.1, clip=1e-9)}):
        objective = tiny()
        fit(objective, data(), config(steps=1, optimiser=Optimiser("sgd", 0.1), groups=groups))
        weights.append(objective.state_dict())
    free, held = weights
    assert torch.equal(free["net.0.weight"], held["net.0.weight"])
    assert (held["scale"] - 0.5).abs().max() < 1e-9 < (free["scale"] - 0.5).abs().max()


def test_noise_depends_on_the_step_alone():
    weights = []
    for fields in ({"log_every": 3}, {"log_every": 1, "validate_every": 1}):
        objective = tiny()
        torch.manual_seed(len(weights))
        validation = data() if "validate_every" in fields else None
        fit(objective, data(), config(steps=9, **fields), validation=validation, on_step=lambda *_: torch.rand(3))
        weights.append(torch.cat([p.flatten() for p in objective.parameters()]))
    assert torch.equal(*weights)


def test_global_generators_are_left_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    fit(Line(), one(), config(steps=3))
    assert torch.equal(torch.rand(2), expected)


def test_patience_stops_early_and_returns_to_the_best_weights():
    class Valley(Line):
        def forward(self, batch):
            return {"loss": self.w} if self.training else {"loss": (self.w + 3).square()}

    objective = Valley()
    history = fit(
        objective,
        one(),
        config(steps=100, optimiser=Optimiser("sgd", 1.0), validate_every=1, patience=4),
        validation=one(),
    )
    assert history.stopped == "patience"
    assert (history.best["step"], history.best["loss"]) == (3, 0)
    assert history.rows[-1]["step"] == 7
    assert objective.w.item() == -3


@pytest.mark.parametrize("changed", [{"patience": 2}, {"patience": 2, "monitor": "height"}])
def test_a_run_that_goes_on_with_another_patience_returns_to_weights_that_it_has(tmp_path, changed):
    class Valley(Line):
        def forward(self, batch):
            height = (self.w + 3).square()
            return {"loss": self.w} if self.training else {"loss": height, "height": height + self.w * 0}

    how = config(steps=6, optimiser=Optimiser("sgd", 1.0), validate_every=1, folder=tmp_path)
    before = replace(how, patience=9) if "monitor" in changed else how
    assert fit(Valley(), one(), before, validation=one()).best["step"] == 3
    objective = Valley()
    history = fit(objective, one(), replace(how, steps=20, resume=True, **changed), validation=one())
    assert (history.best["step"], history.rows[-1]["step"]) == (7, 9)
    assert objective.w.item() == -7


@pytest.mark.parametrize("patience", [None, 3])
def test_a_value_that_is_no_number_is_never_the_best(patience):
    class Late(Line):
        def forward(self, batch):
            w = self.w
            return {"loss": w} if self.training else {"loss": torch.where((w > -2) | (w < -3), math.nan, w)}

    objective, how = Late(), {"optimiser": Optimiser("sgd", 1.0), "validate_every": 1, "patience": patience}
    history = fit(objective, one(), config(steps=9, **how), validation=one())
    assert (history.best["step"], history.best["loss"]) == (3, -3)
    assert objective.w.item() == (-9 if patience is None else -3)
    history = fit(Late(), one(), config(steps=1, **how), validation=one())
    assert history.best is None


def test_more_can_be_better():
    class Hill(Line):
        def forward(self, batch):
            return {"loss": self.w, "accuracy": 1 - (self.w + 2).square()}

    watched = {"monitor": "accuracy", "greater_is_better": True}
    settings = config(steps=9, optimiser=Optimiser("sgd", 1.0), validate_every=1, patience=2, **watched)
    assert fit(Hill(), one(), settings, validation=one()).best["step"] == 2
    with pytest.raises(ValueError, match=r"^monitor: received 'acc'"):
        fit(Hill(), one(), config(steps=9, monitor="acc"))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path, bad):
    losses = [1.0] * 7 + [bad] * 20
    with pytest.raises(Diverged, match=r"at step 9 .*seen finite at step 6.*00000006.*smaller learning rate") as caught:
        fit(Line(*losses), one(), config(steps=20, log_every=5, checkpoint_every=3, folder=tmp_path, keep=1))
    assert caught.value.checkpoint == tmp_path / "checkpoint" / "00000006"
    assert caught.value.checkpoint.is_dir()
    assert caught.value.history.rows[-1]["step"] == 5


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    class Broken(Line):
        def forward(self, batch):
            self.count += 1
            steep = (self.w * 0).sqrt()  # 0, with a gradient that is NaN
            return {"loss": self.w + steep if self.count == 6 else self.w}

    with pytest.raises(Diverged, match="00000004"):
        fit(Broken(), one(), config(steps=20, log_every=100, checkpoint_every=2, folder=tmp_path))


@pytest.mark.parametrize("kept", [True, False])
def test_a_last_step_that_leaves_weights_that_are_not_finite_is_a_run_that_diverged(tmp_path, kept):
    class Broken(Line):
        def forward(self, batch):
            self.count += 1
            return {"loss": self.w + (self.w * 0).sqrt() if self.count == 6 else self.w}  # a gradient that is NaN

    with pytest.raises(Diverged, match="at step 6"):
        fit(Broken(), one(), config(steps=6, checkpoint_every=4, folder=tmp_path if kept else None))
    assert [p.name for p in tmp_path.glob("checkpoint/*")] == ["00000004"] * kept


def test_the_alarm_rings_once(tmp_path, caplog):
    losses = [3.0] * 2 + [-9.0] * 30
    alarm = Alarm(drop=5, rows=2)
    with caplog.at_level(logging.WARNING, "erlangen.train"):
        history = fit(Line(*losses), one(), config(steps=20, log_every=1, alarm=alarm, folder=tmp_path))
    assert len(caplog.records) == len(history.alarms) == 1
    assert "the entropy has fallen to -9 nats by step 4" in history.alarms[0]
    assert [row["step"] for row in read_jsonl(tmp_path / "log.jsonl") if row["kind"] == "alarm"] == [4]


def test_precision_and_compilation():
    objective = tiny().float()
    x = torch.randn(16, 3, dtype=torch.float32)
    loader = TensorLoader(x, x.sum(-1), batch_size=8)
    fit(objective, loader, config(steps=2, precision="bf16-mixed"))
    assert objective.scale.dtype == torch.float32
    fit(objective, data(), config(steps=2, precision="64-true"))
    assert objective.scale.dtype == torch.float64


def test_products_are_rounded_in_steps_alone():
    seen = []

    class Seen(type(tiny())):
        def forward(self, batch):
            seen.append((self.training, torch.get_float32_matmul_precision()))
            return super().forward(batch)

    objective = Seen()
    fit(objective.double(), data(), config(steps=1, precision="tf32-mixed"), validation=data())
    assert set(seen) == {(True, "high"), (False, "highest")}
    wrong = TensorLoader(torch.ones(8, 4), torch.ones(8), batch_size=8)  # a step that fails leaves it as it was, too
    with pytest.raises(RuntimeError):
        fit(objective, wrong, config(steps=1, precision="tf32-mixed"))
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_it_trains_where_gradients_are_off(off):
    (plain, other), batches = (tiny(), tiny()), data()
    expected = fit(plain, data(), config(steps=3))
    with off():
        assert fit(other, batches, config(steps=3)).column("loss") == expected.column("loss")
        assert not torch.is_grad_enabled()


def test_a_run_goes_on_where_gradients_are_off(tmp_path):
    whole, first, last = tiny(), tiny(), tiny()
    fit(whole, data(), config(steps=4))
    with torch.inference_mode():
        fit(first, data(), config(steps=2, folder=tmp_path))
        fit(last, data(), config(steps=4, folder=tmp_path, resume=True))
    assert all(map(torch.equal, last.parameters(), whole.parameters()))


def test_weights_that_cannot_be_trained_are_refused():
    with torch.inference_mode():
        objective = tiny()
        with pytest.raises(ValueError, match=r"^objective: received weights that were made under"):
            fit(objective, data(), config(steps=1))
    with pytest.raises(ValueError, match=r"^objectives\[1\]: received weights that were made under"):
        fit_many([tiny(), objective], [data(), data()], config(steps=1))


def test_weights_without_a_shape_are_refused():
    objective = tiny()
    objective.net = torch.nn.LazyLinear(1)
    with pytest.raises(ValueError, match=r"^objective: received weights that have no shape yet, of a lazy module; acc"):
        fit(objective, data(), config(steps=1))


def test_compile_compiles_the_forward(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda module: compiled.append(module) or module)
    objective = tiny()
    fit(objective, data(), config(steps=1, compile=True))
    assert compiled == [objective]


def test_a_bar_with_rate_and_time_left(capsys):
    fit(tiny(), data(), config(steps=4, log_every=1, progress=True))
    shown = capsys.readouterr().err
    assert "training" in shown
    fit(tiny(), data(), config(steps=4, log_every=1))
    assert capsys.readouterr().err == ""


def test_channels_last_is_a_layout_and_nothing_else():
    def trained(**changes):
        torch.manual_seed(0)
        objective = Pictures()
        rows = fit(objective, TensorLoader(torch.randn(8, 3, 6, 6), batch_size=4), config(steps=3, **changes)).rows
        return objective, rows[-1]["loss"]

    plain, expected = trained()
    laid, loss = trained(channels_last=True)
    assert loss == pytest.approx(expected, rel=1e-12)
    assert laid.net[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert not plain.net[0].weight.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(laid.net[0].weight, plain.net[0].weight)


class Pictures(Objective):
    """A convolution whose outputs should be small."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))

    def parameter_groups(self):
        return {"net": list(self.net.parameters())}

    def forward(self, batch):
        return {"loss": self.net(batch[0]).square().mean()}


def test_what_is_no_longer_finite_inside_of_a_model_is_a_run_that_diverged(tmp_path):
    turn = Affine("angle")
    x, y = torch.rand(8, 1, 8, 8), torch.arange(8) % 3

    def objective():
        torch.manual_seed(0)
        encoder, net = (torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, n)) for n in (4, 3))
        return PSTN(Averaged(net, turn, StudentT.over(turn, 4, encoder=encoder), samples=1), 1.0)

    with pytest.raises(Diverged, match="smaller learning rate"):
        fit(objective(), TensorLoader(x, y, batch_size=4), config(steps=50, optimiser=Optimiser("sgd", 1e200)))
    x[5] = math.nan
    with pytest.raises(ValueError, match=r"x: received .* with NaN or infinite values"):
        fit(objective(), TensorLoader(x, y, batch_size=4, shuffle=False), config(steps=50))
