"""The paper's image sets: splits and layouts, of small sets made here and of the real ones if `NISHIMORI_DATA` has them."""

import hashlib
import os
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from image_layouts import (
    ARCHIVE,
    INSIDE,
    Image,
    assert_same,
    cifar_batches,
    images,
    publish,
    write_archive,
    write_arrays,
    write_mosaics,
    write_svhn,
    write_unpacked,
)

from nishimori.errors import FormatError
from nishimori_paper.training._image_formats import Images
from nishimori_paper.training._image_originals import ORIGINALS
from nishimori_paper.training._image_sets import _random_split, image_set, names

torch = pytest.importorskip("torch")

DATA = Path(os.environ["NISHIMORI_DATA"]) if "NISHIMORI_DATA" in os.environ else None


# Splits.


def test_the_validation_images_are_the_end_of_the_authors_permutation(tmp_path):
    train, test = images(127), images(5, seed=1)
    write_arrays(tmp_path, train=train, test=test)
    found = image_set("cifar10", tmp_path)
    order = torch.randperm(127, generator=torch.Generator().manual_seed(42)).numpy()
    assert_same(found.train, train.at(order[:115]))
    assert_same(found.validation, train.at(order[115:]))
    assert_same(found.test, test)
    assert (found.name, found.n_classes) == ("cifar10", 10)


@pytest.mark.parametrize(("n", "n_train"), [(73257, 65932), (50000, 45000), (10, 9), (19, 18), (129, 117)])
def test_the_split_is_torchs_own(n, n_train):
    numbered = Images(np.arange(n), np.arange(n))
    train, validation = _random_split(numbered, [0.9, 0.1], Path())
    theirs = torch.utils.data.random_split(range(n), [0.9, 0.1], generator=torch.Generator().manual_seed(42))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(42)).numpy()
    for ours, their, ordered in zip((train, validation), theirs, (order[:n_train], order[n_train:]), strict=True):
        np.testing.assert_array_equal(ours.labels, their)
        np.testing.assert_array_equal(ours.labels, ordered)


def test_the_test_images_of_cifar100_are_halved(tmp_path):
    train, test = images(3, 100), images(20, 100, seed=1)
    write_arrays(tmp_path, train=train, test=test)
    found = image_set("cifar100", tmp_path)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(42)).numpy()
    assert_same(found.train, train)
    assert_same(found.validation, test.at(order[:10]))
    assert_same(found.test, test.at(order[10:]))
    assert found.origin.endswith("test images in half (validation, test) by torch.randperm with seed 42")


@pytest.mark.parametrize("name", names())
def test_a_validation_split_in_the_folder_is_used(tmp_path, name):
    splits = {"train": images(3), "val": images(2, seed=1), "test": images(4, seed=2)}
    write_arrays(tmp_path / name, **splits)
    found = image_set(name, tmp_path)
    assert_same(found.train, splits["train"])
    assert_same(found.validation, splits["val"])
    assert_same(found.test, splits["test"])
    assert found.origin == f"{ORIGINALS[name].title}, arrays in {name}, validation split as found there"


@pytest.mark.parametrize(("name", "n_train", "n_test"), [("cifar10", 9, 9), ("cifar100", 9, 1)])
def test_too_few_images_to_split_some_off_are_refused(tmp_path, name, n_train, n_test):
    write_arrays(tmp_path, train=images(n_train), test=images(n_test))
    with pytest.raises(FormatError, match=r"too few to split off validation images\. Add images, or a split `val`\."):
        image_set(name, tmp_path)


# Layouts.


