"""Which transformations occur in a set of images, without labels: prototypes, distributions, natural variations."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from ..data import DataSet, FolderSet
from ..distributions.noise import Own
from ..models import SymmetryModel
from ..objectives import Blur, KnownPoses, PrototypeInference, TwoStages
from ..report.run_figures import Coordinate
from ..report.symmetries import SymmetryFindings
from ..train import Config, Inferred, Optimiser, TensorLoader, WarmupCosine, fit_symmetry, set_aside
from ..transforms import Affine
from ..transforms.warp import as_signal
from ..utils.io import provenance
from ..utils.seeds import apart, generator, seeded
from ..utils.shapes import check_count, check_positive, check_tensor, describe
from ..utils.words import percent, several
from .config import check_device
from .coordinates import AFFINE, Wanted
from .reporting import half_ranges
from .runs import known_device
from .sources import digest, some_rows
from .symmetry_errors import by_chance, density_errors, density_moves, following, pose_errors, untold
from .symmetry_group import check_colours, grains, group_of, whole_circles
from .symmetry_images import Ground, colour_of, ground_of, learnable, levels, on_black
from .symmetry_report import (
    Scales,
    Symmetries,
    as_bytes,
    at_the_end,
    image_names,
    least_of,
    named,
    recentred,
    spoken_of,
)
from .symmetry_run import begin, finish, read_finder
from .symmetry_words import arcs, caution, further, lead, usage, words

__all__ = ["SymmetryFinder"]

BATCH = 256  # images at a time, when nothing is trained
LEAST = 50  # samples for a range
DRAWS, VIEWS = 4, 2  # prototypes of each image that are inferred, and how many of them a step has for each sample
VALIDATIONS, PATIENCE = 40, 8  # in the second stage, and how many of them without improvement end it
NETWORK: dict[str, Any] = {"layers": 4, "width": 64, "bins": 12, "pool": 2, "noise": 0.1}
SETTINGS = ("steps", "batch_size", "samples", "copies", "anchored", "inference", "generative", "lr", "held", "seed")


class SymmetryFinder(BaseEstimator):
    """Finds which transformations occur in images, how far, for each of them and overall (SGM).

    Args:
        transform: names of the coordinates to search, with ranges if they are not the defaults; see `resolve_ranges`.
            Angles and hues are searched on the whole circle.
        steps: training steps of the inference network, and of the density.
        batch_size: images per step.
        samples: random transformations of each image in a step.
        copies: how many rotated copies vote on the pose, if an angle or a hue is searched; None for a plain network.
        anchored: whether poses start from moments. If None, they do where all coordinates are affine, with tx and ty
            among them, and the images have an even background.
        inference: the widths of the inference network.
        generative: the widths of the density's encoder.
        lr: the learning rates of both.
        held: the share of the images that is held out, to stop when the density gets worse on them: a density that
            knows each pose by heart takes it for the only one. With fewer than a few dozen images none are held out.
        seed: of weights, order and noise.
        device: "auto", "cpu", "cuda" or "mps".
        folder: where settings, weights, log and checkpoints go; nothing is kept if None. A finished run in it is
            replaced.
        resume: whether to continue the run in the folder, if there is one; it must have the same settings and images.
        progress: whether a bar is shown; if None, on a terminal.

    After `fit`: `model_`, the `SymmetryModel`; `history_`; `images_`, as given, and `prototypes_`, `(N, C, H, W)`;
    `ground_`, the colour of an even background, which `model_` sees as black, so that a rotated picture on white paper
    has white corners; `noise_`, how far a pixel may be from that colour and still count as background. Both are zero
    where the background is uneven, or colours are searched.

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
        held: float = 0.1,
        seed: int = 0,
        device: str = "auto",
        folder: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
    ) -> None:
        self.transform, self.steps, self.batch_size, self.samples = transform, steps, batch_size, samples
        self.copies, self.anchored, self.inference, self.generative = copies, anchored, inference, generative
        self.lr, self.held, self.seed, self.device, self.progress = lr, held, seed, device, progress
        self.folder, self.resume = folder, resume

    def fit(self, X: DataSet | Tensor | np.ndarray, y: object = None) -> Self:
        """Learns prototypes and their transformations from images; labels are not looked at.

        Args:
            X: a data set, or images `(N, C, H, W)`, uint8 or within [0, 1].
            y: ignored, as scikit-learn has it.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)  # a fit that fails leaves nothing that is half new
        with torch.inference_mode(False):  # a caller's inference mode would make weights that cannot be trained
            return self._fit(X)

    def _fit(self, X: DataSet | Tensor | np.ndarray) -> Self:
        self.check()
        x, ranges = learnable(X), self.looked_for()
        check_colours(ranges, x)
        self.shape_, self.ranges_ = tuple(x.shape[1:]), ranges
        ground = ground_of(x) if set(ranges) <= set(AFFINE) else None
        self.ground_, self.noise_ = ground or ([0.0] * len(x[0]), 0.0)
        movable = ground is not None and {"tx", "ty"} <= set(ranges)
        self.anchored_ = movable if self.anchored is None else self.anchored
        objective = self._objective()
        self.folder_ = None if self.folder is None else Path(os.path.expanduser(self.folder))
        if self.folder_ is not None:
            run = begin(self.folder_, self._record(digest((self.shape_, str(x.dtype)), x)), resume=self.resume)
            self.ground_, self.noise_ = run["ground"], run["noise"]
        lit = on_black(x, self._ground, objective.model.group.bounds)
        seen, aside = set_aside(lit, self.held, seed=self.seed, batch_size=BATCH)
        loader = TensorLoader(seen, batch_size=min(self.batch_size, len(seen)), seed=self.seed, drop_last=True)
        batches = Inferred(loader, objective, draws=DRAWS)
        judges = aside and Inferred(aside, objective, draws=DRAWS)
        self.history_ = fit_symmetry(objective, batches, self._config(judged=aside is not None), validation=judges)
        self.model_ = objective.model.eval()
        self.facts_ = self._facts(len(x), len(seen))
        if self.folder_ is not None:
            finish(self.folder_, self.model_, self.facts_)
        self.prototypes_, self.images_ = self.predict(x), X
        return self

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, device: torch.device | str = "cpu") -> Self:
        """A finder that was fitted with a folder, or by `erlangen symmetries`; it has no history or images.

        Args:
            folder: what it was fitted with.
            device: where the model goes.

        Raises:
            ValueError: there is no such run, it was not finished, its files are damaged, or there is no such device.
        """
        folder = Path(os.path.expanduser(folder))
        record, put = read_finder(folder, NETWORK, SETTINGS)
        finder = cls(record["ranges"], **record["settings"])
        finder.shape_, finder.ranges_ = tuple(record["shape"]), finder.looked_for()
        finder.anchored_, finder.ground_, finder.facts_ = record["anchored"], record["ground"], record["facts"]
        finder.noise_ = record["noise"]
        finder.folder_ = folder  # and not `finder.folder`, in which the next fit would replace what was loaded
        finder.model_ = finder._build()
        put(finder.model_)
        finder.model_.to(known_device(device)).eval()
        return finder

    def looked_for(self) -> dict[str, tuple[float, float]]:
        """The coordinates that are looked for and their ranges, angles and hues on the whole circle."""
        return whole_circles(self.transform)

    def predict(self, X: DataSet | Tensor | np.ndarray) -> Tensor:
        """The prototypes of images, `(N, C, H, W)`, on the CPU."""
        return self._each(X, self._model().prototype, image=True)

    def poses(self, X: DataSet | Tensor | np.ndarray) -> Tensor:
        """The coordinates of images, as seen from their prototypes, `(N, d)`."""
        return self._each(X, lambda x: self._model().pose(x).median)

    def score_samples(self, X: DataSet | Tensor | np.ndarray) -> Tensor:
        """How natural the pose of each image is, a log-density, `(N,)`."""
        return self._each(X, self._model().log_prob)

    def resample(self, X: DataSet | Tensor | np.ndarray, n: int = 1, *, seed: int = 0) -> Tensor:
        """Natural variations of images, `(n, N, C, H, W)`; those of an image depend on it, n and the seed alone."""
        size = check_count("n", n)
        return self._each(X, lambda x: self._model().transform(x, self._drawn(x, size, seed)), dim=1, image=True)

    def report(
        self, X: DataSet | Tensor | np.ndarray | None = None, *, shown: int = 8, samples: int = 1000, images: int = 500
    ) -> Symmetries:
        """Which transformations occur in images, and how far.

        Args:
            X: images; those that it was fitted on if None.
            shown: how many of them the page shows.
            samples: of the transformations of each.
            images: how many are measured, at most; of more, some at random, always the same.
        """
        X = self._reported(X, shown=shown, samples=samples, images=images)
        every, group = self._seen(X), self._model().group
        measured = some_rows(len(every), images)
        x = every[measured]
        drawn = self._each(x, lambda part: self._drawn(part, samples, self.seed), dim=1)
        v, poses = recentred(drawn, group.names), self.poses(x)
        ended = at_the_end(poses, self._model().inference.bounds, group.periodic)
        beyond = further(self.ranges_, dict(zip(group.names, ended.tolist(), strict=True)))
        found = half_ranges(v, group.bounds.cpu(), group.periodic).double().numpy()
        few = torch.linspace(0, len(x) - 1, min(shown, len(x))).long()
        ends = [self.ranges_[name] for name in group.names]
        scales = self._scales(x, v, recentred(poses[None], group.names, drawn)[0])
        rough, unlearned = untold(found, *scales[1:])
        follow = following(self._moved(x, density_moves), group.periodic) & ~(rough | unlearned)
        left_out = tuple(file.path.as_posix() for file in X.skipped) if isinstance(X, FolderSet) else ()
        circles = arcs(v, group.names, (2 * scales.looked).tolist(), group.periodic, spoken_of(found, scales.least))
        unread = {"unreadable files": f"{len(left_out)}, left out"} if left_out else {}
        findings = SymmetryFindings(
            title="Symmetries",
            lead=lead(every, len(x)),
            caution=caution(every, group.names, named(group.names, follow), self._ground),
            words=words(group.names, found, scales, circles, beyond),
            coordinates=list(map(Coordinate, group.names, *zip(*ends, strict=True), group.periodic)),
            half_ranges=found,
            untold=named(group.names, rough | unlearned),
            rough=named(group.names, rough),
            inputs=as_bytes(as_signal(x[few], "bilinear")),
            prototypes=as_bytes(self.predict(x[few])),
            resampled=[as_bytes(views) for views in self.resample(x[few], 3, seed=self.seed).transpose(0, 1)],
            v=[v[:, k].double().numpy() for k in few.tolist()],
            facts={**self.facts_, **unread},
            code=usage(self.folder_),
            about=provenance(device=group.bounds.device),
        )
        return Symmetries(group.names, image_names(X, measured), found, *scales, ended, left_out, findings)

    def _model(self) -> SymmetryModel:
        if not hasattr(self, "model_"):
            raise ValueError("SymmetryFinder: received no images yet; accepted is a call of fit first")
        return self.model_

    def _reported(self, X: DataSet | Tensor | np.ndarray | None, **counts: int) -> DataSet | Tensor | np.ndarray:
        """The images that a report is about, after a check of its settings."""
        for name, n in counts.items():
            check_count(name, n)
        if (few := counts["samples"]) < LEAST:
            raise ValueError(f"samples: received {few}; accepted are at least {LEAST}, of which 98 % are some")
        self._model()
        if (found := getattr(self, "images_", None) if X is None else X) is None:
            raise ValueError("X: received none for a finder that was loaded, which has no images; accepted are some")
        return found

    def check(self) -> None:
        """Raises a `ValueError` for wrong settings, as `fit` does before it reads images, writes or trains anything."""
        for name, kind, check in (("steps", "numbers", check_count), ("lr", "rates", check_positive)):
            pair = getattr(self, name)
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                accepted = f"two {kind}, of the inference network and of the density"
                raise ValueError(f"{name}: received {describe(pair)}; accepted are {accepted}")
            for value in pair:
                check(name, value)
        check_count("batch_size", self.batch_size)
        check_device(self.device)
        if not isinstance(self.held, int | float) or not 0 <= self.held < 1:
            raise ValueError(f"held: received {self.held!r}; accepted is a share, 0 <= held < 1")
        if self.resume and self.folder is None:
            raise ValueError("resume: received True without a folder; accepted with the folder of the run")
        names = list(self.looked_for())
        if self.copies is not None and "angle" in names and ("tx" in names) != ("ty" in names):
            raise ValueError(f"transform: received {', '.join(names)}; accepted are tx and ty beside angle, or neither")

    def _record(self, images: str) -> dict[str, Any]:
        """What a folder keeps of settings and data."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        return {
            "ranges": self.ranges_,
            "settings": {**settings, "inference": list(self.inference), "generative": list(self.generative)},
            "network": NETWORK,
            "anchored": self.anchored_,
            "ground": self.ground_,
            "noise": self.noise_,
            "shape": list(self.shape_),
            "digest": images,
        }

    @property
    def _ground(self) -> Ground:
        return Ground(self.ground_, self.noise_)

    def _build(self) -> SymmetryModel:
        group = group_of(self.ranges_)
        copies = self.copies if any(group.periodic) else None
        widths: Any = {"inference": self.inference, "generative": self.generative}
        return SymmetryModel.over(group, self.shape_, copies=copies, anchored=self.anchored_, **widths, **NETWORK)

    def _objective(self) -> TwoStages:
        with seeded(self.seed):
            model = self._build()
            settings: Any = {"ranges": self.ranges_, "samples": self.samples}
            blur = Blur(2.0, max(1, self.steps[0] // 10))
            # Behind the clips of colours the price on what is lost has a gradient of the wrong sign.
            price = 0.1 if isinstance(model.group, Affine) else 0.0
            prototypes = PrototypeInference(model, invertibility=price, blur=blur, **settings)
            settings |= {
                "samples": VIEWS * self.samples,
                "grain": grains(model.group.names, self.ranges_, max(self.shape_[1:])),
            }
            density = KnownPoses(model, **settings)
            return TwoStages(prototypes, density, self.steps[0])

    def _scales(self, x: Tensor, v: Tensor, poses: Tensor) -> Scales:
        """What the ranges of images are compared with, given samples v of their transformations, and their poses."""
        group = self._model().group
        looked = np.array([(self.ranges_[name][1] - self.ranges_[name][0]) / 2 for name in group.names])
        error = self._errors(x)
        least = least_of(group.names, looked, max(self.shape_[1:]), error)
        lie: Any = (v, poses, (2 * looked).tolist(), group.periodic)
        return Scales(looked, least, error, density_errors(*lie), by_chance(*lie))

    def _errors(self, x: Tensor) -> np.ndarray:
        """How wrong the pose of the median image is, in each coordinate."""
        return self._moved(x, pose_errors).abs().median(0).values.double().numpy()

    def _moved(self, x: Tensor, ask: Callable[..., Tensor]) -> Tensor:
        """What `ask` finds about images that it transforms at random: the same at every call."""
        with seeded(self.seed):
            return self._each(x, lambda part: ask(self._model(), self.ranges_, part))

    def _config(self, *, judged: bool) -> Config:
        def optimiser(lr: float, steps: int, clip: float) -> Optimiser:
            schedule = WarmupCosine(max(1, steps // 20), 0.01)
            return Optimiser("adamw", lr, weight_decay=1e-4, clip=clip, schedule=schedule)

        (first, second), rates = self.steps, self.lr
        groups = {"inference": optimiser(rates[0], first, 3.0), "density": optimiser(rates[1], second, 2.0)}
        places: Any = {"accelerator": self.device, "progress": self.progress, "seed": self.seed}
        if judged:
            places |= {"validate_every": max(1, second // VALIDATIONS), "patience": PATIENCE, "monitor": "nll"}
        if self.folder_ is not None:
            places |= {"folder": self.folder_, "resume": self.resume, "checkpoint_seconds": 60.0, "keep": 1}
        return Config(steps=first + second, groups=groups, **places)

    @torch.no_grad()
    def _each(self, X: Any, work: Callable[[Tensor], Tensor], dim: int = 0, image: bool = False) -> Tensor:
        """What `work` makes of images that are put on black; if those are images, they get their ground back."""
        home, x = self._model().group.bounds, self._seen(X)
        x = x.to(home.dtype) if x.is_floating_point() else x
        parts = [work(on_black(part.to(home.device), self._ground, home)).cpu() for part in x.split(BATCH)]
        found = torch.cat(parts, dim)
        return found + colour_of(self._ground, found) if image and any(self.ground_) else found

    def _drawn(self, x: Tensor, n: int, seed: int) -> Tensor:
        """Transformations of prototypes, `(n, B, d)`, for each image with noise that depends on no other image."""
        q = self._model().density(x)
        # Steps of a byte, with edges where neither whole bytes nor halves of them are: how images are stored, or what
        # the colour of their ground is, must not matter.
        shown = (255 * self._model().signal(x) + 0.3).floor().short()
        own = [generator(apart(seed, int(digest("", image), 16))) for image in shown]
        return q.draw(Own(torch.Size([n]), own, q.like), pathwise=False).v

    def _seen(self, X: Any) -> Tensor:
        """Images of the shape that it was fitted on."""
        self._model()
        x, (channels, height, width) = levels(X), self.shape_
        accepted = f"images (N, {channels}, {height}, {width}), as in fit"
        return check_tensor("X", x, accepted, tuple(x.shape[1:]) == self.shape_)

    def _facts(self, images: int, seen: int) -> dict[str, str]:
        seconds = max((row["seconds"] for row in self.history_.rows), default=0.0)
        content, (first, second) = self.history_.column("content"), self.steps
        batch, best = min(self.batch_size, seen), self.history_.best
        kept = second if best is None or seen == images else best["step"] - first
        many = several(seen, "image")
        aside = f", {images - seen:,} were set aside to judge by" if seen < images else ""
        return {
            "coordinates": ", ".join(self._model().group.names),
            "training": f"{first:,} and {kept:,} steps of {batch} from {many}{aside}, {seconds:.0f} s",
            "content left in prototypes": percent(content[-1]) if content else "unknown",
            "seed": str(self.seed),
        }
