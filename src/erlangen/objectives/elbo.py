r"""What trains a variational autoencoder."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ..models import VAE, AugVAE, InvVAE
from ..utils.shapes import describe
from .base import Objective, trainable

__all__ = ["Elbo"]


class Elbo(Objective):
    """Minus the evidence lower bound of a VAE or one of its hybrids, per image (SGM section 4.2).

    For an `InvVAE` the noise of its model of pixels is learned as well, without a gradient to the reconstructions.

    Args:
        model: a `VAE`, `AugVAE` or `InvVAE`.
    """

    def __init__(self, model: VAE | AugVAE | InvVAE) -> None:
        super().__init__()
        if not isinstance(model, VAE | AugVAE | InvVAE):
            raise ValueError(f"model: received {describe(model)}; accepted is a VAE, AugVAE or InvVAE")
        self.model = model

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """All that is trained."""
        return {"vae": trainable(self.model.parameters())}

    def forward(self, batch: Sequence[Tensor]) -> dict[str, Tensor]:
        """The loss; labels are not looked at."""
        x, model = batch[0], self.model
        if not isinstance(model, InvVAE):
            elbo = model.elbo(x).mean()
            return {"loss": -elbo, "elbo": elbo}
        elbo, pixels = (part.mean() for part in model.bounds(x))
        return {"loss": -elbo - pixels, "elbo": elbo, "pixels": pixels}
