"""The closed-form affine exponential against ``torch.matrix_exp``, forward and backward, eager.

``python benchmarks/bench_exp.py cuda`` measures on a GPU, and there also both of them inside a CUDA graph.
"""

import math
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from common import captured, interleaved, ratio, save
from erlangen.transforms import Affine, affine_exp

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CONFIG = {"matrices": [160, 5120], "repeats": 200, "warmup": 20, "angle": math.pi, "other": 0.5, "dtype": "float32"}


def algebra(n: int) -> Tensor:
    """Rows `(n, 2, 3)` of algebra elements: angles within half a turn, everything else within a half."""
    v = (2 * torch.rand(n, 6) - 1) * CONFIG["other"]
    v[:, 2] *= CONFIG["angle"] / CONFIG["other"]
    return (v[:, :, None, None] * Affine().basis).sum(1).to(DEVICE)


def step(function: Callable[[Tensor], Tensor], rows: Tensor) -> Callable[[], Tensor]:
    """Forward and backward."""
    rows = rows.clone().requires_grad_()
    weight = torch.rand(len(rows), 3, 3, device=rows.device)

    def run() -> Tensor:
        rows.grad = None
        out = function(rows)
        out.backward(weight)
        return out

    return run


def main() -> None:
    """Run the benchmark and write its result."""
    torch.manual_seed(0)
    rows = []
    for n in CONFIG["matrices"]:
        top = algebra(n)
        full = torch.cat((top, torch.zeros(n, 1, 3, device=DEVICE)), 1)
        runs = {"closed form": step(affine_exp, top), "matrix_exp": step(torch.matrix_exp, full)}
        graphs = {}
        if DEVICE != "cpu":
            graphs = {f"{name}, graph": captured(run) for name, run in runs.items()}
            runs |= {name: replay for name, replay in graphs.items() if replay}
        times = interleaved(runs, CONFIG["repeats"], CONFIG["warmup"])
        error = (affine_exp(top).double() - torch.matrix_exp(full.double())).abs().max().item()
        for name, time in times.items():
            speedup = ratio(times["matrix_exp"], time)
            rows.append({"matrices": n, "method": name, "seconds": time, "speedup": speedup, "error": error})
            print(
                f"{n} matrices, {name}: {1e3 * time['median']:.3f} ms, {speedup['median']:.2f} times matrix_exp's speed"
            )
        rows += [{"matrices": n, "method": name, "captured": False} for name, replay in graphs.items() if not replay]
    save("exp" if DEVICE == "cpu" else f"exp_{DEVICE}", rows, CONFIG, device=DEVICE)


if __name__ == "__main__":
    main()
