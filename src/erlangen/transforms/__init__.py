"""What can be done to a signal: transformations of images and series, as groups where they are groups."""

from .affine import Affine, AffineMatrix, Similarity, TimeAffine
from .base import FiniteGroup, Group, Transform
from .colour import HSV
from .cpab import CPAB
from .crop import Crop
from .discrete import Dihedral, Flips, Rotations, Shifts
from .matrix import affine_exp, affine_log
from .product import Product
from .spatial import Spatial
from .warp import as_signal, from_pixels, to_pixels, warp

__all__ = [
    "CPAB",
    "HSV",
    "Affine",
    "AffineMatrix",
    "Crop",
    "Dihedral",
    "FiniteGroup",
    "Flips",
    "Group",
    "Product",
    "Rotations",
    "Shifts",
    "Similarity",
    "Spatial",
    "TimeAffine",
    "Transform",
    "affine_exp",
    "affine_log",
    "as_signal",
    "from_pixels",
    "to_pixels",
    "warp",
]
