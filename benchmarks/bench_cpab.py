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


def velocity(nodes: Tensor, x: Tensor) -> Tensor:
    """Look up the cell and interpolate the velocities of its nodes, in as few operations as that takes."""
    cells = CONFIG["cells"]
    place = (x + 1) * (cells / 2)
    cell = place.detach().floor().clamp(0, cells - 1)
    index = cell.long()
    left, right = nodes.gather(1, index), nodes.gather(1, index + 1)
    return left + (right - left) * (place - cell)


def euler(nodes: Tensor, x: Tensor, h: float) -> Tensor:
    """One step of first order."""
    return x + h * velocity(nodes, x)


def midpoint(nodes: Tensor, x: Tensor, h: float) -> Tensor:
    """One step of second order."""
    return x + h * velocity(nodes, x + h / 2 * velocity(nodes, x))


def loop(step: Callable[[Tensor, Tensor, float], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Integrate in 50 steps."""

    def flow(theta: Tensor, points: Tensor) -> Tensor:
        nodes = torch.nn.functional.pad(theta, (1, 1))
        x = points[..., 0].expand(len(theta), -1)
        for _ in range(CONFIG["steps"]):
            x = step(nodes, x, 1 / CONFIG["steps"])
        return x[..., None]

    return flow


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
    flows = {"closed form": field.flow, "50 Euler steps": loop(euler), "50 midpoint steps": loop(midpoint)}
    runs = {name: step(flow, theta, points) for name, flow in flows.items()}
    times = interleaved(runs, CONFIG["repeats"], CONFIG["warmup"])
    exact = field.flow(theta.double(), points.double())
    error = {name: (flow(theta, points) - exact).abs().max().item() for name, flow in flows.items()}
    rows = [
        {
            "method": name,
            "seconds": times[name],
            "speedup_of_closed_form": ratio(times[name], times["closed form"]),
            "peak_bytes": peak_memory(run, DEVICE),
            "error": error[name],
        }
        for name, run in runs.items()
    ]
    save("cpab" if DEVICE == "cpu" else f"cpab_{DEVICE}", rows, CONFIG, device=DEVICE)
    for row in rows:
        time, speedup = 1e3 * row["seconds"]["median"], row["speedup_of_closed_form"]["median"]
        print(f"{row['method']}: {time:.2f} ms, {speedup:.1f} times the closed form's, error {row['error']:.1e}")


if __name__ == "__main__":
    main()
