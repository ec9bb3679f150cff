r"""Variational autoencoders, and what knowing the symmetries of their data brings them: compositions, not copies."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from ..distributions.heads import at_least
from ..nets import PixelDecoder, PixelEncoder
from ..transforms.warp import signal_like
from ..utils.shapes import check_count, check_finite, check_tensor, check_unit, describe, eager_on_cpu
from .symmetry import SymmetryModel

__all__ = ["VAE", "AugVAE", "InvVAE"]

LEAST = 1e-2  # the least scale, as in the published code: that of a pixel which is always black would fall to 0


def _normal(mean: Tensor, raw: Tensor, dims: int) -> Independent:
    """A normal distribution over the last dimensions, from its mean and scales before they are made positive."""
    scale = F.softplus(raw)
    scale = at_least(scale, torch.full_like(scale, LEAST))
    # Validating arguments would wait for the device at every step.
    return Independent(Normal(mean, scale, validate_args=False), dims, validate_args=False)


def _check_shape(shape: Any, halved: bool) -> tuple[int, int, int]:
    """The shape of an image; a `ValueError` for one that is none, or that the convolutions cannot halve twice."""
    ok = isinstance(shape, Sequence) and len(shape) == 3
    ok = ok and all(isinstance(n, Integral) and not isinstance(n, bool) and int(n) > 0 for n in shape)
    if not ok or (halved and (shape[1] != shape[2] or shape[1] % 4)):
        form = "that of square images, (C, H, H) with H a multiple of 4" if halved else "that of an image, (C, H, W)"
        accepted = f"{form}{'; any form with an encoder and a decoder' if halved else ''}"
        raise ValueError(f"shape: received {shape!r}; accepted is {accepted}")
    return int(shape[0]), int(shape[1]), int(shape[2])


class VAE(nn.Module):
    r"""A variational autoencoder of images (SGM appendix C.4).

    $z \sim \mathcal{N}(m, s^2)$ with learned m and s; $x \mid z \sim \mathcal{N}(\mu(z), \sigma^2)$ with one learned
    $\sigma$ for each pixel; $q(z \mid x) = \mathcal{N}(\mu(x), \sigma(x)^2)$. All scales start at 1, means of
    z at 0.

    Args:
        shape: of an image, `(C, H, H)` with H a multiple of 4; any `(C, H, W)` with an encoder and a decoder.
        latent: the size of z.
        filters: of the convolutions; the paper tries (64, 128) and (64, 128, 256).
        hidden: the width of the hidden layers, and how many features an encoder has.
        encoder: any module from images to features `(B, hidden)`; the paper's convolutions if None.
        decoder: any module from z `(B, latent)` to images `(B, C, H, W)`; the encoder of the paper inverted if None.
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        latent: int = 20,
        filters: Sequence[int] = (64, 128),
        hidden: int = 256,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        for name, part in (("encoder", encoder), ("decoder", decoder)):
            if not (part is None or isinstance(part, nn.Module)):
                raise ValueError(f"{name}: received {describe(part)}; accepted is a module, or None")
        channels, height, width = _check_shape(shape, encoder is None or decoder is None)
        one = torch.ones(()).expm1().log()  # softplus of it is 1
        self.latent, self.hidden = check_count("latent", latent), check_count("hidden", hidden)
        widths: Any = {"filters": filters, "hidden": hidden}
        self.encoder = PixelEncoder(channels, height, **widths) if encoder is None else encoder
        self.heads = nn.Linear(hidden, 2 * latent)
        self.decoder = PixelDecoder(latent, channels, height, **widths) if decoder is None else decoder
        self.prior_mean, self.prior_scale = nn.Parameter(torch.zeros(latent)), nn.Parameter(one.repeat(latent))
        self.pixel_scale = nn.Parameter(one.repeat(channels, height, width))
        with torch.no_grad():
            self.heads.weight.zero_()
            self.heads.bias.copy_(torch.cat((torch.zeros(latent), one.repeat(latent))))

    def signal(self, x: Tensor) -> Tensor:
        """Images in floating point; uint8 becomes [0, 1]."""
        x = signal_like(x, self.prior_mean)
        shape = self.pixel_scale.shape
        check_tensor("x", x, f"images {('B', *shape)}, at least one", x.shape[1:] == shape and len(x) > 0)
        check_finite("x", x)
        return x

    @property
    def prior(self) -> Independent:
        """$p(z)$."""
        return _normal(self.prior_mean, self.prior_scale, 1)

    def posterior(self, x: Tensor) -> Independent:
        r"""$q(z \mid x)$, batch_shape `(B,)`."""
        h = self.encoder(x)
        ok = isinstance(h, Tensor) and h.shape == (len(x), self.hidden)
        mean, raw = self.heads(check_tensor("encoder(x)", h, f"features (B, {self.hidden})", ok)).chunk(2, -1)
        return _normal(mean, raw, 1)

    def mean(self, z: Tensor) -> Tensor:
        r"""$\mu(z)$, `(*S, B, C, H, W)` for z `(*S, B, latent)`."""
        z, sizes, shape = z.flatten(0, -2), z.shape[:-1], self.pixel_scale.shape
        x = self.decoder(z)
        ok = isinstance(x, Tensor) and x.shape == (len(z), *shape)
        return check_tensor("decoder(z)", x, f"images {('B', *shape)}", ok).unflatten(0, sizes)

    def likelihood(self, z: Tensor) -> Independent:
        r"""$p(x \mid z)$."""
        return _normal(self.mean(z), self.pixel_scale, 3)

    def elbo(self, x: Tensor) -> Tensor:
        r"""$\log p(x \mid z) - \mathrm{KL}[q(z \mid x) \,\|\, p(z)]$ with one sample of z, `(B,)`."""
        x = self.signal(x)
        q = self.posterior(x)
        z = q.rsample()
        return self.likelihood(z).log_prob(x) - torch.distributions.kl_divergence(q, self.prior)

    def log_weights(self, x: Tensor, n: int) -> Tensor:
        r"""$\log p(x \mid z) + \log p(z) - \log q(z \mid x)$ for n samples of z, `(n, B)`."""
        x = self.signal(x)
        q = self.posterior(x)
        z = q.sample((check_count("n", n),))
        return self.likelihood(z).log_prob(x) + self.prior.log_prob(z) - q.log_prob(z)

    def reconstruct(self, x: Tensor) -> Tensor:
        r"""$\mu(z)$ at the mean of $q(z \mid x)$."""
        return self.mean(self.posterior(self.signal(x)).mean)


