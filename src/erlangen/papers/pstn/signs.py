r"""What table 1 and figure 6 share: signs somewhere in larger scenes, a frozen classifier, localisers before it.

*Data.* A stand-in for the Mapillary traffic signs of the paper (section 5.1.3), which are not to be had: 4,700 signs of
ten classes of GTSRB for training and 500 for testing, each in a scene of 96 pixels made from other pictures (Tiny
ImageNet: for testing, of its validation part), at a quarter to half of its side. Numbers do not compare with those of
the paper.

*Networks.* Differs from the paper: no weights from ImageNet, and no ResNet18. The classifier is the convolutional
network of Learning to Transform with 32 filters, on views of 32 pixels. It is trained on six random windows around each
true box, from the box itself to five times its sides, and frozen: one that has seen nothing but true boxes says nothing
of a window that is too large, and localisers that had to learn from it moved theirs out of the scene (both had 10 %).
Where the paper has weights from ImageNet, in the localisers as in the classifier of whole scenes, those of this
classifier are the start here. Localisers see scenes at half their side through its four convolutions, whose maps keep
their places; without such a start they learned one zoom for all scenes. Their heads begin at the identity.

*Training.* Adam, whose rate falls from 0.001 along a cosine, and from half of that for what starts trained (the paper
has 0.0001); 20 epochs (the paper has 60), ten samples and w = 1e-7 as there. Chosen on 700 scenes of the training part
that were set aside: with a rate of 0.003 windows leave the scene.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...data import BoxedSet, glyphs, gtsrb10, load, scenes
from ...distributions import Conditional, Dirac, GlobalUniform, StudentT
from ...models import Averaged
from ...nets import EmbeddingCNN
from ...objectives import PSTN, AveragedObjective, Plain
from ...train import Config, Cosine, Optimiser, TensorLoader, fit
from ...transforms import Affine, Transform
from ...utils.seeds import generator, seeded
from ..cache import kept

__all__ = ["CANVAS", "Training", "boxes", "moves", "predictions", "scene_set", "trained", "zoomed"]

CANVAS, VIEW = 96, 32
FARTHEST = 10.0


@dataclass(frozen=True)
class Training:
    """All that a trained model depends on.

    Attributes:
        method: "boxes" (the classifier, on windows around true boxes), "cnn" (one of whole scenes), "stn" or "pstn".
        source: "gtsrb10", or "glyphs" for a run of seconds.
        first: for how many epochs the classifiers are trained.
        around: the side of the largest window that the classifier is trained on, in sides of the box.
        windows: so many of each box.
        slower: what starts from that classifier learns at so many times its rate.
    """

    method: str = "pstn"
    source: str = "gtsrb10"
    weight: float = 1e-7
    epochs: int = 20
    first: int = 30
    around: float = 5.0
    windows: int = 6
    batch: int = 32
    samples: int = 10
    lr: float = 1e-3
    slower: float = 0.5
    width: int = 32
    seed: int = 0

    @property
    def scale(self) -> float:
        """The inputs that it is trained on, as a share of the paper's."""
        return round(min(1.0, self.epochs * self.samples / 600), 3)


@lru_cache(maxsize=4)
def scene_set(source: str, split: str) -> BoxedSet:
    """Signs in scenes, the same for all seeds."""
    seed = int(split == "test")
    if source == "gtsrb10":
        return scenes(gtsrb10(split), load("tiny-imagenet-50", split), CANVAS, sizes=(0.25, 0.5), seed=seed)
    data = glyphs(24, seed=seed)
    box = torch.tensor([[-0.8, -0.8, 0.8, 0.8]]).repeat(len(data), 1)
    signs = BoxedSet(data.x, data.y, data.classes, source, box.to(torch.get_default_dtype()))
    return scenes(signs, glyphs(24, seed=5 + seed), CANVAS, sizes=(0.25, 0.5), seed=seed)


def moves() -> Transform:
    """Scale and translation: a view is a square window, from a bit more than the scene to a sixth of its side."""
    return Affine("scale", "tx", "ty", factored=True, bounds={"scale": (-0.25, 1.8), "tx": 4.0, "ty": 4.0})


def zoomed(x: Tensor, box: Tensor) -> Tensor:
    """Scenes in [0, 1] seen through boxes, which are widened to squares, `(B, C, H, W)`."""
    centre, side = (box[:, :2] + box[:, 2:]) / 2, (box[:, 2:] - box[:, :2]).amax(-1, keepdim=True)
    move = Affine("scale", "tx", "ty", factored=True, bounds={"tx": 20.0, "ty": 20.0}).to(x)
    scale = 2 / side
    # A window is moved to the middle and then enlarged, so that its translation is enlarged as well.
    return move(x, torch.cat((scale.log(), -centre * scale), -1).to(x))


def around(box: Tensor, times: float, seed: int) -> Tensor:
    """A random window around each box: so many times as large at most, and moved as far as the box stays in it.

    Shape:
        box and result: `(N, 4)`.
    """
    u = torch.rand(len(box), 3, generator=generator(seed)).to(box)
    centre, side = (box[:, :2] + box[:, 2:]) / 2, (box[:, 2:] - box[:, :2]).amax(-1, keepdim=True)
    large = side * (u[:, :1] * math.log(times)).exp()
    centre = centre + (u[:, 1:] - 0.5) * (large - side)
    return torch.cat((centre - large / 2, centre + large / 2), -1)