@pytest.mark.parametrize(("n", "in_each", "columns"), [(230, 100, 100), (23, 8, 4)])
def test_mosaics_are_read_in_order_and_padding_is_left_out(tmp_path, n, in_each, columns):
    splits = {"train": images(n), "val": images(8, seed=1), "test": images(3, seed=2)}
    write_mosaics(tmp_path / "svhn", **splits, in_each=in_each, columns=columns)
    told = []
    found = image_set("svhn", tmp_path, report=lambda *each: told.append(each))
    assert_same(found.train, splits["train"])
    assert_same(found.validation, splits["val"])
    assert_same(found.test, splits["test"])
    assert found.origin == "SVHN, WebP mosaics in svhn, validation split as found there"
    assert told[:3] == [(f"reading train-0{i}.webp", i, 3) for i in range(3)]


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("n_train", [50, 53])
def test_cifar_is_read_from_its_archive_and_from_the_folder_in_it(tmp_path, monkeypatch, name, n_train):
    n_classes = ORIGINALS[name].n_classes
    train, test = images(n_train, n_classes), images(10, n_classes, seed=1)
    batches = cifar_batches(name, train, test)
    write_arrays(tmp_path / "arrays", train=train, test=test)
    write_unpacked(tmp_path / "unpacked" / INSIDE[name], batches)
    (tmp_path / "packed").mkdir()
    write_archive(tmp_path / "packed" / ARCHIVE[name], INSIDE[name], batches)
    publish(monkeypatch, tmp_path / "packed", name)
    expected = image_set(name, tmp_path / "arrays")
    for folder in ("packed", "unpacked", f"unpacked/{INSIDE[name]}"):
        found = image_set(name, tmp_path / folder)
        assert_same(found.train, expected.train)
        assert_same(found.validation, expected.validation)
        assert_same(found.test, expected.test)
    assert f"{INSIDE[name]}, not the published batches, " in found.origin
    assert f"public original {ARCHIVE[name]}, " in image_set(name, tmp_path / "packed").origin
    assert sorted(path.name for path in (tmp_path / "packed").iterdir()) == [ARCHIVE[name]]


def test_unpacked_batches_with_the_published_checksums_are_called_so(tmp_path, monkeypatch):
    batches = cifar_batches("cifar100", images(4), images(4))
    write_unpacked(tmp_path / "cifar-100-python", batches)
    checksums = {name: {name: hashlib.md5(batches[name]).hexdigest()} for name in ("train", "test")}
    monkeypatch.setitem(ORIGINALS, "cifar100", replace(ORIGINALS["cifar100"], batches=checksums))
    assert image_set("cifar100", tmp_path).origin.startswith("CIFAR-100, cifar-100-python, the public original, test images")


def test_svhn_is_read_from_its_matlab_files_where_ten_means_zero(tmp_path, monkeypatch):
    train, test = images(30), images(20, seed=1)
    write_svhn(tmp_path, train=train, test=test)
    publish(monkeypatch, tmp_path, "svhn")
    found = image_set("svhn", tmp_path)
    assert 0 in test.labels
    assert_same(found.test, test)
    assert len(found.train) == 27


def test_the_subfolder_of_that_name_comes_first(tmp_path):
    write_arrays(tmp_path, train=images(10), test=images(1))
    write_arrays(tmp_path / "svhn", train=images(10), test=images(2))
    (tmp_path / "cifar10").mkdir()
    assert len(image_set("svhn", tmp_path).test) == 2
    assert len(image_set("cifar10", str(tmp_path)).test) == 1


# The real image sets.

COUNTS = {"svhn": (65932, 7325, 26032), "cifar10": (45000, 5000, 10000), "cifar100": (45000, 5000, 10000)}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.skipif(not DATA or not (DATA / "unpack.py").exists(), reason="NISHIMORI_DATA does not name a folder with mosaics")
def test_the_real_mosaics_are_complete_and_as_their_own_script_unpacks_them(name, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)  # which the script changes
    tiles = runpy.run_path(str(DATA / "unpack.py"))["tiles"](DATA / name / "test-00.webp")
    found = image_set(name, DATA)
    assert (len(found.train), len(found.validation), len(found.test)) == COUNTS[name]
    assert all(set(each.labels) == set(range(found.n_classes)) for each in (found.train, found.validation, found.test))
    np.testing.assert_array_equal(found.test.pixels[: len(tiles)], tiles)
