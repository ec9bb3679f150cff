"""Every transform keeps the contract: the checks that ship with the package, on coordinates of a few seeds."""

import copy

import pytest
import torch

from erlangen.testing import check_finite_group, check_group, check_transform
from erlangen.testing.transforms import draw
from erlangen.transforms import (
    CPAB,
    HSV,
    Affine,
    AffineMatrix,
    Crop,
    Dihedral,
    FiniteGroup,
    Flips,
    Group,
    Product,
    Rotations,
    Shifts,
    Similarity,
    TimeAffine,
)
from erlangen.utils import seeds

IMAGES = {
    "affine": Affine(),
    "angle": Affine("angle"),
    "translation": Affine("ty", "tx"),
    "axes": Affine("sx", "sy", "tx", "angle"),
    "factored": Affine(factored=True),
    "factored axes": Affine("sx", "shear", "sy", "angle", factored=True),
    "similarity": Similarity(),
    "matrix": AffineMatrix(),
    "spline": Affine(interpolation="spline"),
    "bicubic": Affine(interpolation="bicubic"),
    "crop": Crop(),
    "square crop": Crop(square=True),
    "hsv": HSV(),
    "hue": HSV("hue"),
    "cpab": CPAB((2, 3)),
    "cpab that keeps areas": CPAB((4, 4), volume_preserving=True),
    "cpab without a border": CPAB((2, 2), zero_boundary=False),
    "4 rotations": Rotations(4),
    "2 rotations": Rotations(2),
    "6 rotations": Rotations(6),
    "dihedral 4": Dihedral(4),
    "dihedral 3": Dihedral(3),
    "flips": Flips(),
    "shifts": Shifts(3),
    "affine × hsv": Product(Affine("tx", "angle", "scale"), HSV()),
    "hsv × rotations": Product(HSV("hue", "value"), Rotations(4)),
    "affine × affine": Product(Affine("angle"), Affine("tx", "sx")),
    "flips × affine": Product(Flips(), Affine("angle", "tx")),
    "affine × flips × hsv": Product(Affine("angle", "ty"), Flips(), HSV()),
    "crop × hsv": Product(Crop(), HSV("saturation")),
    "cpab × affine": Product(CPAB((2, 2)), Affine("angle")),
}
SERIES = {
    "time": TimeAffine(),
    "factored time": TimeAffine("stretch", "shift", factored=True),
    "shift of time": TimeAffine("shift"),
    "cpab of time": CPAB((5,)),
    "cpab of time, orthonormal": CPAB((5,), orthonormal=True),
    "cpab of time without a border": CPAB((4,), zero_boundary=False),
    "reversal": Flips(),
    "cyclic shifts of time": Shifts(4),
    "cpab × time": Product(CPAB((4,)), TimeAffine()),
}
CASES = [pytest.param(t, (24, 24), id=name) for name, t in IMAGES.items()]
CASES += [pytest.param(t, (48,), id=name) for name, t in SERIES.items()]


def coordinates(transform, share, seed):
    """Whole numbers where these are meant, otherwise within this share of the way to the bounds, some at either end."""
    generator = seeds.generator(seed)
    v = draw(transform, (3,), share, generator)
    ends = transform.origin + share * (torch.stack((*transform.bounds, transform.origin)) - transform.origin)
    which = torch.randint(12, v.shape, generator=generator)
    moves = torch.tensor([not support.is_discrete for support in transform.supports])
    return torch.where((which < 3) & moves, ends.gather(0, which.clamp_max(2)), v)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("transform", "size"), CASES)
def test_transform(transform, size, seed):
    transform = copy.deepcopy(transform).double()
    v = coordinates(transform, 0.4, seed)
    check_transform(transform, v=v, size=size, tolerance=2e-4 if "CPAB" in repr(transform) else 1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("transform", "size"), [c for c in CASES if isinstance(c.values[0], Group)])
def test_group(transform, size, seed):
    transform = copy.deepcopy(transform).double()
    v = coordinates(transform, 0.25, seed)
    order = 0.7 if getattr(transform, "interpolation", "") == "bicubic" else 1.5
    check_group(transform, v=v, size=size, order=order)


@pytest.mark.parametrize(("transform", "size"), [c for c in CASES if isinstance(c.values[0], FiniteGroup)])
def test_finite_group(transform, size):
    check_finite_group(transform, size=size)


@pytest.mark.parametrize(
    "transform", [IMAGES[k] for k in ("affine", "factored", "crop", "hsv", "flips", "cpab")], ids=repr
)
def test_transform_on_wide_images(transform):
    check_transform(transform, size=(18, 30), tolerance=2e-4)


@pytest.mark.parametrize("name", ["crop", "square crop", "cpab", "crop × hsv", "flips × affine", "affine × affine"])
def test_what_is_not_a_group(name):
    assert not isinstance(IMAGES[name], Group)
    with pytest.raises(AssertionError, match="not a Group"):
        check_group(IMAGES[name])


@pytest.mark.parametrize("fill", [0.1, 1.0, [0.2, 0.5, 0.9]])
def test_a_fill_breaks_no_rule(fill):
    check_transform(Affine("tx", "ty", "angle", fill=fill))
    check_group(Affine("tx", "ty", "angle", fill=fill))
    check_finite_group(Rotations(8, fill=fill))
    transform = Affine("tx", fill=fill)
    check_transform(transform)
    assert transform.fill == fill  # it was a copy
