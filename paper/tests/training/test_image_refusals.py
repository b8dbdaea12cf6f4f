"""Folders that do not hold the image set, and damaged or foreign files in each layout: what is refused, and how."""

import hashlib
import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.io
from image_layouts import (
    ARCHIVE,
    INSIDE,
    Image,
    cifar_batch,
    cifar_batches,
    images,
    publish,
    python_2_pickle,
    write_archive,
    write_arrays,
    write_mosaics,
    write_svhn,
    write_unpacked,
)

from nishimori.errors import FormatError, InputError
from nishimori_paper.training import _image_formats
from nishimori_paper.training._image_originals import ORIGINALS
from nishimori_paper.training._image_sets import image_set

pytest.importorskip("torch")


def refused(folder, error, match, name="cifar10"):
    with pytest.raises(error, match=match) as caught:
        image_set(name, folder)
    return str(caught.value)


def test_an_unknown_set_is_refused_with_the_list(tmp_path):
    refused(tmp_path, InputError, "`name` must be one of svhn, cifar10, cifar100, got 'mnist'", name="mnist")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path / "file"):
        refused(path, FileNotFoundError, rf"There is no folder {re.escape(str(path))} to read CIFAR-10 from\.")


def test_a_folder_without_the_set_says_what_it_may_hold_and_what_was_found(tmp_path):
    message = refused(tmp_path, FileNotFoundError, "does not hold CIFAR-10")
    assert "Found: nothing." in message
    (tmp_path / "photos").mkdir()
    (tmp_path / "notes.txt").write_text("")
    message = refused(tmp_path, FileNotFoundError, "does not hold SVHN", name="svhn")
    for text in ("train_32x32.mat and test_32x32.mat", "train-00.webp", "train_images.npy", "Found: notes.txt, photos/."):
        assert text in message
    for i in range(9):
        (tmp_path / f"{i}.jpg").write_text("")
    message = refused(tmp_path, FileNotFoundError, "0.jpg, .*, 7.jpg and 3 more")
    assert "cifar-10-python.tar.gz or the folder cifar-10-batches-py unpacked from it" in message
    assert "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz" in message


def test_a_folder_named_after_another_set_is_not_taken_for_this_one(tmp_path):
    write_arrays(tmp_path / "cifar10", train=images(10), test=images(1))
    refused(tmp_path / "cifar10", InputError, "is a folder of cifar10, not of svhn", name="svhn")


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_missing_split_is_named(tmp_path, split):
    splits = {"train": images(10), "test": images(2), "val": images(2)}
    splits.pop(split)
    write_arrays(tmp_path, **splits)
    refused(tmp_path, FileNotFoundError, f"has no split '{split}' of CIFAR-10, only ")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"pixels": np.zeros((9, 32, 32, 3), np.uint8)}, "there are 9 images and 10 labels"),
        ({"pixels": np.zeros((10, 32, 32, 3))}, r"images must be uint8 of shape \(n, 32, 32, 3\), got float64"),
        ({"pixels": np.zeros((10, 3, 32, 32), np.uint8)}, r"got uint8 of shape \(10, 3, 32, 32\)"),
        ({"pixels": np.uint8(0)}, r"got uint8 of shape \(\)"),
        ({"labels": np.zeros(10)}, r"labels must be integers of shape \(n,\), got float64"),
        ({"labels": np.zeros((10, 1), int)}, r"got int64 of shape \(10, 1\)"),
        (
            {"labels": np.array([*range(9), 10])},
            "labels must be from 0 to 9, got 0 to 10. Check that this is the right",
        ),
        ({"labels": np.array([*range(9), -1])}, "got -1 to 8"),
        ({"pixels": np.zeros((0, 32, 32, 3), np.uint8), "labels": np.zeros(0, int)}, "there are no images"),
    ],
)
def test_arrays_that_are_not_images_are_refused(tmp_path, change, match):
    write_arrays(tmp_path, train=replace(images(10), **change), test=images(2))
    refused(tmp_path, FormatError, rf"train_\*\.npy: .*{match}")


