"""Folders that do not hold the image set, and damaged or foreign files in each layout: what is refused, and how."""

import hashlib
import os
import pickle
import re
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
from nishimori.paper.training._image_originals import ORIGINALS
from nishimori.paper.training._image_sets import image_set

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
        refused(tmp_path, FormatError, r"train_images\.npy is damaged, or not an array: .*Write it again")
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
        refused(tmp_path, FormatError, r"train-00\.webp is truncated, or not an image: .*\. Copy it again\.")


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
    refused(tmp_path, ModuleNotFoundError, r"Reading WebP mosaics needs PIL.*nishimori\[train\]")


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
