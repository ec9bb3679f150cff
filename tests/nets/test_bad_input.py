"""What a network can't take is refused with what came and what is accepted."""

import pytest
import torch

from erlangen.nets import (
    MLP,
    Conv13,
    CropEncoder,
    EmbeddingCNN,
    FixupResNet,
    LeNet,
    Localiser,
    SeriesCNN,
    SeriesLocaliser,
    SmallCNN,
    build,
)

from .cases import IMAGES, SMALL

INPUTS = {
    "channels": lambda shape: torch.zeros(2, shape[0] + 1, *shape[1:]),
    "too small": lambda shape: torch.zeros(2, shape[0], 3, 3),
    "too thin": lambda shape: torch.zeros(2, *shape[:2], 3),
    "no batch": lambda shape: torch.zeros(shape),
    "samples": lambda shape: torch.zeros(2, 2, *shape),
    "integers": lambda shape: torch.zeros(2, *shape, dtype=torch.uint8),
    "no tensor": lambda shape: [[0.0]],
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("kind", INPUTS)
def test_images(name, kind):
    make, shape, _ = SMALL[name]
    x = INPUTS[kind](shape)
    with pytest.raises(
        ValueError, match=rf"x: received .*accepted is floating-point images \(B, {shape[0]}, "
    ) as error:
        make()(x)
    came = str(tuple(x.shape)) if isinstance(x, torch.Tensor) else "list"
    assert came in str(error.value)


@pytest.mark.parametrize("name", ["lenet, 28", "lenet, 32", "crops", "localiser", "small"])
def test_other_sizes(name):
    make, (channels, size, _), _ = SMALL[name]
    with pytest.raises(ValueError, match=rf"accepted is .*\(B, {channels}, {size}, {size}\)"):
        make()(torch.zeros(2, channels, size + 4, size + 4))


@pytest.mark.parametrize("x", [torch.zeros(2, 5), torch.zeros(4), torch.zeros(2, 4, dtype=torch.int64), "four"])
def test_mlp(x):
    with pytest.raises(ValueError, match=r"x: received .*accepted is floating-point inputs \(B, ...\) of 4 values"):
        MLP(4, (3,))(x)


ARGUMENTS = {
    "channels": (lambda: EmbeddingCNN(0), r"channels: received int 0; accepted is an integer > 0"),
    "features": (lambda: EmbeddingCNN(3, 2.5), r"features: received float 2.5"),
    "width": (lambda: FixupResNet(width=-1), r"width: received int -1"),
    "blocks": (lambda: FixupResNet(blocks=0), r"blocks: received int 0"),
    "classes": (lambda: Conv13(classes=True), r"classes: received bool True"),
    "dropout": (lambda: Conv13(dropout=1.0), r"dropout: received float 1.0; accepted is a probability"),
    "hidden": (lambda: MLP(4, 32), r"hidden: received int 32; accepted is a sequence of widths"),
    "hidden, none": (lambda: MLP(4, ()), r"hidden: received tuple \(\)"),
    "lenet": (lambda: LeNet(size=64), r"size: received int 64; accepted is 28 or 32"),
    "crops": (lambda: CropEncoder(size=60), r"size: received 60; accepted is a multiple of 8"),
    "localiser": (lambda: Localiser(size=15), r"size: received 15; accepted is at least 16 with kernels of 5"),
    "filters": (lambda: SmallCNN(filters=(1, 2, 3)), r"filters: received tuple \(1, 2, 3\); accepted is a pair"),
    "name": (lambda: build("vgg", classes=2), r"name: received str 'vgg'; accepted is one of lenet, fixup, conv13"),
    "name, no string": (lambda: build([], classes=2), r"name: received list"),
    "size": (lambda: build("preact18", classes=2, size=8), r"size: received 8; accepted is at least 16 for preact18"),
    "no square": (
        lambda: build("lenet", classes=2, size=(28, 30)),
        r"net: received 'lenet', which takes squares, for images of 28×30 pixels; accepted is one of fixup, conv13",
    ),
    "size, lenet": (lambda: build("lenet", classes=2, size=96), r"size: received int 96; accepted is 28 or 32"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name):
    make, message = ARGUMENTS[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_the_smallest_localiser_has_a_pixel_left():
    assert Localiser(size=16, filters=(2, 3))(torch.zeros(2, 1, 16, 16)).shape == (2, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SeriesLocaliser(2)(torch.zeros(3, 1, 9)),
            r"x: received .*accepted is floating-point series \(B, 2, L",
        ),
        (lambda: SeriesCNN(1)(torch.zeros(3, 9)), "accepted is floating-point series"),
        (lambda: SeriesCNN(1, widths=(4, 4), kernels=(3,)), "kernels: received 1 for 2 widths"),
        (lambda: SeriesCNN(1, widths=(), kernels=()), "widths: received tuple"),
        (lambda: SeriesCNN(1, widths=(0,), kernels=(3,)), "widths: received int 0"),
        (lambda: SeriesLocaliser(1, dropout=1.0), "dropout: received float 1.0"),
    ],
)
def test_series_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
