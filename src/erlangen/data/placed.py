"""Things somewhere in a larger picture, with the place of each: on black, or in a scene made from other pictures."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..utils.seeds import generator
from ..utils.shapes import check_count
from .sets import BoxedSet, DataSet, check_images

__all__ = ["placed", "scenes"]

CHUNK = 1024  # images resized at once, to bound memory


def placed(data: DataSet, canvas: int = 96, *, share: float = 0.5, seed: int) -> BoxedSet:
    """The set with every image somewhere on a black canvas, uniformly among the places where the whole of it is on it.

    Random placement of P-STN, section 5.1.2: the image has half the side of the canvas, $s_{true} = 0.5$, and is not
    turned. The paper does not name the canvas; that of the published code has 96 pixels.

    Args:
        data: square images.
        canvas: its side, in pixels.
        share: the side of the image as a share of that of the canvas, rounded to whole pixels.
        seed: of the places.

    Returns:
        The set, with the box of each image: its centre is the true translation, half its side the true scale.
    """
    check_images("data", data)
    _check_share("share", share)
    side = round(share * check_count("canvas", canvas))
    if data.x.shape[-2] != data.x.shape[-1]:
        raise ValueError(f"data: received {data!r}; accepted are square images")
    if side < 1:
        raise ValueError(f"share: received {share!r} of {canvas} pixels; accepted is a share of at least 1 pixel")
    corner = torch.randint(canvas - side + 1, (len(data), 2), generator=generator(seed))
    x = data.x.new_zeros((len(data), data.x.shape[1], canvas, canvas))
    for rows in torch.arange(len(data)).split(CHUNK):
        items = _resize(data.x[rows.to(data.x.device)], side)
        for i, item in zip(rows.tolist(), items, strict=True):
            left, top = corner[i].tolist()
            x[i, :, top : top + side, left : left + side] = item
    edges = torch.cat((corner, corner + side), 1).to(torch.get_default_dtype())
    return BoxedSet(x, data.y, data.classes, f"{data.name}-placed", (edges * (2 / canvas) - 1).to(data.x.device))


def scenes(
    signs: BoxedSet,
    backgrounds: DataSet,
    canvas: int = 128,
    *,
    sizes: tuple[float, float] = (0.2, 0.4),
    seed: int,
) -> BoxedSet:
    """Signs somewhere in scenes that are made from other pictures, with the true box of each.

    A stand-in for the street scenes of P-STN, section 5.1.3, whose pictures (the Mapillary traffic sign data set) are
    not to be had: real signs, such as `gtsrb10`, in scenes that are not streets. A scene is a mosaic of pictures at
    their own resolution, cut to the canvas at random; a sign keeps the surroundings within its frame, which fade into
    the scene, so that no straight edge gives it away. Numbers on such scenes are not comparable with the paper's.

    Args:
        signs: square pictures, with the box of the sign in each.
        backgrounds: other pictures, with as many channels.
        canvas: the side of a scene, in pixels.
        sizes: the least and the greatest side of a sign's frame, as shares of the canvas; uniform in between.
        seed: of backgrounds, sizes and places.

    Shape:
        x: `(N, C, canvas, canvas)`, uint8.
    """
    for name, data in (("signs", signs), ("backgrounds", backgrounds)):
        check_images(name, data)
        if data.x.dtype != torch.uint8 or data.x.shape[1] != signs.x.shape[1]:
            raise ValueError(f"{name}: received {data!r}; accepted are uint8 images of {signs.x.shape[1]} channels")
    if not isinstance(signs, BoxedSet):
        raise ValueError(f"signs: received {signs!r}; accepted is a BoxedSet, which has the box of each")
    if not isinstance(sizes, tuple | list) or len(sizes) != 2:
        raise ValueError(f"sizes: received {sizes!r}; accepted are the least and the greatest share")
    for share in sizes:
        _check_share("sizes", share)
    if sizes[0] > sizes[1]:
        raise ValueError(f"sizes: received {sizes!r}; accepted are the least and then the greatest share")
    chance, n = generator(seed), len(signs)
    least, most = (max(round(share * check_count("canvas", canvas)), 2) for share in sizes)
    side = torch.randint(least, most + 1, (n,), generator=chance)
    corner = (torch.rand(n, 2, generator=chance) * (canvas - side + 1)[:, None]).long()
    x = _mosaics(backgrounds.x.cpu(), n, canvas, chance)
    for i, (s, (left, top)) in enumerate(zip(side.tolist(), corner.tolist(), strict=True)):
        place = x[i, :, top : top + s, left : left + s]
        sign = F.interpolate(signs.x[i : i + 1].cpu().float(), (s, s), mode="bilinear", antialias=True)[0]
        place.copy_(torch.lerp(place.float(), sign, _fade(signs.box[i].cpu(), s)).round().clamp(0, 255))
    centre = (corner + side[:, None] / 2) * (2 / canvas) - 1
    box = centre.repeat(1, 2) + signs.box.cpu() * (side[:, None] / canvas)
    home, dtype = signs.x.device, torch.get_default_dtype()
    return BoxedSet(x.to(home), signs.y, signs.classes, f"{signs.name}-scenes", box.to(home, dtype))


def _mosaics(pictures: Tensor, n: int, canvas: int, chance: torch.Generator) -> Tensor:
    """Scenes of pictures side by side, cut out at random, `(n, C, canvas, canvas)`."""
    height, width = pictures.shape[-2:]
    down, across = -(-canvas // height) + 1, -(-canvas // width) + 1  # one more, to cut anywhere
    out = pictures.new_empty((n, pictures.shape[1], canvas, canvas))
    for scene in out:
        chosen = pictures[torch.randint(len(pictures), (down * across,), generator=chance)]
        whole = chosen.unflatten(0, (down, across)).permute(2, 0, 3, 1, 4).flatten(3).flatten(1, 2)
        top, left = (int(torch.randint(room, (), generator=chance)) for room in (height, width))
        scene.copy_(whole[:, top : top + canvas, left : left + canvas])
    return out


def _fade(box: Tensor, side: int) -> Tensor:
    """How opaque the pixels of a frame are: wholly within the box, and less and less to the edge of the frame."""
    at = (torch.arange(side, dtype=torch.float32) + 0.5) * (2 / side) - 1
    left, top, right, bottom = box.tolist()

    def along(low: float, high: float) -> Tensor:
        before, after = (at + 1) / max(low + 1, 1e-6), (1 - at) / max(1 - high, 1e-6)
        return torch.minimum(before, after).clamp(0, 1)

    return along(top, bottom)[:, None] * along(left, right)


def _resize(x: Tensor, side: int) -> Tensor:
    """Images resized to a square, without aliasing, in their own type."""
    if x.shape[-1] == side:
        return x
    y = F.interpolate(x.float(), (side, side), mode="bilinear", antialias=True)
    return y.round().clamp(0, 255).to(x.dtype) if x.dtype == torch.uint8 else y.to(x.dtype)


def _check_share(name: str, share: object) -> None:
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise ValueError(f"{name}: received {share!r}; accepted is a share of the side, 0 < {name} <= 1")
