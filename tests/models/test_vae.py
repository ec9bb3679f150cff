"""Variational autoencoders and their hybrids with a model of symmetries."""

import pytest
import torch
from torch import nn
from torch.distributions import Normal

from erlangen.metrics import iwlb
from erlangen.models import VAE, AugVAE, InvVAE, SymmetryModel
from erlangen.models.vae import _normal
from erlangen.nets import PixelDecoder, PixelEncoder
from erlangen.objectives import Elbo
from erlangen.transforms import Affine

from .poses import SIZE, blobs, centred, trembling

SMALL = {"latent": 3, "filters": (4, 6), "hidden": 8}


def small():
    return trembling(VAE((1, SIZE, SIZE), **SMALL))


def test_it_starts_as_the_appendix_says():
    vae = VAE((1, 28, 28))
    q, x = vae.posterior(torch.rand(2, 1, 28, 28)), torch.rand(2, 1, 28, 28)
    assert vae.latent == 20
    for part in (q.base_dist, vae.prior.base_dist):
        torch.testing.assert_close(part.mean, torch.zeros_like(part.mean))
        torch.testing.assert_close(part.stddev, torch.ones_like(part.stddev))
    assert vae.likelihood(q.mean).mean.shape == x.shape
    torch.testing.assert_close(vae.likelihood(q.mean).stddev, torch.ones_like(x))


@pytest.mark.parametrize("filters", [(4, 6), (4, 6, 8)])
def test_encoder_and_decoder_mirror_each_other(filters):
    x = torch.rand(2, 3, 16, 16)
    h = PixelEncoder(3, 16, filters=filters, hidden=8)(x)
    assert h.shape == (2, 8)
    assert PixelDecoder(8, 3, 16, filters=filters, hidden=8)(h).shape == x.shape
    with pytest.raises(ValueError, match="size: received 15; accepted is a multiple of 4"):
        PixelEncoder(3, 15)
    with pytest.raises(ValueError, match="filters: received"):
        PixelDecoder(8, 3, 16, filters=(4,))


def test_the_bound_by_hand():
    vae, x = small(), blobs()
    torch.manual_seed(0)
    found = vae.log_weights(x, 2)
    torch.manual_seed(0)
    q = vae.posterior(x)
    z = q.sample((2,))
    sigma = nn.functional.softplus(vae.pixel_scale)
    expected = Normal(vae.mean(z), sigma).log_prob(x).sum((2, 3, 4))
    expected += Normal(vae.prior_mean, nn.functional.softplus(vae.prior_scale)).log_prob(z).sum(-1) - q.log_prob(z)
    torch.testing.assert_close(found, expected)


def test_the_evidence_bound_is_the_mean_of_log_weights():
    vae, x = small(), blobs(1)
    many = vae.log_weights(x, 4000)
    elbo = torch.stack([vae.elbo(x) for _ in range(400)])
    error = (many.std() / 4000**0.5 + elbo.std() / 400**0.5).item()
    assert abs(many.mean().item() - elbo.mean().item()) < 6 * error


def test_an_augmented_vae_sees_variations_in_training_only():
    vae, x = small(), blobs()
    model = AugVAE(vae, trembling(centred()))
    seen = []
    vae.elbo = lambda images: seen.append(images) or torch.zeros(len(images))
    model.train().elbo(x)
    model.eval().elbo(x)
    assert not torch.equal(seen[0], x)
    assert torch.equal(seen[1], x)
    assert not any(p.requires_grad for p in model.symmetry.parameters())


@pytest.mark.parametrize("kind", [AugVAE, InvVAE])
def test_the_symmetries_are_not_in_training(kind):
    model = kind(small(), centred())
    for _ in range(2):  # as it was made, and when it is asked to train
        assert model.vae.training
        assert not model.symmetry.training
        model.train()


@pytest.mark.parametrize("kind", [AugVAE, InvVAE])
def test_hybrids_are_for_images_of_one_shape(kind):
    symmetry = SymmetryModel.over(Affine("tx", "ty"), (1, 12, 12), inference=(8,), generative=(8,))
    words = r"symmetry: received a model for \(1, 12, 12\); accepted is one for what the VAE is for, \(1, 16, 16\)"
    with pytest.raises(ValueError, match=words):
        kind(small(), symmetry)


