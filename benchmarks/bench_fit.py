"""A step and a prediction of the models of ``erlangen fit``.

With convolutions laid out with channels last, as the command builds them, and first: ``of_first`` is the ratio to the
other layout, of the same weights and images, for the default flow. And a step of each method that learns: ``of_none``
is the ratio to the classifier alone. One thread, 128 images with 4 views each in a step, and 20 in a prediction.
"""

from collections.abc import Callable
from typing import Any

import torch

from common import interleaved, ratio, save
from erlangen.data import DataSet
from erlangen.estimators import RunConfig, prepare
from erlangen.estimators.setting import build_model
from erlangen.objectives import METHODS, Terms

COMPARED = ["none", "augerino", "lila", "instaaug", "pstn", "flow"]
CONFIG = {"images": 128, "shapes": [[1, 28, 28], [3, 32, 32], [3, 64, 64]], "repeats": 9, "methods": COMPARED}
LAYOUTS = {"last": torch.channels_last, "first": torch.contiguous_format}


def passes(data: DataSet, layout: Any = torch.channels_last, method: str = "flow") -> dict[str, Callable[[], None]]:
    """A step without its optimisers, and a prediction."""
    setting = prepare(RunConfig(method=method, validation=0.0), data)
    model: Any = build_model(setting.config, setting.about)
    terms = Terms(setting.config.alpha, size=len(data))
    objective = METHODS[method].objective(model.to(memory_format=layout), terms)

    def step() -> None:
        objective.train()((data.x, data.y))["loss"].backward()
        objective.zero_grad()

    @torch.no_grad()
    def predict() -> None:
        model.eval()(data.x)

    return {"step": step, "prediction": predict}


def main() -> None:
    """Measures both layouts, and the methods, interleaved."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for shape in CONFIG["shapes"]:
        x = torch.randint(256, (CONFIG["images"], *shape), dtype=torch.uint8)
        data = DataSet(x, torch.arange(len(x)) % 10, tuple("0123456789"), "noise")
        both = {name: passes(data, layout) for name, layout in LAYOUTS.items()}
        for part in ("step", "prediction"):
            times = interleaved({name: each[part] for name, each in both.items()}, CONFIG["repeats"], warmup=2)
            for name, time in times.items():
                row = {"part": part, "shape": "×".join(map(str, shape)), "channels": name, "seconds": time}
                rows.append({**row, "of_first": ratio(time, times["first"])})
            print(f"{row['shape']}, {part}: {rows[-2]['of_first']['median']:.2f} of the time with channels first")
    x = torch.randint(256, (CONFIG["images"], *CONFIG["shapes"][0]), dtype=torch.uint8)
    data = DataSet(x, torch.arange(len(x)) % 10, tuple("0123456789"), "noise")
    steps = {method: passes(data, method=method)["step"] for method in CONFIG["methods"]}
    times = interleaved(steps, CONFIG["repeats"], warmup=2)
    for method, time in times.items():
        row = {"part": "step", "shape": "×".join(map(str, CONFIG["shapes"][0])), "method": method, "seconds": time}
        rows.append({**row, "of_none": ratio(time, times["none"])})
        print(f"{row['shape']}, {method}: {rows[-1]['of_none']['median']:.1f} times the step of the classifier alone")
    save("fit", rows, CONFIG)


if __name__ == "__main__":
    main()
