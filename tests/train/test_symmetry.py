"""Both stages in one run, and what happens when prototypes lose their images."""

import logging
from dataclasses import replace

import pytest
import torch

from erlangen.models import SymmetryModel
from erlangen.objectives import KnownPoses, PrototypeInference, TransformLikelihood, TwoStages
from erlangen.train import (
    Alarm,
    Collapsed,
    Config,
    Cosine,
    Diverged,
    Inferred,
    Optimiser,
    TensorLoader,
    WarmupCosine,
    Within,
    fit,
    fit_symmetry,
    set_aside,
)
from erlangen.train.alarm import Watch
from erlangen.train.symmetry import _staged
from erlangen.transforms import Affine

from ..models.poses import blobs, centred

QUIET = {"progress": False, "accelerator": "cpu", "log_every": 2}


def stages(first=6, bounded=True, second=TransformLikelihood, **kwargs):
    torch.manual_seed(0)
    group, small = Affine("tx", "ty"), {"inference": (8,), "generative": (8,), "layers": 2, "width": 8}
    model = SymmetryModel.over(group, (1, 8, 8), bounded=bounded, **small)
    near = {"tx": 0.25, "ty": 0.25}
    prototypes = PrototypeInference(model, ranges=near, samples=1, **kwargs)
    return TwoStages(prototypes, second(model, ranges=near, samples=1), first)


