"""Trains, is killed at random, resumes, and is killed again, until it is done. Prints what a run left alone ends with.

A script: torch is loaded once, and each life is a fork.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from tests.train.tiny import data, tiny

from erlangen.train import Config, Cosine, Optimiser, StepDecay, fit

STEPS, TRIALS = 60, 4


def config(folder: Path | None, resume: bool) -> Config:
    momentum = Optimiser("sgd", 0.01, momentum=0.9, clip=1.0, schedule=StepDecay(3))
    groups = {"net": Optimiser("adamw", 0.01, schedule=Cosine()), "scale": momentum}
    return Config(
        steps=STEPS,
        groups=groups,
        folder=folder,
        resume=resume,
        checkpoint_every=7,
        log_every=5,
        validate_every=11,
        patience=100,
        accelerator="cpu",
    )


def weights(objective) -> dict:
    return {name: value.tolist() for name, value in objective.state_dict().items()}


def live(folder: Path, life: int, slow: bool) -> None:
    objective = tiny()
    pause = (lambda *_: time.sleep(0.004)) if slow else None
    history = fit(objective, data(), config(folder, resume=life > 0), validation=data(seed=9), on_step=pause)
    kept = {"weights": weights(objective), "rows": [[r["kind"], r["step"], r["loss"]] for r in history.rows]}
    (folder / "end.json").write_text(json.dumps(kept))


def trial(folder: Path, chance: random.Random) -> int:
    """Lives until the run is done, and returns how many deaths it took."""
    for life in range(100):
        child = os.fork()
        if child == 0:
            live(folder, life if folder.exists() else 0, slow=life < 8)
            os._exit(0)
        if life < 8:
            time.sleep(chance.uniform(0.02, 0.3))
            os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] == 0:
            return life
    raise RuntimeError("it never ended")


def main(root: Path, seed: int) -> None:
    objective = tiny()
    history = fit(objective, data(), config(None, resume=False), validation=data(seed=9))
    rows = [[r["kind"], r["step"], r["loss"]] for r in history.rows]
    chance, deaths, ends = random.Random(seed), [], []
    for number in range(TRIALS):
        deaths.append(trial(root / str(number), chance))
        ends.append(json.loads((root / str(number) / "end.json").read_text()))
    print(json.dumps({"alone": {"weights": weights(objective), "rows": rows}, "ends": ends, "deaths": deaths}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]))
