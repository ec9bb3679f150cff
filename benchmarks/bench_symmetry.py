"""A step of the second stage of a symmetry model: poses that are inferred once against poses inferred in every step.

The model is that of ``erlangen symmetries --small`` on images of 32 × 32, with eight turned copies that vote. A step
without the table asks the inference network about every input and each of its transformations; ``of_inferred`` is the
ratio to it. The table is made once, before the first step; its row is for as many images as a step has.
"""

import torch

from common import interleaved, ratio, save
from erlangen.cli.symmetries import SMALL
from erlangen.models import SymmetryModel
from erlangen.objectives import KnownPoses, TransformLikelihood
from erlangen.transforms import Affine

CONFIG = {"images": 64, "size": 32, "samples": 2, "draws": 4, "repeats": 9}
RANGES = {"tx": 0.25, "ty": 0.25, "scale": 0.5}


def main() -> None:
    """Measures both, interleaved."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # as the command has it: its operations are small
    group = Affine("tx", "ty", "angle", "scale", factored=True)
    widths = {name: SMALL[name] for name in ("inference", "generative")}
    shape = (3, CONFIG["size"], CONFIG["size"])
    model = SymmetryModel.over(group, shape, copies=8, anchored=True, layers=4, width=64, bins=12, pool=2, **widths)
    how = {"ranges": RANGES, "samples": CONFIG["samples"]}
    inferred, known = TransformLikelihood(model, **how), KnownPoses(model, **how)
    x = torch.rand(CONFIG["images"], *shape)
    table = known.known(x, CONFIG["draws"])

    def step(objective: TransformLikelihood, batch: tuple[torch.Tensor, ...]) -> None:
        objective(batch)["loss"].backward()
        model.zero_grad()

    runs = {
        "inferred": lambda: step(inferred, (x,)),
        "known": lambda: step(known, table),
        "table": lambda: known.known(x, CONFIG["draws"]),
    }
    times = interleaved(runs, CONFIG["repeats"], warmup=3)
    rows = [
        {"part": name, "seconds": times[name], "of_inferred": ratio(times[name], times["inferred"])} for name in runs
    ]
    save("symmetry", rows, CONFIG)
    for row in rows:
        median = row["of_inferred"]["median"]
        print(f"{row['part']}: {1e3 * row['seconds']['median']:.1f} ms, {median:.2f} of a step that infers")


if __name__ == "__main__":
    main()
