"""A pose that is known exactly: the centre of mass, which bilinear resampling keeps while nothing leaves the frame."""

import torch

from erlangen.distributions import Conditional, SplineFlow
from erlangen.distributions.gaussian import GaussianDensity
from erlangen.models import SymmetryModel
from erlangen.transforms import Affine

SIZE = 16


class Centre(Conditional):
    """A narrow normal around the centre of mass (plus an offset that grows with `wrong` times the squared place)."""

    def __init__(self, scale=1e-9, offset=(0.0, 0.0), wrong=0.0):
        super().__init__(2, 1, bounds=None)
        self.scale = torch.nn.Parameter(torch.full((2,), scale))
        self.offset = torch.nn.Parameter(torch.tensor(offset))
        self.wrong = wrong

    def encode(self, x):
        place = (torch.arange(x.shape[-1]) - (x.shape[-1] - 1) / 2) * (2 / x.shape[-1])
        mass = x.sum((1, 2, 3))
        return torch.stack(((x * place).sum((1, 2, 3)) / mass, (x * place[:, None]).sum((1, 2, 3)) / mass), -1)

    def density(self, h):
        return GaussianDensity(h + self.offset + self.wrong * h.square(), self.scale)


class Blind(torch.nn.Module):
    """Features that say nothing of an image."""

    def forward(self, x):
        return x.new_ones(len(x), 1)


def blobs(n=3):
    """Images of a few random pixels near the middle, so that shifts within ±0.25 lose nothing."""
    x = torch.zeros(n, 1, SIZE, SIZE)
    x[:, :, 6:10, 6:10] = torch.rand(n, 1, 4, 4)
    return x


def centred(**kwargs):
    shift = Affine("tx", "ty", bounds={"tx": 2.0, "ty": 2.0})
    read = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SIZE * SIZE, 8))
    return SymmetryModel(shift, Centre(**kwargs), SplineFlow.over(shift, 8, encoder=read, layers=2, width=8))


def trembling(model):
    """Fills parameters that start at zero, so that nothing is hidden by them."""
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, 0, 0.2)
    return model
