"""What the gallery shows: every transform acting on the bundled picture or series, with the code that does it.

Each exhibit's `code` is a whole program, given `torch` and the signal `x` (a batch of one), whose result `y` is shown
among its panels; a test runs them all.
"""

from collections.abc import Callable

from . import affine, finite, image, series
from .base import Exhibit, coordinates

__all__ = ["PICTURES", "SERIES", "Exhibit", "coordinates"]

# Each builder takes the side of the square picture, in pixels (a multiple of 4), or the length of the series.
PICTURES: dict[str, Callable[[int], Exhibit]] = {
    builder.__name__: builder
    for builder in (
        affine.affine,
        affine.log_scales,
        affine.factored,
        affine.similarity,
        affine.affine_matrix,
        image.crop,
        image.square_crop,
        image.hsv,
        image.cpab,
        image.cpab_volume,
        finite.rotations4,
        finite.rotations6,
        finite.dihedral,
        finite.flips,
        finite.shifts,
        image.product,
        affine.labels,
        image.interpolation,
        affine.padding,
    )
}
SERIES: dict[str, Callable[[int], Exhibit]] = {
    builder.__name__: builder for builder in (series.time_affine, series.time_cpab, series.shifts, series.flips)
}
