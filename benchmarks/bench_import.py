"""What ``import erlangen`` costs over ``import torch``, in fresh processes.

Whole processes are noisy (torch alone takes seconds), so each also says how long its last import took by itself.
"""

import subprocess
import sys
from collections.abc import Callable

from common import Timing, interleaved, ratio, save

CONFIG = {"repeats": 15, "warmup": 2}
PROGRAM = """
import time
import torch
start = time.perf_counter()
{statement}
print(time.perf_counter() - start)
"""
STATEMENTS = {
    "torch": "",
    "torch, erlangen": "import erlangen",
    "torch, erlangen.transforms": "import erlangen.transforms",
    "torch, erlangen.objectives": "import erlangen.objectives",
    "torch, erlangen.estimators": "import erlangen.estimators",
}


def process(statement: str, inside: list[float]) -> Callable[[], None]:
    """A function that runs a statement after ``import torch`` in a fresh process and notes its own time."""
    command = [sys.executable, "-c", PROGRAM.format(statement=statement)]

    def run() -> None:
        inside.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))

    return run


def main() -> None:
    """Run the benchmark and write its result."""
    inside: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    times = interleaved({name: process(code, inside[name]) for name, code in STATEMENTS.items()}, **CONFIG)
    rows = [
        {
            "imports": name,
            "seconds": times[name],
            "ratio_to_torch": ratio(times[name], times["torch"]),
            "seconds_after_torch": Timing(inside[name][CONFIG["warmup"] :]),
        }
        for name in STATEMENTS
    ]
    save("import", rows, CONFIG)
    for row in rows:
        print(f"{row['imports']}: {1000 * row['seconds_after_torch']['median']:.2f} ms after torch")


if __name__ == "__main__":
    main()