def data(n=16):
    x = torch.zeros(n, 1, 8, 8)
    x[:, :, 2:6, 2:6] = torch.rand(n, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    return TensorLoader(x, batch_size=8)


def weights(part):
    return torch.cat([p.detach().flatten().clone() for p in part.parameters()])


def test_one_run_trains_one_stage_after_the_other(tmp_path):
    objective, seen = stages(), []
    start = weights(objective.model.inference), weights(objective.model.conditional)

    def note(step, losses):
        seen.append((weights(objective.model.inference), weights(objective.model.conditional), sorted(losses)))

    history = fit_symmetry(objective, data(), Config(steps=10, folder=tmp_path, **QUIET), on_step=note)
    assert ["nll" in kinds for _, _, kinds in seen] == [False] * 6 + [True] * 4
    assert torch.equal(seen[5][1], start[1])
    assert not torch.equal(seen[5][0], start[0])
    assert torch.equal(seen[-1][0], seen[5][0])
    assert not torch.equal(seen[-1][1], start[1])
    assert history.stopped == "finished"
    assert len(history.column("content")) == 3
    assert len(history.column("nll")) == 2
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["checkpoint", "log.jsonl"]


def test_a_run_goes_on_from_its_checkpoint_in_either_stage(tmp_path):
    whole = stages()
    fit_symmetry(whole, data(), Config(steps=10, **QUIET))
    for cut in (4, 8):
        folder = tmp_path / str(cut)

        def stop(step, _, cut=cut):
            if step == cut:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit_symmetry(
                stages(), data(), Config(steps=10, folder=folder, checkpoint_every=cut - 1, **QUIET), on_step=stop
            )
        again = stages()
        fit_symmetry(again, data(), Config(steps=10, folder=folder, checkpoint_every=cut - 1, resume=True, **QUIET))
        assert torch.equal(weights(again), weights(whole))


def test_batches_have_poses_when_the_first_stage_is_over():
    objective, plain, cpu = stages(first=1, second=KnownPoses), data(), torch.device("cpu")
    loader = Inferred(plain, objective, draws=3)
    assert len(loader) == len(plain)
    epoch = loader.epoch(4, cpu)
    (first,) = next(epoch)  # of the first stage, which ends here
    objective((first,))
    x, pose, back = next(epoch)
    for seen, (expected,) in zip((first, x), plain.epoch(4, cpu), strict=True):
        assert torch.equal(seen, expected)
    torch.testing.assert_close(pose, objective.model.pose(x).median)
    assert back.shape == (8, 3, 3, 3)
    again = next(Inferred(plain, objective, draws=3).epoch(4, cpu, start=1))  # as a run that goes on has them
    assert all(torch.equal(a, b) for a, b in zip(again, (x, pose, back), strict=True))
    assert objective.training
    with pytest.raises(ValueError, match="objective: received a TransformLikelihood for its second stage"):
        Inferred(plain, stages(), draws=3)


def test_a_run_with_known_poses_goes_on_from_its_checkpoint(tmp_path):
    def run(**kwargs):
        objective = stages(second=KnownPoses)
        loader, aside = (Inferred(data(n), objective, draws=2) for n in (16, 8))
        config = Config(steps=12, validate_every=2, patience=9, monitor="nll", checkpoint_every=1, **QUIET, **kwargs)
        return objective, lambda **how: fit_symmetry(objective, loader, config, validation=aside, **how)

    whole, train = run()
    train()
    for cut in (4, 9):

        def stop(step, _, cut=cut):
            if step == cut:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(folder=tmp_path / str(cut))[1](on_step=stop)
        again, train = run(folder=tmp_path / str(cut), resume=True)
        train()
        assert torch.equal(weights(again), weights(whole))


def test_schedules_run_over_their_own_stage():
    part = Within(Cosine(), 10, 4)
    assert [part(step, 99, 1) for step in (9, 14)] == [0.0, 0.0]
    assert [part(step, 99, 1) for step in range(10, 14)] == [Cosine()(step, 4, 1) for step in range(4)]
    objective = stages()
    own = Optimiser("adam", 2**-9, schedule=WarmupCosine(2))
    history = fit_symmetry(
        objective, data(), Config(steps=10, optimiser=own, progress=False, accelerator="cpu", log_every=1)
    )
    rates = list(zip(history.column("lr/inference"), history.column("lr/density"), strict=True))
    assert rates[0] == (2**-10, 0.0)
    assert rates[1] == (2**-9, 0.0)
    assert rates[6] == (0.0, 2**-10)
    with pytest.raises(ValueError, match=r"groups\['inference'\]: received a schedule Within"):
        fit_symmetry(objective, data(), Config(steps=10, optimiser=Optimiser(schedule=part), **QUIET))
    with pytest.raises(ValueError, match="steps: received 6; accepted are more than the 6"):
        fit_symmetry(objective, data(), Config(steps=6, **QUIET))


def far():
    """Poses may go out of the frame, nothing keeps them from it, and the steps are large."""
    return stages(first=40, bounded=False, invertibility=0.0)


HASTY = Config(steps=60, optimiser=Optimiser("adam", 0.2), alarm=Alarm(rows=2), **QUIET)


def test_content_is_lost_and_the_alarm_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        history = fit_symmetry(far(), data(), HASTY, restarts=0)
    assert history.stopped == "finished"
    assert any("of the content of inputs is left in their prototypes" in said for said in history.alarms)
    assert "Try a blur in the first steps" in caplog.text


def test_it_stops_when_asked():
    with pytest.raises(Collapsed, match="prototypes are alike because they are empty") as caught:
        fit(far(), data(), replace(HASTY, alarm=Alarm(rows=2, stop=True)))
    assert caught.value.history.rows[-1]["content"] <= 0.5


def test_a_remedy_is_understood_by_compiled_code():
    """A price that was 0 when code was compiled and is not 0 any more."""
    first = stages(invertibility=0.0).prototypes
    compiled, batch = torch.compile(first, backend="eager"), next(iter(data().epoch(0, torch.device("cpu"))))
    assert not compiled(batch)["lost"].requires_grad
    first.invertibility = 0.5
    assert compiled(batch)["lost"].requires_grad
    first.remedy(10)
    assert compiled(batch)["lost"].requires_grad
    torch.compiler.reset()


def test_it_starts_anew_with_a_remedy(tmp_path, caplog):
    objective = far()
    with caplog.at_level(logging.WARNING):
        history = fit_symmetry(objective, data(), replace(HASTY, folder=tmp_path), restarts=2)
    assert "Starting anew, with blur" in caplog.text
    assert history.stopped == "finished"
    assert history.column("content")[-1] > 0.5
    assert objective.prototypes.invertibility >= 1
    assert (tmp_path / "collapsed-1" / "log.jsonl").is_file()
    assert (tmp_path / "checkpoint").is_dir()
    (tmp_path / "log.jsonl").unlink()
    (tmp_path / "checkpoint").rename(tmp_path / "elsewhere")  # killed before the second try has left anything
    with pytest.raises(FileExistsError, match="holds a run that started anew; give resume=True"):
        fit_symmetry(far(), data(), replace(HASTY, folder=tmp_path), restarts=2)


def test_a_first_stage_that_ends_empty_before_there_are_enough_rows_starts_anew(caplog):
    objective = far()
    objective.burn_in = 4
    with caplog.at_level(logging.WARNING):
        history = fit_symmetry(objective, data(), replace(HASTY, steps=10, alarm=Alarm(rows=3)), restarts=1)
    assert "Starting anew, with blur" in caplog.text
    assert history.column("content")[-1] > 0.5


def test_poses_are_known_from_batches_that_infer_them():
    objective = stages(second=KnownPoses)
    inferred = Inferred(data(), objective, draws=2)
    with pytest.raises(ValueError, match="loader: received a TensorLoader for KnownPoses as the second stage"):
        fit_symmetry(objective, data(), Config(steps=10, **QUIET))
    with pytest.raises(ValueError, match="validation: received a TensorLoader for KnownPoses"):
        fit_symmetry(objective, inferred, Config(steps=10, **QUIET), validation=data())


def test_a_run_that_starts_anew_in_its_second_stage_infers_poses_anew(monkeypatch):
    objective, asked = stages(first=4, bounded=False, invertibility=0.0, second=KnownPoses), []
    known = KnownPoses.known
    monkeypatch.setattr(KnownPoses, "known", lambda self, x, n: asked.append(1) or known(self, x, n))
    fit_symmetry(objective, Inferred(data(), objective, draws=2), replace(HASTY, steps=10, alarm=Alarm(rows=3)))
    assert len(asked) == 2


def test_the_share_of_content_is_watched():
    watch = Watch(Alarm(rows=2))
    said = [watch.look(step, {"loss": 0.0, "content": value}) for step, value in enumerate((0.9, 0.4, 0.4, 0.1))]
    assert [len(messages) for messages in said] == [0, 0, 1, 0]
    assert said[2][0].startswith("only 40 % of the content")
    assert watch.empty


def test_the_law_of_shifts_is_found():
    """One shape, shifted along x uniformly within ±0.25 and never along y."""
    model = centred(scale=1e-9)
    shape = blobs(1)
    v = torch.stack((torch.rand(256) * 0.5 - 0.25, torch.zeros(256)), -1)
    x = model.group(shape.expand(256, -1, -1, -1), v)
    objective = TransformLikelihood(model, ranges={"tx": 0.1, "ty": 0.1}, samples=1)
    how = Optimiser("adam", 2e-2, clip=2.0, schedule=Cosine(0.05))
    fit(objective, TensorLoader(x, batch_size=64), Config(steps=120, optimiser=how, **QUIET))
    with torch.no_grad():
        moved = model.density(shape).sample((2000,))[:, 0]
    centre = model.pose(shape).median[0]
    assert (moved.mean(0) - centre).abs().max() < 0.03
    assert moved[:, 0].std().item() == pytest.approx(0.5 / 12**0.5, rel=0.15)
    assert moved[:, 1].std() < 0.02


def test_what_is_set_aside_is_not_learned_from():
    x = torch.arange(64.0)[:, None]
    rest, held = set_aside(x, 0.25, seed=3, batch_size=10)
    assert held is not None
    judged = torch.cat([batch[0] for batch in held.epoch(0, torch.device("cpu"))]).flatten()
    assert len(rest) == 48
    assert len(judged) == 512  # few are judged again and again
    assert judged.unique(return_counts=True)[1].tolist() == [32] * 16
    assert sorted((*rest.flatten().tolist(), *judged.unique().tolist())) == x.flatten().tolist()
    assert not torch.equal(rest, set_aside(x, 0.25, seed=4)[0])


@pytest.mark.parametrize("held", [0.0, 0.05])
def test_too_few_to_judge_by_are_learned_from(held):
    x = torch.arange(64.0)[:, None]
    rest, aside = set_aside(x, held)
    assert aside is None
    assert rest is x


@pytest.mark.parametrize("held", [1.0, 2.0, -0.1, float("nan"), "0.1", None])
def test_what_is_no_share_is_refused(held):
    with pytest.raises(ValueError, match=r"^held: received .*; accepted is a share, 0 <= held < 1$"):
        set_aside(torch.zeros(64, 1), held)


@pytest.mark.parametrize("moved", [(), ("log.jsonl",), ("log.jsonl", "checkpoint")])
def test_a_run_that_was_killed_while_it_was_put_aside_goes_on(tmp_path, moved):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    history = fit_symmetry(far(), data(), replace(HASTY, folder=whole), restarts=2)
    first = replace(HASTY, folder=killed, alarm=Alarm(rows=2, stop=True), checkpoint_every=5)
    with pytest.raises(Collapsed):
        fit(far(), data(), _staged(first, 40, 60, 0))
    half = killed / ".collapsed-1"
    half.mkdir()
    for name in moved:
        (killed / name).rename(half / name)
    steps = []
    settings = replace(HASTY, folder=killed, resume=True)
    again = fit_symmetry(far(), data(), settings, restarts=2, on_step=lambda step, _: steps.append(step))
    assert steps[0] == 1  # and not where the collapsed run was
    assert steps.count(1) == len(list(whole.glob("collapsed-*")))
    assert again.column("loss") == history.column("loss")
    assert sorted(path.name for path in killed.iterdir()) == sorted(path.name for path in whole.iterdir())


@pytest.mark.parametrize("restarts", [-1, 1.5, "2"])
def test_restarts_are_counted(restarts):
    with pytest.raises(ValueError, match=r"restarts: received .*; accepted is an integer >= 0"):
        fit_symmetry(stages(), data(), Config(steps=8, **QUIET), restarts=restarts)


def test_a_frozen_model_is_not_trained():
    objective = stages()
    objective.model.averaged(torch.nn.Flatten())
    with pytest.raises(ValueError, match=r"whose inference is frozen; accepted is .*requires_grad_"):
        fit_symmetry(objective, data(), Config(steps=8, **QUIET))


def test_no_row_is_of_two_stages():
    history = fit_symmetry(stages(first=6), data(), Config(steps=12, **{**QUIET, "log_every": 4}))
    rows = [row for row in history.rows if row["kind"] == "train"]
    assert [row["step"] for row in rows] == [4, 6, 8, 12]
    assert [("nll" in row, "equivariance" in row) for row in rows] == [(False, True)] * 2 + [(True, False)] * 2
    assert [row["loss"] == pytest.approx(row["nll"]) for row in rows[2:]] == [True, True]


def test_an_objective_that_was_trained_before_begins_with_its_first_stage():
    """What was inferred before is forgotten, too: the poses of the second stage are those of its own first."""
    objective, seen = stages(second=KnownPoses), []
    loader, aside = (Inferred(data(n), objective, draws=2) for n in (16, 8))

    def note(step, losses):
        seen.append("nll" in losses)

    for _ in range(2):
        fit_symmetry(objective, loader, Config(steps=10, **QUIET), validation=aside, on_step=note)
    assert seen == ([False] * 6 + [True] * 4) * 2
    for batches in (loader, aside):
        x, pose, _ = next(batches.epoch(0, torch.device("cpu")))
        torch.testing.assert_close(pose, objective.model.pose(x).median)


def test_one_stage_alone_is_for_fit():
    with pytest.raises(ValueError, match="objective: received a PrototypeInference; accepted is TwoStages"):
        fit_symmetry(stages().prototypes, data(), Config(steps=8, **QUIET))


@pytest.mark.parametrize(
    ("part", "step", "judged"), [("conditional", 8, True), ("inference", 6, True), ("inference", 6, False)]
)
def test_what_diverges_where_it_is_judged_or_inferred_is_a_run_that_diverged(part, step, judged):
    """The density in a validation, the inference network when poses are inferred: neither is in a step."""
    objective = stages(second=KnownPoses)
    loader, aside = (Inferred(data(n), objective, draws=2) for n in (16, 8))

    def spoil(now, _):
        if now == step:
            for parameter in getattr(objective.model, part).parameters():
                parameter.data.fill_(torch.nan)

    config = Config(steps=12, validate_every=2, **{**QUIET, "log_every": 4})
    with pytest.raises(Diverged, match=rf"the loss is nan at step {step} .* smaller learning rate"):
        fit_symmetry(objective, loader, config, validation=aside if judged else None, on_step=spoil)


@pytest.mark.parametrize(("rate", "kept"), [(1e-3, False), (1.0, True)])
def test_a_density_that_never_gets_better_is_said(rate, kept, caplog):
    objective = stages(second=KnownPoses)
    loader, aside = (Inferred(data(n), objective, draws=2) for n in (16, 8))
    groups = {"density": Optimiser("sgd", rate)}
    config = Config(steps=16, groups=groups, validate_every=2, patience=9, monitor="nll", **QUIET)
    history = fit_symmetry(objective, loader, config, validation=aside)
    assert (history.best["step"] == 6) == kept
    assert ("the density was never better than before it learned anything" in caplog.text) == kept
