"""The example of the page on series: three hundred noisy bumps, aligned."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..data import warped_bumps
from ..objectives import variance_about_mean
from ..report.alignment import alignment_picture
from ..utils.io import provenance, write_bytes, write_json

__all__ = ["align_bumps"]

TRIALS = 300


def align_bumps(images: Path, results: Path, progress: Callable[[float, str], None] | None = None) -> list[Path]:
    """Aligns trials, and others that were not in training; draws `series.png`, writes `bumps.json`.

    Args:
        images: the folder of the picture.
        results: the folder of the numbers.
        progress: called with the share done, from 0 to 1, and what is being done.
    """
    import torch

    from .series_aligner import SeriesAligner

    tell = progress or (lambda share, what: None)
    train, unseen = (warped_bumps(TRIALS, seed=seed).x for seed in (0, 1))
    tell(0.0, "aligning bumps")
    start = time.perf_counter()
    aligner = SeriesAligner(device="cpu").fit(train.numpy())
    seconds = time.perf_counter() - start
    rows: list[dict[str, Any]] = []
    for name, x in (("training", train), ("unseen", unseen)):
        after = torch.from_numpy(aligner.transform(x.numpy()))
        spread = [float(variance_about_mean(s)) for s in (x, after)]
        rows.append({"part": name, "before": spread[0], "after": spread[1], "falls": spread[0] / spread[1]})
    picture, numbers = images / "series.png", results / "bumps.json"
    titles = (f"{TRIALS} trials that it never saw", f"aligned: the variance is {rows[1]['falls']:.1f} times smaller")
    write_bytes(picture, alignment_picture(unseen[:, 0].numpy(), aligner.transform(unseen.numpy())[:, 0], titles))
    write_json(numbers, {"rows": rows, "provenance": provenance(aligner.get_params(), device="cpu", seconds=seconds)})
    tell(1.0, "aligned bumps")
    return [picture, numbers]
