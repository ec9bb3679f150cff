"""Training a run into its folder, from the first step or from its last good checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..data import DataSet, named_sets
from ..objectives import METHODS, Terms
from ..train import Checkpoints, Config, Cosine, Optimiser, TensorLoader, fit
from ..utils.io import provenance
from ..utils.shapes import check_kind
from .config import RunConfig
from .runs import CONFIG, UNFINISHED, Run, read_config, read_record, save_weights, write_record
from .setting import Setting, build_model, prepare
from .sources import class_root, some

__all__ = ["continued", "fit_run", "train_run"]

LENGTH = ("steps", "epochs")  # the settings that may change when a run goes on
JUDGED = 1000  # images for a validation while it trains


def fit_run(
    config: RunConfig,
    data: DataSet | None = None,
    *,
    folder: str | os.PathLike[str],
    test: DataSet | None = None,
    resume: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Run:
    """Trains a model and leaves a run folder: weights, settings, log, checkpoints and a report.

    Args:
        config: what is trained, and how. When a run goes on, its own settings count, but for `steps` and `epochs`.
        data: what it learns from; read from `config.data` if not given.
        folder: where the run goes; a folder that holds something is refused, unless the run in it is resumed.
        test: what it is tested on.
        resume: whether to go on with the run in the folder.
        progress: called with the share done, from 0 to 1, and what is being done, after training.

    Raises:
        ValueError: something in the settings or the data is wrong; nothing has been written.
        FileExistsError: the folder holds something.

    Example:
        >>> import tempfile
        >>> from erlangen.data import glyphs
        >>> config = RunConfig(method="none", steps=2, batch_size=8, device="cpu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = fit_run(config, glyphs(64), folder=f"{folder}/run")
        >>> run.predict(glyphs(3, seed=1).x).shape
        torch.Size([3])
    """
    from .reporting import write_report

    check_kind("config", config, RunConfig)
    folder = Path(os.path.expanduser(folder))
    check_folder(folder, resume, None if data is not None else config.data)
    setting = prepare(continued(folder, config) if resume else config, data, test)
    run = train_run(setting, folder, resume=resume)
    return write_report(run, setting, progress)


def continued(folder: Path, config: RunConfig) -> RunConfig:
    """The settings of a run that goes on: its own, but for its length if another is given."""
    stored = read_config(folder, read_record(folder))
    longer = {name: getattr(config, name) for name in LENGTH}
    return replace(stored, **longer) if any(longer.values()) else stored


def check_folder(folder: Path, resume: bool, data: str | None = None) -> None:
    """Raises an error for a folder that holds something, so that nothing is overwritten; to resume, if it has no run.

    Nor may it lie among the classes of the data, where it would later be taken for one of them.
    """
    if resume:
        read_record(folder)
    elif (folder / CONFIG).exists():
        raise FileExistsError(
            f"output: received {str(folder)!r}, which holds a run already; accepted is a new folder, or the same with "
            "resume=True to go on with it"
        )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        what = "holds other files" if folder.is_dir() else "is a file"
        raise FileExistsError(f"output: received {str(folder)!r}, which {what}; accepted is a new or empty folder")
    elif data is not None and data not in named_sets():
        path = Path(os.path.expanduser(data))
        for root in (class_root(path), path / "test"):
            if root.is_dir() and root.resolve() in folder.resolve().parents:
                got = f"{str(folder)!r}, which lies among the classes in {str(root)!r}"
                raise ValueError(f"output: received {got}; accepted is a folder elsewhere")


def train_run(setting: Setting, folder: Path, *, resume: bool = False, bar: bool | None = None) -> Run:
    """Trains, and writes everything but the report; `bar` says whether one is shown, see `erlangen.train.Config`."""
    check_folder(folder, resume)
    config, about = setting.config, setting.about
    record: dict[str, Any] = {"config": config, "data": about, "provenance": provenance()}
    stored = read_record(folder) if resume else None
    if stored is not None:
        _check_same(stored["data"], setting)
        record["provenance"] = stored.get("provenance", record["provenance"])  # but results and data are new
    loader = _loader(setting.train, config)
    how = replace(training_config(config, len(loader), folder, resume), progress=bar)
    if resume:
        _check_length(folder, how.length(len(loader)))
    model = build_model(config, about)
    terms = Terms(config.alpha, config.entropy, config.burn_in or 0, shares=True, size=len(setting.train))
    objective = METHODS[config.method].objective(model, terms)
    if stored is None or _goes_on(stored, config):  # after all that may refuse a setting
        write_record(folder, {**record, UNFINISHED: True})
    fit(objective, loader, how, validation=_validation(setting))
    save_weights(folder, model)
    write_record(folder, record)
    return Run(folder, config, model.eval(), record)


def training_config(config: RunConfig, per_epoch: int, folder: Path, resume: bool) -> Config:
    """The settings of `erlangen.train.fit`; ten validations, for they cost as much as many steps."""
    length = config.steps or (config.epochs or 0) * per_epoch
    optimiser, method = Optimiser("adamw", config.lr, clip=5.0, schedule=Cosine(0.1)), METHODS[config.method]
    return Config(
        validate_every=max(1, length // 10),
        epochs=config.epochs,
        steps=config.steps,
        optimiser=optimiser,
        groups={} if method.rate == 1 else dict.fromkeys(method.fast, replace(optimiser, lr=method.rate * config.lr)),
        seed=config.seed,
        precision=config.precision,
        compile=config.compile,
        accelerator=config.device,
        folder=folder,
        resume=resume,
        checkpoint_seconds=config.checkpoint_seconds,
        log_every=config.log_every,
    )


def _loader(data: DataSet, config: RunConfig) -> TensorLoader:
    x = data.x if data.x.dtype == torch.uint8 else data.x.to(torch.get_default_dtype())
    return TensorLoader(x, data.y, batch_size=config.batch_size, seed=config.seed)


def _validation(setting: Setting) -> TensorLoader | None:
    return None if setting.validation is None else _loader(some(setting.validation, JUDGED), setting.config)


def _check_length(folder: Path, steps: int) -> None:
    done = Checkpoints(folder / "checkpoint").last()
    if done is not None and int(done.name) > steps:
        raise ValueError(
            f"steps: received {steps} for a run that has taken {int(done.name)}; accepted are at least those"
        )


def _goes_on(stored: Mapping[str, Any], config: RunConfig) -> bool:
    """Whether there are steps to take before there are weights of these settings."""
    return bool(stored.get(UNFINISHED)) or any(stored["config"].get(name) != getattr(config, name) for name in LENGTH)


def _check_same(stored: Mapping[str, Any], setting: Setting) -> None:
    for name in ("classes", "shape", "digest"):
        if stored[name] != setting.about[name]:
            what = {"digest": "other images or labels"}.get(name, f"{name} {setting.about[name]}")
            raise ValueError(f"data: received {what} than the run began with; accepted is the same data, or a new run")