def test_arrays_that_cannot_be_read_are_refused(tmp_path):
    write_arrays(tmp_path, train=images(10), test=images(2))
    path = tmp_path / "train_images.npy"
    whole = path.read_bytes()
    for content in (whole[:-1], whole[:50], b"", b"text", pickle.dumps([1])):
        path.write_bytes(content)
        refused(
            tmp_path,
            FormatError,
            r"train_images\.npy is (truncated or damaged|not a plain NumPy array|empty).* Save it again with",
        )
    with path.open("wb") as stream:
        np.savez(stream, a=1)
    refused(tmp_path, FormatError, "several arrays")
    path.unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*train_images\.npy")


def test_a_truncated_mosaic_is_refused(tmp_path):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    path = tmp_path / "train-00.webp"
    whole = path.read_bytes()
    for length in (0, 10, 100, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:length])
        refused(tmp_path, FormatError, r"train-00\.webp is truncated, not a WebP image, or too large: .*\. Copy it again\.")


@pytest.mark.parametrize("format", ["PNG", "EPS", "GIF", "BMP", "JPEG", "TIFF"])
def test_an_image_is_opened_only_in_the_format_that_its_name_says(tmp_path, format, monkeypatch):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    Image.new("RGB", (3200, 32)).save(tmp_path / "train-00.webp", format)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("another program was started"))
    refused(tmp_path, FormatError, r"train-00\.webp is truncated, not a WebP image, or too large: cannot identify")


def test_an_image_of_too_many_pixels_is_not_decoded(tmp_path, monkeypatch):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    monkeypatch.setattr(_image_formats, "_MOST_PIXELS", 3200 * 32 - 1)
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("the image was decoded"))
    refused(tmp_path, FormatError, r"train-00\.webp is .* too large: it has 3200 x 32 pixels\. Copy it again\.")


@pytest.mark.parametrize("name", ["train-labels.npy", "train-00.webp"])
def test_files_damaged_in_any_way_are_refused_or_read(tmp_path, name):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    path, rng, n_refused = tmp_path / name, np.random.default_rng(0), 0
    whole = path.read_bytes()
    start = whole[:200] if name.endswith(".webp") else whole
    for _ in range(200):
        changed = bytearray(start)
        for _ in range(2):
            changed[rng.integers(len(start))] ^= rng.integers(1, 256)
        path.write_bytes(bytes(changed) + whole[len(start) :])
        try:
            image_set("cifar10", tmp_path)
        except FormatError as error:
            n_refused += "\n" not in str(error)
    assert n_refused > 50


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (2**62, 0), (10**25, 0)])
def test_labels_whose_header_asks_for_memory_are_refused(tmp_path, shape):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    with (tmp_path / "train-labels.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"shape": shape, "fortran_order": False, "descr": "|u1"})
        stream.write(bytes(10) if shape[-1] else b"")
    refused(tmp_path, FormatError, r"train-(labels\.npy is (truncated or )?damaged|\*: )")


def test_a_picture_that_is_not_a_mosaic_is_refused(tmp_path):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    Image.new("RGB", (320, 40)).save(tmp_path / "train-00.webp")
    refused(tmp_path, FormatError, "must consist of tiles of 32 x 32 pixels, got 40 x 320")


def test_a_missing_mosaic_is_named(tmp_path):
    write_mosaics(tmp_path, train=images(30), test=images(2), in_each=10, columns=5)
    for number, match in ((2, "there are 20 images and 30 labels"), (0, r"There is no .*train-00\.webp")):
        (tmp_path / f"train-0{number}.webp").unlink()
        refused(tmp_path, (FormatError, FileNotFoundError), match)
    (tmp_path / "train-01.webp").unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*train-00\.webp")
    write_mosaics(tmp_path, train=images(30))
    (tmp_path / "train-labels.npy").unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*train-labels\.npy")


def test_labels_of_another_number_than_the_tiles_are_refused(tmp_path):
    write_mosaics(tmp_path, train=images(24), test=images(2), in_each=8, columns=4)
    for n, tiles in ((25, 24), (16, 24), (3, 24)):
        np.save(tmp_path / "train-labels.npy", np.zeros(n, np.uint8))
        refused(tmp_path, FormatError, f"there are {tiles} images and {n} labels")


def test_mosaics_without_pillow_say_what_to_install(tmp_path, monkeypatch):
    write_mosaics(tmp_path, train=images(10), test=images(2))
    for module in [each for each in sys.modules if each.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    refused(tmp_path, ModuleNotFoundError, r"Reading WebP mosaics needs PIL.*nishimori-paper\[train\]")


@pytest.mark.parametrize("damage", [lambda whole: whole[:-7], lambda whole: whole[:99] + b"?" + whole[100:], lambda whole: b""])
def test_a_damaged_archive_is_named_with_both_checksums(tmp_path, monkeypatch, damage):
    path = tmp_path / ARCHIVE["cifar10"]
    write_archive(path, INSIDE["cifar10"], cifar_batches("cifar10", images(20), images(2)))
    publish(monkeypatch, tmp_path, "cifar10")
    path.write_bytes(damage(path.read_bytes()))
    message = refused(tmp_path, FormatError, "is truncated, damaged, or not the published file")
    (file,) = ORIGINALS["cifar10"].files
    found = hashlib.md5(path.read_bytes()).hexdigest()
    assert f"{path} is truncated" in message
    assert f"must be {file.md5}, got {found}" in message
    assert message.endswith(f"Remove it and download {file.url} again.")


def test_a_damaged_matlab_file_is_named(tmp_path, monkeypatch):
    write_svhn(tmp_path, train=images(20), test=images(10))
    publish(monkeypatch, tmp_path, "svhn")
    path = tmp_path / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:-100])
    refused(tmp_path, FormatError, r"test_32x32\.mat is truncated, damaged", name="svhn")
    path.unlink()
    refused(tmp_path, FileNotFoundError, r"There is no .*test_32x32\.mat\. Download http://ufldl", name="svhn")


