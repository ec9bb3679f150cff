"""The networks have the sizes of the published ones, and the properties that these were chosen for."""

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from erlangen.distributions import crop_table
from erlangen.nets import (
    MLP,
    NETS,
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
    build,
)

COUNTS = {
    "embedding": (lambda: EmbeddingCNN(), 26_608, "26.6k"),
    "embedding, classifier of the toys": (lambda: EmbeddingCNN(3, 4, width=32), 389_444, "389k"),
    "embedding, pose of the toys": (lambda: EmbeddingCNN(3, 32, width=32), 396_640, "397k"),
    "fixup": (lambda: FixupResNet(), 74_827, "74,827"),
    "fixup, half the width": (lambda: FixupResNet(width=8), 18_995, "19.0k"),
    "lenet": (lambda: LeNet(), 60_170, "60.2k"),
    "conv13": (lambda: Conv13(), 3_991_434, "3.99M"),
    "small": (lambda: SmallCNN(), 28_086, "28,086"),
    # P-STN, 26.7k: this classifier, the localiser of 3,022 and two heads of 4 × 225
    "small, behind a localiser": (lambda: SmallCNN(filters=(10, 20), hidden=50), 26_662 - 3_022 - 2 * 4 * 225, "21.8k"),
    "localiser": (lambda: Localiser(), 3_022, "3.0k"),
    # Layer by layer, since nothing is printed
    "preact18": (lambda: PreActResNet18(), 11_268_616, "11.27M"),
    "crops": (lambda: CropEncoder(), 216 + 1_184 + 3_632 + 14_432 + 16 + 32 + 32 * 64 + 321, "21.9k"),
}


