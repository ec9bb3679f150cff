"""Twenty steps on the CPU, with as many processes as asked for; each writes its weights and its losses.

A script: Fabric starts it again for every process but the first.
"""

import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tests.train.tiny import data, tiny

from erlangen.distributions import GlobalUniform, preset
from erlangen.models import Averaged
from erlangen.objectives import LearningToTransform, MarginalLikelihood
from erlangen.train import Config, Optimiser, TensorLoader, fit
from erlangen.transforms import Affine


def learned() -> LearningToTransform:
    """The paper's objective on a small scale."""
    torch.manual_seed(3)
    transform = Affine("angle", "tx")
    classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 6))
    conditional = preset("ltt-paper", transform, 6, encoder=encoder, layers=2, width=8, dropout=0.2)
    return LearningToTransform(Averaged(classifier, transform, conditional, samples=3), burn_in=4)


def likely() -> MarginalLikelihood:
    """LILA's, with all inputs and outputs of a batch."""
    torch.manual_seed(5)
    transform = Affine("angle", "tx")
    classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    model = Averaged(classifier, transform, GlobalUniform.over(transform, 1), samples=3, space="logit")
    return MarginalLikelihood(model, 22, burn_in=2, outputs=2, views=3)


def images(rows: int = 24) -> TensorLoader:
    x = torch.rand(rows, 1, 8, 8, generator=torch.Generator().manual_seed(4))
    return TensorLoader(x, torch.arange(rows) % 2, batch_size=8)


def main(out: Path, devices: int) -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    optimiser = Optimiser("adamw", 0.01, weight_decay=0.1, clip=1.0)
    kept = {}
    # 22 rows in batches of 8: the last has 6, so the shares are of 4 and of 3.
    runs = (("tiny", tiny(burn_in=5), data()), ("learned", learned(), images()), ("likely", likely(), images(22)))
    for name, objective, loader in runs:
        config = Config(
            steps=20,
            optimiser=optimiser,
            devices=devices,
            accelerator="cpu",
            log_every=7,
            folder=out / name,
            validate_every=10,
        )
        history = fit(objective, loader, config, validation=data(rows=5, batch_size=5) if name == "tiny" else None)
        kept |= {f"{name}.{key}": value for key, value in objective.state_dict().items()}
        kept[f"{name}.losses"] = torch.tensor([row["loss"] for row in history.rows])
    save_file(kept, out / f"{os.environ.get('LOCAL_RANK', 0)}.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
