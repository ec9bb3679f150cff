import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from erlangen.data import UnreadableImagesError, image_folder, loose_images

RNG = np.random.default_rng(0)


def picture(mode="RGB", size=(8, 6), colour=None):
    """A picture of (width, height) pixels."""
    if colour is not None:
        return Image.new(mode, size, colour)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    return Image.fromarray(RNG.integers(0, 256, shape, np.uint8))


def save(path, image, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


@pytest.fixture
def pets(tmp_path):
    """Two classes of three and two pictures, with things in between that are none."""
    root = tmp_path / "pets"
    for i in range(3):
        save(root / "cat" / f"{i}.png", picture())
    for i in range(2):
        save(root / "dog" / f"{i}.PNG", picture())
    for name in (".hidden.png", "notes.txt", "cat/.DS_Store", "cat/Thumbs.db", "dog/labels.csv"):
        (root / name).write_bytes(b"?")
    (root / ".git").mkdir()
    (root / "__MACOSX").mkdir()
    return root


def test_a_folder(pets):
    data = image_folder(pets)
    assert data.x.shape == (5, 3, 6, 8)
    assert data.y.tolist() == [0, 0, 0, 1, 1]
    assert data.classes == ("cat", "dog")
    assert data.name == "pets"
    assert data.skipped == ()
    for x, file in zip(data.x, data.files, strict=True):
        assert np.array_equal(x.permute(1, 2, 0), np.asarray(Image.open(file)))


def test_files_follow_a_subset(pets):
    part = image_folder(pets).subset(torch.tensor([4, 0]))
    assert [file.name for file in part.files] == ["1.PNG", "0.png"]
    assert part.y.tolist() == [1, 0]
    _, aside = image_folder(pets).split(0.5, seed=0)
    assert len(aside.files) == len(aside)


@pytest.mark.parametrize("size", [4, (4, 4)])
def test_pictures_are_resized_and_cropped_at_the_centre(tmp_path, size):
    wide = np.zeros((8, 40, 3), np.uint8)
    wide[:, 10:30] = 200  # the centre, in grey, and as far around it as the filter reaches
    save(tmp_path / "a" / "wide.png", Image.fromarray(wide))
    save(tmp_path / "b" / "tall.png", Image.fromarray(wide.transpose(1, 0, 2)))
    data = image_folder(tmp_path, size=size)
    assert data.x.shape == (2, 3, 4, 4)
    assert (data.x == 200).all()


def test_size_is_height_and_width(pets):
    assert image_folder(pets, size=(10, 5)).x.shape == (5, 3, 10, 5)


def test_sizes_that_differ_are_named(pets):
    save(pets / "dog" / "wide.png", picture(size=(9, 6)))
    with pytest.raises(
        ValueError, match=r"2 sizes, such as .*6×9 \(dog.wide.png\).*6×8 \(cat.0.png\); accepted is a size"
    ):
        image_folder(pets)
    assert len(image_folder(pets, size=6)) == 6


MODES = {
    "1": Image.fromarray(np.array([[0, 255]], np.uint8)).convert("1"),
    "L": Image.fromarray(np.array([[0, 255]], np.uint8)),
    "16 bits": Image.fromarray(np.array([[0, 65535]], np.uint16)),
    "LA": Image.merge(
        "LA", [Image.fromarray(np.array([[255, 255]], np.uint8)), Image.fromarray(np.array([[0, 255]], np.uint8))]
    ),
}


@pytest.mark.parametrize("mode", MODES)
def test_grey_pictures_of_every_kind_have_one_channel(tmp_path, mode):
    save(tmp_path / "a" / "x.png", MODES[mode])
    data = image_folder(tmp_path)
    assert data.x.tolist() == [[[[0, 255]]]]


def test_sixteen_bits_are_rounded(tmp_path):
    deep = np.array([[0, 127, 128, 257, 128 * 257, 65534]], np.uint16)
    save(tmp_path / "a" / "x.png", Image.fromarray(deep))
    save(tmp_path / "a" / "y.tif", Image.fromarray(deep))
    assert image_folder(tmp_path).x[:, 0, 0].tolist() == [[0, 0, 0, 1, 128, 255]] * 2


def test_grey_among_colour_has_three_equal_channels(pets):
    save(pets / "cat" / "grey.png", picture("L"))
    x = image_folder(pets).x[3]
    assert x.shape == (3, 6, 8)
    assert torch.equal(x[0], x[1])
    assert torch.equal(x[0], x[2])


def test_transparency_lies_on_the_background(tmp_path):
    pixels = np.array([[[200, 100, 0, 255], [200, 100, 0, 0], [200, 100, 0, 51]]], np.uint8)
    save(tmp_path / "a" / "x.png", Image.fromarray(pixels))
    palette = Image.new("P", (3, 1))
    palette.putpalette([200, 100, 0, 9, 9, 9])
    palette.putpixel((1, 0), 1)
    save(tmp_path / "b" / "x.png", palette, transparency=1)
    black, clear = image_folder(tmp_path, background=0).x[:, :, 0].unbind()
    assert black.T.tolist() == [[200, 100, 0], [0, 0, 0], [40, 20, 0]]
    assert clear.T.tolist() == [[200, 100, 0], [0, 0, 0], [200, 100, 0]]
    white = image_folder(tmp_path, background=255).x[0, :, 0]
    assert white.T.tolist() == [[200, 100, 0], [255, 255, 255], [244, 224, 204]]
    assert image_folder(tmp_path, background="white").x[0, :, 0].equal(white)
    by_itself = image_folder(tmp_path)  # what is opaque is rather dark
    assert by_itself.background == 255
    assert by_itself.x[0, :, 0].equal(white)


def test_cmyk_and_palettes_become_rgb(tmp_path):
    save(tmp_path / "a" / "cmyk.jpg", picture("CMYK", colour=(0, 255, 255, 0)), quality=95)
    save(tmp_path / "a" / "palette.gif", picture(colour=(255, 0, 0)).quantize(4))
    save(tmp_path / "a" / "ycc.jpg", picture(colour=(255, 0, 0)), quality=95)
    x = image_folder(tmp_path).x.double().mean((2, 3))
    assert (x - torch.tensor([255.0, 0, 0])).abs().max() < 6


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_of_the_camera_is_applied_unless_told_not_to(tmp_path, orientation):
    upright = RNG.integers(0, 256, (4, 6, 3), np.uint8)
    # What the camera stores is the inverse of what the tag asks for.
    undo = {1: 0, 2: 0, 3: 2, 4: 2, 5: 1, 6: 1, 7: -1, 8: -1}[orientation]
    stored = np.rot90(upright, undo)
    stored = (
        stored if orientation in (1, 3, 6, 8) else np.fliplr(stored) if orientation in (2, 4) else np.flipud(stored)
    )
    exif = Image.Exif()
    exif[0x0112] = orientation
    save(tmp_path / "a" / "x.png", Image.fromarray(np.ascontiguousarray(stored)), exif=exif)
    assert np.array_equal(image_folder(tmp_path).x[0].permute(1, 2, 0), upright)
    assert np.array_equal(image_folder(tmp_path, exif=False).x[0].permute(1, 2, 0), stored)


def bomb():
    """A PNG of 20,000 × 20,000 pixels in a few bytes."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 9)) + chunk(b"IEND", b"")
    )


def jpeg():
    buffer = io.BytesIO()
    picture(size=(64, 64)).save(buffer, "JPEG")
    return buffer.getvalue()


BAD = {
    "cut.jpg": (jpeg()[:700], "truncated"),
    "text.png": (b"<html>404</html>", "cannot identify"),
    "empty.jpeg": (b"", "cannot identify"),
    "bomb.png": (bomb(), "exceeds limit|more than PIL.Image.MAX_IMAGE_PIXELS"),
    "script.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "cannot identify"),
}


@pytest.mark.parametrize("size", [None, 6])
def test_unreadable_files_raise_together(pets, size):
    for name, (content, _) in BAD.items():
        (pets / "dog" / name).write_bytes(content)
    with pytest.raises(UnreadableImagesError) as caught:
        image_folder(pets, size=size)
    # Without a size headers are read first, and the one that is only cut short has a whole header.
    wanted = set(BAD) if size else set(BAD) - {"cut.jpg"}
    assert {file.path.name for file in caught.value.files} == wanted
    message = str(caught.value)
    assert "unreadable='skip'" in message
    assert all(name in message for name in wanted)


@pytest.mark.parametrize("size", [None, 6])
def test_unreadable_files_are_skipped_and_listed(pets, size):
    for name, (content, _) in BAD.items():
        (pets / "dog" / name).write_bytes(content)
    if size is None:
        (pets / "dog" / "cut.jpg").write_bytes(jpeg_of_size((8, 6))[:-30])
    data = image_folder(pets, size=size, unreadable="skip")
    assert data.counts() == [3, 2]
    assert {file.path.name for file in data.skipped} == set(BAD)
    for file in data.skipped:
        assert any(part in file.reason for part in BAD[file.path.name][1].split("|"))


def jpeg_of_size(size):
    buffer = io.BytesIO()
    picture(size=size).save(buffer, "JPEG")
    return buffer.getvalue()


def test_a_picture_above_the_limit_is_refused(pets, monkeypatch):
    """Twice the limit is Pillow's error; between, it would only warn."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(UnreadableImagesError, match=r"6×8 pixels, more than PIL.Image.MAX_IMAGE_PIXELS = 40"):
        image_folder(pets)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert len(image_folder(pets)) == 5


def test_pixels_without_a_range_are_refused(tmp_path):
    save(tmp_path / "a" / "x.tif", Image.fromarray(np.ones((4, 4), np.float32)))
    save(tmp_path / "a" / "y.tif", Image.fromarray(np.full((4, 4), 1 << 20, np.int32)))
    with pytest.raises(UnreadableImagesError, match=r"range is unknown: save them with 16 bits.*which are not 16 bits"):
        image_folder(tmp_path)


def test_of_stacks_the_first_page_is_read_and_that_is_said(tmp_path, caplog):
    pages = [Image.fromarray(np.full((4, 4), 1000 * k, np.uint16)) for k in range(3)]
    save(tmp_path / "x.tif", pages[0])
    assert len(loose_images(tmp_path)) == 1
    assert not caplog.text
    pages[0].save(tmp_path / "y.tif", save_all=True, append_images=pages[1:])
    assert len(loose_images(tmp_path)) == 2
    assert "several pages, such as y.tif with 3, the first page is read and no other" in caplog.text


def test_photographs_are_never_left_out_without_a_word(pets):
    save(pets / "dog" / "9.jfif", picture(), format="JPEG")
    save(pets / "dog" / "8.jpe", picture(), format="JPEG")
    assert image_folder(pets).counts() == [3, 4]
    for name in ("1.HEIC", "2.heif", "3.avif", "4.jp2", "5.jxl"):
        (pets / "cat" / name).write_bytes(b"?")
    with pytest.raises(
        UnreadableImagesError, match=r"5 of 12 files.*cat/1.HEIC: \.heic is not read, save it as"
    ) as error:
        image_folder(pets)
    assert len(error.value.files) == 5
    data = image_folder(pets, size=4, unreadable="skip")
    assert data.counts() == [3, 4]
    assert [file.path.name for file in data.skipped] == ["1.HEIC", "2.heif", "3.avif", "4.jp2", "5.jxl"]


def test_a_long_list_is_cut(tmp_path):
    save(tmp_path / "a" / "good.png", picture())
    for i in range(25):
        (tmp_path / "a" / f"bad{i:02d}.png").write_bytes(b"?")
    with pytest.raises(UnreadableImagesError, match=r"25 of 26 files .*bad09.png.*and 15 more") as caught:
        image_folder(tmp_path)
    assert len(caught.value.files) == 25
    assert "bad10" not in str(caught.value)


def test_a_class_of_which_nothing_is_left_is_named(pets):
    (pets / "eel").mkdir()
    (pets / "eel" / "x.png").write_bytes(b"?")
    with pytest.raises(ValueError, match="no file of 'eel' can be read"):
        image_folder(pets, unreadable="skip")


def test_a_class_of_one_is_read(pets):
    save(pets / "eel" / "x.png", picture())
    assert image_folder(pets).counts() == [3, 2, 1]


def folder_of(tmp_path, *files):
    root = tmp_path / "root"
    root.mkdir()
    for name in files:
        if name.endswith("/"):
            (root / name).mkdir(parents=True)
        else:
            save(root / name, picture())
    return root


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "root', which is empty; accepted is a folder with a sub-folder"),
        (("a.png", "b.jpg"), "holds 2 pictures but no sub-folders"),
        (("cat/", "dog/x.png"), "in which 'cat' has no pictures"),
        (("train/cat/x.png", "train/dog/x.png"), r"'train' holds folders \('cat', …\).*Perhaps '.*train' is meant"),
        (("cat/x.png", "cat/more/y.png"), r"'cat' holds folders \('more'"),
    ],
)
def test_folders_of_another_form_are_refused(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        image_folder(folder_of(tmp_path, *files))


def test_a_missing_folder_and_a_file_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"path: received '.*nowhere', which does not exist"):
        image_folder(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"path: received '.*file', which is a file"):
        image_folder(tmp_path / "file")


