r"""How much entropy is worth: a fixed weight, or a controller that holds the entropy at a target.

LTT's objective (equation 17) subtracts $\alpha H(q)$ from the loss of the classifier. Both objects here are called
with the entropy of a batch and return $\alpha$.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..utils.shapes import check_positive, check_tensor, check_weight

__all__ = ["EntropyController", "FixedEntropyWeight"]


class FixedEntropyWeight(nn.Module):
    """The same weight always.

    Args:
        alpha: the weight, at least 0.
    """

    alpha: Tensor

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.register_buffer("alpha", torch.tensor(check_weight("alpha", alpha)))

    def forward(self, entropy: Tensor) -> Tensor:
        """The weight."""
        return self.alpha


class EntropyController(nn.Module):
    r"""A weight that holds the entropy at a target: a PI controller of $\log \alpha$.

    With the error $e_t = H^* - \bar H_t$, where $\bar H$ is a moving average of the entropy,

    $$u_t = \mathrm{clip}\bigl(u_{t-1} + k_p (e_t - e_{t-1}) + k_i e_t,\; \log \alpha_{\min}, \log \alpha_{\max}\bigr),
      \qquad \alpha_t = e^{u_t}.$$

    This, the velocity form, has no integral that could wind up: what is clipped is forgotten, and the weight leaves a
    bound as soon as the error changes its sign. The state lies in buffers, so a checkpoint has it, and nothing is
    synchronised with the host. An entropy that is not finite changes nothing.

    The weight is never negative: a target below the entropy that the rest of the loss asks for is not reached, and the
    weight stays at its least.

    Differs from the published code: a PID controller of $\alpha$ itself, whose integral starts at 10 and winds up.

    Args:
        target: the entropy to hold, in nats.
        alpha: the weight at the start.
        low: the least weight.
        high: the greatest.
        proportional: $k_p$, per nat.
        integral: $k_i$, per nat and step.
        smoothing: the share of the moving average that a step keeps.
    """

    log_alpha: Tensor
    average: Tensor
    error: Tensor
    steps: Tensor

    def __init__(
        self,
        target: float,
        *,
        alpha: float = 0.1,
        low: float = 1e-4,
        high: float = 1.0,
        proportional: float = 0.1,
        integral: float = 0.01,
        smoothing: float = 0.9,
    ) -> None:
        super().__init__()
        numbers = (target, alpha, low, high, smoothing)
        if not all(isinstance(n, int | float) for n in numbers):
            raise ValueError(f"target, alpha, low, high, smoothing: received {numbers}; accepted are numbers")
        if not math.isfinite(target):
            raise ValueError(f"target: received {target!r}; accepted is a finite entropy in nats")
        if not 0 < low <= alpha <= high < math.inf:
            raise ValueError(
                f"alpha: received low {low}, alpha {alpha}, high {high}; accepted is 0 < low <= alpha <= high"
            )
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing: received {smoothing!r}; accepted is a share, 0 <= smoothing < 1")
        self.target, self.low, self.high = float(target), math.log(low), math.log(high)
        self.proportional = check_positive("proportional", proportional)
        self.integral = check_positive("integral", integral)
        self.smoothing = smoothing
        # Not of shape (): compiled code (torch 2.13) forgets what it writes into a float64 scalar on the CPU.
        self.register_buffer("log_alpha", torch.tensor([math.log(alpha)]))
        for name in ("average", "error", "steps"):
            self.register_buffer(name, torch.zeros(1))

    def extra_repr(self) -> str:
        """Target and limits."""
        return f"target={self.target}, low={math.exp(self.low):.3g}, high={math.exp(self.high):.3g}"

    def forward(self, entropy: Tensor) -> Tensor:
        """The weight, after a step of the controller in training mode.

        Shape:
            entropy: any, its mean counts; result: `()`, without gradient.
        """
        check_tensor("entropy", entropy, "a tensor, the entropy of each input")
        if self.training:
            with torch.no_grad():
                self._step(entropy.detach().mean().to(self.log_alpha))
        # A copy: the next step would change what autograd has saved.
        return self.log_alpha.exp().squeeze(0)

    def _step(self, entropy: Tensor) -> None:
        usable = entropy.isfinite()
        first = self.steps == 0
        kept = torch.where(first, 0.0, self.smoothing)
        average = kept * self.average + (1 - kept) * entropy
        error = self.target - average
        change = self.proportional * torch.where(first, 0.0, error - self.error) + self.integral * error
        new = (self.log_alpha + change).clamp(self.low, self.high), average, error, self.steps + 1
        for old, value in zip((self.log_alpha, self.average, self.error, self.steps), new, strict=True):
            old.copy_(torch.where(usable, value, old))