def boxes(move: Transform, v: Tensor) -> Tensor:
    """The windows that coordinates `(*S, B, d)` look through, `(*S, B, 4)`: where the corners of a view come from."""
    corners = torch.tensor([[[-1.0, -1.0], [1.0, 1.0]]]).to(v).expand(v.shape[-2], -1, -1)
    return move.act_points(move.inverse(move.element(v)), corners).flatten(-2)


def smaller(x: Tensor) -> Tensor:
    """Views of 32 pixels, by means over squares; of those that have them, themselves."""
    return F.avg_pool2d(x, x.shape[-1] // VIEW)


class Views(nn.Module):
    """The classifier, on views that are made smaller."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.net = EmbeddingCNN(3, classes, width=width)

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        return self.net(smaller(x))


def localiser(width: int) -> nn.Sequential:
    """The convolutions of the classifier, on scenes at half their side: what is where, 6 × 6 × 8 width features."""
    channels, layers = 3, list[nn.Module]([nn.AvgPool2d(2)])
    for times in (1, 2, 4, 8):
        layers += [nn.Conv2d(channels, times * width, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if times > 1 else []
        channels = times * width
    return nn.Sequential(*layers, nn.Flatten())


def convolutions(net: nn.Module) -> list[nn.Conv2d]:
    """The convolutions of a network, in their order."""
    return [part for part in net.modules() if isinstance(part, nn.Conv2d)]


def build(config: Training) -> AveragedObjective:
    """The four nouns."""
    move = moves()
    with seeded(config.seed):
        net = Views(len(scene_set(config.source, "train").classes), config.width)
        conditional = _conditional(config, move)
    alone = config.method in ("boxes", "cnn")
    options: Any = {"samples": config.samples, "eval_samples": 10, "frozen": ["conditional" if alone else "model"]}
    averaged = Averaged(net, move, conditional, largest=2**13, **options)
    return Plain(averaged) if alone else PSTN(averaged, config.weight)


def _conditional(config: Training, move: Transform) -> Conditional:
    if config.method in ("boxes", "cnn"):
        return GlobalUniform.over(move, 1)
    encoder, features = localiser(config.width), 36 * 8 * config.width
    own: Any = {"encoder": encoder, "hidden": (2 * config.width,)}
    if config.method == "stn":
        return Dirac.over(move, features, **own)
    return StudentT.over(move, features, spread=(0.1, 0.1, 0.1), truncation=FARTHEST, **own)


def trained(config: Training, device: str = "cpu") -> Averaged:
    """The trained model, from the cache by the hash of its config."""
    if config.method == "boxes":  # one for all methods
        config = replace(config, weight=0.0, epochs=1, samples=1)
    objective, _ = kept(config, device, build, _train, code=(__file__,))
    return objective.averaged


def _train(objective: AveragedObjective, config: Training, device: str, **going: Any) -> dict[str, Tensor]:
    cuda, epochs = torch.device(device).type == "cuda", config.epochs
    data = scene_set(config.source, "train")
    x, y, lr = data.x, data.y, config.slower * config.lr
    if config.method == "boxes":
        x, y, lr = *_windows(data, config), config.lr
        epochs = -(-config.first // config.windows)
    else:
        _start(objective.averaged, trained(replace(config, method="boxes"), device).model)
    if config.method == "cnn":
        epochs = config.first
    loader = TensorLoader(x, y, batch_size=config.batch, seed=config.seed, drop_last=len(x) > config.batch)
    adam = Optimiser("adam", lr, schedule=Cosine(), clip=5.0)
    how: Any = {"accelerator": "cuda" if cuda else "cpu", "graph": cuda, "seed": config.seed, "log_every": 100}
    fit(objective, loader, Config(epochs=epochs, optimiser=adam, **how, **going))
    return {}


def _windows(data: BoxedSet, config: Training) -> tuple[Tensor, Tensor]:
    """What the classifier is trained on: several windows around each box, and their labels."""
    windows = [around(data.box, config.around, config.seed + k) for k in range(config.windows)]
    parts = [pair for own in windows for pair in zip(data.x.split(500), own.split(500), strict=True)]
    x = torch.cat([smaller(zoomed(part.to(data.box) / 255, window)) for part, window in parts])
    return x, data.y.repeat(config.windows)


def _start(averaged: Averaged, classifier: nn.Module) -> None:
    """Takes over a classifier, and its convolutions for a localiser."""
    averaged.model.load_state_dict(classifier.state_dict())
    for own, known in zip(convolutions(averaged.conditional), convolutions(classifier), strict=False):
        own.load_state_dict(known.state_dict())


@torch.no_grad()
def predictions(model: Averaged, data: BoxedSet, method: str, batch: int = 100) -> tuple[Tensor, Tensor]:
    """The log-probabilities of scenes, `(N, K)`, and the windows that were looked through, `(S, N, 4)`; on the CPU."""
    like, found, windows = model.transform.bounds, [], []
    with seeded(0):
        for part, box in zip(data.x.split(batch), data.box.split(batch), strict=True):
            x = part.to(like) / 255
            if method in ("boxes", "cnn"):
                whole = torch.tensor([-1.0, -1.0, 1.0, 1.0]).expand(1, len(x), 4)
                seen = zoomed(x, box.to(like)) if method == "boxes" else x
                found.append(model.classify(seen).log_softmax(-1).cpu())
                windows.append(box[None].float() if method == "boxes" else whole)
            else:
                prediction = model(x)
                found.append(prediction.log_probs.cpu())
                windows.append(boxes(model.transform, prediction.v).float().cpu())
    return torch.cat(found), torch.cat(windows, 1)