class _WithSymmetry(nn.Module):
    """A VAE beside a trained model of symmetries, which is not trained further."""

    def __init__(self, vae: VAE, symmetry: SymmetryModel) -> None:
        super().__init__()
        for name, part, kind in (("vae", vae, VAE), ("symmetry", symmetry, SymmetryModel)):
            if not isinstance(part, kind):
                raise ValueError(f"{name}: received {type(part).__name__}; accepted is a {kind.__name__}")
        shape = vae.pixel_scale.shape
        if symmetry.shape not in (None, shape):
            got, accepted = f"a model for {tuple(symmetry.shape)}", f"one for what the VAE is for, {tuple(shape)}"
            raise ValueError(f"symmetry: received {got}; accepted is {accepted}")
        self.vae, self.symmetry = vae, symmetry.requires_grad_(False)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Switches to training mode, but for the model of symmetries."""
        super().train(mode)
        self.symmetry.eval()
        return self


class AugVAE(_WithSymmetry):
    """A VAE that is trained on natural variations of its images (SGM section 4.2); evaluated, it is that VAE.

    Args:
        vae: the VAE.
        symmetry: a trained model of symmetries; it is not trained further.
    """

    def elbo(self, x: Tensor) -> Tensor:
        """The bound of the VAE, `(B,)`; in training, that of a natural variation of each image."""
        if self.training:
            with torch.no_grad():
                x = self.symmetry.resample(x)[0]
        return self.vae.elbo(x)

    def log_weights(self, x: Tensor, n: int) -> Tensor:
        """The log-weights of the VAE, `(n, B)`."""
        return self.vae.log_weights(x, n)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The reconstruction by the VAE."""
        return self.vae.reconstruct(x)


