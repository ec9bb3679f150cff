"""Which transformations occur in a set of images, without labels: prototypes, distributions, natural variations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..data import DataSet
from ..metrics import occupied_arcs
from ..models import SymmetryModel
from ..objectives import Blur, PrototypeInference, TransformLikelihood, TwoStages
from ..report.canvas import pixels
from ..report.run_figures import Coordinate
from ..report.symmetries import SymmetryFindings, symmetries_page
from ..train import Config, Optimiser, TensorLoader, WarmupCosine, fit_symmetry
from ..transforms import HSV, Affine, Group, Product
from ..transforms.warp import as_signal
from ..utils.io import provenance, write_bytes, write_json
from ..utils.seeds import generator, seeded
from ..utils.shapes import check_count, check_tensor
from .config import check_device
from .coordinates import AFFINE, COLOUR, Wanted, resolve_ranges
from .reporting import half_ranges

__all__ = ["Symmetries", "SymmetryFinder", "recentred"]

DARK = 0.05  # the mean level of the border below which images count as standing on black
LITTLE = 0.05  # of the range that was looked for: less does not occur
ROOM = 1.5  # how much wider than the random transformations the range of poses is
BATCH = 256  # images at a time, when nothing is trained


@dataclass(frozen=True)
class Symmetries:
    """What `SymmetryFinder.report` found.

    Attributes:
        names: of the coordinates.
        half_ranges: of each image, half of the shortest range that holds 98 % of its transformations, `(N, d)`.
        looked: half the range that was looked for, `(d,)`.
        findings: what the page shows.
    """

    names: tuple[str, ...]
    half_ranges: np.ndarray
    looked: np.ndarray
    findings: SymmetryFindings

    def rows(self) -> list[dict[str, Any]]:
        """For each coordinate the median over images, the range of the middle 90 % of them, and whether it occurs."""
        low, middle, high = np.quantile(self.half_ranges, (0.05, 0.5, 0.95), axis=0)
        kinds = zip(self.names, low.tolist(), middle.tolist(), high.tolist(), self.looked.tolist(), strict=True)
        return [
            {"name": n, "half_range": m, "low": a, "high": b, "looked": w, "occurs": m > LITTLE * w}
            for n, a, m, b, w in kinds
        ]

    def __str__(self) -> str:
        return "\n".join(self.findings.words)

    def save(self, folder: str | Path) -> list[Path]:
        """Writes symmetries.html and symmetries.json, and returns their paths."""
        folder = Path(folder)
        write_bytes(folder / "symmetries.html", symmetries_page(self.findings).encode())
        content = {
            "coordinates": self.rows(),
            "half_ranges": self.half_ranges.tolist(),
            "settings": self.findings.facts,
        }
        write_json(folder / "symmetries.json", {**content, "provenance": self.findings.about})
        return [folder / "symmetries.html", folder / "symmetries.json"]


class SymmetryFinder:
    """Finds which transformations occur in images, how far, for each of them and overall (SGM).

    Args:
        transform: names of coordinates that are looked for, with ranges if they are not the defaults; see
            `resolve_ranges`. Angles and hues are looked for on the whole circle.
        steps: of the inference network, and of the density.
        batch_size: images to a step.
        samples: random transformations of each image.
        copies: how many turned copies vote on the pose, where the angle or the hue is among the coordinates; None for
            a plain network.
        anchored: whether poses start from moments; if None, for affine coordinates of images that stand on black.
        inference: the widths of the inference network.
        generative: those of the density's encoder.
        lr: learning rates, of both.
        seed: of weights, order and noise.
        device: "auto", "cpu", "cuda" or "mps".
        folder: where the log and checkpoints go; nothing is kept if None.
        resume: whether to go on from the last checkpoint in the folder, if there is one.
        progress: whether a bar is shown; if None, on a terminal.

    After `fit`: `model_`, the `SymmetryModel`; `history_`; `prototypes_` of all images, `(N, C, H, W)`.

    Example:
        >>> from erlangen.data import glyphs
        >>> finder = SymmetryFinder(("angle",), steps=(2, 2), batch_size=8, inference=(8,), generative=(8,))
        >>> finder.fit(glyphs(16)).resample(glyphs(3, seed=1).x, 5).shape
        torch.Size([5, 3, 3, 32, 32])
    """

    def __init__(
        self,
        transform: Wanted = ("tx", "ty", "angle", "scale"),
        *,
        steps: tuple[int, int] = (3000, 6000),
        batch_size: int = 128,
        samples: int = 2,
        copies: int | None = 8,
        anchored: bool | None = None,
        inference: Sequence[int] = (512, 256),
        generative: Sequence[int] = (256, 128),
        lr: tuple[float, float] = (1e-3, 2e-3),
        seed: int = 0,
        device: str = "auto",
        folder: str | Path | None = None,
        resume: bool = False,
        progress: bool | None = None,
    ) -> None:
        self.transform, self.steps, self.batch_size, self.samples = transform, steps, batch_size, samples
        self.copies, self.anchored, self.inference, self.generative = copies, anchored, inference, generative
        self.lr, self.seed, self.device = lr, seed, device
        self.folder, self.resume, self.progress = folder, resume, progress

    def fit(self, X: DataSet | Tensor | np.ndarray, y: object = None) -> Self:
        """Learns prototypes and their transformations from images; labels are not looked at.

        Args:
            X: a data set, or images `(N, C, H, W)`, uint8 or within [0, 1].
            y: ignored, as scikit-learn has it.
        """
        x = _images(X)
        check_device(self.device)
        ranges = self.looked_for()
        first, second = (check_count("steps", n) for n in self.steps)
        with seeded(self.seed):
            self.model_ = self._build(x, ranges)
            settings: Any = {"ranges": ranges, "samples": self.samples}
            blur = Blur(2.0, max(1, first // 10))
            # Behind the clips of colours the price on what is lost has a gradient of the wrong sign.
            price = 0.1 if isinstance(self.model_.group, Affine) else 0.0
            prototypes = PrototypeInference(self.model_, invertibility=price, blur=blur, **settings)
            objective = TwoStages(prototypes, TransformLikelihood(self.model_, **settings), first)
        loader = TensorLoader(x, batch_size=min(self.batch_size, len(x)), seed=self.seed, drop_last=True)
        self.history_ = fit_symmetry(objective, loader, self._config(first, second))
        self.model_.eval()
        self.shape_, self.ranges_ = tuple(x.shape[1:]), ranges
        self.prototypes_ = self.predict(x)
        return self

    def looked_for(self) -> dict[str, tuple[float, float]]:
        """The coordinates that are looked for and their ranges, angles and hues on the whole circle."""
        return _whole(resolve_ranges(self.transform))

    def predict(self, X: DataSet | Tensor | np.ndarray) -> Tensor:
        """The prototypes of images, `(N, C, H, W)`, on the CPU."""
        return self._each(X, self._model().prototype)

    def poses(self, X: DataSet | Tensor | np.ndarray) -> Tensor:
        """The coordinates of images, as seen from their prototypes, `(N, d)`."""
        return self._each(X, lambda x: self._model().pose(x).median)

    def score_samples(self, X: DataSet | Tensor | np.ndarray) -> Tensor:
        """How natural the pose of each image is, a log-density, `(N,)`."""
        return self._each(X, self._model().log_prob)

    def resample(self, X: DataSet | Tensor | np.ndarray, n: int = 1, *, seed: int = 0) -> Tensor:
        """Natural variations of images, `(n, N, C, H, W)`."""
        chance = generator(seed, self._model().group.bounds.device)
        return self._each(X, lambda x: self._model().resample(x, n, chance), dim=1)

    def report(
        self, X: DataSet | Tensor | np.ndarray, *, shown: int = 8, samples: int = 1000, images: int = 500
    ) -> Symmetries:
        """Which transformations occur in images, and how far.

        Args:
            X: images.
            shown: how many of them the page shows.
            samples: of the transformations of each.
            images: how many are measured, at most; the first.
        """
        x, group = _images(X)[:images], self._model().group
        chance = generator(self.seed, group.bounds.device)
        v = self._each(x, lambda part: self._model().density(part).sample((samples,), chance), dim=1)
        v = recentred(v, group.names)
        found = half_ranges(v, group.bounds.cpu(), group.periodic).double().numpy()
        few = torch.linspace(0, len(x) - 1, min(shown, len(x))).long()
        variations = self.resample(x[few], 3, seed=self.seed).transpose(0, 1)
        looked = np.array([(b - a) / 2 for a, b in self._looked()])
        findings = SymmetryFindings(
            title="Symmetries",
            lead=f"{len(x):,} images of {'×'.join(map(str, x.shape[2:]))} pixels; no labels were used.",
            words=_words(group.names, found, looked, self._arcs(v)),
            coordinates=self._coordinates(),
            half_ranges=found,
            inputs=[pixels(image) for image in as_signal(x[few], "bilinear")],
            prototypes=[pixels(image) for image in self.predict(x[few])],
            resampled=[[pixels(view) for view in views] for views in variations],
            v=[v[:, k].double().numpy() for k in few.tolist()],
            facts=self._facts(),
            code="finder.resample(x, 10)  # natural variations of images (B, C, H, W)",
            about=provenance(device=group.bounds.device),
        )
        return Symmetries(group.names, found, looked, findings)

    def _model(self) -> SymmetryModel:
        if not hasattr(self, "model_"):
            raise ValueError("SymmetryFinder: received no images yet; accepted is a call of fit first")
        return self.model_

    def _build(self, x: Tensor, ranges: Mapping[str, tuple[float, float]]) -> SymmetryModel:
        group = _group(ranges)
        turns = any(group.periodic) and self.copies is not None
        plain = isinstance(group, Affine) and group.factored and {"tx", "ty"} <= set(group.names)
        anchored = (plain and _on_black(x)) if self.anchored is None else self.anchored
        widths: Any = {
            "inference": self.inference,
            "generative": self.generative,
            "layers": 4,
            "width": 64,
            "pool": 2,
            "noise": 0.1,
        }
        copies = self.copies if turns else None
        return SymmetryModel.over(group, x.shape[1:], copies=copies, anchored=anchored, **widths)

    def _config(self, first: int, second: int) -> Config:
        def optimiser(lr: float, steps: int, clip: float) -> Optimiser:
            schedule = WarmupCosine(max(1, steps // 20), 0.01)
            return Optimiser("adamw", lr, weight_decay=1e-4, clip=clip, schedule=schedule)

        groups = {"inference": optimiser(self.lr[0], first, 3.0), "density": optimiser(self.lr[1], second, 2.0)}
        folder = None if self.folder is None else Path(self.folder)
        places: Any = {"accelerator": self.device, "folder": folder, "resume": self.resume, "progress": self.progress}
        return Config(steps=first + second, groups=groups, seed=self.seed, **places)

    @torch.no_grad()
    def _each(self, X: Any, work: Callable[[Tensor], Tensor], dim: int = 0) -> Tensor:
        home = self._model().group.bounds.device
        parts = [work(part.to(home)).cpu() for part in _images(X).split(BATCH)]
        return torch.cat(parts, dim)

    def _arcs(self, v: Tensor) -> dict[str, str]:
        """For each coordinate on a circle, in how many arcs most images' transformations lie: a half turn may be one.

        Shape:
            v: `(S, N, d)`.
        """
        found = {}
        for k, (name, (low, high)) in enumerate(zip(self._model().group.names, self._looked(), strict=True)):
            if self._model().group.periodic[k]:
                number, share = (
                    each.double().median() for each in occupied_arcs(v[..., k] * 2 * math.pi / (high - low))
                )
                arcs = "one arc" if number == 1 else f"{number:.0f} arcs"
                found[name] = f"{arcs}, {100 * share:.0f} % of the circle; the shortest range with nearly all of it is "
        return found

    def _looked(self) -> list[tuple[float, float]]:
        return [self.ranges_[name] for name in self._model().group.names]

    def _coordinates(self) -> list[Coordinate]:
        group = self._model().group
        kinds = zip(group.names, self._looked(), group.periodic, strict=True)
        return [Coordinate(name, low, high, periodic) for name, (low, high), periodic in kinds]

    def _facts(self) -> dict[str, str]:
        seconds = max((row["seconds"] for row in self.history_.rows), default=0.0)
        content = self.history_.column("content")
        return {
            "coordinates": ", ".join(self._model().group.names),
            "training": f"{self.steps[0]:,} and {self.steps[1]:,} steps of {self.batch_size} images, {seconds:.0f} s",
            "content left in prototypes": f"{content[-1]:.0%}" if content else "unknown",
            "seed": str(self.seed),
        }


def recentred(v: Tensor, names: Sequence[str]) -> Tensor:
    r"""Coordinates as seen from prototypes that lie elsewhere, so that turning explains what it can of translations.

    Where its prototype lies is arbitrary. Images that were turned around a point other than the prototype's centre have
    translations that turn with the angle, $w = c\, e^{s + i\theta} + w_0$; the shift c of each prototype is found by
    least squares, and its part is taken out. What is left are translations of the prototype that is shifted by c.

    Shape:
        v: samples for each image, `(S, N, d)`; result: the same.
    """
    if not {"tx", "ty", "angle"} <= set(names):
        return v
    column = {name: v[..., k].double() for k, name in enumerate(names)}
    scales = [column[name] for name in ("scale", "sx", "sy") if name in column]
    size = torch.stack(scales).mean(0).exp() if scales else torch.ones_like(column["angle"])
    turn = torch.polar(size, column["angle"])  # y points down, so up is imaginary
    w = torch.complex(column["tx"], -column["ty"])
    u, away = turn - turn.mean(0), w - w.mean(0)
    c = (u.conj() * away).sum(0) / (u.abs().square().sum(0) + 0.01 * len(v))  # none where nothing turns
    left = w - c * turn
    out = v.clone()
    out[..., names.index("tx")], out[..., names.index("ty")] = left.real.to(v.dtype), -left.imag.to(v.dtype)
    return out


def _images(X: DataSet | Tensor | np.ndarray) -> Tensor:
    x = X.x if isinstance(X, DataSet) else torch.as_tensor(X)
    ok = x.ndim == 4 and len(x) > 0 and (x.dtype == torch.uint8 or x.is_floating_point())
    check_tensor("X", x, "images (N, C, H, W), uint8 or floating-point within [0, 1]", ok)
    return x if x.dtype == torch.uint8 else x.to(torch.get_default_dtype())


def _whole(ranges: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """The ranges that are looked for, angles and hues on the whole circle."""
    if other := {"crop", "warp"} & set(ranges):
        raise ValueError(f"transform: received {other.pop()!r}; accepted are coordinates of groups of images")
    whole = {"angle": math.pi, "hue": 0.5}
    return {name: (-whole[name], whole[name]) if name in whole else ends for name, ends in ranges.items()}


def _group(ranges: Mapping[str, tuple[float, float]]) -> Group:
    """The group, with room for poses beyond the random transformations."""
    wide = {n: ends if n in ("angle", "hue") else (ROOM * ends[0], ROOM * ends[1]) for n, ends in ranges.items()}
    affine, colour = ([name for name in ranges if name in kind] for kind in (AFFINE, COLOUR))
    parts: list[Group] = []
    if affine:
        parts.append(Affine(*affine, factored=True, bounds={name: wide[name] for name in affine}))
    if colour:
        parts.append(HSV(*colour, bounds={name: wide[name] for name in colour}))
    return parts[0] if len(parts) == 1 else Product(*parts)  # pyright: ignore[reportReturnType]


def _on_black(x: Tensor) -> bool:
    """Whether the borders of images are dark, so that what moves is the subject."""
    level = as_signal(x[:1000], "bilinear")
    edges = (level[..., 0, :], level[..., -1, :], level[..., :, 0], level[..., :, -1])
    return bool(torch.cat(edges, -1).mean() < DARK)


def _words(names: Sequence[str], found: np.ndarray, looked: np.ndarray, arcs: Mapping[str, str]) -> list[str]:
    """A sentence for each coordinate; `arcs` is what is said of those on circles."""
    words = []
    for k, (name, whole) in enumerate(zip(names, looked.tolist(), strict=True)):
        low, middle, high = np.quantile(found[:, k], (0.05, 0.5, 0.95)).tolist()
        scale, unit = {"angle": (180 / math.pi, "°"), "hue": (360.0, "°")}.get(name, (1.0, ""))
        if middle <= LITTLE * whole:
            words.append(f"{name}: hardly occurs (±{middle * scale:.2g}{unit}, looked for ±{whole * scale:.3g}{unit}).")
        else:
            span = f"±{low * scale:.3g}{unit} to ±{high * scale:.3g}{unit} from image to image"
            words.append(f"{name}: {arcs.get(name, '')}±{middle * scale:.3g}{unit} ({span}).")
    return words
