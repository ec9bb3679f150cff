"""A training step of Table 1 on CIFAR-10, 256 images × 20 samples, against the limit: the classifier alone.

The step is the one that ``erlangen reproduce ltt/table1`` takes. The limit is the best of several ways to train the
classifier on as many images that are simply there, with torch's convolutions (``of_limit``) or with our own
kernels (``of_own_limit``). Then where the time goes: the parts, forward and backward, each compiled and captured on its
own. And evaluation, in images per second. ``python benchmarks/bench_step.py cuda``
measures on a GPU; on a CPU the sizes are small and nothing is compiled.
"""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from common import captured, interleaved, ratio, save
from erlangen.distributions import quadrature
from erlangen.nets import FixupResNet
from erlangen.nets.convolution import Convolution
from erlangen.objectives import AveragedObjective
from erlangen.papers.ltt import classify
from erlangen.papers.ltt.classify import Training
from erlangen.train import Optimiser
from erlangen.train.engine import Engine, launch

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CUDA = DEVICE == "cuda"
BATCH, SAMPLES = (256, 20) if CUDA else (16, 4)
CONFIG = {"batch": BATCH, "samples": SAMPLES, "size": [3, 32, 32], "steps": 20 if CUDA else 1, "repeats": 9}
WARM = 6  # steps before the timing, of which some record the graph


def repeated(run: Callable[[], Any]) -> Callable[[], None]:
    """Several in a row, so that the host can run ahead as it does in training."""

    def many() -> None:
        for _ in range(CONFIG["steps"]):
            run()

    return many


def best(run: Callable[[], Any]) -> Callable[[], Any]:
    """In a CUDA graph where there is one."""
    return (captured(run) if CUDA else None) or run


def mixed() -> Any:
    """The precision of training."""
    return torch.autocast(DEVICE, torch.bfloat16, enabled=CUDA)


def compiled(function: Any) -> Any:
    """Compiled on a GPU."""
    return torch.compile(function) if CUDA else function


def alone(*, compile: bool, graph: bool, channels: int = 3, fused: bool = False) -> Callable[[], Any]:
    """A step of the classifier on views that are there, on images with so many channels."""
    net = FixupResNet(channels).to(DEVICE, memory_format=torch.channels_last)
    for module in net.modules():
        if isinstance(module, Convolution):
            module.fused = fused
    x = torch.rand(BATCH * SAMPLES, channels, 32, 32, device=DEVICE).to(memory_format=torch.channels_last)
    x, y = x.to(torch.bfloat16) if CUDA else x, torch.randint(10, (len(x),), device=DEVICE)
    optimiser = Optimiser("sgd", lr=0.1, momentum=0.9).build(list(net.parameters()), torch.device(DEVICE), CUDA)
    forward = compiled(net) if compile else net

    def run() -> None:
        with mixed():
            loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return best(run) if graph else run


def whole(images: Tensor, labels: Tensor) -> tuple[Callable[[], Any], AveragedObjective]:
    """A step as the experiment takes it, and its objective."""
    # Glyphs stand in for the pictures: only their shape matters.
    training = Training("cifar10", "flow", source="glyphs", batch=BATCH, samples=SAMPLES)
    objective = classify.build(training)
    objective.burn_in = 0
    config = classify.how(objective, training, DEVICE)
    engine, steps = Engine(objective.train(), config, launch(objective, config)), itertools.count()
    factors = dict.fromkeys(engine.settings, 1.0)
    return lambda: engine.step((images, labels), next(steps), factors), objective


