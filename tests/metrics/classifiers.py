"""Models for which metrics are known."""

from torch import nn


class Symmetric(nn.Module):
    """A network averaged over a finite group: exactly invariant, to rounding."""

    def __init__(self, group, size=36, classes=4):
        super().__init__()
        self.group = group
        self.net = network(size, classes)

    def forward(self, x):
        moved = self.group.act(self.group.elements()[:, None], x)
        return self.net(moved.flatten(0, 1)).unflatten(0, moved.shape[:2]).mean(0)


def network(size=36, classes=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(size, 16), nn.GELU(), nn.Linear(16, classes))


def linear(size=36, classes=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(size, classes))
