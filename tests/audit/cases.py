"""Small models and images of which it is known what an audit has to find."""

import torch
from torch import nn


class Halves(nn.Module):
    """Says where the light is: above (0), below (1) or in neither half more than in the other (2)."""

    def __init__(self, scale=20.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, x):
        rows = x.mean((1, 3))
        half = rows.shape[1] // 2
        above, below = rows[:, :half].mean(1), rows[:, half:].mean(1)
        return self.scale * torch.stack((above - below, below - above, torch.full_like(above, 0.1)), 1)


def halves(n=24, channels=1, size=12):
    """Bright above (0), below (1) or everywhere (2), with a little noise; in [0, 1]."""
    y = torch.arange(n) % 3
    x = torch.zeros(n, channels, size, size)
    x[y == 0, :, : size // 2] = 0.8
    x[y == 1, :, size // 2 :] = 0.8
    x[y == 2] = 0.8
    return (x + 0.2 * torch.rand(x.shape)).clamp(0, 1), y


class Blob(nn.Module):
    """Sees only the mean of an image."""

    def forward(self, x):
        mean = x.mean((1, 2, 3))
        return torch.stack((mean, -mean, 0.5 - mean), 1)
