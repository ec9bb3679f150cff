r"""Lower bounds of log-likelihoods by importance weighting."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..utils.shapes import check_count, check_tensor

__all__ = ["iwlb"]


@torch.no_grad()
def iwlb(
    log_weights: Callable[[Tensor, int], Tensor],
    x: Tensor,
    samples: int = 300,
    *,
    chunk: int = 20,
    batch_size: int = 100,
) -> Tensor:
    r"""The importance-weighted lower bound, $\log \frac1K \sum_k \frac{p(x, z_k)}{q(z_k \mid x)} \leq \log p(x)$.

    The bound holds on average, and rises with K. Samples are drawn in parts, and of each part only the sum is kept, so
    that any number of them takes the memory of `chunk * batch_size`.

    Args:
        log_weights: gives $\log p(x, z_k) - \log q(z_k \mid x)$ for inputs and a number of samples, `(n, B)`, such as
            `VAE.log_weights` or `InvVAE.pixel_log_weights`.
        x: inputs.
        samples: K.
        chunk: samples at a time.
        batch_size: inputs at a time.

    Shape:
        x: `(N, ...)`; result: `(N,)`, in nats.

    References:
        | Y. Burda, R. Grosse, R. Salakhutdinov. Importance weighted autoencoders (2016).
    """
    if hasattr(log_weights, "log_weights") or not callable(log_weights):
        accepted = "a function of inputs and a number of samples, such as its method log_weights"
        raise ValueError(f"log_weights: received {type(log_weights).__name__}; accepted is {accepted}")
    sizes = [check_count(name, n) for name, n in {"chunk": chunk, "samples": samples, "batch_size": batch_size}.items()]
    chunk, samples, batch_size = sizes
    check_tensor("x", x, "inputs (N, ...), at least one", isinstance(x, Tensor) and x.ndim > 0 and len(x) > 0)
    found = []
    for part in x.split(batch_size):
        total = torch.full((len(part),), -math.inf, device=part.device)
        for start in range(0, samples, chunk):
            n = min(chunk, samples - start)
            some = log_weights(part, n)
            ok = isinstance(some, Tensor) and some.shape == (n, len(part))
            check_tensor("log_weights", some, f"a function to ({n}, {len(part)})", ok)
            total = torch.logaddexp(total.to(some.dtype), some.logsumexp(0))
        found.append(total - math.log(samples))
    return torch.cat(found)
