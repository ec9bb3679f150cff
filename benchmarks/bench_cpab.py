"""1-D CPAB in closed form against integrating the same velocity field in 50 steps, forward and backward.

10 cells, 100 points, batch 160. ``python benchmarks/bench_cpab.py cuda`` measures on a GPU.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor

from common import interleaved, peak_memory, ratio, save
from erlangen.transforms.velocity import Field1d

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CONFIG = {"cells": 10, "points": 100, "batch": 160, "steps": 50, "repeats": 40, "warmup": 5, "dtype": "float32"}


def loop(theta: Tensor, points: Tensor) -> Tensor:
    """Euler's method: in each step find the cell and move along its velocity."""
    nodes = torch.nn.functional.pad(theta, (1, 1))
    cells = CONFIG["cells"]
    x = points[..., 0].expand(len(theta), -1)
    for _ in range(CONFIG["steps"]):
        place = (x + 1) * (cells / 2)
        cell = place.detach().floor().clamp(0, cells - 1)
        index = cell.long()
        left, right = nodes.gather(1, index), nodes.gather(1, index + 1)
        x = x + (left + (right - left) * (place - cell)) / CONFIG["steps"]
    return x[..., None]


def step(flow: Callable[[Tensor, Tensor], Tensor], theta: Tensor, points: Tensor) -> Callable[[], None]:
    """Forward and backward, to theta and to the points."""
    theta, points = theta.clone().requires_grad_(), points.clone().requires_grad_()

    def run() -> None:
        theta.grad = points.grad = None
        flow(theta, points).sum().backward()

    return run


def main() -> None:
    """Run the benchmark and write its result."""
    torch.manual_seed(0)
    field = Field1d(CONFIG["cells"]).to(DEVICE)
    theta = 0.3 * torch.randn(CONFIG["batch"], field.features, device=DEVICE)
    points = torch.linspace(-1, 1, CONFIG["points"], device=DEVICE)[None, :, None]
    runs = {"closed form": step(field.flow, theta, points), "50 steps": step(loop, theta, points)}
    times = interleaved(runs, CONFIG["repeats"], CONFIG["warmup"])
    exact = field.flow(theta.double(), points.double())
    error = {
        name: (f(theta, points) - exact).abs().max().item()
        for name, f in (("closed form", field.flow), ("50 steps", loop))
    }
    rows = [
        {
            "method": name,
            "seconds": times[name],
            "speedup": ratio(times["50 steps"], times[name]),
            "peak_bytes": peak_memory(run, DEVICE),
            "error": error[name],
        }
        for name, run in runs.items()
    ]
    save("cpab" if DEVICE == "cpu" else f"cpab_{DEVICE}", rows, CONFIG, device=DEVICE)
    for row in rows:
        time, speedup = 1e3 * row["seconds"]["median"], row["speedup"]["median"]
        print(f"{row['method']}: {time:.2f} ms, {speedup:.1f} times the loop's speed, error {row['error']:.1e}")


if __name__ == "__main__":
    main()