def count(net: torch.nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def rounded(n: int, like: str) -> str:
    """A number in the form of another."""
    if like[-1] not in "kM":
        return f"{n:,}"
    digits = len(like.partition(".")[2]) - 1 if "." in like else 0
    return f"{n / {'k': 1e3, 'M': 1e6}[like[-1]]:.{digits}f}{like[-1]}"


@pytest.mark.parametrize("name", COUNTS)
def test_parameters(name):
    make, exact, published = COUNTS[name]
    with torch.device("meta"):
        net = make()
    assert count(net) == exact
    assert rounded(exact, published) == published


def test_conv13_has_nine_convolutions():
    kinds = [type(m) for m in Conv13(width=2).modules()]
    assert kinds.count(torch.nn.Conv2d) == kinds.count(torch.nn.BatchNorm2d) == 9


def test_the_embedding_at_32_pixels_ends_in_the_published_pooling():
    net, x = EmbeddingCNN(), torch.randn(2, 3, 32, 32)
    h = F.relu(net.conv1(x))
    for conv in (net.conv2, net.conv3, net.conv4):
        h = F.max_pool2d(F.relu(conv(h)), 2)
    assert h.shape == (2, 64, 4, 4)
    torch.testing.assert_close(net(x), net.last(F.max_pool2d(h, 4).flatten(1)))


@pytest.mark.parametrize("size", [28, 32, 64])
def test_the_embedding_sees_every_corner(size):
    net = EmbeddingCNN(1)
    x = torch.zeros(1, 1, size, size)
    for corner in ((0, 0), (0, size - 4), (size - 4, 0), (size - 4, size - 4)):
        there = x.clone()
        there[..., corner[0] : corner[0] + 4, corner[1] : corner[1] + 4] = 5.0
        assert not torch.equal(net(there), net(x)), corner


def test_fixup_starts_as_its_shortcuts():
    net = FixupResNet(blocks=2)
    x = torch.randn(2, 3, 32, 32)
    h = F.relu(net.stem(x))
    shortcut = F.pad(h[..., ::4, ::4], (0, 0, 0, 0, 0, 48))
    assert torch.equal(net.blocks(h), shortcut)
    assert torch.equal(net(x), torch.zeros(2, 10))


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_fixup_deviations(stage):
    net = FixupResNet(width=32, blocks=3)
    weight = net.blocks[3 * stage + 1].conv1.weight
    expected = math.sqrt(2 / (9 * weight.shape[0])) / math.sqrt(9)
    # The relative error of the deviation of n normals is 1/√(2n), here at most 0.0074: five of these
    assert weight.std().item() == pytest.approx(expected, rel=5 / math.sqrt(2 * weight.numel()))


def test_fixup_scalars_are_what_has_one_number_but_for_the_last_bias():
    net = FixupResNet(classes=1)  # whose last bias is one number too
    scalars = net.scalar_parameters()
    assert len(scalars) == 3 * 5 + 2
    assert sorted({p.item() for p in scalars}) == [0.0, 1.0]


def test_fixup_activations_stay_in_half_precision():
    net, seen = FixupResNet(width=2).float(), []
    for block in net.blocks:
        block.register_forward_hook(lambda _, inputs, result: seen.append(result.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        net(torch.randn(2, 3, 8, 8, dtype=torch.float32))
    assert seen == [torch.bfloat16] * 3


def test_preact_weights():
    net = PreActResNet18(classes=5, width=16)
    weight = net.blocks[6].conv2.weight
    std = math.sqrt(2 / (9 * 128))
    assert weight.std().item() == pytest.approx(std, rel=0.02)  # 147,456 values: twelve deviations
    assert weight.abs().max() <= 2 * std / 0.8796
    assert net.last.weight.std().item() == pytest.approx(0.01, rel=0.2)  # 640 values: seven deviations
    assert not net.last.bias.any()


def test_preact_leaves_a_map_of_four():
    net = PreActResNet18(classes=5, width=2)
    assert net.stem(torch.randn(1, 3, 64, 64)).shape == (1, 2, 32, 32)
    assert net.blocks(net.stem(torch.randn(2, 3, 64, 64))).shape == (2, 16, 4, 4)


def test_crop_scores_are_in_the_order_of_the_table():
    net = CropEncoder()
    table, logits = crop_table()
    assert net.features == len(table) == 321
    with torch.no_grad():
        net.bias.copy_(logits)
        for head in (net.fine, net.coarse, net.whole):
            head.weight.zero_()
    assert torch.equal(net(torch.randn(2, 3, 64, 64)), logits.expand(2, -1))
    # A bright patch at the left of the top edge moves the fine score there, and none at the far corner
    net = CropEncoder().eval()
    x = torch.zeros(1, 3, 64, 64)
    x[..., :4, 8:12] = 1.0
    moved = (net(x) - net(torch.zeros_like(x)))[0, :256].abs()
    centre = table[:256][moved > 1e-3 * moved.max()][:, :2].mean(0)
    assert centre[1] < centre[0] < 0


def test_mlp_order_and_size():
    net = MLP(784, (2048, 1024, 512, 256), dropout=0.1)
    assert [type(m).__name__ for m in net.layers] == ["Linear", "GELU", "LayerNorm", "Dropout"] * 4
    widths = (784, 2048, 1024, 512, 256)
    assert count(net) == sum(a * b + 3 * b for a, b in pairwise(widths))


@pytest.mark.parametrize("name", [name for name in NETS if name != "series-cnn"])
def test_build(name):
    net = build(name, classes=7, channels=1, size=28, **{} if name in ("lenet", "mlp", "small-cnn") else {"width": 4})
    assert isinstance(net, NETS[name])
    assert net.eval()(torch.randn(2, 1, 28, 28)).shape == (2, 7)


def test_build_for_images_that_are_not_square():
    assert build("mlp", classes=7, size=(28, 40))(torch.randn(2, 3, 28, 40)).shape == (2, 7)
    assert build("conv13", classes=7, size=(28, 40), width=4).eval()(torch.randn(2, 3, 28, 40)).shape == (2, 7)
    with pytest.raises(ValueError, match=r"size: received \(8, 40\); accepted is at least 16 for preact18"):
        build("preact18", classes=2, size=(8, 40))


def test_build_for_series():
    net = build("series-cnn", classes=7, channels=2, size=(30,), widths=(4, 4), kernels=(4, 3))
    assert net(torch.randn(3, 2, 30)).shape == (3, 7)
    assert build("mlp", classes=7, channels=2, size=(30,))(torch.randn(3, 2, 30)).shape == (3, 7)
    with pytest.raises(ValueError, match="net: received 'lenet' for series; accepted is one of mlp, series-cnn"):
        build("lenet", classes=7, size=(30,))
    with pytest.raises(ValueError, match="net: received 'series-cnn' for images; accepted is one of "):
        build("series-cnn", classes=7, size=28)


def test_networks_of_series_have_the_published_sizes():
    behind = count(SeriesCNN(1, 14, widths=SeriesCNN.BEHIND)) + count(SeriesLocaliser())
    assert count(SeriesCNN(1, 14)) == 1_195_126
    assert behind == 1_195_518  # "approximately one million", alike with and without localiser


def test_build_passes_changes_on():
    assert count(build("embedding", classes=4, width=32)) == 389_444
