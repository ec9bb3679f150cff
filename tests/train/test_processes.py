"""What only whole processes can show: a run that is killed, and a run that is shared."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file

import erlangen

from . import together

HERE = Path(__file__).parent


def run(script: str, *arguments: object) -> str:
    path = os.pathsep.join([str(Path(erlangen.__file__).parents[1]), str(HERE.parents[1])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_run_that_is_killed_at_random_and_resumed_ends_the_same_to_the_last_bit(tmp_path):
    seed = random.SystemRandom().randrange(2**32)
    found = json.loads(run("killed.py", tmp_path, seed))
    assert sum(found["deaths"]) > 0
    for end in found["ends"]:
        assert end == found["alone"], f"killed with seed {seed}, deaths {found['deaths']}"


def test_two_processes_take_the_steps_of_one(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    together.main(tmp_path / "one", 1)
    run("together.py", tmp_path / "two", 2)
    one = load_file(tmp_path / "one" / "0.safetensors")
    for rank in (0, 1):
        two = load_file(tmp_path / "two" / f"{rank}.safetensors")
        assert set(two) == set(one)
        for name, value in one.items():
            error = (two[name] - value).abs().max()
            assert error <= 1e-8 * value.abs().max(), f"{name} of process {rank} differs by {error}"