class InvVAE(_WithSymmetry):
    r"""A VAE of prototypes (SGM section 4.2): it sees each image without its transformation, always.

    With a model of symmetries it is a model of images in two ways.

    * `log_weights`, as the paper reports it: $\log p(\hat x \mid z) + \log p(z) - \log q(z \mid \hat x) + \log
      p_\psi(\eta \mid \hat x) - \log q_\omega(\eta \mid x)$ with $\hat x = \mathcal{T}_\eta^{-1}(x)$. It is no bound on
      the density of x: $\hat x$ is resampled, so smoother than x, and what that does to volumes is not counted.
    * `pixel_log_weights`, of a model of pixels: $z \sim p(z)$, $\eta \sim p_\psi(\eta \mid \mu(z))$, $x \sim
      \mathcal{N}(\mathcal{T}_\eta(\mu(z)), \sigma_x^2)$ with a learned $\sigma_x$ for each pixel. Their mean is a bound
      on $\log p(x)$, and can be compared with that of a VAE.

    Levels of images lie within [0, 1], to which $\mu(z)$ is clipped before it is transformed.

    Args:
        vae: the VAE.
        symmetry: a trained model of symmetries; it is not trained further.
    """

    def __init__(self, vae: VAE, symmetry: SymmetryModel) -> None:
        super().__init__(vae, symmetry)
        self.noise = nn.Parameter(vae.pixel_scale.detach().clone())

    def elbo(self, x: Tensor) -> Tensor:
        """The bound of the VAE for the prototypes, `(B,)`."""
        return self.bounds(x)[0]

    def reconstruct(self, x: Tensor) -> Tensor:
        """The prototype as the VAE reconstructs it, in the pose of the image."""
        x = self._levels(x)
        g = self.symmetry.element(x)
        return self._placed(self.vae.reconstruct(self.symmetry.group.act(self.symmetry.group.inverse(g), x)), g)

    def bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""What is maximised, `(B,)` each: the `elbo`, and the density of the image around its reconstruction.

        The second, $\log \mathcal{N}(x \mid \mathcal{T}_\eta(\mu(z)), \sigma_x^2)$, trains $\sigma_x$ and nothing else.
        """
        x = self._levels(x)
        with torch.no_grad():
            g = self.symmetry.element(x)
            prototype = self.symmetry.group.act(self.symmetry.group.inverse(g), x)
        elbo = self.vae.elbo(prototype)
        with torch.no_grad():
            mean = self._placed(self.vae.reconstruct(prototype), g)
        return elbo, self._seen(mean).log_prob(x)

    def log_weights(self, x: Tensor, n: int) -> Tensor:
        """The log-weights as the paper reports them, for n samples of z and of η, `(n, B)`."""
        v, _, prototype, z, ratio = self._drawn(self._levels(x), n)
        natural = self.symmetry.conditional(prototype).log_prob(v.flatten(0, 1))
        return (self.vae.likelihood(z).log_prob(prototype) + natural).unflatten(0, v.shape[:2]) + ratio

    def pixel_log_weights(self, x: Tensor, n: int) -> Tensor:
        """The log-weights of the model of pixels, for n samples of z and of η, `(n, B)`."""
        x = self._levels(x)
        v, g, _, z, ratio = self._drawn(x, n)
        mean = self.vae.mean(z)
        placed = self._placed(mean, g.flatten(0, 1)).unflatten(0, v.shape[:2])
        natural = self.symmetry.conditional(mean.clamp(0, 1)).log_prob(v.flatten(0, 1)).unflatten(0, v.shape[:2])
        return self._seen(placed).log_prob(x) + natural + ratio

    def _drawn(self, x: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        r"""Coordinates and elements `(n, B, ...)`, prototypes and z `(n B, ...)`, and $\log p(z) / q(z, \eta)$."""
        symmetry, vae = self.symmetry, self.vae
        v, log_q = symmetry.pose(x).rsample_and_log_prob((check_count("n", n),))
        g = symmetry.group.element(v)
        prototype = symmetry.group.act(symmetry.group.inverse(g), x).flatten(0, 1)
        q = vae.posterior(prototype)
        z = q.sample()
        ratio = (vae.prior.log_prob(z) - q.log_prob(z)).unflatten(0, v.shape[:2]) - log_q
        return v, g, prototype, z, ratio

    def _levels(self, x: Tensor) -> Tensor:
        """Images with levels within [0, 1]: of others, clipping prototypes might cut off the subject itself."""
        x = self.vae.signal(x)
        if eager_on_cpu(x):
            check_unit("x", x)
        return x

    def _placed(self, prototype: Tensor, g: Tensor) -> Tensor:
        return self.symmetry.group.act(g, prototype.clamp(0, 1))

    def _seen(self, mean: Tensor) -> Independent:
        return _normal(mean, self.noise, 3)
