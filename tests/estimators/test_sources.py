"""Where the images of a run come from: what counts as one, and on what ground it lies."""

import numpy as np
import pytest
from PIL import Image

from erlangen.estimators import RunConfig
from erlangen.estimators.sources import load_images, load_parts


def squares(folder, n=3, size=16):
    folder.mkdir(parents=True)
    for k in range(n):
        Image.fromarray(np.full((size, size), 40 * k, np.uint8)).save(folder / f"{k}.png")
    return folder


@pytest.mark.parametrize("name", ["a/.hidden.png", "__MACOSX/0.png", ".cache/0.png"])
def test_pictures_that_are_not_read_do_not_change_the_size_of_others(tmp_path, name):
    for label in ("a", "b"):
        squares(tmp_path / label)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    Image.new("L", (20, 20)).save(tmp_path / name)
    assert load_images(str(tmp_path)).x.shape == (6, 1, 16, 16)
    train, _, size = load_parts(RunConfig(data=str(tmp_path)))
    assert size is None
    assert train.x.shape == (6, 1, 16, 16)
