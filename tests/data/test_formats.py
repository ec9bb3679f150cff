"""The readers of named sets: on tiny files in the official formats, and on the real ones where they are at hand."""

import gzip
import hashlib
import io
import lzma
import os
import pickle
import tarfile
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from erlangen.data import (
    DataUnavailableError,
    cifar10,
    fashion_mnist,
    gtsrb10,
    load,
    mnist,
    named_sets,
    tiny_imagenet,
    tiny_imagenet50,
)

RNG = np.random.default_rng(0)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# MNIST


def idx(array):
    return b"\0\0\x08" + bytes([array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


X, Y = RNG.integers(0, 256, (7, 28, 28), np.uint8), np.arange(7, dtype=np.uint8)


def write_mnist(folder, x=X, y=Y, packed=True, stem="train"):
    for part, array in (("images-idx3", x), ("labels-idx1", y)):
        content = idx(array)
        name = f"{stem}-{part}-ubyte"
        write(folder / (f"{name}.gz" if packed else name), gzip.compress(content) if packed else content)


@pytest.mark.parametrize(("folder", "packed"), [("mnist", True), ("mnist", False), ("MNIST/raw", False)])
def test_mnist(root, folder, packed):
    write_mnist(root / folder, packed=packed)
    write_mnist(root / folder, X[:2], Y[:2], packed=packed, stem="t10k")
    data = mnist()
    assert data.x.shape == (7, 1, 28, 28)
    assert np.array_equal(data.x[:, 0], X)
    assert data.y.tolist() == Y.tolist()
    assert len(mnist("test")) == 2


def test_fashion_mnist_is_another_folder(root):
    write_mnist(root / "mnist")
    with pytest.raises(DataUnavailableError):
        fashion_mnist()
    write_mnist(root / "fashion_mnist")
    assert fashion_mnist().classes[9] == "Ankle boot"


BROKEN = {
    "cut": (lambda c: gzip.compress(c)[:-20], "train-images-idx3-ubyte.gz: not readable .*fetch the file again"),
    "no gzip": (lambda c: c, "not readable .*gzip"),
    "flipped bits": (lambda c: gzip.compress(c)[:40] + b"????" + gzip.compress(c)[44:], "not readable"),
    "another type": (lambda c: gzip.compress(b"\0\0\x0d" + c[3:]), "no idx file of bytes"),
    "too short": (lambda c: gzip.compress(c[:-1]), r"5487 values for the shape \(7, 28, 28\)"),
    "empty": (lambda c: b"", "no idx file of bytes"),
    "text": (lambda c: gzip.compress(b"<html>not found</html>"), "no idx file of bytes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_idx_file_is_named(root, name):
    change, message = BROKEN[name]
    write_mnist(root / "mnist")
    write(root / "mnist" / "train-images-idx3-ubyte.gz", change(idx(X)))
    with pytest.raises(ValueError, match=message):
        mnist()


def test_labels_that_do_not_match_are_refused(root):
    write_mnist(root / "mnist", X, Y[:5])
    with pytest.raises(ValueError, match=r"received the shapes \(7, 28, 28\) and \(5,\)"):
        mnist()
    write_mnist(root / "mnist", X, Y + 4)
    with pytest.raises(ValueError, match=r"train-labels-idx1-ubyte.gz: .*labels without a class"):
        mnist()


# CIFAR-10

PIXELS = {name: RNG.integers(0, 256, (4, 3, 32, 32), np.uint8) for name in [*(f"data_batch_{i}" for i in range(1, 6))]}
PIXELS["test_batch"] = RNG.integers(0, 256, (3, 3, 32, 32), np.uint8)
TRAIN = np.concatenate([PIXELS[f"data_batch_{i}"] for i in range(1, 6)])


def labels(name):
    return [(i + len(name) + int(name[-1:] if name[-1].isdigit() else 0)) % 10 for i in range(len(PIXELS[name]))]


def binary():
    rows = {
        n: np.concatenate([np.array(labels(n), np.uint8)[:, None], x.reshape(len(x), -1)], 1) for n, x in PIXELS.items()
    }
    return {f"cifar-10-batches-bin/{name}.bin": value.astype(np.uint8).tobytes() for name, value in rows.items()}


def pickled(protocol=2):
    batches = {n: {b"data": x.reshape(len(x), -1), b"labels": labels(n)} for n, x in PIXELS.items()}
    return {f"cifar-10-batches-py/{name}": pickle.dumps(batch, protocol=protocol) for name, batch in batches.items()}


def compact():
    """Codes as the compact files do, the plain way: pixel by pixel."""
    files = {}
    for name, x in PIXELS.items():
        r, g, b = x.astype(int).transpose(1, 0, 2, 3)
        planes = np.stack([g, r - g + 128, b - g + 128]) & 255
        coded = np.zeros_like(planes)
        for i in range(32):
            for j in range(32):
                n = planes[..., i - 1, j] if i else None
                w = planes[..., i, j - 1] if j else None
                if i and j:
                    guess = np.median(np.stack([n, w, n + w - planes[..., i - 1, j - 1]]), 0).astype(int)
                else:
                    guess = n if i else w if j else 0
                coded[..., i, j] = (planes[..., i, j] - guess) & 255
        files[f"cifar10/{name}.med.xz"] = lzma.compress(coded.astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    train = np.concatenate([labels(f"data_batch_{i}") for i in range(1, 6)]).astype(np.uint8)
    np.savez(buffer, train=train, test=np.array(labels("test_batch"), np.uint8))
    return files | {"cifar10/labels.npz": buffer.getvalue()}


def packed(files, name):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return {name: buffer.getvalue()}


CIFAR = {
    "binary": binary,
    "binary, packed": lambda: packed(binary(), "cifar10/cifar-10-binary.tar.gz"),
    "python": pickled,
    "python, protocol 4": lambda: pickled(4),
    "python, packed": lambda: packed(pickled(), "cifar-10-python.tar.gz"),
    "compact": compact,
}


@pytest.mark.parametrize("kind", CIFAR)
def test_cifar10(root, kind):
    for name, content in CIFAR[kind]().items():
        write(root / name, content)
    for _ in range(2):  # the second time from the cache, where one is kept
        data = cifar10()
        assert np.array_equal(data.x, TRAIN)
        assert data.y.tolist() == [label for i in range(1, 6) for label in labels(f"data_batch_{i}")]
        assert np.array_equal(cifar10("test").x, PIXELS["test_batch"])


def test_pickles_of_old_numpy_are_read(root):
    for name, content in pickled().items():
        assert b"numpy._core.multiarray" in content or b"numpy.core.multiarray" in content
        write(root / name, content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert np.array_equal(cifar10().x, TRAIN)


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def test_a_pickle_that_runs_code_is_refused(root, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, content in pickled().items():
        write(root / name, content)
    write(root / "cifar-10-batches-py" / "data_batch_3", pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(ValueError, match=r"not readable .the pickle asks for .*system, which no data set needs"):
        cifar10()
    assert not (tmp_path / "evil").exists()


CIFAR_BROKEN = {
    "cut record": ("cifar-10-batches-bin/data_batch_2.bin", lambda c: c[:-1], "cannot reshape"),
    "missing batch": ("cifar-10-batches-bin/data_batch_2.bin", None, "No such file.*data_batch_2.bin"),
    "label 10": ("cifar-10-batches-bin/data_batch_2.bin", lambda c: b"\x0a" + c[1:], "labels without a class"),
}


@pytest.mark.parametrize("name", CIFAR_BROKEN)
def test_a_broken_cifar_is_named(root, name):
    path, change, message = CIFAR_BROKEN[name]
    for file, content in binary().items():
        write(root / file, content)
    if change is None:
        (root / path).unlink()
    else:
        write(root / path, change((root / path).read_bytes()))
    with pytest.raises(ValueError, match=f"cifar-10-batches-bin: not readable .*{message}"):
        cifar10()


def test_an_archive_cut_short_is_named(root):
    for file, content in packed(binary(), "cifar-10-binary.tar.gz").items():
        write(root / file, content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz: not readable"):
        cifar10()


def test_a_missing_member_is_named(root):
    files = {name: content for name, content in binary().items() if "batch_4" not in name}
    for file, content in packed(files, "cifar-10-binary.tar.gz").items():
        write(root / file, content)
    with pytest.raises(ValueError, match=r"it lacks 'data_batch_4.bin'"):
        cifar10()


# Tiny ImageNet

WNIDS = [f"n{i:08d}" for i in (7, 3, 5)]


def jpeg(shade, grey=False):
    image = Image.new("L" if grey else "RGB", (64, 64), shade if grey else (shade, 255 - shade, 30))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


def tiny():
    files = {"wnids.txt": "\n".join(WNIDS).encode(), "words.txt": b"n00000003\tcat, tom\nn00000007\tdog\nn1\tother\n"}
    for c, wnid in enumerate(WNIDS):
        files[f"train/{wnid}/{wnid}_boxes.txt"] = b""
        for k in (10, 2, 0):
            files[f"train/{wnid}/images/{wnid}_{k}.JPEG"] = jpeg(60 * c + 2 * k, grey=k == 2)
    notes = [f"val_{k}.JPEG\t{WNIDS[k % 3]}\t0\t0\t62\t62" for k in range(12)]
    files["val/val_annotations.txt"] = "\n".join(notes).encode()
    files |= {f"val/images/val_{k}.JPEG": jpeg(5 * k) for k in range(12)}
    return {f"tiny-imagenet-200/{name}": content for name, content in files.items()}


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return {"tiny-imagenet-200.zip": buffer.getvalue()}


@pytest.mark.parametrize("pack", [dict, zipped])
def test_tiny_imagenet(root, pack):
    for name, content in pack(tiny()).items():
        write(root / name, content)
    for _ in range(2):
        data = tiny_imagenet()
        assert data.x.shape == (9, 3, 64, 64)
        assert data.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert data.classes == ("dog", "cat, tom", "n00000005")
        shades = data.x[:, 0].double().mean((1, 2))
        assert (shades - torch.tensor([0.0, 4, 20, 60, 64, 80, 120, 124, 140])).abs().max() < 3
        assert torch.equal(data.x[1, 0], data.x[1, 2])  # the grey one
        test = tiny_imagenet("test")
        assert test.y.tolist() == [k % 3 for k in range(12)]
        assert (test.x[:, 0].double().mean((1, 2)) - 5 * torch.arange(12)).abs().max() < 3
    assert tiny_imagenet50().classes == data.classes


def test_a_picture_that_cannot_be_decoded_is_reported(root):
    files = tiny()
    files[f"tiny-imagenet-200/train/{WNIDS[1]}/images/{WNIDS[1]}_2.JPEG"] = jpeg(9)[:200]
    for name, content in zipped(files).items():
        write(root / name, content)
    with pytest.raises(ValueError, match=r"tiny-imagenet-200.zip: not readable .a picture cannot be decoded"):
        tiny_imagenet()


def test_the_compact_part_is_mentioned(root):
    (root / "tiny_imagenet50").mkdir()
    with pytest.raises(DataUnavailableError, match="A part of it is at hand as 'tiny-imagenet-50'"):
        tiny_imagenet()


@pytest.mark.parametrize("names", [None, b"", b"<html>404</html>", b"0\tn1\tcat\n" * 49, b"\x1f\x8b\x08"])
def test_damaged_names_of_classes_are_reported(root, names):
    (root / "tiny_imagenet50").mkdir()
    if names is not None:
        write(root / "tiny_imagenet50" / "classes.txt", names)
    with pytest.raises(ValueError, match=r"tiny_imagenet50.classes\.txt: not readable .*; fetch the file again"):
        tiny_imagenet50("test")


def test_gtsrb_is_not_to_be_downloaded():
    with pytest.raises(DataUnavailableError, match=r"gtsrb10/test.npz is not at hand, .*set ERLANGEN_DATA"):
        gtsrb10("test")


@pytest.mark.parametrize("read", [mnist, fashion_mnist, cifar10, tiny_imagenet, tiny_imagenet50, gtsrb10])
def test_unknown_splits_are_refused(read):
    with pytest.raises(ValueError, match="split: received 'val'; accepted are 'train' and 'test'"):
        read("val")


# The real files

MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
COUNTS = {
    ("mnist", "train"): [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    ("mnist", "test"): MNIST_TEST,
    ("fashion-mnist", "train"): [6000] * 10,
    ("fashion-mnist", "test"): [1000] * 10,
    ("cifar10", "test"): [1000] * 10,
    ("cifar10-lt", "test"): [1000] * 10,
    ("tiny-imagenet-50", "test"): [50] * 50,
    ("gtsrb10", "train"): [470] * 10,
    ("gtsrb10", "test"): [50] * 10,
    ("rotmnist-lt", "train"): [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500],
    ("rotmnist-lt", "test"): MNIST_TEST,
}


@pytest.mark.parametrize(("name", "split"), COUNTS)
def test_real_counts(real, name, split):
    try:
        data = load(name, split)
    except DataUnavailableError as error:
        pytest.skip(f"real data: {error}")
    assert data.counts() == COUNTS[name, split]
    assert data.name == name
    if name == "cifar10":
        digest = hashlib.sha256(data.x.numpy().tobytes()).hexdigest()
        assert digest == "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56"


def test_every_name_is_a_set():
    assert {"glyphs", "mnist", "fashion-mnist", "cifar10", "cifar10-lt", "rotmnist-lt", "tiny-imagenet"} <= {
        *named_sets()
    }
