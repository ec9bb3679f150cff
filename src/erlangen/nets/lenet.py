"""LeNet, as LILA and Learning to Transform use it for MNIST and Fashion-MNIST."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ..utils.shapes import check_count, describe
from .convolution import Convolution
from .inputs import check_square

__all__ = ["LeNet"]

MIDDLE = {28: 3, 32: 5}  # the kernel of the second convolution that leaves 5×5 for the third


class _Covering(nn.Conv2d):
    """A convolution whose kernel covers its input: a product of matrices."""

    def forward(self, input: Tensor) -> Tensor:
        # Channels last, as a network is trained on a GPU, neither is copied.
        x, w = (a.permute(0, 2, 3, 1).flatten(1) for a in (input, self.weight))
        return F.linear(x, w, self.bias)[..., None, None]


class LeNet(nn.Module):
    """Convolutions of 6, 16 and 120 filters with maxima between them, and linear layers of 84 and `classes` outputs.

    The kernels are 5, 3, 5 at 28 pixels and 5, 5, 5 at 32, so that the last map is one pixel.

    Args:
        channels: of the images.
        classes: the number of outputs.
        size: of the images, 28 or 32.
        activation: the class of the activations; the published code has tanh at 28 pixels, ReLU at 32. Those of maps
            come after the maxima, which is the same where they rise.

    Shape:
        input: `(B, channels, size, size)`; result: logits `(B, classes)`.
    """

    def __init__(
        self, channels: int = 1, classes: int = 10, *, size: int = 28, activation: type[nn.Module] = nn.Tanh
    ) -> None:
        super().__init__()
        self.channels = check_count("channels", channels)
        check_count("classes", classes)
        if not isinstance(size, int) or size not in MIDDLE:
            raise ValueError(f"size: received {describe(size)}; accepted is 28 or 32, the sizes of LeNet's images")
        self.size = size
        # Activations after maxima have a quarter of the work: tanh on whole maps took a third of a step on CPUs.
        self.layers = nn.Sequential(
            *(Convolution(channels, 6, 5), nn.MaxPool2d(2), activation()),
            *(Convolution(6, 16, MIDDLE[size]), nn.MaxPool2d(2), activation()),
            *(_Covering(16, 120, 5), activation(), nn.Flatten()),
            *(nn.Linear(120, 84), activation(), nn.Linear(84, classes)),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        return self.layers(check_square(x, self.channels, self.size))