@pytest.mark.parametrize("content", [b"MATLAB" * 100, b"", None], ids=["text", "empty", "other variables"])
def test_a_matlab_file_of_something_else_is_refused(tmp_path, monkeypatch, content):
    write_svhn(tmp_path, train=images(20), test=images(10))
    path = tmp_path / "train_32x32.mat"
    if content is None:
        scipy.io.savemat(path, {"Z": np.zeros(3)})
    else:
        path.write_bytes(content)
    publish(monkeypatch, tmp_path, "svhn")
    refused(tmp_path, FormatError, r"train_32x32\.mat does not hold `X` and `y` of SVHN", name="svhn")


def test_an_archive_without_a_batch_is_refused(tmp_path, monkeypatch):
    batches = cifar_batches("cifar10", images(20), images(2))
    del batches["data_batch_3"]
    write_archive(tmp_path / ARCHIVE["cifar10"], INSIDE["cifar10"], batches)
    publish(monkeypatch, tmp_path, "cifar10")
    refused(tmp_path, FormatError, r"has no data_batch_3\. Download it again\.")
    write_unpacked(tmp_path / "other" / INSIDE["cifar10"], batches)
    refused(tmp_path / "other", FileNotFoundError, r"There is no .*data_batch_3\. Unpack the archive again\.")


class Mischief:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_a_pickled_batch_cannot_call_functions(tmp_path):
    batches = cifar_batches("cifar10", images(20), images(2))
    target = tmp_path / "made"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        batches["data_batch_2"] = pickle.dumps({"data": Mischief(target), "labels": [0]}, protocol)
        folder = tmp_path / str(protocol)
        write_unpacked(folder / INSIDE["cifar10"], batches)
        refused(folder, FormatError, r"data_batch_2: damaged, or not a batch: it refers to .*\.mkdir, which no batch needs")
        assert not target.exists()


def instructions(data, labels=b"](K\x01e"):
    """A pickle in which these instructions make the images and the labels."""
    return b"\x80\x02}(U\x04data" + data + b"U\x06labels" + labels + b"u."


def dtype(code):
    return b"cnumpy\ndtype\n(U\x02" + code + b"K\x00K\x01tR(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"


def array(shape, of, content):
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
    return made + b"(K\x01" + shape + of + b"\x89U" + bytes([len(content)]) + content + b"tb"


