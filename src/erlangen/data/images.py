"""Decoding: pictures of every kind become grey or RGB in uint8."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from .files import decoded

__all__ = ["ALIEN", "SUFFIXES", "decode_all", "image_size", "opaque_level", "page_count", "quiet_bombs", "read_image"]

# Only formats whose decoders decode: PostScript, for one, would be run.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = frozenset(
    (".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)
ALIEN = frozenset({".avif", ".heic", ".heif", ".jp2", ".jxl"})  # kinds of photographs that are not read
ORIENTATION = 0x0112  # the EXIF tag; 5 to 8 swap the sides


@contextmanager
def quiet_bombs() -> Iterator[None]:
    """Hides Pillow's warning of pictures with too many pixels, for here they are refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        yield


def _open(source: Path | bytes) -> Image.Image:
    """Reads the header; refuses pictures of more pixels than `PIL.Image.MAX_IMAGE_PIXELS`."""
    if isinstance(source, Path) and source.suffix.lower() in ALIEN:
        raise ValueError(f"{source.suffix.lower()} is not read, save it as .jpg or .png")
    image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS)
    limit, (width, height) = Image.MAX_IMAGE_PIXELS, image.size
    if limit is not None and width * height > limit:
        image.close()
        raise ValueError(f"{height}×{width} pixels, more than PIL.Image.MAX_IMAGE_PIXELS = {limit}")
    return image


def image_size(source: Path | bytes, *, exif: bool = True) -> tuple[int, int]:
    """Height and width of a picture, from its header alone."""
    with _open(source) as image:
        width, height = image.size
        swapped = exif and image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
    return (width, height) if swapped else (height, width)


def page_count(source: Path | bytes) -> int:
    """How many pages or frames a picture has, of which `read_image` reads the first."""
    with _open(source) as image:
        return getattr(image, "n_frames", 1)


def read_image(
    source: Path | bytes, *, size: tuple[int, int] | None = None, exif: bool = True, background: int = 0
) -> np.ndarray:
    """Reads a picture; of several frames or pages, the first.

    Args:
        source: a file or its content.
        size: height and width: the picture is resized to cover them and cropped at the centre.
        exif: whether to apply the orientation that the camera noted.
        background: the grey on which transparent pixels lie.

    Shape:
        result: `(H, W, 1)` for grey pictures, else `(H, W, 3)`; uint8.

    Raises:
        Exception: anything that Pillow raises for a file that it cannot read.
    """
    with _open(source) as image:
        image.load()
        if exif:
            image = ImageOps.exif_transpose(image)
        pixels = _pixels(image, background)
    if size is not None and pixels.shape[:2] != size:
        flat = Image.fromarray(pixels if pixels.shape[-1] == 3 else pixels[..., 0])
        pixels = np.asarray(ImageOps.fit(flat, (size[1], size[0]), Image.Resampling.LANCZOS))
    return pixels.reshape(*pixels.shape[:2], -1)


def _pixels(image: Image.Image, background: int) -> np.ndarray:
    """Grey `(H, W, 1)` or RGB `(H, W, 3)` in uint8, from any mode."""
    if image.mode == "F":
        raise ValueError("pixels in floating-point, whose range is unknown: save them with 16 bits")
    if image.mode.startswith("I"):
        return _eight_bits(np.asarray(image))[..., None]
    layers = _layers(image)
    if layers is not None:
        return _flatten(layers, background)
    grey = image.mode in ("1", "L")
    return np.atleast_3d(np.asarray(image.convert("L" if grey else "RGB")))


def _layers(image: Image.Image) -> np.ndarray | None:
    """Pixels whose last channel is their opacity, if a picture has one, from any mode but 16 bits."""
    if image.mode in ("LA", "La"):
        return np.asarray(image.convert("LA"))
    return np.asarray(image.convert("RGBA")) if image.has_transparency_data else None


def opaque_level(source: Path | bytes) -> float | None:
    """The mean level of what is opaque in a picture, within [0, 1]; None if nothing in it is transparent, or all is."""
    with _open(source) as image:
        layers = None if image.mode.startswith("I") else _layers(image)
    if layers is None or layers[..., -1].min() == 255 or layers[..., -1].max() == 0:
        return None
    return float(np.average(layers[..., :-1].mean(-1), weights=layers[..., -1])) / 255


def _eight_bits(deep: np.ndarray) -> np.ndarray:
    if deep.min() < 0 or deep.max() > 65535:
        raise ValueError(f"pixels from {deep.min()} to {deep.max()}, which are not 16 bits")
    return ((deep.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)


def _flatten(pixels: np.ndarray, background: int) -> np.ndarray:
    """Lays pixels whose last channel is their opacity on a grey."""
    colour, alpha = pixels[..., :-1].astype(np.uint32), pixels[..., -1:].astype(np.uint32)
    return ((colour * alpha + background * (255 - alpha) + 127) // 255).astype(np.uint8)


def decode_all(name: str, files: Sequence[Path], jpegs: Sequence[Callable[[], bytes]]) -> Tensor:
    """Decodes pictures of one size to RGB, once: they are kept in the cache.

    Args:
        name: what to call the file in the cache.
        files: what the pictures are read from.
        jpegs: gives the content of each picture.

    Shape:
        result: `(N, 3, H, W)`, uint8.
    """

    def make() -> np.ndarray:
        pixels = [_decode(jpeg()) for jpeg in jpegs]
        out = np.empty((len(pixels), 3, *pixels[0].shape[:2]), np.uint8)
        for place, picture in zip(out, pixels, strict=True):
            place[:] = picture.transpose(2, 0, 1)  # a grey one is copied to all channels
        return out

    return torch.from_numpy(decoded(f"{name}-{len(jpegs)}", files, make))


def _decode(content: bytes) -> np.ndarray:
    try:
        return read_image(content)
    except (OSError, SyntaxError) as error:
        raise ValueError(f"a picture cannot be decoded: {error}") from error
