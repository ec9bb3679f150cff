"""One small and one published instance of every network, with an input."""

from erlangen.nets import (
    MLP,
    Conv13,
    CropEncoder,
    EmbeddingCNN,
    FixupResNet,
    LeNet,
    Localiser,
    PreActResNet18,
    SeriesCNN,
    SeriesLocaliser,
    SmallCNN,
)

# name: (a small network, the shape of one input, the number of outputs)
SMALL = {
    "embedding": (lambda: EmbeddingCNN(3, 5, width=2), (3, 12, 17), 5),
    "fixup": (lambda: FixupResNet(3, 5, width=2), (3, 9, 12), 5),
    "fixup, 14 layers": (lambda: FixupResNet(1, 5, width=2, blocks=2), (1, 8, 8), 5),
    "lenet, 28": (lambda: LeNet(1, 5), (1, 28, 28), 5),
    "lenet, 32": (lambda: LeNet(3, 5, size=32), (3, 32, 32), 5),
    "conv13": (lambda: Conv13(3, 5, width=2), (3, 8, 11), 5),
    "preact18": (lambda: PreActResNet18(3, 5, width=2), (3, 16, 21), 5),
    "crops": (lambda: CropEncoder(3, size=16), (3, 16, 16), 21),
    "mlp": (lambda: MLP(12, (7, 6), dropout=0.2), (3, 2, 2), 6),
    "mlp, outputs": (lambda: MLP(12, (7, 6), outputs=5), (12,), 5),
    "localiser": (lambda: Localiser(1, size=20, filters=(2, 3)), (1, 20, 20), 12),
    "series localiser": (lambda: SeriesLocaliser(2, widths=(3, 4), kernels=(4, 3)), (2, 13), 4),
    "series localiser, bins": (lambda: SeriesLocaliser(1, widths=(3, 4), kernels=(4, 3), bins=3), (1, 13), 12),
    "series": (lambda: SeriesCNN(2, 5, widths=(3, 4), kernels=(4, 3)), (2, 13), 5),
    "small": (lambda: SmallCNN(1, 5, size=20, filters=(2, 3), hidden=6), (1, 20, 20), 5),
}
IMAGES = [name for name in SMALL if not name.startswith(("mlp", "series"))]
