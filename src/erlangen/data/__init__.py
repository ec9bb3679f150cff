"""Data sets: named ones, those drawn in code and those of the user; batches; a picture and a series."""

from .batches import batches
from .cifar import cifar10
from .derived import coloured, long_tail, long_tail_counts, rotated
from .files import DataUnavailableError, cache_folder
from .folder import FolderSet, Unreadable, UnreadableImagesError, image_folder, loose_images
from .glyphs import figures, glyphs
from .gtsrb import gtsrb10
from .load import load, named_sets, rotmnist_lt
from .mnist import fashion_mnist, mnist
from .npz import npz
from .pictures import LABELS, landmarks, picture, picture_mask, series
from .sets import DataSet, FactoredSet, PosedSet
from .sprites import read_sprites, sprites
from .tiny_imagenet import tiny_imagenet, tiny_imagenet50

__all__ = [
    "LABELS",
    "DataSet",
    "DataUnavailableError",
    "FactoredSet",
    "FolderSet",
    "PosedSet",
    "Unreadable",
    "UnreadableImagesError",
    "batches",
    "cache_folder",
    "cifar10",
    "coloured",
    "fashion_mnist",
    "figures",
    "glyphs",
    "gtsrb10",
    "image_folder",
    "landmarks",
    "load",
    "long_tail",
    "long_tail_counts",
    "loose_images",
    "mnist",
    "named_sets",
    "npz",
    "picture",
    "picture_mask",
    "read_sprites",
    "rotated",
    "rotmnist_lt",
    "series",
    "sprites",
    "tiny_imagenet",
    "tiny_imagenet50",
]
