"""20 samples of 256 images 3 × 32 × 32: reading each image in place against copying it per sample.

Forward and backward, to the elements and to the images. ``python benchmarks/bench_warp.py cuda`` measures on a GPU.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor

from common import interleaved, peak_memory, ratio, save
from erlangen.transforms import Affine

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CONFIG = {"samples": 20, "batch": 256, "size": [3, 32, 32], "repeats": 15, "warmup": 3, "dtype": "float32"}


def step(act: Callable[[Tensor, Tensor], Tensor], g: Tensor, x: Tensor) -> Callable[[], None]:
    """Forward and backward."""
    g, x = g.clone().requires_grad_(), x.clone().requires_grad_()

    def run() -> None:
        g.grad = x.grad = None
        act(g, x).sum().backward()

    return run


def main() -> None:
    """Run the benchmark and write its result."""
    torch.manual_seed(0)
    samples, batch = CONFIG["samples"], CONFIG["batch"]
    transform = Affine().to(DEVICE)
    x = torch.rand(batch, *CONFIG["size"], device=DEVICE)
    g = transform.element(0.2 * torch.randn(samples, batch, 6, device=DEVICE))

    def in_place(g: Tensor, x: Tensor) -> Tensor:
        return transform.act(g, x)

    def copied(g: Tensor, x: Tensor) -> Tensor:
        return transform.act(g.flatten(0, 1), x.repeat(samples, 1, 1, 1)).unflatten(0, (samples, batch))

    difference = (in_place(g, x) - copied(g, x)).abs().max().item()
    runs = {"in place": step(in_place, g, x), "copied": step(copied, g, x)}
    times = interleaved(runs, CONFIG["repeats"], CONFIG["warmup"])
    memory = {name: peak_memory(run, DEVICE) for name, run in runs.items()}
    rows = [
        {
            "method": name,
            "seconds": times[name],
            "time_ratio": ratio(times[name], times["copied"]),
            "peak_bytes": memory[name],
            "memory_ratio": memory[name] / memory["copied"],
            "difference": difference,
        }
        for name in runs
    ]
    save("warp" if DEVICE == "cpu" else f"warp_{DEVICE}", rows, CONFIG, device=DEVICE)
    for row in rows:
        time, peak = row["time_ratio"]["median"], row["peak_bytes"] / 2**20
        print(f"{row['method']}: {time:.2f} of the time, {peak:.0f} MiB, {row['memory_ratio']:.2f} of the memory")


if __name__ == "__main__":
    main()
