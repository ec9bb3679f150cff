"""RealNVP whose samples share the context against the same architecture in zuko, the context expanded per sample.

Samples with their log-density, forward and backward, to the context and to all parameters: 6 coordinates, 12 couplings
with one hidden layer, 256 inputs with 20 samples each. Peak memory for two sizes of the context shows what of it grows
with the context. ``python benchmarks/bench_flow.py cuda`` measures on a GPU, also inside a CUDA graph.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
import zuko
from torch import Tensor, nn

from common import captured, interleaved, peak_memory, ratio, save
from erlangen.distributions import Gaussian, RealNVP

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CONFIG: dict[str, Any] = {
    "features": 6,
    "contexts": [32, 512],
    "layers": 12,
    "width": 64,
    "inputs": 256,
    "samples": 20,
    "repeats": 20,
    "warmup": 3,
    "dtype": "float32",
}
FEATURES, LAYERS, WIDTH = CONFIG["features"], CONFIG["layers"], CONFIG["width"]
SAMPLES, INPUTS = CONFIG["samples"], CONFIG["inputs"]


def zukos(context: int) -> tuple[nn.Module, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    """The RealNVP of zuko, on a standard normal."""
    flow = zuko.flows.RealNVP(FEATURES, context, transforms=LAYERS, randmask=True, hidden_features=(WIDTH,)).to(DEVICE)
    return flow, lambda h: flow(h.expand(SAMPLES, -1, -1)).rsample_and_log_prob()


def ours(context: int, *, mixture: bool) -> tuple[nn.Module, Callable[[Tensor], tuple[Tensor, Tensor]]]:
    """Ours, on a Gaussian or on a mixture of 10."""
    base = None if mixture else Gaussian(FEATURES, context)
    flow = RealNVP(FEATURES, context, base=base, layers=LAYERS, width=WIDTH).to(DEVICE)
    return flow, lambda h: flow(h).rsample_and_log_prob((SAMPLES,))


def step(flow: nn.Module, sample: Callable[[Tensor], tuple[Tensor, Tensor]], context: int) -> Callable[[], None]:
    """Forward and backward."""
    h = torch.randn(INPUTS, context, device=DEVICE, requires_grad=True)
    for p in flow.parameters():
        p.grad = torch.zeros_like(p)
    h.grad = torch.zeros_like(h)

    def run() -> None:
        v, log_q = sample(h)
        (v.square().sum() + log_q.sum()).backward()

    return run


def main() -> None:
    """Run the benchmark and write its result."""
    torch.manual_seed(0)
    rows = []
    for context in CONFIG["contexts"]:
        flows = {
            "ours, Gaussian base": ours(context, mixture=False),
            "ours, mixture of 10": ours(context, mixture=True),
            "zuko": zukos(context),
        }
        runs = {name: step(*flow, context) for name, flow in flows.items()}
        memory = {name: peak_memory(run, DEVICE) for name, run in runs.items()}
        if DEVICE != "cpu":
            # zuko's couplings look up where their masks are true: a synchronisation, which no graph captures.
            runs |= {f"{name}, graph": captured(run) for name, run in runs.items() if name != "zuko"}
        times = interleaved(runs, CONFIG["repeats"], CONFIG["warmup"])
        for name, time in times.items():
            speedup, peak = ratio(times["zuko"], time), memory.get(name)
            rows.append({"context": context, "method": name, "seconds": time, "speedup": speedup, "peak_bytes": peak})
            held = "" if peak is None else f", {peak / 2**20:.1f} MiB"
            print(
                f"context {context}, {name}: {1e3 * time['median']:.2f} ms, {speedup['median']:.2f} times zuko's{held}"
            )
    save("flow" if DEVICE == "cpu" else f"flow_{DEVICE}", rows, CONFIG, device=DEVICE)


if __name__ == "__main__":
    main()