HOSTILE = {
    # The dtype says that it has no objects, so NumPy's own unpickling takes the bytes for addresses of objects.
    "objects": instructions(array(b"(K\x02t", dtype(b"O8"), b"A" * 16)),
    "a call of the class of arrays": instructions(b"cnumpy\nndarray\n(K\x02\x85" + dtype(b"O8") + b"U\x10" + b"A" * 16 + b"tR"),
    "a list of itself": instructions(b"U\x01x", b"]q\x00(" + b"h\x00" * 20 + b"e"),
    "lists within lists": instructions(b"U\x01x", b"]" * 100_000 + b"a" * 99_999),
    "a persistent name": instructions(b"Pfile\n"),
    "an extension": instructions(b"\x82\x01"),
    "an object of a class": instructions(b"(cos\nsystem\no"),
    "an instance": instructions(b"(ios\nsystem\n"),
    "no mark": instructions(b"t"),
    "too few values": b"\x80\x02\x87.",
    "a number as a name": b"\x80\x02}K\x01K\x01s.",
    "a list as a name": b"\x80\x02}]K\x01s.",
    "an array larger than its bytes": instructions(array(b"(J\xff\xff\xff\x7fM\x00\x0ct", dtype(b"u1"), b"A")),
    "half of an array": instructions(b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_batch_made_to_do_harm_is_refused(tmp_path, what):
    write_unpacked(
        tmp_path / INSIDE["cifar10"], cifar_batches("cifar10", images(20), images(2)) | {"data_batch_2": HOSTILE[what]}
    )
    refused(tmp_path, FormatError, r"data_batch_2: (damaged, or )?not a batch.* Download it again\.$")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_batches_written_by_python_3_are_read_unless_they_need_its_functions(tmp_path, protocol):
    train, test = images(20), images(2)
    batches = cifar_batches("cifar10", train, test)
    part = train.at(np.array_split(np.arange(20), 5)[1])
    rows = part.pixels.transpose(0, 3, 1, 2).reshape(len(part), 3072)
    batches["data_batch_2"] = pickle.dumps({"labels": part.labels.tolist(), "data": rows, "x": {"y": (1, 2.5, None)}}, protocol)
    write_unpacked(tmp_path / INSIDE["cifar10"], batches)
    if protocol < 3:  # bytes are written as a call of a codec
        refused(tmp_path, FormatError, r"it refers to _codecs\.encode, which no batch needs")
    elif protocol == 5:  # NumPy has another function for it
        refused(tmp_path, FormatError, r"it refers to numpy\._core\.numeric\._frombuffer, which no batch needs")
    else:
        found = image_set("cifar10", tmp_path)
        assert len(found.train) + len(found.validation) == 20


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "damaged, or not a batch"),
        (b"text", "damaged, or not a batch"),
        (cifar_batch(images(4))[:-500], "damaged, or not a batch"),
        (python_2_pickle(data=np.zeros((2, 3072), np.uint8)), "not a batch of CIFAR-10, which has `data` and `labels`"),
        (python_2_pickle(data=b"text", labels=[1]), "not a batch of CIFAR-10"),
        (pickle.dumps([1, 2], 2), "not a batch of CIFAR-10"),
        (python_2_pickle(data=np.zeros((2, 3071), np.uint8), labels=[1, 2]), r"shape \(n, 3072\), got \(2, 3071\)"),
        (python_2_pickle(data=np.zeros((2, 3072), np.uint8), labels=[1]), "there are 2 images and 1 labels"),
        (python_2_pickle(data=np.zeros((2, 3072), np.uint8), labels=[1, 10]), "from 0 to 9, got 1 to 10"),
        (python_2_pickle(data=np.zeros((2, 3072)), labels=[1, 2]), "images must be uint8"),
    ],
)
def test_a_file_that_is_not_a_batch_is_refused(tmp_path, content, match):
    batches = cifar_batches("cifar10", images(20), images(2)) | {"data_batch_2": content}
    write_unpacked(tmp_path / INSIDE["cifar10"], batches)
    refused(tmp_path, FormatError, f"data_batch_2: .*{match}")