def test_an_invariant_vae_is_invariant():
    model, x = InvVAE(small(), centred()).eval(), blobs()
    view = torch.roll(x, (2, 3), (-2, -1))
    latent = [model.vae.posterior(model.symmetry.prototype(images)).mean for images in (x, view)]
    torch.testing.assert_close(*latent)
    again, moved = model.reconstruct(view), torch.roll(model.reconstruct(x), (2, 3), (-2, -1))
    torch.testing.assert_close(again[..., 5:-5, 5:-5], moved[..., 5:-5, 5:-5])  # near the edges other pixels come in


def test_what_is_maximised_is_the_bound_of_prototypes_and_the_density_of_reconstructions():
    model, x = InvVAE(small(), trembling(centred())).eval(), blobs()
    torch.manual_seed(1)
    elbo, pixels = model.bounds(x)
    torch.manual_seed(1)
    torch.testing.assert_close(elbo, model.vae.elbo(model.symmetry.prototype(x)))
    mean, sigma = model.reconstruct(x), nn.functional.softplus(model.noise)
    torch.testing.assert_close(pixels, Normal(mean, sigma).log_prob(x).sum((1, 2, 3)))
    pixels.sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is not None] == ["noise"]


def test_weights_of_prototypes_are_those_of_the_vae_and_the_density():
    """With a pose that is certain, the paper's weights are the VAE's of the prototype plus log p(η) - log q(η)."""
    model, x = InvVAE(small(), trembling(centred(scale=1e-10))).eval(), blobs()
    prototype, pose = model.symmetry.prototype(x), model.symmetry.pose(x)
    torch.manual_seed(1)
    _, log_q = pose.rsample_and_log_prob((1,))
    vae = model.vae.log_weights(prototype, 1)
    torch.manual_seed(1)
    found = model.log_weights(x, 1)
    expected = vae + model.symmetry.log_prob(x) - log_q
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_the_bound_on_pixels_is_a_bound():
    """A mean image that never changes: x ~ N(T_η μ, σ²) with η ~ p(η | μ), whose density is found by brute force."""
    vae = small()
    with torch.no_grad():
        vae.decoder.layers[-1].weight.zero_()
    spot = torch.zeros(1, 1, SIZE, SIZE)
    spot[..., 6:10, 6:10] = 0.8
    symmetry = centred(scale=0.05)
    model = InvVAE(vae, symmetry).eval()
    model.vae.mean = lambda z: spot[0].expand(*z.shape[:-1], -1, -1, -1)
    x = symmetry.group(spot, torch.tensor([[0.07, -0.03]]))
    with torch.no_grad():
        bound = iwlb(model.pixel_log_weights, x, 2000, chunk=500)
        q = symmetry.conditional(spot)
        v = q.sample((20_000,))
        views = symmetry.group(spot, v)
        sigma = nn.functional.softplus(model.noise)
        exact = Normal(views, sigma).log_prob(x).sum((2, 3, 4)).logsumexp(0) - torch.tensor(20_000.0).log()
    assert bound.item() == pytest.approx(exact.item(), abs=0.1)


@pytest.mark.parametrize("kind", [VAE, AugVAE, InvVAE])
def test_every_parameter_that_is_trained_has_a_gradient(kind):
    vae = small()
    group = Affine("tx", "ty", "angle", factored=True)
    symmetry = SymmetryModel.over(group, (1, SIZE, SIZE), copies=4, inference=(8,), generative=(8,), layers=2, width=8)
    model = vae if kind is VAE else kind(vae, symmetry)
    objective = Elbo(model)
    losses = objective((blobs(),))
    losses["loss"].backward()
    (parameters,) = objective.parameter_groups().values()
    assert all(p.grad is not None and p.grad.any() for p in parameters)
    frozen = {id(p) for p in symmetry.parameters()}
    assert not frozen & {id(p) for p in parameters}
    assert ("pixels" in losses) == (kind is InvVAE)


def test_only_vaes_have_an_elbo():
    with pytest.raises(ValueError, match="model: received"):
        Elbo(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="shape: received"):
        VAE((1, 8, 12))


@pytest.mark.parametrize("kind", [AugVAE, InvVAE])
def test_hybrids_are_of_a_vae_and_a_model_of_symmetries(kind):
    with pytest.raises(ValueError, match="vae: received SymmetryModel; accepted is a VAE"):
        kind(centred(), small())
    with pytest.raises(ValueError, match="symmetry: received VAE; accepted is a SymmetryModel"):
        kind(small(), small())


