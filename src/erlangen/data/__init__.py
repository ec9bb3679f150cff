"""Data sets: named ones, those drawn in code and those of the user; a picture and a series."""

from .bumps import warped_bumps
from .cifar import cifar10
from .derived import coloured, long_tail, long_tail_counts, rotated
from .digits import digits
from .files import DataUnavailableError, cache_folder
from .folder import FolderSet, Unreadable, UnreadableImagesError, image_folder, loose_images
from .folds import Fold, folds
from .glyphs import figures, glyphs
from .gtsrb import gtsrb10
from .load import load, named_sets, rotmnist_lt
from .mnist import fashion_mnist, mnist
from .npz import npz
from .pictures import LABELS, landmarks, picture, picture_mask, series
from .placed import placed, scenes
from .sequences import stack_series
from .sets import BoxedSet, DataSet, FactoredSet, PosedSet
from .sprites import read_sprites, sprites
from .tables import read_series
from .tiny_imagenet import tiny_imagenet, tiny_imagenet50
from .ucr import ucr

__all__ = [
    "LABELS",
    "BoxedSet",
    "DataSet",
    "DataUnavailableError",
    "FactoredSet",
    "Fold",
    "FolderSet",
    "PosedSet",
    "Unreadable",
    "UnreadableImagesError",
    "cache_folder",
    "cifar10",
    "coloured",
    "digits",
    "fashion_mnist",
    "figures",
    "folds",
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
    "placed",
    "read_series",
    "read_sprites",
    "rotated",
    "rotmnist_lt",
    "scenes",
    "series",
    "sprites",
    "stack_series",
    "tiny_imagenet",
    "tiny_imagenet50",
    "ucr",
    "warped_bumps",
]
