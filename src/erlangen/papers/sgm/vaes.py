"""The autoencoders of figure 9, trained once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from torch import Tensor

from ...models import VAE, AugVAE, InvVAE
from ...objectives import Elbo
from ...train import Config, Optimiser, TensorLoader, WarmupCosine, fit
from ...utils.seeds import seeded
from ..cache import kept
from . import common
from .common import Training, data_set, fast_on, trained

__all__ = ["Method", "VaeTraining", "trained_vae"]

Method: TypeAlias = Literal["vae", "augvae", "invvae"]


@dataclass(frozen=True)
class VaeTraining:
    """All that an autoencoder depends on: its kind, the symmetry model of its data, and how it is trained."""

    method: Method = "vae"
    symmetry: Training = field(default_factory=Training)
    latent: int = 20
    filters: tuple[int, ...] = (64, 128)
    hidden: int = 256
    steps: int = 10_000
    batch: int = 512
    lr: float = 3e-3
    seed: int = 0


def build(config: VaeTraining, device: str) -> Elbo:
    """A VAE of images, of their natural variations, or of their prototypes."""
    shape = data_set(config.symmetry, "test", 1).x.shape[1:]
    with seeded(config.seed):
        vae = VAE(shape, latent=config.latent, filters=config.filters, hidden=config.hidden)
    if config.method == "vae":
        return Elbo(vae)
    symmetry, _ = trained(config.symmetry, device)
    return Elbo({"augvae": AugVAE, "invvae": InvVAE}[config.method](vae.to(device), symmetry))


def trained_vae(config: VaeTraining, device: str) -> VAE | AugVAE | InvVAE:
    """The trained autoencoder, from the cache, by the hash of its config."""
    code = (__file__, common.__file__)
    objective, _ = kept(config, device, partial(build, device=device), _train, code=code)
    return objective.model


def _train(objective: Elbo, config: VaeTraining, device: str, **going: Any) -> dict[str, Tensor]:
    schedule = WarmupCosine(max(1, config.steps * 15 // 100), 1e-4)
    optimiser = Optimiser("adamw", config.lr, weight_decay=1e-4, clip=10.0, schedule=schedule)
    places: Any = {"seed": config.seed, "log_every": 200, **fast_on(device, [config.steps]), **going}
    places["channels_last"] = True  # as their layer normalisation has it
    data = data_set(config.symmetry, "train")
    loader = TensorLoader(data.x, batch_size=min(config.batch, len(data)), seed=config.seed, drop_last=True)
    fit(objective, loader, Config(steps=config.steps, optimiser=optimiser, **places))
    return {}
