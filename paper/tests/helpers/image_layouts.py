"""Small image sets, written in each layout that `nishimori_paper` reads, for tests."""

import hashlib
import io
import struct
import tarfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.io

from nishimori_paper.training._image_formats import Images
from nishimori_paper.training._image_originals import ORIGINALS

Image = pytest.importorskip("PIL.Image")


def images(n, n_classes=10, seed=0):
    rng = np.random.default_rng(seed)
    return Images(rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), rng.integers(0, n_classes, n))


def assert_same(found, expected):
    np.testing.assert_array_equal(found.pixels, expected.pixels)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert (found.pixels.dtype, found.labels.dtype) == (np.uint8, np.int64)


def write_arrays(folder, **splits):
    folder.mkdir(parents=True, exist_ok=True)
    for split, each in splits.items():
        np.save(folder / f"{split}_images.npy", each.pixels)
        np.save(folder / f"{split}_labels.npy", each.labels)


def write_mosaics(folder, *, in_each=300, columns=100, **splits):
    folder.mkdir(parents=True, exist_ok=True)
    for split, each in splits.items():
        np.save(folder / f"{split}-labels.npy", each.labels.astype(np.uint8))
        for i, start in enumerate(range(0, len(each), in_each)):
            tiles = each.pixels[start : start + in_each]
            rows = -(-len(tiles) // columns)
            padded = np.zeros((rows * columns, 32, 32, 3), np.uint8)
            padded[: len(tiles)] = tiles
            picture = padded.reshape(rows, columns, 32, 32, 3).transpose(0, 2, 1, 3, 4).reshape(rows * 32, columns * 32, 3)
            Image.fromarray(picture).save(folder / f"{split}-{i:02}.webp", lossless=True, quality=0, method=0)


def python_2_pickle(**content):
    """What `cPickle.dump(content, stream, 2)` of Python 2 writes: strings are bytes, and modules of NumPy have old names."""

    def text(value):
        return b"T" + struct.pack("<i", len(value)) + value

    def whole(value):
        return b"J" + struct.pack("<i", value)

    def array(value):
        empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + text(b"b") + b"tR"
        dtype = b"cnumpy\ndtype\n(" + text(value.dtype.str.lstrip("|<").encode()) + b"K\x00K\x01tR"
        dtype += b"(K\x03" + text(value.dtype.str[:1].encode()) + b"NNN" + whole(-1) * 2 + b"K\x00tb"
        shape = b"(" + b"".join(map(whole, value.shape)) + b"t"
        return empty + b"(K\x01" + shape + dtype + b"\x89" + text(value.tobytes()) + b"tb"

    def any_of(value):
        if isinstance(value, np.ndarray):
            return array(value)
        return b"](" + b"".join(map(whole, value)) + b"e" if isinstance(value, list) else text(value)

    return b"\x80\x02}(" + b"".join(text(key.encode()) + any_of(value) for key, value in content.items()) + b"u."


def cifar_batch(each, labels="labels"):
    rows = each.pixels.transpose(0, 3, 1, 2).reshape(len(each), 3072)
    extra = {"coarse_labels": [0] * len(each)} if labels == "fine_labels" else {"batch_label": b"batch \xff"}
    return python_2_pickle(data=rows, **{labels: each.labels.tolist()}, **extra)


def cifar_batches(name, train, test):
    if name == "cifar100":
        return {"train": cifar_batch(train, "fine_labels"), "test": cifar_batch(test, "fine_labels"), "meta": b"no batch"}
    parts = [train.at(part) for part in np.array_split(np.arange(len(train)), 5)]
    return {f"data_batch_{i}": cifar_batch(part) for i, part in enumerate(parts, 1)} | {"test_batch": cifar_batch(test)}


def write_unpacked(folder, batches):
    folder.mkdir(parents=True)
    for name, content in batches.items():
        (folder / name).write_bytes(content)


def write_archive(path, inside, batches):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in batches.items():
            member = tarfile.TarInfo(f"{inside}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_svhn(folder, **splits):
    for split, each in splits.items():
        labels = np.where(each.labels == 0, 10, each.labels).astype(np.uint8)[:, None]
        content = {"X": each.pixels.transpose(1, 2, 3, 0), "y": labels}
        scipy.io.savemat(folder / f"{split}_32x32.mat", content, do_compression=True)


def publish(monkeypatch, folder, name):
    """Make the files in ``folder`` count as the published ones."""
    original = ORIGINALS[name]
    files = [
        replace(file, md5=hashlib.md5((folder / file.name).read_bytes()).hexdigest()) if (folder / file.name).exists() else file
        for file in original.files
    ]
    monkeypatch.setitem(ORIGINALS, name, replace(original, files=files))


INSIDE = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
ARCHIVE = {"cifar10": "cifar-10-python.tar.gz", "cifar100": "cifar-100-python.tar.gz"}