def test_images_of_other_types_and_without_values_are_refused():
    vae = VAE((1, 8, 8), latent=2, filters=(2, 2), hidden=4)
    x = torch.rand(2, 1, 8, 8)
    assert vae.elbo(x.half()).isfinite().all()
    with pytest.raises(ValueError, match=r"x: received a float32 tensor .*, but the model is torch.float64"):
        vae.elbo(x.float())
    with pytest.raises(ValueError, match=r"x: received .* with NaN or infinite values"):
        iwlb(vae.log_weights, x / 0)
    for wrong in (x[:0], x[..., :4, :4], torch.rand(2, 3, 8, 8)):
        with pytest.raises(ValueError, match=r"x: received .*; accepted is images \('B', 1, 8, 8\), at least one"):
            vae.elbo(wrong)


@pytest.mark.parametrize("ask", ["bounds", "reconstruct", "log_weights", "pixel_log_weights"])
def test_an_invariant_vae_refuses_levels_that_it_would_clip(ask):
    """Means are clipped to [0, 1]: of normalised images, or of dark ones whose ground is zero, little would be left."""
    model, x = InvVAE(small(), centred()).eval(), blobs()
    given = (1,) if "weights" in ask else ()
    getattr(model, ask)(x, *given)
    with pytest.raises(ValueError, match=r"x: received images from -1 to .*; accepted are images within \[0, 1\]"):
        getattr(model, ask)(2 * x - 1, *given)


def test_a_scale_that_fell_to_the_least_can_grow_again():
    """With a clamp it had no gradient in either direction."""
    raw = torch.tensor([-8.0], requires_grad=True)
    q = _normal(torch.zeros(1, 1), raw, 1)
    assert q.stddev.item() == pytest.approx(0.01)
    q.log_prob(torch.full((1, 1), 0.5)).neg().sum().backward()  # far away: the scale should be greater
    assert raw.grad.item() < 0
    raw.grad = None
    _normal(torch.zeros(1, 1), raw, 1).log_prob(torch.zeros(1, 1)).neg().sum().backward()  # it should be less
    assert raw.grad.item() == 0


@pytest.mark.parametrize("shape", [(1, 10, 10), (1, 8, 12), 16, "abc", (1, 0, 0), (1.0, 16.0, 16.0), (True, 8, 8)])
def test_images_are_square(shape):
    with pytest.raises(ValueError, match=r"shape: received .*; accepted is .* H a multiple of 4"):
        VAE(shape)


def test_an_encoder_and_a_decoder_of_ones_own_for_images_of_any_form():
    shape = (2, 6, 10)
    nets = {
        "encoder": nn.Sequential(nn.Flatten(), nn.Linear(120, 5), nn.Tanh()),
        "decoder": nn.Sequential(nn.Linear(3, 120), nn.Unflatten(1, shape)),
    }
    vae, x = VAE(shape, latent=3, hidden=5, **nets), torch.rand(4, *shape)
    symmetry = SymmetryModel.over(Affine("tx", "ty"), shape, inference=(8,), generative=(8,))
    for model in (vae, AugVAE(vae, symmetry), InvVAE(vae, symmetry)):
        Elbo(model)((x,))["loss"].backward()
        assert all(p.grad is not None for net in nets.values() for p in net.parameters())
        assert model.reconstruct(x).shape == x.shape
        assert iwlb(model.log_weights, x, 3).shape == (4,)
    for name, net, words in (
        ("encoder", nn.Flatten(), r"encoder\(x\): received .* \(4, 120\) .*; accepted is features \(B, 5\)"),
        (
            "decoder",
            nn.Linear(3, 120),
            r"decoder\(z\): received .* \(4, 120\) .*; accepted is images \('B', 2, 6, 10\)",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            VAE(shape, latent=3, hidden=5, **{**nets, name: net}).elbo(x)
    with pytest.raises(ValueError, match="encoder: received int 3; accepted is a module, or None"):
        VAE(shape, encoder=3)
    with pytest.raises(
        ValueError, match=r"shape: received \(2, 6, 10\); accepted is .*; any form with an encoder and a"
    ):
        VAE(shape, encoder=nets["encoder"])
    with pytest.raises(ValueError, match=r"shape: received \(6, 10\); accepted is that of an image, \(C, H, W\)"):
        VAE((6, 10), **nets)
