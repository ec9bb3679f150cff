"""LeNet's forward and backward passes with our convolutions against torch's, on views that are simply there.

As a training step of Table 1 on the grey sets takes them: bfloat16, channels last, compiled, in a CUDA graph, and with
the gradient of the views. ``python benchmarks/bench_lenet.py`` measures on a GPU, without which there is nothing to
compare.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from common import captured, interleaved, ratio, save
from erlangen.nets import LeNet
from erlangen.nets.convolution import Convolution
from erlangen.utils.gpu import runs_triton

CONFIG = {"views": [1024, 5120], "size": [1, 28, 28], "steps": 50, "repeats": 15}
KINDS = {"our convolutions": True, "torch's convolutions": False}


def passes(views: int, fused: bool) -> Callable[[], None]:
    """Several passes in a row, forward and backward."""
    net = LeNet().to("cuda", memory_format=torch.channels_last)
    for module in net.modules():
        if isinstance(module, Convolution):
            module.fused = fused
    x = torch.rand(views, *CONFIG["size"], device="cuda").to(torch.bfloat16, memory_format=torch.channels_last)
    x, y = x.requires_grad_(), torch.randint(10, (views,), device="cuda")
    forward: Any = torch.compile(net, dynamic=False)

    def run() -> None:
        x.grad = None
        net.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = cross_entropy(forward(x), y)
        loss.backward()

    once = captured(run) or run

    def many() -> None:
        for _ in range(CONFIG["steps"]):
            once()

    return many


def main() -> None:
    """Run the benchmark and write its result."""
    if not runs_triton():
        print("needs CUDA")
        return
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for views in CONFIG["views"]:
        times = interleaved({name: passes(views, fused) for name, fused in KINDS.items()}, CONFIG["repeats"], 2)
        theirs = times["torch's convolutions"]
        for name, time in times.items():
            row = {"what": name, "views": views, "ms": 1e3 * time["median"] / CONFIG["steps"]}
            rows.append({**row, "of_torch": ratio(time, theirs)})
            print(f"{views} views, {name}: {row['ms']:.3f} ms, {rows[-1]['of_torch']['median']:.2f} of torch's")
    save("lenet_cuda", rows, CONFIG, device="cuda")


if __name__ == "__main__":
    main()