def parts(objective: AveragedObjective, x: Tensor, y: Tensor) -> dict[str, Callable[[], Any]]:
    """Forward and backward of each part, with inputs that are there."""
    model = objective.averaged
    transform, conditional = model.transform, model.conditional
    encoder: Any = conditional.encoder
    with torch.no_grad(), mixed():
        h = encoder(x).float()
        v = quadrature(conditional.bound(conditional.density(h)), SAMPLES).v
        g = transform.element(v)
        views = transform.act(g, x).flatten(0, 1)

    def flow(h: Tensor) -> Tensor:
        points = quadrature(conditional.bound(conditional.density(h)), SAMPLES)
        return points.v.sum() + (points.log_weights.exp() * points.log_q).sum()

    def classifier(views: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model.classify(views), y.repeat(SAMPLES))

    functions: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, bool]] = {
        "embedding": (lambda x: encoder(x).float().sum(), x, False),
        "flow": (flow, h, True),
        "exponential": (lambda v: transform.element(v).sum(), v, True),
        "warp": (lambda g: transform.act(g, x).square().sum(), g, True),
        "classifier": (classifier, views, False),
        "classifier with the gradient of views": (classifier, views, True),
    }
    return {name: best(_both(*function)) for name, function in functions.items()}


def _both(function: Callable[[Tensor], Tensor], x: Tensor, needs_grad: bool) -> Callable[[], None]:
    forward, x = compiled(function), x.clone().requires_grad_(needs_grad)

    def run() -> None:
        x.grad = None
        with mixed():
            out = forward(x)
        out.backward()

    return run


def evaluation(objective: AveragedObjective) -> float:
    """Images per second with as many samples as in training."""
    x = torch.randint(256, (10_000 if CUDA else 100, 3, 32, 32), dtype=torch.uint8)
    objective.eval()
    times = interleaved({"all": lambda: classify.predictions(objective.averaged, x, SAMPLES)}, 5, 2)
    return len(x) / times["all"]["median"]


def main() -> None:
    """Run the benchmark and write its result."""
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True  # as in a recorded step, so that the limit is the best there is
    images = torch.randint(256, (BATCH, 3, 32, 32), dtype=torch.uint8, device=DEVICE)
    labels = torch.randint(4, (BATCH,), device=DEVICE)
    before = torch.cuda.memory_allocated() if CUDA else 0
    step, objective = whole(images, labels)
    for _ in range(WARM):
        step()
    peak = torch.cuda.max_memory_allocated() - before if CUDA else 0
    limits = {
        "torch's convolutions, eager": alone(compile=False, graph=False),
        "torch's convolutions, compiled": alone(compile=True, graph=False),
        "torch's convolutions, compiled, graph": alone(compile=True, graph=True),
        "torch's convolutions, compiled, graph, 8 channels": alone(compile=True, graph=True, channels=8),
    }
    own = {"our convolutions, compiled, graph": alone(compile=True, graph=True, fused=True)}
    pieces = parts(objective, images / 255, labels)
    everything = {"step": step, **limits, **own, **pieces}
    times = interleaved({name: repeated(run) for name, run in everything.items()}, CONFIG["repeats"], 2)
    limit, best_own = (min(names, key=lambda name: times[name]["median"]) for names in (limits, own))
    rows: list[dict[str, Any]] = [
        {
            "what": name,
            "ms": 1e3 * time["median"] / CONFIG["steps"],
            "of_limit": ratio(time, times[limit]),
            "of_own_limit": ratio(time, times[best_own]),
        }
        for name, time in times.items()
    ]
    rows[0]["peak_mib"] = peak / 2**20
    rows.append({"what": "evaluation", "images_per_second": evaluation(objective)})
    save("step" if DEVICE == "cpu" else f"step_{DEVICE}", rows, CONFIG, device=DEVICE)
    for row in rows[:-1]:
        limits_of = (row["of_limit"]["median"], row["of_own_limit"]["median"])
        print(
            f"{row['what']}: {row['ms']:.2f} ms, {limits_of[0]:.2f} of the limit, {limits_of[1]:.2f} with our kernels"
        )
    print(f"peak {peak / 2**20:.0f} MiB; evaluation {rows[-1]['images_per_second']:.0f} images/s")


if __name__ == "__main__":
    main()
