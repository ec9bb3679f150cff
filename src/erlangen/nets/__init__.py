"""Plain networks: the encoders and classifiers of the papers, at their published sizes."""

from .conv13 import Conv13
from .embedding import EmbeddingCNN
from .fixup import FixupResNet
from .lenet import LeNet
from .mlp import MLP
from .pixels import PixelDecoder, PixelEncoder
from .preact import CropEncoder, PreActResNet18
from .registry import NETS, build
from .series import SeriesCNN, SeriesLocaliser
from .small import Localiser, SmallCNN

__all__ = [
    "MLP",
    "NETS",
    "Conv13",
    "CropEncoder",
    "EmbeddingCNN",
    "FixupResNet",
    "LeNet",
    "Localiser",
    "PixelDecoder",
    "PixelEncoder",
    "PreActResNet18",
    "SeriesCNN",
    "SeriesLocaliser",
    "SmallCNN",
    "build",
]