def test_names_that_read_alike_are_one_class(pets):
    """A folder that came from a Mac has the classes of one that did not, in the same order."""
    (pets / "cat").rename(pets / "Äpfel")
    apart = pets / "A\N{COMBINING DIAERESIS}pfel"
    (pets / "Äpfel").rename(apart)
    data = image_folder(pets)
    assert data.classes == ("dog", "Äpfel")
    assert data.y.tolist() == [0, 0, 1, 1, 1]
    assert {file.parent.name for file in data.files} == {"dog", apart.name}
    assert image_folder(pets, classes=["dog", apart.name]).classes == data.classes
    save(pets / "Äpfel" / "9.png", picture())
    assert image_folder(pets).y.tolist() == [0, 0, 1, 1, 1, 1]


def test_classes_to_expect(pets):
    data = image_folder(pets, classes=("eel", "dog", "cat"))
    assert data.classes == ("eel", "dog", "cat")
    assert data.counts() == [0, 2, 3]
    with pytest.raises(ValueError, match=r"classes: received .* the sub-folders 'dog'; accepted are 'cat', 'eel'"):
        image_folder(pets, classes=("cat", "eel"))


@pytest.mark.parametrize(
    "options",
    [
        {"size": 0},
        {"size": (4,)},
        {"size": "big"},
        {"unreadable": "ignore"},
        {"background": 256},
        {"background": "grey"},
    ],
)
def test_bad_arguments_are_refused(pets, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}: received"):
        image_folder(pets, **options)


def test_a_size_beyond_memory_is_refused_before_anything_is_read(pets):
    with pytest.raises(ValueError, match=r"size: received 9999999×9999999, at which 5 pictures need 1,500,000 GB"):
        image_folder(pets, size=9999999)


@pytest.mark.parametrize("name", ["__MACOSX", "__pycache__", ".thumbnails"])
def test_what_programs_leave_behind_is_no_class(pets, name):
    classes = image_folder(pets, size=8).classes
    (pets / name).mkdir(exist_ok=True)
    assert image_folder(pets, size=8).classes == classes
