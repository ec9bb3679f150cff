"""A small objective with noise, a burn-in, a counter in a buffer, and two groups of parameters."""

import torch
from torch import nn

from erlangen.objectives import Objective
from erlangen.train import TensorLoader


class Tiny(Objective):
    """Regression through noisy inputs: samples `(S, B, d)` and dropout on `S * B` rows."""

    def __init__(self, burn_in: int = 0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
        self.scale = nn.Parameter(torch.full((3,), 0.5))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.burn_in, self.count = burn_in, 0

    def parameter_groups(self):
        return {"net": list(self.net.parameters()), "scale": [self.scale]}

    def forward(self, batch):
        x, y = batch
        if self.training:
            self.steps += 1
            self.count += 1
        scale = self.scale.detach() * 0 if self.training and self.count <= self.burn_in else self.scale
        moved = x + scale * torch.randn(2, *x.shape, dtype=x.dtype)
        error = (self.net(moved.flatten(0, 1)).view(2, -1) - y).square().mean()
        return {"loss": error - 0.1 * scale.abs().sum(), "error": error}


def tiny(burn_in: int = 0) -> Tiny:
    torch.manual_seed(1)
    return Tiny(burn_in).double()


def data(rows: int = 22, batch_size: int = 8, **kwargs) -> TensorLoader:
    x = torch.randn(rows, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return TensorLoader(x, x.sin().sum(-1), batch_size=batch_size, **kwargs)
